"""The right answer of a benchmark's task as a real session: the model scripted, the rest as ever.

Each call is a step of its own, goes through the gate, waits for the reviewer where it writes, and
stands in ledger and trail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.application import Application, Options
from agent.checks.arguments import ArgumentsError, normalise
from agent.config import load_settings
from agent.evals.driving import converse
from agent.evals.recorded import Call, read_session
from agent.evals.reviewers import Reviewer, approves
from agent.models.scripted import ScriptedCall, ScriptedChatModel, ScriptedStep, Step
from agent.types import Authority, Decision

if TYPE_CHECKING:
    from agent.store.records import ApprovalRecord
    from tools.langchain_tools import ContractTool

MODEL = "scripted:gold"
ALL_EFFECTS = (*Authority().granted, "spend:*")
"""Everything, so that nothing fails for a missing grant."""

LIMITS: dict[str, Any] = {"max_steps": 1_000, "result_limit": 5_000_000, "approval_hours": 0.0}
"""Nothing is cut and nothing runs out."""

DONE = "Done."


@dataclass(frozen=True)
class Gold:
    """A call of the right answer."""

    tool: str
    args: dict[str, Any]


@dataclass(frozen=True)
class Turn:
    """What the user says, and the right calls of that turn.

    Args:
        before: What the user does in the world themselves, before they say it.
        after: What is looked at when the turn has ended; a text says what is wrong.
    """

    says: str
    calls: tuple[Gold, ...] = ()
    before: Callable[[], None] | None = None
    after: Callable[[], str | None] | None = None


@dataclass(frozen=True)
class Replay:
    """A task of a benchmark, ready to be replayed.

    Args:
        judge: What is wrong in the end, by the benchmark's own judgement; empty: nothing.
        state: A text of the world's state, that differs when the state does.
        changing: The places, among the right calls, of those that change the state.
    """

    id: str
    tools: Sequence[ContractTool]
    turns: Sequence[Turn]
    judge: Callable[[], list[str]]
    state: Callable[[], str]
    changing: Callable[[], Sequence[int]] = tuple


@dataclass(frozen=True)
class Outcome:
    """What came of a replay.

    Args:
        wrong: What the benchmark's own judgement has against it.
        faults: Right calls that their own schema does not allow: errors of the task.
        state: Of the world in the end.
        errors: Calls that failed in the world, each read by the model as an error.
        not_run: Right calls that did not run, with what became of each.
        asked, writes: Approvals that were put to the reviewer, and writes that happened.
        broken: What is wrong with the trail.
    """

    id: str
    wrong: tuple[str, ...]
    faults: tuple[str, ...]
    state: str
    steps: int
    calls: int
    errors: int
    not_run: tuple[str, ...]
    asked: int
    writes: int
    broken: tuple[str, ...] = ()


@dataclass(frozen=True)
class RejectsOne:
    """Approves all but one call: that of this place among the right calls, from 0."""

    place: int

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """The decision."""
        if approval.call == _id(self.place):
            return Decision("reject", message="Not this one.")
        return approves(approval)


async def replay(task: Replay, home: Path, reviewer: Reviewer = approves) -> Outcome:
    """Run it in a session of its own, in the store of ``home``."""
    settings = load_settings(environ={}, home=home, model=MODEL, **LIMITS)
    settings = settings.model_copy(update={"tools": (), "reviewer": "simulated reviewer"})
    script = list(_steps(task))
    wrong: list[str] = []
    async with (
        Application.open(
            settings,
            Options(granted=ALL_EFFECTS, via="eval"),
            models={MODEL: ScriptedChatModel(script)},
            tools=list(task.tools),
        ) as app,
        app.new_session() as session,
    ):
        for turn in task.turns:
            if turn.before is not None:
                turn.before()
            await converse(session, turn.says, reviewer, rounds=1_000)
            if turn.after is not None and (what := turn.after()) is not None:
                wrong.append(what)
        recorded = read_session(app.store, session.id, await session.history())
    wanted = [gold.tool for turn in task.turns for gold in turn.calls]
    calls = recorded.calls
    if [call.tool for call in calls] != wanted:
        wrong.append("the calls that were proposed are not those of the right answer")
    return Outcome(
        id=task.id,
        wrong=(*wrong, *task.judge()),
        faults=tuple(_faults(task)),
        state=task.state(),
        steps=recorded.figures.steps,
        calls=len(calls),
        errors=sum(call.became == "failed" for call in calls),
        not_run=tuple(_said(call) for call in calls if call.became not in ("ran", "failed")),
        asked=recorded.figures.asked,
        writes=sum(call.effect is not None and call.became == "ran" for call in calls),
        broken=recorded.broken,
    )


def _faults(task: Replay) -> Iterator[str]:
    tools = {tool.name: tool for tool in task.tools}
    for gold in (gold for turn in task.turns for gold in turn.calls):
        try:
            normalise(tools[gold.tool], gold.args)
        except ArgumentsError as error:
            yield f"{gold.tool}: {'; '.join(error.problems)}"


def _steps(task: Replay) -> Iterator[Step]:
    place = 0
    for turn in task.turns:
        for gold in turn.calls:
            yield ScriptedStep(calls=(ScriptedCall(gold.tool, gold.args, _id(place)),))
            place += 1
        yield DONE


def _id(place: int) -> str:
    return f"gold-{place}"


def _said(call: Call) -> str:
    return f"{call.tool}: {call.became}"
