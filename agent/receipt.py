"""What the store says happened to the writes of a turn, in words.

A model's closing words are not evidence. The receipt is built from the ledger, the approvals
and the trail alone; it is shown to the operator and enters the next model request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import prompts
from agent.canonical import canonical_json
from agent.safe_text import spelled
from agent.store.named_secrets import MASK, without_secrets
from agent.store.records import ApprovalRecord, EffectRecord
from agent.types import Receipt

if TYPE_CHECKING:
    from agent.store import Store

Lines = tuple[str, ...]
_MASKED = canonical_json(MASK)

STARTED = "turn.started"
"""The trail's entry that a turn begins with."""

_NOT_DONE = {
    "rejected": "rejected",
    "answered": "not run, answered instead",
    "expired": "nobody decided in time",
    "superseded": "not run, the session moved on",
}


def build_receipt(store: Store, session: str, turn: int) -> Receipt:
    """The receipt of one turn; empty when the turn proposed no writes."""
    done, not_done_of_effects, unknown = effect_lines(store.ledger.for_turn(session, turn))
    not_done, waiting = [*not_done_of_effects], []
    approvals = store.approvals.not_entered(session, turn)
    cancelled = bool(approvals) and store.sessions.get(session).state == "cancelled"
    for approval in approvals:
        line = describe_call(approval.tool, approval.decided_args or approval.args)
        if approval.status == "pending":
            waiting.append(f"{line} [{approval.id}]")
        elif cancelled and approval.status == "superseded":
            not_done.append(f"{line}: not run, the session was cancelled")
        elif approval.was_void:
            why = _why_void(store, approval)
            not_done.append(f"{line}: not run, what was approved does not hold any more{why}")
        elif approval.status in _NOT_DONE:
            said = _without(approval, _who(approval))
            not_done.append(f"{line}: {_NOT_DONE[approval.status]}{said}")
        elif cancelled:
            not_done.append(f"{line}: {approval.status}, not run, the session was cancelled")
        else:
            waiting.append(f"{line} [{approval.id}]: {approval.status}, not run yet")
    denied = _denied(store, session, turn)
    rejected = any(approval.status == "rejected" for approval in approvals)
    return Receipt(
        done,
        _on_one_line_each([*not_done, *denied]),
        unknown,
        _on_one_line_each(waiting),
        refused=rejected or bool(denied),
    )


def known_since(store: Store, session: str, turn: int) -> Receipt:
    """What has become known of the writes of earlier turns since this one began."""
    began = _began(store, session, turn)
    return Receipt(*effect_lines(_changed(store, session, turn - 1, began)))


def news(store: Store, session: str, turn: int, told: int | None) -> Receipt:
    """``known_since`` this turn began, and what of its own writes since its receipt was told.

    Args:
        told: The ``seq`` of the trail's entry with which that was.
    """
    changed = [
        *_changed(store, session, turn - 1, _began(store, session, turn)),
        *_changed(store, session, turn, told),
    ]
    return Receipt(*effect_lines({effect.id: effect for effect in changed}.values()))


def _changed(store: Store, session: str, turn: int, since: int | None) -> list[EffectRecord]:
    """The writes of a turn and those before it whose outcome was recorded after an entry of the
    trail, and those in doubt against what somebody had said.

    By the trail's own order: the clocks of two processes may differ.
    """
    if turn < 1 or since is None:
        return []
    entries = store.trail.entries(session, after=since)
    ids = dict.fromkeys(e.data.get("effect") for e in entries if e.kind in _OUTCOMES)
    found = [store.ledger.get(one) for one in ids if one is not None]
    found += [e for e in store.ledger.open_doubts(session) if "against" in (e.evidence or {})]
    return [effect for effect in found if effect.turn <= turn and effect.state != "intended"]


_OUTCOMES = frozenset(
    f"effect.{what}" for what in ("committed", "failed", "late", "found", "settled", "contradicted")
)
"""Entries of the trail with which something has become known of a write."""


def _began(store: Store, session: str, turn: int) -> int | None:
    started = store.trail.latest(2, session, STARTED)  # the one after it may have begun
    return next((entry.seq for entry in started if entry.data.get("turn") == turn), None)


def effect_lines(effects: Iterable[EffectRecord]) -> tuple[Lines, Lines, Lines]:
    """A line for each write: those that happened, those that did not, and those in doubt."""
    done, not_done, unknown = [], [], []
    for effect in effects:
        line = f"{describe_call(effect.tool, effect.args)} [{effect.id}]"
        if effect.state == "committed":
            done.append(line + _without(effect, _by(effect)))
        elif effect.state == "failed":
            why = f"failed, nothing changed{_error(effect)}" if not effect.settled else "not done"
            not_done.append(f"{line}: {_without(effect, why + _according_to(effect))}")
        else:
            why = f"outcome unknown{_error(effect)}{_although(effect)}"
            unknown.append(f"{line}: {_without(effect, why)}")
    return _on_one_line_each(done), _on_one_line_each(not_done), _on_one_line_each(unknown)


def _without(about: EffectRecord | ApprovalRecord, text: str) -> str:
    """What is said of a call, without the secrets among its arguments."""
    edited = about.decided_args if isinstance(about, ApprovalRecord) else None
    shown: str = without_secrets(text, about.args, edited)
    return shown


def _on_one_line_each(texts: Iterable[str]) -> Lines:
    """A line of a receipt is the harness's word: whatever a person or a server is called, or has
    said, begins no other."""
    return tuple(" ".join(text.splitlines()) for text in texts)


def receipt_text(receipt: Receipt) -> str:
    """The receipt as plain lines, one heading a kind; empty text for an empty receipt."""
    kinds = (
        ("Done", receipt.done),
        ("Not done", receipt.not_done),
        ("Unknown", receipt.unknown),
        ("Waiting for a decision", receipt.waiting),
    )
    return "\n".join(f"{name}: {line}" for name, lines in kinds for line in lines)


def describe_call(tool: str, args: dict[str, Any], limit: int = 160) -> str:
    """A call on one line, such as ``cancel_order(order_id="A1", expected_revision=3)``.

    The values of secret-looking arguments are left out: it goes into the trail, and is read
    wherever calls are listed.
    """
    shown = without_secrets(args)
    inner = ", ".join(f"{spelled(key)}={_short(value)}" for key, value in shown.items())
    return f"{tool}({inner if len(inner) <= limit else inner[: limit - 1] + '…'})"


def describe(approval: ApprovalRecord) -> str:
    """What an approval is about, on one line: its call, or a server's question."""
    if approval.kind == "elicitation":
        asked = " ".join(str(approval.args.get("message", "")).split())
        return f"question of {approval.tool} “{_cut(asked, 80)}”"
    return describe_call(approval.tool, approval.args)


def _short(value: Any, limit: int = 60) -> str:
    return _cut(canonical_json(value).replace(_MASKED, MASK), limit)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _by(effect: EffectRecord) -> str:
    transaction = f", transaction {effect.transaction}" if effect.transaction else ""
    return transaction + _according_to(effect) + _although(effect)


def _although(effect: EffectRecord) -> str:
    """What had been said of the write, or an attempt had come to, that turned out otherwise; and
    that more than one attempt of it happened."""
    evidence = effect.evidence or {}
    if attempts := evidence.get("twice"):
        return f", and it happened more than once (attempts {', '.join(map(str, attempts))})"
    if effect.state == "in_doubt" and evidence.get("earlier"):
        return f" of attempt {effect.attempts}; an earlier one happened"
    if (against := evidence.get("against")) is None:
        return ""
    if against.get("by") is None:
        return f", although attempt {against['attempt']} failed" if _failed(against) else ""
    word = "did not" if effect.state == "committed" else "happened"
    return f", although {_name_of(against['by'])} had said that it {word}"


def _failed(against: dict[str, Any]) -> bool:
    return against.get("state") == "failed"


def _name_of(by: Any) -> str:
    return str(by["name"]) if by else "somebody"


def _according_to(effect: EffectRecord) -> str:
    """Who is said to have looked, where a person settled the outcome."""
    word = (effect.evidence or {}).get("by", {}).get("name") if effect.settled else None
    return f", according to {word}" if word else ""


def _error(effect: EffectRecord) -> str:
    """Why, in one line. What a stranger said about it is left out: a receipt is the harness's
    word, to a person and to the model."""
    error = " ".join(str((effect.result or {}).get("error") or "").split())
    foreign = prompts.message("untrusted_open", tool=effect.tool) in error
    return f" ({_cut(error, 300)})" if error and not foreign else ""


def _who(approval: ApprovalRecord) -> str:
    by = (
        f" by {approval.decided_by}"
        if approval.decided_by and approval.status != "superseded"
        else ""
    )
    return by + (
        f": {approval.comment}" if approval.comment and approval.status == "rejected" else ""
    )


def _why_void(store: Store, approval: ApprovalRecord) -> str:
    entries = store.trail.entries(approval.session, kind="approval.void")
    reasons = {entry.data.get("approval"): f" ({entry.data['reason']})" for entry in entries}
    return reasons.get(approval.id, "")


def _denied(store: Store, session: str, turn: int) -> list[str]:
    from tools.contract import is_read

    return [
        f"{describe_call(entry.data['tool'], entry.data['args'])}: denied, {entry.data['reason']}"
        for entry in store.trail.entries(session, kind="call.denied")
        if entry.data.get("turn") == turn and not is_read(frozenset(entry.data.get("effects", ())))
    ]
