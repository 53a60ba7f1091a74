"""What the tests of MCP share: rough servers, and a line on which they report."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.mcp.config import ServerConfig

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
def rough(signals: Signals) -> Callable[..., ServerConfig]:
    """Makes the configuration of a rough server; see ``rough_server.py`` for the options."""

    def make(
        name: str = "rough",
        *,
        trusted: bool = True,
        timeout: float = 60,
        env: dict[str, str] | None = None,
        **options: Any,
    ) -> ServerConfig:
        return ServerConfig(
            name=name,
            command=sys.executable,
            args=("-I", "-S", str(ROUGH_SERVER), json.dumps({"signal": signals.port, **options})),
            env=env or {},
            trusted=trusted,
            timeout=timeout,
        )

    return make
