"""The writes of a process that are under way, whichever of its sessions they belong to.

A body can outlive its time, its turn, and the opening of its session: nothing stops a thread, and
one that only waits for a thread, or for an answer, would end without what it waits for.
Until it has ended nobody may say that it did not happen, and no other write of its conflict key
begins.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from agent.errors import NotFound, StoreError

log = logging.getLogger("sayso")

Body = asyncio.Future[Any]


@dataclass
class _Key:
    """One conflict key: whose turn it is, and which bodies have not ended."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    interested: int = 0
    bodies: set[Body] = field(default_factory=set)


class WritesUnderWay:
    """Who is at what: by conflict key, by effect, by session. For one event loop."""

    def __init__(self) -> None:
        self._keys: dict[str, _Key] = {}
        self._effects: dict[str, set[Body]] = {}
        self._sessions: dict[str, set[Body]] = {}
        self._kept: dict[tuple[str, str, int], Callable[[], object]] = {}

    @asynccontextmanager
    async def turn(self, key: str, seconds: float) -> AsyncIterator[None]:
        """One write of this conflict key at a time; whether it may begin, ``is_free`` says.

        Args:
            seconds: For how long a body is waited for that has outlived its own turn.
        """
        entry = self._keys.setdefault(key, _Key())
        entry.interested += 1
        try:
            async with entry.lock:
                if entry.bodies:
                    await asyncio.wait(set(entry.bodies), timeout=seconds)
                yield
        finally:
            entry.interested -= 1
            self._forget(key, entry)

    def entered(self, session: str, effect: str, key: str, body: Body) -> None:
        """A body was entered; it is under way until it has ended."""
        entry = self._keys.setdefault(key, _Key())
        places = (
            entry.bodies,
            self._effects.setdefault(effect, set()),
            self._sessions.setdefault(session, set()),
        )
        for bodies in places:
            bodies.add(body)

        def ended(body: Body) -> None:
            for bodies in places:
                bodies.discard(body)
            self._forget(key, entry)
            for known, name in ((self._effects, effect), (self._sessions, session)):
                if not known.get(name):
                    known.pop(name, None)

        body.add_done_callback(ended)

    def keep(self, session: str, effect: str, attempt: int, record: Callable[[], object]) -> None:
        """Keep how an attempt of a write ended, which could not be recorded: nobody else knows."""
        self._kept[session, effect, attempt] = record

    def forget(self, session: str, effect: str, attempt: int) -> None:
        """Drop what was kept of an attempt: more is known of it by now."""
        self._kept.pop((session, effect, attempt), None)

    def record_kept(self, sessions: Collection[str]) -> None:
        """Record what was kept, before anybody begins, asks or says anything more.

        Args:
            sessions: Those that must not go on without it; what was kept of others is no reason.

        Raises:
            StoreError: Something of theirs still cannot be recorded; it is kept.
        """
        missing: StoreError | None = None
        for about, record in list(self._kept.items()):
            try:
                with suppress(NotFound):  # its session was deleted
                    record()
                del self._kept[about]
            except StoreError as error:
                if about[0] in sessions:
                    missing = missing or error
        if missing is not None:
            raise missing

    def close(self) -> None:
        """Record what was kept, for the last time."""
        try:
            self.record_kept({session for session, _, _ in self._kept})
        except StoreError as error:
            left = sorted(effect for _, effect, _ in self._kept)
            log.warning("what %s came to was not recorded: %s", ", ".join(left), error)

    def is_free(self, key: str) -> bool:
        """Whether no body of this conflict key runs; it stays so until its turn ends."""
        entry = self._keys.get(key)
        return entry is None or not entry.bodies

    def has(self, effect: str) -> bool:
        """Whether a body of this write still runs, maybe long after its time."""
        return bool(self._effects.get(effect))

    def of_session(self, session: str) -> set[Body]:
        """The bodies of a session that have not ended."""
        return set(self._sessions.get(session, ()))

    def _forget(self, key: str, entry: _Key) -> None:
        if not entry.interested and not entry.bodies and self._keys.get(key) is entry:
            del self._keys[key]
