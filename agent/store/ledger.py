"""The ledger: every write, from before it is entered until its outcome is known.

::

    begin ──► intended ──finish──► committed │ failed          (final)
                 │  └────finish──► in_doubt ──finish──► committed │ failed
                 └──begin again──►    │ │
                                      │ └─resend──► intended (attempt + 1, the same key)
                                      └──find───► committed │ failed ──begin──► intended
                                         settle                         (attempt + 1)

``intended`` is on disk before the write starts. Found again, it means that the process died
somewhere between, so it becomes ``in_doubt``: never repeated blindly, but looked up in the
service's own record (``find``), sent again under its key where the service honours keys, or put
to a person (``settle``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import bindparam, insert, or_, select, update

from agent.errors import (
    AlreadyUndone,
    LeaseLost,
    NotFound,
    NothingToUndo,
    RuleEnded,
)
from agent.store.database import Database, with_fresh_id
from agent.store.deciding import close, open_doubt
from agent.store.ids import now
from agent.store.lookup import Lookup
from agent.store.outcomes import (
    NOT_HAPPENED,
    as_found,
    change,
    ended,
    lasting,
    record,
    record_outcome,
    settle_effect,
    without_question,
)
from agent.store.records import EffectRecord, RuleRecord
from agent.store.rules import not_over
from agent.store.schema import effects, rules
from agent.store.statement import Statement
from agent.store.writing import Writing
from agent.types import Actor, EffectState

if TYPE_CHECKING:
    from tools.contract import Finding

EffectList = list[EffectRecord]
Outcome = Literal["run", "recorded", "in_doubt", "refused"]

_BY_ID = Statement(select(effects).where(effects.c.id == bindparam("id")))
_BY_CALL = Statement(
    select(effects).where(
        effects.c.session == bindparam("session"),
        effects.c.message == bindparam("message"),
        effects.c.call == bindparam("call"),
    )
)
_LOOKUP = Lookup(select(effects), effects.c.id, "effect")
_OF_TURN = Statement(
    select(effects)
    .where(effects.c.session == bindparam("session"), effects.c.turn == bindparam("turn"))
    .order_by(effects.c.n)
)
_AFTER_TURN = Statement(
    select(effects)
    .where(effects.c.session == bindparam("session"), effects.c.turn > bindparam("turn"))
    .order_by(effects.c.n)
)
_OPEN_DOUBTS = Statement(
    select(effects)
    .where(effects.c.session == bindparam("session"), effects.c.state == "in_doubt")
    .order_by(effects.c.n)
)
_OPEN_WRITES = Statement(
    select(effects)
    .where(
        effects.c.session == bindparam("session"),
        or_(effects.c.state == "in_doubt", effects.c.state == "intended"),
    )
    .order_by(effects.c.n)
)
_COMMITTED = Statement(
    select(effects)
    .where(
        effects.c.session == bindparam("session"),
        effects.c.tool == bindparam("tool"),
        effects.c.state == "committed",
    )
    .order_by(effects.c.n.desc())
)
_UNDOING = Statement(select(effects).where(effects.c.undoes == bindparam("undoes")))
_RULE_IN_FORCE = Statement(
    select(rules).where(
        rules.c.session == bindparam("session"),
        rules.c.id == bindparam("rule"),
        not_over(),
    )
)
_INSERT = Statement(insert(effects).inline())
_FINISH = Statement(
    update(effects).where(
        effects.c.id == bindparam("key"),
        effects.c.attempts == bindparam("attempt"),
        effects.c.state == "intended",
    )
)


@dataclass(frozen=True)
class Begun:
    """What ``begin`` found: whether to run the write, and its row.

    ``run``: enter it now, as attempt ``effect.attempts``. ``recorded``: its outcome is in
    ``effect``. ``in_doubt``: it may have happened. ``refused``: other arguments than the row's.

    ``resent``: an earlier attempt, under the same key, may have happened.
    """

    outcome: Outcome
    effect: EffectRecord
    resent: bool = False


class Ledger:
    """Begin, finish and settle writes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def begin(
        self,
        *,
        session: str,
        epoch: int,
        turn: int,
        message: str,
        call: str,
        tool: str,
        tool_version: str,
        args: dict[str, Any],
        digest: str,
        approval: str | None,
        rule: str | None,
        idempotency_key: str,
        undoes: str | None = None,
        before: str | None = None,
        resend: bool = False,
        lease_margin: float = 0,
        covered: Callable[[RuleRecord], bool] | None = lambda rule: True,
    ) -> Begun:
        """Ask to enter a write. Lease, rule, row and trail are one transaction.

        Args:
            epoch: Of the lease that the caller holds.
            digest: Of the normalised ``args`` (``agent.canonical.call_digest``).
            approval: Id of the approval that allows it; whoever names one has looked at it.
            rule: Or what allowed it unasked: the id of a rule of the session, or the name of one
                of a policy file (``project/small-refunds``). One of both is needed.
            undoes: Id of the effect that this call compensates.
            before: The record as the contract's preview showed it right before this; a resend
                keeps what was there before the first attempt.
            resend: Enter a write in doubt again, since its service honours the key: the same
                request under the same key happens once.
            lease_margin: Seconds that the lease must still last: the tool's timeout.
            covered: Whether this rule of the session allows this call; asked before it is to run.
                ``None``: it is one of a policy file, and whoever names it has looked at it.

        Raises:
            LeaseLost: The lease has another epoch, or too little time left; renew it first.
            RuleEnded: There is no such rule, it was revoked, or it does not cover the call;
                nothing was begun.
            AlreadyUndone: What it would compensate has been, or is being; nothing was begun.
            NothingToUndo: That is not known any more to have happened; nothing was begun.
            NotFound: There is no such session.
        """

        def begin_as(fresh_id: str) -> Begun:
            with self._db.write() as writing:
                guard = writing.lock(session, deleted=True, epoch=epoch)
                if guard.lease_expires_at - guard.clock <= lease_margin:
                    raise LeaseLost(session)
                known = effect_of_call(writing, session, message, call)
                if known is not None and not _may_run_again(known, digest, resend):
                    return _begun_before(writing, known, digest)
                if approval is None and not (covered is None and is_of_a_file(rule)):
                    _check_rule(writing, session, rule or "", covered or (lambda rule: True))
                if undoes is not None:
                    _check_not_undone(writing, undoes, known)
                if known is not None:
                    fresh = {"approval": approval, "rule": rule, "tool_version": tool_version}
                    return _begin_again(writing, known, fresh, before)
                effect = EffectRecord(
                    id=fresh_id,
                    session=session,
                    turn=turn,
                    message=message,
                    call=call,
                    tool=tool,
                    tool_version=tool_version,
                    args=args,
                    digest=digest,
                    state="intended",
                    approval=approval,
                    rule=rule,
                    idempotency_key=idempotency_key,
                    undoes=undoes,
                    before=before,
                    started_at=now(),
                )
                _INSERT.run(writing.conn, dict(effect))
                _record_intent(writing, effect)
                return Begun("run", effect)

        return with_fresh_id("e", begin_as)

    def finish(
        self,
        id: str,
        *,
        attempt: int,
        state: Literal["committed", "failed", "in_doubt"],
        result: dict[str, Any] | None,
        transport: str | None = None,
        transaction: str | None = None,
        evidence: dict[str, Any] | None = None,
        once: bool = False,
    ) -> EffectRecord:
        """Record how an attempt ended; a result that comes late still resolves a doubt.

        It needs no lease: a result is evidence, whoever brings it. What is final is left as it is;
        the trail then keeps the late result, and the row as it stands is returned. But that it
        happened counts against whoever had said that it did not, of an earlier attempt too, and
        that it failed puts in doubt again what a person had said to have happened; see
        ``agent.store.outcomes``.

        Args:
            once: Whether all attempts are one for the service, since it honours keys.

        Raises:
            NotFound: There is no such effect.
        """
        outcome = {
            "state": state,
            "result": result,
            "transport": transport,
            "transaction": transaction,
            "evidence": evidence,
            "ended_at": None if state == "in_doubt" else now(),
        }
        with self._db.write() as writing:
            effect = writing.lock_effect(id)
            if attempt > 1 or not _FINISH.run(writing.conn, outcome | {"key": id, "attempt": 1}):
                return ended(writing, _read(writing, id), attempt, outcome, once=once)
            record_outcome(writing, f"effect.{state}", effect, outcome | {"attempt": attempt})
            effect = effect.model_copy(update=outcome | {"attempts": attempt})
            return without_question(writing, effect)

    def leave(self, id: str, *, epoch: int) -> EffectRecord:
        """Record that nobody is at a write any more: begun and not ended, it is in doubt.

        Raises:
            LeaseLost: The lease has another epoch; whoever holds it may be at it.
        """
        with self._db.write() as writing:
            effect = _locked(writing, id)
            writing.lock(effect.session, epoch=epoch)
            return _in_doubt(writing, effect) if effect.state == "intended" else effect

    def find(
        self, id: str, *, attempt: int, finding: Finding, result: dict[str, Any]
    ) -> EffectRecord:
        """Record what the service's own record says of a write in doubt.

        It needs no lease, as it is evidence. What is known already, or is a later attempt's, is
        left as it is. A finding that settles nothing is kept for whoever is asked.

        Args:
            result: What the model gets as the call's result, when it happened: ``text``,
                ``status``, and ``skip``, the length of what the harness put before it.

        Returns:
            The effect as it stands then.
        """
        found = {"summary": finding.summary, "record": dict(finding.record), "at": now()}
        with self._db.write() as writing:
            effect = _locked(writing, id)
            if (effect.state, effect.attempts) != ("in_doubt", attempt):
                return effect
            known = change(writing, effect, as_found(effect, finding, found, result))
            record(writing, effect, "effect.found", {"happened": finding.happened, **found})
            return without_question(writing, known)

    def settle(
        self,
        id: str,
        happened: bool,
        actor: Actor,
        comment: str = "",
    ) -> EffectRecord:
        """Record what a person says about a write in doubt, and answer its open approval.

        Raises:
            AlreadyDecided: Its outcome is known.
            InvalidDecision: It is only ``intended``: its session was not carried on yet.
            NotFound: There is no such effect (a whole id is needed).
        """
        with self._db.write() as writing:
            effect = _locked(writing, id)
            effect = settle_effect(writing, effect, happened, actor, comment, self._db.home)
            doubt = open_doubt(writing, effect)
            if doubt is not None:
                close(writing, doubt, "answered", actor, comment=effect.settled)
        return effect

    def get(self, id_or_prefix: str) -> EffectRecord:
        """One effect.

        Raises:
            NotFound: None begins like that.
            UsageError: Several do; they are listed.
        """
        with self._db.read() as conn:
            row = _LOOKUP.find(
                conn,
                id_or_prefix,
                whole=False,
                missing=lambda: NotFound("effect", id_or_prefix, hint="List them: sayso effects"),
            )
        return EffectRecord(**row)

    def list(
        self,
        session: str | None = None,
        state: EffectState | None = None,
        limit: int | None = 50,
        offset: int = 0,
    ) -> EffectList:
        """Effects, the one begun last first; ``limit=None``: all of them."""
        query = select(effects).order_by(effects.c.n.desc()).limit(limit).offset(offset)
        if session is not None:
            query = query.where(effects.c.session == session)
        if state is not None:
            query = query.where(effects.c.state == state)
        with self._db.read() as conn:
            return [EffectRecord(**row) for row in conn.execute(query).mappings()]

    def for_call(self, session: str, message: str, call: str) -> EffectRecord | None:
        """The effect of a call, if it was begun."""
        with self._db.read() as conn:
            row = _BY_CALL.one(conn, session=session, message=message, call=call)
        return EffectRecord(**row) if row else None

    def for_turn(self, session: str, turn: int) -> EffectList:
        """The effects of a turn, in the order in which they began."""
        return self._all(_OF_TURN, session=session, turn=turn)

    def after_turn(self, session: str, turn: int) -> EffectList:
        """The effects of all later turns, in the order in which they began."""
        return self._all(_AFTER_TURN, session=session, turn=turn)

    def undone_by(self, id: str) -> EffectRecord | None:
        """The effect that compensates this one, or may; ``None`` when none does."""
        undoing = [effect for effect in self._all(_UNDOING, undoes=id) if effect.state != "failed"]
        return undoing[0] if undoing else None

    def committed(self, session: str, tool: str) -> EffectList:
        """The writes of a tool that happened, the one begun last first."""
        return self._all(_COMMITTED, session=session, tool=tool)

    def open_doubts(self, session: str) -> EffectList:
        """The writes of a session that may have happened, in the order in which they began."""
        return self._all(_OPEN_DOUBTS, session=session)

    def open_writes(self, session: str) -> EffectList:
        """Those, and what was begun and not ended, here or by a process that may be dead."""
        return self._all(_OPEN_WRITES, session=session)

    def _all(self, query: Statement, **values: Any) -> EffectList:
        with self._db.read() as conn:
            return [EffectRecord(**row) for row in query.all(conn, **values)]


def effect_of_call(writing: Writing, session: str, message: str, call: str) -> EffectRecord | None:
    """The effect of a call of a locked session."""
    row = _BY_CALL.one(writing.conn, session=session, message=message, call=call)
    return EffectRecord(**row) if row else None


def _may_run_again(effect: EffectRecord, digest: str, resend: bool) -> bool:
    """Whether this write was begun before and is known not to have happened, or is safe to send
    again."""
    if digest != effect.digest:
        return False
    return effect.settled == NOT_HAPPENED or (resend and effect.state == "in_doubt")


def _check_not_undone(writing: Writing, undoes: str, known: EffectRecord | None) -> None:
    """Raise when there is nothing to compensate: it is not known any more to have happened, or
    another effect has compensated it, or may have."""
    if (undone := _read(writing, undoes)).state != "committed":
        raise NothingToUndo(undoes, undone.state)
    for row in _UNDOING.all(writing.conn, undoes=undoes):
        other = EffectRecord(**row)
        if (known is None or other.id != known.id) and other.state != "failed":
            raise AlreadyUndone(undoes, other.id, other.state)


def _begun_before(writing: Writing, effect: EffectRecord, digest: str) -> Begun:
    """A write that must not be entered: what is known about it, ``intended`` becoming a doubt."""
    if digest != effect.digest:
        record(writing, effect, "effect.refused", {"other_digest": digest})
        return Begun("refused", effect)
    if effect.state == "intended":
        return Begun("in_doubt", _in_doubt(writing, effect))
    return Begun("in_doubt" if effect.state == "in_doubt" else "recorded", effect)


def _in_doubt(writing: Writing, effect: EffectRecord) -> EffectRecord:
    why = "begun before, and no outcome was recorded"
    record(writing, effect, "effect.in_doubt", {"why": why})
    return change(writing, effect, {"state": "in_doubt"})


def _begin_again(
    writing: Writing,
    effect: EffectRecord,
    fresh: dict[str, str | None],
    before: str | None,
) -> Begun:
    """The next attempt of a write that did not happen, or that its service would recognise."""
    resent = effect.state == "in_doubt"
    values = fresh | {
        "state": "intended",
        "attempts": effect.attempts + 1,
        "before": effect.before if resent else before,
        "settled": None,
        "result": None,
        "transport": None,
        "transaction": None,
        "evidence": {"before": effect.evidence, **lasting(effect)},
        "started_at": now() if effect.settled == NOT_HAPPENED else effect.started_at,
        "ended_at": None,
    }
    effect = change(writing, effect, values)
    _record_intent(writing, effect)
    return Begun("run", effect, resent)


def is_of_a_file(rule: str | None) -> bool:
    """Whether a rule's name is that of a policy file's rule; ids have no slash."""
    return rule is not None and "/" in rule


def _check_rule(
    writing: Writing, session: str, rule: str, covered: Callable[[RuleRecord], bool]
) -> None:
    found = _RULE_IN_FORCE.one(writing.conn, session=session, rule=rule, now=now())
    if found is None or not covered(RuleRecord(**found)):
        raise RuleEnded(rule)


def _locked(writing: Writing, effect_id: str) -> EffectRecord:
    writing.lock_effect(effect_id)
    return _read(writing, effect_id)


def _read(writing: Writing, effect_id: str) -> EffectRecord:
    row = _BY_ID.one(writing.conn, id=effect_id)
    if row is None:
        raise NotFound("effect", effect_id, hint="Its session was deleted.")
    return EffectRecord(**row)


def _record_intent(writing: Writing, effect: EffectRecord) -> None:
    more = {
        "tool_version": effect.tool_version,
        "args": effect.args,
        "approval": effect.approval,
        "rule": effect.rule,
        "idempotency_key": effect.idempotency_key,
        "undoes": effect.undoes,
    }
    record(writing, effect, "effect.intended", more)
