"""JSON as the protocol has it, read in one way only."""

from __future__ import annotations

import json
from typing import Any, NoReturn

MAX_DEPTH = 64
"""Arrays and objects inside each other; other readers have limits of their own, not far above."""


def parse(text: bytes | bytearray) -> Any:
    """The value of a JSON text in UTF-8.

    Raises:
        ValueError: It is none, is nested deeper than ``MAX_DEPTH``, or holds what cannot be
            written again: half a surrogate pair, a number beyond all bounds.
    """
    try:
        value = json.loads(text.decode(), parse_constant=_no_number)
    except RecursionError:
        raise ValueError("nested too deep") from None
    if _is_deeper(value, MAX_DEPTH):
        raise ValueError("nested too deep")
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _is_deeper(value: Any, levels: int) -> bool:
    inside = [value]
    for _ in range(levels + 1):
        holders = [item for item in inside if isinstance(item, dict | list)]
        if not holders:
            return False
        inside = [
            item
            for holder in holders
            for item in (holder.values() if isinstance(holder, dict) else holder)
        ]
    return True
