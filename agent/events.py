"""What a running session reports, one value an event.

``AgentSession.run`` and ``resume`` yield these; the chat draws them, ``sayso run --json``
prints each as one line (``type`` first). Texts are as they came: whoever shows them escapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from agent.store.records import ApprovalRecord
from agent.types import Receipt, SessionState, Verdict


@dataclass(frozen=True)
class MessageDelta:
    """A piece of the model's text while it streams. Not printed by ``--json``."""

    type: ClassVar[str] = "delta"
    text: str


@dataclass(frozen=True)
class Message:
    """The whole text of one model reply; comes after its deltas."""

    type: ClassVar[str] = "message"
    text: str


@dataclass(frozen=True)
class DraftRefused:
    """A reply that is no answer: it went back to the model, for what in it had no support.

    It comes in the place of a ``Message``; none of its text was told before.
    """

    type: ClassVar[str] = "refused"
    text: str
    unsupported: tuple[str, ...]


@dataclass(frozen=True)
class AnswerMarked:
    """The answer just told has a gap, which is marked at its end.

    Args:
        unsupported: What has no support, also after the model was asked again.
        problem: Why it could not be checked, if it could not.
    """

    type: ClassVar[str] = "marked"
    unsupported: tuple[str, ...]
    problem: str | None = None


@dataclass(frozen=True)
class CallProposed:
    """A call the model asked for, as the model wrote it."""

    type: ClassVar[str] = "call"
    call: str
    tool: str
    args: dict[str, Any]


@dataclass(frozen=True)
class CallJudged:
    """The verdict on a call that passed the argument check."""

    type: ClassVar[str] = "verdict"
    call: str
    tool: str
    verdict: Verdict


@dataclass(frozen=True)
class ApprovalAsked:
    """A call, an in-doubt effect or a server's question that waits for a person now.

    A question comes while its call still runs, and is to be answered meanwhile.
    """

    type: ClassVar[str] = "approval"
    approval: ApprovalRecord


@dataclass(frozen=True)
class CallProgress:
    """How far a running call says it is: ``done`` of ``total`` (null: unknown), and a few words."""

    type: ClassVar[str] = "progress"
    call: str
    tool: str
    done: float
    total: float | None = None
    text: str | None = None


@dataclass(frozen=True)
class CallFinished:
    """A call's result as the model will read it. ``status``: ``success`` or ``error``."""

    type: ClassVar[str] = "result"
    call: str
    tool: str
    status: str
    text: str


@dataclass(frozen=True)
class ReceiptReady:
    """What the store says about the writes of this turn; only when there were any."""

    type: ClassVar[str] = "receipt"
    receipt: Receipt


@dataclass(frozen=True)
class KnownSince:
    """What has become known of writes since they were last told of, before a turn begins.

    Such as a result that came late, what the record showed, or what somebody said elsewhere.
    """

    type: ClassVar[str] = "known_since"
    receipt: Receipt


@dataclass(frozen=True)
class Done:
    """The turn is over, or pauses. ``exit`` is the code a headless run ends with."""

    type: ClassVar[str] = "done"
    session: str
    state: SessionState
    answer: str
    exit: int
    error: str | None = None


Event = (
    MessageDelta
    | Message
    | DraftRefused
    | AnswerMarked
    | CallProposed
    | CallJudged
    | ApprovalAsked
    | CallProgress
    | CallFinished
    | ReceiptReady
    | KnownSince
    | Done
)
