"""One server, as whoever calls its tools sees it: a session when one is needed, and each request
once.

Requests are sent from the callers' own tasks, over the session that ``opening`` holds, and
``asking`` says what became of each. A request is never sent a second time, but for two kinds that
were turned away unread: one whose token had run out (``signing_in``), and a read over a session
that the server had lost.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
from mcp import types
from mcp.shared.session import ProgressFnT

from agent.mcp.asking import Asker
from agent.mcp.definitions import Definition
from agent.mcp.errors import NoAnswerError, NotSentError, RefusedError
from agent.mcp.link import Link
from agent.mcp.opening import Opener
from agent.mcp.questions import Ask, UnderWay
from agent.mcp.servers import Http, ServerConfig
from agent.mcp.session import Listener
from agent.mcp.timeouts import DEFAULT_TIMEOUTS, Timeouts
from agent.mcp.under_way import Calls
from agent.schemas import depth_exceeds

Result = TypeVar("Result", bound=types.Result)

_MAX_DEPTH = 100


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
        self.config = config
        self._reports = reports
        self._calls = Calls(config.name, reports.asked, timeouts.question)
        self._asker = Asker(config, self._calls.pauses, timeouts.question)
        self._opener = Opener(
            config,
            self._asker,
            environment=environment,
            log=log,
            timeouts=timeouts,
            auth=auth,
            now=now,
            listener=Listener(
                logged=self._logged,
                changed=reports.changed,
                asked=self._calls.asked if self.asks else None,
            ),
            listed=reports.listed,
        )

    @property
    def asks(self) -> bool:
        """Whether there is somebody whom the server can ask something."""
        return self._reports.asked is not None

    @property
    def timeouts(self) -> Timeouts:
        """Bounds for opening and listing, and for a question."""
        return self._opener.timeouts

    @property
    def problem(self) -> str | None:
        """Why the server cannot be used now; ``None`` while it can, or was not tried."""
        return self._opener.problem

    @property
    def link(self) -> Link | None:
        """The live session, if there is one now."""
        return self._opener.link

    def call_seconds(self, tool: str) -> float:
        """How long a call of a tool may take."""
        return self.config.claims_for(tool).timeout or self.config.timeout

    async def open(self) -> Link:
        """The live session; opens one when there is none.

        Raises:
            NotSentError: The server cannot be reached, greeted or listed, or it could not be a
                moment ago.
        """
        return await self._opener.open()

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
            NotSentError, RefusedError, NoAnswerError: See ``agent.mcp.errors``.
        """
        _check_sendable(arguments)
        params = types.CallToolRequestParams(
            name=definition["name"],
            arguments=dict(arguments),
            _meta=types.RequestParams.Meta(**meta) if meta else None,
        )
        request = types.ClientRequest(types.CallToolRequest(params=params))
        remote = isinstance(self.config.transport, Http)
        link = await self._ready(asks_first=write and remote)
        with self._calls.during(under_way):
            try:
                return await self._call(link, definition, request, progress)
            except NotSentError:
                if write or not remote or not link.is_over:
                    raise
            # The session was lost unnoticed, and the read was turned away unread.
            link = await self._ready(asks_first=False)
            return await self._call(link, definition, request, progress)

    async def _call(
        self,
        link: Link,
        definition: Definition,
        request: types.ClientRequest,
        progress: ProgressFnT | None,
    ) -> types.Result:
        if not link.offers(definition):
            raise NotSentError(_changed(definition, self.config.name), again=False)
        # Not session.call_tool: it checks the result against the output schema by raising, so
        # that a write which happened would look like an error, and may list the tools first.
        asking = link.session.ask(request, types.Result, progress)
        return await self._asker.ask(link, asking, self.call_seconds(definition["name"]))

    async def request(self, request: types.ClientRequest, kind: type[Result]) -> Result:
        """Send something that changes nothing, such as reading a resource.

        Raises:
            NotSentError, RefusedError, NoAnswerError: See ``agent.mcp.errors``.
        """
        link = await self.open()
        return await self._asker.ask(link, link.session.ask(request, kind), self.config.timeout)

    async def close(self) -> None:
        """End the session. A process gets its stdin closed, then SIGTERM, then SIGKILL."""
        await self._opener.close()

    def _logged(self, level: str, logger: str, data: Any) -> None:
        self._reports.logged(level, logger, data, self._calls.latest)

    async def _ready(self, asks_first: bool) -> Link:
        """A session to send a call over; ``asks_first``: one that has just answered."""
        if not asks_first and self.link is not None:
            return self.link
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
                await self._asker.ask(link, asking, self.timeouts.listing)
        except (NotSentError, NoAnswerError) as error:
            link.retire(str(error))
            return await self.open()
        return link


def _changed(definition: Definition, server: str) -> str:
    return (
        f"its tool {definition['name']!r} is no longer what was looked at; "
        f"sayso mcp diff {shlex.quote(server)} shows the change"
    )


def _check_sendable(arguments: Mapping[str, Any]) -> None:
    """Refuse what JSON would change or cannot carry: what is sent is what was approved."""
    if depth_exceeds(arguments, _MAX_DEPTH):
        words = f"the arguments are nested more than {_MAX_DEPTH} deep, which cannot be sent"
        raise NotSentError(words, again=False)
    try:
        json.dumps(arguments, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotSentError(f"the arguments cannot be sent as JSON: {error}", again=False) from error
