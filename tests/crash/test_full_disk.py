"""A disk that is full for a while: what was asked then fails in words, and the next thing works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, os, resource, signal, sys
from pathlib import Path
from pydantic import BaseModel
from agent.evals.driving import Trajectory
from tests.support.sessions import calls, session
from tools.contract import Contract, make_tool

# A write beyond the limit then fails, as on a full disk.
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
home = Path(sys.argv[1])
UNLIMITED = resource.RLIM_INFINITY
begun = []

def fill():
    log = max(home.rglob("*-wal"), key=os.path.getsize)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(log) + 1, UNLIMITED))

class Number(BaseModel):
    n: int

def look(n: int) -> str:
    "Look."
    if not begun:
        begun.append(n)
        fill()
    return "seen"

reads = Contract(effects=frozenset({"read:n"}), open_world=False, private=False)
tools = [make_tool(look, args=Number, contract=reads)]
steps = [calls(("look", {"n": 1})), "Seen.", "Again."]

async def drive(events):
    try:
        done = Trajectory([event async for event in events]).done
        print(done.state, done.answer, "database" in (done.error or ""))
    except Exception as error:
        print(type(error).__name__)

async def main():
    async with session(home, steps, tools=tools) as (app, opened):
        await drive(opened.run("look"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))
        await drive(opened.resume())
        await drive(opened.run("again"))
        print(app.store.trail.verify())

asyncio.run(main())
"""


def test_after_a_full_disk_the_session_goes_on(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "home")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    first, *rest = result.stdout.splitlines()
    assert first in ("failed  True", "StoreError"), result.stderr
    assert rest == ["done Seen. False", "done Again. False", "[]"], result.stderr
