"""What is kept of a trial: a line of JSON, enough to tell its whole trajectory again.

``docs/tasks.md`` says what the fields mean to who reads them with another program.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.evals.recorded import Became, Call, Recorded
from agent.evals.tasks.state import Differing
from agent.evals.tasks.worlds import Holder
from agent.store.records import ApprovalRecord

Unit = Literal["call", "chain", "conversation"]
"""Where a trial failed: in a single call, in the order of several, or in the conversation: with
the user, the reviewer or the policy."""


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ApprovalKept(_Kept):
    """What was asked about a call, and what was decided."""

    id: str
    kind: str
    status: str
    rule: str | None = None
    reason: str = ""
    preview: dict[str, Any] | None = None
    provenance: list[dict[str, Any]] | None = None
    decided_by: str | None = None
    decided_args: dict[str, Any] | None = None
    comment: str | None = None


class CallKept(_Kept):
    """A proposed call and what became of it (``agent.evals.recorded.Call``).

    Args:
        wrong: Whether it is the first wrong step of a trial that failed.
        effect: Its row of the ledger: id, state, attempts.
    """

    turn: int
    step: int
    id: str
    tool: str
    args: dict[str, Any]
    became: Became
    wrong: bool = False
    rule: str | None = None
    reason: str = ""
    result: str | None = None
    approvals: list[ApprovalKept] = Field(default_factory=list)
    effect: dict[str, Any] | None = None


class TurnKept(_Kept):
    """A message of the user, and the agent's answer."""

    said: str
    answer: str


class FiguresKept(_Kept):
    """What a trial took; ``asked`` are prompts to the reviewer."""

    steps: int
    calls: int
    writes: int
    asked: int
    tokens_in: int
    tokens_out: int
    seconds: float


class Failure(_Kept):
    """Why a trial failed.

    Args:
        what: The first wrong step in words.
        missing: What was to be called and was not.
    """

    unit: Unit
    what: str
    missing: str | None = None


class Trial(_Kept):
    """A trial of a task.

    Args:
        version: Of this form; a file of another one is not read.
        seed: Of everything that is left to chance in it, made of the run's seed, the task and the
            trial's number: the same under either holder of the policy.
        passed: The final state is the goal state, all was said, and nothing forbidden was done.
        problems: What was not so, a line each; empty when it passed.
        reached: How many of ``agent.evals.stages.STAGES`` it got through.
        goal, state: Digests of the goal state and of the final state.
        differing: Where the final state differs.
        ended: The state of the session.
        error: Why it broke off: the model or the harness, not the task.
        story: The trajectory in words, the first wrong step marked.
    """

    version: Literal[1] = 1
    world: str
    task: str
    tags: list[str] = Field(default_factory=list)
    policy_in: Holder
    model: str
    reviewer: str
    number: int
    seed: int
    passed: bool
    problems: list[str] = Field(default_factory=list)
    failure: Failure | None = None
    reached: int
    goal: str
    state: str
    differing: list[Differing] = Field(default_factory=list)
    session: str
    ended: str
    error: str | None = None
    turns: list[TurnKept] = Field(default_factory=list)
    calls: list[CallKept] = Field(default_factory=list)
    figures: FiguresKept
    story: str

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What it is a trial of, and which one."""
        return self.world, self.task, self.policy_in, self.number


def kept_calls(recorded: Recorded, wrong: tuple[str, str] | None) -> list[CallKept]:
    """The calls of a session; ``wrong`` is (message, call id) of the first wrong step."""
    return [_kept(call, (call.message, call.id) == wrong) for call in recorded.calls]


def kept_turns(recorded: Recorded) -> list[TurnKept]:
    """The conversation, turn by turn."""
    return [TurnKept(said=turn.said, answer=turn.answer) for turn in recorded.turns]


def _kept(call: Call, wrong: bool) -> CallKept:
    effect = call.effect
    return CallKept(
        turn=call.turn,
        step=call.step,
        id=call.id,
        tool=call.tool,
        args=call.args,
        became=call.became,
        wrong=wrong,
        rule=call.rule,
        reason=call.reason,
        result=call.result,
        approvals=[_approval(one) for one in call.approvals],
        effect=effect and {"id": effect.id, "state": effect.state, "attempts": effect.attempts},
    )


def _approval(one: ApprovalRecord) -> ApprovalKept:
    return ApprovalKept(
        id=one.id,
        kind=one.kind,
        status=one.status,
        rule=one.rule,
        reason=one.reason,
        preview=one.preview,
        provenance=one.provenance,
        decided_by=one.decided_by,
        decided_args=one.decided_args,
        comment=one.comment,
    )
