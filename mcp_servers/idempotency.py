"""The idempotency key of a call: one request, however often it is sent, counts once.

A harness gives it in ``_meta`` as ``sayso/idempotencyKey``, a caller without one as the argument
``idempotency_key``. Two that differ are refused, since nobody could say which request the call
repeats. A call without any gets a key of its own, so that an answer that was lost can be settled
by repeating the call with it.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from tools.contract import ToolFailure

KEY_ARGUMENT = "idempotency_key"
KEY_IN_META = "sayso/idempotencyKey"
KEY_HINT = "Leave it out, unless an answer named one to be repeated."
KEY_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": 200,
    "pattern": "^[!-~]+$",
    "description": f"Calls with the same key count once: 1 to 200 visible ASCII characters. "
    f"{KEY_HINT}",
}


@dataclass(frozen=True)
class Key:
    """The key of one call.

    Args:
        repeatable: Whether the caller may be told to repeat the call with it as an argument;
            where a harness gave it, the harness repeats the call.
    """

    value: str
    repeatable: bool


def key_of(arguments: Mapping[str, Any]) -> Key:
    """The key that came with the request at hand, or a new one.

    Raises:
        ToolFailure: A key of the wrong form, or two that differ.
    """
    meta = _usable(_in_meta(), f"the key {KEY_IN_META} in _meta")
    argument = _usable(arguments.get(KEY_ARGUMENT), f"the argument {KEY_ARGUMENT}")
    if meta is not None and argument is not None and meta != argument:
        raise ToolFailure(
            "The call has two idempotency keys that differ, one in _meta and one as the argument "
            f"{KEY_ARGUMENT}. Nothing was changed. Leave the argument out: whoever sends the "
            "call has a key for it."
        )
    if meta is not None:
        return Key(meta, repeatable=False)
    return Key(argument or f"mcp-{uuid.uuid4()}", repeatable=True)


def _in_meta() -> object:
    """What the request's ``_meta`` has as its key, of any type; ``None``: nothing."""
    from fastmcp.server.dependencies import get_context  # the course service does without

    request = get_context().request_context
    meta: Any = request.meta if request else None
    if isinstance(meta, BaseModel):  # FastMCP 3; a plain mapping in 4
        meta = meta.model_dump()
    return meta.get(KEY_IN_META) if isinstance(meta, Mapping) else None


def _usable(key: object, place: str) -> str | None:
    if key is None:
        return None
    if isinstance(key, str) and re.fullmatch("[!-~]{1,200}", key):
        return key
    raise ToolFailure(
        f"{place[0].upper()}{place[1:]} is not 1 to 200 visible ASCII characters. "
        "Nothing was changed."
    )
