"""Who may call an MCP server over HTTP, what, and how often: before any tool runs.

There is one token, ``AGENT_TOKEN``: an opaque text that the server knows, with scopes
(``AGENT_TOKEN_SCOPES``, by default those for reading) and an end (``AGENT_TOKEN_EXPIRES``,
looked at with every request). A second caller with other rights is a second process with
another token; signed tokens would need a key to keep and an issuer to trust, for no more than
that. stdio has no token: who starts the process is its caller.

| request | answer |
| --- | --- |
| ``Host`` or ``Origin`` of another site | 421, 403 (``mcp_servers.local_http``, and FastMCP's \
own guard) |
| more than ``MAX_REQUESTS_PER_MINUTE`` | 429 with ``Retry-After`` |
| no token, a wrong or an expired one | 401 with ``WWW-Authenticate: Bearer`` |
| a body of more than ``MAX_MESSAGE`` bytes; one that does not arrive | 413; 408 |
| a body that the gate refuses (``mcp_servers.messages``) | its JSON-RPC error, with 400 where it \
is no message at all |
| an id that is being answered in the same session | 400 with JSON-RPC's -32600 |
| a token without the scope for reading; a call of a tool beyond its scopes | 403 with \
``error="insufficient_scope"`` |

Requests are counted for the token, and in one sum for all that come without it: on one machine
they share an address, and any other mark (a session id, a wrong token, a source port) is theirs
to choose.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

from fastmcp.server.auth import AccessToken, TokenVerifier
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.types import Message as Event

from mcp_servers.local_http import PATIENCE
from mcp_servers.messages import (
    INVALID_REQUEST,
    MAX_MESSAGE,
    PARSE_ERROR,
    Gate,
    Message,
    Refused,
)
from mcp_servers.rate_limit import RateLimit
from mcp_servers.serving import Offer, read_scope

PATH = "/mcp"


class AgentToken(TokenVerifier):
    """The one token that opens a server, for FastMCP.

    Args:
        server: The name of the server; it names the scope without which nothing can be called.
        expires: From when on it is refused; ``None``: never.
        now: The clock, in seconds since the epoch.
    """

    def __init__(
        self,
        server: str,
        token: SecretStr,
        scopes: frozenset[str],
        expires: datetime | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(required_scopes=[read_scope(server)])
        self._token, self._scopes, self._expires, self._now = token, scopes, expires, now

    async def verify_token(self, token: str) -> AccessToken | None:
        """What the token permits, or ``None`` when it is wrong or has expired."""
        wanted = self._token.get_secret_value()
        if not hmac.compare_digest(token.encode(), wanted.encode()):
            return None
        if self._expires is not None and self._now() >= self._expires.timestamp():
            return None
        # The token itself stays here: nothing behind this point needs it, or could leak it.
        return AccessToken(token="", client_id="agent", scopes=sorted(self._scopes))


def build_application(
    offer: Offer, token: AgentToken, limit: RateLimit, patience: float = PATIENCE
) -> ASGIApp:
    """The server over Streamable HTTP at ``PATH``, behind its guards.

    Args:
        patience: Seconds in which a body must arrive.
    """
    guard = Middleware(HttpGuard, offer=offer, limit=limit, patience=patience)
    # All that FastMCP would otherwise take from the environment is said here.
    return offer.server(token).http_app(
        path=PATH,
        middleware=[guard],
        json_response=False,
        stateless_http=False,
        host_origin_protection=True,
        allowed_hosts=[],  # beside 127.0.0.1, localhost and ::1
        allowed_origins=[],
    )


class HttpGuard:
    """Counts requests, reads bodies through the gate, and asks for the scope of a called tool.

    It stands behind FastMCP's guard and the look at the token, in front of everything else.
    """

    def __init__(self, app: ASGIApp, offer: Offer, limit: RateLimit, patience: float) -> None:
        self._app, self._limit, self._patience = app, limit, patience
        self._scopes = offer.scopes
        self._gate = Gate(self._scopes)
        self._running: dict[tuple[str, str], Message] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        user = scope["user"]
        wait = self._limit.wait(user.display_name if user.is_authenticated else "")
        if wait:
            await _too_many(wait)(scope, receive, send)
        elif user.is_authenticated:
            await self._with_body(scope, receive, send)
        else:  # a 401 further on; nothing of the body is read
            await self._app(scope, receive, send)

    async def _with_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(self._patience):
                body = await _read(Headers(scope=scope), receive)
        except TimeoutError:
            await _TOO_SLOW(scope, receive, send)
        except _TooLarge:
            await _TOO_LARGE(scope, receive, send)
        except _Gone:
            return
        else:
            if scope["method"] == "POST":
                await self._post(body, scope, receive, send)
            else:
                await self._app(scope, _again(b"", receive), send)

    async def _post(self, body: bytes, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            message = self._gate.admit(body)
            if message is not None and (wanted := self._missing_scope(message, scope)):
                await _insufficient(wanted)(scope, receive, send)
            elif message is None:
                await Response(status_code=202)(scope, receive, send)
            else:
                # What was read, and in no other way, is what goes on.
                again = _again(json.dumps(message).encode(), receive)
                with self._alone(message, scope, send) as send_once:
                    await self._app(scope, again, send_once)
        except Refused as refusal:
            await _refused(refusal)(scope, receive, send)

    def _missing_scope(self, message: Message, scope: Scope) -> str | None:
        wanted = self._scopes.get(_tool_called(message))
        return None if wanted in scope["auth"].scopes else wanted

    @contextmanager
    def _alone(self, message: Message, scope: Scope, send: Send) -> Iterator[Send]:
        """Hold a request's id in its session until its answer is sent, by the ``send`` yielded.

        Of two requests with one id the SDK would lose the first.
        """
        session = Headers(scope=scope).get("mcp-session-id")
        if session is None or "id" not in message:
            yield send
            return
        call = (session, str(message["id"]))  # to the SDK, 7 and "7" are one id
        if call in self._running:
            raise Refused(INVALID_REQUEST, "A request with this id is still running.")
        self._running[call] = message

        def free() -> None:
            if self._running.get(call) is message:
                del self._running[call]

        async def send_and_free(event: Event) -> None:
            if event["type"] == "http.response.body" and not event.get("more_body"):
                free()
            await send(event)

        try:
            yield send_and_free
        finally:
            free()


def _tool_called(message: Message) -> str:
    """The tool that a message names to be called, or nothing."""
    match message:
        case {"method": "tools/call", "params": {"name": str(name)}}:
            return name
    return ""


class _TooLarge(Exception):
    """The body has more than ``MAX_MESSAGE`` bytes."""


class _Gone(Exception):
    """Whoever sent the request has gone."""


async def _read(headers: Headers, receive: Receive) -> bytes:
    """The body; one that is announced too large is not read."""
    if int(headers.get("content-length", 0)) > MAX_MESSAGE:
        raise _TooLarge
    body = bytearray()
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _Gone
        body += event.get("body", b"")
        if len(body) > MAX_MESSAGE:
            raise _TooLarge
        if not event.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body for whoever reads next; then what the connection says."""
    events: list[Event] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Event:
        return events.pop() if events else await receive()

    return replay


def _refused(refusal: Refused) -> JSONResponse:
    """A JSON-RPC error; what is no message at all is a bad request for HTTP too."""
    bad = refusal.code in (PARSE_ERROR, INVALID_REQUEST)
    return JSONResponse(refusal.answer, 400 if bad else 200)


def _insufficient(scope: str) -> JSONResponse:
    text = f"The token does not permit {scope}; nothing was called."
    return JSONResponse(
        {"error": "insufficient_scope", "error_description": text},
        403,
        {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
    )


def _too_many(wait: float) -> JSONResponse:
    seconds = math.ceil(wait)
    text = f"Too many requests; nothing was called. Try again in {seconds} s."
    return JSONResponse({"error": text}, 429, {"Retry-After": str(seconds)})


_TOO_LARGE = JSONResponse({"error": f"A request has at most {MAX_MESSAGE} bytes."}, 413)
_TOO_SLOW = JSONResponse({"error": "The body did not arrive."}, 408)
