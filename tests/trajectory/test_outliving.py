"""A write can outlive its time, its turn and the opening of its session: nothing stops a thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.application import Application
from agent.errors import InvalidDecision, SaysoError
from agent.evals.driving import Trajectory, converse
from agent.evals.reviewers import approves, stays_silent
from agent.events import KnownSince
from agent.inbox import decide
from agent.middleware import writes
from agent.models.scripted import ScriptedChatModel
from agent.session import AgentSession
from agent.store import Store, ledger, outcomes
from agent.store.records import EffectRecord
from agent.types import Decision
from tests.support.sessions import application
from tests.support.unsure import Number, act
from tools.contract import (
    CallInfo,
    Contract,
    Finding,
    OutcomeUnknown,
    ToolFailure,
    make_tool,
)

SAYS_NO = Decision("respond", message="not happened")

OPENS_IT = """
import asyncio, sys
from pathlib import Path
from agent.errors import SessionBusy
from tests.support.sessions import application

async def main(home, session):
    async with application(Path(home), ["Never."]) as app:
        async with app.open_session(session):
            print("opened")

try:
    asyncio.run(main(*sys.argv[1:]))
except SessionBusy:
    print("busy")
"""


@dataclass
class Slow:
    """A write in a thread that takes effect when it is let go, long after its time."""

    numbers: list[int] = field(default_factory=list)
    overlaps: int = 0
    entries: int = 0
    fails: bool = False
    breaks: bool = False
    goes_on: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._inside = 0

    def act(self, n: int) -> str:
        """Add a number."""
        self._inside += 1
        self.entries += 1
        self.overlaps = max(self.overlaps, self._inside)
        self.goes_on.wait(30)
        self._inside -= 1
        if self.fails:
            raise ToolFailure("the list is full.")
        if self.breaks:
            raise OutcomeUnknown("the connection broke.")
        self.numbers.append(n)
        return "added"

    async def act_over_a_thread(self, n: int) -> str:
        """Add a number."""
        return await asyncio.to_thread(self.act, n)

    def find(self, args: Any, info: CallInfo) -> Finding:
        """Looks, and finds what is there so far."""
        return Finding(args["n"] in self.numbers, "Looked.")

    def tools(self, body: Any = None, **contract: Any) -> list[Any]:
        writes: dict[str, Any] = {
            "effects": frozenset({"write:numbers"}),
            "open_world": False,
            "reconcile": self.find,
            "timeout": 0.2,
        }
        kind = Contract(**writes | contract)
        return [make_tool(body or self.act, args=Number, contract=kind, name="act")]


@asynccontextmanager
async def left(home: Path, slow: Slow) -> AsyncIterator[tuple[Application, EffectRecord]]:
    """An application that has left a session whose write is under way still, and in doubt."""
    async with application(home, [act(1), "Hm."], tools=slow.tools()) as app:
        async with app.new_session() as opened:
            await converse(opened, "go", approves)
        (effect,) = app.store.ledger.list()
        assert effect.state == "in_doubt"
        try:
            yield app, effect
        finally:
            slow.goes_on.set()
            while app._under_way.of_session(effect.session):  # noqa: ASYNC110
                await asyncio.sleep(0.01)


async def ended(app: Application, effect: EffectRecord) -> EffectRecord:
    """The effect once nothing of it runs any more."""
    while app._under_way.of_session(effect.session):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return app.store.ledger.get(effect.id)


def said_elsewhere(app: Application, effect: EffectRecord, *, happened: bool) -> None:
    """A person says so after the lease of this process has run out, as while it was suspended."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(outcomes, "in_force", lambda guard, home: False)
        app.store.ledger.settle(effect.id, happened, app.actor)


async def test_not_there_yet_is_no_finding_in_the_session_opened_again(tmp_path: Path) -> None:
    slow = Slow()
    async with left(tmp_path, slow) as (app, effect):
        async with app.open_session(effect.session) as again:
            found = await again.look_up(effect.id)
            assert found.state == "in_doubt"
            assert (found.evidence or {})["found"]["summary"].endswith("It is still under way.")
            slow.goes_on.set()
            late = await ended(app, effect)
            assert (late.state, late.transport) == ("committed", "late")
        assert slow.numbers == [1]


async def test_no_other_process_carries_the_session_on_until_it_has_ended(tmp_path: Path) -> None:
    slow = Slow()

    async def elsewhere() -> str:
        command = [sys.executable, "-c", OPENS_IT, str(tmp_path), effect.session]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    async with left(tmp_path, slow) as (app, effect):
        assert await elsewhere() == "busy"
        slow.goes_on.set()
        await ended(app, effect)
        while app.store.leases.holder(effect.session) is not None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await elsewhere() == "opened"


async def test_nor_is_the_session_deleted(tmp_path: Path) -> None:
    slow = Slow()
    async with left(tmp_path, slow) as (app, effect):
        with pytest.raises(SaysoError, match="under way here"):
            await app.delete(effect.session)
        assert app.store.ledger.get(effect.id).state == "in_doubt"


async def test_writes_of_one_conflict_key_never_overlap_whichever_session_they_are_of(
    tmp_path: Path,
) -> None:
    slow = Slow()
    tools = slow.tools(conflict_key=lambda args: "numbers", timeout=30)

    async def approved(opened: AgentSession) -> Trajectory:
        await converse(opened, "go", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        return Trajectory([event async for event in opened.resume()])

    async with (
        application(tmp_path, [act(1), "Done."], tools=tools) as app,
        app.new_session() as one,
        app.new_session() as other,
    ):
        both = asyncio.gather(approved(one), approved(other))
        while not slow.entries:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        slow.goes_on.set()
        await both
        assert slow.numbers == [1, 1]
        assert slow.overlaps == 1


async def test_that_it_happened_counts_against_a_person_who_had_said_that_it_did_not(
    tmp_path: Path,
) -> None:
    slow = Slow()
    async with left(tmp_path, slow) as (app, effect):
        said_elsewhere(app, effect, happened=False)
        slow.goes_on.set()
        late = await ended(app, effect)
        assert (late.state, late.settled) == ("committed", None)
        assert (late.evidence or {})["against"]["by"]["name"] == "ana"
        async with app.open_session(effect.session) as again:
            (line,) = again.receipt().done
            assert line.endswith("although ana had said that it did not")
        kinds = [entry.kind for entry in app.store.trail.entries(effect.session)]
        assert kinds[-2:] == ["effect.late", "effect.contradicted"]
        assert app.store.trail.verify() == []


@pytest.mark.parametrize("turns_since", [0, 1])
@pytest.mark.parametrize("clock", ["2020-01-01T00:00:00.000000Z", "2100-01-01T00:00:00.000000Z"])
async def test_a_later_turn_begins_with_what_has_become_known_of_earlier_writes(
    tmp_path: Path, turns_since: int, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, replies = Slow(), ["Hm.", *(["Hello."] * turns_since), "I see.", "Yes."]
    model = ScriptedChatModel([act(1), *replies])
    async with (
        application(tmp_path, model, tools=slow.tools()) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "go", approves)
        (effect,) = app.store.ledger.list()
        for _ in range(turns_since):
            assert (await converse(opened, "hello", stays_silent)).of(KnownSince) == []
        with monkeypatch.context() as another_machine:
            another_machine.setattr(outcomes, "now", lambda: clock)
            another_machine.setattr(ledger, "now", lambda: clock)
            said_elsewhere(app, effect, happened=False)
            slow.goes_on.set()
            await ended(app, effect)

        told = await converse(opened, "And?", stays_silent)
        (known,) = told.of(KnownSince)
        line = f"act(n=1) [{effect.id}], although ana had said that it did not"
        assert (told.events[0], known.receipt.done) == (known, (line,))
        (seen,) = [m.text for m in model.requests[-1] if m.text.endswith("And?")]
        assert f"Done: {line}" in seen
        again = await converse(opened, "Sure?", stays_silent)
        assert again.of(KnownSince) == []
        assert line not in model.requests[-1][-1].text


# --- what is stopped, said or tried meanwhile ------------------------------------------------


async def test_a_body_that_works_in_a_thread_of_its_own_outlives_a_hard_stop_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "GRACE", 0)
    slow = Slow()
    tools = slow.tools(slow.act_over_a_thread)
    async with application(tmp_path, [act(1), "Hm."], tools=tools) as app:
        async with app.new_session() as opened:
            await converse(opened, "go", stays_silent)
            opened.decide(opened.pending()[0].id, Decision("approve"))
            driving = asyncio.create_task(_resumed(opened))
            while not slow.entries:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            opened.request_stop()
            opened.request_stop()
            assert (await driving).done.state == "interrupted"
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.transport) == ("in_doubt", "cancelled")
        assert app.store.leases.holder(effect.session) is not None
        try:
            async with app.open_session(effect.session) as again:
                assert (await _resumed(again)).done.state == "waiting"
                assert (await again.look_up(effect.id)).state == "in_doubt"
        finally:
            slow.goes_on.set()
        late = await ended(app, effect)
        assert (late.state, late.transport, late.attempts) == ("committed", "late", 1)
        assert (slow.numbers, slow.entries) == ([1], 1)


async def _resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


async def test_nor_can_anybody_say_elsewhere_that_it_did_not_happen_while_it_runs(
    tmp_path: Path,
) -> None:
    slow = Slow()
    async with left(tmp_path, slow) as (app, effect):
        other = Store.of(app.settings)  # as another process sees it
        try:
            with pytest.raises(InvalidDecision, match="still under way in the process"):
                other.ledger.settle(effect.id, False, app.actor)
            assert other.ledger.get(effect.id).state == "in_doubt"
            (asked,) = other.approvals.list(status="pending")
            with pytest.raises(InvalidDecision, match="still under way in the process"):
                decide(other, [(asked.id, SAYS_NO)], app.actor, lambda name: None)
        finally:
            other.close()


async def test_once_it_has_ended_without_an_answer_anybody_can(tmp_path: Path) -> None:
    slow = Slow(breaks=True)
    async with left(tmp_path, slow) as (app, effect):
        assert (effect.evidence or {})["running"] == app.store.owner().text
        slow.goes_on.set()
        broken = await ended(app, effect)
        assert (broken.state, "running" in (broken.evidence or {})) == ("in_doubt", False)
        assert app.store.ledger.settle(effect.id, False, app.actor).state == "failed"


async def test_nobody_can_say_in_its_session_that_it_did_not_happen(tmp_path: Path) -> None:
    slow = Slow()
    async with left(tmp_path, slow) as (app, effect), app.open_session(effect.session) as again:
        (asked,) = again.pending()
        assert again.is_under_way(asked)
        with pytest.raises(InvalidDecision, match="still under way here"):
            again.decide(asked.id, SAYS_NO)
        assert again.pending() == [asked]
        slow.goes_on.set()
        assert (await ended(app, effect)).state == "committed"
        assert not again.is_under_way(asked)


async def test_no_further_attempt_begins_whatever_is_said_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "GRACE", 0)
    slow = Slow()
    async with (
        application(tmp_path, [act(1), "Hm."], tools=slow.tools(timeout=0.5)) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "go", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        driving = asyncio.create_task(_resumed(opened))
        while not slow.entries:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        opened.request_stop()
        opened.request_stop()
        await driving
        (effect,) = app.store.ledger.list()
        said_elsewhere(app, effect, happened=False)
        try:
            assert "Not begun" in (await _resumed(opened)).results["c1"]
            assert app.store.ledger.get(effect.id).attempts == 1
        finally:
            slow.goes_on.set()
        late = await ended(app, effect)
        assert (late.state, late.settled, slow.numbers) == ("committed", None, [1])


async def test_what_turns_out_to_have_happened_voids_the_same_call_that_was_approved_since(
    tmp_path: Path,
) -> None:
    slow = Slow()
    steps = [act(1), "Hm.", act(1), "Well."]
    async with (
        application(tmp_path, steps, tools=slow.tools(timeout=0.5)) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "go", approves)
        (first,) = app.store.ledger.list()
        said_elsewhere(app, first, happened=False)
        await converse(opened, "once more", stays_silent)
        (asked,) = [row for row in opened.pending() if row.kind == "write"]
        opened.decide(asked.id, Decision("approve"))
        driving = asyncio.create_task(_resumed(opened))
        await asyncio.sleep(0)
        slow.goes_on.set()
        done = await driving
        assert f"turned out to have happened, as {first.id}" in done.results["c1"]
        assert (slow.numbers, app.store.approvals.get(asked.id).was_void) == ([1], True)
        (effect,) = app.store.ledger.list()
        assert effect.state == "committed"


async def test_bodies_of_one_conflict_key_never_overlap_whichever_attempts_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writes, "BACK_OFF", 0)
    slow = Slow()
    tools = slow.tools(idempotency="key", reconcile=None, conflict_key=lambda args: "numbers")
    async with application(tmp_path, [act(1), "Hm."], tools=tools) as app:
        async with app.new_session() as opened:
            await converse(opened, "go", approves)
        (effect,) = app.store.ledger.list()
        assert (effect.state, slow.entries, slow.overlaps) == ("in_doubt", 1, 1)
        slow.goes_on.set()
        assert (await ended(app, effect)).state == "committed"


async def test_that_it_failed_puts_in_doubt_what_a_person_had_said_to_have_happened(
    tmp_path: Path,
) -> None:
    slow = Slow(fails=True)
    async with left(tmp_path, slow) as (app, effect):
        said_elsewhere(app, effect, happened=True)
        slow.goes_on.set()
        late = await ended(app, effect)
        assert (late.state, late.settled) == ("in_doubt", None)
        async with app.open_session(effect.session) as again:
            (line,) = again.receipt().unknown
            assert "the list is full" in line
            assert line.endswith("although ana had said that it happened")
            await converse(again, "And now?", stays_silent)
            (asked,) = again.pending()
            again.decide(asked.id, Decision("respond", message="not happened"))
        assert app.store.ledger.get(effect.id).state == "failed"
        assert app.store.trail.verify() == []
