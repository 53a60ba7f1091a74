"""What a message must be before anything else reads it, over stdio and over HTTP alike.

The SDK's own readers leave gaps. Over stdio they answer what is no JSON with a log message, take
a request whose id is ``null`` for a notification, and never answer one that is nested deep; an
unknown method is "invalid parameters", an unknown tool a result, and any cursor is taken. So a
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
parameters that are no object; an unknown        -32602
tool or prompt; a cursor, since none is given
a notification, an answer                        none, whatever is wrong with it
==============================================  ==================================================
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mcp_servers import strict_json

MAX_MESSAGE = 256 * 1024  # bytes

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602

METHODS = frozenset(
    {
        "initialize",
        "ping",
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
        "logging/setLevel",
    }
)
"""What FastMCP answers."""

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
        has_params = isinstance(message.get("params"), dict | None)
        if "id" not in message:
            return message if has_params else None
        if _id(message) is None:
            raise Refused(INVALID_REQUEST, "The id of a request is a string or an integer.")
        if message["method"] not in METHODS:
            text = f"There is no method {message['method'][:100]!r}."
            raise Refused(METHOD_NOT_FOUND, text, _id(message))
        if not has_params:
            raise Refused(INVALID_PARAMS, "params must be an object.", _id(message))
        self._check_params(message["method"], message.get("params") or {}, _id(message))
        return message

    def _check_params(self, method: str, params: Message, id: str | int | None) -> None:
        if method.endswith("/list") and params.get("cursor") is not None:
            text = "Unknown cursor: lists come whole, so none is ever given. Leave it out."
            raise Refused(INVALID_PARAMS, text, id)
        if method == "initialize" and not isinstance(params.get("protocolVersion"), str):
            raise Refused(INVALID_PARAMS, "protocolVersion must be a string.", id)
        if method == "prompts/get":
            raise Refused(INVALID_PARAMS, "There are no prompts.", id)
        if method != "tools/call":
            return
        name = params.get("name")
        if not isinstance(name, str):
            raise Refused(INVALID_PARAMS, "tools/call needs the name of a tool.", id)
        if name not in self._tools:
            text = f"Unknown tool: {name[:100]!r}. tools/list has the names."
            raise Refused(INVALID_PARAMS, text, id)


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
