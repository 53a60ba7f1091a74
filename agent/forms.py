"""Forms that a server lets a person fill in: what each field takes, and whether an answer fits.

The fields are those of MCP 2025-11-25, client/elicitation, "Requested Schema": text, numbers, yes
or no, one of a list, several of a list. What is wrong with an answer is said in words that name
what would fit. This file imports little: the inbox and the chat's first prompt need it too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from agent.safe_text import exact_json, shorten

LEFT_OUT = object()
"""In place of a value: the field is no part of the answer."""

ORDER = "order"
"""The member of a question's arguments that names its fields in the server's order."""

HOW = "Enter takes the default, or leaves out what is optional."
"""What a person is told about an empty line."""

_SHOWN = 60
"""How many characters of a wrong value are repeated."""

_YES_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_INTEGER = re.compile(r"[+-]?\d{1,400}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d{1,4})?", re.ASCII | re.IGNORECASE)
_IN_WORDS = {
    *("type", "enum", "oneOf", "anyOf", "format", "pattern"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
"""The keywords that :meth:`Field.takes` puts into words, so that a value's fault is told by it."""

_FORMATS = {
    "email": "an e-mail address, such as ana@example.org",
    "uri": "a whole address, such as https://example.org/page",
    "date": "a date, such as 2026-01-31",
    "date-time": "a time with its offset, such as 2026-01-31T14:30:00Z",
}
# What HTML calls a valid e-mail address: browsers take no other in a form.
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL})*")
# RFC 3986: a scheme, then its characters alone, each % before two hexadecimal digits; a web
# address has a host.
_URI = re.compile(
    r"(?:https?://(?=[^/?#:@])|(?!https?:)[a-z][a-z0-9+.-]*:)"
    r"(?:[a-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9a-f]{2})+",
    re.IGNORECASE | re.ASCII,
)
# RFC 3339, section 5.6; Python's own reader takes more than that.
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(
    r"(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:z|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True)
class Choice:
    """One of the values that a field can have; ``title`` is what a person is shown for it."""

    value: Any
    title: str = ""

    def __str__(self) -> str:
        text = in_words(self.value)
        return f"{text} “{self.title}”" if self.title not in ("", text) else text


@dataclass(frozen=True)
class Field:
    """One field of a form; ``schema`` is its JSON Schema, from the server."""

    name: str
    schema: Mapping[str, Any]
    required: bool

    @property
    def choices(self) -> list[Choice]:
        """The values that it can have, where it lists them."""
        return choices(self.schema)

    @property
    def default(self) -> Any:
        """What it has when nothing is said; ``LEFT_OUT`` without a default that fits."""
        value = self.schema.get("default", LEFT_OUT)
        return LEFT_OUT if value is LEFT_OUT or self._fault(value) else value

    def with_default(self, value: Any) -> Field:
        """The field with another default; with none, where the value is ``LEFT_OUT``."""
        rest = {key: one for key, one in self.schema.items() if key != "default"}
        return replace(self, schema=rest if value is LEFT_OUT else {**rest, "default": value})

    def described(self) -> str:
        """``nights (a whole number from 1 to 30; default 2): How long``"""
        whether = "required" if self.required else "optional"
        if self.default is not LEFT_OUT:
            whether = f"default {in_words(self.default)}"
        words = [str(self.schema.get(key) or "") for key in ("title", "description")]
        about = " · ".join(w for w in words if w and w.lower() != self.name.lower())
        return f"{self.name} ({self.takes()}; {whether}){f': {about}' if about else ''}"

    def takes(self) -> str:
        """What fits, in words."""
        listed = ", ".join(map(str, self.choices))
        if self._several:
            return f"{_how_many(self.schema)} of {listed}; with commas between"
        if listed:
            return f"one of {listed}"
        match self.schema.get("type"):
            case "boolean":
                return "yes or no"
            case "integer":
                return f"a whole number{_bounds(self.schema)}"
            case "number":
                return f"a number{_bounds(self.schema)}"
        kind = _FORMATS.get(str(self.schema.get("format")), "text")
        return f"{kind}{_lengths(self.schema)}{_pattern(self.schema)}"

    def entered(self, text: str) -> Any:
        """The value that a typed line means, or ``LEFT_OUT``.

        Raises:
            ValueError: It does not fit; the message says what would.
        """
        if text.strip():
            return self.value(text)
        if self.default is not LEFT_OUT or not self.required:
            return self.default
        if self._several:
            return self.value("")
        raise ValueError(f"{self.name} is required: {self.takes()}.")

    def value(self, text: str) -> Any:
        """What a person typed, as its value.

        Raises:
            ValueError: It does not fit; the message says what would.
        """
        value: Any = text.strip()
        if self._several:
            value = self._chosen(value)
        elif self.choices:
            value = self._choice(value)
        elif self.schema.get("type") == "boolean":
            value = _YES_NO.get(value.lower(), value)
        elif self.schema.get("type") in ("integer", "number"):
            value = _number(value)
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Hold a JSON value against the field.

        Raises:
            ValueError: It does not fit; the message says what would.
        """
        if fault := self._fault(value):
            raise ValueError(f"{self.name} takes {self.takes()}. {fault}.")

    @property
    def _several(self) -> bool:
        return self.schema.get("type") == "array"

    def _choice(self, text: str) -> Any:
        """The value of a choice that was typed, or the text; a title stands for its value."""
        titled = [c.value for c in self.choices if c.title.casefold() == text.casefold()]
        by_text = {in_words(choice.value): choice.value for choice in self.choices}
        return by_text.get(text, titled[0] if text and len(titled) == 1 else text)

    def _chosen(self, text: str) -> list[Any]:
        """The values that were typed, with commas between; a title may hold commas itself."""
        known, parts = [choice.value for choice in self.choices], text.split(",")
        found: list[Any] = []
        while parts:
            for end in range(len(parts), 0, -1):
                value = self._choice(",".join(parts[:end]).strip())
                if value in known:
                    break
            parts = parts[end:]
            if value not in ("", *found):
                found.append(value)
        return found

    def _fault(self, value: Any) -> str | None:
        """What is wrong with a value; ``None`` when it fits."""
        from agent.schemas import UnusableSchema, check

        shown = shorten(exact_json(value, indent=None), _SHOWN)
        format_ = str(self.schema.get("format"))
        if isinstance(value, str) and not _has_format(format_, value):
            encode = " (what is not ASCII is written as %XX)" if not value.isascii() else ""
            return f"{shown} does not fit{encode if format_ == 'uri' else ''}"
        try:
            error = next(iter(check(self.schema, value).problems), None)
        except UnusableSchema as unusable:
            return f"Its form cannot be used: {unusable}"
        if error is None:
            return None
        match error.validator:
            case "minLength" | "maxLength":
                return f"{shown} has {len(value)}"
            case "minItems" | "maxItems":
                return f"There are {len(value)}"
        detail = "" if error.validator in _IN_WORDS else f" ({error.message})"
        return f"{shown} does not fit{detail}"


def fields_of(args: Mapping[str, Any]) -> list[Field]:
    """The fields of a form, in the server's order.

    Args:
        args: Of the question's approval: ``schema``, and ``order``, the names of its fields.
    """
    fields, required = args["schema"]["properties"], args["schema"].get("required", [])
    places = {name: place for place, name in enumerate(args.get(ORDER, ()))}
    names = sorted(fields, key=lambda name: places.get(name, len(places)))
    return [Field(name, fields[name], name in required) for name in names]


def choices(schema: Mapping[str, Any]) -> list[Choice]:
    """The values that a field can have, where it lists them, in each way to write that."""
    source = schema["items"] if schema.get("type") == "array" else schema
    if isinstance(listed := source.get("enum"), list):
        names = source.get("enumNames")
        if not isinstance(names, list) or len(names) != len(listed):
            names = [""] * len(listed)
        return [Choice(value, str(name)) for value, name in zip(listed, names, strict=True)]
    return [
        Choice(one["const"], str(one.get("title", "")))
        for one in source.get("oneOf") or source.get("anyOf") or []
        if isinstance(one, Mapping) and "const" in one
    ]


def in_words(value: Any) -> str:
    """A value as a person would type it; ``none`` for an empty list."""
    match value:
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case list():
            return ", ".join(map(in_words, value)) or "none"
    return json.dumps(value)


def answer_to(args: Mapping[str, Any], text: str) -> dict[str, Any] | None:
    """The content of an answer to a question, from the text of a person's decision.

    Args:
        args: Of the question's approval: ``message``, and ``schema`` or ``url``.
        text: A JSON object by field; for a form of one field also just its value; for an address
            anything, which means that what it asks for was done. A field that is not in it has
            its default.

    Raises:
        ValueError: It does not fit the form; the message says why.
    """
    if args.get("schema") is None:
        return None
    fields = {field.name: field for field in fields_of(args)}
    given = _read(text)
    if not isinstance(given, dict):
        if len(fields) != 1:
            raise ValueError(f"a JSON object is needed, with {', '.join(fields)}")
        (field,) = fields.values()
        given = {field.name: field.value(text)}
    if unknown := [name for name in given if name not in fields]:
        raise ValueError(f"{unknown[0]!r} is not asked for; it asks for {', '.join(fields)}")
    content = {**_defaults(fields.values()), **given}
    for field in fields.values():
        if field.name in content:
            field.check(content[field.name])
        elif field.required:
            raise ValueError(f"{field.name} is required: {field.takes()}.")
    return content


def _defaults(fields: Iterable[Field]) -> dict[str, Any]:
    return {field.name: field.default for field in fields if field.default is not LEFT_OUT}


def _read(text: str) -> Any:
    """A JSON value; ``None`` for a text that is none, or holds a number that JSON has not."""
    try:
        value = json.loads(text)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return None
    return value


def _number(text: str) -> int | float | str:
    """A number that was typed, or the text when it is none."""
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and (value := float(text)) not in (float("inf"), float("-inf")):
        return value
    return text


def _has_format(name: str, text: str) -> bool:
    match name:
        case "email":
            return _EMAIL.fullmatch(text) is not None
        case "uri":
            return _URI.fullmatch(text) is not None
        case "date":
            return _is_date(text)
        case "date-time":
            return _is_date(text[:10]) and text[10:11] in ("T", "t") and _is_time(text[11:])
    return True


def _is_date(text: str) -> bool:
    with suppress(ValueError):
        return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
    return False


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None


# --- in words ----------------------------------------------------------------------------------


def _bounds(schema: Mapping[str, Any]) -> str:
    """`` from 1 to 30``, or as much of it as there is."""
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f" from {in_words(least)} to {in_words(most)}"
    named = {
        "of at least": least,
        "of at most": most,
        "above": schema.get("exclusiveMinimum"),
        "below": schema.get("exclusiveMaximum"),
    }
    said = [f"{word} {in_words(bound)}" for word, bound in named.items() if bound is not None]
    return f" {' and '.join(said)}" if said else ""


def _lengths(schema: Mapping[str, Any]) -> str:
    said = _range(schema.get("minLength"), schema.get("maxLength"))
    return (
        f" of {said} character{'' if said.endswith(' 1') or said == '1' else 's'}" if said else ""
    )


def _pattern(schema: Mapping[str, Any]) -> str:
    return f" matching {schema['pattern']}" if "pattern" in schema else ""


def _how_many(schema: Mapping[str, Any]) -> str:
    return _range(schema.get("minItems"), schema.get("maxItems")) or "any number"


def _range(least: int | None, most: int | None) -> str:
    """``2 to 4``, ``at least 2``, ``at most 4``, ``4``; empty without bounds."""
    if least and most is not None:
        return str(least) if least == most else f"{least} to {most}"
    if least:
        return f"at least {least}"
    return "" if most is None else f"at most {most}"
