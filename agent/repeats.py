"""The same call once more: which earlier write it would repeat.

Arguments are compared by a form in which one request has one spelling, as far as that can be told
without knowing what they mean. It is coarser than equality on purpose: where it says too much, a
call is held or asked about that need not be, and a person or the record clears that up. Another
number, another word or another item always has another form.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from langchain_core.tools import BaseTool

import prompts
from agent.canonical import canonical_json
from agent.checks.arguments import ArgumentsError, normalise
from agent.evidence import check_text
from tools.contract import contract_of

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.records import ApprovalRecord, EffectRecord, TrailEntry


def held(
    store: Store, sessions: Iterable[str], tool: BaseTool, args: Mapping[str, Any]
) -> str | None:
    """Why a call is not run that a write in doubt may have done already; in words for the model.

    Args:
        sessions: The session of the call, and those that it was forked from.
    """
    may_have = (effect for session in sessions for effect in store.ledger.open_writes(session))
    doubt = _first(may_have, tool, args)
    if doubt is None:
        return None
    return prompts.message("held", effect=doubt.id, check=check_text(contract_of(tool), args))


def committed_before(
    store: Store, sessions: Iterable[str], tool: BaseTool, args: Mapping[str, Any]
) -> EffectRecord | None:
    """The same call among the writes of these sessions that happened."""
    found = (
        effect for session in sessions for effect in store.ledger.committed(session, tool.name)
    )
    return _first(found, tool, args)


def known_since(
    store: Store,
    line: Sequence[str],
    tool: BaseTool,
    args: Mapping[str, Any],
    question: ApprovalRecord,
) -> EffectRecord | None:
    """The same call among the writes that are known to have happened, and were not when a person
    was first asked about this one: by the trail's order, since clocks differ and are put back.

    Of this session that is what had begun by then; two equal calls of one reply are two. What a
    session that it was forked from has done meanwhile counts in any case.

    Args:
        line: The session, and those that it was forked from.
    """
    session, *sources = line
    asked, *since = store.trail.back_to(session, lambda entry: _asks_first(entry, question))
    begun = {_effect(e) for e in since if e.kind == "effect.intended" and e.data["attempt"] == 1}
    told = {_effect(entry) for entry in since} - begun
    for source in sources:
        later = store.trail.back_to(source, lambda entry: entry.position <= asked.position)
        told |= {_effect(entry) for entry in later if entry.position > asked.position}
    known = [store.ledger.get(effect) for effect in sorted(told - {""})]
    return _first([effect for effect in known if effect.state == "committed"], tool, args)


def _asks_first(entry: TrailEntry, question: ApprovalRecord) -> bool:
    call = (entry.data.get("message"), entry.data.get("call"), entry.data.get("attempt"))
    is_question = entry.kind == "approval.asked" and entry.data.get("kind") == question.kind
    return is_question and call == (question.message, question.call, 1)


def _effect(entry: TrailEntry) -> str:
    """The effect that an entry is about; empty where it is about none."""
    return str(entry.data.get("effect") or "") if entry.kind.startswith("effect.") else ""


def same_arguments(tool: BaseTool, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a tool would do the same with both, however they are spelled.

    These make no difference: a default written out or left out, at any depth; what is empty or
    null, where it has no other default; a number as one or as text, and its zeros behind the point;
    a moment in another time zone; the order of a list, and one item on its own or in a list. Of a
    text on one line: case, spaces, invisible characters, the Unicode form, and ``.`` and ``//`` in
    a path. A text of several lines is content, where only its ends and line ends do not count.
    """
    return _form_of(tool, one) == _form_of(tool, other)


def _first(
    effects: Iterable[EffectRecord], tool: BaseTool, args: Mapping[str, Any]
) -> EffectRecord | None:
    of_tool = [effect for effect in effects if effect.tool == tool.name]
    wanted = _form_of(tool, args) if of_tool else ""
    return next((effect for effect in of_tool if _form_of(tool, effect.args) == wanted), None)


def _form_of(tool: BaseTool, args: Mapping[str, Any]) -> str:
    """What arguments ask for, as a text that can be compared."""
    if isinstance(tool.args_schema, dict):
        return canonical_json(_form(_Defaults(tool.args_schema).filled_in(args)))
    with suppress(ArgumentsError):  # of a write that was begun under another schema
        args = normalise(tool, args).args
    return canonical_json(_form(args))


# --- one spelling for each value ---------------------------------------------------------------

_NUMERAL = re.compile(r"-?(0|[1-9][0-9]{0,99})(\.[0-9]{1,100})?(E[+-][0-9]{1,3})?")
"""A number as text, also as Python writes a large decimal. What begins with a 0 or a + may be a
name: a postal code, a telephone number."""

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}\S{0,24}")
_NOTHING = ""
"""The form of what is as good as not given."""


def _form(value: Any) -> Any:
    """A value in its one spelling. Texts, numbers and objects are told apart by a first word."""
    match value:
        case None:
            return _NOTHING
        case bool():
            return f"text {value}".casefold()  # True is no 1 here
        case int() | float():
            return _number(Decimal(repr(value)))
        case str():
            return _text(value)
        case Mapping():
            inner = ([_text(key), _form(item)] for key, item in value.items())
            given = sorted((pair for pair in inner if pair[1] != _NOTHING), key=canonical_json)
            return ["object", *given] if given else _NOTHING
        case list() | tuple():
            items = sorted(map(_form, value), key=canonical_json)
            if len(items) <= 1:
                return items[0] if items else _NOTHING
            return ["list", *items]
    return value


def _number(value: Decimal) -> str:
    sign, digits, exponent = value.as_tuple()
    shown = "".join(map(str, digits)).lstrip("0")
    short = shown.rstrip("0")
    assert isinstance(exponent, int)  # JSON has no NaN
    power = exponent + len(shown) - len(short)
    return f"number {'-' * sign}{short} {power}" if short else "number 0"


def _text(value: str) -> str:
    text = unicodedata.normalize("NFC", value).strip()
    if _NUMERAL.fullmatch(text):
        return _number(Decimal(text))
    if _MOMENT.fullmatch(text):
        with suppress(ValueError, OverflowError):
            return f"moment {_moment(text)}"
    lines = text.splitlines()
    if len(lines) > 1:
        return "text " + "\n".join(lines)
    visible = "".join(char for char in text if unicodedata.category(char) != "Cf")
    words = " ".join(unicodedata.normalize("NFD", visible).casefold().split())
    if "/" in words:
        words = posixpath.normpath(words)
    return f"text {unicodedata.normalize('NFC', words)}" if words else _NOTHING


def _moment(text: str) -> str:
    moment = datetime.fromisoformat(text.upper())
    return (moment if moment.tzinfo is None else moment.astimezone(UTC)).isoformat()


# --- defaults of a JSON Schema -----------------------------------------------------------------

_DEEPEST = 32
_MOST_STEPS = 50_000


class _Defaults:
    """Fills in what a schema says of arguments that were left out.

    It looks into ``properties``, ``additionalProperties``, ``items``, ``$ref`` within the schema,
    ``allOf``, and the one branch of an ``anyOf`` or ``oneOf`` that is not null. A schema that goes
    on without end is followed some way only.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root, self._steps = schema, 0

    def filled_in(self, args: Mapping[str, Any]) -> Any:
        """The arguments with all defaults that they lack."""
        return self._filled(self._root, args, 0)

    def _filled(self, schema: Any, value: Any, depth: int) -> Any:
        if depth > _DEEPEST:
            return value
        for part in self._parts(schema):
            if isinstance(value, Mapping):
                value = self._object(part, value, depth + 1)
            elif isinstance(value, list) and "items" in part:
                value = [self._filled(part["items"], item, depth + 1) for item in value]
        return value

    def _object(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], depth: int
    ) -> dict[str, Any]:
        properties, others = schema.get("properties"), schema.get("additionalProperties")
        named = properties if isinstance(properties, Mapping) else {}
        whole = {**self._left_out(named, value), **value}
        return {
            key: self._filled(named.get(key, others), item, depth) for key, item in whole.items()
        }

    def _left_out(self, named: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
        """The defaults of what an object does not have."""
        return {
            key: part["default"]
            for key, schema in named.items()
            if key not in value
            for part in reversed([*self._parts(schema)])  # the nearest default counts
            if "default" in part
        }

    def _parts(self, schema: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
        """A schema, and those that it is made of for the same value."""
        self._steps += 1
        if not isinstance(schema, Mapping) or depth > _DEEPEST or self._steps > _MOST_STEPS:
            return
        yield schema
        if isinstance(reference := schema.get("$ref"), str):
            yield from self._parts(self._at(reference), depth + 1)
        for part in _list(schema.get("allOf")):
            yield from self._parts(part, depth + 1)
        for several in ("anyOf", "oneOf"):
            branches = [one for one in _list(schema.get(several)) if one != {"type": "null"}]
            if len(branches) == 1:
                yield from self._parts(branches[0], depth + 1)

    def _at(self, reference: str) -> Any:
        """What a reference within the schema names, by JSON Pointer (RFC 6901); else nothing."""
        found: Any = self._root
        if not reference.startswith("#"):
            return None
        for part in unquote(reference[1:]).split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
