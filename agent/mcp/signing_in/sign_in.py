"""Signing in to a server that wants OAuth, by the SDK's provider; and what a host does with it.

A person signs in with :func:`sign_in`: the SDK finds the sign-in server, registers this program
there and exchanges the code (PKCE, state); the address to open is shown, never opened. What came
of it is kept (:mod:`agent.mcp.signing_in.tokens`) only once the server has accepted it.

A host gets :func:`stored_auth`: it signs requests with what is kept, and renews that, but never
begins a sign-in. Without a token that the server accepts, a request ends as the 401 that it got.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
from mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp.types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, ValidationError

from agent import __version__
from agent.config import mask_url
from agent.errors import McpError, UsageError
from agent.mcp.servers import Http, ServerConfig
from agent.mcp.signing_in.oauth_http import check_address, fetch, origin, refusal
from agent.mcp.signing_in.redirect import Redirect, listening
from agent.mcp.signing_in.tokens import SignIn, TokenFile, delete_all, expiry, has_own_authorization
from agent.safe_text import one_line, shorten

PATIENCE = 300.0
"""Seconds that a person has to sign in."""

MAX_REFUSAL = 16 * 1024
MAX_ADDRESS = 8_000
MAX_ISSUER = 500
"""Characters of what a person is shown whole, so that they see whom they deal with."""

Show = Callable[[str], None]

_TOKEN = """; if you have a token, put "Authorization" into the "headers" of its configuration"""
_SDK_LOG = logging.getLogger("mcp.client.auth.oauth2")
_BUSY = (408, 429)


def stored_auth(
    server: ServerConfig, home: Path, *, transport: httpx.AsyncBaseTransport | None = None
) -> httpx.Auth | None:
    """What signs a host's requests to a server; ``None`` where no sign-in can be used.

    Args:
        home: The state folder.
        transport: Instead of the network, for renewals.
    """
    remote = server.transport
    if not isinstance(remote, Http) or has_own_authorization(remote):
        return None
    return _StoredAuth(remote, TokenFile(home, server, remote), transport)


async def sign_in(
    server: ServerConfig,
    home: Path,
    show: Show,
    *,
    typed: AsyncIterator[str] | None = None,
    patience: float = PATIENCE,
    transport: httpx.AsyncBaseTransport | None = None,
) -> str:
    """Have a person sign in to a server in their browser, and keep what comes of it.

    Args:
        home: The state folder.
        show: Gets sentences for the person, and the address to open, a line each.
        typed: Lines that the person types: the address that the browser came back to, where it
            runs on another machine.
        patience: Seconds that they have.
        transport: Instead of the network.

    Returns:
        The sign-in server, to be shown.

    Raises:
        UsageError: It is no server to sign in to.
        McpError: Nobody signed in; what was kept before is still kept.
    """
    remote = _remote(server)
    async with listening() as redirect:
        attempt = _Attempt(server, remote, redirect, show, typed, patience, transport)
        kept = await attempt.run()
    file = TokenFile(home, server, remote)
    async with file.held():
        file.write(kept)
    return kept.issuer


async def sign_out(server: ServerConfig, home: Path) -> bool:
    """Delete what is kept of sign-ins to a server, whatever address it had.

    The tokens are not revoked: until they expire, whoever has a copy can use them.

    Returns:
        Whether there was anything.

    Raises:
        UsageError: It cannot be deleted.
    """
    return await delete_all(home, server) > 0


def _remote(server: ServerConfig) -> Http:
    remote = server.transport
    name = one_line(repr(server.name))
    if not isinstance(remote, Http):
        raise UsageError(f"MCP server {name} is a program on this machine: no sign-in is needed.")
    if has_own_authorization(remote):
        raise UsageError(
            f"MCP server {name} has an Authorization header of its own in "
            f"{one_line(str(server.source))}, which is used. Take it out to sign in instead."
        )
    url = httpx.URL(remote.url)
    try:
        check_address(url, url)
    except McpError as error:
        raise UsageError(
            f"MCP server {name}: {error}, so a token would be readable on the way. Nobody was "
            "signed in."
        ) from error
    return remote


# --- a person signs in -----------------------------------------------------------------------


class _Attempt:
    """One sign-in: what the SDK asks of the person, and what comes of it."""

    def __init__(
        self,
        server: ServerConfig,
        remote: Http,
        redirect: Redirect,
        show: Show,
        typed: AsyncIterator[str] | None,
        patience: float,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self.server, self.remote, self.redirect = server, remote, redirect
        self.show, self.typed, self.patience, self.transport = show, typed, patience, transport
        self.url = httpx.URL(remote.url)
        self.storage = _Storage()
        self.wants_it = False
        self.last: httpx.Response | None = None
        self.provider = OAuthClientProvider(
            _resource(remote),
            OAuthClientMetadata(client_name="sayso", redirect_uris=[AnyUrl(redirect.uri)]),
            self.storage,
            redirect_handler=self.ask,
            callback_handler=self.answer,
        )
        self.context = self.provider.context
        _SDK_LOG.addFilter(_unsaid)

    async def run(self) -> SignIn:
        """What came of it.

        Raises:
            McpError: See :func:`sign_in`.
        """
        try:
            await self.flow()
        except OAuthFlowError as error:
            raise McpError(self.sentence(self.explain(error))) from None
        except McpError as error:
            raise McpError(self.sentence(str(error))) from error
        except (ValueError, OverflowError, httpx.InvalidURL):
            # Their texts quote what was sent to us, tokens included.
            why = f"{self.asked_last} answered with something that cannot be understood"
            raise McpError(self.sentence(why)) from None
        tokens, client = self.storage.tokens, self.storage.client
        assert tokens is not None
        assert client is not None
        return SignIn(
            server=self.server.name,
            issuer=self.issuer,
            tokens=tokens,
            expires_at=self.storage.expires_at,
            client=client,
            metadata=self.context.oauth_metadata,
            resource=self.context.protected_resource_metadata,
        )

    async def flow(self) -> None:
        """Let the SDK sign in for a request; it ends with that request, signed."""
        probe = _probe(self.remote)
        sent = 0
        async with aclosing(self.provider.async_auth_flow(probe)) as flow:
            outgoing = await anext(flow)
            while True:
                response = await fetch(
                    outgoing, self.url, body=outgoing is not probe, transport=self.transport
                )
                self.last = response
                if outgoing is probe:
                    sent += 1
                    response = self.first(response) if sent == 1 else response
                try:
                    outgoing = await flow.asend(response)
                except StopAsyncIteration:
                    break
        if response.status_code in (401, 403):
            raise McpError(f"the server does not accept the token ({refusal(response)})")
        await self.leave(response)

    def first(self, response: httpx.Response) -> httpx.Response:
        """The answer to the request without a token. Whatever it is, a sign-in was asked for."""
        self.wants_it = response.status_code == 401
        if response.status_code in (404, 405) or response.status_code >= 500:
            raise McpError(f"it answered HTTP {response.status_code}; is its address right?")
        return response if self.wants_it else httpx.Response(401, request=response.request)

    async def leave(self, response: httpx.Response) -> None:
        """End the session that the request has opened."""
        if session := response.headers.get("mcp-session-id"):
            headers = {**response.request.headers, "mcp-session-id": session}
            headers.pop("content-length", None)
            request = httpx.Request("DELETE", self.url, headers=headers)
            with suppress(McpError):
                await fetch(request, self.url, body=False, transport=self.transport)

    # --- what the SDK calls ------------------------------------------------------------------

    async def ask(self, address: str) -> None:
        """Show the address of the page to sign in at, whole."""
        metadata, named = self.context.oauth_metadata, self.context.auth_server_url
        if metadata is None and named:
            raise McpError(f"its sign-in server {_shown(named)} does not say how to sign in")
        url = httpx.URL(address)
        check_address(url, self.url)
        if len(address) > MAX_ADDRESS or not address.isascii() or one_line(address) != address:
            raise McpError(f"the address at {origin(url)} cannot be shown as it is")
        if len(self.issuer) > MAX_ISSUER:
            raise McpError(f"its sign-in server {shorten(self.issuer, 100)} has too long a name")
        state = parse_qs(urlsplit(address).query).get("state", [""])[-1]
        self.redirect.expect(state, str(metadata.issuer) if metadata else None)
        for line in self.introduction(url):
            self.show(line)
        self.show(address)
        self.show(f"You have {self.patience / 60:g} minutes; Ctrl-C ends it.")
        if self.typed is not None:
            self.show(
                "If the browser runs on another machine, it cannot open the last page: paste the "
                f"address of that page ({self.redirect.uri}?…) here and press Enter."
            )

    def introduction(self, url: httpx.URL) -> list[str]:
        """Who wants what: shown before the address."""
        server = one_line(repr(self.server.name))
        its_own = origin(httpx.URL(self.remote.url))
        lines = [
            f"MCP server {server} ({its_own}) sends you to the sign-in server {self.issuer}",
        ]
        if origin(url) != origin(httpx.URL(self.issuer)):
            lines.append(f"Its page is at another address: {origin(url)}")
        if scope := self.context.client_metadata.scope:
            lines.append(f"It asks for: {one_line(shorten(scope, 500))}")
        lines.append("If that is where you want to sign in, open this in a browser:")
        return lines

    async def answer(self) -> tuple[str, str | None]:
        """The code and the state with which the browser comes back, or that are pasted."""
        reading = asyncio.create_task(self.read()) if self.typed is not None else None
        try:
            async with asyncio.timeout(self.patience):
                return await self.redirect.code(), self.redirect.state
        except TimeoutError as error:
            raise McpError(f"nobody signed in within {self.patience:g} seconds") from error
        finally:
            if reading is not None:
                reading.cancel()
                await asyncio.gather(reading, return_exceptions=True)

    async def read(self) -> None:
        """Take what is typed until it is the answer."""
        assert self.typed is not None
        async for line in self.typed:
            complaint = self.redirect.take(line.strip()) if line.strip() else None
            if complaint:
                self.show(complaint)

    # --- words -------------------------------------------------------------------------------

    @property
    def issuer(self) -> str:
        """The sign-in server; the server itself where it names none."""
        metadata = self.context.oauth_metadata
        named = str(metadata.issuer) if metadata else self.context.auth_server_url
        return _shown(named or origin(self.url))

    @property
    def asked_last(self) -> str:
        return origin(self.last.request.url) if self.last else origin(self.url)

    def explain(self, error: OAuthFlowError) -> str:
        """Why the SDK gave up. Its own texts may quote a token, or the whole of a page."""
        assert self.last is not None
        if isinstance(error, OAuthTokenError):
            return f"{self.asked_last} did not give a token ({refusal(self.last)})"
        if not isinstance(error, OAuthRegistrationError):
            return one_line(shorten(str(error), 300))
        if self.context.oauth_metadata is None:
            wants = "wants a sign-in, and" if self.wants_it else "let a request in without one, and"
            return f"it {wants} does not say how to sign in (no OAuth metadata was found){_TOKEN}"
        return f"{self.asked_last} does not register this program ({refusal(self.last)}){_TOKEN}"

    def sentence(self, why: str) -> str:
        server = one_line(repr(self.server.name))
        return f"MCP server {server}: {why}. Nobody was signed in; nothing was changed."


def _unsaid(record: logging.LogRecord) -> bool:
    """The SDK logs the answers that it cannot read, tokens included; what is wrong is said here."""
    return False


def _shown(address: str) -> str:
    return one_line(mask_url(address))


def _resource(remote: Http) -> str:
    """The server as a resource (RFC 8707): what is in its query may be a key of its own."""
    return str(httpx.URL(remote.url).copy_with(query=None, fragment=None))


def _probe(remote: Http) -> httpx.Request:
    """A request that a server which wants a sign-in turns away, and that else changes nothing."""
    headers = {**remote.headers, "Accept": "application/json, text/event-stream"}
    if remote.sse:
        return httpx.Request("GET", remote.url, headers=headers)
    greeting = {
        "protocolVersion": LATEST_PROTOCOL_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "sayso", "version": __version__},
    }
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": greeting}
    return httpx.Request("POST", remote.url, headers=headers, json=message)


# --- a host uses it --------------------------------------------------------------------------


class _StoredAuth(httpx.Auth):
    """Signs with what is kept. The file is read for each request: a person may sign in or out
    meanwhile, and another process may renew it."""

    def __init__(
        self, remote: Http, file: TokenFile, transport: httpx.AsyncBaseTransport | None
    ) -> None:
        self._remote, self._file, self._transport = remote, file, transport
        self._url = httpx.URL(remote.url)
        self._renewing = asyncio.Lock()
        self._refused: str | None = None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Sign a request; after a 401, which means that it was not applied, once more.

        Raises:
            httpx.ConnectError: The token is over, and whether it can be renewed is not known.
        """
        if origin(request.url) != origin(self._url):
            yield request
            return
        token = await self._token(None)
        response = yield _signed(request, token)
        if response.status_code == 401 and (other := await self._token(token)):
            token = other
            response = yield _signed(request, token)
        if token and not response.is_success:
            response.stream = _Masked(response.stream, token)

    async def _token(self, refused: str | None) -> str | None:
        """A token that the server has not refused, renewed if need be; ``None``: there is none."""
        async with self._renewing:
            kept = self._file.read()
            if kept and (kept.has_expired or kept.tokens.access_token == refused):
                kept = await self._renewed(kept)
        token = kept.tokens.access_token if kept else None
        return None if token == refused else token

    async def _renewed(self, kept: SignIn) -> SignIn | None:
        """What is kept from now on: with new tokens, or as it was where a person has to sign in
        again; ``None``: somebody has signed out."""
        refresh = kept.tokens.refresh_token
        if not refresh or refresh == self._refused:
            return kept
        async with self._file.held():
            now = self._file.read()
            if now != kept:
                return now  # another process was faster
            request = await _refresh_request(self._remote, kept)
            try:
                response = await fetch(request, self._url, transport=self._transport)
                if 400 <= response.status_code < 500 and response.status_code not in _BUSY:
                    self._refused = refresh
                    return kept
                if response.status_code != 200:
                    raise McpError(f"{origin(request.url)} answered HTTP {response.status_code}")
                renewed = kept.renewed(_tokens_of(response))
                self._file.write(renewed)
            except (McpError, UsageError) as error:
                raise httpx.ConnectError(f"its sign-in cannot be renewed: {error}") from error
        return renewed


def _tokens_of(response: httpx.Response) -> OAuthToken:
    try:
        return OAuthToken.model_validate_json(response.content)
    except ValidationError:  # whose text quotes the answer
        raise McpError(f"{origin(response.request.url)} sent no token") from None


async def _refresh_request(remote: Http, kept: SignIn) -> httpx.Request:
    """The SDK's request, to the endpoint that was known when the person signed in."""
    storage = _Storage(kept.tokens, kept.client)
    provider = OAuthClientProvider(_resource(remote), kept.client, storage)
    provider.context.oauth_metadata = kept.metadata
    provider.context.protected_resource_metadata = kept.resource
    await provider._initialize()
    return await provider._refresh_token()


@dataclass
class _Storage:
    """What the SDK's provider begins with and brings; kept by others, at the end or never."""

    tokens: OAuthToken | None = field(default=None, repr=False)
    client: OAuthClientInformationFull | None = field(default=None, repr=False)
    expires_at: float | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.expires_at = expiry(tokens)
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


class _Masked(httpx.AsyncByteStream):
    """The text of a refusal without the token that it may repeat: it is shown and recorded."""

    def __init__(self, inner: httpx.SyncByteStream | httpx.AsyncByteStream, token: str) -> None:
        assert isinstance(inner, httpx.AsyncByteStream)
        self._inner, self._token = inner, token.encode()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        said = bytearray()
        async for piece in self._inner:
            said += piece
            if len(said) > MAX_REFUSAL:
                break
        yield bytes(said[:MAX_REFUSAL]).replace(self._token, b"[token]")

    async def aclose(self) -> None:
        """Close the connection."""
        await self._inner.aclose()


def _signed(request: httpx.Request, token: str | None) -> httpx.Request:
    if token is not None:
        request.headers["Authorization"] = f"Bearer {token}"
    return request
