"""Sessions over time: paused and picked up, moved on from, cancelled, forked, deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agent.errors import NotFound, SessionBusy, ToolMissing, UsageError
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Edits, approves, stays_silent
from agent.events import KnownSince
from agent.inbox import decide
from agent.session import AgentSession, CallsWait
from agent.types import Actor, Decision
from tests.support.sessions import application, calls, reads, session
from tools.worlds.order_desk import OrderDesk

SOMEBODY = Actor("ben", 1000, "elsewhere", "cli")


def cancel(order: str) -> tuple[str, dict[str, Any]]:
    return ("cancel_order", {"order_id": order, "expected_revision": 1})


def status(home: Path, order: str) -> str:
    return OrderDesk(home / "worlds" / "orders.db").get(order).status


def valid(messages: list[BaseMessage]) -> bool:
    """Whether every call is answered right after its message, as providers demand."""
    waiting: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.discard(message.tool_call_id)
        elif waiting:
            return False
        if isinstance(message, AIMessage):
            waiting = {call["id"] or "" for call in message.tool_calls}
    return not waiting


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


async def test_a_paused_session_is_decided_elsewhere_and_goes_on_in_another_process(
    tmp_path: Path,
) -> None:
    steps = [reads("A1"), calls(cancel("A1"), ids=["a"]), "A1 is cancelled."]
    async with session(tmp_path, steps) as (_, opened):
        await converse(opened, "cancel A1", stays_silent)
        session_id = opened.id

    async with application(tmp_path, steps) as app:
        (approval,) = app.store.approvals.list()
        decide(app.store, [(approval.id, Decision("approve"))], SOMEBODY, lambda name: None)

    async with application(tmp_path, steps) as app, app.open_session(session_id) as opened:
        trajectory = await resumed(opened)
        assert trajectory.done.answer == "A1 is cancelled."
        assert status(tmp_path, "A1") == "cancelled"
        assert app.store.approvals.get(approval.id).decided_by == "ben"
        assert valid(await opened.history())
        assert app.store.trail.verify() == []


async def test_a_session_that_is_held_cannot_be_driven_by_a_second_process(tmp_path: Path) -> None:
    async with session(tmp_path, ["Hello."]) as (app, opened):
        other = app.store.owner()
        stranger = type(other)(other.text.rsplit(":", 1)[0] + ":0000000000000000")
        with pytest.raises(SessionBusy):
            app.store.leases.acquire(opened.id, stranger, 10)


async def test_a_new_message_while_calls_wait_needs_a_yes_and_then_nothing_of_them_runs(
    tmp_path: Path,
) -> None:
    steps = [
        reads("A1", "B1"),
        calls(("get_order", {"order_id": "A2"}), cancel("A1"), cancel("B1"), ids=["r", "a", "b"]),
        "All right.",
    ]
    async with session(tmp_path, steps) as (app, opened):
        await converse(opened, "cancel them", stays_silent)
        with pytest.raises(CallsWait):
            await anext(opened.run("never mind"))
        assert len(opened.pending()) == 2

        events = [event async for event in opened.run("never mind", supersede=True)]

        assert Trajectory(events).done.answer == "All right."
        assert (status(tmp_path, "A1"), status(tmp_path, "B1")) == ("pending", "pending")
        history = await opened.history()
        assert valid(history)
        results = {m.tool_call_id: str(m.content) for m in history if isinstance(m, ToolMessage)}
        assert '"status":"shipped"' in results["r"]
        assert "not run" in results["a"]
        statuses = {row.status for row in app.store.approvals.list(status=None)}
        assert statuses == {"superseded"}
        assert app.store.ledger.list() == []


async def test_what_was_approved_before_the_session_moved_on_still_runs_as_decided(
    tmp_path: Path,
) -> None:
    refund = ("refund_order", {"order_id": "C1", "amount": "5.00", "currency": "EUR"})
    steps = [reads("A1", "B1", "C1"), calls(cancel("A1"), refund, cancel("B1")), "All right."]
    async with session(tmp_path, steps) as (app, opened):
        await converse(opened, "cancel and refund", stays_silent)
        rows = {row.args["order_id"]: row for row in opened.pending()}
        opened.decide(rows["A1"].id, Decision("approve"))
        opened.decide(rows["C1"].id, Edits({"amount": "6.00"})(rows["C1"]) or Decision("reject"))
        _ = [event async for event in opened.run("never mind", supersede=True)]

        assert status(tmp_path, "A1") == "cancelled"
        assert OrderDesk(tmp_path / "worlds" / "orders.db").get("C1").refunded == 600
        assert status(tmp_path, "B1") == "pending"
        assert {effect.state for effect in app.store.ledger.list()} == {"committed"}


async def test_a_cancelled_session_ran_nothing_of_what_waited_and_can_be_read(
    tmp_path: Path,
) -> None:
    steps = [reads("A1"), calls(cancel("A1")), "Hello again."]
    async with session(tmp_path, steps) as (app, opened):
        await converse(opened, "cancel A1", stays_silent)
        await opened.cancel()

        assert app.store.sessions.get(opened.id).state == "cancelled"
        assert status(tmp_path, "A1") == "pending"
        assert valid(await opened.history())
        assert (await resumed(opened)).done.state == "cancelled"
        again = await converse(opened, "still there?", approves)
        assert again.done.answer == "Hello again."


async def test_a_fork_has_the_messages_and_none_of_the_approvals_or_rules(tmp_path: Path) -> None:
    steps = [reads("A1"), calls(cancel("A1"), ids=["a"]), "In the fork."]
    async with application(tmp_path, steps) as app:
        async with app.new_session() as source:
            await converse(source, "cancel A1", stays_silent)
            app.store.rules.add(source.id, "cancel_order", "all", {}, app.actor)
            record = await app.fork(source.id)

            assert record.parent == source.id
            assert len(source.pending()) == 1
        async with app.open_session(record.id) as fork:
            assert fork.pending() == []
            assert fork.rules() == []
            assert (await resumed(fork)).done.state == "done"  # nothing to do, no model call
            history = await fork.history()
            assert valid(history)
            assert source.id in str(history[-1].content)
            trajectory = await converse(fork, "go on", approves)
            assert trajectory.done.answer == "In the fork."
        assert status(tmp_path, "A1") == "pending"


async def test_a_fork_asks_again_for_what_its_source_has_committed_and_says_so(
    tmp_path: Path,
) -> None:
    refund = ("refund_order", {"order_id": "C1", "amount": "5.00", "currency": "EUR"})
    again = calls(refund, ids=["again"])
    steps = [reads("C1"), calls(refund, ids=["first"]), "Refunded.", again, "Hm."]
    async with application(tmp_path, steps) as app:
        async with app.new_session() as source:
            await converse(source, "refund 5 EUR", approves)
            (effect,) = app.store.ledger.list()
        record = await app.fork(source.id)
        app.store.rules.add(record.id, "refund_order", "all", {}, app.actor)
        async with app.open_session(record.id) as fork:
            trajectory = await converse(fork, "refund it", stays_silent)

            (approval,) = trajectory.asked
            assert approval.rule == "repeats"
            assert effect.id in approval.reason


async def test_a_deleted_session_leaves_a_tombstone_and_no_content(tmp_path: Path) -> None:
    async with application(tmp_path, ["A secret answer."]) as app:
        async with app.new_session() as opened:
            await converse(opened, "a secret question", approves)
        await app.delete(opened.id)

        with pytest.raises(NotFound, match="deleted"):
            app.store.sessions.get(opened.id)
        assert app.store.trail.verify() == []
        assert app.store.trail.entries(opened.id)[-1].kind == "session.deleted"
    assert b"secret question" not in (tmp_path / "sayso.db").read_bytes()


async def test_reviewing_again_after_everything_is_decided_changes_nothing(tmp_path: Path) -> None:
    steps = [reads("A1"), calls(cancel("A1")), "Done."]
    async with session(tmp_path, steps) as (app, opened):
        await converse(opened, "cancel A1", approves)
        before = app.store.trail.entries(opened.id)
        await review(opened, approves)
        assert (await resumed(opened)).done.state == "done"

        assert app.store.trail.entries(opened.id) == before


async def test_an_approved_call_whose_tool_is_not_loaded_here_stays_open_and_runs_where_it_is(
    tmp_path: Path,
) -> None:
    steps = [reads("A1"), calls(cancel("A1")), "Done."]
    async with session(tmp_path, steps) as (_, opened):
        session_id = opened.id
        await converse(opened, "cancel A1", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))

    async with application(tmp_path, steps) as app:
        app.store.sessions.update(session_id, tools=["research"])
        async with app.open_session(session_id) as opened:
            with pytest.raises(ToolMissing, match="cancel_order"):
                await anext(opened.resume())
        app.store.sessions.update(session_id, tools=["orders"])
        async with app.open_session(session_id) as opened:
            assert (await resumed(opened)).done.state == "done"
    assert status(tmp_path, "A1") == "cancelled"


async def test_a_session_that_cannot_be_built_leaves_nothing_behind(tmp_path: Path) -> None:
    async with application(tmp_path, domains=[str(tmp_path / "nothing.py")]) as app:
        with pytest.raises(UsageError, match="no such file"):
            app.create_session()
        assert app.store.sessions.list() == []


async def test_a_tools_file_is_found_again_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "mine.py").write_text(
        "from langchain_core.tools import tool\n"
        "@tool\n"
        "def mine(n: int) -> str:\n"
        '    "Mine."\n'
        "    return str(n)\n"
    )
    monkeypatch.chdir(here)
    async with session(tmp_path / "home", ["Hi."], domains=["mine.py"]) as (app, opened):
        session_id = opened.id
    monkeypatch.chdir(there)
    async with (
        application(tmp_path / "home", ["Hi."]) as app,
        app.open_session(session_id) as opened,
    ):
        assert set(opened._tools) == {"mine"}


async def test_what_runs_as_the_session_moves_on_is_told_before_the_next_turn(
    tmp_path: Path,
) -> None:
    steps = [reads("A1", "A4"), calls(cancel("A1"), cancel("A4")), "All right.", "So."]
    async with session(tmp_path, steps) as (_, opened):
        await converse(opened, "cancel both", stays_silent)
        for asked in opened.pending():
            opened.decide(asked.id, Decision("approve"))
        moved = await converse(opened, "and now?", stays_silent)
        (known,) = moved.of(KnownSince)
        assert len(known.receipt.done) == 2
        assert (await converse(opened, "so?", stays_silent)).of(KnownSince) == []


async def test_a_stop_while_the_session_moves_on_says_what_runs(tmp_path: Path) -> None:
    steps = [reads("A1"), calls(cancel("A1")), "All right."]
    said: list[str] = []
    async with session(tmp_path, steps) as (app, opened):
        await converse(opened, "cancel it", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        begin = app.store.ledger.begin

        def stops(**kwargs: Any) -> Any:
            said.append(opened.request_stop())
            return begin(**kwargs)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(app.store.ledger, "begin", stops)
            moved = await converse(opened, "and now?", stays_silent)
        assert said == [
            "What was approved before is carried out first; then nothing else of it runs."
        ]
        assert moved.done.state == "done"
        assert opened.request_stop() == "Nothing is running."
