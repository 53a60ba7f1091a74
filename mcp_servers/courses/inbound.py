"""Who may call the MCP server over HTTP, and what: before any tool runs.

There is one token, ``AGENT_TOKEN``: an opaque text that the server knows, with scopes
(``AGENT_TOKEN_SCOPES``, by default ``courses:read``) and an end (``AGENT_TOKEN_EXPIRES``,
looked at with every request). A second caller with other rights is a second process with
another token; signed tokens would need a key to keep and an issuer to trust, for no more than
that. stdio has no token: who starts the process is its caller.

| request | answer |
| --- | --- |
| ``Host`` or ``Origin`` of another site | 421, 403 (FastMCP's guard) |
| a body of more than ``MAX_BODY`` bytes; one that is no JSON | 413, 400 with JSON-RPC's -32700 |
| no token, a wrong or an expired one | 401 with ``WWW-Authenticate: Bearer`` |
| a token without ``courses:read``; a call of a writing tool without ``courses:write`` | 403 with \
``error="insufficient_scope"`` |

A tool beyond the token's scopes is not listed either.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, TokenVerifier
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_servers.courses.document import Operation, json_of, load_operations

PATH = "/mcp"
READ, WRITE = "courses:read", "courses:write"
MAX_BODY = 256 * 1024  # bytes


def scope_of(operation: Operation) -> str:
    """What a token must permit for an operation."""
    return READ if operation.reads else WRITE


class AgentToken(TokenVerifier):
    """The one token that opens the server, for FastMCP.

    Args:
        expires: From when on it is refused; ``None``: never.
        now: The clock, in seconds since the epoch.
    """

    def __init__(
        self,
        token: SecretStr,
        scopes: frozenset[str],
        expires: datetime | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(required_scopes=[READ])
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


def build_application(server: FastMCP) -> ASGIApp:
    """The server over Streamable HTTP at ``PATH``, behind its guards.

    Raises:
        ValueError: The server was made without ``auth``, so anybody could call it.
    """
    if server.auth is None:
        raise ValueError("HTTP without a token is not offered")
    scopes = {name: scope_of(operation) for name, operation in load_operations().items()}
    return server.http_app(
        path=PATH,
        middleware=[Middleware(CallGuard, scopes=scopes)],
        host_origin_protection=True,
        allowed_hosts=[],  # beside 127.0.0.1, localhost and ::1; not what the environment says
        allowed_origins=[],
    )


class CallGuard:
    """Caps the body, refuses what is no JSON, and asks for the scope of the tool that it calls.

    Args:
        scopes: The scope of each tool.
    """

    def __init__(self, app: ASGIApp, scopes: Mapping[str, str]) -> None:
        self._app, self._scopes = app, scopes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 413, 400 or 403."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        body = await _read(Headers(scope=scope), receive)
        if body is None:
            refusal: JSONResponse | None = _TOO_LARGE
        elif scope["method"] == "POST" and scope["user"].is_authenticated:
            refusal = self._refusal(body, scope["auth"].scopes)
        else:  # whoever is unknown gets a 401 further on
            refusal = None
        if refusal is not None:
            return await refusal(scope, receive, send)
        return await self._app(scope, _again(body or b"", receive), send)

    def _refusal(self, body: bytes, held: Sequence[str]) -> JSONResponse | None:
        """The answer to a body that goes no further.

        The tool checks its scope too, so a body that is read in another way there gains nothing.
        """
        try:
            message = json_of(body)
        except ValueError:
            return _NO_JSON  # the SDK's own answer, but for bytes that end its session
        wanted = self._scopes.get(_tool_called(message))
        return None if wanted is None or wanted in held else _insufficient(wanted)


def _tool_called(message: Any) -> str:
    """The tool that a JSON-RPC request calls, or nothing."""
    match message:
        case {"method": "tools/call", "params": {"name": str(name)}}:
            return name
    return ""


async def _read(headers: Headers, receive: Receive) -> bytes | None:
    """The body, or ``None`` when it is too large; what is announced too large is not read."""
    announced = headers.get("content-length", "0")
    if not announced.isdecimal() or len(announced) > 12 or int(announced) > MAX_BODY:
        return None
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """A body that was read, to be read once more; then what the connection says."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


def _insufficient(scope: str) -> JSONResponse:
    text = f"The token does not permit {scope}; nothing was called."
    return JSONResponse(
        {"error": "insufficient_scope", "error_description": text},
        403,
        {"WWW-Authenticate": f'Bearer error="insufficient_scope", scope="{scope}"'},
    )


_TOO_LARGE = JSONResponse({"error": f"A request has at most {MAX_BODY} bytes."}, 413)
_NO_JSON = JSONResponse(
    {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}, 400
)
