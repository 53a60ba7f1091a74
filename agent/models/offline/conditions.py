"""Whether a condition of the user ("if it is still pending") holds on a record that was read."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from agent.models.offline import words
from agent.models.offline.evidence import Record, fields, find_field
from agent.models.offline.request import Condition

_COMPARE = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


class Finding(NamedTuple):
    """``holds`` is ``None`` when the record cannot tell; ``why`` names the value found."""

    holds: bool | None
    why: str


def check(condition: Condition, record: Record, known_values: Collection[str]) -> Finding:
    """Compare a condition with a record.

    Args:
        condition: What the user said.
        record: The record as read.
        known_values: Stems of values that fields can have (from enums of the tools); a word
            that is neither known nor a value of the record decides nothing.
    """
    if condition.comparison:
        return _compare(condition, record)
    wanted = [words.stem(w) for w in condition.wanted]
    for key, value in fields(record):
        if isinstance(value, bool) and words.stem(words.tokens(key)[-1]) in wanted:
            return Finding(value != condition.negated, f"its {key} is {str(value).lower()}")
    for key, value in fields(record):
        parts = [words.stem(t) for t in words.tokens(str(value))] if isinstance(value, str) else []
        if 0 < len(parts) <= 3 and all(p in wanted for p in parts):
            return Finding(not condition.negated, f"its {key} is {value}")
    meaning = words.concepts("status") | frozenset(words.concepts(condition.text))
    field = find_field(record, meaning)
    values = [w for w in wanted if w in known_values]
    if field is None or (not values and len(wanted) != 1):
        return Finding(None, "the record does not say")
    if not values and condition.negated:
        return Finding(None, f"I do not know the value “{wanted[0]}”; its {field[0]} is {field[1]}")
    said = " ".join(w for w in condition.wanted if not values or words.stem(w) in values)
    relation = "" if condition.negated else f", not {said}"
    return Finding(condition.negated, f"its {field[0]} is {field[1]}{relation}")


def _compare(condition: Condition, record: Record) -> Finding:
    meaning = frozenset(words.concepts(condition.text)) | words.concepts("total")
    field = find_field(record, meaning)
    value = _number(field[1]) if field else None
    if field is None or value is None or condition.number is None:
        return Finding(None, "the record has no number to compare with")
    holds = _COMPARE[condition.comparison](value, Decimal(str(condition.number)))
    return Finding(holds != condition.negated, f"its {field[0]} is {field[1]}")


def is_number(value: Any) -> bool:
    """Whether a value is a number, or a text that is one."""
    return not isinstance(value, bool) and _number(value) is not None


def _number(value: Any) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None
