"""The SDK's session, as this host wants it: it says when a request is no longer waited for, lets a
question to the person not hold up everything else, passes on what the server tells unasked, and
sees only what it can use."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import anyio
from anyio.abc import ObjectReceiveStream
from anyio.lowlevel import checkpoint
from mcp import ClientSession, types
from mcp.shared.message import SessionMessage
from mcp.shared.session import ProgressFnT, RequestResponder
from pydantic import ValidationError

from agent import __version__
from agent.mcp.questions import Reply
from agent.mcp.transport.wire import Incoming, Outgoing

Answer = TypeVar("Answer", bound=types.Result)
Elicit = Callable[[types.ElicitRequestParams], Awaitable[Reply]]
Question = RequestResponder[types.ServerRequest, types.ClientResult]

MAX_QUESTIONS = 4
"""How many questions to the person may be open at once; further ones are declined."""

MAX_TOLD = 500
"""Characters of what a server says about the progress of a call."""

_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError)
_ANSWERED = frozenset({"ping", "elicitation/create"})


@dataclass(frozen=True)
class Listener:
    """What is done with what a server says unasked. None of it may wait.

    Args:
        logged: Gets a level, the logger's name and the data of a log message.
        changed: Gets ``tools``, ``prompts`` or ``resources``, whose list is no longer what it was.
        asked: Answers a question to the person; without one, every question is declined.
    """

    logged: Callable[[str, str, Any], None]
    changed: Callable[[str], None]
    asked: Elicit | None = None


_CHANGED: dict[type[Any], str] = {
    types.ToolListChangedNotification: "tools",
    types.PromptListChangedNotification: "prompts",
    types.ResourceListChangedNotification: "resources",
}


class HostSession(ClientSession):
    """One session. It offers elicitation where somebody can be asked, and neither sampling nor
    roots: a request for one of these is answered as unsupported."""

    def __init__(self, incoming: Incoming, outgoing: Outgoing, listener: Listener) -> None:
        super().__init__(
            cast("Incoming", _Screened(incoming, self._fits)),
            outgoing,
            client_info=types.Implementation(name="sayso", version=__version__),
            elicitation_callback=_never if listener.asked else None,  # so that it is offered
        )
        self._listener = listener
        self._questions = 0
        self._logs, self._progress = _Allowance(), _Allowance()

    async def ask(
        self,
        request: types.ClientRequest,
        kind: type[Answer],
        progress: ProgressFnT | None = None,
    ) -> Answer:
        """Send a request and wait for the answer; when this is cancelled, the server is told.

        Raises:
            mcp.shared.exceptions.McpError: The answer is an error.
        """
        number = self._request_id  # what send_request will use: nothing comes between
        try:
            told = self._sparing(progress) if progress is not None else None
            return await self.send_request(request, kind, progress_callback=told)
        except anyio.get_cancelled_exc_class():
            # In a task of its own, until the session ends: whoever gave up is not to wait for a
            # server that is stuck, and the transport keeps the connection until it is told.
            with suppress(RuntimeError):  # the session is over
                self._task_group.start_soon(self._tell_cancelled, number)
            raise

    async def _tell_cancelled(self, number: int) -> None:
        params = types.CancelledNotificationParams(
            requestId=number, reason="the host no longer waits for it"
        )
        with suppress(*_CLOSED):
            await self.send_notification(
                types.ClientNotification(types.CancelledNotification(params=params))
            )

    def _sparing(self, tell: ProgressFnT) -> ProgressFnT:
        """Passes on what is told of a call, as far as somebody could read it."""

        async def told(progress: float, total: float | None, message: str | None) -> None:
            if self._progress.takes():
                await tell(progress, total, message and message[:MAX_TOLD])

        return told

    async def _fits(self, root: Any) -> bool:
        """Whether the SDK can use a message. It would log any other, as often and as long as the
        server wants; a request that is not supported is answered."""
        match root:
            case types.JSONRPCRequest():
                if root.method in _ANSWERED and _is_valid(types.ServerRequest, root):
                    return True
                known = root.method in _ANSWERED
                error = types.ErrorData(
                    code=types.INVALID_PARAMS if known else types.METHOD_NOT_FOUND,
                    message=f"sayso {'cannot read' if known else 'does not offer'} this request",
                )
                with suppress(*_CLOSED):
                    await self._send_response(root.id, error)
                return False
            case types.JSONRPCNotification():
                return _is_valid(types.ServerNotification, root)
        return _number(root.id) in self._response_streams

    async def _received_request(self, responder: Question) -> None:
        """A question to the person is answered beside the session, not in it."""
        request, asked = responder.request.root, self._listener.asked
        if not isinstance(request, types.ElicitRequest):
            await super()._received_request(responder)
        elif asked is None or self._questions >= MAX_QUESTIONS:
            with responder:
                await responder.respond(types.ClientResult(types.ElicitResult(action="decline")))
        else:
            self._questions += 1
            self._task_group.start_soon(self._pass_on, responder, request.params, asked)

    async def _pass_on(
        self, responder: Question, params: types.ElicitRequestParams, asked: Elicit
    ) -> None:
        reply, sent = Reply("cancel"), False
        try:
            with responder:  # ends at once when the server takes the question back
                try:
                    reply = await asked(params)
                    result = types.ElicitResult(action=reply.action, content=reply.content)
                    answer: Any = types.ClientResult(result)
                except Exception:
                    logging.getLogger(__name__).exception("a question could not be put to anybody")
                    answer = types.ErrorData(code=types.INTERNAL_ERROR, message="It was not asked.")
                with suppress(*_CLOSED):
                    await responder.respond(answer)
                    sent = not responder.cancelled  # else the SDK has sent nothing
        except anyio.get_cancelled_exc_class():
            # The SDK lets the cancellation of the question out, which would end the session.
            if not responder.cancelled:
                raise
        finally:
            self._questions -= 1
            reply.settled(sent)

    async def _received_notification(self, notification: types.ServerNotification) -> None:
        match notification.root:
            case types.LoggingMessageNotification(params=said):
                if self._logs.takes():
                    self._listener.logged(said.level, said.logger or "", said.data)
            case root if (changed := _CHANGED.get(type(root))) is not None:
                self._listener.changed(changed)


class _Screened(ObjectReceiveStream[SessionMessage | Exception]):
    """Passes on the messages that fit; others have their turn, however fast the rest comes."""

    def __init__(self, inner: Incoming, fits: Callable[[Any], Awaitable[bool]]) -> None:
        self._inner, self._fits = inner, fits

    async def receive(self) -> SessionMessage | Exception:
        while True:
            received = await self._inner.receive()
            if isinstance(received, Exception) or await self._fits(received.message.root):
                return received
            await checkpoint()

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Allowance:
    """How much may be told: a hundred at once, ten a second for longer."""

    def __init__(self, most: float = 100, a_second: float = 10) -> None:
        self._most, self._a_second = most, a_second
        self._left, self._since = most, time.monotonic()

    def takes(self) -> bool:
        """Whether one more may be told; it is counted."""
        now = time.monotonic()
        self._left = min(self._most, self._left + (now - self._since) * self._a_second)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


def _is_valid(
    kind: type[types.ServerRequest] | type[types.ServerNotification],
    root: types.JSONRPCRequest | types.JSONRPCNotification,
) -> bool:
    try:
        kind.model_validate(root.model_dump(by_alias=True, mode="json", exclude_none=True))
    except ValidationError:
        return False
    return True


def _number(answered: int | str) -> int | None:
    """The request that an answer is for; some servers write its number as a text."""
    try:
        return int(answered)
    except ValueError:
        return None


async def _never(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    raise AssertionError("questions go another way")
