"""The bound tools as the model reads them: what each does, and what each parameter is for."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

from agent.models.offline import words

Role = Literal[
    "id", "url", "email", "person", "date_from", "date_to", "date", "currency", "amount", "path",
    "folder", "expression", "query", "old_text", "new_text", "content", "enum", "sort", "flag",
    "page", "limit", "revision", "number", "reason", "status", "text",
]  # fmt: skip

_NEGATIVE = re.compile(r"\b(?:not|never|don't|instead|rather than|without|cannot)\b", re.I)
_FROM_READ = re.compile(
    r"\b(?:as|that|which)\b.{0,30}\b(?:returned|shown|given|read|reported)\b|\blast read\b", re.I
)
_FILLER = frozenset(
    ["expected", "current", "known", "latest", "last", "seen", "if", "match", "of", "the"]
)


@dataclass(frozen=True)
class Param:
    """One parameter of a tool.

    ``from_read`` says that its value is something a read returns (a revision), not something
    the user has to know; ``upper`` that its examples are all upper case.
    """

    name: str
    type: str
    required: bool
    description: str
    role: Role
    enum: tuple[Any, ...]
    many: bool
    from_read: bool
    upper: bool = False

    @property
    def meaning(self) -> frozenset[str]:
        """The concepts of its name, without words such as "expected"."""
        bare = [t for t in words.tokens(self.name) if t not in _FILLER]
        return frozenset(c for t in bare for c in words.concepts_of(t))


@dataclass(frozen=True, eq=False)
class ToolCard:
    """One tool: its actions (see ``words``), the things it is about, its parameters.

    The same specification gives the same object, so cards are compared by identity.
    """

    name: str
    description: str
    summary: str
    writes: bool
    actions: frozenset[str]
    things: frozenset[str]
    summary_words: frozenset[str]
    other_words: frozenset[str]
    params: tuple[Param, ...]

    @property
    def mentions(self) -> frozenset[str]:
        """Names in its description that may be other tools'."""
        return frozenset(re.findall(r"\b[a-z]\w*_\w+\b", self.description)) - {self.name}

    def param(self, *roles: Role) -> Param | None:
        """The first parameter that has one of the roles, required ones before optional ones."""
        fitting = [p for p in self.params if p.role in roles]
        return next(iter(sorted(fitting, key=lambda p: not p.required)), None)

    @property
    def required(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.required)

    @property
    def target(self) -> Param | None:
        """The parameter that says which one thing the tool acts on."""
        return self.param("id") or self.param("path") or self.param("url")

    @property
    def noun(self) -> str:
        """What it acts on, in the words of its id parameter or of its name."""
        skip = words.concepts_of("id")
        if target := self.target:
            own = [t for t in words.tokens(target.name) if not words.concepts_of(t) & skip]
            if own and target.role == "id":
                return " ".join(own)
            if target.role == "path":
                return "file"
        rest = [t for t in words.tokens(self.name) if not words.actions_of(t)]
        return rest[-1] if rest else ""

    @property
    def verb(self) -> str:
        """The verb of its name, as it stands there."""
        parts = words.tokens(self.name)
        return next((t for t in parts if words.actions_of(t) & self.actions), parts[0])


def read_tools(tools: Sequence[dict[str, Any]]) -> tuple[ToolCard, ...]:
    """Cards for tools in OpenAI's format (``{"type": "function", "function": {…}}``)."""
    return tuple(
        _card(
            json.dumps(
                t.get("function", t),
            )
        )
        for t in tools
    )


@lru_cache(maxsize=1024)
def _card(spec: str) -> ToolCard:
    tool = json.loads(spec)
    name, description = tool["name"], tool.get("description") or ""
    first, *rest = re.split(r"(?<=[.!?])\s+|;\s+|\n+", description.strip()) or [""]
    positive = " ".join(s for s in rest if not _NEGATIVE.search(s))
    actions, writes = _actions(name, first)
    schema = tool.get("parameters") or {}
    required = set(schema.get("required") or ())
    params = tuple(
        _param(key, spec, key in required, schema.get("$defs") or {})
        for key, spec in (schema.get("properties") or {}).items()
    )
    named = [t for t in words.tokens(name) if not words.actions_of(t) & actions]
    return ToolCard(
        name=name,
        description=description,
        summary=first,
        writes=writes,
        actions=actions,
        things=frozenset(c for t in named for c in words.concepts_of(t)),
        summary_words=words.concepts(first),
        other_words=words.concepts(positive)
        | frozenset(c for p in params for c in words.concepts(p.name))
        | frozenset(c for p in params for v in p.enum for c in words.concepts(str(v))),
        params=params,
    )


def _actions(name: str, summary: str) -> tuple[frozenset[str], bool]:
    """What the tool does, and whether that changes anything; in doubt, it does."""
    of_name = [words.actions_of(t) for t in words.tokens(name)]
    opening = words.tokens(summary)[:4]
    of_summary = words.actions_of(opening[0]) if opening else frozenset()
    if "back" in opening and of_summary & {"pay", "send", "get"}:
        of_summary = frozenset({"refund"})  # "pay back" is not "pay"
    named: frozenset[str] = next((a for a in of_name if a), frozenset())
    # A name such as ``order_status`` has no verb of change; a summary such as "Cancels…" does.
    decisive = named or of_summary
    if named and not named & words.READ_ACTIONS:
        decisive = named
    elif of_summary and not of_summary & words.READ_ACTIONS:
        decisive = of_summary
    writes = not decisive & words.READ_ACTIONS
    both = named | of_summary
    if writes:
        for joiner, verb in pairwise(opening):
            if joiner in ("or", "and"):
                both |= words.actions_of(verb)
        both -= words.READ_ACTIONS
    else:
        both &= words.READ_ACTIONS
    return both or frozenset(words.stem(t) for t in words.tokens(name)[:1]), writes


def _resolve(spec: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """The schema behind ``$ref`` and ``anyOf [X, null]``, with the outer description kept."""
    inner = spec
    for key in ("anyOf", "oneOf", "allOf"):
        options = [o for o in spec.get(key, ()) if o.get("type") != "null"]
        if options:
            inner = {**options[0], **{k: v for k, v in spec.items() if k != key}}
            break
    if ref := inner.get("$ref"):
        inner = {**defs.get(ref.rsplit("/", 1)[-1], {}), **inner}
    return inner


def _param(name: str, raw: dict[str, Any], required: bool, defs: dict[str, Any]) -> Param:
    spec = _resolve(raw, defs)
    many = spec.get("type") == "array"
    item = _resolve(spec.get("items") or {}, defs) if many else spec
    kind = item.get("type", "string")
    enum = tuple(item.get("enum") or ((item["const"],) if "const" in item else ()))
    description = spec.get("description") or ""
    role = _role(name, description, kind, enum, item.get("format", ""))
    own = words.tokens(name)
    from_read = role == "revision" or (
        role in ("number", "text")
        and (own[:1] == ["expected"] or bool(_FROM_READ.search(description)))
    )
    examples = " ".join(map(str, item.get("examples") or spec.get("examples") or ()))
    return Param(name, kind, required, description, role, enum, many, from_read, examples.isupper())


_NAME_ROLES: list[tuple[Role, str]] = [
    ("revision", "revision version rev etag"),
    ("expression", "expression formula calculation equation"),
    ("currency", "currency"),
    ("email", "email mail recipient"),
    ("url", "url link uri href website webpage"),
    ("folder", "folder directory dir"),
    ("old_text", "old find original existing before_text"),
    ("new_text", "new replacement replace_with replacewith"),
    ("path", "path filename filepath file document"),
    ("content", "content contents body text message"),
    ("query", "query keyword keywords q question terms search topic"),
    ("reason", "reason why comment note"),
    ("amount", "amount sum price money"),
    ("person", "customer client buyer owner assignee user person author shopper"),
    ("status", "status state stage phase"),
    ("id", "id identifier ref reference number code key sku uuid handle"),
]
_DATE_FROM = frozenset(["since", "after", "from", "start", "earliest", "begin", "min", "newer"])
_DATE_TO = frozenset(["before", "until", "till", "to", "end", "latest", "max", "older"])
_DESCRIPTION_ROLES: list[tuple[Role, str]] = [
    ("email", r"\be-?mail address\b"),
    ("url", r"\b(?:url|web address|link)\b"),
    ("path", r"\b(?:path|file name)\b"),
    ("expression", r"\b(?:arithmetic|expression|formula)\b"),
    ("query", r"\b(?:search for|key ?words|query|look for)\b"),
    ("id", r"\b(?:id|identifier|reference)\b"),
]


def _role(name: str, description: str, kind: str, enum: tuple[Any, ...], fmt: str) -> Role:
    own = set(words.tokens(name))
    about = description.lower()
    if "idempotency" in own:  # the harness has a key for every call; a made-up one says nothing
        return "text"
    if own & {"pattern", "glob", "regex", "filter"}:
        return "text"
    if own & {"sort", "order_by", "ordering", "sorting"} or about.startswith(("sort", "order by")):
        return "sort"
    if kind == "boolean":
        return "flag"
    # A short list of currencies is still a currency; a list of values is an enum.
    if enum and not own & {"currency"}:
        return "enum"
    if own & {"limit", "size", "max", "count", "top", "per"} and kind in ("integer", "number"):
        return "limit"
    if own & {"page", "offset"}:
        return "page"
    if date_role := _date_role(own, about, fmt):
        return date_role
    for role, names in _NAME_ROLES:
        if own & set(names.split()) and not (role == "content" and own & {"old", "new"}):
            return _narrow(role, kind)
    for role, pattern in _DESCRIPTION_ROLES:
        if kind == "string" and re.search(pattern, about):
            return role
    return "number" if kind in ("integer", "number") else "text"


def _narrow(role: Role, kind: str) -> Role:
    """A number is never a text, whatever its name sounds like."""
    if kind in ("integer", "number") and role not in ("id", "revision", "amount"):
        return "number"
    return role


def _date_role(own: set[str], about: str, fmt: str) -> Role | None:
    is_date = (
        bool(own & {"date", "day", "since", "until"})
        or fmt in ("date", "date-time")
        or bool(re.search(r"\bdates?\b|iso 8601|yyyy-mm-dd", about))
    )
    if not is_date:
        return None
    if own & _DATE_FROM:
        return "date_from"
    if own & _DATE_TO:
        return "date_to"
    if re.search(r"\b(?:on or after|since|from this|no earlier|earliest)\b", about):
        return "date_from"
    if re.search(r"\b(?:on or before|until|no later|latest|before)\b", about):
        return "date_to"
    return "date"
