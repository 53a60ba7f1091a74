"""An approval holds for what was shown. When the record has changed since, it is asked anew."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from agent.errors import AlreadyDecided, InvalidDecision
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Edits, Rejects, approves, stays_silent
from agent.events import ApprovalAsked
from agent.session import AgentSession
from agent.store.records import ApprovalRecord
from agent.types import Decision
from tests.support.sessions import application, calls, reads, session
from tests.support.unsure import Service
from tests.support.unsure import act as adds
from tools.contract import CallInfo, Contract, Finding, Preview, Scope, make_tool
from tools.worlds.order_desk import OrderDesk

VOID = "The record has changed since this was approved, so that approval is void."


def refund(amount: str = "5.00") -> tuple[str, dict[str, Any]]:
    return ("refund_order", {"order_id": "C1", "amount": amount, "currency": "EUR"})


STEPS = [reads("C1"), calls(refund(), ids=["r"]), "Done."]


def desk(home: Path) -> OrderDesk:
    return OrderDesk(home / "worlds" / "orders.db")


def somebody_refunds(home: Path, cents: int, key: str = "theirs") -> None:
    """Another hand pays back a part of C1."""
    desk(home).refund("C1", cents, "EUR", key)


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


def approve(opened: AgentSession) -> ApprovalRecord:
    (waiting,) = opened.pending()
    return opened.decide(waiting.id, Decision("approve"))


async def test_an_approval_of_what_has_changed_is_void_and_the_change_is_shown(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, STEPS) as (app, opened):
        await converse(opened, "refund 5 EUR", stays_silent)
        first = approve(opened)
        assert first.preview is not None
        somebody_refunds(tmp_path, 100)
        again = await resumed(opened)

        assert again.done.state == "waiting"
        assert app.store.ledger.list() == []
        assert desk(tmp_path).get("C1").refunded == 100
        (second,) = opened.pending()
        assert [event.approval for event in again.of(ApprovalAsked)] == [second]
        assert (second.attempt, second.call, second.args) == (2, first.call, first.args)
        assert second.reason == f"{VOID} {first.reason}"
        assert second.preview is not None
        assert second.preview["summary"] != first.preview["summary"]
        assert "refunded 1.00" in second.preview["summary"]
        assert (second.decided_by, second.decided_digest, second.status) == (None, None, "pending")
        void = app.store.approvals.get(first.id)
        assert (void.status, void.decided_by) == ("superseded", "ana")
        (entry,) = [e.data for e in app.store.trail.entries(opened.id, kind="approval.void")]
        assert (entry["approval"], entry["decided_by"]) == (first.id, "ana")
        assert [line for line in opened.receipt().waiting if second.id in line]
        with pytest.raises(AlreadyDecided):
            opened.decide(first.id, Decision("approve"))

        approve(opened)
        done = await resumed(opened)
        assert done.done.answer == "Done."
        assert desk(tmp_path).get("C1").refunded == 600
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.approval, effect.attempts) == ("committed", second.id, 1)
        assert app.store.trail.verify() == []


async def test_what_has_not_changed_runs_as_it_was_approved(tmp_path: Path) -> None:
    async with session(tmp_path, STEPS) as (app, opened):
        await converse(opened, "refund 5 EUR", stays_silent)
        desk(tmp_path).cancel("A1", 1, "theirs")  # something else
        approve(opened)
        assert (await resumed(opened)).done.state == "done"
        assert desk(tmp_path).get("C1").refunded == 500
        assert len(app.store.approvals.list(None)) == 1


async def test_it_is_asked_as_often_as_it_changes(tmp_path: Path) -> None:
    async with session(tmp_path, STEPS) as (app, opened):
        await converse(opened, "refund 5 EUR", stays_silent)
        for attempt in (1, 2, 3):
            row = approve(opened)
            assert row.attempt == attempt
            assert row.reason.count(VOID) == (attempt > 1)
            somebody_refunds(tmp_path, 100, f"theirs-{attempt}")
            assert (await resumed(opened)).done.state == "waiting"
        last = approve(opened)
        assert (await resumed(opened)).done.state == "done"

        assert desk(tmp_path).get("C1").refunded == 800
        assert [row.status for row in app.store.approvals.list(None)] == [
            "approved",
            *["superseded"] * 3,
        ]
        assert [effect.approval for effect in app.store.ledger.list()] == [last.id]


async def test_asked_anew_it_may_be_rejected_answered_or_left(tmp_path: Path) -> None:
    answers = {
        "reject": (Decision("reject", message="not any more"), "not any more", "rejected by ana"),
        "respond": (Decision("respond", message="done by phone"), "done by phone", "answered"),
    }
    for name, (decision, said, told) in answers.items():
        home = tmp_path / name
        async with session(home, STEPS) as (app, opened):
            await converse(opened, "refund 5 EUR", stays_silent)
            approve(opened)
            somebody_refunds(home, 100)
            await resumed(opened)
            assert (await resumed(opened)).done.state == "waiting"  # nobody has answered
            opened.decide(opened.pending()[0].id, decision)
            done = await resumed(opened)

            assert said in done.results["r"]
            assert desk(home).get("C1").refunded == 100
            assert app.store.ledger.list() == []
            (line,) = opened.receipt().not_done
            assert told in line


async def test_an_edit_of_what_has_changed_does_not_run_and_the_model_reads_again(
    tmp_path: Path,
) -> None:
    steps = [*STEPS[:2], reads("C1"), calls(refund("7.00"), ids=["again"]), "Done."]
    async with session(tmp_path, steps) as (app, opened):
        await converse(opened, "refund 5 EUR", stays_silent)
        (asked,) = opened.pending()
        decision = Edits({"amount": "7.00"})(asked)
        assert decision is not None
        opened.decide(asked.id, decision)
        somebody_refunds(tmp_path, 100)
        trajectory = await review(opened, approves, await resumed(opened))

        assert "The record has changed since a person decided" in trajectory.results["r"]
        assert [row.call for row in trajectory.asked] == ["again"]
        void = app.store.approvals.get(asked.id)
        assert (void.status, void.decided_by) == ("superseded", "ana")
        assert desk(tmp_path).get("C1").refunded == 800
        receipt = opened.receipt()
        assert "does not hold any more" in receipt.not_done[0]
        assert (len(receipt.done), receipt.waiting) == (1, ())


FILES = {"todo.md": "buy milk\n", "other.md": "call Ann\n"}
ELSEWHERE = {"path": "other.md", "content": "buy bread\n"}


@pytest.mark.parametrize(
    ("changed", "runs"),
    [("other.md", False), ("todo.md", True), (None, True)],
    ids=["what it now writes to", "what it no longer writes to", "nothing"],
)
async def test_an_edit_is_held_against_what_it_was_shown_to_change(
    tmp_path: Path, changed: str | None, runs: bool
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    proposed = {"path": "todo.md", "content": "buy bread\n"}
    steps = [calls(("write_file", proposed), ids=["w"]), "Done."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (app, opened):
        await converse(opened, "write it", stays_silent)
        (asked,) = opened.pending()
        shown = await opened.as_edited(asked.id, ELSEWHERE)
        assert shown.preview is not None
        assert "-call Ann\n+buy bread" in shown.preview["diff"]
        origins = {one["path"]: one["origin"] for one in shown.provenance or ()}
        assert origins == {"path": "reviewer", "content": "model"}
        assert opened.pending() == [asked]

        edit = Decision("edit", args=shown.args, preview=shown.preview)
        decided = opened.decide(asked.id, edit)
        assert (decided.decided_preview, decided.preview) == (shown.preview, asked.preview)
        if changed is not None:
            (folder / changed).write_text("changed\n")
        done = await resumed(opened)
        written = (folder / "other.md").read_text() == "buy bread\n"
        assert written is runs
        if not runs:
            assert "The record has changed since a person decided" in done.results["w"]
            assert app.store.approvals.get(asked.id).was_void


async def test_an_edit_that_changes_nothing_is_shown_as_it_was(tmp_path: Path) -> None:
    async with session(tmp_path, STEPS) as (_, opened):
        await converse(opened, "refund 5 EUR", stays_silent)
        (asked,) = opened.pending()
        assert await opened.as_edited(asked.id, dict(reversed(asked.args.items()))) == asked
        with pytest.raises(InvalidDecision, match="Nothing was decided"):
            await opened.as_edited(asked.id, {"amount": "lots"})


async def test_an_edit_of_what_has_not_changed_runs(tmp_path: Path) -> None:
    async with session(tmp_path, STEPS) as (app, opened):
        await converse(opened, "refund 5 EUR", Edits({"amount": "7.00"}))
        assert desk(tmp_path).get("C1").refunded == 700
        assert [row.status for row in app.store.approvals.list(None)] == ["edited"]


async def test_of_two_writes_to_one_record_the_second_is_shown_what_the_first_has_done(
    tmp_path: Path,
) -> None:
    steps = [reads("C1"), calls(refund(), refund("6.00"), ids=["a", "b"]), "Done."]
    async with session(tmp_path, steps) as (app, opened):
        trajectory = await converse(opened, "refund twice", approves)

        assert len(trajectory.asked) == 3
        previews = [row.preview["before"] for row in trajectory.asked if row.preview]
        assert previews[0] == previews[1] != previews[2]
        assert desk(tmp_path).get("C1").refunded == 1100
        assert len(app.store.ledger.list()) == 2


async def test_what_was_approved_and_changed_does_not_run_when_the_session_moves_on(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, [*STEPS[:2], "All right."]) as (app, opened):
        await converse(opened, "refund 5 EUR", stays_silent)
        approved = approve(opened)
        somebody_refunds(tmp_path, 100)
        moved = await converse(opened, "never mind", stays_silent)

        assert moved.done.answer == "All right."
        assert desk(tmp_path).get("C1").refunded == 100
        assert opened.pending() == []
        assert app.store.approvals.get(approved.id).status == "superseded"
        said = [str(m.content) for m in await opened.history() if m.type == "tool"][-1]
        assert "The record has changed since" in said


async def test_a_record_that_another_process_changes_is_seen_by_the_process_that_goes_on(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, STEPS) as (_, opened):
        session_id = opened.id
        await converse(opened, "refund 5 EUR", stays_silent)
        approve(opened)
    change = (
        "import sys; from tools.worlds.order_desk import OrderDesk; "
        "OrderDesk(sys.argv[1]).refund('C1', 100, 'EUR', 'theirs')"
    )
    command = [sys.executable, "-c", change, str(tmp_path / "worlds" / "orders.db")]
    await asyncio.to_thread(subprocess.run, command, check=True, cwd=Path(__file__).parents[2])

    async with application(tmp_path, STEPS) as app, app.open_session(session_id) as opened:
        assert (await resumed(opened)).done.state == "waiting"
        assert opened.pending()[0].attempt == 2
        session_id = opened.id
    async with application(tmp_path, STEPS) as app, app.open_session(session_id) as opened:
        approve(opened)
        assert (await resumed(opened)).done.state == "done"
        assert desk(tmp_path).get("C1").refunded == 600


# --- previews that are not so simple ---------------------------------------------------------


class Number(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n: int


class Shown:
    """A write whose preview says what ``words`` say, one after the other; an error is raised."""

    def __init__(self, *words: Any) -> None:
        self.words, self.ran = list(words), list[int]()

    def tools(self, **contract: Any) -> list[Any]:
        def act(n: int) -> str:
            """Act."""
            self.ran.append(n)
            return "acted"

        def preview(args: Any) -> Preview:
            word = self.words.pop(0) if len(self.words) > 1 else self.words[0]
            if isinstance(word, Exception):
                raise word
            return Preview(word)

        writes: dict[str, Any] = {
            "effects": frozenset({"write:n"}),
            "open_world": False,
            "preview": preview,
        }
        return [make_tool(act, args=Number, contract=Contract(**writes | contract))]


ACT = calls(("act", {"n": 1}), ids=["a"])


@pytest.mark.parametrize(
    ("words", "summaries"),
    [
        (["1 → 2"], ["1 → 2"]),
        ([RuntimeError("closed"), "1 → 2"], ["no preview: closed", "1 → 2"]),
        (
            ["1 → 2", RuntimeError("closed"), "1 → 2"],
            ["1 → 2", "no preview: closed", "1 → 2"],
        ),
        ([RuntimeError("closed")], ["no preview: closed"]),
    ],
    ids=["stays", "fails at first", "fails when it is to run", "always fails"],
)
async def test_a_preview_that_fails_shows_that_and_what_it_shows_later_is_another_question(
    tmp_path: Path, words: list[Any], summaries: list[str]
) -> None:
    shown = Shown(*words)
    async with session(tmp_path, [ACT, "Done."], tools=shown.tools()) as (app, opened):
        await converse(opened, "act", stays_silent)
        seen = []
        while waiting := opened.pending():
            assert shown.ran == []
            assert waiting[0].preview is not None
            seen.append(waiting[0].preview["summary"])
            approve(opened)
            await resumed(opened)
        assert seen == summaries
        assert shown.ran == [1]
        assert len(app.store.ledger.list()) == 1


async def test_a_write_that_did_not_happen_is_asked_anew_when_the_record_has_changed_since(
    tmp_path: Path,
) -> None:
    service, now = Service(plan=["lost before"]), ["as it was"]

    def changed_meanwhile(args: Any, info: CallInfo) -> Finding:
        now[0] = "as it is now"
        return service.find(args, info)

    tools = service.tools(preview=lambda args: Preview(now[0]), reconcile=changed_meanwhile)
    async with session(tmp_path, [adds(1), "Done."], tools=tools) as (app, opened):
        await converse(opened, "go", stays_silent)
        approve(opened)
        assert (await resumed(opened)).done.state == "waiting"
        assert service.entries == [(app.store.ledger.list()[0].idempotency_key, 1)]
        (asked,) = opened.pending()
        assert asked.preview is not None
        assert (asked.preview["summary"], asked.attempt) == ("as it is now", 2)

        approve(opened)
        assert (await resumed(opened)).done.state == "done"
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.attempts, effect.approval) == ("committed", 2, asked.id)
        assert service.numbers == [1]


async def test_under_a_rule_nothing_was_shown_so_nothing_is_void(tmp_path: Path) -> None:
    shown = Shown("same", "same", "changed", "changed again")
    always = {"always": lambda args: Scope("any", {})}
    steps = [ACT, calls(("act", {"n": 2}), ids=["b"]), "Done."]
    async with session(tmp_path, steps, tools=shown.tools(**always)) as (app, opened):
        await converse(opened, "act", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        done = await resumed(opened)
        assert done.done.state == "done"
        assert shown.ran == [1, 2]
        assert len(app.store.approvals.list(None)) == 1


async def test_always_does_not_cover_a_call_that_has_changed_before_it_ran(
    tmp_path: Path,
) -> None:
    """The rule is for later calls; this one was approved as it was shown."""
    shown = Shown("before", "after")
    always = {"always": lambda args: Scope("any", {})}
    async with session(tmp_path, [ACT, "Done."], tools=shown.tools(**always)) as (_, opened):
        await converse(opened, "act", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        assert (await resumed(opened)).done.state == "waiting"
        assert shown.ran == []
        approve(opened)
        await resumed(opened)
        assert shown.ran == [1]


async def test_a_rejected_call_is_not_asked_anew_whatever_changes(tmp_path: Path) -> None:
    async with session(tmp_path, STEPS) as (app, opened):
        await converse(opened, "refund 5 EUR", stays_silent)
        decision = Rejects("no")(opened.pending()[0])
        assert decision is not None
        opened.decide(opened.pending()[0].id, decision)
        somebody_refunds(tmp_path, 100)
        assert (await resumed(opened)).done.exit == 5
        assert len(app.store.approvals.list(None)) == 1


# --- the code of the tool --------------------------------------------------------------------

NOTES = """
from pathlib import Path
from pydantic import BaseModel
from tools.contract import Contract, Scope, make_tool

class Note(BaseModel, extra="forbid"):
    text: str

def note(text: str) -> str:
    "Write a note."
    with Path({file!r}).open("a") as file:
        file.write("{code} " + text)
    return "Noted."

contract = Contract(
    effects=frozenset({{"write:notes"}}),
    open_world=False,
    always=lambda args: Scope("any note", {{}}),
)
tools = [make_tool(note, args=Note, contract=contract)]
"""
CHANGED = "The tool 'note' has changed since this call was approved, so the call was not run"


@pytest.mark.parametrize("text", ["a", "b"], ids=["approved", "edited"])
@pytest.mark.parametrize("died", [False, True], ids=["", "killed before the answer was kept"])
async def test_an_approval_given_for_other_code_does_not_hold(
    tmp_path: Path, text: str, died: bool
) -> None:
    home, written, file = tmp_path / "home", tmp_path / "written", tmp_path / "mine.py"
    noting = calls(("note", {"text": "a"}), ids=["c"])
    file.write_text(NOTES.format(file=str(written), code="old"))
    async with session(home, [noting], domains=[str(file)]) as (_, opened):
        await converse(opened, "note a", stays_silent)
        answer = Decision("approve") if text == "a" else Decision("edit", args={"text": text})
        given = opened.decide(opened.pending()[0].id, answer)
    file.write_text(NOTES.format(file=str(written), code="new"))

    steps = [noting, "It has changed.", calls(("note", {"text": "a"}), ids=["again"]), "Done."]
    async with (
        application(home, steps, domains=[str(file)]) as app,
        app.open_session(opened.id) as later,
    ):
        if died:
            lease = app.store.leases.holder(later.id)
            assert lease is not None
            why = "its tool has changed since it was approved"
            app.store.approvals.void(given.id, epoch=lease.epoch, reason=why)
        told = await resumed(later)
        assert told.results["c"].startswith(CHANGED)
        assert not written.exists()
        assert app.store.ledger.list() == []
        void = app.store.approvals.get(given.id)
        assert (void.status, void.decided_by, void.was_void) == ("superseded", "ana", True)
        (line,) = later.receipt().not_done
        assert line.startswith(f'note(text="{text}"): not run')
        assert "its tool has changed since it was approved" in line

        done = await converse(later, "then with the new one", approves)
        assert done.done.answer == "Done."
        assert written.read_text() == "new a"
        (effect,) = app.store.ledger.list()
        assert effect.tool_version == done.asked[0].tool_version != given.tool_version
        assert app.store.trail.verify() == []


async def test_a_rule_agreed_to_for_other_code_lets_nothing_run(tmp_path: Path) -> None:
    home, written, file = tmp_path / "home", tmp_path / "written", tmp_path / "mine.py"
    file.write_text(NOTES.format(file=str(written), code="old"))
    steps = [
        *(calls(("note", {"text": "a"}), ids=["a"]), "Noted."),
        *(calls(("note", {"text": "b"}), ids=["b"]), "Noted."),
    ]
    async with session(home, steps, domains=[str(file)]) as (_, opened):
        await converse(opened, "note a", stays_silent)
        rule = opened.allow_always(opened.pending()[0].id)
        await resumed(opened)
    assert written.read_text() == "old a"
    written.unlink()
    file.write_text(NOTES.format(file=str(written), code="new"))

    async with (
        application(home, steps, domains=[str(file)]) as app,
        app.open_session(opened.id) as later,
    ):
        asked = await converse(later, "note b", stays_silent)
        (waiting,) = asked.asked
        assert waiting.tool_version != rule.tool_version
        assert not written.exists()
        later.allow_always(waiting.id)
        await resumed(later)
        assert written.read_text() == "new b"


async def test_an_approval_given_for_this_code_holds_wherever_the_session_goes_on(
    tmp_path: Path,
) -> None:
    home, written, file = tmp_path / "home", tmp_path / "written", tmp_path / "mine.py"
    noting = calls(("note", {"text": "a"}), ids=["c"])
    file.write_text(NOTES.format(file=str(written), code="same"))
    async with session(home, [noting], domains=[str(file)]) as (_, opened):
        await converse(opened, "note a", stays_silent)
        approve(opened)
    file.touch()
    async with application(home, [noting, "Done."]) as app, app.open_session(opened.id) as later:
        assert (await resumed(later)).done.answer == "Done."
        assert written.read_text() == "same a"
