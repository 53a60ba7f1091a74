"""A write whose outcome is unknown: looked up, sent again under its key, or put to a person.

Whatever happens, the service's numbers say how often it took effect, and the ledger says no more
than anybody knows.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from agent import evidence
from agent.application import Application
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Edits, Settles, approves, stays_silent
from agent.middleware import writes
from agent.models.scripted import ScriptedChatModel
from agent.session import AgentSession
from agent.store.ledger import Ledger
from agent.store.records import ApprovalRecord, EffectRecord
from agent.types import Decision
from tests.support.sessions import application, calls, session
from tests.support.unsure import How, Number, Service, act
from tools.contract import Contract, Evidence, Finding, Scope, make_tool

LOOK = 'Find out with look({"n":1}).'


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two attempts nobody waits."""
    monkeypatch.setattr(writes, "BACK_OFF", 0)


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


def the_effect(app: Application) -> EffectRecord:
    (effect,) = app.store.ledger.list()
    return effect


def kinds(app: Application, opened: AgentSession) -> list[str]:
    return [e.kind for e in app.store.trail.entries(opened.id) if e.kind.startswith("effect.")]


def question(opened: AgentSession) -> ApprovalRecord:
    (asked,) = opened.pending()
    assert asked.kind == "in_doubt"
    return asked


# --- the record after the write --------------------------------------------------------------


def breaks(*_: Any) -> Any:
    raise KeyError("surprise")


async def hangs(*_: Any) -> Any:
    await asyncio.Event().wait()


UNVERIFIED: dict[str, tuple[Any, str]] = {
    "not there": (lambda *_: Finding(False, "There is no 1."), "There is no 1."),
    "cannot tell": (lambda *_: Finding(None, "Hm."), "Hm."),
    "raises": (breaks, "The record could not be read: 'surprise'."),
    "hangs": (hangs, "The record could not be read: the function hangs ("),
    "says nothing": (lambda *_: None, "The record gave a NoneType, which says nothing."),
    "says true": (lambda *_: True, "The record gave a bool, which says nothing."),
    "gives what cannot be kept": (
        lambda *_: Finding(True, "There.", {"at": object()}),
        "The record gave a record that is no JSON",
    ),
}


@pytest.mark.parametrize(("postcondition", "summary"), UNVERIFIED.values(), ids=UNVERIFIED)
async def test_an_answer_that_the_record_does_not_bear_out_is_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postcondition: Any, summary: str
) -> None:
    monkeypatch.setattr(evidence, "RECORD_SECONDS", 1.5)
    service = Service()
    tools = service.tools(postcondition=postcondition)
    async with session(tmp_path, [act(1), "Hm."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        effect = the_effect(app)
        assert (effect.state, effect.transport, effect.attempts) == ("in_doubt", "answered", 1)
        assert effect.evidence is not None
        assert summary in effect.evidence["postcondition"]["summary"]
        said = trajectory.results["c1"]
        assert summary in said
        assert "the record does not show that it happened" in said
        assert LOOK in said
        assert service.answer(1) in said
        asked = question(opened)
        assert summary in asked.notes[0]
        assert asked.notes[1] == 'look({"n":1}) shows:\nthe numbers are [1]'
        assert len(opened.receipt().unknown) == 1
        assert service.numbers == [1]


@pytest.mark.parametrize(
    "record", [{"status": "done"}, {}], ids=["with what was read", "without it"]
)
async def test_what_the_record_shows_after_the_write_is_kept_with_it(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    service, heard = Service(), list[Any]()

    async def verify(args: Any, info: Any, result: Any) -> Finding:
        heard.append((args, info.idempotency_key, result))
        return Finding(True, "1 is there.", record, "T-of-the-record")

    tools = service.tools(postcondition=verify)
    async with session(tmp_path, [act(1), "Done."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        effect = the_effect(app)
        assert heard == [({"n": 1}, effect.idempotency_key, {"transaction": "T1", "n": 1})]
        assert (effect.state, effect.transaction) == ("committed", "T-of-the-record")
        assert effect.evidence == {"postcondition": {"summary": "1 is there.", "record": record}}
        assert trajectory.results["c1"] == service.answer(1)
        assert opened.pending() == []


async def test_the_record_is_not_asked_about_what_is_known_to_have_failed(tmp_path: Path) -> None:
    service = Service(plan=["busy"])
    tools = service.tools(postcondition=breaks, reconcile=breaks)
    async with session(tmp_path, [act(1), "Hm."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)
        assert the_effect(app).state == "failed"
        assert "nothing changed: the service is busy." in trajectory.results["c1"]


# --- looking it up ---------------------------------------------------------------------------


@pytest.mark.parametrize("open_world", [False, True])
async def test_what_the_record_has_is_committed_and_nobody_is_asked(
    tmp_path: Path, open_world: bool
) -> None:
    service, seen = Service(plan=["lost after"]), list[list[Evidence]]()
    tools = service.tools(
        reconcile=service.find,
        open_world=open_world,
        precondition=lambda args, found: seen.append(list(found)),
    )
    async with session(tmp_path, [act(1), act(2), "Done."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        effect = app.store.ledger.list()[-1]
        assert (effect.state, effect.settled, effect.attempts) == ("committed", "happened", 1)
        assert effect.transaction == "T1"
        assert (effect.evidence or {})["found"]["record"] == {"n": 1}
        assert (effect.evidence or {})["by"]["name"] == "its own record"
        said = trajectory.results["c1"]
        assert "the service's own record shows that it happened" in said
        assert service.answer(1) in said
        assert ("untrusted content" in said) == open_world
        assert opened.pending() == []
        assert service.numbers == [1, 2]
        assert [info.idempotency_key for info in service.asked] == [effect.idempotency_key]
        assert "according to its own record" in opened.receipt().done[0]
        assert "effect.found" in kinds(app, opened)
        # What it would have returned is evidence as what it returns is.
        assert seen[-1] == [Evidence("act", {"n": 1}, {"transaction": "T1", "n": 1})]


async def test_what_the_record_does_not_have_is_entered_again_under_the_same_key_and_approval(
    tmp_path: Path,
) -> None:
    service = Service(plan=["lost before"])
    tools = service.tools(reconcile=service.find)
    async with session(tmp_path, [act(1), "Done."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        effect = the_effect(app)
        assert (effect.state, effect.attempts, effect.settled) == ("committed", 2, None)
        key = effect.idempotency_key
        assert service.entries == [(key, 1), (key, 2)]
        assert service.numbers == [1]
        assert trajectory.results["c1"] == service.answer(1)
        (asked,) = trajectory.asked
        assert effect.approval == asked.id
        assert kinds(app, opened) == [
            "effect.intended",
            "effect.in_doubt",
            "effect.found",
            "effect.intended",
            "effect.committed",
        ]


async def test_a_run_does_not_try_for_ever(tmp_path: Path) -> None:
    service = Service(plan=["lost before"] * 9)
    tools = service.tools(reconcile=service.find, open_world=True)
    async with session(tmp_path, [act(1), "It did not work."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        effect = the_effect(app)
        assert (effect.state, effect.settled, effect.attempts) == ("failed", "not happened", 3)
        assert "This call did not happen" in trajectory.results["c1"]
        # The record's words are as much a stranger's as a result is.
        assert "untrusted content from act" in trajectory.results["c1"]
        assert "There is no 1 under this key." in trajectory.results["c1"]
        assert "not done, according to its own record" in opened.receipt().not_done[0]
        assert opened.pending() == []
        assert service.numbers == []


@pytest.mark.parametrize(
    ("reconcile", "summary"),
    [
        (breaks, "'surprise'"),
        (hangs, "the function hangs (test_in_doubt.py, line"),
        (lambda *_: Finding(None, "Hm."), "Hm."),
        (lambda *_: "yes", "gave a str"),
        (lambda *_: Finding(1, "x"), "gave 1 for whether"),
    ],
    ids=["raises", "hangs", "cannot tell", "nonsense", "half nonsense"],
)
async def test_what_the_record_cannot_tell_is_put_to_a_person_with_what_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reconcile: Any, summary: str
) -> None:
    monkeypatch.setattr(evidence, "RECORD_SECONDS", 1.5)
    service = Service(plan=["lost after"])
    tools = service.tools(reconcile=reconcile)
    async with session(tmp_path, [act(1), "Hm.", "I see."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        assert LOOK in trajectory.results["c1"]
        assert "Do not repeat it." in trajectory.results["c1"]
        asked = question(opened)
        assert asked.notes[0].startswith("act says of its record:\n")
        assert summary in asked.notes[0]
        assert asked.notes[1] == 'look({"n":1}) shows:\nthe numbers are [1]'
        assert service.entries == [(the_effect(app).idempotency_key, 1)]

        await review(opened, Settles(happened=True))
        assert the_effect(app).state == "committed"
        assert service.numbers == [1]


async def test_a_record_that_can_tell_later_is_asked_again_when_the_session_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, closed = Service(plan=["hangs after"]), [True]

    def find(args: Any, info: Any) -> Finding:
        return Finding(None, "The desk is closed.") if closed[0] else service.find(args, info)

    tools = service.tools(reconcile=find, timeout=0.5)
    async with session(tmp_path, [act(1), "Done."], tools=tools) as (app, opened):
        await interrupted_in(opened, service, monkeypatch)
        assert (await resumed(opened)).done.state == "waiting"
        asked = question(opened)

        closed[0] = False
        done = await resumed(opened)
        assert done.done.answer == "Done."
        assert "shows that it happened" in done.results["c1"]
        row = app.store.approvals.get(asked.id)
        assert (row.status, row.comment) == ("superseded", "found out: committed")
        assert service.numbers == [1]


async def test_a_doubt_can_be_looked_up_without_going_on(tmp_path: Path) -> None:
    service, closed = Service(plan=["lost after"]), [True]

    def find(args: Any, info: Any) -> Finding:
        return Finding(None, "The desk is closed.") if closed[0] else service.find(args, info)

    tools = service.tools(reconcile=find)
    async with session(tmp_path, [act(1), "Hm."], tools=tools) as (app, opened):
        await converse(opened, "go", approves)
        effect = the_effect(app)
        assert (await opened.look_up(effect.id)).state == "in_doubt"
        asked = question(opened)
        closed[0] = False
        assert (await opened.look_up(effect.id)).state == "committed"
        assert opened.pending() == []
        assert app.store.approvals.get(asked.id).status == "superseded"
        known = the_effect(app)
        assert await opened.look_up(effect.id) == known


# --- what still runs is not known to have ended ----------------------------------------------


async def interrupted_in(
    opened: AgentSession, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approve the one write of a turn, and stop at once while it is under way."""
    monkeypatch.setattr(writes, "GRACE", 0)
    await converse(opened, "go", stays_silent)
    service.entered.clear()
    opened.decide(opened.pending()[0].id, Decision("approve"))
    driving = asyncio.create_task(resumed(opened))
    await service.entered.wait()
    opened.request_stop()
    opened.request_stop()
    assert (await driving).done.state == "interrupted"


async def test_not_there_is_not_trusted_while_the_body_runs(tmp_path: Path) -> None:
    service = Service(plan=["hangs before"])
    tools = service.tools(reconcile=service.find, timeout=0.5)
    async with session(tmp_path, [act(1), "Hm."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        assert "no answer within 0.5 seconds" in trajectory.results["c1"]
        effect = the_effect(app)
        assert (effect.state, effect.attempts) == ("in_doubt", 1)
        assert question(opened).notes[0].endswith("It is still under way.")
        assert (await opened.look_up(effect.id)).state == "in_doubt"

        service.goes_on.set()
        await body_of(app, effect)
        late = the_effect(app)
        assert (late.state, late.transport) == ("committed", "late")
        assert service.numbers == [1]
        assert opened.pending() == []


async def body_of(app: Application, effect: EffectRecord) -> None:
    """Wait until no body of a write of this process is left."""
    while bodies := [t for t in asyncio.all_tasks() if "_Attempt._body" in repr(t.get_coro())]:
        await asyncio.wait(bodies, timeout=10)


async def test_nor_by_another_run_of_the_same_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread cannot be stopped; what a stopped run left of it may still take effect."""
    monkeypatch.setattr(writes, "GRACE", 0)
    service, goes_on, loop = Service(), threading.Event(), asyncio.get_running_loop()

    def body(n: int) -> str:
        """Add a number."""
        service.entries.append(("", 1))
        loop.call_soon_threadsafe(service.entered.set)
        goes_on.wait()
        service.numbers.append(n)
        return "added"

    contract = Contract(
        effects=frozenset({"write:numbers"}),
        open_world=False,
        reconcile=service.find,
        timeout=0.5,
    )
    tools = [make_tool(body, args=Number, contract=contract, name="act")]
    async with session(tmp_path, [act(1), "Done."], tools=tools) as (app, opened):
        await interrupted_in(opened, service, monkeypatch)
        assert (await resumed(opened)).done.state == "waiting"
        assert question(opened).notes[0].endswith("It is still under way.")
        assert the_effect(app).state == "in_doubt"

        goes_on.set()
        await body_of(app, the_effect(app))
        assert the_effect(app).state == "committed"
        done = await resumed(opened)
        assert done.results["c1"] == "added"
        assert service.numbers == [1]
        assert len(service.entries) == 1


async def test_nor_is_it_sent_again_under_its_key_until_then(tmp_path: Path) -> None:
    service = Service(plan=["hangs after"])
    tools = service.tools(idempotency="key", timeout=0.2)
    async with session(tmp_path, [act(1), "Hm."], tools=tools) as (app, opened):
        await converse(opened, "go", approves)
        assert (the_effect(app).state, the_effect(app).attempts) == ("in_doubt", 1)
        assert len(service.entries) == 1

        service.goes_on.set()
        await body_of(app, the_effect(app))
        assert (the_effect(app).state, the_effect(app).transport) == ("committed", "late")
        assert service.numbers == [1]


# --- sending it again ------------------------------------------------------------------------


async def test_a_lost_answer_is_asked_for_again_under_the_same_key(tmp_path: Path) -> None:
    service = Service(plan=["lost after"])
    async with session(tmp_path, [act(1), "Done."], tools=service.tools(idempotency="key")) as (
        app,
        opened,
    ):
        trajectory = await converse(opened, "go", approves)

        effect = the_effect(app)
        assert (effect.state, effect.attempts) == ("committed", 2)
        assert service.entries == [(effect.idempotency_key, 1), (effect.idempotency_key, 2)]
        assert service.numbers == [1]
        assert trajectory.results["c1"] == service.answer(1)
        assert opened.pending() == []
        assert len(trajectory.asked) == 1


async def test_so_are_the_arguments_of_an_edit(tmp_path: Path) -> None:
    service = Service(plan=["lost after"])
    tools = service.tools(idempotency="key")
    async with session(tmp_path, [act(1), "Done."], tools=tools) as (app, opened):
        await converse(opened, "go", Edits({"n": 7}))
        assert (the_effect(app).state, the_effect(app).attempts) == ("committed", 2)
        assert service.numbers == [7]


@pytest.mark.parametrize("plan", [["lost after"] * 9, ["lost after", *["busy"] * 9]])
async def test_what_the_second_attempt_says_of_itself_says_nothing_of_the_first(
    tmp_path: Path, plan: list[How]
) -> None:
    """ "Busy, nothing changed" is about the request that was refused, not about the lost one."""
    service = Service(plan=plan)
    tools = service.tools(idempotency="key")
    async with session(tmp_path, [act(1), "Hm."], tools=tools) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        effect = the_effect(app)
        assert (effect.state, effect.attempts) == ("in_doubt", 3)
        assert "may have happened" in trajectory.results["c1"]
        assert "nothing changed" not in trajectory.results["c1"]
        assert question(opened).attempt == 3
        assert service.numbers == [1]


async def test_a_first_attempt_that_is_refused_is_not_sent_again(tmp_path: Path) -> None:
    service = Service(plan=["busy"])
    tools = service.tools(idempotency="key")
    async with session(tmp_path, [act(1), "Hm."], tools=tools) as (app, opened):
        await converse(opened, "go", approves)
        assert (the_effect(app).state, the_effect(app).attempts) == ("failed", 1)


@pytest.mark.parametrize(
    "contract",
    [{"idempotency": "key", "key_seconds": 1e-6}, {"idempotency": "natural"}, {}],
    ids=["the key is forgotten by now", "repeating it is harmless, they say", "no key"],
)
async def test_what_the_service_would_not_recognise_goes_to_a_person(
    tmp_path: Path, contract: dict[str, Any]
) -> None:
    service = Service(plan=["lost after"])
    async with session(tmp_path, [act(1), "Hm."], tools=service.tools(**contract)) as (app, opened):
        await converse(opened, "go", approves)
        assert (the_effect(app).state, the_effect(app).attempts) == ("in_doubt", 1)
        assert question(opened).notes == ['look({"n":1}) shows:\nthe numbers are [1]']
        assert service.numbers == [1]


TOO_OLD: dict[str, tuple[float, float]] = {
    "it will be forgotten while the request is on its way": (10, 4),
    "it will be forgotten before the request is sent": (10, 9.9),
    "it began later than now, by another clock": (10, -1),
}


@pytest.mark.parametrize(("key_seconds", "age"), TOO_OLD.values(), ids=TOO_OLD)
async def test_a_key_that_may_be_forgotten_when_the_request_arrives_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key_seconds: float, age: float
) -> None:
    service = Service(plan=["lost after"])
    monkeypatch.setattr(writes, "_age", lambda effect: age)
    monkeypatch.setattr(writes, "BACK_OFF", 0.2)
    tools = service.tools(idempotency="key", key_seconds=key_seconds, timeout=6)
    async with session(tmp_path, [act(1), "Hm."], tools=tools) as (app, opened):
        await converse(opened, "go", approves)
        assert (the_effect(app).state, len(service.entries)) == ("in_doubt", 1)


async def test_a_key_that_is_remembered_long_enough_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(plan=["lost after"])
    monkeypatch.setattr(writes, "_age", lambda effect: 3.9)
    tools = service.tools(idempotency="key", key_seconds=10, timeout=6)
    async with session(tmp_path, [act(1), "Done."], tools=tools) as (app, opened):
        await converse(opened, "go", approves)
        assert (the_effect(app).state, len(service.entries)) == ("committed", 2)
        assert service.numbers == [1]


async def test_a_rule_that_ended_meanwhile_does_not_make_a_doubt_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service()
    tools = service.tools(idempotency="key", always=lambda args: Scope("any", {}))
    async with session(tmp_path, [act(1), act(2), "Hm."], tools=tools) as (app, opened):
        await converse(opened, "go", stays_silent)
        rule = opened.allow_always(opened.pending()[0].id)
        service.plan = ["answers", "lost after"]
        begin = app.store.ledger.begin

        def revoked_first(**kwargs: Any) -> Any:
            if kwargs["resend"] and opened.rules():
                opened.revoke(rule.id)
            return begin(**kwargs)

        monkeypatch.setattr(app.store.ledger, "begin", revoked_first)
        trajectory = await resumed(opened)
        effect = app.store.ledger.list()[0]
        assert (effect.state, effect.attempts, effect.rule) == ("in_doubt", 1, rule.id)
        assert "nothing changed" not in trajectory.results.get("c2", "")
        assert question(opened).args == {"n": 2}
        assert service.numbers == [1, 2]


# --- crashes ---------------------------------------------------------------------------------


def _dies_before_sending_again(home: Path, numbers: Path) -> None:
    """A process that gets no answer, and is killed before it asks again under the same key."""
    begin = Ledger.begin

    def deadly(self: Ledger, **kwargs: Any) -> Any:
        if kwargs["resend"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return begin(self, **kwargs)

    Ledger.begin = deadly  # type: ignore[method-assign]
    service = Service(plan=["lost after"])
    change = service.change

    def changes(n: int, key: str) -> str:
        with numbers.open("a") as file:
            file.write(f"{key}\n")
        return change(n, key)

    service.change = changes  # type: ignore[method-assign]

    async def live() -> None:
        tools = service.tools(idempotency="key")
        async with session(home, [act(1), "Done."], tools=tools) as (_, opened):
            await converse(opened, "go", approves)

    asyncio.run(live())


async def test_a_process_that_died_before_it_sent_again_is_followed_by_one_that_does(
    tmp_path: Path,
) -> None:
    home, numbers = tmp_path / "home", tmp_path / "numbers"
    child = multiprocessing.get_context("spawn").Process(
        target=_dies_before_sending_again, args=(home, numbers)
    )
    child.start()
    await asyncio.to_thread(child.join)
    assert child.exitcode == -signal.SIGKILL

    (key,) = numbers.read_text().split()
    service = Service(by_key={key: 1})  # the service remembers what the dead process asked for
    tools = service.tools(idempotency="key")
    async with application(home, [act(1), "Done."], tools=tools) as app:
        (row,) = app.store.sessions.list()
        assert the_effect(app).state == "in_doubt"
        async with app.open_session(row.id) as opened:
            done = await resumed(opened)
            assert done.done.answer == "Done."
            assert done.results["c1"] == service.answer(1)
            assert (the_effect(app).state, the_effect(app).attempts) == ("committed", 2)
            assert service.entries == [(key, 2)]
            assert service.numbers == []
            assert opened.pending() == []
            assert app.store.trail.verify() == []


class Died(BaseException):
    """The process is gone at this instant."""


async def left_intended(
    home: Path, service: Service, tools: Any, *, by_rule: bool
) -> tuple[str, EffectRecord]:
    """A session whose process died after its write took effect, before that was recorded."""
    async with session(home, [act(1), act(2), "Done."], tools=tools) as (app, opened):
        await converse(opened, "go", stays_silent)
        if by_rule:
            opened.allow_always(opened.pending()[0].id)
            service.plan = ["answers"]
        else:
            opened.decide(opened.pending()[0].id, Decision("approve"))
        finish = app.store.ledger.finish

        def dies(*args: Any, **kwargs: Any) -> Any:
            if len(service.entries) == (2 if by_rule else 1):
                raise Died
            return finish(*args, **kwargs)

        app.store.ledger.finish = dies  # type: ignore[method-assign]
        with pytest.raises(Died):
            await resumed(opened)
        return opened.id, app.store.ledger.list()[0]


@pytest.mark.parametrize("by_rule", [False, True], ids=["approved", "under a rule"])
@pytest.mark.parametrize("leaving", ["a new message", "a cancel"])
async def test_a_session_that_moves_on_from_a_write_that_nobody_ended_asks_about_it(
    tmp_path: Path, leaving: str, by_rule: bool
) -> None:
    service = Service()
    tools = service.tools(idempotency="key", always=lambda args: Scope("any", {}))
    session_id, effect = await left_intended(tmp_path, service, tools, by_rule=by_rule)
    assert effect.state == "intended"
    entries = list(service.entries)

    steps = [act(1), *([act(2)] if by_rule else []), "All right."]
    async with application(tmp_path, steps, tools=tools) as app, app.open_session(session_id) as s:
        if leaving == "a cancel":
            await s.cancel()
        else:
            moved = await converse(s, "never mind", stays_silent)
            assert moved.done.answer == "All right."
            said = [str(m.content) for m in await s.history() if m.type == "tool"][-1]
            assert "outcome of this call is unknown" in said
        assert app.store.ledger.get(effect.id).state == "in_doubt"
        assert question(s).call == effect.call
        assert service.entries == entries  # moving on sends nothing again

        s.decide(question(s).id, Decision("respond", message="happened"))
        assert app.store.ledger.get(effect.id).state == "committed"


@pytest.mark.parametrize("leaving", ["a new message", "a cancel"])
@pytest.mark.parametrize("recorded", [True, False], ids=["by its record", "by its key"])
async def test_a_session_that_moves_on_enters_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaving: str, recorded: bool
) -> None:
    service = Service(plan=["hangs before"])
    how: dict[str, Any] = {"reconcile": service.find} if recorded else {"idempotency": "key"}
    async with session(tmp_path, [act(1), "All right."], tools=service.tools(**how)) as (
        app,
        opened,
    ):
        await interrupted_in(opened, service, monkeypatch)
        for body in app._under_way.of_session(opened.id):
            body.cancel()  # as the end of a process does
        await body_of(app, the_effect(app))
        if leaving == "a cancel":
            await opened.cancel()
        else:
            await converse(opened, "never mind", stays_silent)

        assert len(service.entries) == 1
        assert service.numbers == []
        if recorded and leaving == "a new message":
            assert the_effect(app).settled == "not happened"
            assert opened.pending() == []
        else:
            assert the_effect(app).state == "in_doubt"
            assert question(opened).call == "c1"


async def test_nor_what_a_person_says_did_not_happen(tmp_path: Path) -> None:
    service = Service()
    session_id, effect = await left_intended(tmp_path, service, service.tools(), by_rule=False)
    entries = list(service.entries)
    steps = [act(1), "All right."]
    async with application(tmp_path, steps, tools=service.tools()) as app:
        async with app.open_session(session_id) as opened:
            assert (await resumed(opened)).done.state == "waiting"
            opened.decide(question(opened).id, Decision("respond", message="not happened"))
            moved = await converse(opened, "never mind, do nothing more", approves)
            assert moved.done.answer == "All right."
            said = [str(m.content) for m in await opened.history() if m.type == "tool"][-1]
            assert "was not run" in said
        assert (app.store.ledger.get(effect.id).state, effect.attempts) == ("failed", 1)
    assert service.entries == entries


@pytest.mark.parametrize("recorded", [False, True], ids=["under way", "committed"])
async def test_what_other_code_began_keeps_its_outcome(tmp_path: Path, recorded: bool) -> None:
    """The approval does not hold for the code that is there now; what it began did not vanish."""
    service = Service()
    old, new = service.tools(version="1"), service.tools(version="2")
    session_id, effect = await left_intended(tmp_path, service, old, by_rule=False)
    async with application(tmp_path, [act(1), "Hm."], tools=new) as app:
        if recorded:
            text = {"text": service.answer(1), "status": "success"}
            app.store.ledger.finish(effect.id, attempt=1, state="committed", result=text)
        async with app.open_session(session_id) as opened:
            done = await resumed(opened)
            assert done.done.answer == "Hm."
            assert len(service.entries) == 1
            if recorded:
                assert done.results["c1"] == service.answer(1)
                assert (opened.pending(), opened.receipt().done != ()) == ([], True)
                return
            assert "The outcome of this call is unknown" in done.results["c1"]
            assert the_effect(app).state == "in_doubt"
            opened.decide(question(opened).id, Decision("respond", message="happened"))
            assert the_effect(app).state == "committed"
            assert service.numbers == [1]


# --- the same call once more -----------------------------------------------------------------


@pytest.mark.parametrize("happened", [True, False])
async def test_the_same_call_is_held_until_the_doubt_is_settled(
    tmp_path: Path, happened: bool
) -> None:
    service = Service(plan=["lost after"])
    again = calls(("act", {"n": "1"}), ("act", {"n": 2}), ids=["again", "other"])
    steps = [act(1), again, "It is unknown.", calls(("act", {"n": 1}), ids=["third"]), "Done."]
    async with session(tmp_path, steps, tools=service.tools()) as (app, opened):
        trajectory = await converse(opened, "go", approves)

        doubt = app.store.ledger.list()[-1]
        said = trajectory.results["again"]
        assert f"The same call is in doubt as {doubt.id}" in said
        assert f"sayso reconcile {doubt.id}" in said
        assert LOOK in said
        writes = [row.call for row in trajectory.asked if row.kind == "write"]
        assert writes == ["c1", "other"]
        assert service.numbers == [1, 2]
        refused = [e.data for e in app.store.trail.entries(opened.id) if e.kind == "call.refused"]
        assert [entry["call"] for entry in refused] == ["again"]

        settled = Settles(happened)(question(opened))
        assert settled is not None
        opened.decide(question(opened).id, settled)
        released = await converse(opened, "once more", approves)
        assert [row.call for row in released.asked] == ["third"]
        assert service.numbers == [1, 2, 1]


async def test_a_rule_does_not_let_it_through(tmp_path: Path) -> None:
    service = Service()
    tools = service.tools(always=lambda args: Scope("any", {}))
    steps = [act(1), act(2), calls(("act", {"n": 2}), ids=["again"]), "Hm."]
    async with session(tmp_path, steps, tools=tools) as (_, opened):
        await converse(opened, "go", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        service.plan = ["answers", "lost after"]
        trajectory = await resumed(opened)
        assert "The same call is in doubt" in trajectory.results["again"]
        assert service.numbers == [1, 2]


async def test_nor_does_a_fork(tmp_path: Path) -> None:
    service = Service(plan=["lost after"])
    steps = [act(1), "Hm.", calls(("act", {"n": 1}), ids=["again"]), "It is unknown."]
    async with application(tmp_path, steps, tools=service.tools()) as app:
        async with app.new_session() as source:
            await converse(source, "go", approves)
            doubt = the_effect(app)
        record = await app.fork(source.id)
        async with app.open_session(record.id) as fork:
            assert fork.pending() == []
            trajectory = await converse(fork, "once more", approves)
            assert doubt.id in trajectory.results["again"]
            assert trajectory.asked == []
        assert service.numbers == [1]


async def test_the_model_may_look_while_a_person_is_asked(tmp_path: Path) -> None:
    service = Service(plan=["lost after"])
    model = ScriptedChatModel([act(1), calls(("look", {"n": 1}), ids=["l"]), "It is there."])
    async with session(tmp_path, model, tools=service.tools()) as (app, opened):
        trajectory = await converse(opened, "go", approves)
        assert trajectory.results["l"] == "the numbers are [1]"
        assert trajectory.done.state == "done"
        assert question(opened).kind == "in_doubt"
        assert the_effect(app).state == "in_doubt"
