"""Driving a conversation: every event is kept, every pause is put to the reviewer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.errors import InvalidDecision
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import InOrder, Rejects, Settles, approves, stays_silent
from agent.events import ApprovalAsked, CallFinished, Done, Message, ReceiptReady
from agent.types import Decision
from tests.support.sessions import calls, session
from tools.contract import Contract, OutcomeUnknown, make_tool


class Number(BaseModel):
    n: int


def writer(ran: list[int], lost: bool = False) -> Any:
    def act(n: int) -> str:
        """Change a number."""
        ran.append(n)
        if lost:
            raise OutcomeUnknown("lost.")
        return f"changed {n}"

    contract = Contract(effects=frozenset({"write:n"}), open_world=False)
    return make_tool(act, args=Number, contract=contract)


def act(*numbers: int) -> Any:
    return calls(*(("act", {"n": n}) for n in numbers), ids=[f"c{n}" for n in numbers])


async def test_a_trajectory_holds_all_of_it_in_order(tmp_path: Path) -> None:
    ran: list[int] = []
    steps = [act(1), act(2, 3), "All done."]
    async with session(tmp_path, steps, tools=[writer(ran)]) as (_, opened):
        trajectory = await converse(opened, "go", approves)

    assert ran == [1, 2, 3]
    assert trajectory.calls == [("act", {"n": 1}), ("act", {"n": 2}), ("act", {"n": 3})]
    assert trajectory.results == {"c1": "changed 1", "c2": "changed 2", "c3": "changed 3"}
    assert [row.args["n"] for row in trajectory.asked] == [1, 2, 3]
    assert [event.approval.args["n"] for event in trajectory.of(ApprovalAsked)] == [1, 2, 3]
    assert [done.state for done in trajectory.of(Done)] == ["waiting", "waiting", "done"]
    assert trajectory.done is trajectory.events[-1]
    assert (trajectory.done.answer, trajectory.done.exit) == ("All done.", 0)
    order = [type(event).__name__ for event in trajectory.events]
    assert order.index("CallProposed") < order.index("ApprovalAsked") < order.index("CallFinished")
    assert isinstance(trajectory.of(Message)[-1], Message)


async def test_a_silent_reviewer_ends_it_where_it_waits(tmp_path: Path) -> None:
    ran: list[int] = []
    async with session(tmp_path, [act(1), "Done."], tools=[writer(ran)]) as (_, opened):
        trajectory = await converse(opened, "go", stays_silent)
        assert trajectory.done.state == "waiting"
        assert len(trajectory.of(Done)) == 1

        await review(opened, approves, trajectory)
        assert [done.state for done in trajectory.of(Done)] == ["waiting", "done"]
    assert ran == [1]


async def test_a_reviewer_may_answer_some_now_and_the_rest_in_the_next_round(
    tmp_path: Path,
) -> None:
    ran: list[int] = []
    answers = InOrder([Decision("approve"), None, Decision("reject")])
    async with session(tmp_path, [act(1, 2), "Done."], tools=[writer(ran)]) as (_, opened):
        trajectory = await converse(opened, "go", answers)
    assert ran == [1]
    assert trajectory.done.state == "done"
    assert [row.args["n"] for row in trajectory.asked] == [1, 2, 2]


async def test_an_answer_that_cannot_be_applied_raises_as_for_a_person(tmp_path: Path) -> None:
    ran: list[int] = []
    wrong = InOrder([Decision("edit", args={"n": "many"})])
    async with session(tmp_path, [act(1), "Done."], tools=[writer(ran)]) as (_, opened):
        with pytest.raises(InvalidDecision):
            await converse(opened, "go", wrong)
        assert len(opened.pending()) == 1
    assert ran == []


async def test_an_endless_conversation_is_given_up(tmp_path: Path) -> None:
    ran: list[int] = []
    steps = [act(n) for n in range(10)]
    async with session(tmp_path, steps, tools=[writer(ran)]) as (_, opened):
        trajectory = await converse(opened, "go", approves, rounds=3)
    assert ran == [0, 1, 2]
    assert trajectory.done.state == "waiting"


async def test_a_doubt_is_put_to_the_reviewer_too(tmp_path: Path) -> None:
    ran: list[int] = []
    async with session(tmp_path, [act(1), "Hm."], tools=[writer(ran, lost=True)]) as (app, opened):
        trajectory = await converse(opened, "go", Settles(happened=False))
        assert [row.kind for row in trajectory.asked] == ["write", "in_doubt"]
        assert app.store.ledger.list()[0].settled == "not happened"
    assert ran == [1]


async def test_the_receipt_comes_before_the_end(tmp_path: Path) -> None:
    async with session(tmp_path, [act(1), "Done."], tools=[writer([])]) as (_, opened):
        trajectory = await converse(opened, "go", Rejects("no"))
    assert isinstance(trajectory.events[-2], ReceiptReady)
    assert trajectory.events[-2].receipt.refused
    assert trajectory.of(CallFinished)[-1].status == "error"
    assert trajectory.done.exit == 5


def test_a_trajectory_without_an_end_has_none() -> None:
    with pytest.raises(IndexError):
        _ = Trajectory().done
