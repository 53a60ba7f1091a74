"""One writing transaction: the lock on a session, and the trail entries that belong to it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, NamedTuple

from sqlalchemy import Connection, Text, bindparam, insert, select, update

from agent.canonical import canonical_json
from agent.errors import LeaseLost, NotFound, StoreError
from agent.store.ids import now
from agent.store.records import EffectRecord
from agent.store.safeguards import Safeguards
from agent.store.schema import clock, effects, sessions, trail
from agent.store.statement import Statement
from agent.types import Actor

_LOCK = Statement(
    select(
        sessions.c.state,
        sessions.c.deleted_at,
        sessions.c.deleted_by,
        sessions.c.trail_seq,
        sessions.c.trail_hash,
        sessions.c.trail_seal,
        sessions.c.lease_owner,
        sessions.c.lease_epoch,
        sessions.c.lease_expires_at,
        clock().label("clock"),
    )
    .where(sessions.c.id == bindparam("session"))
    .with_for_update(key_share=True)
)
_LOCK_OF_EFFECT = Statement(
    select(effects, sessions.c.trail_seq, sessions.c.trail_hash, sessions.c.trail_seal)
    .join(sessions, sessions.c.id == effects.c.session)
    .where(effects.c.id == bindparam("effect"))
    .with_for_update(key_share=True, of=sessions)
)
# The data is serialised once, for its hash, and stored as that text.
_APPEND = Statement(insert(trail).inline().values(data=bindparam("data", type_=Text)))
_CHANGE = Statement(update(sessions).where(sessions.c.id == bindparam("key")))


class Guard(NamedTuple):
    """What a writer knows about a session once it is alone with it. ``clock``: seconds, now."""

    state: str
    deleted_at: str | None
    deleted_by: str | None
    trail_seq: int
    trail_hash: str
    trail_seal: str | None
    lease_owner: str
    lease_epoch: int
    lease_expires_at: float
    clock: float


@dataclass
class _Head:
    """The end of a chain. ``seal`` is that of the end as it was found; ``None``: not sealed."""

    seq: int
    hash: str
    seal: str | None
    grown: bool = False


class Writing:
    """The connection of a transaction, and what it will add to the trails when it commits."""

    def __init__(self, conn: Connection, safeguards: Safeguards) -> None:
        self.conn = conn
        self._safeguards = safeguards
        self._heads: dict[str, _Head] = {}
        self._entries: list[dict[str, Any]] = []
        self._changes: dict[str, dict[str, Any]] = {}

    def lock(self, session: str, *, deleted: bool = False, epoch: int | None = None) -> Guard:
        """Be the only writer of this session until the transaction ends.

        Whoever needs several sessions locks them in the order of their ids.

        Args:
            deleted: A deleted session will do.
            epoch: Of the lease that the caller holds; without one, no lease is asked for.

        Raises:
            NotFound: There is no such session, or it was deleted (when and by whom is said).
            LeaseLost: The lease has another epoch.
            StoreError: The row of the session is damaged.
        """
        row = _LOCK.one(self.conn, session=session)
        if row is None:
            raise NotFound("session", session, hint="List them: sayso sessions")
        guard = Guard(**row)
        _check_types(session, guard)
        if guard.deleted_at is not None and not deleted:
            raise deleted_session(session, guard.deleted_at, guard.deleted_by)
        if epoch is not None and guard.lease_epoch != epoch:
            raise LeaseLost(session)
        head = _Head(guard.trail_seq, guard.trail_hash, guard.trail_seal)
        self._heads.setdefault(session, head)
        return guard

    def begin_chain(self, session: str) -> None:
        """Be ready to record about a session that this transaction has just inserted.

        Only such a chain is sealed from its first entry: one that lost its seal, or all its
        entries, does not get a new seal by growing.
        """
        key = self._safeguards.key
        self._heads[session] = _Head(0, "", key.seal(session, 0, "") if key else None)

    def lock_effect(self, effect: str) -> EffectRecord:
        """Lock the session of an effect, and return the effect as it stood before the lock.

        On PostgreSQL another writer may have changed it while this one waited: what it is called
        by holds, its state has to be looked at again.

        Raises:
            NotFound: There is no such effect.
        """
        values = _LOCK_OF_EFFECT.one(self.conn, effect=effect)
        if values is None:
            raise NotFound("effect", effect, hint="List them: sayso effects")
        head = _Head(*(values.pop(name) for name in ("trail_seq", "trail_hash", "trail_seal")))
        self._heads.setdefault(values["session"], head)
        return EffectRecord(**values)

    def record(
        self, session: str, kind: str, data: dict[str, Any], *, about: Sequence[Any] = ()
    ) -> None:
        """Add an entry to the trail of a locked session; secrets in its data are masked.

        Args:
            about: What the entry speaks of and does not hold, such as the arguments of its call:
                the secrets that are named there are masked in the entry.

        Raises:
            StoreError: The chain is sealed, and not with the key of this process.
        """
        head = self._heads[session]
        if not head.grown:
            self._safeguards.check_seal(session, head.seq, head.hash, head.seal)
        text = self._safeguards.masks.json(data, about)
        entry = _chain_entry(session, kind, text, head.seq + 1, head.hash)
        head.seq, head.hash, head.grown = entry["seq"], entry["hash"], True
        self._entries.append(entry)
        self.change(session, {"trail_seq": head.seq, "trail_hash": head.hash})

    def change(self, session: str, values: dict[str, Any]) -> None:
        """Set columns of a locked session's row, together with what else changes there."""
        self._changes.setdefault(session, {}).update(values)

    def flush(self) -> None:
        """Send entries and changes of sessions; ``Database.write`` does so before it commits."""
        for entry in self._entries:
            _APPEND.run(self.conn, entry)
        self._entries.clear()
        for session, values in self._changes.items():
            _CHANGE.run(self.conn, values | self._seal(session) | {"key": session})
        self._changes.clear()

    def _seal(self, session: str) -> dict[str, str]:
        """The column of the new seal, where a sealed chain has grown."""
        head, key = self._heads[session], self._safeguards.key
        if key is None or head.seal is None or not head.grown:
            return {}
        return {"trail_seal": key.seal(session, head.seq, head.hash)}


_TYPES: dict[str, type | tuple[type, ...]] = {
    "trail_seq": int,
    "trail_hash": str,
    "lease_owner": str,
    "lease_epoch": int,
    "lease_expires_at": (int, float),
}


def _check_types(session: str, guard: Guard) -> None:
    """Refuse to write about a session whose row holds what this program never writes there."""
    for name, kind in _TYPES.items():
        if not isinstance(value := getattr(guard, name), kind):
            raise StoreError(
                f"The row of session {session} is damaged: its {name} is {value!r}. Nothing was "
                f"changed. What is wrong with its trail is named by: sayso trail verify {session}"
            )


def deleted_session(session: str, at: str, by: str | None) -> NotFound:
    """The error for a session of which only the tombstone is left."""
    return NotFound("session", session, hint=f"It was deleted at {at} by {by}.")


def actor_data(actor: Actor) -> dict[str, Any]:
    """Who is said to have acted, as the trail and evidence keep it."""
    return {"name": actor.name, "uid": actor.uid, "host": actor.host, "via": actor.via}


def _chain_entry(session: str, kind: str, data: str, seq: int, prev: str) -> dict[str, Any]:
    at, salt = now(), token_hex(16)
    data_hash = hash_of_data(salt, data)
    return {
        "session": session,
        "seq": seq,
        "at": at,
        "kind": kind,
        "data": data,
        "salt": salt,
        "data_hash": data_hash,
        "prev": prev,
        "hash": hash_of_entry(prev, seq, at, session, kind, data_hash),
    }


def hash_of_data(salt: str, data: str) -> str:
    """SHA-256 (hex) of the canonical JSON of ``[salt, data]``; ``data`` is canonical JSON already.

    The salt keeps erased data from being guessed back.
    """
    return _sha256(f"[{canonical_json(salt)},{data}]")


def hash_of_entry(prev: str, seq: int, at: str, session: str, kind: str, data_hash: str) -> str:
    """SHA-256 (hex) of an entry: it binds the content's hash, the place and the one before."""
    return _sha256(canonical_json([prev, seq, at, session, kind, data_hash]))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
