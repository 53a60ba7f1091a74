"""The rows of the store as values. Field names are those of the command line's ``--json``."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    model_validator,
)

from agent.errors import StoreError
from agent.safe_text import shorten
from agent.types import ApprovalKind, ApprovalStatus, EffectState, SessionState


class Record(BaseModel):
    """A row as a frozen value. Times are ISO 8601 in UTC with microseconds and ``Z``.

    Raises:
        StoreError: The row holds what this program never writes (SQLite takes any type in any
            column); its table, its name there and the value are said.
    """

    model_config = ConfigDict(frozen=True)

    table: ClassVar[str]
    named_by: ClassVar[tuple[str, ...]] = ("id",)

    @model_validator(mode="wrap")
    @classmethod
    def _as_written(cls, values: Any, build: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return build(values)
        except ValidationError as error:
            raise _damaged(cls, values, error) from error


class SessionRecord(Record):
    """One conversation.

    ``state`` is what the row says; a ``running`` session whose owner is dead reads as
    ``interrupted``. ``tokens`` is ``{"input": n, "output": n}``, empty where the model counts
    none; ``cost`` is US dollars or null. ``modes``: ``freeze``, when each turn's tools are chosen
    before anything is read; ``isolate``, when a second call of the model reads strangers' text.
    """

    table = "sessions"

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
    modes: list[str] = Field(default_factory=list)
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

    ``args`` is what was proposed, ``decided_args`` what an edit made of it
    (``decided_preview``: what that was shown to change); ``digest`` binds
    whichever runs. ``comment`` is a rejection's reason or a response's text. ``attempt`` tells
    apart the questions about one call: the doubts of a write that ran again, and the approvals of
    one whose preview changed or that expired and was asked again. ``undoes`` is the effect that
    the call would compensate. ``warnings`` are passages of what was read that read like an attempt
    to steer (``agent.provenance.suspicion``). ``remember``: whether "always" may be an answer.
    """

    table = "approvals"

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
    warnings: list[str] = Field(default_factory=list)
    preview: dict[str, Any] | None = None
    provenance: list[dict[str, Any]] | None = None
    undo: str | None = None
    asked_at: str = ""
    decided_args: dict[str, Any] | None = None
    decided_preview: dict[str, Any] | None = None
    decided_digest: str | None = None
    decided_by: str | None = None
    decided_uid: int | None = None
    decided_host: str | None = None
    decided_via: str | None = None
    decided_at: str | None = None
    comment: str | None = None
    expires_at: str | None = None
    undoes: str | None = None
    remember: bool = True

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

    table = "effects"

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
    """An "always for this session" rule that a person agreed to.

    It is for one ``tool_version``; ``None``: it was agreed to before versions were kept. From
    ``expires_at`` on it holds no more; ``None``: it holds as long as its session.
    """

    table = "rules"

    id: str
    session: str
    tool: str
    scope: str
    scope_args: dict[str, dict[str, Any]]
    tool_version: str | None = None
    created_by: str
    created_at: str
    expires_at: str | None = None
    revoked_by: str | None = None
    revoked_at: str | None = None


class TrailEntry(Record):
    """One entry of a session's hash chain; ``agent.store.trail`` says what the hashes cover.

    ``seq`` counts within the session, ``position`` orders all entries of the database. Of an
    ``erased`` entry, whose session was deleted, only the hashes are left.
    """

    table = "trail"
    named_by = ("position", "session", "seq")

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

    table = "sessions"
    named_by = ("session",)

    session: str
    owner: str
    epoch: int
    expires_at: float


def _damaged(kind: type[Record], row: Any, error: ValidationError) -> StoreError:
    wrong = error.errors()[0]
    field = ".".join(map(str, wrong["loc"]))
    names = ", ".join(f"{name} {row.get(name)!r}" for name in kind.named_by)
    session = row.get("session", row.get("id"))
    next_step = (
        "What is wrong with the trail is named by: sayso trail verify"
        if kind.table == "trail"
        else f"What was recorded about it is shown by: sayso trail show {session}"
    )
    return StoreError(
        f"A row of the table {kind.table} is damaged ({names}): its {field} is "
        f"{shorten(repr(wrong['input']), 60)}, which this program never writes there. "
        f"Nothing was changed. {next_step}"
    )
