"""One page of the web, asked for by a machine that a stranger's words may have sent there.

A name is looked up once, everything that it stands for is checked (``addresses.py``), and the
connection goes to one of exactly these addresses: whoever answers the second look-up of a name
cannot answer otherwise, since there is none. The server is still asked by its name (``Host``,
SNI) and its certificate has to be that name's. A redirect goes the same way, and stays at its
host: the effects of a call name the host it was allowed to ask.

No proxy is taken from the environment, no cookie outlives its answer, and what an answer may cost
is bounded in time and in bytes, packed and unpacked.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cache

import httpx

from tools.contract import ToolFailure, TransientFailure
from tools.web.addresses import PORTS, Address, WebUrl, is_public, read_ip

LookUp = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host's name and a port to its addresses, as text.

Raises:
    OSError: It has none, or nobody could say.
"""

Place = tuple[str, int]
"""An address, in its short form, and a port."""

_HEADERS = {
    "User-Agent": "sayso",
    "Accept": "text/html, text/plain;q=0.9, application/json;q=0.9, */*;q=0.1",
    "Accept-Encoding": "gzip",
}
_REDIRECTS = (301, 302, 303, 307, 308)
_LATER = (408, 425, 429, 500, 502, 503, 504)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE | re.ASCII)
_MIME = re.compile(r"[\w.+-]+/[\w.+-]+", re.ASCII)
_READABLE = re.compile(
    r"text/.+|application/(?:.+\+)?(?:json|xml|yaml|x-yaml|x-ndjson|javascript)", re.ASCII
)
HTML = ("text/html", "application/xhtml+xml")


@dataclass(frozen=True)
class Limits:
    """What a page may cost.

    Args:
        seconds: For all of it: looking up, redirects, the last byte.
        silence: Seconds for a connection, and between two pieces of an answer.
        packed: Bytes of a body as it is sent.
        unpacked: Bytes of a body; what is beyond is left unread.
        redirects: How many are followed.

    A head is left by ``h11`` once it is longer than 100 KiB.
    """

    seconds: float = 30.0
    silence: float = 10.0
    packed: int = 4 * 1024 * 1024
    unpacked: int = 4 * 1024 * 1024
    redirects: int = 5


@dataclass(frozen=True)
class Answer:
    """What a server sent.

    Args:
        url: Where it came from, after redirects.
        mime: ``text/html``; empty: the server does not say.
        charset: The encoding that the server names, if any.
        body: Unpacked.
        whole: Whether all of it was read.
    """

    url: WebUrl
    mime: str
    charset: str
    body: bytes
    whole: bool


async def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, from the system's resolver.

    It has a thread of its own, which keeps nobody from ending: a resolver may take its time.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[list[str]] = loop.create_future()

    def settle(addresses: list[str], error: Exception | None) -> None:
        if not found.done():
            found.set_exception(error) if error else found.set_result(addresses)

    def ask() -> None:
        addresses: list[str] = []
        failed: Exception | None = None
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except Exception as error:
            failed = error
        with suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(settle, addresses, failed)

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    return await found


class Web:
    """The web as a page's reader may reach it.

    Args:
        look_up: Instead of the system's resolver.
        allowed: Places that may be reached although they are not public, or at another port.
        tls: Instead of the usual certificate authorities.
    """

    def __init__(
        self,
        *,
        look_up: LookUp = look_up,
        allowed: frozenset[Place] = frozenset(),
        tls: ssl.SSLContext | None = None,
        limits: Limits = Limits(),
    ) -> None:
        self._look_up, self._allowed, self._limits = look_up, allowed, limits
        self._tls = tls

    async def get(self, url: WebUrl) -> Answer:
        """Ask for a page once.

        Raises:
            ToolFailure: It is not to be had; the text says why, and what to do.
            TransientFailure: The same, and later it may be.
        """
        try:
            async with asyncio.timeout(self._limits.seconds):
                return await self._follow(url)
        except TimeoutError as error:
            raise TransientFailure(
                f"{url.host} took longer than {self._limits.seconds:g} seconds, so nothing of the "
                "page was kept. Try once more later, or use another source."
            ) from error

    async def _follow(self, url: WebUrl) -> Answer:
        for _ in range(self._limits.redirects + 1):
            async with self._asked(url) as response:
                if response.status_code not in _REDIRECTS or "location" not in response.headers:
                    return await self._read(url, response)
                location = response.headers["location"]
            url = _redirected(url, location)
        raise ToolFailure(
            f"{url.host} redirects more than {self._limits.redirects} times. Use another address."
        )

    @asynccontextmanager
    async def _asked(self, url: WebUrl) -> AsyncIterator[httpx.Response]:
        """The answer to one request, its body still unread."""
        timeout = httpx.Timeout(self._limits.silence).as_dict()
        request = httpx.Request("GET", url.url, headers=_HEADERS, extensions={"timeout": timeout})
        try:
            # Without a client there are no cookies, no passwords and no redirects but ours.
            async with _Checked(url, await self._places(url), self._tls) as transport:
                response = await transport.handle_async_request(request)
                response.request = request
                try:
                    yield response
                finally:
                    await response.aclose()
        except httpx.HTTPError as error:
            raise _unreachable(url, error) from error

    async def _places(self, url: WebUrl) -> list[Address]:
        """The addresses of a host, when each of them may be reached at the URL's port.

        Of a name that stands for a public address and for one inside, none is used.
        """
        ports = {*PORTS.values(), *(port for _, port in self._allowed)}
        if url.port not in ports:
            raise ToolFailure(f"{url} was not asked for: only ports 80 and 443 are. Leave it out.")
        found = [url.address] if url.address else await self._addresses_of(url)
        for address in found:
            usual = is_public(address) and url.port in PORTS.values()
            if not usual and (str(address), url.port) not in self._allowed:
                raise ToolFailure(
                    f"{url} was not asked for: {url.host} is no address of the public internet, "
                    "or stands for one that is not. Only public pages can be read."
                )
        return found

    async def _addresses_of(self, url: WebUrl) -> list[Address]:
        try:
            found = [read_ip(text) for text in await self._look_up(url.host, url.port)]
        except socket.gaierror as error:
            if error.errno == socket.EAI_NONAME:
                raise ToolFailure(
                    f"There is no host {url.host}. Check its spelling, or search for the page."
                ) from error
            raise TransientFailure(
                f"{url.host} could not be looked up: {error.strerror}."
            ) from error
        except (OSError, ValueError) as error:
            raise TransientFailure(f"{url.host} could not be looked up.") from error
        if not found:
            raise ToolFailure(f"{url.host} has no address. Use another source.")
        return found

    async def _read(self, url: WebUrl, response: httpx.Response) -> Answer:
        """The body of an answer that has a page in it.

        Raises:
            ToolFailure: It has none that can be read.
        """
        _check_status(url, response.status_code)
        given = response.headers.get("content-type", "")
        mime = given.partition(";")[0].strip().lower()
        if mime:
            check_type(url, mime)
        charset = _CHARSET.search(given)
        body, whole = await self._body(url, response)
        return Answer(url, mime, charset[1] if charset else "", body, whole)

    async def _body(self, url: WebUrl, response: httpx.Response) -> tuple[bytes, bool]:
        """The body, unpacked as it comes, and whether that is all of it."""
        unpacker = _unpacker(url, response.headers.get("content-encoding", ""))
        body, packed = bytearray(), 0
        async for piece in response.aiter_raw():
            packed += len(piece)
            room = self._limits.unpacked - len(body) + 1
            try:
                body += unpacker.decompress(piece, room) if unpacker else piece[:room]
            except zlib.error as error:
                raise ToolFailure(f"{url} is packed in a way that cannot be unpacked.") from error
            if len(body) > self._limits.unpacked or packed > self._limits.packed:
                return bytes(body[: self._limits.unpacked]), False
            if unpacker and unpacker.eof:
                return bytes(body), True
        return bytes(body), unpacker is None or not packed


class _Checked(httpx.AsyncBaseTransport):
    """Connects to the first of these addresses that answers; certificate and name are the URL's."""

    def __init__(
        self, url: WebUrl, addresses: Sequence[Address], tls: ssl.SSLContext | None
    ) -> None:
        self._url, self._addresses = url, addresses
        self._connecting = httpx.AsyncHTTPTransport(verify=tls or _usual_tls(), trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        failed: httpx.TransportError = httpx.ConnectError("it has no address")
        for address in self._addresses:
            # The headers, Host among them, are those that were made for the name.
            to = httpx.Request(
                request.method,
                request.url.copy_with(host=str(address)),
                headers=request.headers,
                extensions={**request.extensions, "sni_hostname": self._url.host},
            )
            try:
                return await self._connecting.handle_async_request(to)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed = error
        raise failed

    async def aclose(self) -> None:
        await self._connecting.aclose()


@cache  # to read the authorities takes some 20 ms
def _usual_tls() -> ssl.SSLContext:
    return httpx.create_ssl_context(trust_env=False)


def check_type(url: WebUrl, mime: str) -> None:
    """Whether a type is one of texts.

    Raises:
        ToolFailure: It is not.
    """
    if mime == "application/pdf":
        raise ToolFailure(
            f"{url} is a PDF, which cannot be read here. Look for the same as a web page."
        )
    if mime not in HTML and not _READABLE.fullmatch(mime):
        named = mime if _MIME.fullmatch(mime) and len(mime) < 80 else "of an unknown type"
        raise ToolFailure(f"{url} is no text ({named}), so it was not read.")


def _redirected(url: WebUrl, location: str) -> WebUrl:
    """Where a redirect leads, when it is followed."""
    try:
        to = url.join(location)
    except ValueError as error:
        raise ToolFailure(
            f"{url} redirects to an address that is not asked for: {error}. Use another source."
        ) from error
    if to.host != url.host:
        raise ToolFailure(
            f"{url} redirects to another host, which was not asked. If that is the page you want, "
            f"fetch {to}"
        )
    if url.url.scheme == "https" and to.url.scheme == "http":
        raise ToolFailure(
            f"{url} redirects from https to http, where anybody on the way can change the page. "
            "It was not followed. Use another source."
        )
    return to


def _check_status(url: WebUrl, status: int) -> None:
    if 200 <= status < 300:
        return
    if status in (404, 410):
        raise ToolFailure(f"There is no page {url} (HTTP {status}). Search for it.")
    if status in (401, 402, 403, 451):
        raise ToolFailure(f"{url} is not open to us (HTTP {status}). Use another source.")
    if status in _LATER:
        raise TransientFailure(
            f"{url.host} cannot answer now (HTTP {status}). Try once more later, or use another "
            "source."
        )
    raise ToolFailure(f"{url} has no page for us (HTTP {status}). Use another source.")


def _unpacker(url: WebUrl, encoding: str) -> zlib._Decompress | None:
    """Unpacks the first member of a gzip file, as browsers do."""
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
    raise ToolFailure(f"{url} is packed in a way that was not asked for, so it was not read.")


def _unreachable(url: WebUrl, error: httpx.HTTPError) -> ToolFailure:
    """Why a host cannot be reached, in words."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return ToolFailure(
                f"{url.host} could not show that it is {url.host} ({cause.verify_message}), so "
                "nothing was asked of it. Use another source."
            )
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, httpx.TimeoutException):
        why = "it did not answer in time"
    elif isinstance(error, httpx.ConnectError):
        why = "no connection could be made"
    else:
        why = "its answer was broken off, or is no HTTP"
    return TransientFailure(
        f"{url.host} cannot be read: {why}. Try once more later, or use another source."
    )
