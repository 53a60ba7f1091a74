"""Files that people write for the suites: YAML, held against a model, faults with their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from agent.errors import InvalidFile
from agent.policy.document import FaultyText, Fields, Items, Node, Place, Scalar, parse

M = TypeVar("M", bound=BaseModel)

Path_ = tuple[str | int, ...]
"""Where in a document: names of fields, and places in lists from 0."""

SIZE_LIMIT = 4 * 1024 * 1024
"""Bytes of a file."""

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,30})")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,3})?")
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


@dataclass(frozen=True)
class Written(Generic[M]):
    """What a file says, and where it says it."""

    file: str
    value: M
    places: Mapping[Path_, Place]

    def at(self, *where: str | int) -> str:
        """``retail.yaml:12``, of this part or of what it stands in."""
        return f"{self.file}:{_nearest(self.places, where).line}"


def read_written(path: Path, model: type[M]) -> Written[M]:
    """Read a file and check it.

    Raises:
        InvalidFile: It cannot be read, is no YAML, or does not fit; each fault with its line.
    """
    try:
        data = path.read_bytes()
        if len(data) > SIZE_LIMIT:
            raise InvalidFile([f"{path.name}:1: it is larger than {SIZE_LIMIT // 1024} KiB"])
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidFile([f"{path}: it cannot be read ({error.strerror or error})"]) from None
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InvalidFile([f"{path.name}:{line}: this is not UTF-8"]) from None
    return read_text(text, model, path.name)


def read_text(text: str, model: type[M], file: str) -> Written[M]:
    """Check the text of a file; ``file`` is what it is called in faults.

    Raises:
        InvalidFile: Each fault with its line.
    """
    try:
        node = parse(text)
    except FaultyText as error:
        raise InvalidFile([f"{file}:{error.fault.place.line}: {error.fault.text}"]) from None
    if node is None:
        raise InvalidFile([f"{file}:1: it is empty"])
    places: dict[Path_, Place] = {}
    value = _plain(node, (), places)
    try:
        return Written(file, model.model_validate(value), places)
    except ValidationError as error:
        faults = [
            f"{file}:{_nearest(places, one['loc']).line}: {_named(one['loc'])}{_said(one)}"
            for one in error.errors(include_url=False, include_context=False)
        ]
        raise InvalidFile(list(dict.fromkeys(faults))) from None


def _plain(node: Node, where: Path_, places: dict[Path_, Place]) -> Any:
    places[where] = node.place
    match node:
        case Scalar():
            return node.text if node.quoted else _value(node.text)
        case Items():
            return [_plain(inner, (*where, at), places) for at, inner in enumerate(node.nodes)]
        case Fields():
            found = {}
            for key, inner in node.entries:
                found[key.text] = _plain(inner, (*where, key.text), places)
                places[*where, key.text] = key.place
            return found


def _value(word: str) -> Any:
    """A word without quotes as JSON understands it; every other one is text."""
    if word in _WORDS:
        return _WORDS[word]
    if _INTEGER.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) else word


def _nearest(places: Mapping[Path_, Place], where: Path_) -> Place:
    """The place of the innermost part that the text has; a validator may name more."""
    known: Path_ = ()
    for part in where:
        if (*known, part) in places:
            known = (*known, part)
    return places.get(known, Place(1, 1))


def _named(where: Path_) -> str:
    names = [str(part) for part in where if isinstance(part, str)]
    return f"{names[-1]}: " if names else ""


def _said(error: Any) -> str:
    match error["type"]:
        case "extra_forbidden":
            return "there is no such field"
        case "missing":
            return "it is missing"
    return str(error["msg"]).removeprefix("Value error, ")
