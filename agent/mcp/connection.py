"""One long-lived session to one stdio server.

A session belongs to the task that entered it: the SDK raises when another one leaves it. So each
session has an owner task that starts the process, greets it, waits for the end and cleans up.
Requests are sent from the callers' own tasks, which the SDK allows.

Every wait ends: by an answer, by the end of the server's output, or by a timeout. What a caller
learns is one of three things, because a write depends on the difference:

* :class:`NotSentError`: the request never left; nothing happened.
* :class:`RefusedError`: the server answered with a protocol error.
* :class:`NoAnswerError`: the request may have arrived and no usable answer came back.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

import anyio
from anyio.abc import ObjectReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.shared.exceptions import McpError as ProtocolError
from mcp.shared.message import SessionMessage

from agent.errors import McpError
from agent.mcp.config import ServerConfig

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
)
"""What every server gets from our environment; anything else is named in its ``env``."""

MAX_PAGES = 100
LOG_LIMIT = 1_000_000
_SETTLING = 10

Answer = TypeVar("Answer")
Ended = asyncio.Future[None]


class NotSentError(McpError):
    """The request did not leave this process; ``again`` says whether trying again may help."""

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
    """Seconds: until a started server has greeted, and until it has listed its tools."""

    connect: float = 30.0
    listing: float = 15.0


DEFAULT_TIMEOUTS = Timeouts()


@dataclass(frozen=True)
class Link:
    """A session that was greeted: what the server offers, and a future that ends with it."""

    session: ClientSession
    tools: Mapping[str, types.Tool]
    ended: Ended


class Connection:
    """Starts a server when it is needed, and again after it died; never repeats a request.

    Args:
        config: How the server is started.
        environment: Where the few inherited variables come from.
        log: The file that gets the server's stderr.
        timeouts: Bounds for start and listing; the bound for a call is in ``config``.
    """

    def __init__(
        self,
        config: ServerConfig,
        *,
        environment: Mapping[str, str],
        log: Path,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self.config = config
        self.log = log
        self.timeouts = timeouts
        self.problem: str | None = None
        self._environment = child_environment(config, environment)
        self._opening: asyncio.Future[Link] | None = None
        self._ended: Ended | None = None
        self._owners: set[asyncio.Task[None]] = set()
        self._closed = False

    async def open(self) -> Link:
        """The live session; starts the server when there is none.

        Raises:
            NotSentError: The server cannot be started, greeted or listed; a next call tries again.
        """
        if self._closed:
            raise NotSentError("it was shut down", again=False)
        if self._opening is None or self._is_over(self._opening):
            loop = asyncio.get_running_loop()
            self._opening, self._ended = loop.create_future(), loop.create_future()
            owner = asyncio.create_task(self._own(self._opening, self._ended))
            self._owners.add(owner)
            owner.add_done_callback(self._owners.discard)
        return await asyncio.shield(self._opening)

    async def call(
        self, definition: types.Tool, arguments: Mapping[str, Any], meta: Mapping[str, Any]
    ) -> types.CallToolResult:
        """Call a tool once, with exactly these arguments.

        Args:
            definition: The tool as it was shown to whoever approved the call. If the server has
                been restarted and now says something else, nothing is sent.
            arguments: JSON values, whatever their names.
            meta: Goes into the request's ``_meta``.

        Raises:
            NotSentError, RefusedError, NoAnswerError: See the module.
        """
        _check_sendable(arguments)
        link = await self.open()
        if link.tools.get(definition.name) != definition:
            raise NotSentError(
                f"it was restarted and {definition.name!r} is no longer what it was; "
                "start anew to look at the change",
                again=False,
            )
        params = types.CallToolRequestParams(
            name=definition.name,
            arguments=dict(arguments),
            _meta=types.RequestParams.Meta(**meta) if meta else None,
        )
        # Not session.call_tool: it checks the result against the output schema by raising, so
        # that a write which happened would look like an error, and may list the tools first.
        request = link.session.send_request(
            types.ClientRequest(types.CallToolRequest(params=params)), types.CallToolResult
        )
        return await _answer(request, link.ended, self.config.timeout)

    async def close(self) -> None:
        """End the session and the process: close its stdin, then SIGTERM, then SIGKILL."""
        self._closed = True
        _finish(self._ended)
        if self._owners:
            await asyncio.wait(self._owners)

    @staticmethod
    def _is_over(opening: asyncio.Future[Link]) -> bool:
        if not opening.done():
            return False
        failed = opening.cancelled() or opening.exception() is not None
        return failed or opening.result().ended.done()

    async def _own(self, opening: asyncio.Future[Link], ended: Ended) -> None:
        """One session from start to end; its fate goes to ``opening`` and ``problem``."""
        reason, words = "it ended", ""
        try:
            with _stderr_log(self.log) as log:
                since = log.tell()
                try:
                    await self._hold(log, opening, ended)
                finally:
                    words = _last_words(self.log, since)
        except Exception as error:
            reason = _reason(error)
        finally:
            _finish(ended)
            fate = "it was shut down" if self._closed else reason + words
            if self._opening is opening and not self._closed:  # else a newer one counts
                self.problem = fate
            if not opening.done():
                opening.set_exception(NotSentError(fate))
                opening.exception()  # whoever asked may have gone

    async def _hold(self, log: TextIO, opening: asyncio.Future[Link], ended: Ended) -> None:
        """Enter the session, hold it until it has ended or is to end, and leave it."""
        parameters = StdioServerParameters(
            command=self.config.command,
            args=list(self.config.args),
            env=self._environment,
            cwd=self.config.cwd,
            # For what a server writes beside the protocol; what we send is always encodable.
            encoding_error_handler="replace",
        )
        async with stdio_client(parameters, errlog=log) as (incoming, outgoing):
            watched = cast(
                MemoryObjectReceiveStream[SessionMessage | Exception], _Watched(incoming, ended)
            )
            async with ClientSession(watched, outgoing) as session:
                try:
                    link = await self._greet(session, ended)
                    self.problem = None
                    opening.set_result(link)
                    await asyncio.wait({ended})
                finally:
                    # Before the SDK leaves: it cancels its reader without telling those who
                    # wait for an answer.
                    _finish(ended)

    async def _greet(self, session: ClientSession, ended: Ended) -> Link:
        await _answer(session.initialize(), ended, self.timeouts.connect)
        tools = await _answer(_list_tools(session), ended, self.timeouts.listing)
        counted = Counter(tool.name for tool in tools)
        twice = [name for name, count in counted.items() if count > 1]
        if twice:
            raise NotSentError(f"it lists two tools of one name: {', '.join(map(repr, twice))}")
        return Link(session, {tool.name: tool for tool in tools}, ended)


class _Watched(ObjectReceiveStream[SessionMessage | Exception]):
    """Passes on what the server writes, and marks the moment at which its output ends.

    Without the mark, an error that a live server chose to call "connection closed" could not be
    told from a lost connection.
    """

    def __init__(
        self, inner: MemoryObjectReceiveStream[SessionMessage | Exception], ended: Ended
    ) -> None:
        self._inner, self._ended = inner, ended

    async def receive(self) -> SessionMessage | Exception:
        try:
            return await self._inner.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            _finish(self._ended)
            raise

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _answer(request: Coroutine[Any, Any, Answer], ended: Ended, seconds: float) -> Answer:
    """The result of ``request``, unless the session ends or ``seconds`` pass first.

    Raises:
        RefusedError, NoAnswerError: See the module.
    """
    task = asyncio.ensure_future(request)
    awaited: set[asyncio.Future[Any]] = {task, ended}
    try:
        await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            # An answer that was read just before the end is a few turns of the loop away.
            for _ in range(_SETTLING):
                await asyncio.sleep(0)
        if task.done():
            return task.result()
    except ProtocolError as error:
        if error.error.code == types.CONNECTION_CLOSED and ended.done():
            raise NoAnswerError("it ended before it answered") from error
        raise RefusedError(error.error.code, error.error.message) from error
    except McpError:
        raise
    except Exception as error:
        raise NoAnswerError(f"its answer could not be read: {_one_line(error)}") from error
    finally:
        task.cancel()
    if ended.done():
        raise NoAnswerError("it ended before it answered")
    raise NoAnswerError(f"it did not answer within {seconds:g} seconds")


async def _list_tools(session: ClientSession) -> list[types.Tool]:
    """All tools, page by page; none when the server says that it has no tools."""
    capabilities = session.get_server_capabilities()
    if capabilities is None or capabilities.tools is None:
        return []
    tools: list[types.Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
        tools += page.tools
        cursor = page.nextCursor
        if not cursor:
            return tools
    raise NotSentError(f"its list of tools has no end (stopped after {MAX_PAGES} pages)")


def child_environment(config: ServerConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables a server is started with: a few of ours, and those its ``env`` names."""
    inherited = {name: environment[name] for name in INHERITED if name in environment}
    return {**inherited, **config.env}


def _check_sendable(arguments: Mapping[str, Any]) -> None:
    """Refuse what JSON would change or cannot carry: what is sent is what was approved."""
    try:
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotSentError(f"the arguments cannot be sent as JSON: {error}", again=False) from error


def _finish(ended: Ended | None) -> None:
    if ended is not None and not ended.done():
        ended.set_result(None)


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


@contextmanager
def _stderr_log(path: Path) -> Iterator[TextIO]:
    """The server's log, for appending and for the owner's eyes only; a full one is put aside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_LIMIT:
        path.replace(path.with_suffix(".log.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8") as log:
        log.seek(0, os.SEEK_END)
        yield log


def _last_words(path: Path, since: int) -> str:
    """The last line that the server wrote to stderr in this run, as an addition to a reason."""
    with path.open("rb") as log:
        log.seek(max(since, path.stat().st_size - 4096))
        lines = log.read().decode("utf-8", "replace").split("\n")
    said = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f"; its last words: {said[:200]}" if said else ""
