"""Requests of a sign-in, to addresses that a stranger named.

A server that wants a sign-in names addresses: of documents, of its sign-in server and of that
one's endpoints. Whatever they are, a request of ours goes to no address that is further inside
than the server itself (public, this network, this machine), it is encrypted unless it stays on
this machine, and what it may answer is bounded in time and size.
"""

from __future__ import annotations

import asyncio
import json

import httpx

from agent import __version__
from agent.errors import McpError
from agent.safe_text import one_line, shorten
from tools.web.addresses import Depth, host_depth

MAX_ANSWER = 256 * 1024
SECONDS = 30.0

_FRAMING = ("content-length", "transfer-encoding")


def check_address(url: httpx.URL, server: httpx.URL) -> None:
    """Whether a sign-in to a server may go to an address.

    A name is not looked up: what it stands for in this network is not known here.

    Raises:
        McpError: It may not; the message is a clause that begins with the address.
    """
    if url.userinfo:
        raise McpError(f"{origin(url)} is named with a user or a password before it")
    here = _depth(url)
    if here > _depth(server):
        raise McpError(f"{origin(url)} is inside of this machine or network, the server is not")
    if url.scheme != "https" and (url.scheme != "http" or here != Depth.MACHINE):
        raise McpError(f"{origin(url)} is not https")


def origin(url: httpx.URL) -> str:
    """Scheme, host and port, as it may be shown."""
    host = url.raw_host.decode("ascii")
    host = f"[{host}]" if ":" in host else host
    return one_line(f"{url.scheme}://{host}" + (f":{url.port}" if url.port else ""))


async def fetch(
    request: httpx.Request,
    server: httpx.URL,
    *,
    body: bool = True,
    transport: httpx.AsyncBaseTransport | None = None,
) -> httpx.Response:
    """Send a request of a sign-in once; no redirect is followed.

    Args:
        request: Its timeout and some headers are set here.
        server: The server that the sign-in is for.
        body: Read the answer; else only its head counts.
        transport: Instead of the network.

    Returns:
        The answer, read and closed.

    Raises:
        McpError: There is none; the message is a clause.
    """
    check_address(request.url, server)
    request.extensions = {**request.extensions, "timeout": httpx.Timeout(SECONDS).as_dict()}
    # Not compressed: a few kilobytes could be blown up to gigabytes.
    request.headers.update({"accept-encoding": "identity", "user-agent": f"sayso/{__version__}"})
    client = httpx.AsyncClient(
        transport=transport or httpx.AsyncHTTPTransport(trust_env=False), trust_env=False
    )
    where = origin(request.url)
    try:
        async with asyncio.timeout(SECONDS), client:
            response = await client.send(request, stream=True, follow_redirects=False)
            try:
                content = await _bounded(response) if body else b""
            finally:
                await response.aclose()
    except TimeoutError as error:
        raise McpError(f"{where} did not answer within {SECONDS:g} seconds") from error
    except httpx.LocalProtocolError as error:
        raise McpError(f"a request to {where} cannot be sent") from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = one_line(shorten(str(error), 200)) or type(error).__name__
        raise McpError(f"{where} cannot be reached ({why})") from error
    headers = [(k, v) for k, v in response.headers.multi_items() if k.lower() not in _FRAMING]
    whole = httpx.Response(response.status_code, headers=headers, content=content, request=request)
    whole.next_request = response.next_request
    return whole


async def _bounded(response: httpx.Response) -> bytes:
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise McpError(f"{origin(response.url)} answered in an encoding that was not asked for")
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > MAX_ANSWER:
            raise McpError(f"{origin(response.url)} sent more than {MAX_ANSWER // 1024} KiB")
    return bytes(content)


def refusal(response: httpx.Response) -> str:
    """What a sign-in server's refusal says: the status, and the error's name and description."""
    try:
        said = json.loads(response.content)
    except (ValueError, RecursionError):
        said = None
    said = said if isinstance(said, dict) else {}
    words = [said[key] for key in ("error", "error_description") if isinstance(said.get(key), str)]
    return one_line(shorten(": ".join([f"HTTP {response.status_code}", *words]), 300))


def _depth(url: httpx.URL) -> Depth:
    """How far inside an address is, as far as it can be told by looking at it."""
    try:
        return host_depth(url.raw_host.decode("ascii"))
    except ValueError as error:
        raise McpError(f"{origin(url)} is not plainly spelled: {error}") from error
