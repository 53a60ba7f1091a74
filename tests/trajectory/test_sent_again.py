"""A write that is sent again under its key: what comes of that says nothing of the time before."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from pydantic import BaseModel

from agent.evals.driving import converse
from agent.evals.reviewers import approves, stays_silent
from agent.middleware import writes
from tests.support.sessions import calls, session
from tools.contract import (
    CallInfo,
    Contract,
    OutcomeUnknown,
    Scope,
    ToolFailure,
    TransientFailure,
    current_call,
    make_tool,
)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writes, "BACK_OFF", 0)


class Number(BaseModel):
    n: int


def acting(body: Callable[[CallInfo], str]) -> BaseTool:
    """A write whose service honours keys."""

    async def act(n: int) -> str:
        """Change the world."""
        return body(current_call.get())

    contract = Contract(
        effects=frozenset({"write:world"}),
        open_world=False,
        idempotency="key",
        always=lambda args: Scope(f"n = {args['n']}", {"n": {"equals": args["n"]}}),
    )
    return make_tool(act, args=Number, contract=contract)


@pytest.mark.parametrize(
    "error",
    [
        ToolFailure("this key was used before"),
        TransientFailure("the service cannot be reached; nothing was sent"),
    ],
)
async def test_a_later_attempt_that_fails_leaves_the_first_one_in_doubt(
    error: Exception, tmp_path: Path
) -> None:
    """It says that it changed nothing itself; the first one may have."""
    world: list[int] = []

    def body(info: CallInfo) -> str:
        if info.attempt > 1:
            raise error
        world.append(info.attempt)
        raise OutcomeUnknown("the connection broke")

    steps = [calls(("act", {"n": 1}), ids=["act"]), "Done."]
    async with session(tmp_path, steps, tools=[acting(body)], domains=["research"]) as (app, s):
        trajectory = await converse(s, "act", approves)
        (effect,) = app.store.ledger.list()
        (doubt,) = s.pending()
        receipt = s.receipt()

    assert world == [1]
    assert (effect.state, effect.attempts) == ("in_doubt", writes.MOST_ATTEMPTS)
    assert doubt.kind == "in_doubt"
    assert "The outcome of this call is unknown" in trajectory.results["act"]
    assert str(error) in trajectory.results["act"]
    assert (receipt.not_done, len(receipt.unknown)) == ((), 1)


class Items(BaseModel):
    items: Any


async def test_each_attempt_gets_the_arguments_that_were_approved(tmp_path: Path) -> None:
    """A body may turn what it was given into something else, in place."""
    entered: list[Any] = []

    def act(items: Any) -> str:
        """Change the world."""
        entered.append(deepcopy(items))
        items[0]["price"] *= 100
        if len(entered) == 1:
            raise OutcomeUnknown("the connection broke")
        return "changed"

    contract = Contract(effects=frozenset({"write:world"}), idempotency="key")
    tools = [make_tool(act, args=Items, contract=contract)]
    steps = [calls(("act", {"items": [{"price": 2}]})), "Done."]
    async with session(tmp_path, steps, tools=tools, domains=["research"]) as (app, opened):
        await converse(opened, "act", approves)
        (effect,) = app.store.ledger.list()

    assert entered == [[{"price": 2}], [{"price": 2}]]
    assert (effect.state, effect.attempts) == ("committed", 2)
    assert effect.args == {"items": [{"price": 2}]}


async def test_a_rule_that_is_revoked_between_two_attempts_leaves_a_doubt(tmp_path: Path) -> None:
    entered: list[Any] = []

    def body(info: CallInfo) -> str:
        entered.append(info.attempt)
        if len(entered) == 1:
            return "changed"
        opened.revoke(opened.rules()[0].id)
        raise OutcomeUnknown("the connection broke")

    steps = [calls(("act", {"n": 1})), calls(("act", {"n": 1}), ids=["again"]), "Done."]
    tools = [acting(body)]
    async with session(tmp_path, steps, tools=tools, domains=["research"]) as (app, opened):
        await converse(opened, "act twice", stays_silent)
        (asked,) = opened.pending()
        opened.allow_always(asked.id)
        done = [event async for event in opened.resume()][-1]
        latest, _ = app.store.ledger.list()
        (doubt,) = opened.pending()

    assert entered == [1, 1]
    assert (done.state, latest.state, latest.attempts) == ("waiting", "in_doubt", 1)
    assert (doubt.kind, doubt.call) == ("in_doubt", "again")
