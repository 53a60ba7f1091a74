"""Simulated reviewers of every kind: what each does to the world, the ledger and the trail.

Whatever a reviewer says, and whenever, the same must hold afterwards (``check_invariants``): a
write ran only under its own approving decision, on exactly the arguments that were decided; each
approval was decided at most once; the record is whole.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, ConfigDict

from agent.application import Application
from agent.canonical import call_digest
from agent.errors import AlreadyDecided, DecisionError, InvalidDecision, NotFound
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import (
    Answers,
    Edits,
    InOrder,
    Rejects,
    Reviewer,
    Settles,
    approves,
    stays_silent,
)
from agent.events import ApprovalAsked
from agent.inbox import decide
from agent.middleware import writes
from agent.session import AgentSession
from agent.store import Store
from agent.types import Actor, Decision
from tests.support.sessions import application, calls, session
from tools.contract import Contract, OutcomeUnknown, Scope, make_tool

ANA = Actor("ana", 1000, "here", "test")
BEN = Actor("ben", 1001, "there", "test")


class Number(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n: int


class World:
    """A list of numbers that one tool appends to."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.lost: set[int] = set()
        """Numbers whose answer is lost after the change."""

    def tool(self) -> Any:
        async def act(n: int) -> str:
            """Append a number."""
            self.numbers.append(n)
            if n in self.lost:
                raise OutcomeUnknown("the connection broke.")
            return f"appended {n}"

        contract = Contract(
            effects=frozenset({"write:numbers"}),
            open_world=False,
            private=False,
            always=lambda args: Scope("any number", {}),
        )
        return make_tool(act, args=Number, contract=contract)


def act(*numbers: int) -> Any:
    return calls(*(("act", {"n": n}) for n in numbers), ids=[f"c{n}" for n in numbers])


def find_tool(world: World) -> Callable[[str], Any]:
    tool = world.tool()
    return lambda name: tool if name == tool.name else None


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


def check_invariants(app: Application, world: World) -> None:
    """What holds after every test of this file."""
    rows = {row.id: row for row in app.store.approvals.list(None, limit=None)}
    effects = app.store.ledger.list(limit=None)
    for effect in effects:
        assert effect.approval is not None
        permit = rows[effect.approval]
        assert permit.status in ("approved", "edited")
        ran = permit.args if permit.status == "approved" else permit.decided_args
        assert effect.args == ran
        assert effect.digest == permit.decided_digest == call_digest(effect.tool, effect.args)
    assert sorted(world.numbers) == sorted(effect.args["n"] for effect in effects)
    entries = app.store.trail.entries()
    for row in rows.values():
        closed = [
            entry.data["status"]
            for entry in entries
            if entry.kind in ("approval.decided", "approval.superseded")
            and entry.data["approval"] == row.id
        ]
        assert closed == ([] if row.status == "pending" else [row.status])
    assert app.store.trail.verify() == []


# --- what each kind of answer does -----------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """How a turn with one proposed write, ``act(n=1)``, ends under a reviewer."""

    world: tuple[int, ...]
    status: str
    ledger: tuple[str, ...]
    said: str
    state: str
    exit: int


OUTCOMES: dict[str, tuple[Reviewer, Outcome]] = {
    "approves": (approves, Outcome((1,), "approved", ("committed",), "appended 1", "done", 0)),
    "edits": (
        Edits({"n": 7}),
        Outcome((7,), "edited", ("committed",), 'what ran is act({"n":7})', "done", 0),
    ),
    "edits to the same": (
        Edits({"n": 1}),
        Outcome((1,), "approved", ("committed",), "appended 1", "done", 0),
    ),
    "rejects with a reason": (
        Rejects("one is enough"),
        Outcome((), "rejected", (), "one is enough", "done", 5),
    ),
    "rejects without one": (
        Rejects(),
        Outcome((), "rejected", (), "without giving a reason", "done", 5),
    ),
    "answers": (Answers("I did it by hand."), Outcome((), "answered", (), "by hand", "done", 0)),
    "is silent": (stays_silent, Outcome((), "pending", (), "", "waiting", 3)),
}


@pytest.mark.parametrize(("reviewer", "expected"), OUTCOMES.values(), ids=OUTCOMES)
async def test_what_a_reviewer_says_is_what_happens(
    tmp_path: Path, reviewer: Reviewer, expected: Outcome
) -> None:
    world = World()
    async with session(tmp_path, [act(1), "Done."], tools=[world.tool()]) as (app, opened):
        trajectory = await converse(opened, "go", reviewer)

        (row,) = app.store.approvals.list(None)
        assert (
            Outcome(
                world=tuple(world.numbers),
                status=row.status,
                ledger=tuple(effect.state for effect in app.store.ledger.list()),
                said=expected.said,
                state=trajectory.done.state,
                exit=trajectory.done.exit,
            )
            == expected
        )
        assert expected.said in trajectory.results.get("c1", "")
        assert row.decided_by == (None if expected.status == "pending" else "ana")
        check_invariants(app, world)


async def test_a_reviewer_who_changes_his_mind_from_call_to_call_is_followed_each_time(
    tmp_path: Path,
) -> None:
    world = World()
    answers = InOrder(
        [Decision("reject", message="no"), Decision("approve"), Decision("edit", args={"n": 33})]
    )
    async with session(tmp_path, [act(1), act(2), act(3), "Done."], tools=[world.tool()]) as (
        app,
        opened,
    ):
        trajectory = await converse(opened, "go", answers)
        assert world.numbers == [2, 33]
        assert trajectory.done.state == "done"
        check_invariants(app, world)


# --- nonsense --------------------------------------------------------------------------------

NONSENSE: dict[str, Any] = {
    "nothing": None,
    "a text": "approve",
    "LangChain's dictionary": {"type": "approve"},
    "true": True,
    "no type": Decision(""),  # type: ignore[arg-type]
    "a type of nothing": Decision(None),  # type: ignore[arg-type]
    "a misspelt type": Decision("aprove"),  # type: ignore[arg-type]
    "another spelling": Decision("Approve"),  # type: ignore[arg-type]
    "a list of types": Decision(["approve"]),  # type: ignore[arg-type]
    "approve with arguments": Decision("approve", args={"n": 9}),
    "reject with arguments": Decision("reject", args={"n": 9}),
    "respond with arguments": Decision("respond", args={"n": 9}, message="x"),
    "respond without a message": Decision("respond"),
    "a reason of nothing": Decision("reject", message=None),  # type: ignore[arg-type]
    "a number as a message": Decision("respond", message=7),  # type: ignore[arg-type]
    "an edit of nothing": Decision("edit"),
    "an edit to no arguments": Decision("edit", args={}),
    "an edit to a list": Decision("edit", args=[1]),  # type: ignore[arg-type]
    "an edit to pairs": Decision("edit", args=[("n", 1)]),  # type: ignore[arg-type]
    "an edit to a text": Decision("edit", args='{"n": 1}'),  # type: ignore[arg-type]
    "an edit to a number": Decision("edit", args=7),  # type: ignore[arg-type]
    "an edit to a wrong type": Decision("edit", args={"n": "many"}),
    "an edit to half a number": Decision("edit", args={"n": 1.5}),
    "an edit to no number": Decision("edit", args={"n": math.nan}),
    "an edit to true": Decision("edit", args={"n": None}),
    "an edit with more": Decision("edit", args={"n": 1, "m": 1}),
    "an edit of another name": Decision("edit", args={"N": 1}),
    "an edit with a number as a name": Decision("edit", args={1: 1}),  # type: ignore[dict-item]
    "an edit to a thing": Decision("edit", args={"n": object()}),
}


def mcp_tool(world: World) -> Any:
    """The same tool as it would come over MCP: its schema is a dictionary."""

    async def remote(**args: Any) -> str:
        world.numbers.append(args["n"])
        return "ok"

    return StructuredTool(
        name="act",
        description="Append a number.",
        coroutine=remote,
        args_schema={
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        },
    )


@pytest.mark.parametrize("foreign", [False, True], ids=["own tool", "tool over MCP"])
async def test_nonsense_decides_nothing_and_says_why(tmp_path: Path, foreign: bool) -> None:
    world = World()
    tool = mcp_tool(world) if foreign else world.tool()
    async with session(tmp_path, [act(1), "Done."], tools=[tool]) as (app, opened):
        await converse(opened, "go", stays_silent)
        (asked,) = opened.pending()
        before = app.store.trail.entries(opened.id)
        for name, nonsense in NONSENSE.items():
            with pytest.raises(InvalidDecision) as error:
                opened.decide(asked.id, nonsense)
            assert "nothing was" in str(error.value).lower(), name
            assert opened.pending() == [asked], name
        assert app.store.trail.entries(opened.id) == before
        assert (await resumed(opened)).done.state == "waiting"
        assert world.numbers == []

        opened.decide(asked.id, Decision("approve"))
        assert (await resumed(opened)).done.state == "done"
        assert world.numbers == [1]
        check_invariants(app, world)


@pytest.mark.parametrize("id_", ["", "a", "a-", "*", "%", "a-nobody", "' OR 1=1 --", "a\x00b"])
async def test_an_answer_to_what_does_not_exist_lists_what_does(tmp_path: Path, id_: str) -> None:
    world = World()
    async with session(tmp_path, [act(1), "Done."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        (asked,) = opened.pending()
        with pytest.raises(NotFound) as error:
            opened.decide(id_, Decision("approve"))
        assert asked.id in str(error.value)
        assert opened.pending() == [asked]
        check_invariants(app, world)


async def test_one_bad_answer_among_several_applies_none_of_them(tmp_path: Path) -> None:
    world = World()
    async with session(tmp_path, [act(1, 2, 3), "Done."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        one, two, three = opened.pending()
        bad: list[tuple[list[tuple[str, Decision]], type[Exception]]] = [
            ([(one.id, Decision("approve")), (two.id, Decision("edit"))], InvalidDecision),
            ([(one.id, Decision("approve")), (one.id, Decision("reject"))], InvalidDecision),
            ([(one.id, Decision("approve")), ("a-nobody", Decision("approve"))], NotFound),
        ]
        for answers, error in bad:
            with pytest.raises(error):
                opened.decide_many(answers)
            assert opened.pending() == [one, two, three]
        opened.decide(two.id, Decision("reject"))
        with pytest.raises(AlreadyDecided):
            opened.decide_many([(one.id, Decision("approve")), (two.id, Decision("approve"))])
        assert opened.pending() == [one, three]
        assert world.numbers == []
        check_invariants(app, world)


# --- late, twice, in another order -----------------------------------------------------------


@pytest.mark.parametrize("second", ["approve", "reject", "respond", "edit"])
@pytest.mark.parametrize("first", ["approve", "reject", "respond", "edit"])
async def test_a_second_answer_is_told_the_first_and_changes_nothing(
    tmp_path: Path, first: Any, second: Any
) -> None:
    def answer(kind: Any, n: int) -> Decision:
        args = {"n": n} if kind == "edit" else None
        return Decision(kind, args=args, message="" if kind in ("approve", "edit") else "so")

    world = World()
    async with session(tmp_path, [act(1), "Done."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        (asked,) = opened.pending()
        decided = opened.decide(asked.id, answer(first, 10))
        with pytest.raises(AlreadyDecided) as too_late:
            decide(app.store, [(asked.id, answer(second, 20))], BEN, find_tool(world))
        assert (too_late.value.status, too_late.value.by) == (decided.status, "ana")

        await resumed(opened)
        with pytest.raises(AlreadyDecided):
            decide(app.store, [(asked.id, answer(second, 20))], BEN, find_tool(world))
        assert app.store.approvals.get(asked.id) == decided
        assert world.numbers == {"approve": [1], "edit": [10]}.get(first, [])
        check_invariants(app, world)


async def test_an_answer_after_the_session_moved_on_is_too_late(tmp_path: Path) -> None:
    world = World()
    async with session(tmp_path, [act(1), "All right."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        (asked,) = opened.pending()
        _ = [event async for event in opened.run("never mind", supersede=True)]
        with pytest.raises(AlreadyDecided) as late:
            opened.decide(asked.id, Decision("approve"))
        assert late.value.status == "superseded"
        assert (await resumed(opened)).done.state == "done"
        assert world.numbers == []
        check_invariants(app, world)


async def test_an_answer_after_a_cancel_is_too_late(tmp_path: Path) -> None:
    world = World()
    async with session(tmp_path, [act(1), "Done."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        (asked,) = opened.pending()
        await opened.cancel()
        with pytest.raises(AlreadyDecided):
            opened.decide(asked.id, Decision("approve"))
        assert (await resumed(opened)).done.state == "cancelled"
        assert world.numbers == []
        check_invariants(app, world)


async def test_an_answer_after_the_session_was_deleted_finds_nothing(tmp_path: Path) -> None:
    world = World()
    async with application(tmp_path, [act(1), "Done."], tools=[world.tool()]) as app:
        async with app.new_session() as opened:
            await converse(opened, "go", stays_silent)
            (asked,) = opened.pending()
        await app.delete(opened.id)
        with pytest.raises(NotFound):
            decide(app.store, [(asked.id, Decision("approve"))], ANA, find_tool(world))
        assert world.numbers == []
        assert app.store.trail.verify() == []


async def test_any_order_of_answers_gives_the_same_world(tmp_path: Path) -> None:
    orders = [(0, 1, 2), (2, 1, 0), (1, 2, 0)]
    for number, order in enumerate(orders):
        world = World()
        home = tmp_path / str(number)
        async with session(home, [act(1, 2, 3), "Done."], tools=[world.tool()]) as (app, opened):
            await converse(opened, "go", stays_silent)
            rows = opened.pending()
            answers = [Decision("approve"), Decision("reject"), Decision("edit", args={"n": 30})]
            for index in order:
                opened.decide(rows[index].id, answers[index])
                trajectory = await resumed(opened)
            assert sorted(world.numbers) == [1, 30]
            assert trajectory.done.state == "done"
            history = [m for m in await opened.history() if isinstance(m, ToolMessage)]
            assert {m.tool_call_id for m in history} == {"c1", "c2", "c3"}
            check_invariants(app, world)


# --- two reviewers ---------------------------------------------------------------------------


async def test_of_two_who_disagree_at_the_same_instant_one_is_followed_and_one_is_told(
    tmp_path: Path,
) -> None:
    world = World()
    numbers = list(range(12))
    async with session(tmp_path, [act(*numbers), "Done."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        rows = opened.pending()
        start = threading.Barrier(2)
        told: dict[str, list[AlreadyDecided]] = {"ana": [], "ben": []}

        def decide_all(actor: Actor, decision: Decision) -> None:
            store = Store.open(app.settings.database_url)
            try:
                for row in rows:
                    start.wait()
                    try:
                        decide(store, [(row.id, decision)], actor, find_tool(world))
                    except AlreadyDecided as error:
                        told[actor.name].append(error)
            finally:
                store.close()

        pair = [
            threading.Thread(target=decide_all, args=(ANA, Decision("approve"))),
            threading.Thread(target=decide_all, args=(BEN, Decision("reject", message="no"))),
        ]
        for thread in pair:
            thread.start()
        for thread in pair:
            thread.join()
        done = await resumed(opened)

        decided = {row.id: row for row in app.store.approvals.list(None, limit=None)}
        by = {row.args["n"]: decided[row.id].decided_by for row in rows}
        assert sorted(world.numbers) == [n for n in numbers if by[n] == "ana"]
        assert len(told["ana"]) + len(told["ben"]) == len(numbers)
        for loser, errors in told.items():
            for error in errors:
                winner = decided[error.approval]
                assert (error.by, error.status) == (winner.decided_by, winner.status)
                assert winner.decided_by != loser
        assert done.done.state == "done"
        check_invariants(app, world)


async def test_another_sessions_approval_is_not_decided_through_this_one(tmp_path: Path) -> None:
    world = World()
    async with (
        application(tmp_path, [act(1), "Done."], tools=[world.tool()]) as app,
        app.new_session() as first,
        app.new_session() as second,
    ):
        await converse(first, "go", stays_silent)
        (asked,) = first.pending()
        for attempt in (
            lambda: second.decide(asked.id, Decision("approve")),
            lambda: second.decide(asked.id, Decision("edit", args={"n": 2})),
            lambda: second.allow_always(asked.id),
            lambda: second.always_scope(asked.id),
        ):
            with pytest.raises((NotFound, DecisionError), match=first.id):
                attempt()
        assert first.pending() == [asked]
        assert first.rules() == second.rules() == []
        assert world.numbers == []

        # The same id twice over is no way round: the model of the second session reuses it.
        await converse(second, "go", stays_silent)
        second.decide(second.pending()[0].id, Decision("approve"))
        await resumed(second)
        assert world.numbers == [1]
        assert first.pending() == [asked]
        assert (await resumed(first)).done.state == "waiting"
        check_invariants(app, world)


# --- doubt -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nonsense",
    [
        Decision("approve"),
        Decision("reject", message="x"),
        Decision("edit", args={"n": 2}),
        Decision("respond", message="yes"),
        Decision("respond", message="Happened"),
        Decision("respond", message=" happened"),
        Decision("respond"),
    ],
    ids=lambda decision: f"{decision.type} {decision.message}",
)
async def test_a_doubt_takes_two_answers_and_nothing_else(
    tmp_path: Path, nonsense: Decision
) -> None:
    world = World()
    world.lost = {1}
    async with session(tmp_path, [act(1), "Hm.", "I see."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", approves)
        (doubt,) = opened.pending()
        assert doubt.kind == "in_doubt"
        with pytest.raises(InvalidDecision):
            opened.decide(doubt.id, nonsense)
        assert opened.pending() == [doubt]
        assert app.store.ledger.list()[0].state == "in_doubt"

        await review(opened, Settles(happened=True))
        assert app.store.ledger.list()[0].state == "committed"
        assert app.store.ledger.list()[0].settled == "happened"
        with pytest.raises(AlreadyDecided):
            opened.decide(doubt.id, Decision("respond", message="not happened"))
        assert world.numbers == [1]
        check_invariants(app, world)


async def test_a_doubt_stays_when_the_session_moves_on_and_when_it_is_cancelled(
    tmp_path: Path,
) -> None:
    world = World()
    world.lost = {1}
    steps = [act(1), "Hm.", act(2), "All right."]
    async with session(tmp_path, steps, tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", approves)
        await converse(opened, "once more", stays_silent)
        assert [row.kind for row in opened.pending()] == ["in_doubt", "write"]
        _ = [event async for event in opened.run("never mind", supersede=True)]
        assert [row.kind for row in opened.pending()] == ["in_doubt"]
        await opened.cancel()
        assert [row.kind for row in opened.pending()] == ["in_doubt"]
        assert world.numbers == [1]

        opened.decide(opened.pending()[0].id, Decision("respond", message="happened"))
        assert opened.pending() == []
        assert app.store.ledger.list()[0].state == "committed"
        check_invariants(app, world)


class Hanging(World):
    """A world whose tool does not answer, so that stopping leaves the call open and in doubt."""

    def __init__(self) -> None:
        super().__init__()
        self.hangs = True
        self.entered, self.breaks = asyncio.Event(), asyncio.Event()

    def tool(self) -> Any:
        async def act(n: int) -> str:
            """Append a number."""
            self.numbers.append(n)
            self.entered.set()
            if self.hangs:
                await self.breaks.wait()
            if self.hangs or n in self.lost:
                self.hangs = False
                raise OutcomeUnknown("the connection broke.")
            return f"appended {n}"

        contract = Contract(
            effects=frozenset({"write:numbers"}),
            open_world=False,
            always=lambda args: Scope("any number", {}),
        )
        return make_tool(act, args=Number, contract=contract)


async def left_in_doubt(app: Application, opened: AgentSession, world: Hanging) -> None:
    """Approve the write that waits, and stop at once while it is under way."""
    opened.decide(opened.pending()[0].id, Decision("approve"))
    await stopped_within(app, opened, world, asyncio.create_task(resumed(opened)))


async def stopped_within(
    app: Application, opened: AgentSession, world: Hanging, driving: asyncio.Task[Trajectory]
) -> None:
    """Stop at once while the write is under way; then it breaks."""
    await world.entered.wait()
    opened.request_stop()
    opened.request_stop()
    assert (await driving).done.state == "interrupted"
    (doubt,) = app.store.ledger.open_doubts(opened.id)
    world.breaks.set()
    while opened.still_runs(doubt):  # noqa: ASYNC110
        await asyncio.sleep(0)


@pytest.fixture
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped run does not wait for its writes."""
    monkeypatch.setattr(writes, "GRACE", 0.0)


@pytest.mark.usefixtures("no_grace")
async def test_moving_on_from_an_open_doubt_answers_its_call_and_keeps_the_question(
    tmp_path: Path,
) -> None:
    world = Hanging()
    async with session(tmp_path, [act(1), "All right."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        await left_in_doubt(app, opened, world)
        assert (await resumed(opened)).done.state == "waiting"
        (doubt,) = opened.pending()

        moved = Trajectory([event async for event in opened.run("never mind")])
        assert moved.done.answer == "All right."
        history = await opened.history()
        assert [message.type for message in history] == ["human", "ai", "tool", "human", "ai"]
        assert "outcome of this call is unknown" in str(history[2].content)
        assert opened.pending() == [doubt]
        assert world.numbers == [1]
        check_invariants(app, world)


@pytest.mark.usefixtures("no_grace")
async def test_what_a_person_says_about_an_open_doubt_is_what_the_model_is_told(
    tmp_path: Path,
) -> None:
    world = Hanging()
    async with session(tmp_path, [act(1), "Good."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        await left_in_doubt(app, opened, world)
        done = await review(
            opened, Settles(happened=True), Trajectory((await resumed(opened)).events)
        )
        assert "says that it happened" in done.results["c1"]
        assert "unknown" not in done.results["c1"]
        assert world.numbers == [1]
        assert opened.receipt().done[0].endswith("according to ana")
        check_invariants(app, world)


@pytest.mark.usefixtures("no_grace")
async def test_a_second_attempt_that_is_in_doubt_again_is_a_new_question(tmp_path: Path) -> None:
    world = Hanging()
    world.lost = {1}
    async with session(tmp_path, [act(1), "Hm."], tools=[world.tool()]) as (app, opened):
        await converse(opened, "go", stays_silent)
        await left_in_doubt(app, opened, world)
        await resumed(opened)
        (first,) = opened.pending()
        opened.decide(first.id, Decision("respond", message="not happened"))
        again = await resumed(opened)

        assert again.done.answer == "Hm."
        assert world.numbers == [1, 1]
        (second,) = opened.pending()
        assert (second.kind, second.attempt) == ("in_doubt", 2)
        assert [asked.approval for asked in again.of(ApprovalAsked)] == [second]
        opened.decide(second.id, Decision("respond", message="happened"))
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.attempts) == ("committed", 2)
        assert app.store.trail.verify() == []


@pytest.mark.usefixtures("no_grace")
async def test_what_ran_under_a_rule_is_not_asked_about_once_its_doubt_is_answered(
    tmp_path: Path,
) -> None:
    world = Hanging()
    steps = [act(2), "First.", act(1), "Good."]
    async with session(tmp_path, steps, tools=[world.tool()]) as (app, opened):
        world.hangs = False
        await converse(opened, "first", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        await resumed(opened)
        world.hangs = True
        world.entered.clear()
        driving = asyncio.create_task(converse(opened, "go", stays_silent))
        await stopped_within(app, opened, world, driving)
        await resumed(opened)
        (doubt,) = opened.pending()
        opened.decide(doubt.id, Decision("respond", message="happened"))
        done = await resumed(opened)
        assert (done.done.answer, opened.pending()) == ("Good.", [])
        assert [row.kind for row in app.store.approvals.list(None)] == ["in_doubt", "write"]


class OfItsOwnClass(StructuredTool):
    """A tool made from a function, as libraries subclass it."""


async def test_a_write_of_a_tool_of_another_class_is_in_doubt_after_its_effect(
    tmp_path: Path,
) -> None:
    world = World()

    def act(n: int) -> str:
        """Append a number."""
        world.numbers.append(n)
        raise RuntimeError("after the effect")

    tool = OfItsOwnClass.from_function(act)
    async with session(tmp_path, [calls(("act", {"n": 1})), "Hm."], tools=[tool]) as (app, opened):
        await converse(opened, "go", approves)
        assert world.numbers == [1]
        assert [effect.state for effect in app.store.ledger.list()] == ["in_doubt"]
        assert [row.kind for row in opened.pending()] == ["in_doubt"]
        check_invariants(app, world)


async def test_always_approves_this_call_and_those_its_scope_covers_until_it_is_revoked(
    tmp_path: Path,
) -> None:
    world = World()
    steps = [act(1), "1", act(2), "2", act(3), "3"]
    async with session(tmp_path, steps, tools=[world.tool()]) as (app, opened):
        await converse(opened, "one", stays_silent)
        rule = opened.allow_always(opened.pending()[0].id)
        await resumed(opened)
        unasked = await converse(opened, "two", stays_silent)
        assert (unasked.asked, world.numbers) == ([], [1, 2])
        opened.revoke(rule.id)
        with pytest.raises(AlreadyDecided):
            opened.revoke(rule.id)
        asked = await converse(opened, "three", stays_silent)
        assert (len(asked.asked), world.numbers) == (1, [1, 2])
        permits = [(effect.approval is None, effect.rule) for effect in app.store.ledger.list()]
        assert permits == [(True, rule.id), (False, None)]
        assert app.store.trail.verify() == []
