"""Reads the files that name MCP servers: which there are, and how each is reached.

::

    {
      "mcpServers": {
        "orders": {
          "command": "python",
          "args": ["-P", "-m", "mcp_servers.orders"],
          "env": {"ORDER_DESK_DB": "${HOME}/orders.db"},
          "sayso": {
            "trusted": true,
            "timeout": 30,
            "tools": {"get_order": {"effects": ["read:orders"], "open_world": false}}
          }
        },
        "docs": {"type": "http", "url": "https://docs.example/mcp"}
      }
    }

``type``, ``command``, ``args``, ``env``, ``envFile``, ``cwd``, ``url`` and ``headers`` are those of
other MCP hosts, whose files are read as they are (``document``), variables included
(``variables``). The ``sayso`` key is ours and optional:

* ``trusted``, ``timeout``: see :class:`agent.mcp.servers.ServerConfig`;
* ``insecure``: requests may leave this machine unencrypted (``http://``);
* ``tools``: what is said of single tools, by the server's own names for them; the members are
  those of :class:`agent.mcp.servers.Claims`.

A fault in what is said of one server costs that server, not the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.canonical import canonical_json
from agent.config import parse_env
from agent.errors import UsageError
from agent.mcp.configuration.believed import read_believed
from agent.mcp.configuration.document import Document, Place, read_document
from agent.mcp.configuration.members import FaultError, fail, is_ours, known_keys, typed
from agent.mcp.configuration.variables import Ask, VariableError, Variables
from agent.mcp.servers import Http, ServerConfig, Stdio, Transport
from agent.safe_text import one_line, shorten
from agent.trust import read_small

MAX_NAME = 100
MAX_SHOWN = 4_000
"""Characters of what would be started or reached; nobody confirms more by looking at it."""

STDIO_KEYS = ("command", "args", "env", "envFile", "cwd")
HTTP_KEYS = ("url", "headers")
REACHING = ("type", *STDIO_KEYS, *HTTP_KEYS)
KNOWN_KEYS = (*REACHING, "disabled", "sayso")
WITHOUT_EFFECT = (
    *("autoApprove", "alwaysAllow", "trust", "timeout", "oauth"),
    *("description", "icon", "gallery", "version", "dev"),
)
"""Keys of other hosts that change neither which server it is nor what it may do here."""

_HTTP_TYPES = ("http", "streamable-http", "streamableHttp", "sse")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OF_THE_TRANSPORT = ("host", "content-length", "transfer-encoding", "mcp-session-id")


@dataclass(frozen=True)
class Entry:
    """A server of a file.

    Args:
        server: How it is reached.
        line: Where in the file it stands.
        details: What a person who confirms it should know beside ``transport.shown``; clauses.
    """

    server: ServerConfig
    line: int
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Problem:
    """Why one server of a file cannot be used; as a string, a sentence for a person."""

    server: str
    path: Path
    line: int
    why: str

    def __str__(self) -> str:
        why = f"MCP server {self.server[:MAX_NAME]!r} is left out: {shorten(self.why, 500)}."
        return f"{one_line(str(self.path))}, line {self.line}: {one_line(why)}"


@dataclass(frozen=True)
class Configuration:
    """What files say about servers: those that can be used, those that cannot, and sentences
    about what was read and has no effect."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def servers(self) -> tuple[ServerConfig, ...]:
        """How those that can be used are reached."""
        return tuple(entry.server for entry in self.entries)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Problems and notices, as sentences."""
        return (*map(str, self.problems), *self.notices)


def parse_config(
    text: str,
    path: Path,
    environment: Mapping[str, str],
    *,
    folder: Path | None,
    ask: Ask | None = None,
) -> Configuration:
    """The servers of a file, in its order.

    It takes a text that was read before: what a person confirmed is what is used. Only the files
    that ``envFile`` names are read.

    Args:
        text: The contents of the file.
        path: Where it came from.
        environment: Where the values of variables come from.
        folder: The folder that it belongs to: relative paths start there, servers are started
            there, and no file outside of it is read. ``None`` for a person's own file, which
            belongs to no folder: paths in it are whole, and servers are started in their home.
        ask: Asks a person for VS Code's inputs; without it, one whose variable is not set is a
            problem of the server that needs it.

    Raises:
        UsageError: It is not JSON or has another outline; the message has the file and the line.
    """
    document = read_document(text, path)
    readers = [_Reader(document, name, environment, folder, ask) for name in document.entries]
    return together([reader.read() for reader in readers])


def together(configurations: Iterable[Configuration]) -> Configuration:
    """One configuration of several.

    Of two servers whose tools would get the same names the later one is left out.
    """
    seen: dict[str, Entry] = {}
    problems: list[Problem] = []
    notices: list[str] = []
    for one in configurations:
        notices += one.notices
        problems += one.problems
        for entry in one.entries:
            other = seen.setdefault(entry.server.id, entry)
            if other is not entry:
                problems.append(_collision(entry, other.server))
    return Configuration(tuple(seen.values()), tuple(problems), tuple(notices))


def _collision(entry: Entry, other: ServerConfig) -> Problem:
    server = entry.server
    place = f" of {one_line(str(other.source))}" if other.source != server.source else ""
    why = (
        f"it and {other.name!r}{place} both become {server.id!r} in tool names; rename one of them"
    )
    return Problem(server.name, server.source, entry.line, why)


class _Reader:
    """One reading of one server: every complaint knows the place it is about."""

    def __init__(
        self,
        document: Document,
        name: str,
        environment: Mapping[str, str],
        folder: Path | None,
        ask: Ask | None,
    ) -> None:
        self.document, self.name, self.folder = document, name, folder
        self.entry: Any = document.entries[name]
        home = Path(environment.get("HOME") or Path.home())
        self.start = folder or home
        self.variables = Variables(environment, home, folder, document.inputs, ask)
        self.details: list[str] = []

    def read(self) -> Configuration:
        try:
            return self.configuration()
        except FaultError as fault:
            line = self.document.line(self.name, *fault.at)
            return Configuration(
                problems=(Problem(self.name, self.document.path, line, fault.why),)
            )

    def configuration(self) -> Configuration:
        self.check_outline()
        if self.member("disabled", bool, "true or false", False):
            return Configuration(notices=(self.notice("is disabled, so it is not used"),))
        known_keys((), self.entry, KNOWN_KEYS, WITHOUT_EFFECT)
        server = self.server()
        if len(server.transport.shown) > MAX_SHOWN:
            fail((), f"what it runs or reaches is longer than {MAX_SHOWN} characters")
        entry = Entry(server, self.document.line(self.name), tuple(self.details))
        return Configuration(entries=(entry,), notices=tuple(self.idle_keys()))

    def check_outline(self) -> None:
        if not self.name.strip():
            fail((), "a server needs a name")
        if len(self.name) > MAX_NAME:
            fail((), f"its name is longer than {MAX_NAME} characters")
        if not isinstance(self.entry, dict):
            fail((), "expected an object with the key command or url")

    def idle_keys(self) -> list[str]:
        """A notice about the keys that have no effect here."""
        idle = [key for key in WITHOUT_EFFECT if key in self.entry]
        if not idle:
            return []
        has = "have" if len(idle) > 1 else "has"
        why = f"{', '.join(idle)} {has} no effect here: writes wait for you"
        if "timeout" in idle:
            why += ', and the time a call may take is {"sayso": {"timeout": seconds}}'
        return [self.notice(f"is used, but {why}")]

    def notice(self, what: str) -> str:
        said = one_line(f"MCP server {self.name!r} {what}.")
        return f"{one_line(str(self.document.path))}: {said}"

    def server(self) -> ServerConfig:
        believed = read_believed(self.entry)
        transport, values = self.transport(insecure=believed.insecure)
        if self.variables.taken:
            self.details.append(f"takes {', '.join(self.variables.taken)} from your environment")
        self.details += believed.details()
        return ServerConfig(
            name=self.name,
            transport=transport,
            source=self.document.path,
            written=self.written(values),
            trusted=believed.trusted,
            timeout=believed.timeout,
            claims=believed.claims,
        )

    def written(self, values: str | None) -> str:
        """See ``ServerConfig.written``; ``values`` is the text of the ``envFile``."""
        said = {key: self.entry[key] for key in REACHING if key in self.entry}
        return hashlib.sha256(canonical_json([said, values]).encode()).hexdigest()

    # --- how it is reached -------------------------------------------------------------------

    def transport(self, *, insecure: bool) -> tuple[Transport, str | None]:
        """How it is reached, and the text of the file that values are taken from."""
        kind = self.member("type", str, "a text", None)
        if kind is None:
            if ("command" in self.entry) == ("url" in self.entry):
                fail((), "it needs a command or a url, and not both")
            kind = "stdio" if "command" in self.entry else "http"
        if kind == "stdio":
            self.none_of(HTTP_KEYS, "is started by a command")
            return self.stdio()
        if kind not in _HTTP_TYPES:
            fail(("type",), f"expected type to be stdio, {', '.join(_HTTP_TYPES)}")
        self.none_of(STDIO_KEYS, "is reached by its url")
        return Http(self.url(insecure=insecure), self.headers(), sse=kind == "sse"), None

    def none_of(self, keys: tuple[str, ...], kind: str) -> None:
        for key in keys:
            if key in self.entry:
                fail((key,), f"it {kind}, so {key} means nothing")

    def stdio(self) -> tuple[Stdio, str | None]:
        command = self.member("command", str, "a text", "")
        if not command.strip():
            fail(("command",), "it needs a command")
        command = self.expand(("command",), command)
        if not command.strip():
            fail(("command",), "its command is empty once the variables are put in")
        arguments = self.member("args", list, "a list of texts", [])
        if not all(isinstance(argument, str) for argument in arguments):
            fail(("args",), "expected args to be a list of texts")
        args = tuple(self.expand(("args",), argument) for argument in arguments)
        own = self.texts("env", _check_variable)
        text, values = self.env_file()
        return Stdio(command, args, {**values, **own}, self.path("cwd") or self.start), text

    def env_file(self) -> tuple[str | None, dict[str, str]]:
        """The text of the file that variables are taken from, and what it gives."""
        path = self.path("envFile")
        if path is None:
            return None, {}
        at = ("envFile",)
        try:
            path = path.resolve()
            if self.folder is not None and not path.is_relative_to(self.folder.resolve()):
                fail(at, f"{path} is outside of the folder that this file belongs to")
            text = read_small(path)
            if text is None:
                fail(at, f"there is no file {path}")
            values = {n: v for n, v in parse_env(text).items() if not is_ours(n)}
            for name, value in values.items():
                _check_variable(at, name, value)
        except (UsageError, OSError, RuntimeError) as error:
            fail(at, f"{path} cannot be used: {str(error).rstrip('.')}")
        if values:
            self.details.append(f"takes {', '.join(values)} from {path}")
        return text, values

    def path(self, key: str) -> Path | None:
        value = self.member(key, str, "a path", None)
        if value is None:
            return None
        path = Path(self.expand((key,), value))
        if self.folder is None and not path.is_absolute():
            fail((key,), f"expected {key} to be a whole path: this file belongs to no folder")
        return self.start / path

    def url(self, *, insecure: bool) -> str:
        url = self.expand(("url",), self.member("url", str, "an address", ""))
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https"):
            fail(("url",), "expected url to be http:// or https:// with a host")
        if not (url.isascii() and url.isprintable()) or " " in url:
            fail(("url",), "expected url to be printable ASCII without spaces")
        if "@" in parts.netloc:
            fail(("url",), "a user or a password in the url is not used; put it into headers")
        if parts.scheme == "http" and not _is_loopback(host):
            if not insecure:
                fail(
                    ("url",),
                    "http:// to another machine can be read on the way; use https://, or add "
                    '"sayso": {"insecure": true}',
                )
            self.details.append("requests to it are not encrypted")
        return url

    def headers(self) -> dict[str, str]:
        headers = self.texts("headers", _check_header)
        if len({name.lower() for name in headers}) < len(headers):
            fail(("headers",), "one header is there twice")
        return headers

    # --- members -----------------------------------------------------------------------------

    def texts(self, key: str, check: Callable[[Place, str, str], None]) -> dict[str, str]:
        """An object of texts, their variables put in, each looked at by ``check``."""
        values = {}
        for name, value in self.member(key, dict, "an object of texts", {}).items():
            if not isinstance(value, str):
                fail((key, name), f"expected {name[:100]} to be a text")
            values[name] = self.expand((key, name), value)
            check((key, name), name, values[name])
        return values

    def member(self, key: str, kind: type, words: str, default: Any) -> Any:
        return typed((), self.entry, key, kind, words, default)

    def expand(self, at: Place, text: str) -> str:
        try:
            return self.variables.expand(text)
        except VariableError as error:
            fail(at, str(error))


def _check_variable(at: Place, name: str, value: str) -> None:
    if not name or "=" in name or "\0" in name + value or is_ours(name):
        fail(at, f"{name[:100]!r} cannot be given to a server")


def _check_header(at: Place, name: str, value: str) -> None:
    if not _HEADER.fullmatch(name) or name.lower() in _OF_THE_TRANSPORT:
        fail(at, f"{name[:100]!r} cannot be a header here")
    if not (value.isascii() and value.isprintable()) or value != value.strip():
        fail(at, f"the value of {name} must be printable ASCII, without spaces around it")


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
