"""A process that ends right after a message was taken: the message is taken up from the trail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.evals.driving import Trajectory, converse
from agent.evals.reviewers import stays_silent
from agent.session import AgentSession
from tests.support.sessions import application, calls, session
from tools.contract import Contract, make_tool


class Number(BaseModel):
    n: int


async def act(n: int) -> str:
    """Change the world."""
    raise AssertionError("nobody has approved this")


WRITES = Contract(effects=frozenset({"write:world"}), open_world=False)


class Killed(Exception):
    """The process is gone."""


async def test_a_message_that_moved_on_from_open_calls_is_not_lost(tmp_path: Path) -> None:
    kwargs: dict[str, Any] = {
        "tools": [make_tool(act, args=Number, contract=WRITES)],
        "domains": ["research"],
    }
    steps = [calls(("act", {"n": 1})), lambda messages: f"You said: {messages[-1].text}"]

    def killed(*_: Any) -> Any:
        raise Killed

    async with session(tmp_path, steps, **kwargs) as (_, opened):
        await converse(opened, "act", stays_silent)
        session_id = opened.id
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AgentSession, "_begin", killed)
            with pytest.raises(Killed):
                await anext(opened.run("something else", supersede=True))

    async with (
        application(tmp_path, steps, **kwargs) as app,
        app.open_session(session_id) as opened,
    ):
        resumed = Trajectory([event async for event in opened.resume()])
        said = [message.text for message in await opened.history() if message.type == "human"]

    assert said == ["act", "something else"]
    assert resumed.done.state == "done"
    assert resumed.done.answer.endswith("something else")
