"""Sessions to one server: each from its start to its end, and when another may be opened.

A session belongs to the task that entered it: the SDK raises when another one leaves it. So each
session has an owner task that opens the transport, greets the server, waits for the end and
cleans up. A server that cannot be opened is left alone for a while, longer with each time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import anyio
import httpx
from anyio.abc import ObjectReceiveStream
from mcp import types
from mcp.shared.message import SessionMessage

from agent.errors import McpError
from agent.mcp.asking import Asker, one_line
from agent.mcp.definitions import ListingError, list_all, look_at
from agent.mcp.errors import NotSentError
from agent.mcp.link import Ended, Link, finish
from agent.mcp.servers import Http, ServerConfig, Stdio
from agent.mcp.session import HostSession, Listener
from agent.mcp.timeouts import Timeouts
from agent.mcp.transport.http import open_http
from agent.mcp.transport.stdio import ServerLog, child_environment, open_stdio
from agent.mcp.transport.wire import Incoming, Outgoing, SessionOver

LONGEST_PAUSE = 60.0
_BETWEEN_LISTINGS = 1.0


@dataclass
class _BackOff:
    """How long a server that could not be opened is left alone: a second, then twice as long."""

    now: Callable[[], float]
    _failures: int = 0
    _until: float = 0.0

    @property
    def seconds(self) -> float:
        """For how long still; not above zero when it may be tried."""
        return self._until - self.now()

    def failed(self) -> None:
        """It could not be opened, once more."""
        self._until = self.now() + min(LONGEST_PAUSE, 2.0 ** min(self._failures, 10))
        self._failures += 1

    def worked(self) -> None:
        """It was opened."""
        self._failures = 0


class Opener:
    """Holds the session that counts; opens another when it is asked for one and has none.

    Args:
        config: How the server is reached.
        asker: Sends the requests of the greeting and the listing.
        environment: Where the few variables that a child process inherits come from.
        log: The file that gets a child's stderr.
        timeouts: Bounds for opening and listing.
        auth: Signs requests to a server on the network.
        now: Seconds of a clock that only runs forward, for how long a server is left alone.
        listener: What is done with what the server says unasked; that its tools changed is seen
            to here.
        listed: Gets a session whose tools were listed, at the beginning or anew.

    Attributes:
        problem: Why the server cannot be used now; ``None`` while it can, or was not tried.
    """

    def __init__(
        self,
        config: ServerConfig,
        asker: Asker,
        *,
        environment: Mapping[str, str],
        log: Path,
        timeouts: Timeouts,
        auth: httpx.Auth | None,
        now: Callable[[], float],
        listener: Listener,
        listed: Callable[[Link], None],
    ) -> None:
        self.timeouts = timeouts
        self.problem: str | None = None
        self._config, self._asker, self._auth = config, asker, auth
        self._environment, self._log = environment, log
        self._listener, self._listed = listener, listed
        self._opening: asyncio.Future[Link] | None = None
        self._lasting: set[Ended] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._back_off, self._again = _BackOff(now), True

    @property
    def link(self) -> Link | None:
        """The live session, if there is one now."""
        opening = self._opening
        if opening is None or not opening.done() or _is_over(opening):
            return None
        return opening.result()

    async def open(self) -> Link:
        """The live session; opens one when there is none.

        Raises:
            NotSentError: The server cannot be reached, greeted or listed, or it could not be a
                moment ago.
        """
        if self._closed:
            raise NotSentError("it was shut down", again=False)
        if self._opening is None or _is_over(self._opening):
            if (pause := self._back_off.seconds) > 0:
                words = f"{self.problem}; it is tried again in {math.ceil(pause)} s"
                raise NotSentError(words, again=self._again)
            loop = asyncio.get_running_loop()
            self._opening, ended = loop.create_future(), loop.create_future()
            self._lasting.add(ended)
            self._begin(self._own(self._opening, ended))
        return await asyncio.shield(self._opening)

    async def close(self) -> None:
        """End every session. A process gets its stdin closed, then SIGTERM, then SIGKILL."""
        self._closed = True
        for ended in self._lasting:
            finish(ended, "it was shut down before it answered")
        while self._tasks:
            await asyncio.wait(self._tasks)

    # --- a session, from its start to its end ---------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _own(self, opening: asyncio.Future[Link], ended: Ended) -> None:
        """One session from start to end; its fate goes to ``opening`` and ``problem``."""
        reason, words, again = "", "", True
        try:
            with ServerLog(self._log) as log:
                try:
                    await self._hold(log, opening, ended)
                finally:
                    if log.last:
                        words = f"; its last words: {log.last[:200]} (all of them: {self._log})"
        except Exception as error:
            reason = _reason(error)
            cause = _innermost(error)
            again = cause.again if isinstance(cause, NotSentError) else True
        finally:
            finish(ended)
            self._lasting.discard(ended)
            reason = reason or ended.result() or "it ended"
            fate = "it was shut down" if self._closed else reason + words
            if self._opening is opening and not self._closed:  # else a newer one counts
                self.problem = fate
            if not opening.done():
                self._back_off.failed()
                self._again = again
                opening.set_exception(NotSentError(fate, again=again))
                opening.exception()  # whoever asked may have gone

    async def _hold(self, log: ServerLog, opening: asyncio.Future[Link], ended: Ended) -> None:
        """Enter the session, hold it until it has ended or is to end, and leave it."""
        async with self._transport(log) as (incoming, outgoing):
            watched = cast("Incoming", _Watched(incoming, ended))
            changed = asyncio.Event()
            ended.add_done_callback(lambda _: changed.set())
            async with HostSession(watched, outgoing, self._hearing(changed)) as session:
                try:
                    link = await self._greet(session, ended, changed)
                    self.problem = None
                    self._back_off.worked()
                    opening.set_result(link)
                    self._listed(link)
                    await self._keep_listed(link)
                finally:
                    # Before the SDK leaves: it cancels its reader without telling those who
                    # wait for an answer.
                    finish(ended)

    def _transport(self, log: ServerLog) -> AbstractAsyncContextManager[tuple[Incoming, Outgoing]]:
        match self._config.transport:
            case Stdio() as child:
                return open_stdio(child, child_environment(child, self._environment), log)
            case Http() as remote:
                return open_http(remote, connect=self.timeouts.connect, auth=self._auth)

    def _hearing(self, tools: asyncio.Event) -> Listener:
        """The listener, and ``tools`` is set when these have changed."""

        def changed(what: str) -> None:
            if what == "tools":
                tools.set()
            else:
                self._listener.changed(what)

        return replace(self._listener, changed=changed)

    # --- what it offers --------------------------------------------------------------------

    async def _greet(self, session: HostSession, ended: Ended, changed: asyncio.Event) -> Link:
        link = Link(session, cast("types.InitializeResult", None), ended, changed)
        link.greeting = await self._asker.ask(link, session.initialize(), self.timeouts.connect)
        await self._list(link)
        return link

    async def _list(self, link: Link) -> None:
        """Fill in the tools; none when the server says that it has no tools."""
        if link.greeting.capabilities.tools is None:
            return

        async def page(cursor: str | None) -> types.Result:
            params = types.PaginatedRequestParams(cursor=cursor)
            request = types.ClientRequest(types.ListToolsRequest(params=params))
            return await link.session.ask(request, types.Result)

        try:
            listing = list_all(page, "tools")
            listed = await self._asker.ask(link, listing, self.timeouts.listing)
            # In a thread: a server with a schema that takes long to look at costs no other one.
            looked_at = await asyncio.to_thread(look_at, listed)
        except ListingError as error:
            raise NotSentError(str(error)) from error
        link.tools, link.faults = looked_at.tools, looked_at.faults

    async def _keep_listed(self, link: Link) -> None:
        """List the tools again whenever they changed, until the session ends.

        A server that goes on and on about it is heard ever more rarely.
        """
        pause = _BETWEEN_LISTINGS
        while not link.ended.done():
            if not link.changed.is_set():
                pause = _BETWEEN_LISTINGS
            await link.changed.wait()
            if link.ended.done():
                return
            link.changed.clear()
            try:
                await self._list(link)
            except McpError as error:
                link.retire(f"its tools changed and cannot be listed: {error}")
                await asyncio.wait({link.ended})
                return
            self._listed(link)
            await asyncio.wait({link.ended}, timeout=pause)
            pause = min(2 * pause, LONGEST_PAUSE)


def _is_over(opening: asyncio.Future[Link]) -> bool:
    if not opening.done():
        return False
    failed = opening.cancelled() or opening.exception() is not None
    return failed or opening.result().is_over


class _Watched(ObjectReceiveStream[SessionMessage | Exception]):
    """Passes on what the server writes, and marks the moment at which that is over.

    Without the mark, an error that a live server chose to call "connection closed" could not be
    told from a lost connection.
    """

    def __init__(self, inner: Incoming, ended: Ended) -> None:
        self._inner, self._ended = inner, ended

    async def receive(self) -> SessionMessage | Exception:
        try:
            received = await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            finish(self._ended)
            raise
        if isinstance(received, SessionOver):
            finish(self._ended, str(received))
            raise anyio.EndOfStream from received
        return received

    async def aclose(self) -> None:
        await self._inner.aclose()


def _reason(error: Exception) -> str:
    """Why a session could not be opened or broke; the SDK wraps errors into groups."""
    cause = _innermost(error)
    if isinstance(cause, McpError):
        return str(cause)
    if isinstance(cause, OSError):
        return f"it could not be started: {cause}"
    return f"its session broke: {one_line(cause)}"


def _innermost(error: BaseException) -> BaseException:
    """The first real error inside of exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
