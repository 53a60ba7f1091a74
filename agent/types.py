"""Words that several parts share: keys, verdicts, decisions, states. Plain data, no behaviour."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypedDict

SessionState = Literal[
    "running", "waiting", "done", "stopped", "interrupted", "cancelled", "failed"
]
ApprovalKind = Literal["write", "in_doubt", "elicitation"]
ApprovalStatus = Literal[
    "pending", "approved", "edited", "rejected", "answered", "expired", "superseded"
]
EffectState = Literal["intended", "committed", "failed", "in_doubt"]
DecisionType = Literal["approve", "edit", "reject", "respond"]
Behavior = Literal["allow", "ask", "deny"]


class Verdict(TypedDict):
    """What was decided about a proposed call, frozen in the graph's state by tool call id.

    ``digest`` binds it to the normalised arguments; ``notes`` say what was repaired. A policy may
    have a ``message`` for the model, say that "always" is no answer (``remember``: false), and for
    how many ``hours`` an approval may be answered.
    """

    behavior: Behavior
    rule: str
    reason: str
    effects: list[str]
    digest: str
    notes: list[str]
    message: NotRequired[str]
    remember: NotRequired[bool]
    hours: NotRequired[float]


BY_HAND = "by hand: "
"""Begins the words for an undo that no call does."""


@dataclass(frozen=True)
class Decision:
    """An answer to an approval, before it is applied.

    Args:
        type: LangChain's word for it.
        args: For ``edit``: the whole new arguments, not a patch.
        message: For ``reject`` the reason, for ``respond`` the answer the model gets.
        preview: For ``edit``: what the person was shown that it would change (``Preview`` by
            field); what runs is held against it.
    """

    type: DecisionType
    args: dict[str, Any] | None = None
    message: str = ""
    preview: dict[str, Any] | None = None


@dataclass(frozen=True)
class Attachment:
    """A text of somebody else's that a user sends along with a message; ``source`` names it."""

    source: str
    text: str


@dataclass(frozen=True)
class Actor:
    """Who a process says is acting: a claim, recorded as such.

    Args:
        name: ``SAYSO_REVIEWER`` or the login.
        uid: The operating system's user id.
        host: The machine's name.
        via: Where the answer came from: ``chat``, ``cli``, ``rule``, ``test`` …
    """

    name: str
    uid: int
    host: str
    via: str = "cli"


@dataclass(frozen=True)
class Receipt:
    """What the store says happened to the writes of one turn; see ``agent.receipt``."""

    done: tuple[str, ...] = ()
    not_done: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    refused: bool = False
    """Whether a proposed write was rejected or denied: a headless run then ends with 5."""

    def __bool__(self) -> bool:
        return bool(self.done or self.not_done or self.unknown or self.waiting)


@dataclass(frozen=True)
class Authority:
    """The effects granted to a session: patterns such as ``write:*``; what is denied wins.

    By default everything but spending the user's money, ``spend:<currency>``. A refund of the
    order desk is ``spend:refund-<currency>``.
    """

    granted: tuple[str, ...] = ("read:*", "network:*", "write:*", "disclose:*", "spend:refund-*")
    denied: tuple[str, ...] = field(default=())
