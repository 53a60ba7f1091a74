"""Where the browser comes back to after a sign-in: a port of this machine, for minutes.

The address it comes back with holds the one-time code. It is taken once, and only with the state
that was sent along; anything that can reach the port may call it (any page in a browser can), so
whatever else comes is answered and changes nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth.utils import issuers_match

from agent.errors import McpError
from agent.safe_text import one_line, shorten

_HOST = "127.0.0.1"
_PATH = "/callback"
_MAX_HEAD = 32 * 1024
_PATIENCE = 10.0
_NO_BROWSER = (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
"""How somebody ends who has connected and is no browser with an answer."""

_TAKEN = "sayso has the answer of the sign-in. Go back to the terminal."
_NOTHING = "There is nothing here."


class Redirect:
    """One answer of a browser that is waited for. Made by :func:`listening`.

    Attributes:
        uri: The address that the browser is to come back to.
        state: The state that its answer must have; nothing is taken before there is one.
    """

    def __init__(self) -> None:
        self.uri = ""
        self.state = ""
        self._issuer: str | None = None
        self._answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()

    def expect(self, state: str, issuer: str | None) -> None:
        """From now on an answer with this state is taken.

        Args:
            state: What was sent to the sign-in server.
            issuer: That server; an answer that names another one ends the sign-in.
        """
        self.state, self._issuer = state, issuer

    async def code(self) -> str:
        """The one-time code.

        Raises:
            McpError: The sign-in was refused.
        """
        return await asyncio.shield(self._answer)

    def take(self, url: str) -> str | None:
        """Take the address with which the browser came back.

        Returns:
            Why it is not the answer, as a sentence; ``None`` when it is.
        """
        try:
            query = parse_qs(urlsplit(url).query)
        except ValueError:
            query = {}
        if url.partition("?")[0] != self.uri:
            return f"That is not the address that was waited for; it begins with {self.uri}?"
        if not self.state or not _equal(_only(query, "state"), self.state):
            return "That belongs to another sign-in than the one that waits here."
        if self._answer.done():
            return "The answer has come already."
        issuer = _only(query, "iss")
        if issuer and self._issuer and not issuers_match(issuer, self._issuer):
            self._fail("the answer came from another sign-in server than was asked")
        elif error := _only(query, "error"):
            said = filter(None, [error, _only(query, "error_description")])
            self._fail(f"the sign-in was refused ({one_line(shorten(': '.join(said), 300))})")
        elif code := _only(query, "code"):
            self._answer.set_result(code)
        else:
            return "That address has no code in it."
        return None

    def _fail(self, why: str) -> None:
        self._answer.set_exception(McpError(why))
        self._answer.exception()  # whoever waited may have gone

    # --- the port ----------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(*_NO_BROWSER):
                async with asyncio.timeout(_PATIENCE):
                    head = await reader.readuntil(b"\r\n\r\n")
                    writer.write(_page(*self._answer_to(head)))
                    await writer.drain()
        finally:
            self._tasks.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _answer_to(self, head: bytes) -> tuple[HTTPStatus, str]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or words[0] != "GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, _NOTHING
        if words[1].partition("?")[0] != _PATH:
            return HTTPStatus.NOT_FOUND, _NOTHING
        complaint = self.take(self.uri.removesuffix(_PATH) + words[1])
        if complaint is None:
            return HTTPStatus.OK, _TAKEN
        return HTTPStatus.BAD_REQUEST, complaint

    async def close(self) -> None:
        """Hang up on whoever is still there."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def listening() -> AsyncIterator[Redirect]:
    """A port of 127.0.0.1 that is free, until the end of the block.

    Raises:
        OSError: There is none.
    """
    redirect = Redirect()
    server = await asyncio.start_server(redirect._serve, _HOST, 0, limit=_MAX_HEAD)
    redirect.uri = f"http://{_HOST}:{server.sockets[0].getsockname()[1]}{_PATH}"
    try:
        yield redirect
    finally:
        server.close()
        await redirect.close()
        await server.wait_closed()


def _page(status: HTTPStatus, text: str) -> bytes:
    """Plain text, kept nowhere; the address of the page is not passed on."""
    body = f"{text}\n".encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Referrer-Policy: no-referrer",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _only(query: Mapping[str, Sequence[str]], name: str) -> str:
    """The value of a parameter that is there once; else nothing."""
    values = query.get(name, ())
    return values[0] if len(values) == 1 else ""


def _equal(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode("utf-8", "replace"), other.encode())
