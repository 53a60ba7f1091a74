"""Reads ``.mcp.json``: which MCP servers there are, and how each is started.

::

    {
      "mcpServers": {
        "orders": {
          "command": "python",
          "args": ["-P", "-m", "mcp_servers.orders"],
          "env": {"ORDER_DESK_DB": "${HOME}/orders.db"},
          "sayso": {"trusted": true, "timeout": 30, "effects": {"get_order": ["read:orders"]}}
        }
      }
    }

``command``, ``args``, ``env`` and ``cwd`` are those of other MCP hosts. The ``sayso`` key is
ours and optional; :class:`ServerConfig` says what its parts mean.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from agent.errors import UsageError

DEFAULT_TIMEOUT = 30.0

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}")
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}?")
_EFFECT = re.compile(r"[a-z]+:[A-Za-z0-9_.-]+")
_SERVER_KEYS = ("type", "command", "args", "env", "cwd", "sayso")
_SAYSO_KEYS = ("trusted", "timeout", "effects")


@dataclass(frozen=True)
class ServerConfig:
    """How one stdio server is started, and how far it is believed.

    Args:
        name: Its key in the file.
        command: The program, with variables already put in.
        args: Its arguments, likewise.
        env: Variables the server gets beside the few that every child gets. Values may be
            secrets: they are neither in ``repr`` nor in ``command_line``.
        cwd: The folder it is started in; the file's own folder when none is given.
        trusted: Its ``readOnlyHint`` is believed. A tool of any other server is a write.
        timeout: Seconds one call may take.
        effects: What single tools may do, by the server's own tool names; wins over hints.
    """

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    trusted: bool = False
    timeout: float = DEFAULT_TIMEOUT
    effects: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name in characters that tool names, effects and file names may have."""
        return re.sub(r"[^a-zA-Z0-9_-]", "_", self.name)

    @property
    def command_line(self) -> str:
        """What would be started, for a person to confirm: quoted, values of ``env`` hidden."""
        variables = "".join(f"{name}=… " for name in self.env)
        folder = f"  (in {self.cwd})" if self.cwd else ""
        return variables + shlex.join([self.command, *self.args]) + folder


def parse_config(text: str, path: Path, environment: Mapping[str, str]) -> list[ServerConfig]:
    """The servers of a ``.mcp.json``, in its order.

    It takes a text that was read before: what a person confirmed is what is used.

    Args:
        text: The contents of the file.
        path: Where it came from; relative folders in it start there.
        environment: Where the values of ``${VAR}`` and ``${VAR:-default}`` come from.

    Raises:
        UsageError: It is not JSON, has an unknown shape or names a variable that is not set;
            the message has the file and the line.
    """
    return _Reader(text, path, environment).servers()


class _Reader:
    """One reading of one file: every complaint knows the place it is about."""

    def __init__(self, text: str, path: Path, environment: Mapping[str, str]) -> None:
        self.text, self.path, self.environment = text, path, environment

    def servers(self) -> list[ServerConfig]:
        try:
            document = json.loads(self.text, object_pairs_hook=_without_duplicates)
        except json.JSONDecodeError as error:
            raise UsageError(
                f"{self.path}, line {error.lineno}: not valid JSON: {error.msg}."
            ) from error
        except (_DuplicateKeyError, RecursionError) as error:
            raise UsageError(f"{self.path}: {error}.") from error
        if not isinstance(document, dict):
            self.fail((), "expected an object with the key mcpServers")
        entries = document.get("mcpServers")
        if not isinstance(entries, dict):
            self.fail(("mcpServers",), "expected mcpServers to be an object of servers by name")
        return self.distinct([self.server(name, entry) for name, entry in entries.items()])

    def server(self, name: str, entry: Any) -> ServerConfig:
        at: _Place = ("mcpServers", name)
        if not name.strip():
            self.fail(at, "a server needs a name")
        if not isinstance(entry, dict):
            self.fail(at, f"expected server {name!r} to be an object with the key command")
        if "url" in entry or entry.get("type", "stdio") != "stdio":
            self.fail(
                at,
                f"server {name!r} is reached over the network; only servers started by a "
                "command (stdio) can be used yet. Remove it, or use its stdio form",
            )
        self.known_keys(at, entry, _SERVER_KEYS)
        if not isinstance(entry.get("command"), str) or not entry["command"].strip():
            self.fail(at, f"server {name!r} needs a command (a text)")
        believed = self.typed(at, entry, "sayso", dict, "an object", {})
        self.known_keys((*at, "sayso"), believed, _SAYSO_KEYS)
        return ServerConfig(
            name=name,
            command=self.expand((*at, "command"), entry["command"]),
            args=self.arguments(at, entry),
            env=self.variables(at, entry),
            cwd=self.folder(at, entry),
            trusted=self.typed((*at, "sayso"), believed, "trusted", bool, "true or false", False),
            timeout=self.seconds((*at, "sayso"), believed),
            effects=self.effects((*at, "sayso"), believed),
        )

    def arguments(self, at: _Place, entry: dict[str, Any]) -> tuple[str, ...]:
        args = self.typed(at, entry, "args", list, "a list of texts", [])
        if not all(isinstance(arg, str) for arg in args):
            self.fail((*at, "args"), "expected args to be a list of texts")
        return tuple(self.expand((*at, "args"), arg) for arg in args)

    def variables(self, at: _Place, entry: dict[str, Any]) -> dict[str, str]:
        env = self.typed(at, entry, "env", dict, "an object of texts", {})
        for name, value in env.items():
            if not isinstance(value, str):
                self.fail((*at, "env", name), f"expected {name} to be a text")
            if not name or "=" in name or name.upper().startswith("SAYSO_"):
                self.fail((*at, "env", name), f"{name!r} cannot be given to a server")
        return {name: self.expand((*at, "env", name), value) for name, value in env.items()}

    def folder(self, at: _Place, entry: dict[str, Any]) -> Path:
        cwd = self.typed(at, entry, "cwd", str, "a folder's path", ".")
        return (self.path.parent / self.expand((*at, "cwd"), cwd)).absolute()

    def seconds(self, at: _Place, believed: dict[str, Any]) -> float:
        value = believed.get("timeout", DEFAULT_TIMEOUT)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
            self.fail((*at, "timeout"), "expected timeout to be seconds, above 0 and up to 3600")
        return float(value)

    def effects(self, at: _Place, believed: dict[str, Any]) -> dict[str, frozenset[str]]:
        table = self.typed(at, believed, "effects", dict, "an object", {})
        return {tool: self.effect_set((*at, "effects", tool), table[tool]) for tool in table}

    def effect_set(self, at: _Place, value: Any) -> frozenset[str]:
        if not isinstance(value, list) or not value:
            self.fail(at, 'expected a list of effects, such as ["read:calendar"]')
        for effect in value:
            if not isinstance(effect, str) or not _EFFECT.fullmatch(effect):
                self.fail(at, f"{effect!r} is not an effect; one looks like write:calendar")
        return frozenset(value)

    def distinct(self, servers: list[ServerConfig]) -> list[ServerConfig]:
        """Refuse two servers whose tools would get the same names."""
        seen: dict[str, ServerConfig] = {}
        for server in servers:
            other = seen.setdefault(server.id, server)
            if other is not server:
                self.fail(
                    ("mcpServers", server.name),
                    f"servers {other.name!r} and {server.name!r} both become {server.id!r} "
                    "in tool names; rename one",
                )
        return servers

    def expand(self, at: _Place, text: str) -> str:
        """Put in the values of ``${VAR}`` and ``${VAR:-default}``, once: values are not read."""

        def value(placeholder: re.Match[str]) -> str:
            match = _VARIABLE.fullmatch(placeholder[0])
            if match is None:
                self.fail(
                    at, f"cannot read {placeholder[0]!r}; write ${{VAR}} or ${{VAR:-default}}"
                )
            name, default = match["name"], match["default"]
            if default is not None:
                return self.environment.get(name) or default
            if name not in self.environment:
                self.fail(
                    at, f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
                )
            return self.environment[name]

        expanded = _PLACEHOLDER.sub(value, text)
        if "\0" in expanded:
            self.fail(at, "a text here contains a NUL character")
        return expanded

    def typed(
        self, at: _Place, entry: dict[str, Any], key: str, kind: type, words: str, default: Any
    ) -> Any:
        value = entry.get(key, default)
        if not isinstance(value, kind):
            self.fail((*at, key), f"expected {key} to be {words}")
        return value

    def known_keys(self, at: _Place, entry: dict[str, Any], known: tuple[str, ...]) -> None:
        # Not ignored: a key such as "disabled" changes what the writer of the file expects.
        for key in entry:
            if key not in known:
                self.fail((*at, key), f"unknown key {key!r}; known are {', '.join(known)}")

    def fail(self, at: _Place, message: str) -> NoReturn:
        raise UsageError(f"{self.path}, line {line_of(self.text, at)}: {message}.")


_Place = tuple[str, ...]


class _DuplicateKeyError(ValueError):
    """One object has a key twice."""


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # JSON readers disagree on which of two wins, so a person may have seen the other one.
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise _DuplicateKeyError(f"the key {key!r} is there twice in one object")
        members[key] = value
    return members


def line_of(text: str, keys: _Place) -> int:
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
