"""A sign-in server and an MCP server that wants its tokens, in one application on loopback.

It is as strict as the standards: PKCE is checked, a code and a refresh token are good once, and a
token is for one resource. ``OAuthServer`` is what a test says to it and asks of it::

    with OAuthServer().running() as server:
        ...  # server.url is the MCP server's address
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from fastmcp import FastMCP
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.served import served

PATH = "/mcp"
SCOPE = "notes:read"


@dataclass
class Token:
    """What a token was given for."""

    client: str
    resource: str


@dataclass
class Code:
    """What a one-time code was given for."""

    token: Token
    challenge: str
    redirect_uri: str


@dataclass
class OAuthServer:
    """Both servers, and what they saw.

    Args:
        sse: The MCP server speaks HTTP with SSE.
        lifetime: Seconds that a token is good for, as it is said; whether it is good is whether
            it is in ``tokens``.
        guards: The MCP server wants a token.
        publishes: The documents by which a client finds the sign-in server are there.
        registers: Clients are registered.
        consents: Whoever sits at the browser agrees.
        rotates: A refresh token is good once, and a new one comes with each token.
        issues: Makes the body of an answer with a token something else.
        changes: Makes the sign-in server's document something else.
    """

    sse: bool = False
    lifetime: int | None = 3600
    guards: bool = True
    publishes: bool = True
    registers: bool = True
    consents: bool = True
    rotates: bool = True
    issues: Callable[[dict[str, Any]], Any] = lambda body: body
    changes: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document

    base: str = ""
    clients: dict[str, dict[str, Any]] = field(default_factory=dict)
    codes: dict[str, Code] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    refreshers: dict[str, Token] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    signed: list[str | None] = field(default_factory=list)
    refreshed: int = 0

    @property
    def url(self) -> str:
        """The MCP server's address."""
        return self.base + PATH

    @contextmanager
    def running(self) -> Iterator[OAuthServer]:
        """Both servers, on a free port."""
        with served(self.application()) as self.base:
            yield self

    def application(self) -> Starlette:
        """Everything under one origin."""
        notes = _notes().http_app(path=PATH, transport="sse" if self.sse else "http")
        document = "/.well-known/oauth-protected-resource" + PATH

        @asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            async with notes.router.lifespan_context(notes):
                yield

        return Starlette(
            lifespan=lifespan,
            routes=[
                Route(document, self._resource),
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Mount("/", _Guarded(notes, self)),
            ],
        )

    def is_good(self, token: str | None) -> bool:
        """Whether the MCP server takes a token."""
        known = self.tokens.get(token or "")
        return not self.guards or (known is not None and known.resource == self.url)

    # --- the documents -------------------------------------------------------------------

    async def _resource(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        if not self.publishes:
            return Response(status_code=404)
        servers, scopes = [self.base], [SCOPE]
        return JSONResponse(
            {
                "resource": self.url,
                "authorization_servers": servers,
                "scopes_supported": scopes,
            }
        )

    async def _metadata(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        if not self.publishes:
            return Response(status_code=404)
        document = {
            "issuer": self.base,
            "authorization_endpoint": f"{self.base}/authorize",
            "token_endpoint": f"{self.base}/token",
            "registration_endpoint": f"{self.base}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }
        return JSONResponse(self.changes(document))

    # --- the sign-in server --------------------------------------------------------------

    async def _register(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        if not self.registers:
            return _error(403, "access_denied", "registration is closed")
        name, secret = secrets.token_hex(8), secrets.token_urlsafe(24)
        client = {
            **await request.json(),
            "client_id": name,
            "client_secret": secret,
            "token_endpoint_auth_method": "client_secret_basic",
        }
        self.clients[name] = client
        return JSONResponse(client, status_code=201)

    async def _authorize(self, request: Request) -> Response:
        """The page at which a person would sign in; here they have at once."""
        self.asked.append(request.url.path)
        asked = request.query_params
        client = self.clients[asked["client_id"]]
        assert asked["redirect_uri"] in client["redirect_uris"]
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        answer = {"state": asked["state"], "iss": self.base}
        if self.consents:
            token = Token(asked["client_id"], asked["resource"])
            code = secrets.token_urlsafe(16)
            self.codes[code] = Code(token, asked["code_challenge"], asked["redirect_uri"])
            answer["code"] = code
        else:
            answer |= {"error": "access_denied", "error_description": "the person said no"}
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", status_code=302)

    async def _token(self, request: Request) -> Response:
        self.asked.append(request.url.path)
        form = {name: str(value) for name, value in (await request.form()).items()}
        if not self._knows(request, form["client_id"]):
            return _error(401, "invalid_client", "who are you?")
        if form["grant_type"] == "refresh_token":
            return self._refresh(form)
        code = self.codes.pop(form["code"], None)
        if (
            code is None
            or code.challenge != _challenge(form["code_verifier"])
            or code.redirect_uri != form["redirect_uri"]
            or code.token != Token(form["client_id"], form["resource"])
        ):
            return _error(400, "invalid_grant", "the code is not good")
        return self._issued(code.token, refresh=True)

    def _refresh(self, form: dict[str, str]) -> Response:
        self.refreshed += 1
        old = form["refresh_token"]
        token = self.refreshers.get(old)
        if token is None or token != Token(form["client_id"], form["resource"]):
            return _error(400, "invalid_grant", "the refresh token is not good")
        if self.rotates:
            del self.refreshers[old]
        return self._issued(token, refresh=self.rotates)

    def _issued(self, token: Token, *, refresh: bool) -> Response:
        body: dict[str, Any] = {"access_token": f"at-{secrets.token_urlsafe(24)}"}
        self.tokens[body["access_token"]] = token
        body["token_type"] = "bearer"
        if self.lifetime is not None:
            body["expires_in"] = self.lifetime
        if refresh:
            body["refresh_token"] = f"rt-{secrets.token_urlsafe(24)}"
            self.refreshers[body["refresh_token"]] = token
        return JSONResponse(self.issues(body))

    def _knows(self, request: Request, client: str) -> bool:
        secret = self.clients[client]["client_secret"]
        basic = base64.b64encode(f"{client}:{secret}".encode()).decode()
        return request.headers.get("authorization") == f"Basic {basic}"


class _Guarded:
    """The MCP server, for those who have a token."""

    def __init__(self, inner: ASGIApp, server: OAuthServer) -> None:
        self.inner, self.server = inner, server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take what is signed; of the rest say where to sign in."""
        if scope["type"] != "http":
            return await self.inner(scope, receive, send)
        request, server = Request(scope), self.server
        said = request.headers.get("authorization")
        token = said.removeprefix("Bearer ") if said else None
        server.signed.append(token)
        if server.is_good(token):
            return await self.inner(scope, receive, send)
        headers = {"WWW-Authenticate": "Bearer"}
        if server.publishes:
            document = f"{server.base}/.well-known/oauth-protected-resource{PATH}"
            headers["WWW-Authenticate"] = f'Bearer resource_metadata="{document}"'
        answer = JSONResponse({"error": f"not {token}"}, status_code=401, headers=headers)
        return await answer(scope, receive, send)


def _notes() -> FastMCP:
    server = FastMCP("notes")

    @server.tool
    def latest() -> str:
        """The latest note."""
        return "buy milk"

    return server


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _error(status: int, error: str, description: str) -> Response:
    return JSONResponse({"error": error, "error_description": description}, status_code=status)
