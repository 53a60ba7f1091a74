"""What the tests of MCP share: rough servers, a line on which they report, and a host for them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from agent.mcp.host import McpHost, Surroundings
from agent.mcp.servers import Http, ServerConfig, Stdio
from agent.mcp.timeouts import Timeouts

ROUGH_SERVER = Path(__file__).parent / "rough_server.py"


class Signals:
    """Events of rough servers, in the order in which they came."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.pids: set[int] = set()

    async def next(self, event: str) -> dict[str, Any]:
        """The next event of this name; others before it are passed over."""
        while True:
            told = await self.queue.get()
            if told["event"] == event:
                return told

    @staticmethod
    def is_alive(pid: int) -> bool:
        """Whether a process runs; one that ended and was never waited for does not."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        status = Path(f"/proc/{pid}/stat")
        return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.fixture
async def signals() -> AsyncIterator[Signals]:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = json.loads(await reader.readline())
        line.pids.add(told["pid"])
        line.queue.put_nowait(told)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    line = Signals(server.sockets[0].getsockname()[1])
    yield line
    server.close()
    await server.wait_closed()
    left = [pid for pid in line.pids if line.is_alive(pid)]
    assert left == [], "every server must have ended with its host"


@pytest.fixture
def rough(signals: Signals, tmp_path: Path) -> Callable[..., ServerConfig]:
    """Makes the configuration of a rough server; see ``rough_server.py`` for the options."""

    def make(
        name: str = "rough",
        *,
        trusted: bool = True,
        timeout: float = 60,
        env: dict[str, str] | None = None,
        **options: Any,
    ) -> ServerConfig:
        told = json.dumps({"signal": signals.port, **options})
        if len(told) > 100_000:  # more than an argument may have
            (tmp_path / f"{name}.json").write_text(told)
            told = f"@{tmp_path / name}.json"
        return ServerConfig(
            name=name,
            transport=Stdio(sys.executable, ("-I", "-S", str(ROUGH_SERVER), told), env=env or {}),
            trusted=trusted,
            timeout=timeout,
        )

    return make


Serve = Callable[..., Awaitable[ServerConfig]]


@pytest.fixture
async def serve(rough: Callable[..., ServerConfig], signals: Signals) -> AsyncIterator[Serve]:
    """Makes the configuration of a rough server over ``stdio``, ``streamable`` or ``sse``; one
    that is reached over HTTP is started, and killed after the test."""
    started: list[asyncio.subprocess.Process] = []

    async def make(over: str, name: str = "rough", **options: Any) -> ServerConfig:
        if over == "stdio":
            return rough(name, **options)
        config = rough(name, http=over, **options)
        assert isinstance(config.transport, Stdio)
        command = (config.transport.command, *config.transport.args)
        started.append(await asyncio.create_subprocess_exec(*command))
        port = (await signals.next("listening"))["port"]
        path = "sse" if over == "sse" else "mcp"
        return replace(config, transport=Http(f"http://127.0.0.1:{port}/{path}", sse=over == "sse"))

    yield make
    for process in started:
        if process.returncode is None:
            process.send_signal(signal.SIGKILL)
        await process.wait()


@dataclass
class Hosted:
    """A host with a server that is under test, and one beside it that is well.

    Attributes:
        told: What the user was told while it ran.
    """

    host: McpHost
    told: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, sentence: str) -> None:
        self.told.append(sentence)
        self.news.set()

    async def heard(self, number: int) -> list[str]:
        """What the user was told, when it is so many sentences."""
        while len(self.told) < number:
            self.news.clear()
            await self.news.wait()
        return self.told

    def tool(self, name: str) -> BaseTool:
        """A tool of the server under test, by the server's own name."""
        tools = self.host.server("rough").tools
        (found,) = (tool for tool in tools.values() if tool.definition["name"] == name)
        return found

    async def outcome(self, tool: str, **arguments: Any) -> Any:
        """What a call gives or raises; the server beside answers meanwhile and afterwards."""
        call = self.tool(tool).ainvoke(arguments)
        given, beside = await asyncio.gather(call, self.beside(), return_exceptions=True)
        assert beside is None
        await self.beside()
        return given

    async def message(self, tool: str, **arguments: Any) -> ToolMessage:
        """The message that a call becomes, with what is kept beside its text."""
        found = self.tool(tool)
        call = {"type": "tool_call", "id": "1", "name": found.name, "args": arguments}
        message = await found.ainvoke(call)
        assert isinstance(message, ToolMessage)
        return message

    async def beside(self) -> None:
        """The server beside is well."""
        (echo,) = (tool for tool in self.host.tools if tool.name == "well__echo")
        assert "arguments" in await echo.ainvoke({})
        assert "well" not in self.host.problems


Hosting = Callable[..., AbstractAsyncContextManager[Hosted]]


@pytest.fixture
def hosting(rough: Callable[..., ServerConfig], tmp_path: Path) -> Hosting:
    """Opens a host for a server, with one beside it."""

    @asynccontextmanager
    async def open_host(
        config: ServerConfig, *, timeouts: Timeouts | None = None, **around: Any
    ) -> AsyncIterator[Hosted]:
        surroundings = Surroundings(
            os.environ,
            tmp_path,
            timeouts or Timeouts(connect=60, listing=60),
            tell=lambda sentence: hosted.tell(sentence),
            **around,
        )
        well = rough("well", only=["echo"])
        hosted = Hosted(McpHost([config, well], surroundings))
        async with hosted.host:
            await hosted.beside()
            yield hosted
            await hosted.beside()

    return open_host
