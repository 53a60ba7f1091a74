"""What the MCP host costs: a call beside a bare SDK session, and servers made ready side by side.

Calls are measured on two servers over stdio: one of the standard library alone, which answers at
once, so that all that is measured is the client; and the order desk. ``raw`` is the SDK's
``ClientSession`` held open, ``host`` our tool's own work, ``ainvoke`` the same with what LangChain
adds around any tool, ``adapter`` the tools of ``langchain-mcp-adapters`` as it makes them by
default, with a session (a process) a call.

    python -m bench.mcp [--rounds 9] [--calls 200] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.client import MultiServerMCPClient
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from agent.mcp.host import McpHost, Surroundings
from agent.mcp.servers import ServerConfig, Stdio
from bench.figures import Figure, as_json, middle, ratio, table

HERE = Path(__file__).parent
SLOWEST = 1.5
"""Seconds that the slowest of ten servers takes to start; the others take less."""

Call = Callable[[], Awaitable[Any]]


def compare(rounds: int, calls: int) -> list[Figure]:
    """All figures."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_compare(Path(folder), rounds, calls))


async def _compare(folder: Path, rounds: int, calls: int) -> list[Figure]:
    small = Stdio(sys.executable, ("-I", "-S", str(HERE / "mcp_server.py")))
    desk = Stdio(
        sys.executable,
        ("-P", "-m", "mcp_servers.orders"),
        {"ORDER_DESK_DB": str(folder / "desk.db")},
        HERE.parent,
    )
    figures: list[Figure] = []
    for name, child, tool, arguments in (
        ("small server", small, "read", {"n": 1}),
        ("order desk", desk, "get_order", {"order_id": "A1"}),
    ):
        found = await _calls(folder, child, tool, arguments, rounds, calls)
        figures += [
            Figure(f"{name}: a call, raw session", middle(found, "raw"), "ms"),
            Figure(f"{name}: a call through the host", middle(found, "host"), "ms"),
            Figure(f"{name}: host / raw", ratio(found, "host", "raw"), "×", 1.3),
            Figure(f"{name}: the same as LangChain calls it", middle(found, "ainvoke"), "ms"),
            Figure(f"{name}: the adapter's call", middle(found, "adapter"), "ms"),
            Figure(f"{name}: host / adapter", 100 * ratio(found, "host", "adapter"), "%", 2),
        ]
    starts = [await _starts(folder) for _ in range(max(rounds // 3, 1))]
    return [
        *figures,
        Figure("the slowest of ten servers, ready alone", middle(starts, "slowest"), "ms"),
        Figure("ten servers ready", middle(starts, "ten"), "ms"),
        Figure("ten / the slowest", ratio(starts, "ten", "slowest"), "×", 1.3),
    ]


async def _calls(
    folder: Path, child: Stdio, tool: str, arguments: dict[str, Any], rounds: int, calls: int
) -> list[dict[str, float]]:
    """Milliseconds of one call, a round each; the three ways take turns."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(_raw(child))
        held = await stack.enter_async_context(_host(folder, {"bench": child}))
        ours = next(t for t in held.tools if t.name == f"bench__{tool}")
        adapted = await _adapter(child, tool)
        ways: dict[str, tuple[Call, int]] = {
            "raw": (lambda: session.call_tool(tool, arguments), calls),
            "host": (lambda: ours._arun(**arguments), calls),
            "ainvoke": (lambda: ours.ainvoke(arguments), calls),
            "adapter": (lambda: adapted.ainvoke(arguments), 1),
        }
        await _timed(*ways["raw"])
        await _timed(*ways["host"])
        return [{name: await _timed(*way) for name, way in ways.items()} for _ in range(rounds)]


async def _timed(call: Call, times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        await call()
    return 1000 * (time.perf_counter() - began) / times


@asynccontextmanager
async def _raw(child: Stdio) -> AsyncIterator[ClientSession]:
    parameters = StdioServerParameters(
        command=child.command, args=list(child.args), env=dict(child.env), cwd=child.cwd
    )
    async with stdio_client(parameters) as streams, ClientSession(*streams) as session:
        await session.initialize()
        await session.list_tools()  # else the first call does
        yield session


def _host(folder: Path, children: dict[str, Stdio]) -> McpHost:
    configs = [ServerConfig(name, child, trusted=True) for name, child in children.items()]
    return McpHost(configs, Surroundings(os.environ, folder))


async def _adapter(child: Stdio, tool: str) -> BaseTool:
    connection: Any = {
        "transport": "stdio",
        "command": child.command,
        "args": list(child.args),
        "env": dict(child.env),
        "cwd": child.cwd,
    }
    tools = await MultiServerMCPClient({"bench": connection}).get_tools()
    return next(one for one in tools if one.name == tool)


async def _starts(folder: Path) -> dict[str, float]:
    """Milliseconds until the slowest server is ready alone, and until ten are."""
    children = {
        f"s{number}": Stdio(
            sys.executable,
            ("-I", "-S", str(HERE / "mcp_server.py"), f"{SLOWEST * (number + 1) / 10}"),
        )
        for number in range(10)
    }
    found = {}
    for name, chosen in (("slowest", {"s9": children["s9"]}), ("ten", children)):
        began = time.perf_counter()
        async with _host(folder, chosen) as host:
            found[name] = 1000 * (time.perf_counter() - began)
            assert len(host.tools) == len(chosen)
    return found


def report(figures: list[Figure]) -> str:
    """The table."""
    return table("MCP servers over stdio", figures)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.mcp",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = compare(options.rounds, options.calls)
    print(json.dumps(as_json(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
