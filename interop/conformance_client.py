"""Our host as the conformance suite's client: ``python -m interop.conformance_client URL``.

The suite starts it with the address of a server of its own, and looks at what that is asked.
"""

from __future__ import annotations

import asyncio
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import httpx

from agent.errors import McpError
from agent.mcp.host import McpHost, Surroundings
from agent.mcp.questions import Question, Reply
from agent.mcp.servers import Http, ServerConfig
from agent.mcp.signing_in.sign_in import sign_in, stored_auth
from agent.repl.forms import fill
from agent.repl.prompts import Prompts
from agent.repl.screen import Screen

ARGUMENTS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
"""For the tools that want some."""


class Enter:
    """A person who answers everything in the chat's form by pressing Enter."""

    async def line(self, question: str) -> str:
        """What they type."""
        return ""


async def accept(question: Question) -> Reply:
    """The form as they leave it."""
    prompts, screen = cast(Prompts, Enter()), Screen.on(io.StringIO())
    return Reply("accept", await fill(question.args, prompts, screen, lambda: False))


class Person:
    """Opens the address that is shown at a sign-in, in a browser."""

    def __init__(self) -> None:
        self._visits: list[asyncio.Task[httpx.Response]] = []

    def __call__(self, line: str) -> None:
        if line.startswith("http"):
            self._visits.append(asyncio.create_task(self._open(line)))

    async def _open(self, address: str) -> httpx.Response:
        async with httpx.AsyncClient(follow_redirects=True) as browser:
            return await browser.get(address)


async def use(server: ServerConfig, home: Path) -> list[str]:
    """List the server's tools and call each; why it could not be used."""
    around = Surroundings(
        os.environ, home / "logs", ask=accept, auth=lambda one: stored_auth(one, home)
    )
    async with McpHost([server], around) as host:
        for tool in host.tools:
            name = host.server("suite").tools[tool.name].definition["name"]
            await tool.ainvoke(ARGUMENTS.get(name, {}))
        return list(host.problems.values())


async def main(url: str) -> int:
    """Use the server; where it wants a sign-in, sign in and use it."""
    server = ServerConfig("suite", Http(url), trusted=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        problems = await use(server, home)
        if any("sayso mcp login" in problem for problem in problems):
            await sign_in(server, home, Person())
            problems = await use(server, home)
    sys.stderr.writelines(problems)
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1])))
    except McpError as error:
        sys.exit(str(error))
