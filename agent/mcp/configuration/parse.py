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
(``variables``); what else they write is in ``foreign``. The ``sayso`` key is ours and optional:

* ``trusted``, ``timeout``: see :class:`agent.mcp.servers.ServerConfig`;
* ``insecure``: requests may leave this machine unencrypted (``http://``);
* ``tools``: what is said of single tools, by the server's own names for them; the members are
  those of :class:`agent.mcp.servers.Claims`.

A fault in what is said of one server costs that server, not the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from agent.canonical import canonical_json
from agent.config import parse_env
from agent.errors import UsageError
from agent.mcp.addresses import read_address
from agent.mcp.configuration.believed import read_believed
from agent.mcp.configuration.document import Document, Place, Written, kind_of, read_document
from agent.mcp.configuration.foreign import (
    SWITCHES,
    idle_keys,
    is_switched_off,
    why_costly,
    with_our_names,
)
from agent.mcp.configuration.members import (
    FaultError,
    fail,
    is_ours,
    known_keys,
    typed,
    unexpected,
)
from agent.mcp.configuration.showing import address, command_line, decides
from agent.mcp.configuration.variables import Ask, Expanded, VariableError, Variables
from agent.mcp.servers import Http, ServerConfig, Stdio, Transport
from agent.safe_text import one_line, shorten
from agent.trust import read_small

MAX_NAME = 100
MAX_SHOWN = 4_000
"""Characters of what would be started or reached; nobody confirms more by looking at it."""

STDIO_KEYS = ("command", "args", "env", "envFile", "cwd")
HTTP_KEYS = ("url", "headers")
REACHING = ("type", *STDIO_KEYS, *HTTP_KEYS)
KNOWN_KEYS = (*REACHING, *SWITCHES, "sayso")

_STDIO_TYPES = ("stdio", "local")
_HTTP_TYPES = ("http", "streamable-http", "streamableHttp", "streamable_http", "sse")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_OF_THE_TRANSPORT = ("host", "content-length", "transfer-encoding", "mcp-session-id")


@dataclass(frozen=True)
class Entry:
    """A server of a file.

    Args:
        server: How it is reached.
        line: Where in the file it stands.
        shown: What would be started or reached, for a person to confirm; no secret is in it.
        details: What else they should know; clauses.
    """

    server: ServerConfig
    line: int
    shown: str
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
    """What files say about servers: those that can be used, those that cannot, sentences about
    those that are switched off, and about what was read and has no effect."""

    entries: tuple[Entry, ...] = ()
    problems: tuple[Problem, ...] = ()
    disabled: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def servers(self) -> tuple[ServerConfig, ...]:
        """How those that can be used are reached."""
        return tuple(entry.server for entry in self.entries)

    @property
    def remarks(self) -> tuple[str, ...]:
        """All that is not as its writer may think, as sentences."""
        return (*map(str, self.problems), *self.disabled, *self.notices)


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
    readers = [_Reader(document, server, environment, folder, ask) for server in document.servers]
    return together([reader.read() for reader in readers])


def together(configurations: Iterable[Configuration]) -> Configuration:
    """One configuration of several.

    Of two servers whose tools would get the same names the later one is left out.
    """
    seen: dict[str, Entry] = {}
    problems: list[Problem] = []
    disabled: list[str] = []
    notices: list[str] = []
    for one in configurations:
        notices += one.notices
        disabled += one.disabled
        problems += one.problems
        for entry in one.entries:
            other = seen.setdefault(entry.server.id, entry)
            if other is not entry:
                problems.append(_collision(entry, other.server))
    return Configuration(tuple(seen.values()), tuple(problems), tuple(disabled), tuple(notices))


def _collision(entry: Entry, other: ServerConfig) -> Problem:
    server = entry.server
    if (server.name, server.source) == (other.name, other.source):
        why = "there is another of that name in this file; rename or remove one of them"
        return Problem(server.name, server.source, entry.line, why)
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
        written: Written,
        environment: Mapping[str, str],
        folder: Path | None,
        ask: Ask | None,
    ) -> None:
        self.document, self.written, self.folder = document, written, folder
        self.name, self.entry = written.name, written.entry
        home = Path(environment.get("HOME") or Path.home())
        self.start = folder or home
        self.variables = Variables(environment, home, folder, document.inputs, ask)
        self.details: list[str] = []

    def read(self) -> Configuration:
        try:
            return self.configuration()
        except FaultError as fault:
            line = self.document.line(self.written, *fault.at)
            return Configuration(
                problems=(Problem(self.name, self.document.path, line, fault.why),)
            )

    def configuration(self) -> Configuration:
        self.check_outline()
        self.entry = with_our_names(self.entry)
        for switch in SWITCHES:
            self.member(switch, bool, "true or false", None)
        if is_switched_off(self.entry):
            return Configuration(disabled=(self.notice("is disabled, so it is not used"),))
        idle = idle_keys(self.entry)
        self.check_keys(idle)
        entry = self.read_entry()
        if len(entry.shown) > MAX_SHOWN:
            fail((), f"what it runs or reaches is longer than {MAX_SHOWN} characters")
        return Configuration(entries=(entry,), notices=self.about(idle))

    def check_outline(self) -> None:
        if not self.name.strip():
            fail((), "a server needs a name")
        if self.name != self.name.strip():
            fail((), "its name begins or ends with a blank; take that out")
        if len(self.name) > MAX_NAME:
            fail((), f"its name is longer than {MAX_NAME} characters")
        if not isinstance(self.entry, dict):
            words = "an object with the key command or url"
            fail((), f"expected {words}, got {kind_of(self.entry)}")

    def check_keys(self, idle: list[str]) -> None:
        for key in self.entry:
            if key not in idle and (why := why_costly(key)):
                fail((key,), f"{key} is not obeyed here, so {why}. Take it out if you agree")
        known_keys((), {key: None for key in self.entry if key not in idle}, KNOWN_KEYS)

    def about(self, idle: list[str]) -> tuple[str, ...]:
        """A notice about the keys that have no effect here."""
        if not idle:
            return ()
        have = "have" if len(idle) > 1 else "has"
        why = f"{', '.join(idle)}, which {have} no effect here: writes wait for you"
        if any("timeout" in key for key in idle):
            why += ', and the time a call may take is {"sayso": {"timeout": seconds}}'
        return (self.notice(f"says {why}"),)

    def notice(self, what: str) -> str:
        said = one_line(f"MCP server {self.name!r} {what}.")
        return f"{one_line(str(self.document.path))}: {said}"

    def read_entry(self) -> Entry:
        believed = read_believed(self.entry)
        reached = self.reached(insecure=believed.insecure)
        if self.variables.taken:
            self.details.append(f"takes {', '.join(self.variables.taken)} from your environment")
        server = ServerConfig(
            name=self.name,
            transport=reached.transport,
            source=self.document.path,
            written=self.digest(reached.values),
            trusted=believed.trusted,
            timeout=believed.timeout,
            claims=believed.claims,
        )
        details = (*reached.details(), *self.details, *believed.details())
        return Entry(server, self.document.line(self.written), reached.shown, details)

    def digest(self, values: str | None) -> str:
        """See ``ServerConfig.written``; ``values`` is the text of the ``envFile``."""
        said = {key: self.entry[key] for key in REACHING if key in self.entry}
        return hashlib.sha256(canonical_json([said, values]).encode()).hexdigest()

    # --- how it is reached -------------------------------------------------------------------

    def reached(self, *, insecure: bool) -> _Reached:
        kind = self.member("type", str, "a text", None)
        if kind is None:
            if ("command" in self.entry) == ("url" in self.entry):
                fail((), "it needs a command or a url, and not both")
            kind = "stdio" if "command" in self.entry else "http"
        if kind in _STDIO_TYPES:
            self.none_of(HTTP_KEYS, "is started by a command")
            return self.stdio()
        if kind not in _HTTP_TYPES:
            unexpected(("type",), f"stdio, {', '.join(_HTTP_TYPES)}", repr(kind[:100]))
        self.none_of(STDIO_KEYS, "is reached by its url")
        url = self.url(insecure=insecure)
        remote = Http(url.value, self.headers(), sse=kind == "sse")
        return _Reached(remote, address(remote, url.shown), url.hidden)

    def none_of(self, keys: tuple[str, ...], kind: str) -> None:
        for key in keys:
            if key in self.entry:
                fail((key,), f"it {kind}, so {key} means nothing")

    def stdio(self) -> _Reached:
        command = self.member("command", str, "a text", "")
        if not command.strip():
            fail(("command",), "it needs a command")
        command = self.expand(("command",), command).value
        if not command.strip():
            fail(("command",), "its command is empty once the variables are put in")
        args = [self.expand(("args",), argument) for argument in self.arguments()]
        own = self.texts("env", _check_variable)
        text, values = self.env_file()
        folder = self.path("cwd")
        child = Stdio(
            command,
            tuple(argument.value for argument in args),
            {**values, **_values(own)},
            self.start / folder.value if folder else self.start,
        )
        told = {**values, **{name: variable.shown for name, variable in own.items()}}
        deciding = {name: text for name, text in told.items() if decides(name)}
        shown = command_line(child, [argument.shown for argument in args], deciding)
        hidden = {name: masked for arg in args for name, masked in arg.hidden.items()}
        return _Reached(child, shown, hidden, text)

    def arguments(self) -> list[str]:
        arguments: list[str] = self.member("args", list, "a list of texts", [])
        for place, argument in enumerate(arguments):
            if not isinstance(argument, str):
                fail(("args",), f"expected args[{place}] to be a text, got {kind_of(argument)}")
        return arguments

    def env_file(self) -> tuple[str | None, dict[str, str]]:
        """The text of the file that variables are taken from, and what it gives."""
        written = self.path("envFile")
        if written is None:
            return None, {}
        at, path, shown = ("envFile",), self.start / written.value, self.start / written.shown
        try:
            path = path.resolve()
            if self.folder is not None and not path.is_relative_to(self.folder.resolve()):
                fail(at, f"{shown} is outside of the folder that this file belongs to")
            text = read_small(path)
            if text is None:
                fail(at, f"there is no file {shown}")
            values = {n: v for n, v in parse_env(text).items() if not is_ours(n)}
        except UsageError as error:
            fail(at, f"{shown} cannot be used: {str(error).rstrip('.')}")
        except (OSError, RuntimeError):  # what it says may have a value in it
            fail(at, f"{shown} cannot be used: no file can be reached by that path")
        for name, value in values.items():
            _check_variable(at, name, value)
        if values:
            self.details.append(f"takes {', '.join(values)} from {shown}")
        return text, values

    def path(self, key: str) -> Expanded | None:
        value = self.member(key, str, "a path", None)
        if value is None:
            return None
        path = self.expand((key,), value)
        if self.folder is None and not Path(path.value).is_absolute():
            fail((key,), f"expected {key} to be a whole path: this file belongs to no folder")
        return path

    def url(self, *, insecure: bool) -> Expanded:
        expanded = self.expand(("url",), self.member("url", str, "an address", ""))
        try:
            there = read_address(expanded.value)
        except ValueError as error:
            fail(("url",), str(error))
        if there.scheme == "http" and not _is_loopback(there.host):
            if not insecure:
                fail(("url",), _UNENCRYPTED.format(there.host))
            self.details.append(f"{_EXPOSED.format(there.host)}; you permit that")
        return expanded

    def headers(self) -> dict[str, str]:
        headers = _values(self.texts("headers", _check_header))
        if len({name.lower() for name in headers}) < len(headers):
            fail(("headers",), "one header is there twice")
        return headers

    # --- members -----------------------------------------------------------------------------

    def texts(self, key: str, check: Callable[[Place, str, str], None]) -> dict[str, Expanded]:
        """An object of texts, their variables put in, each looked at by ``check``."""
        values = {}
        for name, value in self.member(key, dict, "an object of texts", {}).items():
            if not isinstance(value, str):
                unexpected((key, name), "a text", kind_of(value))
            values[name] = self.expand((key, name), value, deciding=decides(name))
            check((key, name), name, values[name].value)
        return values

    def member(self, key: str, kind: type, words: str, default: Any) -> Any:
        return typed((), self.entry, key, kind, words, default)

    def expand(self, at: Place, text: str, *, deciding: bool = False) -> Expanded:
        try:
            return self.variables.expand(text, deciding=deciding)
        except VariableError as error:
            fail(at, str(error))


@dataclass(frozen=True)
class _Reached:
    """How a server is reached.

    Args:
        transport: With all variables put in.
        shown: See ``Entry.shown``.
        hidden: What ``shown`` has by name alone, masked.
        values: The text of the file that values are taken from.
    """

    transport: Transport
    shown: str
    hidden: Mapping[str, str]
    values: str | None = None

    def details(self) -> Iterator[str]:
        """What a person should know of it, in clauses."""
        if self.hidden:
            named = ", ".join(f"{name} is {masked}" for name, masked in self.hidden.items())
            yield f"{named} now; with another value it is asked about again"


_EXPOSED = (
    "what is sent to {}, tokens included, and what it answers can be read and changed on the way"
)
_UNENCRYPTED = (
    f"http:// is not encrypted: {_EXPOSED}. Use https://, or permit it for this server: "
    '--insecure with sayso mcp add, "sayso": {{"insecure": true}} in a file'
)


def _values(texts: Mapping[str, Expanded]) -> dict[str, str]:
    return {name: text.value for name, text in texts.items()}


def _check_variable(at: Place, name: str, value: str) -> None:
    if is_ours(name):
        fail(at, f"{name[:100]!r} is a setting of sayso's and cannot be given to a server")
    if not name or "=" in name or not name.isprintable() or any(map(str.isspace, name)):
        why = "it is empty, or has a blank, a = or a control character in it"
        fail(at, f"{name[:100]!r} cannot be the name of a variable: {why}")
    if "\0" in value:
        fail(at, f"{name[:100]!r} cannot be given to a server: its value has a NUL character")


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
