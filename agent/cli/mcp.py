"""``sayso mcp``: the MCP servers there are, and what was pinned of them.

Adding servers is in ``mcp_add``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli import mcp_add, mcp_sign_in
from agent.cli.help import PlainCommand, PlainGroup
from agent.cli.output import (
    answer,
    answer_json_array,
    answer_table,
    confirm,
    on_terminal,
    only_answers,
    say,
)
from agent.cli.start import Start, with_start
from agent.errors import McpError, NotFound, SaysoError, UsageError

if TYPE_CHECKING:
    from agent.config import Settings
    from agent.mcp.configuration.parse import Configuration, Entry
    from agent.mcp.pins import Change, Definition, Pins
    from agent.mcp.servers import ServerConfig

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="A server, as sayso mcp list names it.")]

_LINES = 2_000
"""Beyond so many lines two texts are shown one after the other instead of compared."""

app = typer.Typer(
    cls=PlainGroup,
    help="MCP servers, yours and the current folder's: list, add, remove; pin what they offer.",
    no_args_is_help=True,
)
app.command("add", cls=PlainCommand)(mcp_add.add)
app.command("import", cls=PlainCommand)(mcp_add.import_)
app.command("login", cls=PlainCommand)(mcp_sign_in.login)
app.command("logout", cls=PlainCommand)(mcp_sign_in.logout)


@app.command("list", cls=PlainCommand)
def list_(as_json_: Json = False) -> None:
    """The servers, as they would be started or reached; none is."""
    from agent.cli.servers import look, of_person
    from agent.config import load_settings
    from agent.mcp.configuration.parse import together
    from agent.mcp.configuration.variables import as_written
    from agent.mcp.pins import Pins
    from agent.trust import MCP, is_trusted

    home, here = load_settings().home, Path.cwd()
    items, of_folder = look(here)
    configuration = together([of_person(home, as_written), of_folder])
    pins = Pins(home)
    for sentence in (
        *items.refused,
        *configuration.disabled,
        *configuration.notices,
        pins.problem,
    ):
        if sentence:
            say(sentence)
    untrusted = set() if is_trusted(here, items, home) else {here / MCP}
    rows = list(_rows(configuration, pins, untrusted))
    if as_json_:
        answer_json_array(rows)
    elif rows:
        answer_table(
            ["NAME", "CONFIRMED", "TOOLS", "HELD", "SOURCE", "RUNS OR REACHES"],
            [
                [
                    row["name"],
                    "yes" if row["confirmed"] else "no",
                    "-" if row["tools"] is None else str(row["tools"]),
                    str(len(row["held"])),
                    row["source"],
                    f"cannot be used: {row['problem']}" if row["problem"] else row["shown"],
                ]
                for row in rows
            ],
        )
    else:
        say("There are no MCP servers. Add one: sayso mcp add NAME -- COMMAND, or sayso mcp import")


def _rows(
    configuration: Configuration, pins: Pins, untrusted: set[Path]
) -> Iterator[dict[str, Any]]:
    """One for each server; those of an ``untrusted`` file are confirmed only with it."""
    from agent.mcp.servers import Stdio

    for entry in configuration.entries:
        server, pinned = entry.server, pins.definitions(entry.server)
        transport = server.transport
        remote = "" if isinstance(transport, Stdio) else "sse" if transport.sse else "http"
        yield {
            "name": server.name,
            "id": server.id,
            "source": str(server.source),
            "transport": remote or "stdio",
            "shown": entry.shown,
            "confirmed": pins.is_confirmed(server) and server.source not in untrusted,
            "trusted": server.trusted,
            "tools": None if pinned is None else len(pinned),
            "held": pins.held(server),
            "problem": None,
        }
    for problem in configuration.problems:
        yield {
            "name": problem.server,
            "id": None,
            "source": str(problem.path),
            "transport": None,
            "shown": None,
            "confirmed": False,
            "trusted": False,
            "tools": None,
            "held": [],
            "problem": f"line {problem.line}: {problem.why}",
        }


@app.command(cls=PlainCommand)
def remove(name: Name) -> None:
    """Take a server out of your own file, with its confirmation, its pins and its sign-in."""
    import asyncio

    from agent.config import load_settings
    from agent.mcp.configuration.user_file import path_of, remove_server
    from agent.mcp.pins import Pins
    from agent.mcp.servers import ServerConfig, Stdio
    from agent.mcp.signing_in.sign_in import sign_out
    from agent.safe_text import one_line

    home = load_settings().ensure_home()
    remove_server(home, name)
    server = ServerConfig(name, Stdio(""), source=path_of(home))  # all that these two look at
    Pins(home).forget(server)
    asyncio.run(sign_out(server, home))
    say(f"{one_line(name)} is no longer among your MCP servers.")


# --- what they offer -------------------------------------------------------------------------


@app.command(cls=PlainCommand)
@with_start("trust")
def diff(start: Start, name: Name) -> None:
    """Start a server and show how its tools differ from what was pinned; exit 1 if they do."""
    settings, pins, server = chosen(start, name)
    listed = _listed(settings, server)
    changes = _shown(pins, server, listed)
    if pins.definitions(server) is not None:
        pins.note(server, changes)
    if changes:
        raise typer.Exit(1)
    say(f"The {len(listed)} tool(s) of {server.id} are as they were pinned.")


@app.command(cls=PlainCommand)
@with_start("trust")
def pin(
    start: Start,
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Start a server, show how its tools differ from what was pinned, and pin them as they are."""
    from agent.config import actor

    settings, pins, server = chosen(start, name)
    listed = _listed(settings, server)
    changes = _shown(pins, server, listed)
    if not changes and pins.definitions(server) is not None:
        say(f"The {len(listed)} tool(s) of {server.id} are as they were pinned.")
        return
    if not yes and not on_terminal():
        raise UsageError("Look at the changes, then add --yes. Nothing was pinned.")
    if not yes and not confirm(f"Pin the {len(listed)} tool(s) of {server.id} as they are now?"):
        raise SaysoError("Nothing was pinned.")
    pins.pin(server, listed.values(), actor(settings, "cli").name)
    say(f"Pinned: {len(listed)} tool(s) of {server.id}.")


def chosen(start: Start, name: str) -> tuple[Settings, Pins, ServerConfig]:
    """The server of that name, which may be started.

    Raises:
        NotFound: There is none.
        UsageError: It cannot be used, or is not confirmed.
    """
    from agent.cli.servers import allowed, ask, found
    from agent.cli.start import folder_items
    from agent.config import actor, load_settings
    from agent.mcp.pins import Pins

    settings, here = load_settings(), Path.cwd()
    home = settings.ensure_home()
    items = folder_items(here, start.trust, "cli")
    configuration = found(home, here, items, ask if on_terminal() else None)
    entry = _named(configuration, name)
    pins = Pins(home)
    if pins.problem:
        say(pins.problem)
    if not allowed(entry, pins, trust=start.trust, by=actor(settings, "cli").name):
        raise SaysoError("Nothing was started.")
    return settings, pins, entry.server


def _named(configuration: Configuration, name: str) -> Entry:
    for entry in configuration.entries:
        if entry.server.name == name:
            return entry
    for problem in configuration.problems:
        if problem.server == name:
            raise UsageError(str(problem))
    names = tuple(server.name for server in configuration.servers)
    raise NotFound("MCP server", name, names, "sayso mcp list shows all, and which are confirmed.")


def _listed(settings: Settings, server: ServerConfig) -> Mapping[str, Definition]:
    """Start the server and list its tools; says which of them cannot be used.

    Raises:
        McpError: It cannot be started or listed.
    """
    import asyncio

    from agent.cli.faults import logged
    from agent.config import process_environment
    from agent.mcp.connection import Connection
    from agent.mcp.link import Link
    from agent.mcp.signing_in.sign_in import stored_auth

    async def open_once() -> Link:
        connection = Connection(
            server,
            environment=process_environment(),
            log=settings.home / "logs" / f"mcp-{server.id}.log",
            auth=stored_auth(server, settings.home),
        )
        try:
            return await connection.open()
        finally:
            await connection.close()

    with logged(settings.home), only_answers():
        try:
            link = asyncio.run(open_once())
        except McpError as error:
            raise McpError(f"MCP server {server.name!r}: {error}") from error
    for tool, why in link.faults.items():
        say(f"Its tool {tool!r} is not offered: {why}")
    return link.tools


def _shown(pins: Pins, server: ServerConfig, listed: Mapping[str, Definition]) -> list[Change]:
    """Print how the tools differ from what was pinned."""
    from agent.mcp.pins import compare
    from agent.safe_text import one_line

    known = pins.definitions(server)
    if known is None:
        say(f"Nothing of {server.id} is pinned yet, so every tool of it is new.")
    pinned = known or {}
    changes = compare(pinned, listed)
    for change in changes:
        answer(f"{change.kind:<8} {one_line(change.tool)}")
        if change.kind == "new":
            for line in _whole(listed[change.tool]):
                answer(f"  {line}")
        for part in change.parts:
            answer(f"  {one_line(part)}")
            for line in _compared(pinned[change.tool].get(part), listed[change.tool].get(part)):
                answer(f"    {line}")
    return changes


def _whole(definition: Definition) -> Iterator[str]:
    """A definition, escaped: its texts line by line, a line for every other member."""
    from agent.safe_text import exact_json, one_line

    for part, value in definition.items():
        if part == "name":
            continue
        if isinstance(value, str):
            yield from (f"{one_line(part)}: {line}" for line in _lines(value))
        else:
            yield f"{one_line(part)}: {exact_json(value, indent=None)}"


def _compared(before: Any, after: Any) -> Iterator[str]:
    """The lines of two values that differ, marked ``-`` and ``+``, and a line around them."""
    old, new = _lines(before), _lines(after)
    if max(len(old), len(new)) > _LINES:
        yield from (f"- {line}" for line in old)
        yield from (f"+ {line}" for line in new)
        return
    matches = difflib.SequenceMatcher(None, old, new)
    for group in matches.get_grouped_opcodes(1):
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                yield from (f"  {line}" for line in old[old_from:old_to])
                continue
            yield from (f"- {line}" for line in old[old_from:old_to])
            yield from (f"+ {line}" for line in new[new_from:new_to])


def _lines(value: Any) -> list[str]:
    """A part of a definition, escaped; no lines where there is none."""
    from agent.safe_text import exact_json, one_line

    if value is None:
        return []
    if isinstance(value, str):
        return [one_line(line) for line in value.split("\n")]
    return exact_json(value).split("\n")
