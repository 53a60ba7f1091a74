"""MCP servers in the chat: ``/mcp``, and their prompts as ``/SERVER:PROMPT``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

from rich.text import Text

from agent.repl.ports import Servers
from agent.repl.screen import join
from agent.repl.talk import Talk
from agent.safe_text import one_line, plain, strict
from agent.types import Attachment

SHOWN, SHOWN_LINES = 4_000, 40
"""How many characters and lines of a resource are shown; all of it is attached."""

Table = Callable[[Talk, list[tuple[str, str]]], None]

USAGE = (
    "/mcp · /mcp resources SERVER · /mcp read SERVER URI · /mcp drop · /mcp prompts SERVER · "
    "/SERVER:PROMPT name=value"
)


async def run_mcp(talk: Talk, rest: str, table: Table) -> None:
    """``/mcp`` and what may follow it."""
    servers = (await talk.application()).servers
    match _words(rest):
        case []:
            _overview(talk, servers, table)
        case ["resources", name]:
            found = await servers.resources(name)
            rows = [
                (one.uri, join((one.name, one.description, "a template" if one.template else "")))
                for one in found
            ]
            _listed(talk, rows, f"{one_line(name)} offers no resources.", table)
        case ["read", name, uri]:
            await _read(talk, servers, name, uri)
        case ["drop"]:
            dropped = talk.drop_attached()
            talk.screen.note(f"Nothing is attached any more ({dropped} dropped).")
        case ["prompts", name]:
            prompts = await servers.prompts(name)
            rows = [
                (f"/{name}:{one.name}", join((_takes(one.required, one.optional), one.description)))
                for one in prompts
            ]
            _listed(talk, rows, f"{one_line(name)} offers no prompts.", table)
        case _:
            talk.screen.note(f"Use: {USAGE}")


def _words(text: str) -> list[str]:
    """As a shell takes them apart, so that names with blanks can be quoted."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


async def run_prompt(talk: Talk, name: str, rest: str) -> None:
    """A prompt of a server: its text is put where the person writes, to be read and sent."""
    server, _, prompt = name.partition(":")
    servers = (await talk.application()).servers
    try:
        words = shlex.split(rest)
    except ValueError as error:
        talk.screen.error(f"{error}. Quote values with blanks: topic='two words'")
        return
    text = await servers.prompt(server, prompt, words)
    talk.put_into_message(plain(text))
    talk.screen.note(
        f"The text below is {one_line(server)}'s, not yours. Read it; Enter sends it as your words."
    )


def names_of_prompts(servers: Servers) -> Iterator[tuple[str, str]]:
    """``server:prompt`` and its description, as far as the servers were asked."""
    for server in servers.servers:
        for prompt in server.prompts:
            yield f"{server.config.name}:{prompt.name}", prompt.description


def _overview(talk: Talk, servers: Servers, table: Table) -> None:
    rows = []
    for server in servers.servers:
        tools = f"{len(server.tools)} tool(s)"
        held = f"held: {', '.join(sorted(map(one_line, server.held)))}" if server.held else ""
        rows.append((server.config.name, join((server.state, tools, held))))
    _listed(talk, rows, "No MCP servers are in use here. sayso mcp add NAME adds one.", table)


async def _read(talk: Talk, servers: Servers, name: str, uri: str) -> None:
    text = await servers.read(name, uri)
    beginning = "\n".join(plain(text[:SHOWN]).split("\n")[:SHOWN_LINES])
    talk.screen.show(Text(beginning, overflow="fold"))
    if len(text) > len(beginning):
        talk.screen.note(f"… {len(text) - len(beginning):,} more characters")
    talk.attach(Attachment(f"{uri} of {name}", text))
    talk.screen.note(
        f"Attached to your next message: {strict(uri)} ({len(text):,} characters). /mcp drop "
        "takes it back."
    )


def _listed(talk: Talk, rows: list[tuple[str, str]], nothing: str, table: Table) -> None:
    if rows:
        table(talk, rows)
    else:
        talk.screen.note(nothing)


def _takes(required: Sequence[str], optional: Sequence[str]) -> str:
    return " ".join([*(f"{name}=…" for name in required), *(f"[{name}=…]" for name in optional)])
