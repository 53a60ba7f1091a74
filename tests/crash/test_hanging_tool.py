"""A tool that never returns costs its call, not the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, sys, threading
from pathlib import Path
from langchain_core.tools import tool
from agent.evals.driving import converse
from agent.evals.reviewers import approves
from tests.support.sessions import calls, session

never = threading.Event()

@tool
def hang(n: int) -> str:
    "Never return."
    never.wait()
    return "at last"

async def main():
    home = Path(sys.argv[1])
    steps = [calls(("hang", {"n": 1})), "Too slow."]
    kwargs = dict(tools=[hang], tool_timeout=0.2, lease_seconds=60)
    async with session(home, steps, **kwargs) as (app, opened):
        trajectory = await converse(opened, "go", approves)
        print(trajectory.done.answer, app.store.ledger.list()[0].state)

asyncio.run(main())
"""


def test_a_body_that_hangs_keeps_no_process_from_ending(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "home")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert result.stdout == "Too slow. in_doubt\n", result.stderr
    assert result.returncode == 0
