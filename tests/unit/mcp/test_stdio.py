"""Messages of a child process, line by line."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from mcp.shared.message import SessionMessage

from agent.mcp.servers import Stdio
from agent.mcp.transport.stdio import ServerLog, open_stdio

NOISY = r"""
import sys
hello = '{"jsonrpc":"2.0","method":"notifications/hello"}\n'
sys.stdout.write(hello + "x\n" * 50_000 + hello)
sys.stdout.flush()
sys.stdin.read()
"""


async def test_noise_lets_others_have_their_turn(tmp_path: Path) -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    child = Stdio(sys.executable, ("-I", "-S", "-c", NOISY))
    with ServerLog(tmp_path / "log") as log:
        async with open_stdio(child, {}, log) as (incoming, _):
            await asyncio.sleep(0.5)  # the noise waits behind the first message
            other = asyncio.create_task(take_turns())
            await incoming.receive()
            message = await incoming.receive()
            other.cancel()
    assert isinstance(message, SessionMessage)
    assert turns >= 50_000 // 200
