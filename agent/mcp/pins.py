"""What a person has confirmed of MCP servers: how each is reached, and what its tools were then.

One file of the state folder, ``mcp-pins.json``, by the file that names a server and its name
there. Neither a file that changed nor a server that says something else today can change it.

Definitions are kept whole: a person compares them, and tools are made of them before the server
is started.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from agent.errors import McpError, UsageError
from agent.mcp.servers import ServerConfig
from agent.trust import locked, write_private

PINS_FILE = "mcp-pins.json"

MAX_CHARACTERS = 2_000_000
"""Of all definitions of a server as JSON; a host admits less."""

Definition = Mapping[str, Any]
"""One tool as the server lists it: ``name``, ``description``, ``inputSchema`` …, a JSON value."""


@dataclass(frozen=True)
class Change:
    """What is different about a tool: the members of its definition, when it was there before
    and still is."""

    tool: str
    kind: Literal["new", "changed", "gone"]
    parts: tuple[str, ...] = ()


def compare(pinned: Mapping[str, Definition], listed: Mapping[str, Definition]) -> list[Change]:
    """How the tools that a server lists differ from those that were pinned, by name.

    In the order of the list; those that are gone come last.
    """
    changes = []
    for tool, definition in listed.items():
        if tool not in pinned:
            changes.append(Change(tool, "new"))
        elif parts := _differing(pinned[tool], definition):
            changes.append(Change(tool, "changed", parts))
    changes += [Change(tool, "gone") for tool in pinned if tool not in listed]
    return changes


def _differing(before: Definition, after: Definition) -> tuple[str, ...]:
    """Members that are not the same JSON; Python's own ``==`` takes 1 for true."""
    names = dict.fromkeys((*before, *after))
    return tuple(
        name
        for name in names
        if (name in before) != (name in after) or _json(before[name]) != _json(after[name])
    )


def _json(value: Any) -> str:
    """One spelling, as ``canonical_json``; servers send numbers that JSON does not have, too."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


# --- the file --------------------------------------------------------------------------------


@dataclass
class _Row:
    """One server: what was confirmed and pinned, by whom, and when (ISO 8601)."""

    fingerprint: str = ""
    confirmed_by: str = ""
    confirmed_at: str = ""
    tools: dict[str, dict[str, Any]] | None = None
    pinned_by: str = ""
    pinned_at: str = ""
    held: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, raw: dict[str, Any]) -> _Row:
        """The row that was written.

        Raises:
            TypeError, AttributeError: It is none.
        """
        row = cls(**raw)
        texts = (row.fingerprint, row.confirmed_by, row.confirmed_at, row.pinned_by, row.pinned_at)
        tools = (row.tools if row.tools is not None else {}).values()
        if not all(isinstance(text, str) for text in (*texts, *row.held)):
            raise TypeError("a text is none")
        if not all(isinstance(tool, dict) for tool in tools):
            raise TypeError("a definition is no object")
        return row


_Rows = dict[str, dict[str, _Row]]


class Pins:
    """What a person has confirmed; reads the file again when another process has written it.

    Args:
        home: The state folder.
    """

    def __init__(self, home: Path) -> None:
        self.path = home / PINS_FILE
        self._seen: tuple[int, ...] | None = None
        self._rows: _Rows = {}
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why the file cannot be used, and what that means, as sentences; empty when it can."""
        self._load()
        return self._problem

    def is_confirmed(self, server: ServerConfig) -> bool:
        """Whether a person has confirmed exactly this command or address for this server."""
        return self._row(server).fingerprint == server.fingerprint

    def confirm(self, server: ServerConfig, by: str) -> None:
        """From now on the server may be started or reached as it is configured; ``by`` said so.

        What was pinned of its tools stays, and is what they are compared with.

        Raises:
            UsageError: It cannot be recorded.
        """
        with self._changing(server) as row:
            row.fingerprint = server.fingerprint
            row.confirmed_by, row.confirmed_at = by, _now()

    def definitions(self, server: ServerConfig) -> dict[str, Definition] | None:
        """The tools that were pinned, by the server's names; ``None`` when none ever were."""
        tools = self._row(server).tools
        return None if tools is None else {**tools}

    def pin(
        self,
        server: ServerConfig,
        definitions: Iterable[Definition],
        by: str,
        *,
        first: bool = False,
    ) -> list[Change]:
        """These are the server's tools from now on; what was pinned before is replaced.

        Args:
            first: Only if nothing was pinned yet; what another process has just pinned stays.

        Returns:
            What changed, or with ``first`` is different from what stays.

        Raises:
            McpError: They are no JSON, or more than ``MAX_CHARACTERS``; nothing was changed.
            UsageError: It cannot be recorded.
        """
        listed = {str(definition["name"]): dict(definition) for definition in definitions}
        try:
            size = len(_json(listed))
        except (TypeError, ValueError, RecursionError) as error:
            raise McpError(f"its tools cannot be pinned: {error}") from error
        if size > MAX_CHARACTERS:
            raise McpError(f"its tools cannot be pinned: they take {size} characters to define")
        with self._changing(server) as row:
            changes = compare(row.tools or {}, listed)
            if first and row.tools is not None:
                return changes
            row.tools, row.held = listed, []
            row.pinned_by, row.pinned_at = by, _now()
        return changes

    def note(self, server: ServerConfig, changes: Iterable[Change]) -> None:
        """Keep which tools were not as they were pinned when the server was last looked at.

        Raises:
            UsageError: It cannot be recorded.
        """
        held = [change.tool for change in changes]
        if self._row(server).held != held:
            with self._changing(server) as row:
                row.held = held

    def held(self, server: ServerConfig) -> list[str]:
        """The tools that :meth:`note` kept: they wait for a person to look at them."""
        return list(self._row(server).held)

    def forget(self, server: ServerConfig) -> None:
        """Nothing is confirmed or pinned of this server any more.

        Raises:
            UsageError: It cannot be recorded.
        """
        source, name = _key(server)
        with self._writing() as rows:
            rows.get(source, {}).pop(name, None)
            if not rows.get(source):
                rows.pop(source, None)

    # --- reading and writing -----------------------------------------------------------------

    def _row(self, server: ServerConfig) -> _Row:
        self._load()
        source, name = _key(server)
        return self._rows.get(source, {}).get(name) or _Row()

    def _load(self) -> None:
        """Read the file, unless it is the one that was read last."""
        try:
            found = self.path.stat()
            seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            if seen != self._seen:
                self._rows = _parsed(self.path.read_text(encoding="utf-8"))
                self._seen, self._problem = seen, ""
        except FileNotFoundError:
            self._rows, self._seen, self._problem = {}, None, ""
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            RecursionError,
        ) as error:
            self._rows, self._seen = {}, None
            self._problem = (
                f"{self.path} is damaged, so no MCP server counts as confirmed ({error}). What you "
                "confirm now replaces it."
            )

    @contextmanager
    def _changing(self, server: ServerConfig) -> Iterator[_Row]:
        source, name = _key(server)
        with self._writing() as rows:
            row = replace(rows.setdefault(source, {}).get(name, _Row()))
            rows[source][name] = row
            yield row

    @contextmanager
    def _writing(self) -> Iterator[_Rows]:
        """All rows, to be changed; written back at the end, unless that is an exception."""
        try:
            with locked(self.path.parent):
                self._load()
                rows = {source: dict(named) for source, named in self._rows.items()}
                yield rows
                plain = {
                    source: {name: vars(row) for name, row in named.items()}
                    for source, named in rows.items()
                }
                write_private(self.path, json.dumps({"servers": plain}))
        except OSError as error:
            raise UsageError(
                f"{self.path} cannot be written: {error.strerror}. Nothing was recorded."
            ) from error


def _parsed(text: str) -> _Rows:
    servers = json.loads(text)["servers"]
    return {s: {name: _Row.of(raw) for name, raw in named.items()} for s, named in servers.items()}


def _key(server: ServerConfig) -> tuple[str, str]:
    """The file and the name in it; one file has one name, whatever links lead to its folder."""
    return str(server.source.parent.resolve() / server.source.name), server.name


def _now() -> str:
    return datetime.now(UTC).isoformat()
