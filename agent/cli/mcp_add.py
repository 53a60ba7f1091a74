"""``sayso mcp add`` and ``sayso mcp import``: servers for a person's own file, confirmed first."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli.output import answer_table, on_terminal, say
from agent.errors import NotFound, SaysoError, UsageError

if TYPE_CHECKING:
    from agent.mcp.configuration.document import Document, Written
    from agent.mcp.configuration.parse import Entry

NewName = Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called.")]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="-- COMMAND ARGS", help="What starts it, after --.", show_default=False),
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="Where it is, instead of a command.")
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="A variable it gets; can be repeated."),
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="'NAME: VALUE'", help="With --url; can be repeated."),
]
Cwd = Annotated[
    str | None, typer.Option("--cwd", metavar="DIR", help="Where it starts; else your home.")
]
Sse = Annotated[bool, typer.Option("--sse", help="It speaks the older HTTP with SSE.")]
Insecure = Annotated[
    bool,
    typer.Option(
        "--insecure", help="Permit http:// to another machine: others can read and change it."
    ),
]
Trusted = Annotated[bool, typer.Option("--trusted", help="Believe which of its tools only read.")]
Timeout = Annotated[
    float | None, typer.Option("--timeout", metavar="SECONDS", help="For one call; else 30.")
]
File = Annotated[Path | None, typer.Argument(metavar="FILE", help="Such as .vscode/mcp.json.")]
Names = Annotated[
    list[str] | None, typer.Argument(metavar="NAME", help="Only these servers of it.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

SIZE_LIMIT = 8 * 1024 * 1024
"""Bytes of a file to import: some hosts keep much else beside the servers."""


def add(
    name: NewName,
    command: Words = None,
    url: Url = None,
    env: Env = None,
    header: Header = None,
    cwd: Cwd = None,
    sse: Sse = False,
    insecure: Insecure = False,
    trusted: Trusted = False,
    timeout: Timeout = None,
    yes: Yes = False,
) -> None:
    """Add a server of your own: shown as it would be started, confirmed, kept in SAYSO_HOME.

    Values may hold ${VARIABLES}, which are put in each time; quote them for the shell.
    """
    if (url is None) == (not command):
        raise UsageError("Name either a command, after --, or --url. Nothing was added.")
    if url is not None and (env or cwd is not None):
        raise UsageError("--env and --cwd are for a command. Nothing was added.")
    if url is None and (header or sse or insecure):
        raise UsageError("--header, --sse and --insecure go with --url. Nothing was added.")
    reached = _program(command, env, cwd) if url is None else _remote(url, header, sse)
    new = _New()
    new.add(name, reached | _believed(trusted, timeout, insecure))
    new.write(yes)


def _program(
    command: Sequence[str] | None, env: Sequence[str] | None, cwd: str | None
) -> dict[str, Any]:
    first, *args = command or [""]
    entry: dict[str, Any] = {"command": first}
    if args:
        entry["args"] = args
    if env:
        entry["env"] = _pairs(env, "=", "env")
    if cwd is not None:
        if not cwd.strip():
            raise UsageError("--cwd takes a folder, and is empty. Nothing was added.")
        entry["cwd"] = cwd if cwd.startswith("${") else str(Path(cwd).absolute())
    return entry


def _remote(url: str, header: Sequence[str] | None, sse: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"type": "sse" if sse else "http", "url": url}
    if header:
        pairs = _pairs(header, ":", "header")
        entry["headers"] = {name: value.strip() for name, value in pairs.items()}
    return entry


def _pairs(given: Sequence[str], mark: str, option: str) -> dict[str, str]:
    """What an option that can be repeated says, by name; no name may come twice."""
    pairs: dict[str, str] = {}
    for name, value in (_pair(one, mark, option) for one in given):
        if name in pairs or (option == "header" and name.lower() in map(str.lower, pairs)):
            raise UsageError(f"--{option} names {name[:100]!r} twice. Nothing was added.")
        pairs[name] = value
    return pairs


def _pair(given: str, mark: str, option: str) -> tuple[str, str]:
    """``NAME=VALUE`` as name and value. A value may be a secret: no message has it."""
    name, found, value = given.partition(mark)
    if not found or not name.strip():
        raise UsageError(f"--{option} takes NAME{mark}VALUE. Nothing was added.")
    return name.strip() if option == "header" else name, value


def _believed(trusted: bool, timeout: float | None, insecure: bool) -> dict[str, Any]:
    """The ``sayso`` key, where it says anything."""
    from agent.mcp.configuration.believed import MAX_TIMEOUT

    said: dict[str, Any] = {"trusted": True} if trusted else {}
    if timeout is not None:
        if not 0 < timeout <= MAX_TIMEOUT:  # also refuses what is no number
            wanted = f"seconds, above 0 and up to {MAX_TIMEOUT}"
            raise UsageError(f"--timeout takes {wanted}; got {timeout:g}. Nothing was added.")
        said["timeout"] = timeout
    if insecure:
        said["insecure"] = True
    return {"sayso": said} if said else {}


def import_(file: File = None, names: Names = None, yes: Yes = False) -> None:
    """Add the servers of another program's file to your own; without FILE, list such files."""
    from agent.mcp.configuration.document import read_document
    from agent.mcp.configuration.importing import folder_of

    if file is None:
        _list_places()
        return
    document = read_document(_text(file), file)
    for name in names or ():
        if name not in document.names:
            raise NotFound("MCP server", name, document.names, f"That is all of {file}.")
    new = _New()
    for written in document.servers:
        if not names or written.name in names:
            _take(new, document, written, folder_of(file, Path.home()))
    if not new.entries:
        raise SaysoError("There is nothing to import. Nothing was changed.")
    new.write(yes)
    if new.refused:
        raise typer.Exit(1)


def _take(new: _New, document: Document, written: Written, folder: Path | None) -> None:
    """Take a server of another program's file; says what it comes without, or why it does not."""
    from agent.mcp.configuration.foreign import is_switched_off
    from agent.mcp.configuration.importing import as_own, comes_without
    from agent.mcp.configuration.parse import Problem
    from agent.safe_text import one_line

    name, entry = written.name, written.entry
    if isinstance(entry, dict) and is_switched_off(entry):
        say(one_line(f"{name!r} is left out: it is disabled there."))
    elif why := new.take(name, as_own(entry, folder), document.inputs):
        say(str(Problem(name, document.path, document.line(written), why)))
    else:
        for clause in comes_without(entry):
            say(one_line(f"{name!r} comes {clause}."))


class _New:
    """Servers for a person's own file, taken one by one and written together.

    Attributes:
        raw: What the file is to say of each.
        entries: How each would be reached.
        refused: How many others cannot be added.
    """

    def __init__(self) -> None:
        from agent.cli.servers import of_person
        from agent.config import load_settings
        from agent.mcp.configuration.user_file import own_document
        from agent.mcp.configuration.variables import as_written

        self.settings = load_settings()
        self.home = self.settings.ensure_home()
        self.raw: dict[str, Any] = {}
        self.entries: list[Entry] = []
        self.refused = 0
        self._inputs: list[Any] = []
        self._there = own_document(self.home).names
        self._configuration = of_person(self.home, as_written)

    def add(self, name: str, raw: dict[str, Any]) -> None:
        """Add the one that a person has spelled out.

        Raises:
            UsageError: It cannot be added.
        """
        if why := self.take(name, raw) or self._no_folder():
            raise UsageError(f"MCP server {name!r} cannot be added: {why}. Nothing was added.")

    def take(self, name: str, raw: Any, inputs: Sequence[Any] = ()) -> str | None:
        """Add one to those that are to be written; a clause says why where it cannot be.

        Args:
            raw: What the file is to say of it.
            inputs: VS Code's inputs, those that it needs among them.
        """
        from agent.config import process_environment
        from agent.mcp.configuration.parse import parse_config, together
        from agent.mcp.configuration.user_file import path_of
        from agent.mcp.configuration.variables import as_written

        if name in self._there:
            self.refused += 1
            return "you have a server of that name; sayso mcp remove takes it out"
        needed = _needed(raw, inputs)
        text = json.dumps({"mcpServers": {name: raw}, "inputs": needed})
        own = path_of(self.home)
        parsed = parse_config(text, own, process_environment(), folder=None, ask=as_written)
        both = together([self._configuration, parsed])
        if len(both.entries) == len(self._configuration.entries):
            self.refused += 1
            return both.problems[-1].why
        self._configuration = both
        self.raw[name] = raw
        self.entries.append(both.entries[-1])
        self._inputs += [one for one in needed if one not in self._inputs]
        return None

    def _no_folder(self) -> str | None:
        from agent.mcp.servers import Stdio

        transport = self.entries[-1].server.transport
        if isinstance(transport, Stdio) and transport.cwd and not transport.cwd.is_dir():
            return f"there is no folder {transport.cwd} to start it in"
        return None

    def write(self, yes: bool) -> None:
        """Show them as they would be started, ask unless ``yes``, write and confirm them.

        Raises:
            UsageError: There is nobody to ask, or the file cannot be changed.
            SaysoError: The answer was no.
        """
        from agent.cli.servers import ask_about, lines
        from agent.config import actor
        from agent.mcp.configuration.user_file import add_servers, path_of
        from agent.mcp.pins import Pins
        from agent.safe_text import one_line

        for entry in self.entries:
            if absent := _absent(entry):
                say(one_line(f"{entry.server.name!r}: {absent}"))
        question = "Add it, and use it from now on?"
        if len(self.entries) > 1:
            question = f"Add these {len(self.entries)}, and use them from now on?"
        if yes:
            for line in (line for entry in self.entries for line in lines(entry)):
                say(f"  {line}")
        elif not on_terminal():
            raise UsageError("It is confirmed on a terminal, or with --yes. Nothing was added.")
        elif not ask_about(self.entries, question):
            raise SaysoError("Nothing was added.")
        add_servers(self.home, self.raw, self._inputs)
        pins, by = Pins(self.home), actor(self.settings, "cli").name
        for entry in self.entries:
            pins.forget(entry.server)  # an earlier one of that name was another server
            pins.confirm(entry.server, by)
        names = ", ".join(one_line(name) for name in self.raw)
        say(f"Added to {path_of(self.home)}: {names}. What they offer: sayso tools")


def _absent(entry: Entry) -> str | None:
    """A sentence where the command of a server is not there now."""
    import shutil

    from agent.config import process_environment
    from agent.mcp.servers import Stdio

    child = entry.server.transport
    if not isinstance(child, Stdio):
        return None
    if os.sep in child.command:
        found = shutil.which((child.cwd or Path.cwd()) / child.command)
        where = "there is no such program"
    else:
        path = child.env.get("PATH", process_environment().get("PATH", ""))
        found, where = shutil.which(child.command, path=path), "it is not on the PATH"
    if found:
        return None
    return f"{child.command} cannot be started now: {where}. It is looked for at every start."


def _needed(raw: Any, inputs: Sequence[Any]) -> list[Any]:
    """The inputs that a server's texts name."""
    from agent.mcp.configuration.variables import id_of, inputs_named

    named = inputs_named(raw)
    return [one for one in inputs if id_of(one) in named]


def _text(file: Path) -> str:
    """The contents of a file or a pipe that a person named; a link is followed."""
    from agent.safe_text import one_line
    from agent.trust import read_small, small_text

    shown = one_line(str(file))
    try:
        if file.is_dir():
            raise UsageError("it is a folder; name a file of it.")
        if file.is_fifo():  # such as /dev/stdin
            with file.open("rb") as pipe:
                text: str | None = small_text(pipe, SIZE_LIMIT)
        else:
            text = read_small(file.resolve(), SIZE_LIMIT)
    except (UsageError, OSError, RuntimeError, ValueError) as error:
        raise UsageError(f"{shown} cannot be imported: {error}") from error
    if text is None:
        raise UsageError(f"There is no file {shown}. sayso mcp import alone lists some.")
    return text.removeprefix("\ufeff")


def _list_places() -> None:
    """Files of other hosts on this machine, and the servers that each names."""
    from agent.mcp.configuration.document import read_document
    from agent.mcp.configuration.importing import known_places

    rows = []
    for place in known_places(Path.home(), Path.cwd()):
        try:
            names = ", ".join(read_document(_text(place), place).names) or "no servers"
        except UsageError as error:
            names = str(error)
        rows.append([str(place), names])
    if rows:
        answer_table(["FILE", "SERVERS"], rows)
    else:
        say("No file of another program was found. Name one: sayso mcp import FILE")
