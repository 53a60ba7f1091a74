"""What falls between two moments: a stop, a second opening, what becomes known after a question."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.application import Application
from agent.errors import CannotUndo, SessionBusy, UsageError
from agent.evals.driving import converse
from agent.evals.reviewers import approves, stays_silent
from agent.events import Done, Event
from agent.session import AgentSession
from agent.store import ledger, outcomes
from agent.store.records import EffectRecord
from agent.types import Decision
from tests.support.sessions import application
from tests.support.unsure import Number, Service, act
from tools.contract import Call, Contract, Preview, Scope, Undo, make_tool

ANSWER = {"text": "added", "status": "success"}


async def followed(events: AsyncIterator[Event]) -> Done:
    """How it ended, once it has."""
    last = [event async for event in events][-1]
    assert isinstance(last, Done)
    return last


def approve_writes(approval: Any) -> Decision | None:
    return approves(approval) if approval.kind == "write" else None


def begun_again(app: Application, effect: EffectRecord, **more: Any) -> ledger.Begun:
    lease = app.store.leases.holder(effect.session)
    assert lease is not None
    same = {
        name: getattr(effect, name)
        for name in (
            "turn",
            "message",
            "call",
            "tool",
            "tool_version",
            "args",
            "digest",
            "approval",
        )
    }
    return app.store.ledger.begin(
        session=effect.session,
        epoch=lease.epoch,
        rule=None,
        idempotency_key=effect.idempotency_key,
        **(same | more),
    )


def came(app: Application, effect: EffectRecord, attempt: int, state: Any, **more: Any) -> Any:
    values = {"result": ANSWER, "transport": "late", "transaction": None} | more
    return app.store.ledger.finish(effect.id, attempt=attempt, state=state, **values)


# --- a stop -------------------------------------------------------------------------------------


class Slow:
    """Two writes of one conflict key; the first goes on until it is let go."""

    def __init__(self) -> None:
        self.entered, self.goes_on, self.ran = asyncio.Event(), asyncio.Event(), list[int]()

    def tool(self) -> Any:
        async def act(n: int) -> str:
            """Add a number."""
            self.entered.set()
            await self.goes_on.wait()
            self.ran.append(n)
            return "added"

        contract = Contract(
            effects=frozenset({"write:n"}), open_world=False, always=lambda args: Scope("all", {})
        )
        return make_tool(act, args=Number, contract=contract)


async def test_what_a_rule_allows_and_a_stop_holds_up_is_asked_of_nobody(tmp_path: Path) -> None:
    slow = Slow()
    steps = [act(2, 3), "Done."]
    async with (
        application(tmp_path, steps, tools=[slow.tool()]) as app,
        app.new_session() as opened,
    ):
        app.store.rules.add(opened.id, "act", "all", {}, app.actor, "0")
        driving = asyncio.create_task(followed(opened.run("more")))
        await slow.entered.wait()
        opened.request_stop()
        slow.goes_on.set()
        done = await driving
        assert (done.state, done.exit) == ("interrupted", 130)
        assert (slow.ran, opened.pending()) == ([2], [])
        await followed(opened.resume())
        assert slow.ran == [2, 3]
        assert {effect.state for effect in app.store.ledger.list()} == {"committed"}
        assert app.store.approvals.list(session=opened.id) == []


async def test_nothing_begins_after_a_stop_not_even_what_was_being_previewed(
    tmp_path: Path,
) -> None:
    ran, looked, goes_on = list[int](), threading.Event(), threading.Event()
    previews = 0

    async def act_(n: int) -> str:
        """Add a number."""
        ran.append(n)
        return "added"

    def preview(args: Any) -> Preview:
        nonlocal previews
        previews += 1
        if previews == 2:  # right before the write
            looked.set()
            goes_on.wait(20)
        return Preview("adds")

    contract = Contract(effects=frozenset({"write:n"}), open_world=False, preview=preview)
    tool = make_tool(act_, args=Number, contract=contract, name="act")
    async with (
        application(tmp_path, [act(1), "Done."], tools=[tool]) as app,
        app.new_session() as opened,
    ):
        await followed(opened.run("go"))
        opened.decide(opened.pending()[0].id, Decision("approve"))
        driving = asyncio.create_task(followed(opened.resume()))
        assert await asyncio.to_thread(looked.wait, 20)
        opened.request_stop()
        goes_on.set()
        assert (await driving).state == "interrupted"
        assert (ran, app.store.ledger.list()) == ([], [])
        await followed(opened.resume())
        assert ran == [1]


async def test_no_second_attempt_is_entered_after_a_stop(tmp_path: Path) -> None:
    service = Service(plan=["lost before"])
    looked, goes_on = threading.Event(), threading.Event()

    def find(args: Any, info: Any) -> Any:
        looked.set()
        goes_on.wait(20)
        return service.find(args, info)

    tools = service.tools(reconcile=find)
    async with (
        application(tmp_path, [act(1), "Done."], tools=tools) as app,
        app.new_session() as opened,
    ):
        await followed(opened.run("go"))
        opened.decide(opened.pending()[0].id, Decision("approve"))
        driving = asyncio.create_task(followed(opened.resume()))
        assert await asyncio.to_thread(looked.wait, 20)
        opened.request_stop()
        goes_on.set()
        await driving
        assert len(service.entries) == 1


# --- one at a time ------------------------------------------------------------------------------


async def test_a_session_is_open_once_in_a_process_whoever_opens_it(tmp_path: Path) -> None:
    async with application(tmp_path, ["Hi."]) as one, application(tmp_path, ["Hi."]) as other:
        async with one.new_session() as opened:
            for app in (one, other):
                with pytest.raises(SessionBusy, match="is open already"):
                    async with app.open_session(opened.id):
                        pytest.fail("it was opened twice")
            assert (await followed(opened.run("hello"))).state == "done"
        async with other.open_session(opened.id) as later:
            assert (await later.history())[-1].text == "Hi."


async def test_a_second_turn_is_refused_while_one_is_under_way(tmp_path: Path) -> None:
    slow = Slow()
    async with (
        application(tmp_path, [act(1), "Done."], tools=[slow.tool()]) as app,
        app.new_session() as opened,
    ):
        app.store.rules.add(opened.id, "act", "all", {}, app.actor, "0")
        driving = asyncio.create_task(followed(opened.run("go")))
        await slow.entered.wait()
        for second in (opened.run("and this"), opened.resume()):
            with pytest.raises(UsageError, match="is under way here"):
                await followed(second)
        slow.goes_on.set()
        assert (await driving).state == "done"
        assert [m.text for m in await opened.history() if m.type == "human"] == ["go"]


# --- what becomes known after a question ---------------------------------------------------------


def a_day_back() -> str:
    return "2020-01-01T00:00:00.000000Z"


def expired(app: Application, session: AgentSession) -> Any:
    (asked,) = [row for row in session.pending() if row.kind == "write"]
    app.store.approvals.expire(asked.id, "nobody decided in time")


@pytest.mark.parametrize("how", ["plain", "expired", "clock"])
async def test_the_same_call_that_is_known_by_now_voids_the_question_by_the_trails_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    service = Service(plan=["lost after"], honours_keys=False)
    steps = [act(1), "Unknown.", act(1), "Well."]
    async with (
        application(tmp_path, steps, tools=service.tools(), approval_hours=1) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "go", approve_writes)
        (effect,) = app.store.ledger.list()
        app.store.ledger.settle(effect.id, False, app.actor)
        await converse(opened, "again", stays_silent)
        if how == "expired":
            expired(app, opened)
        with monkeypatch.context() as patch:
            if how == "clock":
                for module in (outcomes, ledger):
                    patch.setattr(module, "now", a_day_back)
            came(app, effect, 1, "committed", transaction="T1")
        if how == "expired":
            await opened.ask_again()
        (asked,) = [row for row in opened.pending() if row.kind == "write"]
        opened.decide(asked.id, Decision("approve"))
        await followed(opened.resume())
        assert service.numbers == [1]
        assert app.store.approvals.get(asked.id).was_void


async def test_what_the_source_of_a_fork_has_done_meanwhile_voids_the_forks_question(
    tmp_path: Path,
) -> None:
    service = Service(honours_keys=False)
    steps = ["Hello.", act(1), "Done.", "x", "y"]
    async with application(tmp_path, steps, tools=service.tools()) as app:
        async with app.new_session() as source:
            await followed(source.run("hi"))
        fork = await app.fork(source.id)
        async with app.open_session(fork.id) as opened:
            await followed(opened.run("do 1"))
        async with app.open_session(source.id) as again:
            await converse(again, "do 1", approves)
        async with app.open_session(fork.id) as opened:
            (asked,) = opened.pending()
            opened.decide(asked.id, Decision("approve"))
            await followed(opened.resume())
        assert service.numbers == [1]
        assert app.store.approvals.get(asked.id).was_void


async def test_two_equal_calls_of_one_reply_are_two(tmp_path: Path) -> None:
    service = Service(honours_keys=False)
    async with (
        application(tmp_path, [act(1, 1), "Done."], tools=service.tools()) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "twice, please", approves)
        assert service.numbers == [1, 1]


# --- undo ---------------------------------------------------------------------------------------

UNDO = Undo("take it back", lambda done: Call("act", {"n": -done.args["n"]}))


async def test_an_undo_is_void_when_what_it_undoes_is_not_known_any_more(tmp_path: Path) -> None:
    service = Service(plan=["lost after"], honours_keys=False)
    tools = service.tools(undo=UNDO)
    async with (
        application(tmp_path, [act(1), "Hm.", "x"], tools=tools) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "go", approve_writes)
        (effect,) = app.store.ledger.list()
        app.store.ledger.settle(effect.id, True, app.actor)
        await followed(opened.undo(effect.id))
        (asked,) = [row for row in opened.pending() if row.kind == "write"]
        assert came(app, effect, 1, "failed").state == "in_doubt"
        opened.decide(asked.id, Decision("approve"))
        await followed(opened.resume())
        assert service.numbers == [1]
        assert app.store.approvals.get(asked.id).was_void
        assert [row.id for row in app.store.ledger.list()] == [effect.id]
        assert "not known any more to have happened" in opened.receipt().not_done[0]


async def test_what_happened_twice_is_for_a_person_to_undo(tmp_path: Path) -> None:
    service = Service(plan=["lost before"], honours_keys=False)
    async with (
        application(tmp_path, [act(1), "Hm."], tools=service.tools(undo=UNDO)) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "go", approve_writes)
        (effect,) = app.store.ledger.list()
        app.store.ledger.settle(effect.id, False, app.actor)
        begun_again(app, effect)
        for attempt, transaction in ((2, "T2"), (1, "T1")):
            came(app, effect, attempt, "committed", transaction=transaction)
        with pytest.raises(CannotUndo, match=r"attempts 1, 2.* by hand"):
            await followed(opened.undo())


async def test_the_last_write_is_not_passed_over_while_it_is_in_doubt(tmp_path: Path) -> None:
    service = Service(plan=["answers", "lost after"], honours_keys=False)
    steps = [act(1), "One.", act(2), "Two."]
    async with (
        application(tmp_path, steps, tools=service.tools(undo=UNDO)) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "go", approve_writes)
        await converse(opened, "and 2", approve_writes)
        (doubted, first) = app.store.ledger.list()
        with pytest.raises(CannotUndo, match=rf"sayso reconcile {doubted.id}"):
            await followed(opened.undo())
        await followed(opened.undo(first.id))  # named, it can be


# --- keys ---------------------------------------------------------------------------------------


def resent(seconds: float | None) -> Callable[[Path], Any]:
    service = Service(plan=["lost after"] * 3)
    tools = service.tools(idempotency="key", key_seconds=seconds)
    return lambda home: application(home, [act(1), "ok"], tools=tools)


async def test_two_transactions_are_two_whatever_a_service_says_of_keys(tmp_path: Path) -> None:
    async with resent(0.01)(tmp_path) as app, app.new_session() as opened:
        await converse(opened, "go", approve_writes)
        (effect,) = app.store.ledger.list()
        begun_again(app, effect, resend=True)
        came(app, effect, 2, "committed", transaction="T2", once=True)
        late = came(app, effect, 1, "committed", transaction="T1", once=True)
        assert (late.evidence or {})["twice"] == [1, 2]


async def test_an_attempt_that_died_under_a_key_that_had_worked_is_no_second_one(
    tmp_path: Path,
) -> None:
    async with resent(0.01)(tmp_path) as app, app.new_session() as opened:
        await converse(opened, "go", approve_writes)
        (effect,) = app.store.ledger.list()
        begun_again(app, effect, resend=True)
        came(app, effect, 1, "committed", transaction="T1", once=True)
        begun_again(app, effect)  # the process had died
        assert app.store.ledger.get(effect.id).state == "in_doubt"
        app.store.ledger.settle(effect.id, True, app.actor)
        settled = app.store.ledger.get(effect.id)
        assert (settled.state, settled.transaction) == ("committed", "T1")
        assert "twice" not in (settled.evidence or {})
