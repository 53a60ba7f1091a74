"""What a server may ask the person during a call (elicitation), and what it tells about the call.

A question is a form of a few plain fields, or an address to open. Secrets are never asked for
here: the protocol forbids it in forms, and a person cannot tell a friendly server from another.
This file imports little: the inbox and the chat's first prompt need it too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from agent.canonical import surely_longer
from agent.forms import choices
from agent.mcp.addresses import read_address
from agent.safe_text import look_alikes, plain

if TYPE_CHECKING:
    from tools.contract import CallInfo

PROGRESS = "mcp.progress"
"""The key under which a call's progress goes into the graph's stream of custom values."""

QUESTION = "mcp.question"
"""The same for a question that waits in the store: its approval."""

MAX_FIELDS = 20
MAX_QUESTION = 50_000
"""Characters of a question, form and all; nobody reads more, and to check more takes long."""

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
        args: Its arguments.
        tell: Puts a value into the stream of the graph that runs it.
    """

    info: CallInfo
    args: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
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
        """The question as the arguments of its approval; see ``agent.forms.answer_to``."""
        asked = {"schema": dict(self.schema)} if self.schema is not None else {"url": self.url}
        return {"message": self.message, **asked}


@dataclass(frozen=True)
class Reply:
    """What the server gets: the form's content when the person accepts.

    ``settled`` is told once whether it was handed to the server's connection. What the server
    does with it, nobody knows.
    """

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Any] | None = None
    settled: Callable[[bool], None] = field(default=lambda sent: None, compare=False, repr=False)


Ask = Callable[[Question], Awaitable[Reply]]


def unfit(question: Question) -> str | None:
    """Why a question is declined without asking anybody; ``None`` when it can be asked."""
    if surely_longer([question.message, question.url, question.schema], MAX_QUESTION):
        return f"it is longer than {MAX_QUESTION:,} characters"
    if question.schema is None:
        try:
            read_address(question.url or "")
        except ValueError:
            return "it gives no web address to open"
        return None
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
