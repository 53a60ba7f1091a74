"""What a message must be before anything else reads it, over stdio and over HTTP alike.

The SDK's own readers leave gaps. Over stdio they answer what is no JSON with a log message, take
a request whose id is ``null`` for a notification, and never answer one that is nested deep; an
unknown method is "invalid parameters", an unknown tool a result, and any cursor is taken. What
does not fit their types they answer without a word of why, and write whole into the log. So a
message is read here, once, and what was read is what goes on, spelled anew.

==============================================  ==================================================
message                                         answer
==============================================  ==================================================
no JSON, not UTF-8, nested deep, half a          -32700
surrogate pair
too long; an array (batches are no part of       -32600
the protocol); not an object; not JSON-RPC
2.0; an id that is no string or integer
an unknown method                                -32601
parameters that do not fit; an unknown tool or   -32602
prompt; a cursor, since none is given
a notification, an answer                        none, whatever is wrong with it
==============================================  ==================================================

A ``task`` beside a tool's arguments is dropped: the servers announce no tasks, and who does not
has to serve such a call as any other (revision 2025-11-25, Tasks).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mcp import types
from pydantic import BaseModel, ValidationError

from mcp_servers import strict_json

MAX_MESSAGE = 256 * 1024  # bytes

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602

REQUESTS: dict[str, type[BaseModel]] = {
    "initialize": types.InitializeRequest,
    "ping": types.PingRequest,
    "tools/list": types.ListToolsRequest,
    "tools/call": types.CallToolRequest,
    "resources/list": types.ListResourcesRequest,
    "resources/read": types.ReadResourceRequest,
    "resources/templates/list": types.ListResourceTemplatesRequest,
    "prompts/list": types.ListPromptsRequest,
    "prompts/get": types.GetPromptRequest,
    "logging/setLevel": types.SetLevelRequest,
}
"""What FastMCP answers."""

NOTIFICATIONS: dict[str, type[BaseModel]] = {
    "notifications/initialized": types.InitializedNotification,
    "notifications/cancelled": types.CancelledNotification,
    "notifications/progress": types.ProgressNotification,
    "notifications/roots/list_changed": types.RootsListChangedNotification,
}
"""What the SDK listens to."""

_MAX_FAULTS, _MAX_FAULT = 5, 200  # and characters of one, which may name a member of the message

Message = dict[str, Any]


class Refused(Exception):
    """A message that goes no further: JSON-RPC's ``code``, and the ``id`` where it has one."""

    def __init__(self, code: int, text: str, id: str | int | None = None) -> None:
        self.code, self.id = code, id
        super().__init__(text)

    @property
    def answer(self) -> Message:
        """The error as the response that its sender gets."""
        error = {"code": self.code, "message": str(self)}
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


class Gate:
    """Lets messages pass that are requests or notifications of the protocol.

    Args:
        tools: The names of the server's tools.
    """

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = frozenset(tools)

    def admit(self, raw: bytes | bytearray) -> Message | None:
        """The message, or ``None`` where it is to be ignored.

        Raises:
            Refused: With the answer that it gets.
        """
        message = _object(raw)
        if "method" not in message and ("result" in message or "error" in message):
            return None  # the servers ask nothing, so it answers nothing
        if message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            raise Refused(INVALID_REQUEST, "This is no JSON-RPC 2.0 request.", _id(message))
        if message.get("params") is None:
            message.pop("params", None)
        if "id" not in message:
            kind = NOTIFICATIONS.get(message["method"])
            return message if kind and not _faults(kind, message) else None
        if _id(message) is None:
            raise Refused(INVALID_REQUEST, "The id of a request is a string or an integer.")
        self._check_request(message)
        return message

    def _check_request(self, message: Message) -> None:
        method, params = message["method"], message.get("params", {})
        if method not in REQUESTS:
            raise Refused(METHOD_NOT_FOUND, f"There is no method {method[:100]!r}.", _id(message))
        if method == "tools/call" and isinstance(params, dict):
            params.pop("task", None)
        if faults := _faults(REQUESTS[method], message) or self._beyond_types(method, params):
            raise Refused(INVALID_PARAMS, faults, _id(message))

    def _beyond_types(self, method: str, params: Message) -> str | None:
        """What is wrong with parameters that the protocol's types let pass."""
        if method.endswith("/list") and params.get("cursor") is not None:
            return "Unknown cursor: lists come whole, so none is ever given. Leave it out."
        if method == "initialize" and not isinstance(params["protocolVersion"], str):
            return "protocolVersion must be a string."
        if method == "prompts/get":
            return "There are no prompts."
        if method == "tools/call" and params["name"] not in self._tools:
            return f"Unknown tool: {params['name'][:100]!r}. tools/list has the names."
        return None


def _faults(kind: type[BaseModel], message: Message) -> str:
    """Where a message does not fit its type and why; empty when it fits."""
    try:
        kind.model_validate(message)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        return "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}"[:_MAX_FAULT]
            for fault in faults[:_MAX_FAULTS]
        )
    return ""


def _object(raw: bytes | bytearray) -> Message:
    if len(raw) > MAX_MESSAGE:
        raise Refused(INVALID_REQUEST, f"A message has at most {MAX_MESSAGE} bytes.")
    try:
        value = strict_json.parse(raw)
    except ValueError:
        raise Refused(PARSE_ERROR, "Parse error: this is no JSON in UTF-8.") from None
    if isinstance(value, list):
        raise Refused(INVALID_REQUEST, "Batches are not supported: send one message at a time.")
    if not isinstance(value, dict):
        raise Refused(INVALID_REQUEST, "A message is a JSON object.")
    return value


def _id(message: Message) -> str | int | None:
    given = message.get("id")
    return given if isinstance(given, str | int) and not isinstance(given, bool) else None
