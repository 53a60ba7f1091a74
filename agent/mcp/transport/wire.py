"""A message on the wire: how it is read, and what became of a request that got no answer.

The SDK's transports hand on what has both a result and an error, and leave a request waiting whose
answer cannot be read. Here every request ends in a message: the server's answer, or an error of
ours that carries a :class:`Fate`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError
from pydantic_core import from_json

MAX_MESSAGE = 32 * 1024 * 1024
"""Bytes of one message."""

MAX_CONTAINERS = 1_000_000
"""Opening brackets in one message: each may cost a hundred bytes of memory."""

TOO_LONG = f"it sent a message of more than {MAX_MESSAGE // 1024**2} MB"

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]
ToUs = MemoryObjectSendStream[SessionMessage | Exception]
FromUs = MemoryObjectReceiveStream[SessionMessage]

_FIRST = re.compile(
    rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,\s*"(?:result|error)"'
)
_LAST = re.compile(rb',\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*\}\s*\Z')
_RESULT = re.compile(rb'\s*\{\s*"(?:result|error)"')
"""Where the answers of most servers have their id: the Python SDK's first, the TypeScript SDK's
last."""


class SessionOver(Exception):
    """The session cannot go on; the message says why. Comes in the place of a message."""


@dataclass(frozen=True)
class Fate:
    """What became of a request that the server gave no usable answer to.

    Args:
        sent: It may have been acted upon.
        words: What happened, for a sentence that begins with the server's name.
        status: The HTTP status that was answered, if any was.
        retry: Trying again may help.
    """

    sent: bool
    words: str
    status: int | None = None
    retry: bool = True

    @property
    def ends_session(self) -> bool:
        """Whether the next request needs a new session: the server is away, wants a sign-in, or
        does not know this session any more, which many say with a 400."""
        return self.status in (400, 401, 404) or (self.status is None and not self.sent)


def fate_of(error: types.ErrorData) -> Fate | None:
    """The fate in an error that was made here; ``None`` for an error of the server's own."""
    return error.data if isinstance(error.data, Fate) else None


def failed(request: int | str, fate: Fate) -> types.JSONRPCMessage:
    """The answer to a request that got none."""
    error = types.ErrorData(code=types.INTERNAL_ERROR, message=fate.words, data=fate)
    return types.JSONRPCMessage(types.JSONRPCError(jsonrpc="2.0", id=request, error=error))


def read_message(data: bytes | bytearray) -> types.JSONRPCMessage | None:
    """What a server sent as a message; ``None`` for what is none. Never raises.

    A response that breaks the rules and names a request becomes an error for it: whoever waits
    need not wait until their time is over.
    """
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:  # a hundred bytes of memory for one
        request = _id_in(data)
        return None if request is None else _unusable(request, "it has too many parts")
    try:
        value = from_json(data, allow_inf_nan=False)
    except ValueError as error:  # also for one that is nested too deep
        request = _id_in(data)
        return None if request is None else _unusable(request, f"it is no JSON ({error})")
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        return None
    if "method" in value:
        return _asked(value)
    if ("result" in value) == ("error" in value):
        return _unusable(value.get("id"), "it has not either a result or an error")
    try:
        if "result" in value:
            return types.JSONRPCMessage(types.JSONRPCResponse.model_validate(value))
        return types.JSONRPCMessage(types.JSONRPCError.model_validate(value))
    except ValidationError:
        return _unusable(value.get("id"), "its form is not that of JSON-RPC")


def _asked(value: dict[str, Any]) -> types.JSONRPCMessage | None:
    """A request or notification; one that is also an answer is neither."""
    if "result" in value or "error" in value:
        return None
    try:
        if "id" in value:
            return types.JSONRPCMessage(types.JSONRPCRequest.model_validate(value))
        return types.JSONRPCMessage(types.JSONRPCNotification.model_validate(value))
    except ValidationError:
        return None


def _id_in(data: bytes | bytearray) -> int | None:
    """Which request an answer is for that cannot be parsed."""
    found = _FIRST.match(data)
    if found is None and _RESULT.match(data):
        found = _LAST.search(data, max(0, len(data) - 100))
    return int(found[1]) if found else None


def _unusable(request: Any, why: str) -> types.JSONRPCMessage | None:
    if not isinstance(request, int | str) or isinstance(request, bool):
        return None
    return failed(request, Fate(True, f"its answer cannot be used: {why}"))
