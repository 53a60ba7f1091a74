"""How long a server is waited for; the bound for one call is in its configuration."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Timeouts:
    """Seconds: until a server has greeted, until it has listed its tools, and how long a
    question to the person may wait for its answer."""

    connect: float = 30.0
    listing: float = 15.0
    question: float = 300.0


DEFAULT_TIMEOUTS = Timeouts()
