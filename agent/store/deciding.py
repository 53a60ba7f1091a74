"""How an approval stops being pending: one compare-and-set and one entry in the trail."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, or_, select, update

from agent.errors import AlreadyDecided, ApprovalExpired, ApprovalVoid
from agent.store.ids import now
from agent.store.records import ApprovalRecord, EffectRecord
from agent.store.schema import approvals
from agent.store.statement import Statement
from agent.store.writing import Writing, actor_data
from agent.types import Actor, ApprovalStatus, EffectState

_OPEN_DOUBT = Statement(
    select(approvals).where(
        approvals.c.session == bindparam("session"),
        approvals.c.message == bindparam("message"),
        approvals.c.call == bindparam("call"),
        approvals.c.kind == "in_doubt",
        approvals.c.status == "pending",
    )
)
_DECIDE = Statement(
    update(approvals).where(approvals.c.id == bindparam("key"), approvals.c.status == "pending")
)
_VOID = Statement(
    update(approvals).where(
        approvals.c.id == bindparam("key"),
        or_(approvals.c.status == "approved", approvals.c.status == "edited"),
    )
)


def close(
    writing: Writing,
    approval: ApprovalRecord,
    status: ApprovalStatus,
    actor: Actor | None,
    *,
    comment: str | None = None,
    args: dict[str, Any] | None = None,
    digest: str | None = None,
    preview: dict[str, Any] | None = None,
) -> ApprovalRecord:
    """Make a pending approval of a locked session ``status``; ``None``: the program did.

    ``args`` are those of an edit, with its ``preview``; ``digest`` binds what may run.

    Raises:
        AlreadyDecided: It is not pending any more.
    """
    change = {
        "status": status,
        "decided_args": args,
        "decided_preview": preview,
        "decided_digest": digest,
        "decided_by": actor.name if actor else None,
        "decided_uid": actor.uid if actor else None,
        "decided_host": actor.host if actor else None,
        "decided_via": actor.via if actor else None,
        "decided_at": now(),
        "comment": comment,
    }
    if _DECIDE.run(writing.conn, change | {"key": approval.id}) != 1:
        raise already_decided(approval)
    entry = {
        "approval": approval.id,
        "kind": approval.kind,
        "message": approval.message,
        "call": approval.call,
        "tool": approval.tool,
        "status": status,
        "args": approval.args,
        "digest": approval.digest,
        "decided_args": args,
        "decided_digest": digest,
        "comment": comment,
        "by": actor_data(actor) if actor else None,
    }
    kind = "approval.superseded" if status == "superseded" else "approval.decided"
    writing.record(approval.session, kind, entry)
    return approval.model_copy(update=change)


UNDECIDED: dict[str, Any] = {
    "status": "pending",
    "interrupt": None,
    "decided_args": None,
    "decided_preview": None,
    "decided_digest": None,
    "decided_by": None,
    "decided_uid": None,
    "decided_host": None,
    "decided_via": None,
    "decided_at": None,
    "comment": None,
}
"""The columns of an approval that nobody has answered yet."""


def make_void(writing: Writing, approval: ApprovalRecord, reason: str) -> None:
    """Take an approval back that no write was entered under; who had given it stays in its row.

    Raises:
        AlreadyDecided: It is neither approved nor edited.
    """
    values = {"status": "superseded", "key": approval.id}
    if _VOID.run(writing.conn, values) != 1:
        raise already_decided(approval)
    entry = {
        "approval": approval.id,
        "message": approval.message,
        "call": approval.call,
        "tool": approval.tool,
        "digest": approval.decided_digest,
        "decided_by": approval.decided_by,
        "reason": reason,
    }
    about = [approval.args, approval.decided_args]
    writing.record(approval.session, "approval.void", entry, about=about)


def close_doubt(writing: Writing, doubt: ApprovalRecord, state: EffectState) -> ApprovalRecord:
    """Close the question whether a write happened, since its outcome became known."""
    return close(writing, doubt, "superseded", None, comment=f"found out: {state}")


def already_decided(approval: ApprovalRecord) -> AlreadyDecided:
    """The error for an answer that comes second."""
    by, at = approval.decided_by or "", approval.decided_at or ""
    if approval.was_void:
        return ApprovalVoid(approval.id, approval.session, by, at)
    if approval.status == "expired" and approval.kind == "write":
        return ApprovalExpired(approval.id, approval.session, approval.expires_at or at)
    return AlreadyDecided(approval.id, approval.status, by, at)


def open_doubt(writing: Writing, effect: EffectRecord) -> ApprovalRecord | None:
    """The pending question whether this write happened."""
    row = _OPEN_DOUBT.one(
        writing.conn, session=effect.session, message=effect.message, call=effect.call
    )
    return ApprovalRecord(**row) if row else None
