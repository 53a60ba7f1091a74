"""A process that drives one session and kills itself at a named instant, with SIGKILL.

    python -m tests.support.crash_worker HOME start POINT
    python -m tests.support.crash_worker HOME resume POINT [happened|not-happened]
    python -m tests.support.crash_worker HOME every

``start`` sends one message to a new session; the model asks for one write and one read, then
answers. ``resume`` opens the latest session, approves what waits, settles doubts as told, and
carries on. The write appends a line to ``HOME/world`` and syncs it to disk. What is left at the
end is printed as one JSON object. POINT is one of ``POINTS``, or ``never``.

``every`` does both for each commit of the whole session: a child dies right after its n-th one,
another one carries on and answers what is in doubt by a look at the world. A JSON object a line.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agent.application import Application
from agent.checkpoints import WholeSqliteSaver
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Reviewer, Settles, approves, stays_silent
from agent.events import ReceiptReady
from agent.session import AgentSession
from agent.store import Store
from agent.store.approvals import Approvals
from agent.store.ledger import Ledger
from agent.streaming import GraphPass
from tests.support.sessions import application, calls
from tools.contract import Contract, make_tool

POINTS = (
    "before the approval is recorded",
    "after the approval is recorded",
    "before intended",
    "after intended",
    "inside, before the effect",
    "inside, after the effect",
    "before committed",
    "after committed",
    "before the last answer",
    "before the first step",
    "after the last reply is stored",
    "before the end",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Number(BaseModel):
    n: int


def make_tools(home: Path, point: str) -> list[Any]:
    async def act(n: int) -> str:
        """Change the world."""
        if point == "inside, before the effect":
            die()
        with (home / "world").open("a") as world:
            world.write(f"{n}\n")
            world.flush()
            os.fsync(world.fileno())
        if point == "inside, after the effect":
            die()
        return f"changed {n}"

    def look(n: int) -> str:
        """Look at the world."""
        return f"saw {n}"

    writes = Contract(effects=frozenset({"write:world"}), open_world=False)
    reads = Contract(effects=frozenset({"read:world"}), open_world=False)
    return [
        make_tool(act, args=Number, contract=writes),
        make_tool(look, args=Number, contract=reads),
    ]


def arm(point: str) -> None:
    """Wrap what happens at the instant, so that the process dies right before or after it."""
    always = lambda *args, **kwargs: True  # noqa: E731
    targets: dict[str, tuple[Any, str, Callable[..., bool]]] = {
        "the approval is recorded": (Approvals, "ask", always),
        "intended": (Ledger, "begin", always),
        "committed": (Ledger, "finish", always),
        "the first step": (GraphPass, "_pump", always),
        "the last reply is stored": (WholeSqliteSaver, "put_writes", _holds_the_answer),
        "the end": (AgentSession, "_end", lambda session, state, *_: state == "done"),
    }
    when, _, what = point.partition(" ")
    if what not in targets:
        return
    owner, name, applies = targets[what]
    original = getattr(owner, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if not applies(*args, **kwargs):
            return original(*args, **kwargs)
        if when == "before":
            die()
        result = original(*args, **kwargs)
        die()
        return result

    setattr(owner, name, wrapped)


def _holds_the_answer(saver: Any, config: Any, writes: Any, *_: Any) -> bool:
    return "All done." in str(writes)


def script(point: str) -> list[Any]:
    def answer(messages: Any) -> str:
        if point == "before the last answer":
            die()
        return "All done."

    return [calls(("act", {"n": 1}), ("look", {"n": 2}), ids=["act", "look"]), answer]


async def start(home: Path, point: str) -> None:
    tools = make_tools(home, point)
    async with (
        application(home, script(point), domains=["research"], tools=tools) as app,
        app.new_session() as opened,
    ):
        reviewer: Reviewer = stays_silent if point == "pausing" else approves
        trajectory = await converse(opened, "change it", reviewer)
        await report(app, opened, trajectory)


async def resume(home: Path, point: str, happened: bool | None) -> None:
    tools = make_tools(home, point)
    async with application(home, script(point), domains=["research"], tools=tools) as app:
        latest = app.store.sessions.latest()
        assert latest is not None
        async with app.open_session(latest.id) as opened:
            trajectory = Trajectory([event async for event in opened.resume()])
            reviewer: Reviewer = approves if happened is None else Settles(happened)
            await review(opened, reviewer, trajectory)
            await report(app, opened, trajectory)


async def report(app: Application, opened: AgentSession, trajectory: Trajectory) -> None:
    world = app.settings.home / "world"
    print(
        json.dumps(
            {
                "state": trajectory.done.state,
                "answer": trajectory.done.answer,
                "receipts": len(trajectory.of(ReceiptReady)),
                "row": opened.record.state,
                "users": sum(m.type == "human" for m in await opened.history()),
                "world": world.read_text().split() if world.exists() else [],
                "effects": [(e.state, e.attempts) for e in app.store.ledger.list()],
                "doubts": [a.status for a in app.store.approvals.list(None, kind="in_doubt")],
                "writes": [a.status for a in app.store.approvals.list(None, kind="write")],
                "results": {
                    m.tool_call_id: m.text for m in await opened.history() if m.type == "tool"
                },
                "trail": [problem.what for problem in app.store.trail.verify()],
            }
        )
    )


# --- after every commit ----------------------------------------------------------------------


class Committing(sqlite3.Connection):
    """A connection that counts the commits of its process, and ends it after one of them."""

    left = 0

    def commit(self) -> None:
        changes = self.in_transaction
        super().commit()
        Committing.left -= changes
        if changes and Committing.left == 0:
            die()


def die_after_commit(number: int) -> None:
    Committing.left = number
    connect = partial(sqlite3.connect, factory=Committing)
    sqlite3.connect = sqlite3.dbapi2.connect = connect  # type: ignore[misc, attr-defined]


def in_child(act: Callable[[], None], output: Path | None = None) -> int:
    """Run it in a fork, its stdout in a file; how that ended, as ``os.wait`` says it."""
    child = os.fork()
    if child == 0:
        if output is not None:
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), 1)
        act()
        sys.stdout.flush()
        os._exit(0)
    return os.waitpid(child, 0)[1]


def every(home: Path) -> None:
    template = home / "template"
    template.mkdir(mode=0o700)
    Store.open(f"sqlite:///{template}/sayso.db").close()
    for number in count(1):
        folder = home / str(number)
        shutil.copytree(template, folder)

        end = in_child(partial(die_on_the_way, folder, number), home / "unfinished")
        if os.WIFEXITED(end) and os.WEXITSTATUS(end) == 0:
            break  # it has no such commit any more
        assert os.WIFSIGNALED(end), f"after commit {number}: it failed by itself"
        found = home / f"{number}.json"
        assert in_child(partial(carry_on, folder), found) == 0, f"after commit {number}"
        print(found.read_text(), end="", flush=True)


def die_on_the_way(home: Path, number: int) -> None:
    die_after_commit(number)
    asyncio.run(start(home, "never"))


def carry_on(home: Path) -> None:
    """Resume what was begun, if anything was, and settle a doubt by what is in the world."""
    with closing(Store.open(f"sqlite:///{home}/sayso.db")) as store:
        latest = store.sessions.latest()
    if latest is not None and latest.turn:
        world = home / "world"
        asyncio.run(resume(home, "never", world.exists() and world.read_text() != ""))


def main() -> None:
    home, command = Path(sys.argv[1]), sys.argv[2]
    if command == "every":
        every(home)
        return
    point = sys.argv[3]
    word = sys.argv[4] if len(sys.argv) > 4 else None
    arm(point)
    if command == "start":
        asyncio.run(start(home, point))
    else:
        asyncio.run(resume(home, point, None if word is None else word == "happened"))


if __name__ == "__main__":
    main()
