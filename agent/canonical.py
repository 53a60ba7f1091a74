"""One spelling for JSON values, and the digest that binds a decision to arguments."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any


def canonical_json(value: Any) -> str:
    """Serialise a JSON value so that the same JSON gives the same text.

    Numbers stay as they are spelled, so 1 and 1.0 differ. Keys are sorted, there is no white
    space, and everything outside ASCII is escaped, so that any string (lone surrogates and NUL
    included) survives every database and encoding.

    Raises:
        ValueError: For NaN and the infinities, which JSON does not have.
        TypeError: For a value that is not JSON.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def surely_longer(value: Any, limit: int) -> bool:
    """Whether the JSON text of a value is longer than ``limit`` characters, by a low estimate.

    Nothing is copied to be counted: 20 MB take no longer than ``limit`` does.
    """
    waiting, size = [value], 0
    while waiting and size <= limit:
        inner = waiting.pop()
        match inner:
            case str():
                size += len(inner)
            case int():
                size += inner.bit_length() // 4
            case dict() | list():
                size += len(inner)  # what an element takes beside its own text
                if size <= limit:
                    waiting += [*inner, *inner.values()] if isinstance(inner, dict) else inner
    return size > limit


def check_plain(value: Any, depth: int = 100) -> None:
    """Whether a value survives every store and wire unchanged: the common ground of JSON.

    Raises:
        ValueError: Deeper than ``depth``, an integer beyond 64 bits, a number that JSON does not
            have, half a surrogate pair, or something that is no JSON at all; in words.
    """
    if depth < 0:
        raise ValueError("nested too deeply")
    match value:
        case None | bool():
            return
        case int():
            if not -(2**63) <= value < 2**63:
                raise ValueError(f"{str(value)[:30]}… is beyond 64 bits")
        case float():
            if not math.isfinite(value):
                raise ValueError(f"{value} is no JSON number")
        case str():
            if any("\ud800" <= character <= "\udfff" for character in value):
                raise ValueError("text with half a surrogate pair")
        case list() | tuple():
            for item in value:
                check_plain(item, depth - 1)
        case Mapping():
            for key, item in value.items():
                if not isinstance(key, str):
                    raise ValueError(f"the key {key!r} is not text")
                check_plain(key, depth - 1)
                check_plain(item, depth - 1)
        case _:
            raise ValueError(f"a {type(value).__name__} is no JSON")


def call_digest(tool: str, args: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of tool name and canonical arguments: what a decision is bound to."""
    return hashlib.sha256(canonical_json([tool, args]).encode()).hexdigest()
