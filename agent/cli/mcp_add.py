"""``sayso mcp add`` and ``sayso mcp import``: servers for a person's own file, confirmed first."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli.output import answer_table, on_terminal, say
from agent.errors import NotFound, SaysoError, UsageError

if TYPE_CHECKING:
    from agent.mcp.configuration.parse import Entry

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

SIZE_LIMIT = 8 * 1024 * 1024
"""Bytes of a file to import: some hosts keep much else beside the servers."""

_INPUT = re.compile(r"\$\{input:([^}]+)\}")


def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND ARGS", help="What starts it, after --.", show_default=False
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Where it is, instead of a command.")
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="A variable it gets; can be repeated."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="'NAME: VALUE'", help="With --url; can be repeated."),
    ] = None,
    cwd: Annotated[
        Path | None, typer.Option("--cwd", metavar="DIR", help="Where it starts; else your home.")
    ] = None,
    sse: Annotated[bool, typer.Option("--sse", help="It speaks the older HTTP with SSE.")] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Reach another machine without encryption.")
    ] = False,
    trusted: Annotated[
        bool, typer.Option("--trusted", help="Believe which of its tools only read.")
    ] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="For one call; else 30.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Add a server of your own: shown as it would be started, confirmed, kept in SAYSO_HOME.

    Values may hold ${VARIABLES}, which are put in each time; quote them for the shell.
    """
    if (url is None) == (not command):
        raise UsageError("Name either a command, after --, or --url. Nothing was added.")
    entry: dict[str, Any]
    if url is not None:
        if env or cwd:
            raise UsageError("--env and --cwd are for a command. Nothing was added.")
        entry = {
            "type": "sse" if sse else "http",
            "url": url,
            "headers": _pairs(header, ":", "header"),
        }
    else:
        if header or sse or insecure:
            raise UsageError("--header, --sse and --insecure go with --url. Nothing was added.")
        first, *args = command or [""]
        entry = {"command": first, "args": args, "env": _pairs(env, "=", "env")}
        if cwd is not None:
            entry["cwd"] = str(cwd.absolute())
    said: dict[str, Any] = {"trusted": True} if trusted else {}
    if timeout is not None:
        said["timeout"] = timeout
    if insecure:
        said["insecure"] = True
    entry["sayso"] = said
    new = _New()
    new.take(name, {key: value for key, value in entry.items() if value not in ({}, [])})
    if new.refused:
        ((_, why),) = new.refused.items()
        raise UsageError(f"MCP server {name!r} cannot be added: {why}. Nothing was added.")
    new.write(yes)


def import_(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Such as .vscode/mcp.json.")
    ] = None,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only these servers of it.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Add the servers of another program's file to your own; without FILE, list such files."""
    from agent.mcp.configuration.document import read_document
    from agent.mcp.configuration.importing import as_own, folder_of
    from agent.mcp.configuration.parse import Problem
    from agent.safe_text import one_line

    if file is None:
        _list_places()
        return
    document = read_document(_text(file), file)
    for name in names or ():
        if name not in document.entries:
            raise NotFound("MCP server", name, tuple(document.entries), f"That is all of {file}.")
    folder, new = folder_of(file, Path.home()), _New()
    left_out = 0
    for name in names or document.entries:
        entry = document.entries[name]
        if isinstance(entry, dict) and entry.get("disabled") is True:
            say(one_line(f"{name!r} is left out: it is disabled there."))
            continue
        new.take(name, as_own(entry, folder), document.inputs)
        if why := new.refused.get(name):
            left_out += 1
            say(str(Problem(name, file, document.line(name), why)))
        elif idle := _idle(entry):
            say(one_line(f"{name!r} comes without {', '.join(idle)}: no effect here, writes wait."))
    if not new.entries:
        raise SaysoError("There is nothing to import. Nothing was changed.")
    new.write(yes)
    if left_out:
        raise typer.Exit(1)


class _New:
    """Servers for a person's own file, taken one by one and written together.

    Attributes:
        raw: What the file is to say of each.
        entries: How each would be reached.
        refused: Why others cannot be added, by name.
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
        self.refused: dict[str, str] = {}
        self._inputs: list[Any] = []
        self._there = own_document(self.home).entries
        self._configuration = of_person(self.home, as_written)

    def take(self, name: str, raw: Any, inputs: Sequence[Any] = ()) -> None:
        """Add one to those that are to be written, or to those that are refused.

        Args:
            raw: What the file is to say of it.
            inputs: VS Code's inputs, those that it needs among them.
        """
        from agent.config import process_environment
        from agent.mcp.configuration.parse import parse_config, together
        from agent.mcp.configuration.user_file import path_of
        from agent.mcp.configuration.variables import as_written

        if name in self._there:
            self.refused[name] = "you have a server of that name; sayso mcp remove takes it out"
            return
        needed = _needed(raw, inputs)
        text = json.dumps({"mcpServers": {name: raw}, "inputs": needed})
        own = path_of(self.home)
        parsed = parse_config(text, own, process_environment(), folder=None, ask=as_written)
        both = together([self._configuration, parsed])
        if len(both.entries) == len(self._configuration.entries):
            self.refused[name] = both.problems[-1].why
            return
        self._configuration = both
        self.raw[name] = raw
        self.entries.append(both.entries[-1])
        self._inputs += [one for one in needed if one not in self._inputs]

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


def _needed(raw: Any, inputs: Sequence[Any]) -> list[Any]:
    """The inputs that a server's texts name."""
    named = set(_INPUT.findall(json.dumps(raw, ensure_ascii=False)))
    return [one for one in inputs if isinstance(one, dict) and one.get("id") in named]


def _pairs(given: Sequence[str] | None, mark: str, option: str) -> dict[str, str]:
    """``NAME=VALUE`` each, as names and values. A value may be a secret: no message has it."""
    pairs = {}
    for pair in given or ():
        name, found, value = pair.partition(mark)
        if not found or not name.strip():
            raise UsageError(f"--{option} takes NAME{mark}VALUE. Nothing was added.")
        pairs[name.strip()] = value.strip() if mark == ":" else value
    return pairs


def _idle(entry: Any) -> list[str]:
    from agent.mcp.configuration.parse import WITHOUT_EFFECT

    return [key for key in WITHOUT_EFFECT if key in entry]


def _text(file: Path) -> str:
    """The contents of a file that a person named; a link is followed."""
    from agent.safe_text import one_line
    from agent.trust import read_small

    shown = one_line(str(file))
    try:
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
            names = ", ".join(read_document(_text(place), place).entries) or "no servers"
        except UsageError as error:
            names = str(error)
        rows.append([str(place), names])
    if rows:
        answer_table(["FILE", "SERVERS"], rows)
    else:
        say("No file of another program was found. Name one: sayso mcp import FILE")
