"""A request over a session that stands, up to what became of it, in words.

Every wait ends: by an answer, by the end of the session, or by a timeout. What a caller learns is
the answer or one of the errors of ``agent.mcp.errors``. A transport that knows what became of a
request says so by an error that carries a :class:`~agent.mcp.transport.wire.Fate`.
"""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

import anyio
from mcp import types
from mcp.shared.exceptions import McpError as ProtocolError

from agent.errors import McpError
from agent.mcp.definitions import ListingError
from agent.mcp.errors import NoAnswerError, NotSentError, RefusedError
from agent.mcp.link import Ended, Link
from agent.mcp.servers import Http, ServerConfig
from agent.mcp.signing_in.tokens import has_own_authorization
from agent.mcp.transport.wire import Fate, fate_of
from agent.mcp.under_way import Pauses

Answer = TypeVar("Answer")

_SETTLING = 10


class Asker:
    """Sends requests of one server, over whichever of its sessions.

    Args:
        config: Of the server; names it in what is said about a sign-in.
        pauses: How long questions to the person have been open: meanwhile the clock stands still.
        longest: Seconds it stands still at most, for one request.
    """

    def __init__(self, config: ServerConfig, pauses: Pauses, longest: float) -> None:
        self._config, self._pauses, self._longest = config, pauses, longest

    async def ask(self, link: Link, request: Coroutine[Any, Any, Answer], seconds: float) -> Answer:
        """The answer to a request that ``link`` is to carry; at most ``seconds`` are waited.

        A session that the answer ends is retired.

        Raises:
            NotSentError, RefusedError, NoAnswerError: See ``agent.mcp.errors``.
        """
        link.waiting += 1
        try:
            return await self._answer(request, link.ended, seconds)
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
        remote = self._config.transport
        if isinstance(remote, Http) and has_own_authorization(remote):
            return f"the Authorization header in {self._config.source} is not accepted"
        login = f"sayso mcp login {shlex.quote(self._config.name)} signs in"
        return f"{login}, or put a token into its headers in {self._config.source}"

    async def _answer(
        self, request: Coroutine[Any, Any, Answer], ended: Ended, seconds: float
    ) -> Answer:
        """The result of ``request``, unless the session ends or ``seconds`` pass first.

        Raises:
            RefusedError, NoAnswerError: See ``agent.mcp.errors``.
            _FateError: The transport knows what became of it.
        """
        task = asyncio.ensure_future(request)
        try:
            await self._wait(task, ended, seconds)
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
            raise NoAnswerError(f"its answer could not be read: {one_line(error)}") from error
        finally:
            task.cancel()
        if ended.done():
            raise NoAnswerError(_over(ended))
        raise NoAnswerError(f"it did not answer within {seconds:g} seconds")

    async def _wait(self, task: asyncio.Future[Answer], ended: Ended, seconds: float) -> None:
        """Until there is an answer, the session is over, or the time is; see ``pauses``."""
        awaited: set[asyncio.Future[Any]] = {task, ended}
        before, deadline = self._pauses.seconds, time.monotonic() + seconds
        while (left := deadline + self._paused_since(before) - time.monotonic()) > 0:
            done, _ = await asyncio.wait(awaited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if done:
                break
        if ended.done():
            # An answer that was read just before the end is a few turns of the loop away.
            for _ in range(_SETTLING):
                await asyncio.sleep(0)

    def _paused_since(self, before: float) -> float:
        return min(self._pauses.seconds - before, self._longest)


class _FateError(Exception):
    """An answer that tells what became of the request on the wire."""

    def __init__(self, fate: Fate) -> None:
        self.fate = fate


def _over(ended: Ended) -> str:
    return ended.result() or "it ended before it answered"


def _refusal(error: types.ErrorData) -> str:
    """The server's own text; where it waits for something the person does, also the address."""
    if error.code != types.URL_ELICITATION_REQUIRED or not isinstance(error.data, dict):
        return error.message
    wanted = error.data.get("elicitations")
    asked = [one for one in wanted if isinstance(one, dict)] if isinstance(wanted, list) else []
    pages = ", ".join(str(one.get("url")) for one in asked[:3])
    return f"{error.message}; the person has to open {pages} first, and then ask again"


def one_line(error: BaseException) -> str:
    """Kind and text of an error, on one line of at most 300 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
