"""A server that is reached over the network: Streamable HTTP, and the older HTTP with SSE.

The SDK's own clients end the whole session when one request gets a 401, wait for ever when a
server dies with an answer half sent, and keep the connection of a call that nobody waits for any
more. Here each request is a task that ends in a message: the server's answer, or an error that
carries a :class:`~agent.mcp.transport.wire.Fate`.

Specification: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports, and
2024-11-05 for the older one.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urljoin

import anyio
import httpx
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from mcp import types
from mcp.shared.message import SessionMessage

from agent.config import mask_url
from agent.mcp.servers import Http
from agent.mcp.transport.events import VISIBLE, Event, EventReader, Place
from agent.mcp.transport.wire import (
    MAX_MESSAGE,
    TOO_LONG,
    Fate,
    FromUs,
    Incoming,
    Outgoing,
    SessionOver,
    ToUs,
    failed,
    read_message,
)

JSON, EVENTS = "application/json", "text/event-stream"

MAX_REDIRECTS = 3
MAX_RESUMED = 2
"""How often in a row a stream is taken up again that brings nothing."""

FAREWELL = 2.0
"""Seconds for telling a server that its session is over."""

_ASIDE = 16
"""How many messages that have no answer may be on their way at once."""

_DRAIN = 0.5
_SHOWN = 300
_LONGEST_PAUSE = 60.0

_REFUSED = frozenset({400, 401, 403, 404, 405, 406, 410, 411, 413, 414, 415, 421, 422, 429, 431})
"""Answers by which a request was turned away before anything was done with it."""

_UNFIT = Fate(
    False, "its address or one of its headers is not valid, so no request can be sent", retry=False
)
"""The library's own words would show the header."""

_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError)

_Aside = types.JSONRPCNotification | types.JSONRPCResponse | types.JSONRPCError
_Response = AbstractAsyncContextManager[httpx.Response]


class _Lost(Exception):
    """A request got no usable answer."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate


@asynccontextmanager
async def open_http(
    remote: Http, *, connect: float, auth: httpx.Auth | None = None
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Speak with a server. No proxy and no ``.netrc`` of the environment is used.

    Nothing is sent before the first message. Every request is answered, also where the server is
    away; how long an answer may take is the caller's to say.

    Args:
        connect: Seconds until a connection must stand, and for what nobody waits for.
        auth: Signs the requests.
    """
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    client = httpx.AsyncClient(
        timeout=httpx.Timeout(connect, read=None),
        auth=auth,
        event_hooks={"response": [_shorten]},
        trust_env=False,
    )
    async with to_us, incoming, outgoing, from_us, client, anyio.create_task_group() as tasks:
        kind = _Sse if remote.sse else _Streamable
        wire = _Wire(client, remote.headers, connect)
        server = kind(remote.url, wire, to_us, tasks)
        tasks.start_soon(server.run, from_us)
        try:
            yield incoming, outgoing
        finally:
            with anyio.move_on_after(FAREWELL, shield=True):
                await server.farewell()
            tasks.cancel_scope.cancel()


# --- one request -------------------------------------------------------------------------------


class _Wire:
    """Sends single requests, and says in words what becomes of them."""

    def __init__(
        self, client: httpx.AsyncClient, headers: Mapping[str, str], patience: float
    ) -> None:
        self._client, self._headers, self.patience = client, headers, patience

    @asynccontextmanager
    async def send(
        self, method: str, url: str, headers: dict[str, str], body: object = None
    ) -> AsyncIterator[httpx.Response]:
        """The response to a request; its body is yet to be read.

        Raises:
            _Lost: There is none, or it is no success, or it breaks off while it is read.
        """
        try:
            together = httpx.Headers(dict(self._headers))
            # Not compressed: a few kilobytes could be blown up to gigabytes.
            together.update({"accept-encoding": "identity", **headers})
            request = self._client.build_request(method, url, headers=together, json=body)
        except (httpx.InvalidURL, UnicodeError) as error:
            raise _Lost(_UNFIT) from error
        response = await self._once(request)
        for _ in range(MAX_REDIRECTS):
            following = response.next_request
            if following is None or not _stays(request, following):
                break
            await response.aclose()
            response = await self._once(following)
        try:
            if not response.is_success:
                raise _Lost(await _refusal(response))
            encoding = response.headers.get("content-encoding", "identity")
            if encoding.lower() != "identity":
                words = f"it answered in the encoding {encoding[:50]!r}, which was not asked for"
                raise _Lost(Fate(True, words))
            yield response
        except httpx.TransportError as error:
            raise _Lost(_cut(error)) from error
        finally:
            await response.aclose()

    async def _once(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise _Lost(Fate(False, f"it cannot be reached: {_words(error)}")) from error
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
            raise _Lost(_UNFIT) from error
        except httpx.TransportError as error:
            raise _Lost(_cut(error)) from error
        except Exception as error:  # of what signs the requests; this one was not accepted
            fate = Fate(False, f"signing in failed: {_words(error)}", status=401, retry=False)
            raise _Lost(fate) from error


class _Short(httpx.AsyncByteStream):
    """The beginning of a body."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = 10 * _SHOWN
        async for piece in self._inner:
            yield piece[:left]
            left -= len(piece)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _shorten(response: httpx.Response) -> None:
    """Of what is no success, no more than can be shown is read, also where a sign-in reads it."""
    if not response.is_success:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Short(response.stream)


def _stays(request: httpx.Request, following: httpx.Request) -> bool:
    """Whether a redirect leads the same message to the same origin, with nothing added."""
    here, there = request.url, following.url
    return (
        following.method == request.method
        and (there.scheme, there.host, there.port) == (here.scheme, here.host, here.port)
        and there.userinfo == here.userinfo
    )


async def _refusal(response: httpx.Response) -> Fate:
    """What an answer that is no success means; it may hold a line of the server's own."""
    status = response.status_code
    if response.next_request is not None:
        there = mask_url(str(response.next_request.url))
        words = f"it points to {there[:_SHOWN]}, which is not followed (HTTP {status})"
        return Fate(status == 303, words, status, retry=False)  # it says: done, look there
    said = b""
    with suppress(httpx.TransportError):  # the status is what counts
        async for piece in response.aiter_raw():
            said += piece
    text = _reason(said)
    later = response.headers.get("retry-after", "")
    wait = f"; it asks to wait {later} seconds" if re.fullmatch(r"[0-9]{1,6}", later) else ""
    meaning = {
        401: "it wants a sign-in",
        403: "it does not allow this",
        404: "it does not know this address or session",
        429: "it was asked too often",
    }
    words = f"{meaning.get(status, 'it failed')} (HTTP {status}{': ' + text if text else ''}){wait}"
    return Fate(status not in _REFUSED, words, status, retry=status != 403)


def _reason(body: bytes) -> str:
    """What the body of a refusal says, on one line: the message of a JSON-RPC error, or all."""
    try:
        text = json.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        text = body.decode("utf-8", "replace")
    return " ".join(str(text).split())[:_SHOWN]


def _cut(error: Exception) -> Fate:
    return Fate(True, f"the connection was lost before it answered: {_words(error)}")


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:_SHOWN] or type(error).__name__


def _kind(response: httpx.Response) -> str:
    kind: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind


# --- server-sent events ------------------------------------------------------------------------


async def _events(response: httpx.Response, place: Place) -> AsyncIterator[Event]:
    """The events of a response.

    Raises:
        _Lost: One is longer than ``MAX_MESSAGE``.
    """
    reader = EventReader(place)
    async with aclosing(response.aiter_raw()) as pieces:  # type: ignore[type-var]
        async for piece in pieces:
            for event in reader.feed(piece):
                yield event
            if reader.held > MAX_MESSAGE:
                raise _Lost(Fate(True, TOO_LONG))
            await checkpoint()  # others have their turn, however fast it comes


# --- the two transports ------------------------------------------------------------------------


class _Server:
    """What both have: each request is a task of its own, and everything else is sent beside."""

    def __init__(self, url: str, wire: _Wire, to_us: ToUs, tasks: TaskGroup) -> None:
        self._url, self._wire, self._to_us, self._tasks = url, wire, to_us, tasks
        self._asking: dict[int | str, anyio.CancelScope] = {}
        self._aside = anyio.Semaphore(_ASIDE)

    async def run(self, from_us: FromUs) -> None:
        """Send what we say, until the session ends."""
        async for message in from_us:
            match message.message.root:
                case types.JSONRPCRequest() as request:
                    self._tasks.start_soon(self._ask, request)
                case types.JSONRPCNotification(method="notifications/initialized") as first:
                    await self._tell(first)  # nothing else may arrive before it
                case other:
                    await self._aside.acquire()
                    self._tasks.start_soon(self._tell_aside, other)

    async def _ask(self, request: types.JSONRPCRequest) -> None:
        """Send a request, and see to it that it is answered, unless nobody waits any more."""
        with anyio.CancelScope() as scope, suppress(*_CLOSED):
            self._asking[request.id] = scope
            try:
                await self._exchange(request)
            except _Lost as lost:
                await self._hand_on(failed(request.id, lost.fate))
            finally:
                del self._asking[request.id]

    async def _tell(self, message: _Aside) -> None:
        """Send what has no answer; nobody would be told that it did not arrive."""
        with suppress(_Lost), anyio.move_on_after(self._wire.patience):
            async with self._post(message):
                pass
        if isinstance(message, types.JSONRPCNotification):
            self._told(message)

    async def _tell_aside(self, message: _Aside) -> None:
        try:
            await self._tell(message)
        finally:
            self._aside.release()

    def _told(self, message: types.JSONRPCNotification) -> None:
        if message.method == "notifications/cancelled":
            self._forget((message.params or {}).get("requestId", ""))

    def _forget(self, request: int | str) -> None:
        """Nobody waits for this answer any more."""
        if scope := self._asking.get(request):
            scope.cancel()

    async def _hand_on(self, message: types.JSONRPCMessage) -> None:
        await self._to_us.send(SessionMessage(message))

    async def _exchange(self, request: types.JSONRPCRequest) -> None:
        raise NotImplementedError

    def _post(self, message: types.JSONRPCRequest | _Aside) -> _Response:
        raise NotImplementedError

    async def farewell(self) -> None:
        """Tell the server that the session is over."""


class _Streamable(_Server):
    """Streamable HTTP: a request's answer is the response, or comes in a stream of events."""

    _session, _revision = "", ""

    def _post(self, message: types.JSONRPCRequest | _Aside) -> _Response:
        headers = {"accept": f"{JSON}, {EVENTS}", **self._known()}
        return self._wire.send("POST", self._url, headers, _plain(message))

    def _get(self, last: str) -> _Response:
        headers = {"accept": EVENTS, **self._known()}
        return self._wire.send(
            "GET", self._url, headers | ({"last-event-id": last} if last else {})
        )

    def _known(self) -> dict[str, str]:
        known = {"mcp-session-id": self._session, "mcp-protocol-version": self._revision}
        return {name: value for name, value in known.items() if value}

    async def _exchange(self, request: types.JSONRPCRequest) -> None:
        async with self._post(request) as response:
            if request.method == "initialize":
                self._session = _visible(response.headers.get("mcp-session-id", ""), "session id")
            match _kind(response):
                case "application/json":
                    await self._answer(request, await _whole(response, request.id))
                case "text/event-stream":
                    await self._streamed(request, response)
                case "":
                    raise _Lost(Fate(True, f"it sent no answer (HTTP {response.status_code})"))
                case kind:
                    words = f"it answered with {kind[:100]!r}, which this protocol does not have"
                    raise _Lost(Fate(True, words))

    async def _answer(self, request: types.JSONRPCRequest, answer: types.JSONRPCMessage) -> None:
        if request.method == "initialize" and isinstance(answer.root, types.JSONRPCResponse):
            revision = str(answer.root.result.get("protocolVersion", ""))
            self._revision = _visible(revision, "revision")
        await self._hand_on(answer)

    async def _streamed(self, request: types.JSONRPCRequest, response: httpx.Response) -> None:
        """Hand on a stream of events up to the answer.

        One that is cut is taken up again where the server gave ids to its events.
        """
        place, vain = Place(), 0
        cut = await self._follow(response, place, request)
        while cut is not None:
            if not place.id or vain == MAX_RESUMED:
                raise _Lost(Fate(True, cut))
            await anyio.sleep(place.pause)
            seen = place.events
            try:
                async with self._get(place.id) as response:
                    cut = await self._follow(response, place, request)
            except _Lost as lost:
                cut = lost.fate.words
            vain = vain + 1 if place.events == seen else 0

    async def _follow(
        self, response: httpx.Response, place: Place, request: types.JSONRPCRequest | None
    ) -> str | None:
        """Hand on the messages of a stream.

        Returns:
            Why it ended; ``None`` after the answer to ``request``.
        """
        if _kind(response) != EVENTS:
            return f"it sent no stream of events (HTTP {response.status_code})"
        try:
            async with aclosing(_events(response, place)) as events:  # type: ignore[type-var]
                async for event in events:
                    message = read_message(event.data)
                    if message is None:
                        await checkpoint()  # others have their turn, however fast it comes
                    elif request is not None and _answers(message, request.id):
                        await self._answer(request, message)
                        await _to_its_end(events)
                        return None
                    else:
                        await self._hand_on(message)
        except httpx.TransportError as error:
            return _cut(error).words
        return "its stream of events ended before the answer"

    def _told(self, message: types.JSONRPCNotification) -> None:
        super()._told(message)
        if message.method == "notifications/initialized" and self._session:
            self._tasks.start_soon(self._listen)

    async def _listen(self) -> None:
        """Hand on what the server says unasked, as long as it offers that."""
        place, pause = Place(), 0.0
        with suppress(*_CLOSED):
            while True:
                seen = place.events
                try:
                    async with self._get(place.id) as response:
                        if _kind(response) != EVENTS:
                            return
                        await self._follow(response, place, None)
                except _Lost as lost:
                    if lost.fate.status is not None and not lost.fate.sent:
                        return
                heard = place.events > seen
                pause = place.pause if heard else min(max(2 * pause, 1.0), _LONGEST_PAUSE)
                await anyio.sleep(pause)

    async def farewell(self) -> None:
        """Tell the server that the session is over."""
        if self._session:
            with suppress(_Lost):
                async with self._wire.send("DELETE", self._url, self._known()):
                    pass


class _Sse(_Server):
    """HTTP with SSE: a stream of events names the address to post to, and brings all answers."""

    def __init__(self, url: str, wire: _Wire, to_us: ToUs, tasks: TaskGroup) -> None:
        super().__init__(url, wire, to_us, tasks)
        self._address, self._over = "", ""
        self._ready = anyio.Event()
        self._posted: set[int | str] = set()

    async def run(self, from_us: FromUs) -> None:
        """Send what we say, until the session ends."""
        self._tasks.start_soon(self._listen)
        await super().run(from_us)

    def _post(self, message: types.JSONRPCRequest | _Aside) -> _Response:
        return self._wire.send("POST", self._address, {}, _plain(message))

    async def _exchange(self, request: types.JSONRPCRequest) -> None:
        await self._ready.wait()
        if self._over:
            raise _Lost(Fate(False, self._over))
        self._posted.add(request.id)
        try:
            async with self._post(request):
                pass
            await anyio.sleep_forever()  # the answer ends this task
        finally:
            self._posted.discard(request.id)

    async def _listen(self) -> None:
        fate = Fate(False, "its stream of events ended")
        with suppress(*_CLOSED):
            try:
                async with self._wire.send("GET", self._url, {"accept": EVENTS}) as response:
                    if _kind(response) != EVENTS:
                        raise _Lost(Fate(False, "it offers no stream of events", retry=False))
                    await self._follow(response)
            except _Lost as lost:
                fate = lost.fate
            self._over = fate.words
            self._ready.set()
            for number, scope in list(self._asking.items()):
                sent = number in self._posted
                await self._hand_on(failed(number, Fate(sent, fate.words, fate.status, fate.retry)))
                scope.cancel()
            await self._to_us.send(SessionOver(fate.words))

    async def _follow(self, response: httpx.Response) -> None:
        async with aclosing(_events(response, Place())) as events:  # type: ignore[type-var]
            async for event in events:
                if event.name == "endpoint" and not self._address:
                    self._address = self._within(event.data.decode("utf-8", "replace"))
                    self._ready.set()
                message = read_message(event.data) if event.name == "message" else None
                if message is None:
                    await checkpoint()
                    continue
                await self._hand_on(message)
                if isinstance(message.root, types.JSONRPCResponse | types.JSONRPCError):
                    self._forget(message.root.id)

    def _within(self, named: str) -> str:
        """The address to post to, which is of the server's own origin."""
        try:
            here, there = httpx.URL(self._url), httpx.URL(urljoin(self._url, named))
        except (httpx.InvalidURL, ValueError) as error:
            raise _Lost(_UNFIT) from error
        if (here.scheme, here.host, here.port) != (there.scheme, there.host, there.port):
            words = f"it wants messages sent to another host, {there.host[:_SHOWN]!r}"
            raise _Lost(Fate(False, words, retry=False))
        return str(there)


async def _whole(response: httpx.Response, asked: int | str) -> types.JSONRPCMessage:
    """An answer that is the whole response."""
    body = bytearray()
    async with aclosing(response.aiter_raw()) as pieces:  # type: ignore[type-var]
        async for piece in pieces:
            body += piece
            if len(body) > MAX_MESSAGE:
                raise _Lost(Fate(True, TOO_LONG))
    message = read_message(body)
    if message is None:
        raise _Lost(Fate(True, "its answer is no message of JSON-RPC"))
    if not _answers(message, asked):
        raise _Lost(Fate(True, "its answer is none to what was asked"))
    return message


async def _to_its_end(events: AsyncIterator[Event]) -> None:
    """Read what is left, so that the connection can be used again."""
    with anyio.move_on_after(_DRAIN):
        async for _ in events:
            pass


def _answers(message: types.JSONRPCMessage, asked: int | str) -> bool:
    root = message.root
    return isinstance(root, types.JSONRPCResponse | types.JSONRPCError) and root.id in (
        asked,
        str(asked),
    )


def _plain(message: types.JSONRPCRequest | _Aside) -> dict[str, Any]:
    return message.model_dump(by_alias=True, mode="json", exclude_none=True)


def _visible(text: str, what: str) -> str:
    if text and not VISIBLE.fullmatch(text):
        raise _Lost(Fate(True, f"its {what} cannot be used"))
    return text
