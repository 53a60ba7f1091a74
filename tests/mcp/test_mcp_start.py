"""What a start waits for: servers whose tools nobody knows yet, as long as a person wants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from agent.mcp.host import McpHost, Surroundings
from agent.mcp.pins import Pins
from agent.mcp.servers import Http, ServerConfig
from agent.mcp.timeouts import Timeouts
from agent.mcp.waiting import Waiting
from tests.mcp.conftest import Serve
from tests.mcp.raw_http import RawHttp, Request


class Slow:
    """A server that answers nothing before it is let."""

    def __init__(self) -> None:
        self.http, self.may = RawHttp(), asyncio.Event()
        self.http.answers["initialize"] = self._later

    async def _later(self, request: Request) -> None:
        await self.may.wait()
        del self.http.answers["initialize"]
        await self.http._answer(request)

    @property
    def config(self) -> ServerConfig:
        return ServerConfig("slow", Http(self.http.url), trusted=True)


@pytest.fixture
async def slow() -> AsyncIterator[Slow]:
    server = Slow()
    await server.http.start()
    yield server
    server.may.set()
    await server.http.stop()


@asynccontextmanager
async def gone_on(host: McpHost, waiting: Waiting, *names: str) -> AsyncIterator[McpHost]:
    """The host, whose start went on once nobody but these was waited for."""
    entering = asyncio.create_task(host.__aenter__())
    await waiting.begun.wait()
    while waiting.servers != names:
        assert not entering.done()
        await asyncio.sleep(0.01)
    assert waiting.seconds > 0
    waiting.go_on()
    async with AsyncExitStack() as stack:
        stack.push_async_exit(await entering)
        yield host


async def test_a_start_goes_on_without_a_server_that_does_not_answer(
    slow: Slow, serve: Serve, tmp_path: Path
) -> None:
    waiting, told = Waiting(), asyncio.Queue[str]()
    around = Surroundings(os.environ, tmp_path, waiting=waiting, tell=told.put_nowait)
    host = McpHost([slow.config, await serve("stdio", "well", only=["echo"])], around)
    async with gone_on(host, waiting, "slow"):
        assert waiting.servers == ()
        assert [tool.name for tool in host.tools] == ["well__echo"]
        assert "arguments" in await host.tools[0].ainvoke({})
        assert host.complaints == [
            "MCP server slow: it has not answered yet, and is left out until it does"
        ]
        host.warm()
        slow.may.set()
        sentence = await told.get()
        assert sentence == "MCP server slow: it is ready now, and a new session has its 2 tool(s)"
        assert host.complaints == []
        assert {tool.name for tool in host.tools} == {"well__echo", "slow__read", "slow__write"}
        (read,) = (tool for tool in host.tools if tool.name == "slow__read")
        assert await read.ainvoke({}) == "fine"
        assert told.empty()


async def test_a_late_server_is_pinned_and_kept_like_any_other(slow: Slow, tmp_path: Path) -> None:
    waiting, told, pins = Waiting(), asyncio.Queue[str](), Pins(tmp_path)
    pins.confirm(slow.config, "ana")
    around = Surroundings(
        os.environ, tmp_path, pins=pins, by="ana", waiting=waiting, tell=told.put_nowait
    )
    async with gone_on(McpHost([slow.config], around), waiting, "slow"):
        assert pins.definitions(slow.config) is None
        slow.may.set()
        assert "it is ready now" in await told.get()
        assert set(pins.definitions(slow.config) or {}) == {"read", "write"}
    async with McpHost([slow.config], around):
        assert slow.http.sessions == 1
        assert waiting.servers == (), "what is pinned is not waited for"


async def test_a_late_server_that_never_comes_says_why(slow: Slow, tmp_path: Path) -> None:
    waiting, told = Waiting(), asyncio.Queue[str]()
    bounds = Timeouts(connect=0.5, listing=0.5)
    around = Surroundings(
        os.environ, tmp_path, timeouts=bounds, waiting=waiting, tell=told.put_nowait
    )
    async with gone_on(McpHost([slow.config], around), waiting, "slow") as host:
        why = "MCP server slow: it did not answer within 0.5 seconds"
        assert await told.get() == why
        assert host.complaints == [why]


async def test_a_host_ends_while_a_server_is_late(slow: Slow, serve: Serve, tmp_path: Path) -> None:
    waiting = Waiting()
    hanging = await serve("stdio", "hanging", silent_at="initialize")
    around = Surroundings(os.environ, tmp_path, waiting=waiting)
    async with gone_on(McpHost([slow.config, hanging], around), waiting, "slow", "hanging"):
        pass  # the fixture checks that no process is left


async def test_nobody_is_waited_for_before_and_after() -> None:
    waiting = Waiting()
    waiting.go_on()
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    await waiting.until_opened({"quick": done})
    waiting.go_on()
    assert (waiting.servers, waiting.seconds) == ((), 0.0)
