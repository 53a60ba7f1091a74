"""How an approval stops being pending: one compare-and-set and one entry in the trail."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, select, update

from agent.errors import AlreadyDecided
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


def close(
    writing: Writing,
    approval: ApprovalRecord,
    status: ApprovalStatus,
    actor: Actor | None,
    *,
    comment: str | None = None,
    args: dict[str, Any] | None = None,
    digest: str | None = None,
) -> ApprovalRecord:
    """Make a pending approval of a locked session ``status``; ``None``: the program did.

    ``args`` are those of an edit, ``digest`` binds the arguments that may run.

    Raises:
        AlreadyDecided: It is not pending any more.
    """
    change = {
        "status": status,
        "decided_args": args,
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


def close_doubt(writing: Writing, doubt: ApprovalRecord, state: EffectState) -> ApprovalRecord:
    """Close the question whether a write happened, since its outcome became known."""
    return close(writing, doubt, "superseded", None, comment=f"found out: {state}")


def already_decided(approval: ApprovalRecord) -> AlreadyDecided:
    """The error for an answer that comes second."""
    by, at = approval.decided_by or "", approval.decided_at or ""
    return AlreadyDecided(approval.id, approval.status, by, at)


def open_doubt(writing: Writing, effect: EffectRecord) -> ApprovalRecord | None:
    """The pending question whether this write happened."""
    row = _OPEN_DOUBT.one(
        writing.conn, session=effect.session, message=effect.message, call=effect.call
    )
    return ApprovalRecord(**row) if row else None
