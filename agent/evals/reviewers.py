"""Simulated reviewers: each is a function from what an approval shows to an answer.

They see what a person at the prompt would see, an ``ApprovalRecord``, and nothing else.
``None`` means silence: the approval stays pending.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.inbox import HAPPENED, NOT_HAPPENED
from agent.store.records import ApprovalRecord
from agent.types import Decision


class Reviewer(Protocol):
    """Decides about one approval."""

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """The answer, or ``None`` to stay silent."""
        ...


def approves(approval: ApprovalRecord) -> Decision | None:
    """Approves every write; stays silent about what is in doubt."""
    return Decision("approve") if approval.kind == "write" else None


def stays_silent(approval: ApprovalRecord) -> Decision | None:
    """Never answers."""
    return None


@dataclass(frozen=True)
class Rejects:
    """Rejects every write, with a reason."""

    reason: str = ""

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """A rejection."""
        return Decision("reject", message=self.reason) if approval.kind == "write" else None


@dataclass(frozen=True)
class Edits:
    """Approves with other arguments: those given replace the proposed ones of the same name."""

    changes: Mapping[str, Any]

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """An edit of the whole arguments."""
        edited = Decision("edit", args={**approval.args, **self.changes})
        return edited if approval.kind == "write" else None


@dataclass(frozen=True)
class Answers:
    """Answers in the tool's place."""

    message: str

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """A response."""
        return Decision("respond", message=self.message) if approval.kind == "write" else None


@dataclass(frozen=True)
class Settles:
    """Says of a write in doubt whether it happened; leaves other approvals to ``other``."""

    happened: bool
    other: Reviewer = approves

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """The person's word on what happened."""
        if approval.kind == "in_doubt":
            return Decision("respond", message=HAPPENED if self.happened else NOT_HAPPENED)
        return self.other(approval)


@dataclass(frozen=True)
class ByTool:
    """Asks another reviewer for each tool; without one it stays silent."""

    reviewers: Mapping[str, Reviewer]

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """That reviewer's answer."""
        reviewer = self.reviewers.get(approval.tool, stays_silent)
        return reviewer(approval)


@dataclass(frozen=True)
class When:
    """Asks ``then`` where a predicate holds of the approval, else ``otherwise``."""

    holds: Callable[[ApprovalRecord], bool]
    then: Reviewer
    otherwise: Reviewer = approves

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """One of the two answers."""
        return (self.then if self.holds(approval) else self.otherwise)(approval)


class InOrder:
    """Gives prepared answers one after the other, then stays silent."""

    def __init__(self, answers: Sequence[Decision | None]) -> None:
        self._answers = list(answers)

    def __call__(self, approval: ApprovalRecord) -> Decision | None:
        """The next answer."""
        return self._answers.pop(0) if self._answers else None
