"""A file that names MCP servers, as a document: its outline, and where in it something stands.

Several outlines are in use: ``{"mcpServers": {…}}`` (``.mcp.json``, Claude Desktop, Cursor),
``{"servers": {…}, "inputs": […]}`` (VS Code) and ``{"context_servers": {…}}`` (Zed). A file may
have more than one of them. Comments and a comma too many, which their editors allow, are read over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import UsageError
from agent.safe_text import one_line

MAX_SERVERS = 100
"""In one file; nobody confirms more than that by looking at them."""

OUTLINES = ("mcpServers", "servers", "context_servers")
"""The keys under which servers stand; those of the first come first."""

Place = tuple[str, ...]
"""Object keys from the outside in."""

# Everything is matched to its end, closed or not: no text makes the search start over and over.
_STRING = r'"(?:[^"\\]|\\.)*+"?'
_COMMENT = re.compile(rf"{_STRING}|(?P<out>//[^\n]*|/\*(?:.*?\*/|.*))", re.DOTALL)
_LAST_COMMA = re.compile(rf"{_STRING}|(?P<out>,(?=\s*[}}\]]))", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Written:
    """One server as a file has it.

    Args:
        outline: The key under which it stands, one of ``OUTLINES``.
        name: Its name there.
        entry: What is said of it; not looked at.
    """

    outline: str
    name: str
    entry: Any


@dataclass(frozen=True)
class Document:
    """A file that was read.

    Args:
        path: Where it came from.
        text: Its contents as plain JSON: what is no JSON is blank, and every place is the same.
        servers: All of them; a name may be there once under each outline.
        inputs: What VS Code asks for, as written.
        commented: It has comments, which would be lost if it were written anew.
    """

    path: Path
    text: str
    servers: tuple[Written, ...]
    inputs: Sequence[Any] = ()
    commented: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its servers, each once."""
        return tuple(dict.fromkeys(server.name for server in self.servers))

    def line(self, server: Written, *keys: str) -> int:
        """The line (from 1) of a server's member that ``keys`` lead to, or of the last one that
        exists."""
        return line_of(self.text, (server.outline, server.name, *keys))


def read_document(text: str, path: Path) -> Document:
    """Read the outline of a file; what its servers say is not looked at.

    Raises:
        UsageError: It is no JSON, has another outline, or more servers than ``MAX_SERVERS``; the
            message has the file and, where there is one, the line.
    """
    uncommented = _blank(_COMMENT, text)
    plain = _blank(_LAST_COMMA, uncommented)
    content = _load(plain, path)
    if not isinstance(content, dict):
        raise _refused(path, 1, 'expected an object with the key "mcpServers"')
    outlines = [key for key in OUTLINES if key in content]
    if not outlines:
        raise _refused(path, 1, 'expected the key "mcpServers", or "servers" as in VS Code')
    kinds = [(key, dict, "an object of servers by name") for key in outlines]
    for key, kind, words in (*kinds, ("inputs", list, "a list")):
        if not isinstance(value := content.get(key, kind()), kind):
            why = f"expected {key} to be {words}, got {kind_of(value)}"
            raise _refused(path, line_of(plain, (key,)), why)
    servers = tuple(
        Written(key, name, entry) for key in outlines for name, entry in content[key].items()
    )
    if len(servers) > MAX_SERVERS:
        raise _refused(
            path,
            line_of(plain, (outlines[0],)),
            f"there are {len(servers)} servers, and at most {MAX_SERVERS} in one file are used",
        )
    inputs = content.get("inputs", [])
    return Document(path, plain, servers, inputs, commented=uncommented != text)


def kind_of(value: Any) -> str:
    """What a JSON value is, in words that have nothing of it: it may be a secret."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return "a text"
        case int() | float():
            return "a number"
    return "an object" if isinstance(value, dict) else "a list"


def _refused(path: Path, line: int, message: str) -> UsageError:
    return UsageError(f"{one_line(str(path))}, line {line}: {message}.")


def _blank(pattern: re.Pattern[str], text: str) -> str:
    """Put spaces in the place of what the group ``out`` finds; lines stay lines."""

    def blanked(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0]) if match["out"] else match[0]

    return pattern.sub(blanked, text)


def _load(text: str, path: Path) -> Any:
    try:
        content = json.loads(
            text, object_pairs_hook=_without_duplicates, parse_constant=_no_constant
        )
        if _SURROGATE.search(json.dumps(content, ensure_ascii=False)):
            raise ValueError("a text in it holds half a character (a lone surrogate)")
    except json.JSONDecodeError as error:
        raise _refused(path, error.lineno, f"not valid JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{one_line(str(path))}: {error}.") from error
    return content


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # JSON readers disagree on which of two wins, so a person may have seen the other one.
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"the key {key[:100]!r} is there twice in one object")
        members[key] = value
    return members


# --- where something stands ------------------------------------------------------------------


def line_of(text: str, keys: Place) -> int:
    """The line (from 1) of the member that ``keys`` lead to, or of the last one that exists.

    Args:
        text: Valid JSON.
        keys: Object keys from the outside in.
    """
    found = value_at = _skip(text, 0)
    for wanted in keys:
        place = next((at for key, *at in _members(text, value_at) if key == wanted), None)
        if place is None:
            break
        found, value_at = place
    return text.count("\n", 0, found) + 1


def _members(text: str, position: int) -> Iterator[tuple[str, int, int]]:
    """Key, place of the key and place of the value of each member of the object there."""
    if text[position] != "{":
        return
    decode = json.JSONDecoder().raw_decode
    position = _skip(text, position + 1)
    while text[position] != "}":
        key_at = position
        key, end = decode(text, key_at)
        value_at = _skip(text, end)
        yield key, key_at, value_at
        _, end = decode(text, value_at)
        position = _skip(text, end)


def _skip(text: str, position: int) -> int:
    """The place of the next character that says something."""
    while text[position] in " \t\r\n,:":
        position += 1
    return position
