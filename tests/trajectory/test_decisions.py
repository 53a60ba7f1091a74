"""What a person decides is what happens, and nothing else does.

Every test drives a whole session over the real order desk and asserts on the world, the
decisions, the ledger and the trail.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from agent.application import Options
from agent.errors import AlreadyDecided, InvalidDecision, NotFound, UsageError
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import (
    Answers,
    ByTool,
    Edits,
    Rejects,
    When,
    approves,
    stays_silent,
)
from agent.events import CallJudged
from agent.session import AgentSession
from agent.store.records import ApprovalRecord
from agent.types import Decision
from tests.support.sessions import application, calls, reads, session
from tools.worlds.order_desk import OrderDesk

REFUND_C1 = ("refund_order", {"order_id": "C1", "amount": "5.00", "currency": "EUR"})


def desk(home: Path) -> OrderDesk:
    return OrderDesk(home / "worlds" / "orders.db")


def revision(home: Path, order: str) -> int:
    return desk(home).get(order).revision


def cancel(home: Path, order: str) -> tuple[str, dict[str, Any]]:
    return ("cancel_order", {"order_id": order, "expected_revision": revision(home, order)})


def kinds(app: Any, session_id: str) -> list[str]:
    return [entry.kind for entry in app.store.trail.entries(session_id)]


async def test_an_approved_write_happens_once_and_is_recorded_from_proposal_to_receipt(
    tmp_path: Path,
) -> None:
    write = cancel(tmp_path, "A1")
    steps = [reads("A1"), calls(write), "A1 is cancelled."]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "cancel A1", approves)

        assert desk(tmp_path).get("A1").status == "cancelled"
        (effect,) = app.store.ledger.list()
        (approval,) = trajectory.asked
        assert (effect.state, effect.attempts, effect.approval) == ("committed", 1, approval.id)
        assert effect.transaction == desk(tmp_path).history("A1")[-1].id
        assert approval.preview is not None
        assert approval.preview["summary"] == "order A1: pending → cancelled"
        trail = kinds(app, opened.id)
        order = ["approval.asked", "approval.decided", "effect.intended", "effect.committed"]
        assert [kind for kind in trail if kind in order] == order
        assert 'order_id="A1"' in opened.receipt().done[0]
        assert trajectory.done.exit == 0
        assert app.store.trail.verify() == []


async def test_of_three_parallel_writes_the_rejected_one_never_happens_and_only_it_gets_the_reason(
    tmp_path: Path,
) -> None:
    writes = [cancel(tmp_path, "A1"), cancel(tmp_path, "B1"), REFUND_C1]
    steps = [reads("A1", "B1", "C1"), calls(*writes, ids=["a", "b", "c"]), "Done."]
    reviewer = When(
        lambda approval: approval.args["order_id"] == "B1", Rejects("B1 ships today"), approves
    )
    async with session(tmp_path, steps) as (_, opened):
        trajectory = await converse(opened, "do all three", reviewer)

        orders = desk(tmp_path)
        assert orders.get("A1").status == "cancelled"
        assert orders.get("B1").status == "pending"
        assert orders.get("C1").refunded == 500
        assert "B1 ships today" in trajectory.results["b"]
        assert "B1 ships today" not in trajectory.results["a"] + trajectory.results["c"]
        assert (len(opened.receipt().done), len(opened.receipt().not_done)) == (2, 1)
        assert trajectory.done.exit == 5


async def test_decisions_may_come_one_by_one_in_any_order(tmp_path: Path) -> None:
    writes = cancel(tmp_path, "A1"), cancel(tmp_path, "B1")
    steps = [reads("A1", "B1"), calls(*writes, ids=["a", "b"]), "Done."]
    async with session(tmp_path, steps) as (_, opened):
        await converse(opened, "cancel both", stays_silent)
        first, second = opened.pending()
        opened.decide(second.id, Decision("approve"))
        partly = await review(opened, stays_silent, await _resumed(opened))

        assert partly.done.state == "waiting"
        assert desk(tmp_path).get("B1").status == "cancelled"
        assert desk(tmp_path).get("A1").status == "pending"

        opened.decide(first.id, Decision("reject"))
        finished = await _resumed(opened)
        assert finished.done.state == "done"
        assert desk(tmp_path).get("A1").status == "pending"


async def _resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


async def test_answers_that_cannot_be_applied_decide_nothing(tmp_path: Path) -> None:
    steps = [reads("A1"), calls(cancel(tmp_path, "A1")), "Done."]
    async with session(tmp_path, steps) as (_, opened):
        await converse(opened, "cancel A1", stays_silent)
        (approval,) = opened.pending()
        wrong: list[tuple[str, Decision, type[Exception]]] = [
            ("a-nobody", Decision("approve"), NotFound),
            (approval.id[:4], Decision("approve"), NotFound),
            (approval.id, Decision("aprove"), InvalidDecision),  # type: ignore[arg-type]
            (approval.id, Decision("edit", args=None), InvalidDecision),
            (approval.id, Decision("edit", args={"order_id": "A1"}), InvalidDecision),
            (approval.id, Decision("edit", args={**approval.args, "x": 1}), InvalidDecision),
        ]
        for id_, decision, error in wrong:
            with pytest.raises(error):
                opened.decide(id_, decision)
        with pytest.raises(NotFound):
            opened.decide_many([(approval.id, Decision("approve")), ("a-x", Decision("approve"))])

        assert opened.pending() == [approval]
        assert desk(tmp_path).get("A1").status == "pending"

        await review(opened, approves)
        assert desk(tmp_path).get("A1").status == "cancelled"
        with pytest.raises(AlreadyDecided) as late:
            opened.decide(approval.id, Decision("reject"))
        assert late.value.by == "ana"
        assert (await _resumed(opened)).done.state == "done"
        assert len(desk(tmp_path).history("A1")) == 1


async def test_an_edit_runs_instead_and_both_sets_of_arguments_are_in_the_trail(
    tmp_path: Path,
) -> None:
    steps = [reads("C1"), calls(REFUND_C1, ids=["r"]), "Refunded."]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "refund 5", Edits({"amount": "7.50"}))

        assert desk(tmp_path).get("C1").refunded == 750
        (decided,) = [
            e.data for e in app.store.trail.entries(opened.id) if e.kind == "approval.decided"
        ]
        assert decided["args"]["amount"] == "5.00"
        assert decided["decided_args"]["amount"] == "7.50"
        assert "7.50" in trajectory.results["r"]
        (effect,) = app.store.ledger.list()
        assert effect.args["amount"] == "7.50"


async def test_an_edit_with_a_wrong_type_is_told_to_the_reviewer_and_an_integer_stays_one(
    tmp_path: Path,
) -> None:
    steps = [reads("A1", "B1"), calls(cancel(tmp_path, "A1")), "Done."]
    async with session(tmp_path, steps) as (app, opened):
        await converse(opened, "cancel A1", stays_silent)
        (approval,) = opened.pending()
        with pytest.raises(InvalidDecision, match="expected_revision"):
            opened.decide(
                approval.id, Decision("edit", args={"order_id": "A1", "expected_revision": "one"})
            )
        row = opened.decide(
            approval.id, Decision("edit", args={"order_id": "B1", "expected_revision": "1"})
        )

        assert row.decided_args == {"order_id": "B1", "expected_revision": 1}
        await _resumed(opened)
        assert desk(tmp_path).get("B1").status == "cancelled"
        assert desk(tmp_path).get("A1").status == "pending"
        assert app.store.ledger.list()[0].args["expected_revision"] == 1


async def test_an_edit_of_a_tool_with_a_foreign_schema_is_checked_just_the_same(
    tmp_path: Path,
) -> None:
    ran: list[dict[str, Any]] = []

    async def remote(**args: Any) -> str:
        ran.append(args)
        return "ok"

    tool = StructuredTool(
        name="remote",
        description="A tool that came over MCP.",
        coroutine=remote,
        args_schema={
            "type": "object",
            "properties": {"count": {"type": "integer"}},
            "required": ["count"],
        },
    )
    async with session(tmp_path, [calls(("remote", {"count": 1})), "Done."], tools=[tool]) as (
        _,
        opened,
    ):
        await converse(opened, "go", stays_silent)
        (approval,) = opened.pending()
        for args in ({"count": "7"}, {"count": 7, "extra": True}, {}):
            with pytest.raises(InvalidDecision):
                opened.decide(approval.id, Decision("edit", args=args))
        opened.decide(approval.id, Decision("edit", args={"count": 7}))
        await _resumed(opened)

    assert ran == [{"count": 7}]


async def test_a_tool_whose_schema_refers_to_its_own_parts_is_asked_about(tmp_path: Path) -> None:
    """LangChain's form for answers cannot hold such a schema, and raises."""
    ran: list[dict[str, Any]] = []

    async def book(**args: Any) -> str:
        ran.append(args)
        return "ok"

    tool = StructuredTool(
        name="book",
        description="A tool that came over MCP.",
        coroutine=book,
        args_schema={
            "type": "object",
            "properties": {"flights": {"type": "array", "items": {"$ref": "#/$defs/flight"}}},
            "required": ["flights"],
            "$defs": {"flight": {"type": "object", "properties": {"number": {"type": "string"}}}},
        },
    )
    flights = {"flights": [{"number": "HAT1"}]}
    async with session(tmp_path, [calls(("book", flights)), "Done."], tools=[tool]) as (_, opened):
        await converse(opened, "go", stays_silent)
        (approval,) = opened.pending()
        assert approval.args == flights
        with pytest.raises(InvalidDecision):
            opened.decide(approval.id, Decision("edit", args={"flights": [{"number": 1}]}))
        opened.decide(approval.id, Decision("approve"))
        await _resumed(opened)
    assert ran == [flights]


async def test_an_answer_takes_the_place_of_the_call_and_nothing_runs(tmp_path: Path) -> None:
    steps = [reads("A1"), calls(cancel(tmp_path, "A1"), ids=["a"]), "I see."]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "cancel A1", Answers("I cancelled it by phone."))

        assert trajectory.results["a"] == "I cancelled it by phone."
        assert desk(tmp_path).get("A1").status == "pending"
        assert app.store.ledger.list() == []
        assert "answered instead" in opened.receipt().not_done[0]


@pytest.mark.parametrize("reviewer", [Answers("long " * 9_000), Rejects("long " * 9_000)])
async def test_what_a_person_says_at_length_is_cut_for_the_model_as_a_result_is(
    tmp_path: Path, reviewer: Any
) -> None:
    steps = [reads("A1"), calls(cancel(tmp_path, "A1"), ids=["a"]), "I see."]
    async with session(tmp_path, steps, result_limit=1000) as (app, opened):
        trajectory = await converse(opened, "cancel A1", reviewer)
        assert len(trajectory.results["a"]) < 1200
        assert "long long" in trajectory.results["a"]
        assert len(app.store.approvals.get(trajectory.asked[0].id).comment or "") == 45_000


async def test_silence_leaves_the_session_waiting_and_nothing_happens(tmp_path: Path) -> None:
    steps = [reads("A1"), calls(cancel(tmp_path, "A1")), "Done."]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "cancel A1", stays_silent)

        assert (trajectory.done.state, trajectory.done.exit) == ("waiting", 3)
        assert app.store.sessions.get(opened.id).state == "waiting"
        assert desk(tmp_path).get("A1").status == "pending"


async def test_always_covers_its_folder_alone_is_listed_and_can_be_revoked(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()

    def write(path: str) -> Any:
        return calls(("write_file", {"path": path, "content": "x"}))

    steps = [write("notes/1.md"), "1", write("notes/2.md"), "2", write("other/3.md"), "3",
             write("notes/4.md"), "4"]  # fmt: skip
    home = tmp_path / "home"
    async with session(home, steps, domains=["files"], workspace=workspace) as (app, opened):
        await converse(opened, "write 1", stays_silent)
        (approval,) = opened.pending()
        scope = opened.always_scope(approval.id)
        assert scope is not None
        assert "notes/" in scope.text
        rule = opened.allow_always(approval.id)
        await _resumed(opened)

        second = await converse(opened, "write 2", stays_silent)
        assert second.asked == []
        assert (workspace / "notes" / "2.md").read_text() == "x"
        assert app.store.ledger.list()[0].rule == rule.id

        third = await converse(opened, "write 3", Rejects("not there"))
        assert len(third.asked) == 1
        assert not (workspace / "other").exists()

        assert [r.scope for r in opened.rules()] == [scope.text]
        opened.revoke(rule.id)
        fourth = await converse(opened, "write 4", stays_silent)
        assert len(fourth.asked) == 1
        assert opened.rules() == []
        assert not (workspace / "notes" / "4.md").exists()


async def test_a_rule_belongs_to_its_session_alone(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    steps = [calls(("write_file", {"path": "notes/1.md", "content": "x"})), "1"]
    async with application(tmp_path / "home", steps, domains=["files"], workspace=workspace) as app:
        async with app.new_session() as first:
            await converse(first, "write", stays_silent)
            first.allow_always(first.pending()[0].id)
            await _resumed(first)
        async with app.new_session() as second:
            trajectory = await converse(second, "write", stays_silent)
            assert len(trajectory.asked) == 1


async def test_what_exceeds_the_authority_is_denied_without_asking_anybody(tmp_path: Path) -> None:
    options = Options(denied=("spend:*",), via="test")
    steps = [calls(REFUND_C1, ids=["r"]), "I may not."]
    async with session(tmp_path, steps, options=options) as (app, opened):
        trajectory = await converse(opened, "refund 5", approves)

        assert trajectory.asked == []
        assert "spend:refund-eur" in trajectory.results["r"]
        assert desk(tmp_path).get("C1").refunded == 0
        assert "call.denied" in kinds(app, opened.id)
        assert "denied" in opened.receipt().not_done[0]
        assert trajectory.done.exit == 5


async def test_nothing_a_reviewer_sees_differs_from_what_runs(tmp_path: Path) -> None:
    shown: list[ApprovalRecord] = []

    def looks(approval: ApprovalRecord) -> Decision:
        shown.append(approval)
        return Decision("approve")

    write = ("cancel_order", {"order_id": " a1 ", "expected_revision": "1"})
    async with session(tmp_path, [reads("A1"), calls(write), "Done."]) as (app, opened):
        await converse(opened, "cancel a1", ByTool({"cancel_order": looks}))

        (effect,) = app.store.ledger.list()
        assert effect.args == shown[0].args == {"order_id": "A1", "expected_revision": 1}
        assert effect.digest == shown[0].digest
        assert any("expected_revision" in note for note in shown[0].notes)


@pytest.mark.parametrize("pattern", ["nonsense", "write:", ":orders", "write orders", ""])
async def test_a_grant_that_is_no_effect_is_refused_at_the_start(
    tmp_path: Path, pattern: str
) -> None:
    with pytest.raises(UsageError, match="is no effect"):
        async with application(tmp_path, options=Options(granted=(pattern,))):
            pass


async def test_an_edit_that_changes_nothing_is_an_approval(tmp_path: Path) -> None:
    steps = [reads("C1"), calls(REFUND_C1, ids=["r"]), "Done."]
    async with session(tmp_path, steps) as (_, opened):
        await converse(opened, "refund 5", stays_silent)
        (approval,) = opened.pending()
        row = opened.decide(approval.id, Decision("edit", args={**approval.args, "amount": "5.0"}))

        assert row.status == "approved"
        assert "changed" not in (await _resumed(opened)).results["r"]


async def test_a_denied_call_is_told_with_its_verdict(tmp_path: Path) -> None:
    options = Options(denied=("spend:*",), via="test")
    async with session(tmp_path, [calls(REFUND_C1), "No."], options=options) as (_, opened):
        trajectory = await converse(opened, "refund 5", approves)

        assert [event.verdict["behavior"] for event in trajectory.of(CallJudged)] == ["deny"]
