"""Ids and the time: the two things every row begins with."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime, timedelta

_SORTED = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base32: text order is number order
_CLEAR = "23456789abcdefghjkmnpqrstuvwxyz"  # nothing that is misread when typed from a screen
_EPOCH = 1_735_689_600  # 2025-01-01; thirty bits of seconds from there last until 2059


def now() -> str:
    """The time in UTC, ISO 8601 with microseconds and ``Z``: its text order is time order."""
    return _as_text(datetime.now(UTC))


def in_hours(hours: float) -> str:
    """The time so many hours from now, as ``now`` writes it."""
    return _as_text(datetime.now(UTC) + timedelta(hours=hours))


def _as_text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def session_id() -> str:
    """``s-`` and nine characters: six of time in seconds, three at random.

    Sorts by creation, to the second. The caller retries when the id is taken.
    """
    seconds = int(time.time()) - _EPOCH
    stamp = "".join(_SORTED[(seconds >> shift) & 31] for shift in range(25, -1, -5))
    return f"s-{stamp}{_draw(_SORTED, 3)}"


def short_id(kind: str) -> str:
    """``<kind>-`` and six characters that are easy to tell apart, such as ``a-7kq2mx``."""
    return f"{kind}-{_draw(_CLEAR, 6)}"


def _draw(alphabet: str, length: int) -> str:
    return "".join(secrets.choice(alphabet) for _ in range(length))
