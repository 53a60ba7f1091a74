"""What a server may ask the person during a call (elicitation), and what it tells about the call.

A question is a form of a few plain fields, or an address to open. Secrets are never asked for
here: the protocol forbids it in forms, and a person cannot tell a friendly server from another.
This file imports little: the inbox and the chat's first prompt need it too.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from agent.safe_text import look_alikes, plain

if TYPE_CHECKING:
    from tools.contract import CallInfo

PROGRESS = "mcp.progress"
"""The key under which a call's progress goes into the graph's stream of custom values."""

QUESTION = "mcp.question"
"""The same for a question that waits in the store: its approval."""

MAX_FIELDS = 20
_ABOUT = ("title", "description")
_SCALARS = ("string", "number", "integer", "boolean")
_NEGATED = re.compile(
    r"\b(?:do not|don't|never)(?: ever)? (?:give|share|enter|send|type|tell|put|use)\b[^.:;)]*"
    r"|\b(?:not|never) an? [^.:;,)]*",
    re.IGNORECASE,
)
_SECRET = re.compile(
    r"pass\W?(word|phrase|code|wd)|secret|token|(api|access|private).?key|credential|"
    r"card.?num|credit.?card|security.?(code|number)|one.?time.?(code|pass)|social.?security|"
    r"seed.?phrase|(?<![a-z])(cv[vc]2?|pin|pin.?code|otp|ssn|pwd)(?![a-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class UnderWay:
    """A call that is with a server now.

    Args:
        info: The harness's own words for it.
        tell: Puts a value into the stream of the graph that runs it.
    """

    info: CallInfo
    tell: Callable[[dict[str, Any]], None] = field(default=lambda value: None, compare=False)


@dataclass(frozen=True)
class Question:
    """What a server asks: ``schema`` is the form's, or ``url`` the address to open."""

    server: str
    call: UnderWay
    message: str
    schema: Mapping[str, Any] | None = None
    url: str | None = None

    @property
    def args(self) -> dict[str, Any]:
        """The question as the arguments of its approval; see :func:`answer_to`."""
        asked = {"schema": dict(self.schema)} if self.schema is not None else {"url": self.url}
        return {"message": self.message, **asked}


@dataclass(frozen=True)
class Reply:
    """What the server gets: the form's content when the person accepts."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None


Ask = Callable[[Question], Awaitable[Reply]]


def unfit(question: Question) -> str | None:
    """Why a question is declined without asking anybody; ``None`` when it can be asked."""
    if question.schema is None:
        if re.fullmatch(r"https?://[^\s@/?#]+([/?#]\S*)?", question.url or ""):
            return None
        return "it gives no web address to open"
    if _is_secret(question.message, *(str(question.schema.get(k, "")) for k in _ABOUT)):
        return "it asks for a secret, which a form must not"
    fields = question.schema.get("properties")
    if not isinstance(fields, Mapping) or not 0 < len(fields) <= MAX_FIELDS:
        return f"its form has not 1 to {MAX_FIELDS} fields"
    for name, one in fields.items():
        if not isinstance(one, Mapping) or not _is_plain(one):
            return f"its field {name!r} is no plain value"
        if look_alikes(name) or name != plain(name):
            return f"its field {name!r} has letters that look like others"
        if _asks_for_a_secret(name, one):
            return f"its field {name!r} asks for a secret, which a form must not"
    from agent.schemas import fault_of

    fault = fault_of(question.schema)
    return f"its form cannot be used: {fault}" if fault else None


def _asks_for_a_secret(name: str, one: Mapping[str, Any]) -> bool:
    """By its name or its words, as far as these do not say what is *not* asked for."""
    return _is_secret(name, *(str(one.get(key, "")) for key in ("title", "format", "description")))


def _is_secret(*texts: str) -> bool:
    """Whether one of these texts speaks of a secret, however its letters are made."""
    for text in texts:
        folded = unicodedata.normalize("NFKC", text)
        folded = "".join(c for c in folded if unicodedata.category(c) not in ("Cf", "Mn"))
        apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", folded).replace("_", " ")
        if _SECRET.search(_NEGATED.sub("", apart)):
            return True
    return False


def _is_plain(one: Mapping[str, Any]) -> bool:
    if one.get("type") == "array":  # several of a list
        items = one.get("items")
        return isinstance(items, Mapping) and bool(choices(one))
    return one.get("type") in _SCALARS


def choices(one: Mapping[str, Any]) -> list[str]:
    """The values that a field can have, where it lists them."""
    source = one.get("items", one)
    if isinstance(listed := source.get("enum"), list):
        return [str(value) for value in listed]
    titled = source.get("oneOf") or source.get("anyOf") or []
    return [str(c["const"]) for c in titled if isinstance(c, Mapping) and "const" in c]


def value_of(one: Mapping[str, Any], text: str) -> Any:
    """What a person typed for a field, as its value.

    Raises:
        ValueError: It does not fit; the message says what would.
    """
    value: Any = text
    match one.get("type"):
        case "boolean":
            value = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
            value = value.get(text.strip().lower(), text)
        case "integer" | "number":
            try:
                value = json.loads(text, parse_constant=_no_constant)
            except (ValueError, RecursionError):
                value = text
            if isinstance(value, float) and not math.isfinite(value):
                value = text
        case "array":
            value = [part.strip() for part in text.split(",") if part.strip()]
    if problem := _problem(one, value):
        raise ValueError(problem)
    return value


def answer_to(args: Mapping[str, Any], text: str) -> dict[str, Any] | None:
    """The content of an answer to a question, from the text of a person's decision.

    Args:
        args: Of the question's approval.
        text: A JSON object by field; for a form of one field also just its value; for an address
            anything, which means that what it asks for was done.

    Raises:
        ValueError: It does not fit the form; the message says why.
    """
    schema = args.get("schema")
    if schema is None:
        return None
    try:
        value = json.loads(text, parse_constant=_no_constant)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        value = None
    fields = schema["properties"]
    if not isinstance(value, dict):
        if len(fields) != 1:
            raise ValueError(f"a JSON object is needed, with {', '.join(fields)}")
        ((name, one),) = fields.items()
        value = {name: value_of(one, text)}
    defaults = {name: one["default"] for name, one in fields.items() if "default" in one}
    value = {**defaults, **value}
    if unknown := [name for name in value if name not in fields]:
        raise ValueError(f"{unknown[0]!r} is not asked for; it asks for {', '.join(fields)}")
    if problem := _problem(schema, value):
        raise ValueError(problem)
    return value


def _no_constant(name: str) -> Any:
    """JSON has no NaN and no infinity; Python's reader has."""
    raise ValueError(name)


def _problem(schema: Mapping[str, Any], value: Any) -> str | None:
    from agent.schemas import UnusableSchema, check

    try:
        error = next(iter(check(schema, value).problems), None)
    except UnusableSchema as unusable:
        return f"its form cannot be used: {unusable}"
    if error is None:
        return None
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {error.message}" if place else error.message
