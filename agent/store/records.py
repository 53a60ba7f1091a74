"""The rows of the store as values. Field names are those of the command line's ``--json``."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from agent.types import ApprovalKind, ApprovalStatus, EffectState, SessionState


class Record(BaseModel):
    """A row as a frozen value. Times are ISO 8601 in UTC with microseconds and ``Z``."""

    model_config = ConfigDict(frozen=True)


class SessionRecord(Record):
    """One conversation.

    ``state`` is what the row says; a ``running`` session whose owner is dead reads as
    ``interrupted``. ``tokens`` is ``{"input": n, "output": n}``, empty where the model counts
    none; ``cost`` is US dollars or null.
    """

    id: str
    state: SessionState
    title: str = ""
    model: str
    tools: list[str] = Field(default_factory=list)
    workspace: str | None = None
    granted: list[str] = Field(default_factory=list)
    denied: list[str] = Field(default_factory=list)
    policy: str = ""
    labels: list[str] = Field(default_factory=list)
    tokens: dict[str, int] = Field(default_factory=dict)
    cost: float | None = None
    turn: int = 0
    error: str | None = None
    parent: str | None = None
    parent_turn: int | None = None
    user: str = ""
    uid: int = -1
    host: str = ""
    created_at: str = ""
    updated_at: str = ""


class ApprovalRecord(Record):
    """Something that waits, or waited, for a person.

    ``args`` is what was proposed, ``decided_args`` what an edit made of it; ``digest`` binds
    whichever runs. ``comment`` is a rejection's reason or a response's text. ``attempt`` tells
    apart the questions about one call: the doubts of a write that ran again, and the approvals of
    one whose preview changed or that expired and was asked again. ``undoes`` is the effect that
    the call would compensate.
    """

    id: str
    kind: ApprovalKind
    session: str
    turn: int
    message: str
    call: str
    attempt: int = 1
    interrupt: str | None = None
    status: ApprovalStatus = "pending"
    tool: str
    tool_version: str = "0"
    args: dict[str, Any]
    digest: str
    effects: list[str] = Field(default_factory=list)
    rule: str = ""
    reason: str = ""
    notes: list[str] = Field(default_factory=list)
    preview: dict[str, Any] | None = None
    provenance: list[dict[str, Any]] | None = None
    undo: str | None = None
    asked_at: str = ""
    decided_args: dict[str, Any] | None = None
    decided_digest: str | None = None
    decided_by: str | None = None
    decided_uid: int | None = None
    decided_host: str | None = None
    decided_via: str | None = None
    decided_at: str | None = None
    comment: str | None = None
    expires_at: str | None = None
    undoes: str | None = None

    @property
    def was_void(self) -> bool:
        """Whether it was approved, or edited, and taken back before anything ran."""
        return self.status == "superseded" and self.decided_digest is not None


class EffectRecord(Record):
    """One write in the ledger, its latest attempt.

    ``settled`` is ``"happened"`` or ``"not happened"`` when a person or the service's own record
    said so; which of them and when is in ``evidence``. ``undoes`` is the effect it compensates,
    ``before`` what its contract's preview showed as the record right before it was entered.
    """

    id: str
    session: str
    turn: int
    message: str
    call: str
    tool: str
    tool_version: str = "0"
    args: dict[str, Any]
    digest: str
    state: EffectState
    attempts: int = 1
    approval: str | None = None
    rule: str | None = None
    idempotency_key: str
    transport: str | None = None
    transaction: str | None = None
    result: dict[str, Any] | None = None
    evidence: dict[str, Any] | None = None
    settled: str | None = None
    started_at: str = ""
    ended_at: str | None = None
    undoes: str | None = None
    before: str | None = None


class RuleRecord(Record):
    """An "always for this session" rule that a person agreed to."""

    id: str
    session: str
    tool: str
    scope: str
    scope_args: dict[str, dict[str, Any]]
    created_by: str
    created_at: str
    revoked_by: str | None = None
    revoked_at: str | None = None


class TrailEntry(Record):
    """One entry of a session's hash chain; ``agent.store.trail`` says what the hashes cover.

    ``seq`` counts within the session, ``position`` orders all entries of the database. Of an
    ``erased`` entry, whose session was deleted, only the hashes are left.
    """

    seq: int
    at: str
    session: str
    kind: str
    data: dict[str, Any]
    prev: str
    hash: str
    data_hash: str = ""
    salt: str | None = None
    position: int = 0
    erased: bool = False


class LeaseRecord(Record):
    """Who may drive a session until when; the epoch fences what a stale owner would record."""

    session: str
    owner: str
    epoch: int
    expires_at: float
