"""Holding a session's lease for as long as this process works on it."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.errors import LeaseLost, SessionBusy, StoreError

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.owner import Owner
    from agent.store.records import LeaseRecord


log = logging.getLogger("sayso")

_OPEN: dict[tuple[str, str], Holdings] = {}
"""Who in this process has a session, by the owner's text: the lease tells processes apart only."""

LAST_SECONDS = 3600.0
"""How long a lease lasts that nobody can renew any more, while a write of its session runs on."""


class LeaseKeeper:
    """The lease of one session, renewed in the background and before every write.

    Args:
        seconds: How long a lease lasts without renewal.
    """

    def __init__(self, store: Store, session: str, owner: Owner, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self.session = session
        self._ends = _in(seconds)
        self._lease: LeaseRecord | None = store.leases.acquire(session, owner, seconds)
        self._when_lost: list[Callable[[], None]] = []

    def when_lost(self, call: Callable[[], None]) -> None:
        """Call this, once, as soon as it is noticed that another process has taken over."""
        self._when_lost.append(call)

    @property
    def current(self) -> LeaseRecord:
        """The lease as last renewed.

        Raises:
            LeaseLost: When another process has taken over.
        """
        if self._lease is None:
            raise LeaseLost(self.session)
        return self._lease

    def ensure(self, seconds: float) -> LeaseRecord:
        """The lease with at least so many seconds left, renewed if need be.

        Raises:
            LeaseLost: When another process has taken over.
        """
        lease = self.current
        if _left_until(self._ends) < seconds + self._seconds / 3:
            lease = self._renew(seconds + self._seconds)
        return lease

    def _renew(self, seconds: float) -> LeaseRecord:
        # Its end by the clocks of this machine: that of the database may be another one.
        ends = _in(seconds)
        try:
            self._lease = self._store.leases.renew(self.current, seconds)
            self._ends = ends
        except LeaseLost:
            self._lease = None
            for call in self._when_lost:
                call()
            raise
        return self._lease

    async def keep(self, beside: Callable[[], None] = lambda: None) -> None:
        """Renew until cancelled or lost; see :meth:`when_lost`.

        Args:
            beside: What else is to be done from time to time, while the database can be had.
        """
        while self._lease is not None:
            await asyncio.sleep(self._seconds / 3)
            try:
                self.ensure(self._seconds / 2)
                beside()
            except LeaseLost:
                return
            except StoreError as error:  # busy for now; before a write it is renewed again
                log.warning("the lease of %s was not renewed: %s", self.session, error)

    def release(self) -> None:
        """Give the lease up, if it is still ours."""
        if self._lease is not None:
            self._store.leases.release(self._lease)
            self._lease = None


def _clocks() -> tuple[float, float]:
    """Seconds, by a clock that may be put back and by one that may rest as the machine does."""
    return time.time(), time.monotonic()


def _in(seconds: float) -> tuple[float, ...]:
    """The moment in so many seconds, by each clock."""
    return tuple(now + seconds for now in _clocks())


def _left_until(moment: tuple[float, ...]) -> float:
    """The seconds left, by whichever clock says less."""
    return min(then - now for then, now in zip(moment, _clocks(), strict=True))


class Holdings:
    """The leases of one process: each is held while its session is open, or a write of it runs.

    Nothing stops a thread, so a write can outlive the opening of its session. As long as it runs
    here, no other process may carry the session on: it would find that nothing had happened.

    Args:
        seconds: How long a lease lasts without renewal.
        under_way: The writes of a session that run in this process.
        record_kept: Records what could not be recorded before.
    """

    def __init__(
        self,
        store: Store,
        owner: Owner,
        seconds: float,
        under_way: Callable[[str], set[asyncio.Future[Any]]],
        record_kept: Callable[[], None] = lambda: None,
    ) -> None:
        self._store, self._owner, self._seconds = store, owner, seconds
        self._under_way, self._record_kept = under_way, record_kept
        self._left: dict[str, _Left] = {}
        """The sessions that were left with a write under way."""

    @asynccontextmanager
    async def hold(self, session: str) -> AsyncIterator[LeaseKeeper]:
        """Hold a session's lease.

        Raises:
            SessionBusy: When another process holds it, or it is open in this one already.
        """
        name = self._owner.text, session
        if name in _OPEN and not (_OPEN[name] is self and session in self._left):
            raise SessionBusy(session, self._owner.text)
        _OPEN[name] = self
        try:
            keeper = LeaseKeeper(self._store, session, self._owner, self._seconds)
        except BaseException:
            if session not in self._left:
                del _OPEN[name]
            raise
        renewing = asyncio.create_task(keeper.keep(self._record_kept))
        try:
            if left := self._left.pop(session, None):  # it is had anew
                await _end(left.renewing, left.waiting)
            yield keeper
        finally:
            if running := self._under_way(session):
                waiting = asyncio.create_task(self._give_back_after(running, keeper, renewing))
                self._left[session] = _Left(keeper, renewing, waiting)
            else:
                await _end(renewing)
                self._give_back(keeper, session)

    def _give_back(self, keeper: LeaseKeeper, session: str) -> None:
        try:
            keeper.release()
        except StoreError as error:  # it ends by itself; what failed before says more
            log.warning("the lease of %s was not given back: %s", session, error)
        finally:
            _OPEN.pop((self._owner.text, session), None)

    async def _give_back_after(
        self,
        running: set[asyncio.Future[Any]],
        keeper: LeaseKeeper,
        renewing: asyncio.Task[None],
    ) -> None:
        await asyncio.wait(running)
        await _end(renewing)
        self._left.pop(keeper.session, None)
        self._give_back(keeper, keeper.session)

    async def close(self) -> None:
        """Renew nothing any more. A lease whose write still runs ends with this process.

        The loop's own threads are waited for when a process ends, for as long as that takes. On
        the same machine it is seen at once that it has ended.
        """
        while self._left:
            session, left = self._left.popitem()
            await _end(left.renewing, left.waiting)
            if not self._under_way(session):
                self._give_back(left.keeper, session)
                continue
            _OPEN.pop((self._owner.text, session), None)
            if not _threads_are_waited_for():  # what runs ends with the loop
                continue
            try:
                left.keeper.ensure(LAST_SECONDS)
            except (LeaseLost, StoreError) as error:
                log.warning("the lease of %s was not renewed: %s", session, error)


@dataclass(frozen=True)
class _Left:
    """A session that was left with a write under way: who renews, and who gives back."""

    keeper: LeaseKeeper
    renewing: asyncio.Task[None]
    waiting: asyncio.Task[None]


def _threads_are_waited_for() -> bool:
    """Whether the loop has threads of its own, as of ``asyncio.to_thread``: a process ends after
    them."""
    return any(thread.name.startswith("asyncio_") for thread in threading.enumerate())


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
