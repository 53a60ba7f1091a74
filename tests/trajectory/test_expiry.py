"""Nobody decided in time: that is no rejection, nothing ran, and it can be asked again."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.errors import AlreadyDecided, ApprovalExpired, DecisionError
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Rejects, approves, stays_silent
from agent.inbox import decide
from agent.session import AgentSession, CallsWait
from agent.store import Store
from agent.types import Actor, Decision
from tests.support.sessions import application, session
from tests.support.unsure import Service, act
from tools.contract import Preview

ANA = Actor("ana", 1000, "here", "test")
LONG_AGO = "2020-01-01T00:00:00.000000Z"


def time_passes(home: Path, *approvals: str) -> None:
    """The time of these approvals was over long ago."""
    with closing(sqlite3.connect(home / "sayso.db")) as db, db:
        for approval in approvals:
            changed = db.execute(
                "UPDATE approvals SET expires_at = ? WHERE id = ?", (LONG_AGO, approval)
            )
            assert changed.rowcount == 1


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


async def asked(opened: AgentSession, home: Path) -> list[str]:
    """Propose what the script says, and let the time of all its approvals pass."""
    await converse(opened, "go", stays_silent)
    ids = [row.id for row in opened.pending()]
    time_passes(home, *ids)
    return ids


@pytest.mark.parametrize("noticed", [False, True], ids=["by nobody yet", "already"])
@pytest.mark.parametrize(
    "decision",
    [
        Decision("approve"),
        Decision("reject", message="no"),
        Decision("edit", args={"n": 2}),
        Decision("respond", message="done by hand"),
    ],
    ids=lambda decision: decision.type,
)
async def test_an_answer_that_comes_too_late_is_told_so_and_changes_nothing(
    tmp_path: Path, decision: Decision, noticed: bool
) -> None:
    service = Service()
    async with session(tmp_path, [act(1), "Done."], tools=service.tools()) as (app, opened):
        (late,) = await asked(opened, tmp_path)
        if noticed:
            assert opened.pending() == []
        with pytest.raises(ApprovalExpired) as told:
            opened.decide(late, decision)

        assert (told.value.status, told.value.at) == ("expired", LONG_AGO)
        assert f"sayso resume {opened.id} --ask-again" in str(told.value)
        assert "nothing ran" in str(told.value)
        row = app.store.approvals.get(late)
        assert (row.status, row.decided_by, row.comment) == (
            "expired",
            None,
            "nobody decided in time",
        )
        (closed,) = [e.data for e in app.store.trail.entries(opened.id, kind="approval.decided")]
        assert (closed["approval"], closed["status"], closed["by"]) == (late, "expired", None)
        assert app.store.sessions.get(opened.id).state == "waiting"
        assert service.entries == []
        assert app.store.trail.verify() == []


async def test_gone_on_without_asking_again_the_model_is_told_and_nothing_runs(
    tmp_path: Path,
) -> None:
    service = Service()
    async with session(tmp_path, [act(1), "Nobody decided."], tools=service.tools()) as (
        app,
        opened,
    ):
        await asked(opened, tmp_path)
        done = await resumed(opened)

        assert (done.done.state, done.done.answer) == ("done", "Nobody decided.")
        assert done.results["c1"].startswith("Nobody decided about this call in time")
        assert opened.receipt().not_done == ("act(n=1): nobody decided in time",)
        assert done.done.exit == 0  # an expiry is no refusal
        assert service.entries == []
        assert app.store.ledger.list() == []
        assert await opened.ask_again() == []


async def test_asked_again_and_approved_it_runs_once(tmp_path: Path) -> None:
    service = Service()
    async with session(tmp_path, [act(1), "Done."], tools=service.tools()) as (app, opened):
        (late,) = await asked(opened, tmp_path)
        before = app.store.approvals.get(late)
        (again,) = await opened.ask_again()

        assert (again.status, again.attempt, again.expires_at is not None) == ("pending", 2, True)
        assert (again.args, again.digest, again.call) == (before.args, before.digest, before.call)
        assert (again.reason, again.preview) == (before.reason, before.preview)
        assert opened.pending() == [again]
        assert await opened.ask_again() == []
        assert app.store.approvals.get(late).status == "expired"

        opened.decide(again.id, Decision("approve"))
        done = await resumed(opened)
        assert done.done.answer == "Done."
        assert service.numbers == [1]
        (effect,) = app.store.ledger.list()
        assert effect.approval == again.id
        with pytest.raises(ApprovalExpired):
            opened.decide(late, Decision("approve"))
        assert app.store.trail.verify() == []


@pytest.mark.parametrize("before", ["decided", "gone on without an answer"])
async def test_asked_again_it_takes_any_answer_also_in_another_process(
    tmp_path: Path, before: str
) -> None:
    service = Service()
    steps = [act(1), "I see."]
    async with session(tmp_path, steps, tools=service.tools()) as (_, opened):
        session_id = opened.id
        await asked(opened, tmp_path)
    async with (
        application(tmp_path, steps, tools=service.tools()) as app,
        app.open_session(session_id) as opened,
    ):
        (again,) = await opened.ask_again()
        if before != "decided":
            assert (await resumed(opened)).done.state == "waiting"
            assert opened.pending()[0].id == again.id
        decision = Rejects("too late now")(again)
        assert decision is not None
        opened.decide(again.id, decision)
        done = await resumed(opened)
        assert "too late now" in done.results["c1"]
        assert service.entries == []
        assert [row.status for row in app.store.approvals.list(None)] == ["rejected", "expired"]


async def test_only_what_expired_is_asked_again(tmp_path: Path) -> None:
    service = Service()
    async with session(tmp_path, [act(1, 2, 3), "Done."], tools=service.tools()) as (app, opened):
        assert await opened.ask_again() == []
        await converse(opened, "go", stays_silent)
        assert await opened.ask_again() == []
        one, two, three = opened.pending()
        opened.decide(one.id, Decision("approve"))
        time_passes(tmp_path, one.id, two.id)

        (again,) = await opened.ask_again()
        assert again.call == two.call
        assert {row.id for row in opened.pending()} == {again.id, three.id}
        await review(opened, approves)
        assert sorted(service.numbers) == [1, 2, 3]
        assert len(app.store.ledger.list()) == 3


async def test_of_several_answers_one_that_is_too_late_keeps_all_of_them_back(
    tmp_path: Path,
) -> None:
    service = Service()
    async with session(tmp_path, [act(1, 2), "Done."], tools=service.tools()) as (app, opened):
        await converse(opened, "go", stays_silent)
        one, two = opened.pending()
        time_passes(tmp_path, two.id)
        with pytest.raises(ApprovalExpired):
            opened.decide_many([(one.id, Decision("approve")), (two.id, Decision("approve"))])
        assert [row.id for row in opened.pending()] == [one.id]
        assert app.store.approvals.get(two.id).status == "expired"


async def test_a_new_message_moves_on_from_what_expired(tmp_path: Path) -> None:
    service = Service()
    async with session(tmp_path, [act(1, 2), "All right."], tools=service.tools()) as (_, opened):
        await converse(opened, "go", stays_silent)
        one, two = opened.pending()
        time_passes(tmp_path, one.id)
        with pytest.raises(CallsWait) as waiting:
            await anext(opened.run("never mind"))
        assert [row.id for row in waiting.value.approvals] == [two.id]
        time_passes(tmp_path, two.id)

        moved = await converse(opened, "never mind", stays_silent)
        assert moved.done.answer == "All right."
        said = [str(m.content) for m in await opened.history() if m.type == "tool"]
        assert all("Nobody decided about this call in time" in text for text in said)
        assert await opened.ask_again() == []
        assert service.entries == []


async def test_what_changed_while_nobody_decided_is_shown_before_it_runs(tmp_path: Path) -> None:
    """What is asked again shows what was shown; the difference is found where it would run."""
    service, word = Service(), ["1 → 2"]
    tools = service.tools(preview=lambda args: Preview(word[0]))
    async with session(tmp_path, [act(1), "Done."], tools=tools) as (_, opened):
        await asked(opened, tmp_path)
        await opened.ask_again()
        word[0] = "2 → 3"
        opened.decide(opened.pending()[0].id, Decision("approve"))
        assert (await resumed(opened)).done.state == "waiting"
        (third,) = opened.pending()
        assert (third.attempt, third.preview and third.preview["summary"]) == (3, "2 → 3")
        assert service.entries == []
        time_passes(tmp_path, third.id)
        (fourth,) = await opened.ask_again()
        opened.decide(fourth.id, Decision("approve"))
        await resumed(opened)
        assert service.numbers == [1]


async def test_a_fork_has_none_of_it_to_ask_again(tmp_path: Path) -> None:
    service = Service()
    steps = [act(1, 2), "In the fork."]
    async with application(tmp_path, steps, tools=service.tools()) as app:
        async with app.new_session() as source:
            await converse(source, "go", stays_silent)
            time_passes(tmp_path, source.pending()[0].id)
            record = await app.fork(source.id)
        async with app.open_session(record.id) as fork:
            assert fork.pending() == []
            assert await fork.ask_again() == []
            assert app.store.approvals.list(None, session=fork.id) == []
            assert (await converse(fork, "go on", approves)).done.answer == "In the fork."
        async with app.open_session(source.id) as opened:
            assert len(await opened.ask_again()) == 1
    assert service.entries == []


@pytest.mark.parametrize(("hours", "expires"), [(0, False), (1, True)])
async def test_how_long_an_approval_may_wait_is_a_setting(
    tmp_path: Path, hours: float, expires: bool
) -> None:
    tools = Service().tools()
    async with session(tmp_path, [act(1), "Done."], tools=tools, approval_hours=hours) as (
        app,
        opened,
    ):
        await converse(opened, "go", stays_silent)
        (row,) = opened.pending()
        assert (row.expires_at is not None) == expires
        assert row.expires_at is None or row.expires_at > row.asked_at
        (entry,) = app.store.trail.entries(opened.id, kind="approval.asked")
        assert entry.data["expires_at"] == row.expires_at


async def test_the_question_whether_something_happened_never_expires(tmp_path: Path) -> None:
    service = Service(plan=["lost after"])
    async with session(tmp_path, [act(1), "Hm."], tools=service.tools()) as (_, opened):
        await converse(opened, "go", approves)
        (doubt,) = opened.pending()
        assert (doubt.kind, doubt.expires_at) == ("in_doubt", None)


async def test_of_an_answer_and_the_end_of_its_time_one_wins_and_the_other_is_told(
    tmp_path: Path,
) -> None:
    rounds = list(range(40))
    service = Service()
    async with session(tmp_path, [act(*rounds), "Done."], tools=service.tools()) as (app, opened):
        await converse(opened, "go", stays_silent)
        rows = opened.pending()
        start = threading.Barrier(2)
        told: dict[str, dict[str, Any]] = {"decides": {}, "expires": {}}

        def each(name: str, step: Any) -> None:
            store = Store.open(app.settings.database_url)
            try:
                for row in rows:
                    start.wait()
                    try:
                        step(store, row.id)
                    except DecisionError as error:
                        told[name][row.id] = error
            finally:
                store.close()

        steps: dict[str, Any] = {
            "decides": lambda store, key: decide(
                store, [(key, Decision("approve"))], ANA, lambda name: None
            ),
            "expires": lambda store, key: store.approvals.expire(key, "nobody decided in time"),
        }
        pair = [threading.Thread(target=each, args=item) for item in steps.items()]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()

        done = await resumed(opened)
        assert done.done.state == "done"
        closed = {row.id: row for row in app.store.approvals.list(None, limit=None)}
        for row in rows:
            status = closed[row.id].status
            loser = {"approved": "expires", "expired": "decides"}[status]
            assert [name for name in told if row.id in told[name]] == [loser]
            error = told[loser][row.id]
            assert isinstance(error, AlreadyDecided)
            assert error.status == status
        approved = sorted(row.args["n"] for row in rows if closed[row.id].status == "approved")
        assert sorted(service.numbers) == approved
        assert app.store.trail.verify() == []
