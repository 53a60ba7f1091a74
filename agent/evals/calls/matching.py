"""Whether a call is one of those that were wanted, and if not, what is wrong with it.

Two values are the same when they are equal as JSON: 1 and 1.0 are one number, ``true`` is none, a
list has an order, an object has none. Texts are compared as a person reads them (``as_read``), or
letter by letter in strict mode, and wherever the schema asks for a form (``format``, ``pattern``).
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from agent.evals.calls.parsing import Called

Schema = Mapping[str, Any]

_SPACES = re.compile(r"\s+")
_SIGNS = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "‐": "-", "‑": "-", "–": "-", "−": "-"}
)
_AT_THE_END = ".!?,;:… "


@dataclass(frozen=True)
class Accepted:
    """What an argument may be; ``optional``: it may also be left out."""

    values: tuple[Any, ...]
    optional: bool = False


@dataclass(frozen=True)
class Function:
    """A function that a model is offered.

    Args:
        properties: JSON Schema of each parameter, in the order of positional arguments.
        required: Names of those that may not be left out.
    """

    name: str
    properties: Mapping[str, Schema]
    required: frozenset[str] = frozenset()
    description: str = ""


@dataclass(frozen=True)
class Wanted:
    """A call that is right: which function, and what each argument may be."""

    name: str
    args: Mapping[str, Accepted] = field(default_factory=dict)


@dataclass(frozen=True)
class Problem:
    """What is wrong with an argument. ``kind``: missing, unexpected, type or value."""

    kind: str
    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


# --- one value ----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def as_read(text: str) -> str:
    """A text without what nobody reads as a difference.

    Those are: case; how many spaces there are, and which; the kind of quotes and dashes; the
    Unicode form; and punctuation at the very end. What stands between letters and digits stays:
    ``A-1`` is not ``A1``, and ``1.5`` is not ``15``.
    """
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS).casefold()
    text = unicodedata.normalize("NFKC", text)  # a letter that became two may join the next
    return _SPACES.sub(" ", text).strip().rstrip(_AT_THE_END)


def same(value: Any, wanted: Any, schema: Schema = {}, *, strict: bool = False) -> bool:  # noqa: B006
    """Whether two values are the same; ``wanted`` may hold ``Accepted`` at any depth."""
    if isinstance(wanted, Accepted):
        return any(same(value, one, schema, strict=strict) for one in wanted.values)
    if isinstance(value, str) and isinstance(wanted, str):
        if strict or "format" in schema or "pattern" in schema:
            return value == wanted
        return as_read(value) == as_read(wanted)
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        return value == wanted or _differ_by_rounding(value, wanted)
    if isinstance(value, list) and isinstance(wanted, list):
        items = schema.get("items") or {}
        return len(value) == len(wanted) and all(
            same(one, other, items, strict=strict) for one, other in zip(value, wanted, strict=True)
        )
    if isinstance(value, dict) and isinstance(wanted, dict):
        return _same_object(value, wanted, schema.get("properties") or {}, strict)
    return value is None and wanted is None


def _differ_by_rounding(one: float, other: float) -> bool:
    """Whether two numbers, one of them with a fraction, are the same but for how it was written."""
    is_whole = all(not isinstance(n, float) or n.is_integer() for n in (one, other))
    return not is_whole and math.isclose(one, other, rel_tol=1e-9)


def _same_object(
    value: Mapping[str, Any], wanted: Mapping[str, Any], schemas: Mapping[str, Any], strict: bool
) -> bool:
    left_out = wanted.keys() - value.keys()
    return (
        value.keys() <= wanted.keys()
        and all(isinstance(wanted[key], Accepted) and wanted[key].optional for key in left_out)
        and all(
            same(item, wanted[key], schemas.get(key) or {}, strict=strict)
            for key, item in value.items()
        )
    )


_KINDS: Mapping[str, Any] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: _is_number(value) and value == int(value),
    "number": lambda value: _is_number(value),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _has_type(value: Any, schema: Schema) -> bool:
    """Whether a value is of the kind that its schema says, itself and not what is in it."""
    kinds = schema.get("type")
    if isinstance(kinds, str):
        kinds = [kinds]
    return kinds is None or any(kind not in _KINDS or _KINDS[kind](value) for kind in kinds)


# --- one call -----------------------------------------------------------------------------------


def problems(
    call: Called, wanted: Wanted, function: Function, *, strict: bool = False
) -> list[Problem]:
    """What is wrong with the arguments of a call of the right function; nothing when it is right.

    An argument that is left out is right where it may be, or where its default is accepted; one
    that was not asked for is right where it says the default.
    """
    args, found = _by_name(call, function)
    for name, accepted in wanted.args.items():
        schema = function.properties.get(name, {})
        if name not in function.properties:
            continue  # said below, where the call has it
        if name in args:
            if not same(args[name], accepted, schema, strict=strict):
                found += _what_differs(args[name], accepted, schema, name)
        elif name in function.required or not (
            accepted.optional
            or ("default" in schema and same(schema["default"], accepted, schema, strict=strict))
        ):
            found.append(Problem("missing", name, "it is missing"))
    missing = function.required - args.keys() - wanted.args.keys()
    found += [Problem("missing", name, "it is missing") for name in sorted(missing)]
    for name in [name for name in args if name not in wanted.args.keys() & function.properties]:
        schema = function.properties.get(name, {})
        if name not in function.properties:
            found.append(Problem("unexpected", name, "there is no such parameter"))
        elif not ("default" in schema and same(args[name], schema["default"], schema)):
            found.append(Problem("unexpected", name, f"{args[name]!r} was not asked for"))
    return found


def _by_name(call: Called, function: Function) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments by name, positional ones by the order of the schema."""
    args, found = dict(call.args), list[Problem]()
    names = [*function.properties]
    for at, value in enumerate(call.positional):
        if at >= len(names):
            found.append(Problem("unexpected", f"argument {at + 1}", "there are fewer parameters"))
        elif names[at] in args:
            found.append(Problem("unexpected", names[at], "it is given twice"))
        else:
            args[names[at]] = value
    return args, found


def _what_differs(value: Any, accepted: Accepted, schema: Schema, path: str) -> Iterator[Problem]:
    if not _has_type(value, schema):
        yield Problem("type", path, f"{value!r} is not of type {schema['type']}")
        return
    wanted = " or ".join(_shown(one) for one in accepted.values[:3])
    yield Problem("value", path, f"{value!r} is not {wanted}")


def _shown(value: Any) -> str:
    if isinstance(value, Accepted):
        return _shown(value.values[0]) if value.values else "nothing"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_shown(item)}" for key, item in value.items()) + "}"
    return repr(value)


# --- several calls ------------------------------------------------------------------------------


def assigned(fits: Sequence[Sequence[bool]]) -> list[int | None]:
    """Give as many calls as possible one wanted call each that they fit, each wanted call once.

    Args:
        fits: Whether call ``i`` fits wanted call ``j``, as ``fits[i][j]``.

    Returns:
        For each call the wanted call that it got. By augmenting paths: in the worst case the
        product of calls, wanted calls and calls again, where trying all orders would be factorial.
    """
    taken_by: dict[int, int] = {}

    def place(call: int, seen: set[int]) -> bool:
        for wanted, fit in enumerate(fits[call]):
            if fit and wanted not in seen:
                seen.add(wanted)
                if wanted not in taken_by or place(taken_by[wanted], seen):
                    taken_by[wanted] = call
                    return True
        return False

    for call in range(len(fits)):
        place(call, set())
    got: list[int | None] = [None] * len(fits)
    for wanted, call in taken_by.items():
        got[call] = wanted
    return got
