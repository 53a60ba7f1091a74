"""One long-lived session to one server, over a child process or the network.

A session belongs to the task that entered it: the SDK raises when another one leaves it. So each
session has an owner task that opens the transport, greets the server, waits for the end and
cleans up. Requests are sent from the callers' own tasks, which the SDK allows.

Every wait ends: by an answer, by the end of the session, or by a timeout. What a caller learns is
one of three things, because a write depends on the difference:

* :class:`NotSentError`: the request never left, or was turned away unread; nothing happened.
* :class:`RefusedError`: the server answered with a protocol error.
* :class:`NoAnswerError`: the request may have arrived and no usable answer came back.

A request is never sent a second time, but for one that was turned away unread because its token
had run out (``signing_in``). A session that ended is opened anew by the next request; a server
that cannot be opened is left alone for a while, longer with each time.
"""

from __future__ import annotations

import asyncio
import json
import math
import shlex
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import httpx
from anyio.abc import ObjectReceiveStream
from mcp import types
from mcp.shared.exceptions import McpError as ProtocolError
from mcp.shared.message import SessionMessage
from mcp.shared.session import ProgressFnT

from agent.errors import McpError
from agent.mcp.definitions import (
    Definition,
    ListingError,
    list_all,
    look_at,
    same_definition,
)
from agent.mcp.questions import Ask, Question, Reply, UnderWay
from agent.mcp.servers import Http, ServerConfig, Stdio
from agent.mcp.session import HostSession, Listener
from agent.mcp.signing_in.tokens import has_own_authorization
from agent.mcp.transport.http import open_http
from agent.mcp.transport.stdio import ServerLog, child_environment, open_stdio
from agent.mcp.transport.wire import Fate, Incoming, Outgoing, SessionOver, fate_of
from agent.schemas import depth_exceeds

Answer = TypeVar("Answer")
Result = TypeVar("Result", bound=types.Result)
Ended = asyncio.Future[str]
"""Is done when a session is over: why, when it is known, as the beginning of a sentence."""


LONGEST_PAUSE = 60.0
_BETWEEN_LISTINGS = 1.0
_SETTLING = 10
_MAX_DEPTH = 100


class NotSentError(McpError):
    """The request was not taken up by the server; ``again`` says whether trying again may help."""

    def __init__(self, message: str, *, again: bool = True) -> None:
        self.again = again
        super().__init__(message)


class RefusedError(McpError):
    """The server answered with a JSON-RPC error: its ``code`` and its text."""

    def __init__(self, code: int, text: str) -> None:
        self.code, self.text = code, text
        super().__init__(f"{text} (code {code})")


class NoAnswerError(McpError):
    """The request may have arrived, and no answer that can be read came back."""


@dataclass(frozen=True)
class Timeouts:
    """Seconds: until a server has greeted, until it has listed its tools, and how long a
    question to the person may wait for its answer."""

    connect: float = 30.0
    listing: float = 15.0
    question: float = 300.0


DEFAULT_TIMEOUTS = Timeouts()


@dataclass
class Link:
    """A session that was greeted: what the server offers, and how it goes on.

    Attributes:
        changed: The server has said that its tools are no longer those that were listed.
        waiting: How many requests wait for an answer.
        retired: Why no request is sent over it any more; it ends when none waits.
    """

    session: HostSession
    greeting: types.InitializeResult
    ended: Ended
    changed: asyncio.Event
    tools: Mapping[str, Definition] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    waiting: int = 0
    retired: str = ""
    _agreed: dict[str, tuple[Definition, Definition]] = field(default_factory=dict)

    def offers(self, definition: Definition) -> bool:
        """Whether the server lists the tool exactly so. Two that were compared are remembered."""
        name = definition["name"]
        listed = self.tools.get(name)
        known = self._agreed.get(name)
        if known is not None and known[0] is listed and known[1] is definition:
            return True
        if listed is None or not same_definition(listed, definition):
            return False
        self._agreed[name] = (listed, definition)
        return True

    @property
    def is_over(self) -> bool:
        """Whether the next request needs another one."""
        return bool(self.retired) or self.ended.done()

    def retire(self, why: str) -> None:
        """Send nothing more over it. Whoever waits for an answer may still get it."""
        self.retired = why
        self.settle()

    def settle(self) -> None:
        """End it, if it is retired and nobody waits."""
        if self.retired and not self.waiting:
            _finish(self.ended, self.retired)


@dataclass(frozen=True)
class Reports:
    """Who is told what a server does unasked; by default nobody.

    Args:
        listed: Its tools were listed, at the beginning or anew.
        changed: Its ``prompts`` or ``resources`` are no longer what they were.
        logged: It logs something: level, logger, data, and a call under way, if there is one.
        asked: Answers a question to the person, asked during a call.
    """

    listed: Callable[[Link], None] = lambda link: None
    changed: Callable[[str], None] = lambda what: None
    logged: Callable[[str, str, Any, UnderWay | None], None] = lambda *said: None
    asked: Ask | None = None


NOBODY = Reports()


class Connection:
    """Reaches a server when it is needed, and again after it was lost; never repeats a request.

    Args:
        config: How it is reached.
        environment: Where the few variables that a child process inherits come from.
        log: The file that gets a child's stderr.
        timeouts: Bounds for opening and listing; the bound for a call is in ``config``.
        reports: Who is told what the server does unasked.
        auth: Signs requests to a server on the network.
        now: Seconds of a clock that only runs forward, for how long a server is left alone.

    Attributes:
        problem: Why it cannot be used now; ``None`` while it can, or was not tried.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        environment: Mapping[str, str],
        log: Path,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        reports: Reports = NOBODY,
        auth: httpx.Auth | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.log, self.timeouts = config, log, timeouts
        self.problem: str | None = None
        self._environment, self._reports, self._auth = environment, reports, auth
        self._now = now
        self._opening: asyncio.Future[Link] | None = None
        self._lasting: set[Ended] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._failures, self._not_before, self._again = 0, 0.0, True
        self._calls: list[UnderWay] = []
        self._asking: list[tuple[UnderWay, asyncio.Future[Reply]]] = []
        self._questions = _Pauses()

    @property
    def asks(self) -> bool:
        """Whether there is somebody whom the server can ask something."""
        return self._reports.asked is not None

    def call_seconds(self, tool: str) -> float:
        """How long a call of a tool may take."""
        return self.config.claims_for(tool).timeout or self.config.timeout

    @property
    def link(self) -> Link | None:
        """The live session, if there is one now."""
        opening = self._opening
        if opening is None or not opening.done() or self._is_over(opening):
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
        if self._opening is None or self._is_over(self._opening):
            if (pause := self._not_before - self._now()) > 0:
                words = f"{self.problem}; it is tried again in {math.ceil(pause)} s"
                raise NotSentError(words, again=self._again)
            loop = asyncio.get_running_loop()
            self._opening, ended = loop.create_future(), loop.create_future()
            self._lasting.add(ended)
            self._begin(self._own(self._opening, ended))
        return await asyncio.shield(self._opening)

    async def call(
        self,
        definition: Definition,
        arguments: Mapping[str, Any],
        meta: Mapping[str, Any],
        *,
        write: bool = True,
        under_way: UnderWay | None = None,
        progress: ProgressFnT | None = None,
    ) -> types.Result:
        """Call a tool once, with exactly these arguments.

        Args:
            definition: The tool as whoever approved the call was shown it. If the server now says
                something else, nothing is sent.
            arguments: JSON values, whatever their names.
            meta: Goes into the request's ``_meta``.
            write: Before one goes out over the network, it is asked whether the session is
                alive: a lost one is found out by a request that changes nothing.
            under_way: The harness's call, for questions that the server asks meanwhile.
            progress: Gets progress, total and message.

        Returns:
            The result as it came; its members are in ``model_extra``.

        Raises:
            NotSentError, RefusedError, NoAnswerError: See the module.
        """
        _check_sendable(arguments)
        asks_first = write and isinstance(self.config.transport, Http)
        link = self.link if not asks_first else None
        if link is None:
            link = await self._ready(asks_first)
        if not link.offers(definition):
            raise NotSentError(_changed(definition, self.config.name), again=False)
        params = types.CallToolRequestParams(
            name=definition["name"],
            arguments=dict(arguments),
            _meta=types.RequestParams.Meta(**meta) if meta else None,
        )
        # Not session.call_tool: it checks the result against the output schema by raising, so
        # that a write which happened would look like an error, and may list the tools first.
        request = types.ClientRequest(types.CallToolRequest(params=params))
        seconds = self.call_seconds(definition["name"])
        with self._under_way(under_way):
            try:
                asking = link.session.ask(request, types.Result, progress)
                return await self._ask(link, asking, seconds)
            except NotSentError:
                if write or not link.is_over or not isinstance(self.config.transport, Http):
                    raise
            # The session was lost unnoticed, and the read was turned away unread.
            link = await self._ready(asks_first=False)
            if not link.offers(definition):
                raise NotSentError(_changed(definition, self.config.name), again=False)
            asking = link.session.ask(request, types.Result, progress)
            return await self._ask(link, asking, seconds)

    async def request(self, request: types.ClientRequest, kind: type[Result]) -> Result:
        """Send something that changes nothing, such as reading a resource.

        Raises:
            NotSentError, RefusedError, NoAnswerError: See the module.
        """
        link = await self.open()
        return await self._ask(link, link.session.ask(request, kind), self.config.timeout)

    async def close(self) -> None:
        """End the session. A process gets its stdin closed, then SIGTERM, then SIGKILL."""
        self._closed = True
        for ended in self._lasting:
            _finish(ended, "it was shut down before it answered")
        while self._tasks:
            await asyncio.wait(self._tasks)

    # --- asking --------------------------------------------------------------------------

    async def _ready(self, asks_first: bool) -> Link:
        """A session to send a call over; ``asks_first``: one that has just answered."""
        bound = self.timeouts.connect + self.timeouts.listing
        try:
            async with asyncio.timeout(bound):
                link = await self.open()
                return await self._alive(link) if asks_first else link
        except TimeoutError as error:
            raise NotSentError(f"it was not ready within {bound:g} seconds") from error

    async def _alive(self, link: Link) -> Link:
        """The session, or a new one when this one turns out to be lost."""
        ping = types.ClientRequest(types.PingRequest())
        asking = link.session.ask(ping, types.EmptyResult)
        try:
            with suppress(RefusedError):  # a refusal is an answer, too
                await self._ask(link, asking, self.timeouts.listing)
        except (NotSentError, NoAnswerError) as error:
            link.retire(str(error))
            return await self.open()
        return link

    async def _ask(
        self, link: Link, request: Coroutine[Any, Any, Answer], seconds: float
    ) -> Answer:
        link.waiting += 1
        try:
            longest = self.timeouts.question
            return await _answer(request, link.ended, seconds, self._questions, longest)
        except _FateError as error:
            fate = error.fate
            words = fate.words
            if fate.status == 401:
                words = f"{words}; {self._about_signing_in}"
            if fate.ends_session:
                link.retire(words)
            if fate.sent:
                raise NoAnswerError(words) from error
            raise NotSentError(words, again=fate.retry and fate.status != 401) from error
        finally:
            link.waiting -= 1
            link.settle()

    @property
    def _about_signing_in(self) -> str:
        """What to do about a 401."""
        remote = self.config.transport
        if isinstance(remote, Http) and has_own_authorization(remote):
            return f"the Authorization header in {self.config.source} is not accepted"
        return f"sayso mcp login {shlex.quote(self.config.name)} signs in"

    @contextmanager
    def _under_way(self, call: UnderWay | None) -> Iterator[None]:
        if call is None:
            yield
            return
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            for owner, asking in self._asking:
                if owner is call:  # nobody waits for what would be done with the answer
                    asking.cancel()

    # --- a session, from its start to its end ---------------------------------------------

    @staticmethod
    def _is_over(opening: asyncio.Future[Link]) -> bool:
        if not opening.done():
            return False
        failed = opening.cancelled() or opening.exception() is not None
        return failed or opening.result().is_over

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _own(self, opening: asyncio.Future[Link], ended: Ended) -> None:
        """One session from start to end; its fate goes to ``opening`` and ``problem``."""
        reason, words, again = "", "", True
        try:
            with ServerLog(self.log) as log:
                try:
                    await self._hold(log, opening, ended)
                finally:
                    words = f"; its last words: {log.last[:200]}" if log.last else ""
        except Exception as error:
            reason = _reason(error)
            cause = _innermost(error)
            again = cause.again if isinstance(cause, NotSentError) else True
        finally:
            _finish(ended)
            self._lasting.discard(ended)
            reason = reason or ended.result() or "it ended"
            fate = "it was shut down" if self._closed else reason + words
            if self._opening is opening and not self._closed:  # else a newer one counts
                self.problem = fate
            if not opening.done():
                pause = min(LONGEST_PAUSE, 2.0 ** min(self._failures, 10))
                self._failures += 1
                self._not_before, self._again = self._now() + pause, again
                opening.set_exception(NotSentError(fate, again=again))
                opening.exception()  # whoever asked may have gone

    async def _hold(self, log: ServerLog, opening: asyncio.Future[Link], ended: Ended) -> None:
        """Enter the session, hold it until it has ended or is to end, and leave it."""
        async with self._transport(log) as (incoming, outgoing):
            watched = cast("Incoming", _Watched(incoming, ended))
            changed = asyncio.Event()
            ended.add_done_callback(lambda _: changed.set())
            listener = Listener(
                logged=self._logged,
                changed=lambda what: self._changed(what, changed),
                asked=self._asked if self._reports.asked else None,
            )
            async with HostSession(watched, outgoing, listener) as session:
                try:
                    link = await self._greet(session, ended, changed)
                    self.problem, self._failures = None, 0
                    opening.set_result(link)
                    self._reports.listed(link)
                    await self._keep_listed(link)
                finally:
                    # Before the SDK leaves: it cancels its reader without telling those who
                    # wait for an answer.
                    _finish(ended)

    def _transport(self, log: ServerLog) -> AbstractAsyncContextManager[tuple[Incoming, Outgoing]]:
        match self.config.transport:
            case Stdio() as child:
                return open_stdio(child, child_environment(child, self._environment), log)
            case Http() as remote:
                return open_http(remote, connect=self.timeouts.connect, auth=self._auth)

    async def _greet(self, session: HostSession, ended: Ended, changed: asyncio.Event) -> Link:
        link = Link(session, cast("types.InitializeResult", None), ended, changed)
        link.greeting = await self._ask(link, session.initialize(), self.timeouts.connect)
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
            listed = await self._ask(link, list_all(page, "tools"), self.timeouts.listing)
            # In a thread: a server with a schema that takes long to look at costs no other one.
            listing = await asyncio.to_thread(look_at, listed)
        except ListingError as error:
            raise NotSentError(str(error)) from error
        link.tools, link.faults = listing.tools, listing.faults

    # --- what it says unasked --------------------------------------------------------------

    def _logged(self, level: str, logger: str, data: Any) -> None:
        self._reports.logged(level, logger, data, self._calls[-1] if self._calls else None)

    def _changed(self, what: str, tools: asyncio.Event) -> None:
        if what == "tools":
            tools.set()
        else:
            self._reports.changed(what)

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
            self._reports.listed(link)
            await asyncio.wait({link.ended}, timeout=pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _asked(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """A question belongs to the call that was begun last: the protocol does not say whose."""
        ask = self._reports.asked
        if ask is None or not self._calls:
            return types.ElicitResult(action="decline")
        match params:
            case types.ElicitRequestFormParams():
                asked: dict[str, Any] = {"schema": params.requestedSchema}
            case types.ElicitRequestURLParams():
                asked = {"url": params.url}
        call = self._calls[-1]
        asking = asyncio.ensure_future(
            ask(Question(self.config.name, call, params.message, **asked))
        )
        self._asking.append((call, asking))
        with self._questions:
            try:
                await asyncio.wait({asking}, timeout=self.timeouts.question)
            finally:
                self._asking.remove((call, asking))
                over = asking.cancel() or asking.cancelled()
        if over:
            await asyncio.gather(asking, return_exceptions=True)
            return types.ElicitResult(action="cancel")
        reply = asking.result()
        return types.ElicitResult(action=reply.action, content=reply.content)


class _Pauses:
    """The time that questions to the person take, which is not a server's slowness."""

    def __init__(self) -> None:
        self._open, self._since, self._past = 0, 0.0, 0.0

    def __enter__(self) -> None:
        self._open += 1
        if self._open == 1:
            self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._open -= 1
        if self._open == 0:
            self._past += time.monotonic() - self._since

    @property
    def seconds(self) -> float:
        """All of it so far."""
        return self._past + (time.monotonic() - self._since if self._open else 0.0)


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
            _finish(self._ended)
            raise
        if isinstance(received, SessionOver):
            _finish(self._ended, str(received))
            raise anyio.EndOfStream from received
        return received

    async def aclose(self) -> None:
        await self._inner.aclose()


class _FateError(Exception):
    """An answer that tells what became of the request on the wire."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate


async def _answer(
    request: Coroutine[Any, Any, Answer],
    ended: Ended,
    seconds: float,
    pauses: _Pauses,
    longest: float,
) -> Answer:
    """The result of ``request``, unless the session ends or ``seconds`` pass first.

    While a question to the person is open the clock stands still, at most ``longest`` seconds.

    Raises:
        RefusedError, NoAnswerError: See the module.
        _FateError: The transport knows what became of it.
    """
    task = asyncio.ensure_future(request)
    awaited: set[asyncio.Future[Any]] = {task, ended}
    before, deadline = pauses.seconds, time.monotonic() + seconds
    try:
        while (left := deadline + min(pauses.seconds - before, longest) - time.monotonic()) > 0:
            done, _ = await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if done:
                break
        if ended.done():
            # An answer that was read just before the end is a few turns of the loop away.
            for _ in range(_SETTLING):
                await asyncio.sleep(0)
        if task.done():
            return task.result()
    except ProtocolError as error:
        if fate := fate_of(error.error):
            raise _FateError(fate) from error
        if error.error.code == types.CONNECTION_CLOSED and ended.done():
            raise NoAnswerError(_over(ended)) from error
        raise RefusedError(error.error.code, _refusal(error.error)) from error
    except (McpError, ListingError):
        raise
    except (anyio.ClosedResourceError, anyio.BrokenResourceError) as error:
        raise NotSentError("it ended before the request was sent") from error
    except Exception as error:
        raise NoAnswerError(f"its answer could not be read: {_one_line(error)}") from error
    finally:
        task.cancel()
    if ended.done():
        raise NoAnswerError(_over(ended))
    raise NoAnswerError(f"it did not answer within {seconds:g} seconds")


def _over(ended: Ended) -> str:
    return ended.result() or "it ended before it answered"


def _changed(definition: Definition, server: str) -> str:
    return (
        f"its tool {definition['name']!r} is no longer what was looked at; "
        f"sayso mcp diff {shlex.quote(server)} shows the change"
    )


def _refusal(error: types.ErrorData) -> str:
    """The server's own text; where it waits for something the person does, also the address."""
    if error.code != types.URL_ELICITATION_REQUIRED or not isinstance(error.data, dict):
        return error.message
    wanted = error.data.get("elicitations")
    asked = [one for one in wanted if isinstance(one, dict)] if isinstance(wanted, list) else []
    pages = ", ".join(str(one.get("url")) for one in asked[:3])
    return f"{error.message}; the person has to open {pages} first, and then ask again"


def _check_sendable(arguments: Mapping[str, Any]) -> None:
    """Refuse what JSON would change or cannot carry: what is sent is what was approved."""
    if depth_exceeds(arguments, _MAX_DEPTH):
        words = f"the arguments are nested more than {_MAX_DEPTH} deep, which cannot be sent"
        raise NotSentError(words, again=False)
    try:
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotSentError(f"the arguments cannot be sent as JSON: {error}", again=False) from error


def _finish(ended: Ended, why: str = "") -> None:
    if not ended.done():
        ended.set_result(why)


def _reason(error: Exception) -> str:
    """Why a session could not be opened or broke; the SDK wraps errors into groups."""
    cause = _innermost(error)
    if isinstance(cause, McpError):
        return str(cause)
    if isinstance(cause, OSError):
        return f"it could not be started: {cause}"
    return f"its session broke: {_one_line(cause)}"


def _innermost(error: BaseException) -> BaseException:
    """The first real error inside of exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
