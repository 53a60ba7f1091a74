"""What becomes of a write's row as evidence comes in: answers, late ones too, records, a person.

A row has the state of its latest attempt. Evidence about an earlier attempt counts all the same:
that one happened is known then, whatever the latest came to. A service that honours keys does the
write once for all attempts (``once``); elsewhere each attempt that happened is one, and two of them
are said to be two. In the row's ``evidence``:

``earlier``   attempts before the latest that are known to have happened
``twice``     the attempts that happened, where there is more than one
``against``   what somebody had said, or an attempt had come to, that turned out otherwise
``running``   the owner of the process in which the body of the latest attempt runs on
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, update

from agent.canonical import canonical_json
from agent.errors import AlreadyDecided, InvalidDecision
from agent.store.deciding import close_doubt, open_doubt
from agent.store.ids import now
from agent.store.leases import in_force
from agent.store.records import EffectRecord
from agent.store.schema import effects
from agent.store.statement import Statement
from agent.store.writing import Writing, actor_data
from agent.types import Actor

if TYPE_CHECKING:
    from tools.contract import Finding

HAPPENED, NOT_HAPPENED = "happened", "not happened"
RECORD = "its own record"
"""Who is named as having settled a doubt when it was the service's record."""

Outcome = dict[str, Any]
"""How an attempt ended, by column: state, result, transport, transaction, evidence, ended_at."""

_UPDATE = Statement(update(effects).where(effects.c.id == bindparam("key")))
_LASTING = ("earlier",)


def change(writing: Writing, effect: EffectRecord, values: dict[str, Any]) -> EffectRecord:
    """The effect with other values in these columns."""
    _UPDATE.run(writing.conn, values | {"key": effect.id})
    return effect.model_copy(update=values)


def lasting(effect: EffectRecord) -> dict[str, Any]:
    """What a row's evidence keeps whatever comes after."""
    return {key: value for key, value in (effect.evidence or {}).items() if key in _LASTING}


# --- an attempt has ended ------------------------------------------------------------------------


def ended(
    writing: Writing, effect: EffectRecord, attempt: int, outcome: Outcome, *, once: bool
) -> EffectRecord:
    """Record how an attempt of a write of a locked session ended.

    Args:
        once: Whether all attempts are one for the service, since it honours keys.
    """
    if attempt == effect.attempts and effect.state in ("intended", "in_doubt"):
        return _latest_ended(writing, effect, outcome, once)
    return _came_late(writing, effect, attempt, outcome, once)


def _latest_ended(
    writing: Writing, effect: EffectRecord, outcome: Outcome, once: bool
) -> EffectRecord:
    kept = lasting(effect)
    if effect.state == outcome["state"]:  # in doubt still: what was found out meanwhile holds
        kept = {key: value for key, value in (effect.evidence or {}).items() if key != "running"}
    evidence = {**kept, **(outcome["evidence"] or {})} or None
    told = outcome | {"attempt": effect.attempts}
    after = _weighed(effect, outcome | {"evidence": evidence}, once)
    effect = change(writing, effect, after)
    record_outcome(writing, f"effect.{outcome['state']}", effect, told)
    if after["state"] != outcome["state"]:
        record(writing, effect, "effect.contradicted", after["evidence"]["against"])
    return without_question(writing, effect)


def _weighed(effect: EffectRecord, outcome: Outcome, once: bool) -> Outcome:
    """How the latest attempt ended, beside the earlier ones that are known to have happened."""
    earlier = _earlier(effect)
    if not earlier:
        return outcome
    match outcome["state"]:
        case "committed":
            once = once and _are_same(outcome["transaction"], earlier[-1]["transaction"])
            return outcome if once else _twice(outcome, [*earlier, {"attempt": effect.attempts}])
        case "in_doubt" if not once:
            return outcome
    return _as_earlier(effect, outcome, earlier[-1])


def _as_earlier(effect: EffectRecord, outcome: Outcome, happened: dict[str, Any]) -> Outcome:
    """It happened in an earlier attempt, whatever this one says."""
    against = {"settled": None, "by": None, "at": now(), "attempt": effect.attempts}
    evidence = {**(outcome["evidence"] or {}), "against": against | {"state": outcome["state"]}}
    return outcome | {
        "state": "committed",
        "result": happened["result"],
        "transaction": happened["transaction"],
        "evidence": evidence,
        "ended_at": now(),
    }


def _twice(outcome: Outcome, happened: list[dict[str, Any]]) -> Outcome:
    attempts = sorted({item["attempt"] for item in happened})
    more = {"twice": attempts} if len(attempts) > 1 else {}
    return outcome | {"evidence": {**(outcome["evidence"] or {}), **more}}


def _came_late(
    writing: Writing, effect: EffectRecord, attempt: int, outcome: Outcome, once: bool
) -> EffectRecord:
    """A result after the word on its write, or of an attempt before the latest."""
    said = (attempt, outcome["state"], outcome["result"])
    if said == (effect.attempts, effect.state, effect.result):
        return effect
    record_outcome(writing, "effect.late", effect, outcome | {"attempt": attempt})
    if outcome["state"] == "committed" and attempt < effect.attempts:
        return _earlier_happened(writing, effect, attempt, outcome, once)
    if outcome["state"] == "committed" and effect.settled == NOT_HAPPENED:
        return _contradicted(writing, effect, outcome)
    if outcome["state"] == "failed" and attempt == effect.attempts and _is_said(effect, HAPPENED):
        return _contradicted(writing, effect, outcome | {"state": "in_doubt", "ended_at": None})
    return effect


def _earlier_happened(
    writing: Writing, effect: EffectRecord, attempt: int, outcome: Outcome, once: bool
) -> EffectRecord:
    """An attempt before the latest has turned out to have happened."""
    if attempt in {item["attempt"] for item in _earlier(effect)}:
        return effect
    happened = {
        "attempt": attempt,
        "result": outcome["result"],
        "transaction": outcome["transaction"],
        "at": now(),
        "once": once,
    }
    known = [*_earlier(effect), happened]
    evidence = {**(effect.evidence or {}), "earlier": known}
    effect = effect.model_copy(update={"evidence": evidence})
    if effect.state == "failed":
        return _contradicted(writing, effect, outcome)
    row = {"evidence": evidence, "state": effect.state, "ended_at": effect.ended_at}
    same = once and _are_same(effect.transaction, outcome["transaction"])
    if effect.state == "committed" and not same:
        latest = [] if _came_to_nothing(effect) else [{"attempt": effect.attempts}]
        row = _twice(row, [*known, *latest]) | {"ended_at": now()}
    elif effect.state == "in_doubt" and once:
        row = _as_earlier(effect, row, happened)
    return without_question(writing, change(writing, effect, row))


def _are_same(one: str | None, other: str | None) -> bool:
    """Whether two attempts may have been one for the service: they do not name two transactions."""
    return None in (one, other) or one == other


def _came_to_nothing(effect: EffectRecord) -> bool:
    """Whether the latest attempt of a write did not happen, although an earlier one did."""
    against = (effect.evidence or {}).get("against") or {}
    return against.get("attempt") == effect.attempts


def _contradicted(writing: Writing, effect: EffectRecord, outcome: Outcome) -> EffectRecord:
    """It happened, and somebody had said that it did not; or the other way round.

    That an earlier attempt happened counts against whatever failed after it: it was begun only
    because the earlier one was said not to have happened.
    """
    before = effect.evidence or {}
    against = {"settled": effect.settled, "by": before.get("by"), "at": effect.ended_at}
    if effect.settled is None:
        against |= {"attempt": effect.attempts, "state": effect.state}
    evidence = {**(outcome["evidence"] or {}), "against": against, "before": effect.evidence}
    after = outcome | {"settled": None, "evidence": evidence | lasting(effect)}
    effect = change(writing, effect, after)
    record(writing, effect, "effect.contradicted", against)
    return effect


def without_question(writing: Writing, effect: EffectRecord) -> EffectRecord:
    """The effect; its open question is closed where its outcome is known."""
    if effect.state in ("committed", "failed"):
        doubt = open_doubt(writing, effect)
        if doubt is not None:
            close_doubt(writing, doubt, effect.state)
    return effect


def _earlier(effect: EffectRecord) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (effect.evidence or {}).get("earlier", [])
    return found


def _is_said(effect: EffectRecord, settled: str) -> bool:
    """Whether a person has said this of a write."""
    return effect.settled == settled and (effect.evidence or {}).get("settled") == settled


# --- a record, or a person, says -----------------------------------------------------------------


def as_found(
    effect: EffectRecord, finding: Finding, found: dict[str, Any], result: dict[str, Any]
) -> dict[str, Any]:
    """The columns that a finding of the service's record changes.

    That a write is not there, of which an attempt is known to have happened, settles nothing.
    """
    evidence = {**(effect.evidence or {}), "found": found}
    if finding.happened is None or (finding.happened is False and _earlier(effect)):
        return {"state": "in_doubt", "evidence": evidence}
    by = {"name": RECORD}
    said = {"found": found, "by": by, "before": effect.evidence, **lasting(effect)}
    values: dict[str, Any] = {
        "state": "committed" if finding.happened else "failed",
        "settled": HAPPENED if finding.happened else NOT_HAPPENED,
        "evidence": said,
        "ended_at": found["at"],
    }
    if finding.happened:
        values |= {"result": result, "transaction": finding.transaction or effect.transaction}
    return values


def settle_effect(
    writing: Writing,
    effect: EffectRecord,
    happened: bool,
    actor: Actor,
    comment: str,
    home: Path | None,
) -> EffectRecord:
    """``Ledger.settle`` for an effect of a locked session, without its approval.

    Args:
        home: The state folder, by which it is known whether a process of this machine lives.
    """
    if effect.state == "intended":
        raise InvalidDecision(
            f"{effect.id} is not in doubt yet: its process may still be at it. Nothing was "
            f"changed. Carry the session on first: sayso resume {effect.session}"
        )
    if effect.state != "in_doubt":
        by = (effect.evidence or {}).get("by", {}).get("name", "") if effect.settled else ""
        raise AlreadyDecided(effect.id, effect.state, by, effect.ended_at or "")
    if not happened:
        _check_not_running(writing, effect, home)
    settled, at = HAPPENED if happened else NOT_HAPPENED, now()
    said = {"settled": settled, "by": actor_data(actor), "at": at, "comment": comment}
    earlier = _earlier(effect)
    values: dict[str, Any] = {
        "state": "committed" if happened else "failed",
        "settled": settled,
        "evidence": {**said, "before": effect.evidence, **lasting(effect)},
        "ended_at": at,
    }
    if happened and earlier and earlier[-1].get("once"):
        values = _as_earlier(effect, values, earlier[-1]) | {"settled": settled}
    elif happened and earlier:
        values = _twice(values, [*earlier, {"attempt": effect.attempts}])
    elif earlier:  # this attempt did not, and an earlier one did
        values = _as_earlier(effect, values, earlier[-1]) | {"settled": None}
    effect = change(writing, effect, values)
    entry = {"settled": settled, "comment": comment, "by": actor_data(actor)}
    record(writing, effect, "effect.settled", entry)
    return effect


def _check_not_running(writing: Writing, effect: EffectRecord, home: Path | None) -> None:
    """Raise while the body of a write runs in a process that lives and holds its session."""
    owner = (effect.evidence or {}).get("running")
    if owner is None:
        return
    guard = writing.lock(effect.session, deleted=True)
    if guard.lease_owner == owner and in_force(guard, home):
        raise InvalidDecision(
            f"{effect.id} is still under way in the process that holds its session ({owner}), so "
            "nobody can say yet that it did not happen. Nothing was recorded. Wait for its end, "
            "which answers this by itself, or end that process."
        )


# --- the trail ---------------------------------------------------------------------------------


def record(writing: Writing, effect: EffectRecord, kind: str, data: dict[str, Any]) -> None:
    """Add an entry about a write to the trail; what its arguments keep secret is masked in it."""
    named = {
        "effect": effect.id,
        "message": effect.message,
        "call": effect.call,
        "tool": effect.tool,
        "digest": effect.digest,
        "attempt": effect.attempts,
    }
    writing.record(effect.session, kind, named | data, about=[effect.args])


def record_outcome(
    writing: Writing, kind: str, effect: EffectRecord, outcome: dict[str, Any]
) -> None:
    """Add how an attempt ended; the result itself is in the ledger, its hash here is enough to see
    that it was not changed."""
    result = outcome["result"]
    data = {
        "attempt": outcome["attempt"],
        "state": outcome["state"],
        "result_sha256": sha256(canonical_json(result).encode()).hexdigest() if result else None,
        "transport": outcome["transport"],
        "transaction": outcome["transaction"],
        "evidence": outcome["evidence"],
    }
    record(writing, effect, kind, data)
