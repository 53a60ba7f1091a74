"""Sentences and tables from tool results. Nothing is claimed that a result does not say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.models.offline import words
from agent.models.offline.catalog import Param, ToolCard
from agent.models.offline.evidence import (
    Observation,
    Record,
    fields,
    find_field,
    record_id,
    records,
)
from agent.models.offline.request import Clause

_IN_WORDS = frozenset({"done", "message", "summary", "info"})
MAX_ROWS, MAX_COLUMNS, MAX_TEXT = 25, 7, 3000

STAND_IN = "I am the offline model: a rule-based stand-in that matches your words to the tools"


def action(card: ToolCard, args: Mapping[str, Any]) -> str:
    """A call in words: "cancel order A1", "refund order C1 (20 EUR)"."""
    target = card.target
    name = f" {args[target.name]}" if target and target.name in args else ""
    by_role = {p.role: str(args[p.name]) for p in card.params if p.name in args}
    money = " ".join(by_role[r] for r in ("amount", "currency") if r in by_role)
    noun = f" {card.noun}" if card.noun else ""
    return f"{card.verb}{noun}{name}" + (f" ({money})" if money else "")


def sentence(text: str) -> str:
    """The text with a full stop where it has none."""
    text = text.strip()
    return text if text.endswith((".", "!", "?", ":", "|", "`")) else f"{text}."


def heading(text: str) -> str:
    """The text with its first letter as a capital, the rest as it is."""
    text = text.strip()
    return text[:1].upper() + text[1:]


def short(text: str, limit: int = 400) -> str:
    """One paragraph of at most ``limit`` characters; a cut is marked."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else f"{flat[:limit].rstrip()} …"


def done(card: ToolCard, observation: Observation) -> str:
    """What a write's result says happened."""
    what = action(card, observation.args)
    edited = " A person changed the arguments before approving." if observation.edited else ""
    if isinstance(observation.data, dict):
        facts = _facts(observation.data, skip=observation.args.values())
        return sentence(f"Done: {what}" + (f" ({facts})" if facts else "")) + edited
    # A text may be anything, a person's words instead of a result too: it speaks for itself.
    return f"{heading(what)}: the result says “{short(observation.text) or 'nothing'}”.{edited}"


def _facts(record: Record, skip: Any = ()) -> str:
    said = {str(v) for v in skip}
    facts = [
        _plain(value) if key in _IN_WORDS else f"{_label(key)}: {_plain(value)}"
        for key, value in fields(record)
        if value not in (None, "", True) and str(value) not in said and len(str(value)) <= 80
    ]
    return ", ".join(facts[:6])


def failed(card: ToolCard, args: Mapping[str, Any], observation: Observation) -> str:
    """What was not done, or could not be read, and why."""
    what = action(card, args)
    reason = sentence(short(observation.reason) or "no reason was given")
    if observation.outcome == "rejected":
        return f"Not done: {what}. It was refused, so nothing changed: {reason}"
    if observation.outcome == "not_run":
        return f"Not done: {what}. The call was not run: {reason}"
    return f"{'Not done' if card.writes else 'Could not'}: {what}. {reason}"


def found(card: ToolCard, clause: Clause, observation: Observation) -> str:
    """What a read returned: a sentence for one record, a table for several, the text itself."""
    data = observation.data
    if data is None or not isinstance(data, dict | list):
        return _text_result(card, observation)
    rows = records(data)
    is_list = isinstance(data, list) or (bool(rows) and rows != [data]) or not rows
    if not is_list:
        return _one(card, clause, rows[0], observation.args)
    if isinstance(data, dict) and not rows:
        plain = [v for v in data.values() if isinstance(v, list) and v]
        if plain:
            return "\n".join(f"- {_plain(item)}" for item in plain[0][:MAX_ROWS]) + _more(data)
    if isinstance(data, list) and data and not rows:
        return "\n".join(f"- {_plain(item)}" for item in data[:MAX_ROWS])
    return _several(card, rows, data)


def _text_result(card: ToolCard, observation: Observation) -> str:
    text = observation.text
    if expression := next(
        (observation.args.get(p.name) for p in card.params if p.role == "expression"), None
    ):
        return sentence(f"{expression} = {text}")
    if len(text) > MAX_TEXT:
        shown = f"[cut: {MAX_TEXT} of {len(text)} characters are shown]"
        text = f"{text[:MAX_TEXT].rstrip()}\n{shown}"
    target = card.target
    name = observation.args.get(target.name) if target else None
    if "\n" in text or name:
        head = heading(f"{card.noun} {name}") if card.noun and name else str(name or "Result")
        return f"{head}:\n```\n{text}\n```"
    return sentence(text) if text else "The result was empty."


def _one(card: ToolCard, clause: Clause, record: Record, args: Mapping[str, Any]) -> str:
    name = record_id(record)
    expression = next((p for p in card.params if p.role == "expression"), None)
    if expression and "result" in record:
        return sentence(f"{args.get(expression.name, 'Result')} = {record['result']}")
    head = heading(f"{card.noun} {name}") if name else "Result"
    asked = frozenset(c for w in clause.words for c in words.concepts_of(w)) - card.things
    chosen = [
        (key, value)
        for key, value in record.items()
        if value is not None
        and frozenset(c for t in words.tokens(key) for c in words.concepts_of(t)) & asked
    ]
    if not chosen and clause.lead in ("is", "are", "was", "were", "has", "have"):
        state = find_field(record, words.concepts("status"))
        chosen = [state] if state else []
    shown = chosen or [(k, v) for k, v in record.items() if v not in (None, "", [])]
    if chosen and any("amount" in words.concepts_of(t) for k, _ in chosen for t in words.tokens(k)):
        shown += [(k, v) for k, v in record.items() if k == "currency" and (k, v) not in shown]
    parts = [f"{_label(k)}: {_plain(v)}" for k, v in shown if str(v) != name or chosen]
    return sentence(f"{head}: " + ", ".join(parts))


def _several(card: ToolCard, rows: Sequence[Record], data: Any) -> str:
    thing = card.noun or "result"
    if not rows:
        return f"Found no {thing}." + _more(data)
    columns: list[str] = []
    for row in rows:
        columns += [
            k for k, v in row.items() if k not in columns and not isinstance(v, list | dict)
        ]
    columns = columns[:MAX_COLUMNS]
    lines = [
        "| " + " | ".join(map(_label, columns)) + " |",
        "|" + " --- |" * len(columns),
        *("| " + " | ".join(_cell(r.get(c)) for c in columns) + " |" for r in rows[:MAX_ROWS]),
    ]
    totals = [data.get(k) for k in ("matched", "total", "count")] if isinstance(data, dict) else []
    total = next((t for t in totals if isinstance(t, int)), None)
    count = (
        f"{total} found, {min(len(rows), MAX_ROWS)} shown"
        if total not in (None, len(rows))
        else f"{len(rows)} found"
    )
    if len(rows) > MAX_ROWS:
        count += f" (the first {MAX_ROWS} are shown)"
    return f"{count}:\n\n" + "\n".join(lines) + _more(data)


def _more(data: Any) -> str:
    """What the result itself says about more pages or a cut."""
    if not isinstance(data, dict):
        return ""
    notes = [
        str(v)
        for k, v in data.items()
        if k in ("note", "notes", "message", "hint", "warning") and v
    ]
    return "\n\n" + sentence(" ".join(notes)) if notes else ""


def _label(key: str) -> str:
    return key.replace("_", " ").replace(".", " ")


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return "; ".join(_plain(v) for v in value) or "none"
    if isinstance(value, dict):
        return " ".join(_plain(v) for v in value.values())
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cell(value: Any) -> str:
    return "" if value is None else short(_plain(value), 80).replace("|", "\\|")


def question_for(param: Param, card: ToolCard, args: Mapping[str, Any]) -> str:
    """One clear question for a missing value."""
    label = _label(param.name)
    what = action(card, args)
    if param.role == "id":
        return f"I need the {label} to {card.verb} it. Which {card.noun or label} do you mean?"
    example = f" ({', '.join(map(str, param.enum[:8]))})" if param.enum else ""
    if param.role.startswith("date"):
        return f"I do not know today's date. Which “{label}” do you mean, as YYYY-MM-DD?"
    return f"To {what} I need the {label}{example}. Which {label} should I use?"


def abilities(cards: Sequence[ToolCard]) -> str:
    """What the bound tools can do, from their descriptions."""
    if not cards:
        return (
            f"{STAND_IN} that are bound, and none are bound now. So I can only talk about myself."
        )
    lines = [
        f"- {short(c.summary, 160) or c.name} (`{c.name}`{', asks first' if c.writes else ''})"
        for c in cards
    ]
    return (
        f"{STAND_IN} that are bound. With them I can:\n" + "\n".join(lines) + "\n\n"
        "Say what you want with its details (ids, amounts, dates, file names), for example in "
        "one sentence. A hosted model understands far more."
    )


def cannot(clause_text: str, cards: Sequence[ToolCard]) -> str:
    """An honest no: what was not understood, and what can be done instead."""
    can = ", ".join(dict.fromkeys(f"{c.verb} {c.noun}".strip() for c in cards))
    return (
        f"I cannot do this with the tools I have: “{short(clause_text, 120)}”. "
        f"{STAND_IN} that are bound, so I may also have missed what you meant. "
        f"What I can do: {can or 'nothing, since no tools are bound'}."
    )
