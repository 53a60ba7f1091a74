"""A process that is stopped within a tool, and comes back when its session is no longer its own.

    python -m tests.support.stale_worker HOME URL read|write [blind]

It sends one message to a new session; the model asks for a read and then a write. The tool of
that kind stops the process by SIGSTOP: the read before it returns, the write after its effect,
a line in ``HOME/world``. After SIGCONT it carries on, and says how that ended, as one JSON object
on the last line. Each reply that its model gives is a line in ``HOME/replies``. A blind one
does not notice in the background that it lost its lease, so that only the database tells it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agent.errors import LeaseLost
from agent.evals.driving import converse
from agent.evals.reviewers import approves
from agent.leases import LeaseKeeper
from tests.support.sessions import application, calls
from tools.contract import Contract, make_tool

LEASE = 0.5
"""Seconds; nobody renews it while the process is stopped."""


class Number(BaseModel):
    n: int


def make_tools(home: Path, at: Callable[[str], None] = lambda kind: None) -> list[Any]:
    """A read and a write; ``at`` is called in each of them."""

    async def look(n: int) -> str:
        """Look at the world."""
        at("read")
        return f"{os.getpid()} saw {n}"

    async def act(n: int) -> str:
        """Change the world."""
        with (home / "world").open("a") as world:
            world.write(f"{n}\n")
        at("write")
        return f"changed {n}"

    reads = Contract(effects=frozenset({"read:world"}), open_world=False)
    writes = Contract(effects=frozenset({"write:world"}), open_world=False)
    return [
        make_tool(look, args=Number, contract=reads),
        make_tool(act, args=Number, contract=writes),
    ]


def script(home: Path) -> list[Any]:
    """A read, a write, an answer; each noted down with the process in which it was given."""

    def noted(step: Any) -> Any:
        def reply(messages: Any) -> Any:
            with (home / "replies").open("a") as replies:
                replies.write(f"{os.getpid()}\n")
            return step

        return reply

    read = calls(("look", {"n": 1}), ids=["look"])
    write = calls(("act", {"n": 2}), ids=["act"])
    return [noted(read), noted(write), noted("All done.")]


async def hold(home: Path, url: str, kind: str) -> dict[str, Any]:
    """Run into the tool that stops, and tell how the turn ended after it."""

    def stop(here: str) -> None:
        if here == kind:
            os.kill(os.getpid(), signal.SIGSTOP)

    async with (
        application(
            home,
            script(home),
            domains=["research"],
            tools=make_tools(home, stop),
            database_url=url,
            lease_seconds=LEASE,
            tool_timeout=LEASE / 2,
        ) as app,
        app.new_session() as opened,
    ):
        try:
            ended = await converse(opened, "look and act", approves)
        except LeaseLost as error:
            again = await _refused(opened.cancel)
            return {"error": str(error), "cancelling": again}
        return {"state": ended.done.state, "error": ended.done.error}


async def _refused(step: Callable[[], Any]) -> str:
    try:
        await step()
    except LeaseLost as error:
        return type(error).__name__
    return "nothing was raised"


async def _never(keeper: LeaseKeeper, beside: object = None) -> None:
    """In place of the renewal in the background."""


if __name__ == "__main__":
    if "blind" in sys.argv[4:]:
        LeaseKeeper.keep = _never  # type: ignore[method-assign]
    ended_as = asyncio.run(hold(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
    print(json.dumps(ended_as))
