"""``sayso mcp login`` and ``sayso mcp logout``: signing in to servers that want it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.output import on_terminal, only_answers, say
from agent.cli.start import Start, with_start
from agent.errors import NotFound

if TYPE_CHECKING:
    from agent.mcp.servers import ServerConfig

Name = Annotated[str, typer.Argument(metavar="NAME", help="A server, as sayso mcp list names it.")]


@with_start("trust")
def login(start: Start, name: Name) -> None:
    """Sign in to a server in your browser; the token is kept in SAYSO_HOME.

    The address to open is shown and not opened. Where the browser runs on another machine, paste
    the address of the page that it cannot open.
    """
    import asyncio

    from agent.cli.faults import logged
    from agent.cli.mcp import chosen
    from agent.mcp.signing_in.sign_in import sign_in
    from agent.safe_text import one_line

    settings, _, server = chosen(start, name)
    typed = _typed() if on_terminal() else None
    with logged(settings.home), only_answers():
        try:
            issuer = asyncio.run(sign_in(server, settings.home, say, typed=typed))
        except KeyboardInterrupt:
            say("Nobody was signed in; nothing was changed.")
            raise
    shown = one_line(name)
    say(f"You are signed in to {shown}, at {issuer}. To end it: sayso mcp logout {shown}")


def logout(name: Name) -> None:
    """Delete the token of a server; it is not revoked there."""
    import asyncio

    from agent.config import load_settings
    from agent.mcp.signing_in.sign_in import sign_out
    from agent.safe_text import one_line

    if asyncio.run(sign_out(_any(name), load_settings().home)):
        say(
            f"The sign-in to {one_line(name)} is deleted here. The server may take the token "
            "until it expires."
        )
    else:
        say(f"There was no sign-in to {one_line(name)}.")


def _any(name: str) -> ServerConfig:
    """The server of that name, whether or not it is confirmed or can be used.

    Raises:
        NotFound: There is none.
    """
    from agent.cli.servers import look, of_person
    from agent.config import load_settings
    from agent.mcp.configuration.parse import together
    from agent.mcp.configuration.variables import as_written
    from agent.mcp.servers import ServerConfig, Stdio

    _, of_folder = look(Path.cwd())
    configuration = together([of_person(load_settings().home, as_written), of_folder])
    servers = {server.name: server for server in configuration.servers}
    for problem in configuration.problems:
        unusable = ServerConfig(problem.server, Stdio(""), source=problem.path)
        servers.setdefault(problem.server, unusable)
    if name not in servers:
        raise NotFound("MCP server", name, tuple(servers), "sayso mcp list shows all.")
    return servers[name]


async def _typed() -> AsyncIterator[str]:
    """The lines that are typed on the terminal, until its end."""
    import asyncio

    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    arrived: asyncio.Queue[bytes] = asyncio.Queue()
    # A terminal gives a line at a time, and can be read without waiting once it has one.
    loop.add_reader(terminal, lambda: arrived.put_nowait(os.read(terminal, 65536)))
    try:
        while line := await arrived.get():
            yield line.decode("utf-8", "replace")
    finally:
        loop.remove_reader(terminal)
