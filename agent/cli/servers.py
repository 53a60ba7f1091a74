"""Which MCP servers a command may start: a person's own, and those of the current folder.

Each is started only as a person has confirmed it: on a terminal they are asked, elsewhere a
server that is not confirmed is left out, and stderr says so.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.output import confirm, on_terminal, say
from agent.errors import UsageError

if TYPE_CHECKING:
    from agent.mcp.configuration.parse import Configuration, Entry
    from agent.mcp.configuration.variables import Ask, Input
    from agent.mcp.pins import Pins
    from agent.mcp.servers import ServerConfig
    from agent.trust import FolderItems

_TRIES = 3


def look(folder: Path) -> tuple[FolderItems, Configuration]:
    """What the folder brings, and what its ``.mcp.json`` says of servers; nothing is used yet.

    Inputs stay as they are written. A file that cannot be used is among the refused.
    """
    from agent.mcp.configuration.parse import Configuration
    from agent.mcp.configuration.variables import as_written
    from agent.trust import MCP, find_items

    items = find_items(folder)
    try:
        return items, of_folder(folder, items, as_written)
    except UsageError as error:
        return items.without(MCP, f"{error} It is not used."), Configuration()


def of_folder(folder: Path, items: FolderItems | None, ask: Ask | None) -> Configuration:
    """The servers of a folder's ``.mcp.json``, as it was read; none without it.

    Raises:
        UsageError: It cannot be used.
    """
    from agent.config import process_environment
    from agent.mcp.configuration.parse import Configuration, parse_config
    from agent.trust import MCP

    text = items.texts.get(MCP) if items else None
    if text is None:
        return Configuration()
    return parse_config(text, folder / MCP, process_environment(), folder=folder, ask=ask)


def of_person(home: Path, ask: Ask | None) -> Configuration:
    """A person's own servers; a file that cannot be used is a notice, and stops nothing."""
    from agent.config import process_environment
    from agent.mcp.configuration.parse import Configuration, parse_config
    from agent.mcp.configuration.user_file import path_of, read_own

    try:
        text = read_own(home)
        if text is None:
            return Configuration()
        return parse_config(text, path_of(home), process_environment(), folder=None, ask=ask)
    except UsageError as error:
        return Configuration(notices=(f"{error} Your own MCP servers are left out.",))


def found(home: Path, folder: Path, items: FolderItems | None, ask: Ask | None) -> Configuration:
    """A person's own servers, then those of the folder as far as it may be used."""
    from agent.mcp.configuration.parse import together

    return together([of_person(home, ask), of_folder(folder, items, ask)])


def usable(
    home: Path, folder: Path, items: FolderItems | None, *, trust: bool, by: str
) -> tuple[ServerConfig, ...]:
    """The servers that this run may start; says what is not used, and why.

    Args:
        home: The state folder.
        folder: The current folder.
        items: What it brings and may be used.
        trust: Use what nobody has confirmed too, for this run.
        by: Who is said to confirm.
    """
    from agent.mcp.pins import Pins

    configuration = found(home, folder, items, ask if on_terminal() else None)
    for remark in configuration.remarks:
        say(remark)
    pins = Pins(home)
    if configuration.entries and pins.problem:
        say(pins.problem)
    return tuple(
        entry.server for entry in configuration.entries if allowed(entry, pins, trust=trust, by=by)
    )


def allowed(entry: Entry, pins: Pins, *, trust: bool, by: str) -> bool:
    """Whether a person wants a server as it is now: asked here where there is somebody to ask."""
    if trust or pins.is_confirmed(entry.server):
        return True
    if not on_terminal():
        say(f"{not_confirmed(entry)} {HOW_TO_CONFIRM}")
        return False
    say(not_confirmed(entry))
    if not ask_about([entry], "Use it, now and as long as it stays as it is?"):
        say("It is left out for this run.")
        return False
    pins.confirm(entry.server, by)
    return True


HOW_TO_CONFIRM = "It is left out. Confirm it once in sayso chat, or add --trust."


def not_confirmed(entry: Entry) -> str:
    """A sentence for a server that nobody has confirmed as it is now."""
    from agent.safe_text import one_line

    server = entry.server
    return (
        f"MCP server {one_line(repr(server.name))} of {one_line(str(server.source))} is not "
        "confirmed as it is now."
    )


def ask_about(entries: list[Entry], question: str) -> bool:
    """Show what would be started or reached, and ask."""
    for entry in entries:
        for line in lines(entry):
            say(f"  {line}")
    return confirm(question)


def lines(entry: Entry) -> Iterator[str]:
    """What a person confirms: the command or address, and what comes with it."""
    from agent.mcp.servers import Stdio
    from agent.safe_text import one_line

    server = entry.server
    verb = "runs" if isinstance(server.transport, Stdio) else "connects to"
    yield one_line(f"{server.name}: {verb} {entry.shown}")
    for detail in entry.details:
        yield f"  {one_line(detail)}"


@functools.cache
def ask(wanted: Input) -> str | None:
    """Ask for an input on the terminal, once in this process; ``None`` when there is no answer."""
    from agent.safe_text import one_line

    what = one_line(wanted.description or wanted.id)
    say(f"An MCP server asks for its input {one_line(repr(wanted.id))} ({wanted.variable}): {what}")
    if wanted.options:
        say("One of: " + ", ".join(map(one_line, wanted.options)))
    for _ in range(_TRIES):
        answer = _typed(hidden=wanted.secret)
        if answer is None:
            return None
        answer = answer or wanted.default
        if answer and (not wanted.options or answer in wanted.options):
            return answer
    return None


def _typed(*, hidden: bool) -> str | None:
    """One line from the terminal without its end; ``None`` at the end of input."""
    import getpass

    if hidden:
        try:
            return getpass.getpass("> ", stream=sys.stderr)
        except EOFError:
            say("")
            return None
    print("> ", end="", file=sys.stderr, flush=True)  # noqa: T201
    line = sys.stdin.readline()
    if not line:
        say("")
        return None
    return line.rstrip("\n")
