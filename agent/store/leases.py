"""Leases: which process drives a session, until when.

A lease is taken over after it expired, or at once when its owner is provably dead, and then with
the next epoch. It fences what a stale owner would still record; it cannot call back an effect
outside. Times are seconds since 1970 by the clock of the database.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import select, update

from agent.errors import LeaseLost, SessionBusy
from agent.store.database import Database
from agent.store.owner import Owner, provably_dead
from agent.store.records import LeaseRecord
from agent.store.schema import clock, sessions
from agent.store.writing import Guard, Writing

FREE = {"lease_owner": "", "lease_expires_at": 0.0}
"""The columns of a lease that nobody holds; its epoch stays, so that it only ever grows."""

_LEASE = select(
    sessions.c.lease_owner, sessions.c.lease_epoch, sessions.c.lease_expires_at, clock()
)


class Leases:
    """Acquire, renew, release."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def acquire(self, session: str, owner: Owner, ttl: float) -> LeaseRecord:
        """Take the lease for ``ttl`` seconds; an owner that has it already keeps its epoch.

        Raises:
            SessionBusy: A living other process holds it.
            NotFound: There is no such session.
        """
        with self._db.write() as writing:
            guard = writing.lock(session)
            if guard.lease_owner == owner.text:
                return _set(writing, session, owner.text, guard.lease_epoch, guard.clock + ttl)
            if in_force(guard, self._db.home):
                raise SessionBusy(session, guard.lease_owner)
            epoch = guard.lease_epoch + 1
            if guard.lease_owner:
                taken = {"from": guard.lease_owner, "by": owner.text, "epoch": epoch}
                writing.record(session, "lease.taken_over", taken)
            return _set(writing, session, owner.text, epoch, guard.clock + ttl)

    def renew(self, lease: LeaseRecord, ttl: float) -> LeaseRecord:
        """The same lease for ``ttl`` seconds from now, even when it ran out unnoticed.

        Raises:
            LeaseLost: Another owner has taken over, or it was released.
        """
        with self._db.write() as writing:
            guard = writing.lock(lease.session, deleted=True)
            if (guard.lease_owner, guard.lease_epoch) != (lease.owner, lease.epoch):
                raise LeaseLost(lease.session)
            return _set(writing, lease.session, lease.owner, lease.epoch, guard.clock + ttl)

    def release(self, lease: LeaseRecord) -> None:
        """Give the lease back; nothing happens when it is not held any more."""
        ours = (
            sessions.c.id == lease.session,
            sessions.c.lease_owner == lease.owner,
            sessions.c.lease_epoch == lease.epoch,
        )
        with self._db.write() as writing:
            writing.conn.execute(update(sessions).where(*ours).values(FREE))

    def holder(self, session: str) -> LeaseRecord | None:
        """The lease in force, if there is one."""
        with self._db.read() as conn:
            row = conn.execute(_LEASE.where(sessions.c.id == session)).one_or_none()
        if row is None:
            return None
        lease = LeaseRecord(session=session, owner=row[0], epoch=row[1], expires_at=row[2])
        return lease if owner_lives(lease.owner, lease.expires_at, row[3], self._db.home) else None


def owner_lives(owner: str, expires_at: float, clock: float, home: Path | None) -> bool:
    """Whether a lease is in force: held, not expired, and its owner not provably dead."""
    return bool(owner) and clock < expires_at and not provably_dead(owner, home)


def in_force(guard: Guard, home: Path | None) -> bool:
    """``owner_lives`` for a locked session."""
    return owner_lives(guard.lease_owner, guard.lease_expires_at, guard.clock, home)


def _set(writing: Writing, session: str, owner: str, epoch: int, expires_at: float) -> LeaseRecord:
    values = {"lease_owner": owner, "lease_epoch": epoch, "lease_expires_at": expires_at}
    writing.change(session, values)
    return LeaseRecord(session=session, owner=owner, epoch=epoch, expires_at=expires_at)
