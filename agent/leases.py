"""Holding a session's lease for as long as this process works on it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agent.errors import LeaseLost, StoreError

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.owner import Owner
    from agent.store.records import LeaseRecord


log = logging.getLogger("sayso")


class LeaseKeeper:
    """The lease of one session, renewed in the background and before every write.

    Args:
        seconds: How long a lease lasts without renewal.
    """

    def __init__(self, store: Store, session: str, owner: Owner, seconds: float) -> None:
        self._store, self._seconds = store, seconds
        self._session = session
        self._ends = time.time() + seconds
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
            raise LeaseLost(self._session)
        return self._lease

    def ensure(self, seconds: float) -> LeaseRecord:
        """The lease with at least so many seconds left, renewed if need be.

        Raises:
            LeaseLost: When another process has taken over.
        """
        lease = self.current
        if self._ends - time.time() < seconds + self._seconds / 3:
            lease = self._renew(seconds + self._seconds)
        return lease

    def _renew(self, seconds: float) -> LeaseRecord:
        # Its end by the clock of this machine: that of the database may be another one.
        ends = time.time() + seconds
        try:
            self._lease = self._store.leases.renew(self.current, seconds)
            self._ends = ends
        except LeaseLost:
            self._lease = None
            for call in self._when_lost:
                call()
            raise
        return self._lease

    async def keep(self) -> None:
        """Renew until cancelled or lost; see :meth:`when_lost`."""
        while self._lease is not None:
            await asyncio.sleep(self._seconds / 3)
            try:
                self.ensure(self._seconds / 2)
            except LeaseLost:
                return
            except StoreError as error:  # busy for now; before a write it is renewed again
                log.warning("the lease of %s was not renewed: %s", self._session, error)

    def release(self) -> None:
        """Give the lease up, if it is still ours."""
        if self._lease is not None:
            self._store.leases.release(self._lease)
            self._lease = None


@asynccontextmanager
async def held(
    store: Store, session: str, owner: Owner, seconds: float
) -> AsyncIterator[LeaseKeeper]:
    """Hold a session's lease.

    Raises:
        SessionBusy: When another process holds it.
    """
    keeper = LeaseKeeper(store, session, owner, seconds)
    task = asyncio.create_task(keeper.keep())
    try:
        yield keeper
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        try:
            keeper.release()
        except StoreError as error:  # it ends by itself; what failed before says more
            log.warning("the lease of %s was not given back: %s", session, error)
