"""How many requests a client may send."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateLimit:
    """A token bucket for each client.

    A client may send ``per_minute`` requests at once, and gets as many again in a minute.

    Args:
        now: The clock, in seconds.
    """

    def __init__(self, per_minute: int, now: Callable[[], float] = time.monotonic) -> None:
        self._size, self._now = per_minute, now
        self._buckets: dict[str, tuple[float, float]] = {}

    def wait(self, client: str) -> float:
        """Take one request from the client's bucket.

        Returns:
            0 when it may be served, else the seconds until one may be.
        """
        now, rate = self._now(), self._size / 60
        left, then = self._buckets.get(client, (self._size, now))
        left = min(self._size, left + (now - then) * rate)
        granted = left >= 1
        self._buckets[client] = (left - granted, now)
        return 0 if granted else (1 - left) / rate
