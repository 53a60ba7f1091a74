"""Where the argument values of a call occur: in the user's words, in a result, or nowhere.

The tracing is by occurrence: it says in which text a value *occurs*, which is what a reviewer
needs to ask the right question. It is no proof that the model took the value from there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NotRequired, TypedDict

from agent.canonical import canonical_json
from agent.provenance.marks import RAW, attached_to, opening, unmarked, users_words
from agent.provenance.texts import RUN, Indexed, Wanted, index, runs
from agent.provenance.tokens import Token, fold, spellings
from agent.safe_text import spelled
from tools.contract import contract_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool

LONGEST = 100_000
"""Characters of a value that is looked through for what it has of others' words."""

Origin = Literal["user", "trusted", "untrusted", "record", "reviewer", "model"]


class Part(TypedDict):
    """A piece of a longer value that stands in a result: ``value[start:end]``."""

    start: int
    end: int
    origin: Origin
    private: bool
    tool: str
    call: str | None


class Source(TypedDict):
    """One argument value: ``path`` such as ``items[0].id``, and where its text occurs.

    ``origin`` is ``user`` (the user wrote it), ``trusted`` (in a result of a tool whose results
    are no strangers' text), ``untrusted`` (only in strangers' text), ``record`` (of the write that
    the call undoes), ``reviewer`` (an edit) or ``model`` (nowhere: the model wrote it, or it is
    the schema's default). A longer text that strangers' words make up in part is ``untrusted``.

    ``tool`` names the tool, or what was attached, ``where`` the call with its arguments, and
    ``passage`` is what stands around it there. ``private``: it, or a part of it, stands in private
    data, and the user did not say it. ``parts`` are the pieces of a value that was not found whole.
    """

    path: str
    origin: Origin
    tool: str | None
    call: NotRequired[str]
    where: NotRequired[str]
    passage: NotRequired[str]
    private: NotRequired[bool]
    parts: NotRequired[list[Part]]


def trace(
    args: Mapping[str, Any],
    messages: Sequence[BaseMessage],
    tools: Mapping[str, BaseTool] | None = None,
    *,
    passages: bool = True,
) -> list[Source]:
    """Where each value among ``args`` occurs: the user's words first, then results.

    Booleans, nulls and empty values are left out: they occur everywhere.

    Args:
        tools: By name; the result of one that is not among them is untrusted and private.
        passages: Whether a person reads what stands around a value; a verdict does not, and
            finding the place takes longer than all the rest.
    """
    read = replace(_Read.of(messages, tools or {}), passages=passages)
    leaves = list(_leaves(args))
    sources = [read.source(path, value) for path, value in leaves]
    _join_pieces(sources, [value for _, value in leaves], read.strange)
    return sources


def values_of(args: Mapping[str, Any]) -> dict[str, Any]:
    """Each value by its path, as ``Source`` names it."""
    return dict(_leaves(args))


def from_the_record(args: Mapping[str, Any]) -> list[Source]:
    """The same of a call that was made from what is recorded of the write it undoes."""
    return [{"path": path, "origin": "record", "tool": None} for path, _ in _leaves(args)]


def after_an_edit(
    sources: Iterable[Mapping[str, Any]], before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The sources of edited arguments: what the reviewer left as it was keeps its own."""
    known, old = {source["path"]: source for source in sources}, values_of(before)
    return [
        known[path]
        if path in known and path in old and old[path] == value
        else Source(path=path, origin="reviewer", tool=None)
        for path, value in _leaves(after)
    ]


# --- what was read ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Given:
    """A text that nobody here has written: a result, or what a user attached."""

    text: Indexed
    tool: str
    trusted: bool
    private: bool
    call: str | None = None
    args: Mapping[str, Any] | None = None

    def holds(self, wanted: Wanted) -> bool:
        """Whether the value stands in it; what it only repeats of its call's arguments does not."""
        if not any(self.text.says(form.tokens) for form in wanted.forms):
            is_loose = not self.trusted or self.private
            return is_loose and any(self.text.holds(form.compact) for form in wanted.forms)
        return not (self.trusted and self._asked.says(wanted.tokens))

    def has_field(self, path: str, value: Any) -> bool:
        """Whether it has the value under a field of that name, which says more than its digits."""
        if not (word := _last_word(path)):
            return False
        said = re.escape(str(value))
        return re.search(rf'"\w*{word}"\s*:\s*"?{said}(?![\w.])', self.text.text, re.I) is not None

    @cached_property
    def where(self) -> str:
        if self.args is None:
            return self.tool
        said = ", ".join(f"{key}={canonical_json(value)}" for key, value in self.args.items())
        return f"{self.tool}({said if len(said) <= 100 else said[:99] + '…'})"

    @cached_property
    def _asked(self) -> Indexed:
        return index(canonical_json(self.args or {}))


@dataclass(frozen=True)
class _Read:
    """All that a session has read, the newest result first."""

    said: tuple[Indexed, ...]
    given: tuple[_Given, ...]
    passages: bool = True

    @classmethod
    def of(cls, messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool]) -> _Read:
        said = [index(text) for text in users_words(messages)]
        given: list[_Given] = []
        calls: dict[str, Mapping[str, Any]] = {}
        for message in messages:
            if message.type == "ai":
                calls |= {
                    call["id"]: call["args"]
                    for call in getattr(message, "tool_calls", ())
                    if call["id"]
                }
            elif message.type == "tool":
                given += _result(message, tools, calls)
            given += [
                _Given(index(one["text"]), one["source"], trusted=False, private=True)
                for one in attached_to(message)
            ]
        return cls(tuple(said), tuple(reversed(given)))

    @cached_property
    def strange(self) -> tuple[_Given, ...]:
        """What strangers wrote, or what is private."""
        return tuple(given for given in self.given if not given.trusted or given.private)

    def source(self, path: str, value: Any) -> Source:
        """Where one value occurs."""
        wanted = Wanted(str(value))
        if self._is_said(wanted):
            return {"path": path, "origin": "user", "tool": None}
        if found := self._found(path, value, wanted):
            best = min(found, key=lambda given: not given.trusted)
            private = any(given.private for given in found)
            return _source(path, best, private, self._passage(best, wanted))
        if not isinstance(value, str) or (len(wanted.tokens) < 2 and "://" not in value):
            return {"path": path, "origin": "model", "tool": None}
        return self._in_part(path, value, wanted)

    def _passage(self, given: _Given, wanted: Wanted) -> str:
        return given.text.passage(wanted.tokens) if self.passages else ""

    def _is_said(self, wanted: Wanted) -> bool:
        return any(text.says(form.tokens) for text in self.said for form in wanted.forms) or any(
            text.spells(wanted) for text in self.said
        )

    def _found(self, path: str, value: Any, wanted: Wanted) -> list[_Given]:
        found = [given for given in self.given if given.holds(wanted)]
        if len(wanted.tokens) != 1 or not _is_number(wanted.tokens[0]):
            return found
        named = [given for given in found if given.has_field(path, value)]
        # A single digit occurs everywhere.
        return named or (found if len(wanted.text) > 1 else [])

    def _in_part(self, path: str, value: str, wanted: Wanted) -> Source:
        if len(value) > LONGEST:
            return self._not_looked_through(path)
        look = self._look_for(value, wanted)
        parts = _merged([part for given in self.strange for part in _parts(look, given)])
        if not parts:
            return {"path": path, "origin": "model", "tool": None}
        foreign = [part for part in parts if part["origin"] == "untrusted"]
        first = (foreign or parts)[0]
        given = next(
            one for one in self.strange if (one.tool, one.call) == (first["tool"], first["call"])
        )
        piece = Wanted(value[first["start"] : first["end"]])
        private = any(part["private"] for part in parts)
        source = _source(path, given, private, self._passage(given, piece))
        source["origin"] = "untrusted" if foreign else "model"
        source["parts"] = parts
        return source

    def _not_looked_through(self, path: str) -> Source:
        """What is assumed of a value that is too long to be looked through: the worst."""
        if not self.strange:
            return {"path": path, "origin": "model", "tool": None}
        worst = min(self.strange, key=lambda given: given.trusted)
        return _source(path, worst, any(given.private for given in self.strange), "")

    def _look_for(self, value: str, wanted: Wanted) -> _Look:
        pieces = [(start, end, Wanted(value[start:end])) for start, end in _pieces(value)]
        telling = [one for one in pieces if _says_much(one[2]) and not self._is_said(one[2])]
        words = wanted.tokens if len(fold(value)) == len(value) else []
        rows = [
            (hash(row), words[at].start, words[at + RUN - 1].end)
            for at, row in enumerate(runs([token.text for token in words]))
            if not any(text.says(words[at : at + RUN]) for text in self.said)
        ]
        return _Look(telling, rows, frozenset(row for row, _, _ in rows))


class _Look(NamedTuple):
    """What of a longer value is looked for in each text, with its places in the value."""

    pieces: list[tuple[int, int, Wanted]]
    rows: list[tuple[int, int, int]]
    hashes: frozenset[int]


def _parts(look: _Look, given: _Given) -> Iterator[Part]:
    """The pieces of a value that one text has."""
    for start, end, wanted in look.pieces:
        if given.holds(wanted):
            yield _part(start, end, given)
    if shared := given.text.runs & look.hashes:
        yield from (_part(start, end, given) for row, start, end in look.rows if row in shared)


def _result(
    message: BaseMessage, tools: Mapping[str, BaseTool], calls: Mapping[str, Mapping[str, Any]]
) -> Iterator[_Given]:
    """A result as a text. An error is the harness's own words, but for what is marked."""
    name = getattr(message, "name", None) or "a tool"
    text, tool = message.additional_kwargs.get(RAW) or _text(message), tools.get(name)
    contract = contract_of(tool) if tool is not None else None
    is_marked = opening(name) in text
    if getattr(message, "status", "success") != "success" and not is_marked:
        return
    call = getattr(message, "tool_call_id", None)
    yield _Given(
        index(unmarked(text, name)),
        name,
        trusted=contract is not None and not contract.open_world and not is_marked,
        private=contract is None or contract.private,
        call=call,
        args=calls.get(call or ""),
    )


def _source(path: str, given: _Given, private: bool, passage: str) -> Source:
    source = Source(
        path=path,
        origin="trusted" if given.trusted else "untrusted",
        tool=given.tool,
        where=given.where,
    )
    if given.call:
        source["call"] = given.call
    if passage:
        source["passage"] = passage
    if private:
        source["private"] = True
    return source


# --- pieces of a value -----------------------------------------------------------------------

_PIECE = re.compile(r"[^\s/?&=#;,<>\"'()]+")
_FINER_PIECE = re.compile(r"[^\s/?&=#;,<>\"'()._|:~+]+")


def _pieces(value: str) -> list[tuple[int, int]]:
    """Where the pieces of a text are that could each be a value: of an address, of a list."""
    return list(
        dict.fromkeys(
            match.span() for cut in (_PIECE, _FINER_PIECE) for match in cut.finditer(value)
        )
    )


def _says_much(wanted: Wanted) -> bool:
    """Whether a piece is no word that occurs everywhere: an address, a code, an encoded text."""
    text = wanted.text
    if len(text) < 12 and text.isascii() and text.isalpha():  # most are: encoded ones are longer
        return False
    if len(wanted.forms) > 1 and any(len(form.tokens) > 1 for form in wanted.forms[1:]):
        return True
    return any(
        "@" in text or "://" in text or (len(text) >= 4 and any(c.isdigit() for c in text))
        for text in (token.text for form in wanted.forms for token in form.tokens)
    ) or (len(wanted.tokens) > 1 and "." in wanted.text)


def _part(start: int, end: int, given: _Given) -> Part:
    origin: Origin = "trusted" if given.trusted else "untrusted"
    return Part(
        start=start,
        end=end,
        origin=origin,
        private=given.private,
        tool=given.tool,
        call=given.call,
    )


def _merged(parts: list[Part]) -> list[Part]:
    """Parts in their order, those of one text that touch as one."""
    merged: list[Part] = []
    for part in sorted(parts, key=lambda one: (one["start"], one["origin"] == "trusted")):
        last = merged[-1] if merged else None
        if last is None or part["start"] > last["end"] + 1:
            merged.append(part)
        elif (part["tool"], part["call"]) == (last["tool"], last["call"]):
            merged[-1] = Part(**{**last, "end": max(last["end"], part["end"])})
        elif part["end"] > last["end"]:
            merged.append(part)
    return merged


MOST_PIECES = 4
"""Arguments that one value may be split over."""


def _join_pieces(sources: list[Source], values: Sequence[Any], strange: Sequence[_Given]) -> None:
    """Find values that were split over neighbouring arguments, so that none is found alone."""
    open_ = [source["origin"] in ("model", "untrusted") for source in sources]
    for start in range(len(sources)):
        for end in range(start + 2, min(start + MOST_PIECES, len(sources)) + 1):
            if not all(open_[start:end]):
                break
            if all(source["origin"] == "untrusted" for source in sources[start:end]):
                continue
            joined = Wanted("".join(str(value) for value in values[start:end]))
            given = next((one for one in strange if one.text.holds(joined.compact)), None)
            if given is not None and len(joined.compact) >= _SHORTEST_SPLIT:
                for place in range(start, end):
                    path = sources[place]["path"]
                    sources[place] = _source(path, given, given.private, "")


_SHORTEST_SPLIT = 8


def _is_number(token: Token) -> bool:
    return any(_NUMBER.fullmatch(text) for text in spellings(token))


_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def _last_word(path: str) -> str:
    """The last word of a path: ``revision`` of ``expected_revision``."""
    words = re.findall(r"[a-zA-Z]+", path)
    return words[-1] if words else ""


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{spelled(str(key))}" if path else spelled(str(key)))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{position}]")
    elif value is not None and value != "" and not isinstance(value, bool):
        yield path, value


def _text(message: BaseMessage) -> str:
    return message.text if isinstance(message.content, list) else str(message.content)
