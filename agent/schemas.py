"""JSON Schemas of strangers: whether one can be used, and whether a value fits it.

Nothing is fetched, and nothing takes long. Patterns are matched by an engine that takes linear
time, not by Python's ``re``; whatever else a schema makes its checker do is counted, and ended when
it is too much. The count is of steps and not of time, so that a value which fits today does so
tomorrow.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from jsonschema import (
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    validators,
)
from jsonschema.exceptions import SchemaError as InvalidSchema
from jsonschema.exceptions import ValidationError
from pydantic_core import SchemaError, SchemaValidator, core_schema
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import specification_with

from agent.canonical import canonical_json

MAX_DEPTH = 64
MAX_PARTS = 2_000
"""How many objects a schema may have: a check of it against its own schema takes long."""

MAX_STEPS = 100_000
MAX_PROBLEMS = 20
"""How many problems of one value are told."""

_DRAFTS: dict[str, Any] = {
    str(draft.META_SCHEMA.get("$id") or draft.META_SCHEMA.get("id")).rstrip("#"): draft
    for draft in (
        Draft4Validator,
        Draft6Validator,
        Draft7Validator,
        Draft201909Validator,
        Draft202012Validator,
    )
}
_NEWEST = Draft202012Validator
_LONGEST_TEXT = 10_000
_MOST_STATES = 100_000
_SET_SYNTAX = re.compile(r"&&|--|~~")
"""Means something else in Rust's classes than in those of ECMAScript."""


class UnusableSchema(Exception):
    """The schema is broken, refers to what is elsewhere, or takes too much work."""


@dataclass(frozen=True)
class Checked:
    """How a value fits a schema.

    Args:
        problems: What does not fit, at most ``MAX_PROBLEMS``.
        unchecked: A line for each pattern that cannot be matched here, with its place.
    """

    problems: tuple[ValidationError, ...]
    unchecked: tuple[str, ...]


def fault_of(schema: Any) -> str | None:
    """Why a schema cannot be used; ``None`` when it can."""
    try:
        _examine(schema)
    except UnusableSchema as error:
        return str(error)
    return None


def check(schema: Mapping[str, Any], value: Any) -> Checked:
    """Compare a JSON value with a schema.

    Raises:
        UnusableSchema: It cannot be said whether the value fits.
    """
    work = _Work()
    token = _work.set(work)
    try:
        validator = _validator(canonical_json(schema))
        problems = tuple(islice(validator.iter_errors(value), MAX_PROBLEMS))
    except (UnusableSchema, MemoryError):
        raise
    except Exception as error:  # a schema can be valid and still break its checker
        raise UnusableSchema(_in_words(error)) from error
    finally:
        _work.reset(token)
    return Checked(problems, tuple(work.unchecked))


# --- the schema --------------------------------------------------------------------------------


def _examine(schema: Any) -> Any:
    """The draft of a schema that can be used.

    Raises:
        UnusableSchema: It cannot.
    """
    if depth_exceeds(schema, MAX_DEPTH):
        raise UnusableSchema(f"it is nested more than {MAX_DEPTH} deep")
    if not isinstance(schema, dict):
        raise UnusableSchema("it is no object")
    if count_parts(schema, MAX_PARTS) > MAX_PARTS:
        raise UnusableSchema(f"it has more than {MAX_PARTS} parts")
    draft = _DRAFTS.get(str(schema.get("$schema", "")).rstrip("#"), _NEWEST)
    try:
        draft.check_schema(schema, format_checker=None)
        _check_members(schema)
        specification = specification_with(draft.META_SCHEMA["$schema"])
        resolver = Registry().resolver_with_root(specification.create_resource(schema))
        for reference in _strings(schema, "$ref", "$dynamicRef", "$recursiveRef"):
            resolver.lookup(reference)
    except UnusableSchema:
        raise
    except Exception as error:
        raise UnusableSchema(_in_words(error)) from error
    return draft


def _check_members(schema: Mapping[str, Any]) -> None:
    names = {name for part in _parts(schema) for name in part}
    if {"patternProperties", "unevaluatedProperties"} <= names:
        raise UnusableSchema("it has patternProperties beside unevaluatedProperties")
    # The library would go on with its own keywords from there.
    inside = (inner for value in schema.values() for inner in _strings(value, "$schema"))
    if next(inside, None) is not None:
        raise UnusableSchema("it changes its dialect inside")


def _in_words(error: Exception) -> str:
    match error:
        case InvalidSchema():
            return error.message[:200]
        case Unresolvable():
            return f"{str(error.ref)[:200]!r} refers to nothing in it; nothing is fetched"
        case RecursionError():
            return "it refers to itself without end"
    return f"{type(error).__name__}: {error}"[:200]


@lru_cache(maxsize=512)
def _validator(schema: str) -> Any:
    loaded = json.loads(schema)
    draft = _examine(loaded)
    return _bounded(draft)(loaded, registry=Registry())


def depth_exceeds(value: Any, limit: int) -> bool:
    """Whether a JSON value is nested deeper; written without recursion, for any depth."""
    level = [value]
    for _ in range(limit):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return False
    return True


def count_parts(value: Any, most: int) -> int:
    """How many objects there are in a JSON value; counted only just beyond ``most``."""
    return sum(1 for _ in islice(_parts(value), most + 1))


def _parts(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Every object in a JSON value."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
        waiting += _inside(value)


def _strings(schema: Any, *names: str) -> Iterator[str]:
    """The texts that any object in a JSON value has under these names."""
    for part in _parts(schema):
        yield from (text for name in names if isinstance(text := part.get(name), str))


def _inside(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []


# --- keywords that take no more than their share -----------------------------------------------


@dataclass
class _Work:
    """What one check has cost so far."""

    steps: int = 0
    unchecked: dict[str, None] = field(default_factory=dict)
    patterns: set[str] = field(default_factory=set)

    def add(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise UnusableSchema("it takes too much work to check")


_work: ContextVar[_Work] = ContextVar("_work")
_Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def _counted(keyword: _Keyword) -> _Keyword:
    def counted(
        validator: Any, value: Any, instance: Any, schema: Any
    ) -> Iterator[ValidationError]:
        work = _work.get()
        work.add(1 + (len(value) // 10 if isinstance(value, list | dict) else 0))
        for error in keyword(validator, value, instance, schema) or ():
            if not isinstance(error.validator, str):  # it was made here, and not further inside
                work.add(5 + len(error.message) // 100)  # it may show a large value
            yield error

    return counted


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and _matches(pattern, instance) is False:
        shown = instance if len(instance) <= 100 else f"{instance[:100]}…"
        yield ValidationError(f"{shown!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    for pattern, inner in patterns.items():
        for key, value in instance.items():
            if _matches(pattern, key):
                yield from validator.descend(value, inner, path=key, schema_path=pattern)


def _additional_properties(
    validator: Any, inner: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extra = [
        key
        for key in instance
        # One whose pattern cannot be matched is taken for known: it is the server's to judge.
        if key not in known and not any(_matches(p, key) is not False for p in patterns)
    ]
    if inner is not False:
        for key in extra:
            yield from validator.descend(instance[key], inner, path=key)
    elif extra:
        names = ", ".join(map(repr, extra[:10]))
        yield ValidationError(f"Additional properties are not allowed: {names}")


def _unique_items(
    validator: Any, wanted: Any, instance: Any, schema: Any
) -> Iterator[ValidationError]:
    if wanted and isinstance(instance, list):
        _work.get().add(3 * len(instance))
        if len({_hashable(item) for item in instance}) < len(instance):
            yield ValidationError("it has two items that are the same")


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return "object", frozenset((key, _hashable(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return "array", tuple(map(_hashable, value))
    return (type(value), value) if isinstance(value, bool) else value


@lru_cache
def _bounded(draft: Any) -> Any:
    own: dict[str, _Keyword] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "uniqueItems": _unique_items,
    }
    keywords = {**draft.VALIDATORS, **own}
    counted = {name: _counted(do) for name, do in keywords.items()}
    return validators.extend(draft, counted)  # type: ignore[no-untyped-call]


# --- patterns ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Matcher:
    """A pattern; without a ``validator`` it cannot be matched here.

    Args:
        states: How large the pattern is, roughly.
        broken: It is no pattern at all.
    """

    validator: SchemaValidator | None
    states: int
    broken: bool = False


def _matches(pattern: str, text: str) -> bool | None:
    """Whether a pattern is found in a text; ``None`` when that cannot be said here."""
    work, matcher = _work.get(), _matcher(pattern)
    if pattern not in work.patterns:
        work.patterns.add(pattern)
        work.add(matcher.states // 3)
    if matcher.broken:
        raise UnusableSchema(f"{pattern[:80]!r} is no regular expression")
    if matcher.validator is None or len(text) > _LONGEST_TEXT:
        line = f"the pattern {pattern[:80]!r} is not checked here, but by the server"
        work.unchecked.setdefault(line)
        return None
    work.add(1 + len(text) * matcher.states // 1_000_000)
    return matcher.validator.isinstance_python(text)


@lru_cache(maxsize=1024)
def _matcher(pattern: str) -> _Matcher:
    states = _states(pattern)
    if states > _MOST_STATES or _SET_SYNTAX.search(pattern):
        return _Matcher(None, 0)
    try:
        schema = core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")
        return _Matcher(SchemaValidator(schema), states)
    except SchemaError:
        return _Matcher(None, states, broken=not _is_python(pattern))


def _is_python(pattern: str) -> bool:
    """Whether Python's engine, which has more features, would take it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _states(pattern: str) -> int:
    """Roughly how large an automaton a pattern makes, and so how long it takes to compile."""
    bounds = [int(bound) for bound in re.findall(r"([0-9]{1,9})\}", pattern)]
    times = math.prod(bounds) if "){" in pattern else max(bounds, default=1)
    wide = len(re.findall(r"\\[A-Za-z]|\[\^|\.", pattern))
    return (len(pattern) + 100 * wide) * max(times, 1)
