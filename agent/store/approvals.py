"""Approvals: what waits for a person, and the one decision that each gets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, get_args

from sqlalchemy import bindparam, exists, insert, select, update

from agent.canonical import call_digest, canonical_json
from agent.errors import AlreadyDecided, ApprovalExpired, InvalidDecision, NotFound
from agent.store.database import Database, with_fresh_id
from agent.store.deciding import UNDECIDED, already_decided, close, close_doubt, make_void
from agent.store.ids import in_hours, now
from agent.store.ledger import effect_of_call
from agent.store.lookup import Lookup
from agent.store.outcomes import HAPPENED, NOT_HAPPENED, settle_effect
from agent.store.records import ApprovalRecord, EffectRecord
from agent.store.schema import approvals, effects
from agent.store.statement import Statement
from agent.store.writing import Writing
from agent.types import Actor, ApprovalKind, ApprovalStatus, Decision, DecisionType

ApprovalList = list[ApprovalRecord]
Provenance = list[dict[str, Any]]
Answer = tuple[str, Decision, str | None]
"""Approval id, decision, and the digest (see ``Approvals.decide``)."""

_STATUS: dict[DecisionType, ApprovalStatus] = {
    "approve": "approved",
    "edit": "edited",
    "reject": "rejected",
    "respond": "answered",
}
_ALLOWED: dict[ApprovalKind, tuple[DecisionType, ...]] = {
    "write": ("approve", "edit", "reject", "respond"),
    "in_doubt": ("respond",),
    "elicitation": ("respond", "reject"),
}
_BY_CALL = Statement(
    select(approvals)
    .where(
        approvals.c.session == bindparam("session"),
        approvals.c.message == bindparam("message"),
        approvals.c.call == bindparam("call"),
        approvals.c.kind == bindparam("kind"),
    )
    .order_by(approvals.c.attempt.desc())
    .limit(1)
)
_later = approvals.alias("later")
_NOT_ENTERED = Statement(
    select(approvals)
    .where(
        approvals.c.session == bindparam("session"),
        approvals.c.turn == bindparam("turn"),
        approvals.c.kind == "write",
        ~exists().where(
            effects.c.session == approvals.c.session,
            effects.c.message == approvals.c.message,
            effects.c.call == approvals.c.call,
        ),
        ~exists().where(
            _later.c.session == approvals.c.session,
            _later.c.message == approvals.c.message,
            _later.c.call == approvals.c.call,
            _later.c.kind == approvals.c.kind,
            _later.c.attempt > approvals.c.attempt,
        ),
    )
    .order_by(approvals.c.n)
)
_DUE = Statement(
    select(approvals.c.id)
    .where(approvals.c.status == "pending", approvals.c.expires_at <= bindparam("now"))
    .order_by(approvals.c.expires_at)
)
_INSERT = Statement(insert(approvals).inline())
_UPDATE = Statement(update(approvals).where(approvals.c.id == bindparam("key")))
_BY_ID = Statement(select(approvals).where(approvals.c.id == bindparam("id")))
_SESSION_OF = Statement(select(approvals.c.session).where(approvals.c.id == bindparam("id")))
_LOOKUP = Lookup(select(approvals), approvals.c.id, "approval")


@cache
def _listing(columns: tuple[str, ...], *, oldest_first: bool) -> Statement:
    """Approvals by the values of these columns; made once, since that costs more than running."""
    order = approvals.c.n if oldest_first else approvals.c.n.desc()
    return Statement(
        select(approvals)
        .where(*(approvals.c[name] == bindparam(name) for name in columns))
        .order_by(order)
        .limit(bindparam("limit"))
        .offset(bindparam("offset"))
    )


class Approvals:
    """Ask, look up and decide.

    A decision is a compare-and-set on ``pending``: of two that come at once, one is recorded and
    the other raises. An answer that cannot be applied changes nothing.
    """

    def __init__(self, database: Database) -> None:
        self._db = database

    def ask(
        self,
        *,
        session: str,
        turn: int,
        message: str,
        call: str,
        kind: ApprovalKind,
        interrupt: str | None,
        tool: str,
        tool_version: str,
        args: dict[str, Any],
        digest: str,
        effects: Sequence[str],
        rule: str,
        reason: str,
        notes: Sequence[str],
        preview: dict[str, Any] | None,
        provenance: Provenance | None,
        undo: str | None,
        warnings: Sequence[str] = (),
        undoes: str | None = None,
        remember: bool = True,
        hours: float = 0,
        epoch: int | None = None,
    ) -> ApprovalRecord:
        """Put a call to a person, once: one approval a call and kind.

        Asked again while it is pending, only ``interrupt`` is renewed, and the ``notes`` of a
        doubt; once it is decided, the decided approval comes back unchanged. A write that ran
        again and is in doubt again is a new question, as is a doubt whose answer was refuted; one
        that was resolved in the meantime comes back ``superseded``.

        Args:
            warnings: What was read that reads like an attempt to steer, for the reviewer.
            undoes: Id of the effect that the call would compensate.
            remember: Whether "always" may be an answer.
            hours: For how long it may be answered; 0: for ever.
            epoch: Of the lease that the caller holds; without one, no lease is asked for.

        Raises:
            LeaseLost: The lease has another epoch; nothing was asked.
            NotFound: There is no such session.
            ValueError: The digest of a write is not that of its arguments, a fault of the program:
                what a person is shown would not be what they agree to. Nothing was asked.
        """
        if kind == "write" and call_digest(tool, args) != digest:
            raise ValueError(f"the digest of {tool} is that of other arguments: nothing was asked")
        is_doubt = kind == "in_doubt"

        def ask_as(fresh_id: str) -> ApprovalRecord:
            with self._db.write() as writing:
                writing.lock(session, epoch=epoch)
                doubted = effect_of_call(writing, session, message, call) if is_doubt else None
                attempt = doubted.attempts if doubted else 1
                known = _of_call(writing, session, message, call, kind)
                if known is not None and _is_refuted(known, doubted):
                    attempt = max(attempt, known.attempt + 1)
                elif known is not None and known.attempt >= attempt:
                    return _renew(writing, known, interrupt, notes if is_doubt else known.notes)
                approval = ApprovalRecord(
                    id=fresh_id,
                    kind=kind,
                    session=session,
                    turn=turn,
                    message=message,
                    call=call,
                    attempt=attempt,
                    interrupt=interrupt,
                    tool=tool,
                    tool_version=tool_version,
                    args=args,
                    digest=digest,
                    effects=[*effects],
                    rule=rule,
                    reason=reason,
                    notes=[*notes],
                    warnings=[*warnings],
                    preview=preview,
                    provenance=provenance,
                    undo=undo,
                    undoes=undoes,
                    remember=remember,
                    asked_at=now(),
                    expires_at=in_hours(hours) if hours else None,
                )
                _INSERT.run(writing.conn, dict(approval))
                _record_question(writing, approval)
                if doubted and doubted.state in ("committed", "failed"):  # found out meanwhile
                    return close_doubt(writing, approval, doubted.state)
                return approval

        return with_fresh_id("a", ask_as)

    def void(self, id: str, *, epoch: int, reason: str) -> ApprovalRecord:
        """Take back an approval, or an edit, whose call does not run; nobody is asked again.

        Raises:
            LeaseLost: The lease has another epoch; nothing was changed.
            AlreadyDecided: It is neither approved nor edited.
        """
        with self._db.write() as writing:
            approval = ApprovalRecord(**_existing(writing, id))
            writing.lock(approval.session, epoch=epoch)
            make_void(writing, approval, reason)
            return ApprovalRecord(**_existing(writing, id))

    def ask_again(
        self,
        id: str,
        *,
        epoch: int,
        reason: str,
        preview: dict[str, Any] | None,
        hours: float = 0,
    ) -> ApprovalRecord:
        """Ask anew about a call that was approved or has expired, and did not run.

        What was approved becomes ``superseded``; who had approved it stays in its row. Of two
        that ask at once, the second gets the question of the first.

        Args:
            reason: Why, as the reviewer reads it.
            preview: What the call would change now.

        Raises:
            LeaseLost: The lease has another epoch; nothing was asked.
            InvalidDecision: It is none of these.
        """

        def ask_as(fresh_id: str) -> ApprovalRecord:
            with self._db.write() as writing:
                old = ApprovalRecord(**_existing(writing, id))
                writing.lock(old.session, epoch=epoch)
                newest = _of_call(writing, old.session, old.message, old.call, old.kind)
                if newest is not None and newest.attempt > old.attempt:
                    return newest
                old = ApprovalRecord(**_existing(writing, id))
                if old.kind != "write" or old.status not in ("approved", "expired"):
                    raise _invalid(id, f"it is {old.status}, so it is not asked again")
                if old.status == "approved":
                    make_void(writing, old, reason)
                new = old.model_copy(
                    update=UNDECIDED
                    | {
                        "id": fresh_id,
                        "attempt": old.attempt + 1,
                        "reason": reason,
                        "preview": preview,
                        "asked_at": now(),
                        "expires_at": in_hours(hours) if hours else None,
                    }
                )
                _INSERT.run(writing.conn, dict(new))
                _record_question(writing, new)
                return new

        return with_fresh_id("a", ask_as)

    def get(self, id: str, *, whole: bool = False) -> ApprovalRecord:
        """One approval, by the beginning of its id unless ``whole``.

        Raises:
            NotFound: There is none; what is pending is listed.
            UsageError: Several begin like that; they are listed.
        """
        with self._db.read() as conn:
            row = _LOOKUP.find(
                conn,
                id,
                whole=whole,
                missing=lambda: NotFound(
                    "approval",
                    id,
                    tried=conn.scalars(
                        select(approvals.c.id)
                        .where(approvals.c.status == "pending")
                        .order_by(approvals.c.n.desc())
                        .limit(10)
                    ).all(),
                    hint="List them: sayso approvals",
                ),
            )
        return ApprovalRecord(**row)

    def list(
        self,
        status: ApprovalStatus | None = "pending",
        session: str | None = None,
        kind: ApprovalKind | None = None,
        turn: int | None = None,
        limit: int | None = 50,
        offset: int = 0,
    ) -> ApprovalList:
        """Approvals: pending ones as they were asked, all others the last one first.

        ``limit=None``: all of them.
        """
        wanted = {"status": status, "session": session, "kind": kind, "turn": turn}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        query = _listing(tuple(wanted), oldest_first=status == "pending")
        page = {"limit": sys.maxsize if limit is None else limit, "offset": offset}
        with self._db.read() as conn:
            return [ApprovalRecord(**row) for row in query.all(conn, **wanted, **page)]

    def not_entered(self, session: str, turn: int) -> ApprovalList:
        """The write approvals of a turn whose call never came to the ledger, as they were asked."""
        with self._db.read() as conn:
            rows = _NOT_ENTERED.all(conn, session=session, turn=turn)
        return [ApprovalRecord(**row) for row in rows]

    def for_call(
        self, session: str, message: str, call: str, kind: ApprovalKind = "write"
    ) -> ApprovalRecord | None:
        """The approval of a call (the newest one of a repeated doubt), if it was asked for."""
        with self._db.read() as conn:
            row = _BY_CALL.one(conn, session=session, message=message, call=call, kind=kind)
        return ApprovalRecord(**row) if row else None

    def decide(
        self,
        id: str,
        decision: Decision,
        actor: Actor,
        *,
        digest: str | None = None,
    ) -> ApprovalRecord:
        """Record the answer to one approval.

        Args:
            id: The whole id.
            decision: For a doubt, ``respond`` with ``happened`` or ``not happened``, which also
                settles the ledger.
            digest: For ``edit``, of the edited arguments. Otherwise, when given, what the person
                saw: the answer is refused if the approval has another one.

        Raises:
            NotFound: There is no such approval.
            AlreadyDecided: Somebody was faster.
            InvalidDecision: The answer is malformed or does not fit the kind of approval.
        """
        return self.decide_many([(id, decision, digest)], actor)[0]

    def decide_many(self, answers: Sequence[Answer], actor: Actor) -> ApprovalList:
        """Record several answers, all or none; raises as ``decide``."""
        ids = [approval_id for approval_id, _, _ in answers]
        for approval_id in ids:
            if ids.count(approval_id) > 1:
                raise InvalidDecision(f"{approval_id} is answered more than once; nothing changed.")
        for answer in answers:
            _check_form(*answer)
        try:
            with self._db.write() as writing:
                self._lock_sessions_of(writing, ids)
                return [_decide(writing, answer, actor, self._db.home) for answer in answers]
        except ApprovalExpired:
            self.expire_due()  # the transaction that noticed it was rolled back
            raise

    def supersede(self, session: str, actor: Actor, reason: str) -> ApprovalList:
        """Close what is pending without an answer; a doubt stays, since it is about the world."""
        waiting = (
            select(approvals)
            .where(
                approvals.c.session == session,
                approvals.c.status == "pending",
                approvals.c.kind != "in_doubt",
            )
            .order_by(approvals.c.n)
        )
        with self._db.write() as writing:
            writing.lock(session)
            found = [ApprovalRecord(**row) for row in writing.conn.execute(waiting).mappings()]
            return [close(writing, one, "superseded", actor, comment=reason) for one in found]

    def expire_due(self) -> ApprovalList:
        """Close every approval whose time is over; those that expired by this call."""
        with self._db.read() as conn:
            due = [row["id"] for row in _DUE.all(conn, now=now())]
        expired = []
        for approval_id in due:
            with suppress(AlreadyDecided):
                expired.append(self.expire(approval_id, "nobody decided in time"))
        return expired

    def expire(self, id: str, reason: str) -> ApprovalRecord:
        """Close a question that nobody waits for any more; ``reason`` says why.

        Raises:
            NotFound: There is no such approval.
            AlreadyDecided: Somebody has answered it.
        """
        with self._db.write() as writing:
            self._lock_sessions_of(writing, [id])
            row = _BY_ID.one(writing.conn, id=id)
            if row is None:
                raise NotFound("approval", id)
            return close(writing, ApprovalRecord(**row), "expired", None, comment=reason)

    @staticmethod
    def _lock_sessions_of(writing: Writing, ids: Sequence[str]) -> None:
        found = [_SESSION_OF.one(writing.conn, id=approval_id) for approval_id in ids]
        for session in sorted({row["session"] for row in found if row}):
            writing.lock(session)


def _existing(writing: Writing, approval_id: str) -> dict[str, Any]:
    row = _BY_ID.one(writing.conn, id=approval_id)
    if row is None:
        raise NotFound("approval", approval_id, hint="Decisions take the whole id: sayso approvals")
    return row


def _decide(writing: Writing, answer: Answer, actor: Actor, home: Path | None) -> ApprovalRecord:
    approval_id, decision, digest = answer
    approval = ApprovalRecord(**_existing(writing, approval_id))
    if approval.status != "pending":
        raise already_decided(approval)
    if approval.expires_at is not None and approval.expires_at <= now():
        raise ApprovalExpired(approval.id, approval.session, approval.expires_at)
    _check_fit(approval, decision, digest)
    if approval.kind == "in_doubt":
        _settle(writing, approval, decision, actor, home)
    return close(
        writing,
        approval,
        _STATUS[decision.type],
        actor,
        comment=decision.message or None,
        args=decision.args if decision.type == "edit" else None,
        preview=decision.preview if decision.type == "edit" else None,
        digest={"approve": approval.digest, "edit": digest}.get(decision.type),
    )


def _settle(
    writing: Writing,
    approval: ApprovalRecord,
    decision: Decision,
    actor: Actor,
    home: Path | None,
) -> None:
    effect = effect_of_call(writing, approval.session, approval.message, approval.call)
    if effect is None:
        raise InvalidDecision(
            f"{approval.id} asks about a write that the ledger does not have; nothing changed."
        )
    settle_effect(writing, effect, decision.message == HAPPENED, actor, "", home)


def _check_form(approval_id: str, decision: Decision, digest: str | None) -> None:
    """What can be said about an answer without its approval."""
    if not isinstance(decision, Decision) or decision.type not in get_args(DecisionType):
        raise InvalidDecision(
            f"The answer to {approval_id} is none of approve, edit, reject, respond. "
            "Nothing was changed."
        )
    if decision.type == "edit":
        if not isinstance(decision.args, dict) or not digest:
            raise _invalid(approval_id, "an edit needs the whole new arguments and their digest")
        try:
            canonical_json(decision.args)
        except (TypeError, ValueError) as error:
            raise _invalid(approval_id, f"the edited arguments are not JSON ({error})") from error
        if not isinstance(decision.preview, dict | None):
            raise _invalid(approval_id, "the preview of an edit is a Preview by field")
    elif decision.args is not None:
        raise _invalid(approval_id, f"{decision.type} takes no arguments; use edit")
    if not isinstance(decision.message, str):
        raise _invalid(approval_id, "the message is not a text")
    if decision.type == "respond" and not decision.message:
        raise _invalid(approval_id, "a response needs a message")


def _check_fit(approval: ApprovalRecord, decision: Decision, digest: str | None) -> None:
    """What depends on the approval."""
    allowed = _ALLOWED[approval.kind]
    if decision.type not in allowed:
        raise _invalid(approval.id, f"{approval.kind} takes {' or '.join(allowed)}")
    if approval.kind == "in_doubt" and decision.message not in (HAPPENED, NOT_HAPPENED):
        raise _invalid(approval.id, f"say {HAPPENED!r} or {NOT_HAPPENED!r}")
    if decision.type != "edit" and digest is not None and digest != approval.digest:
        raise _invalid(approval.id, "the answer is about other arguments than those that wait")


def _invalid(approval_id: str, why: str) -> InvalidDecision:
    return InvalidDecision(f"{approval_id} was not decided: {why}. Nothing was changed.")


def _of_call(
    writing: Writing, session: str, message: str, call: str, kind: str
) -> ApprovalRecord | None:
    row = _BY_CALL.one(writing.conn, session=session, message=message, call=call, kind=kind)
    return ApprovalRecord(**row) if row else None


def _is_refuted(question: ApprovalRecord, doubted: EffectRecord | None) -> bool:
    """Whether a person has answered this doubt, and a late result has spoken against it."""
    answered = question.status == "answered"
    return answered and doubted is not None and doubted.state == "in_doubt"


def _renew(
    writing: Writing, known: ApprovalRecord, interrupt: str | None, notes: Sequence[str]
) -> ApprovalRecord:
    change = {"interrupt": interrupt, "notes": [*notes]}
    if known.status != "pending" or known == known.model_copy(update=change):
        return known
    _UPDATE.run(writing.conn, change | {"key": known.id})
    return known.model_copy(update=change)


def _record_question(writing: Writing, approval: ApprovalRecord) -> None:
    writing.record(
        approval.session,
        "approval.asked",
        {
            "approval": approval.id,
            "kind": approval.kind,
            "message": approval.message,
            "call": approval.call,
            "attempt": approval.attempt,
            "tool": approval.tool,
            "tool_version": approval.tool_version,
            "args": approval.args,
            "digest": approval.digest,
            "effects": approval.effects,
            "rule": approval.rule,
            "reason": approval.reason,
            "undoes": approval.undoes,
            "expires_at": approval.expires_at,
        },
    )
