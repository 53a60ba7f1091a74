"""A YAML text as nodes that know their place: the one reader of YAML.

Words stay words: what a value means is decided where it is read, so ``no`` and ``on`` never turn
into booleans by themselves. What a policy has no use for, and what can hide something or grow
without bounds, is refused: anchors and aliases, tags, several documents, a key given twice, deep
nesting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

DEEPEST = 12
"""Lists and maps inside each other."""

MOST = 500_000
"""Values of a text, names of fields among them; ten thousand rules have a fifth of that."""


@dataclass(frozen=True, order=True)
class Place:
    """Where something stands in a text; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Fault:
    """What is wrong at a place, and what to write instead."""

    place: Place
    text: str

    def at(self, file: str) -> str:
        """``policy.yaml:12:5: …``"""
        return f"{file}:{self.place.line}:{self.place.column}: {self.text}"


class FaultyText(Exception):
    """The text is no YAML, or has something in it that is refused."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.text)


@dataclass(frozen=True)
class Scalar:
    """A word, a number or a text, as it is written; ``quoted`` is never a number or a boolean."""

    place: Place
    text: str
    quoted: bool


@dataclass(frozen=True)
class Items:
    """A list."""

    place: Place
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Fields:
    """A map: each key with its own place and its value."""

    place: Place
    entries: tuple[tuple[Scalar, Node], ...]


Node = Scalar | Items | Fields


def parse(text: str) -> Node | None:
    """The one document of a text; ``None`` where there is none.

    Raises:
        FaultyText: With the place.
    """
    loader: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
    try:
        return _document(yaml.parse(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        raise FaultyText(_explained(error, text)) from error
    except yaml.YAMLError as error:
        raise FaultyText(_unreadable(error, text)) from error
    except UnicodeEncodeError as error:
        raise FaultyText(Fault(_at(text, error.start), "half a character")) from error


def _document(events: Iterator[Event]) -> Node | None:
    document: Node | None = None
    events = _counted(events)
    for event in events:
        if isinstance(event, DocumentStartEvent):
            if document is not None:
                raise FaultyText(Fault(_place(event), "a second document; there is one a file"))
            document = _node(next(events), events, 1)
    return document


def _counted(events: Iterator[Event]) -> Iterator[Event]:
    for number, event in enumerate(events):
        if number > MOST:
            raise FaultyText(Fault(_place(event), f"more than {MOST:,} values"))
        yield event


def _node(event: Event, events: Iterator[Event], depth: int) -> Node:
    place = _place(event)
    if isinstance(event, AliasEvent) or getattr(event, "anchor", None) is not None:
        raise FaultyText(
            Fault(place, "anchors (&) and aliases (*) are not used here; write the value out, or "
                  "put a text that begins so in quotes")
        )  # fmt: skip
    if getattr(event, "tag", None) is not None:
        raise FaultyText(
            Fault(place, "tags (!) are not used here; put a text that begins so in quotes")
        )
    if isinstance(event, ScalarEvent):
        return Scalar(place, event.value, quoted=event.style not in (None, ""))
    if depth > DEEPEST:
        raise FaultyText(Fault(place, "lists and maps are nested too deeply"))
    if isinstance(event, SequenceStartEvent):
        nodes = []
        while not isinstance(inner := next(events), SequenceEndEvent):
            nodes.append(_node(inner, events, depth + 1))
        return Items(place, tuple(nodes))
    assert isinstance(event, MappingStartEvent)
    return Fields(place, _entries(events, depth))


def _entries(events: Iterator[Event], depth: int) -> tuple[tuple[Scalar, Node], ...]:
    found: dict[str, tuple[Scalar, Node]] = {}
    while not isinstance(event := next(events), MappingEndEvent):
        key = _node(event, events, depth + 1)
        if not isinstance(key, Scalar):
            raise FaultyText(Fault(key.place, "the name of a field is expected here"))
        if key.text in found:
            first = found[key.text][0].place.line
            raise FaultyText(
                Fault(key.place, f"{key.text!r} was given already, in line {first}; one would "
                      "silently win")
            )  # fmt: skip
        found[key.text] = (key, _node(next(events), events, depth + 1))
    return tuple(found.values())


def _place(event: Event) -> Place:
    mark = event.start_mark
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)


def _explained(error: yaml.MarkedYAMLError, text: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return _unreadable(error, text)
    place = Place(mark.line + 1, mark.column + 1)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: mark.column + 1]:
        return Fault(place, "a tab; YAML is indented with spaces")
    problem = error.problem or "it cannot be read"
    if "nesting" in problem:
        return Fault(place, "lists and maps are nested too deeply")
    hint = (
        ". A condition that begins with a quote, or has a colon in it, goes between quotes as a "
        "whole: when: '\"untrusted\" in labels'"
        if "when:" in "\n".join(lines[max(mark.line - 1, 0) : mark.line + 1])
        else ""
    )
    return Fault(place, f"this is not YAML: {problem}{hint}")


def _unreadable(error: yaml.YAMLError, text: str) -> Fault:
    """What the reader says of a character that YAML does not have."""
    position = getattr(error, "position", None)
    if not isinstance(position, int):
        return Fault(Place(1, 1), f"this is not YAML: {' '.join(str(error).split())}")
    return Fault(_at(text, position), "a control character, which YAML does not have")


def _at(text: str, position: int) -> Place:
    before = text[:position]
    return Place(before.count("\n") + 1, position - before.rfind("\n"))
