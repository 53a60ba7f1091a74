"""The same call once more, however it is spelled and wherever it comes from: held, or named."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from agent.application import Application
from agent.evals.driving import Trajectory, converse
from agent.evals.reviewers import approves, stays_silent
from agent.session import AgentSession
from agent.store.records import EffectRecord
from agent.types import Decision
from tests.support.sessions import application, calls, session
from tests.support.unsure import Service, act
from tools.contract import Contract, OutcomeUnknown, Scope, make_tool


class Payment(BaseModel):
    model_config = ConfigDict(extra="forbid")

    amount: float
    note: str | None = None
    tags: list[str] = []
    items: list[str] = ["A1", "B2"]


@dataclass
class Till:
    """Every payment takes effect, and its answer is lost."""

    paid: list[float] = field(default_factory=list)

    def pay(self, amount: float, **_: Any) -> str:
        """Pay."""
        self.paid.append(amount)
        raise OutcomeUnknown("the connection broke.")

    def tools(self) -> list[Any]:
        contract = Contract(
            effects=frozenset({"write:till"}),
            open_world=False,
            always=lambda args: Scope("any", {}),
        )
        return [make_tool(self.pay, args=Payment, contract=contract)]


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


SPELLINGS: dict[str, dict[str, Any]] = {
    "as it was": {"amount": 5},
    "a default written out": {"amount": 5, "note": None},
    "another default written out": {"amount": 5, "tags": []},
    "with a point": {"amount": 5.0},
    "as text": {"amount": "5.00"},
    "in another order": {"amount": 5, "items": ["B2", "A1"]},
    "in another case": {"amount": 5, "items": ["a1", "b2 "]},
}


@pytest.mark.parametrize("args", SPELLINGS.values(), ids=SPELLINGS)
async def test_another_spelling_of_a_call_in_doubt_is_held_under_a_rule_too(
    tmp_path: Path, args: dict[str, Any]
) -> None:
    till = Till()
    steps = [calls(("pay", {"amount": 5}), ids=["a"]), calls(("pay", args), ids=["b"]), "Hm."]
    async with session(tmp_path, steps, tools=till.tools()) as (_, opened):
        await converse(opened, "pay", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        trajectory = await resumed(opened)
        assert "The same call is in doubt" in trajectory.results["b"]
        assert till.paid == [5]


@pytest.mark.parametrize(
    "other",
    [
        {"amount": 5, "note": "rent"},
        {"amount": 5, "items": ["A1", "B2", "B2"]},
        {"amount": 5, "items": ["A1"]},
    ],
    ids=["a note", "one more", "one less"],
)
async def test_another_call_is_not_held(tmp_path: Path, other: dict[str, Any]) -> None:
    till = Till()
    steps = [calls(("pay", {"amount": 5}), ids=["a"]), calls(("pay", other), ids=["b"]), "Hm."]
    async with session(tmp_path, steps, tools=till.tools()) as (_, opened):
        await converse(opened, "pay", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        await resumed(opened)
        assert till.paid == [5, 5]


@pytest.mark.parametrize("by_rule", [True, False], ids=["under a rule", "approved"])
async def test_the_second_of_one_reply_is_held_when_the_first_ends_in_doubt(
    tmp_path: Path, by_rule: bool
) -> None:
    till = Till()
    first, twice = calls(("pay", {"amount": 1})), ("pay", {"amount": 5})
    steps = [*([first] if by_rule else []), calls(twice, twice, ids=["a", "b"]), "Hm."]
    async with session(tmp_path, steps, tools=till.tools()) as (app, opened):
        await converse(opened, "pay", stays_silent)
        if by_rule:
            opened.allow_always(opened.pending()[0].id)
        for waiting in opened.pending():
            opened.decide(waiting.id, Decision("approve"))
        trajectory = await resumed(opened)
        held = [text for text in trajectory.results.values() if "same call is in doubt" in text]
        assert len(held) == 1
        assert till.paid == [*([1] if by_rule else []), 5]
        if not by_rule:
            statuses = sorted(row.status for row in app.store.approvals.list(None))
            assert statuses == ["approved", "pending", "superseded"]


async def begun(app: Application, opened: AgentSession) -> EffectRecord:
    """A write that was begun by a process that died there."""
    (asked,) = opened.pending()
    opened.decide(asked.id, Decision("approve"))
    lease = app.store.leases.holder(opened.id)
    assert lease is not None
    return app.store.ledger.begin(
        session=opened.id, epoch=lease.epoch, turn=1, message=asked.message, call=asked.call,
        tool="act", tool_version="0", args=asked.args, digest=asked.digest, approval=asked.id,
        rule=None, idempotency_key="k",
    ).effect  # fmt: skip


async def test_a_fork_holds_what_its_source_was_at_when_it_died(tmp_path: Path) -> None:
    service = Service()
    steps = [act(1), calls(("act", {"n": 1}), ids=["again"]), "It is unknown."]
    async with application(tmp_path, steps, tools=service.tools()) as app:
        async with app.new_session() as source:
            await converse(source, "go", stays_silent)
            effect = await begun(app, source)
        assert effect.state == "intended"
        record = await app.fork(source.id)
        async with app.open_session(record.id) as fork:
            trajectory = await converse(fork, "once more", approves)
            assert effect.id in trajectory.results["again"]
            assert trajectory.asked == []
        assert service.numbers == []
