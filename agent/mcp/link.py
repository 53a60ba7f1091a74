"""One session that stands: what the server said at its start, and whether it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from mcp import types

from agent.mcp.definitions import Definition, same_definition
from agent.mcp.session import HostSession

Ended = asyncio.Future[str]
"""Is done when a session is over: why, when it is known, as the beginning of a sentence."""


def finish(ended: Ended, why: str = "") -> None:
    """The session is over; the first reason counts."""
    if not ended.done():
        ended.set_result(why)


@dataclass
class Link:
    """A session that was greeted: what the server offers, and how it goes on.

    Attributes:
        changed: The server has said that its tools are no longer those that were listed.
        waiting: How many requests wait for an answer.
        retired: Why no request is sent over it any more; it ends when none waits.
    """

    session: HostSession
    greeting: types.InitializeResult
    ended: Ended
    changed: asyncio.Event
    tools: Mapping[str, Definition] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    waiting: int = 0
    retired: str = ""
    _agreed: dict[str, tuple[Definition, Definition]] = field(default_factory=dict)

    def offers(self, definition: Definition) -> bool:
        """Whether the server lists the tool exactly so. Two that were compared are remembered."""
        name = definition["name"]
        listed = self.tools.get(name)
        known = self._agreed.get(name)
        if known is not None and known[0] is listed and known[1] is definition:
            return True
        if listed is None or not same_definition(listed, definition):
            return False
        self._agreed[name] = (listed, definition)
        return True

    @property
    def is_over(self) -> bool:
        """Whether the next request needs another one."""
        return bool(self.retired) or self.ended.done()

    def retire(self, why: str) -> None:
        """Send nothing more over it. Whoever waits for an answer may still get it."""
        self.retired = why
        self.settle()

    def settle(self) -> None:
        """End it, if it is retired and nobody waits."""
        if self.retired and not self.waiting:
            finish(self.ended, self.retired)
