"""The trail: what mattered, one hash chain a session, in a form that can be checked.

::

    data_hash = sha256([salt, data])
    hash      = sha256([prev, seq, at, session, kind, data_hash])      prev of the first: ""

    seal      = hmac(key, [session, seq, hash])                        of the last entry

over canonical JSON. When a session is deleted, data and salts go and the hashes stay, so its
chain still holds. The end of each chain is kept in the session's row, so that a cut end is
noticed as well. Somebody who can write the database can of course write a whole new chain, and
its end. A seal in the row, which takes a key, shows that; and so does a ``Head`` kept elsewhere,
which also shows a session, or a whole database, that was put back to what it was.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Connection, Text, bindparam, select, type_coerce, union
from sqlalchemy.sql.functions import count

from agent.errors import NotFound, StoreError, UsageError
from agent.store.database import Database
from agent.store.heads import End, Head
from agent.store.leases import in_force
from agent.store.records import TrailEntry
from agent.store.safeguards import TrailKey
from agent.store.schema import sessions, trail
from agent.store.statement import Row, Statement
from agent.store.writing import Writing, hash_of_data, hash_of_entry

_PAGE = 500
TOMBSTONE = "session.deleted"
_CHECKED = select(
    trail.c.position,
    trail.c.seq,
    trail.c.at,
    trail.c.kind,
    type_coerce(trail.c.data, Text).label("data"),
    trail.c.salt,
    trail.c.data_hash,
    trail.c.prev,
    trail.c.hash,
).execution_options(yield_per=_PAGE)
_END = select(sessions.c.trail_seq, sessions.c.trail_hash, sessions.c.trail_seal)
_ROW = _END.add_columns(sessions.c.deleted_at, sessions.c.deleted_by)


@dataclass(frozen=True)
class Problem:
    """Something wrong with a chain: ``seq`` is the entry concerned, ``what`` says it in words."""

    session: str
    seq: int
    what: str


@dataclass
class Sealing:
    """What came of sealing: sessions sealed now, and before; open elsewhere; what is wrong."""

    sealed: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class Trail:
    """Append, read and check. The other parts of the store append within their own changes."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def append(
        self,
        session: str,
        entries: Iterable[tuple[str, dict[str, Any]]],
        *,
        epoch: int | None = None,
    ) -> None:
        """Add several entries, all or none.

        Raises:
            NotFound: There is no such session, or it was deleted.
            LeaseLost: The lease no longer has this ``epoch``.
        """
        with self._db.write() as writing:
            writing.lock(session, epoch=epoch)
            for kind, data in entries:
                writing.record(session, kind, data)

    def check_key(self, session: str) -> None:
        """Make sure that this process may append, before it does anything else for a session.

        Raises:
            StoreError: The chain is sealed, and not with the key of this process.
        """
        with self._db.read() as conn:
            end = conn.execute(_END.where(sessions.c.id == session)).one_or_none()
        if end is not None:
            self._db.safeguards.check_seal(session, *end)

    def entries(
        self,
        session: str | None = None,
        after: int = 0,
        limit: int | None = None,
        kind: str | None = None,
    ) -> list[TrailEntry]:
        """Entries in order: of one session by ``seq``, or of all by ``position``.

        ``after`` is the last ``seq`` (of one session) or ``position`` (of all) already seen.
        """
        query = _in_order(of_session=session is not None, of_kind=kind is not None)
        values = _only_given(session=session, kind=kind)
        most = sys.maxsize if limit is None else limit
        with self._db.read() as conn:
            return [_entry(row) for row in query.all(conn, after=after, limit=most, **values)]

    def latest(
        self, count: int, session: str | None = None, kind: str | None = None
    ) -> list[TrailEntry]:
        """The last so many entries, in order as ``entries`` gives them."""
        query = _in_order(of_session=session is not None, of_kind=kind is not None, backwards=True)
        values = _only_given(session=session, kind=kind)
        with self._db.read() as conn:
            rows = query.all(conn, after=0, limit=count, **values)
        return [_entry(row) for row in reversed(rows)]

    def back_to(self, session: str, found: Callable[[TrailEntry], bool]) -> list[TrailEntry]:
        """The last entries of a session, from the last one on of which this holds; all of them
        where it holds of none. Few are read where it is near the end."""
        for most in (8, 100, 2_000, sys.maxsize):
            entries = self.latest(most, session)
            for place in reversed(range(len(entries))):
                if found(entries[place]):
                    return entries[place:]
            if len(entries) < most:
                return entries
        raise AssertionError("no trail has so many entries")

    def export(self, session: str | None = None) -> Iterator[dict[str, Any]]:
        """Every entry as a dictionary, read in pages; with salts, so that others can verify."""
        after = 0
        while page := self.entries(session, after, _PAGE):
            for entry in page:
                yield entry.model_dump()
            after = page[-1].position if session is None else page[-1].seq

    def heads(self) -> list[tuple[str, int, str]]:
        """Session, number of entries and last hash of every chain, by session.

        In a damaged database they may be of other types.
        """
        query = select(sessions.c.id, sessions.c.trail_seq, sessions.c.trail_hash)
        with self._db.read() as conn, _any_text(conn):
            return [(*row,) for row in conn.execute(query.order_by(sessions.c.id))]

    def length(self, session: str | None = None) -> int:
        """How many entries there are, of one session or of all, whatever the sessions say."""
        query = select(count()).select_from(trail)
        if session is not None:
            query = query.where(trail.c.session == session)
        with self._db.read() as conn:
            return conn.scalar(query) or 0 if _can_be_asked(session) else 0

    def head(self) -> Head:
        """The ends of all chains: kept outside, it shows later what was cut or rewritten."""
        return Head(self.heads())

    def sealed(self) -> int:
        """How many sessions have a seal, whoever made it."""
        with self._db.read() as conn:
            return conn.scalar(select(count(sessions.c.trail_seal))) or 0

    def verify(self, session: str | None = None, head: Head | None = None) -> list[Problem]:
        """What is changed, missing or out of place; an empty list when all chains hold.

        Args:
            head: Each chain must still hold the end that this names for it.

        Raises:
            NotFound: There is no such session, not even a deleted one or in the head.
        """
        ends = head.ends if head else {}
        names = sorted({*self._chains(), *ends})
        if session is not None and session not in names:
            raise NotFound("session", session)
        chosen = names if session is None else [session]
        found = []
        for name in chosen:
            with self._db.snapshot() as conn:
                found += _check(conn, name, self._db.safeguards.key, ends.get(name))
        return found

    def seal(self) -> Sealing:
        """Verify every chain, and seal those that have no seal: its maker vouches for them.

        What the key before this one sealed is verified under that key, and sealed anew.

        A chain with a problem is not sealed. Nor is one that a living process works on: that
        process may have another key or none, and could not record what comes of its write.

        Raises:
            UsageError: This process has no key.
        """
        key = self._db.safeguards.key
        if key is None:
            raise UsageError("SAYSO_TRAIL_KEY is not set, so there is no key to seal with.")
        result = Sealing()
        for session in self._chains():
            with self._db.snapshot() as conn:
                problems = _check(conn, session, None, None)
            try:
                if not problems:
                    with self._db.write() as writing:
                        self._seal(writing, session, key, result)
            except StoreError as error:  # its row is damaged beside the chain
                problems.append(Problem(session, 0, f"is not sealed: {error}"))
            result.problems.extend(problems)
        return result

    def _seal(self, writing: Writing, session: str, key: TrailKey, result: Sealing) -> None:
        guard = writing.lock(session, deleted=True)
        end = (session, guard.trail_seq, guard.trail_hash)
        maker = self._maker(guard.trail_seal, end, key) if guard.trail_seal else None
        problems = _check(writing.conn, session, maker, None)
        if problems:
            result.problems.extend(problems)
        elif maker is key:
            result.before.append(session)
        elif in_force(guard, self._db.home):
            result.busy.append(session)
        else:
            writing.change(session, {"trail_seal": key.seal(*end)})
            result.sealed.append(session)

    def _maker(self, seal: str, end: tuple[str, int, str], key: TrailKey) -> TrailKey:
        """Which key a seal is held against: the one before, where it made it, else this one."""
        before = self._db.safeguards.key_before
        by_before = before and before.made(seal, *end) and not key.made(seal, *end)
        return before if before and by_before else key

    def _chains(self) -> list[str]:
        names = union(select(sessions.c.id), select(trail.c.session))
        with self._db.read() as conn, _any_text(conn):
            return sorted({str(name) for name in conn.scalars(names)})


def _check(conn: Connection, session: str, key: TrailKey | None, kept: End | None) -> list[Problem]:
    """What is wrong with one chain, its seal, and the end that was kept of it elsewhere."""
    if not _can_be_asked(session):
        return [Problem(session, 0, "is not the id of a session: it is no text")]
    chain = _ChainCheck(session, kept)
    with _any_text(conn):
        end = conn.execute(_ROW.where(sessions.c.id == session)).one_or_none()
        for row in conn.execute(_CHECKED.where(trail.c.session == session).order_by(trail.c.seq)):
            chain.look_at(row)
    return chain.close(end, key)


class _ChainCheck:
    """Walks one chain in order of ``seq`` and notes what does not fit; ``kept``: see ``_check``."""

    def __init__(self, session: str, kept: End | None) -> None:
        self.session = session
        self.kept = kept
        self.found_kept = False
        self.problems: list[Problem] = []
        self.seq, self.hash = 0, ""
        self.position = 0
        self.erased: list[int] = []
        self.tombstone = 0

    def look_at(self, row: Any) -> None:
        if not _is_plain(row):
            self._note(self.seq + 1, "is missing: what stands there is no entry")
            return
        if row.seq <= self.seq:
            twice = row.seq == self.seq and row.seq > 0
            self._note(row.seq, "is there twice" if twice else "stands before the first entry")
            return
        if row.seq != self.seq + 1:
            self._missing(self.seq + 1, row.seq - 1)
        elif row.prev != self.hash:
            self._note(row.seq, "does not follow the entry before it: one of them was replaced")
        if row.position <= self.position:
            self._note(row.seq, "does not stand behind the entry before it: they were reordered")
        expected = hash_of_entry(row.prev, row.seq, row.at, self.session, row.kind, row.data_hash)
        if expected != row.hash:
            self._note(row.seq, "was changed, or moved from another place")
        elif row.kind == TOMBSTONE:
            self.tombstone = row.seq
        if row.data is None:
            self.erased.append(row.seq)
        elif not _data_fits(row):
            self._note(row.seq, "its data was changed")
        if self.kept and row.seq == self.kept.seq:
            self.found_kept = True
            if row.hash != self.kept.hash:
                self._note(row.seq, "is not the entry that the head names")
        self.seq, self.hash, self.position = row.seq, row.hash, row.position

    def close(self, end: Any, key: TrailKey | None) -> list[Problem]:
        if end is None:
            if self.seq or not self.kept:
                self._note(0, "entries of a session that does not exist")
        else:
            self._check_end(end, key)
            self._check_deletion(end)
        if self.kept and not self.found_kept:
            gone = "it is not there" if self.seq or end else "its session is not there"
            self._note(self.kept.seq, f"is named by the head, and {gone}")
        for seq in self.erased:
            if seq >= self.tombstone:
                self._note(seq, "its data was erased, and the session was not deleted after it")
        return sorted(self.problems, key=lambda problem: problem.seq)

    def _check_end(self, end: Any, key: TrailKey | None) -> None:
        if not (isinstance(end.trail_seq, int) and isinstance(end.trail_hash, str)):
            self._note(0, "the session does not say which entry is its last")
            return
        if self.seq < max(end.trail_seq, 1):
            self._missing(self.seq + 1, max(end.trail_seq, 1))
        elif self.seq != end.trail_seq or self.hash != end.trail_hash:
            self._note(self.seq, "is not the entry that the session names as its last")
        if key:
            self._check_seal(end, key)

    def _check_deletion(self, end: Any) -> None:
        is_marked = end.deleted_at is not None or end.deleted_by is not None
        if is_marked and not self.tombstone:
            self._note(self.seq, "the session is marked as deleted, and no entry says so")
        if self.tombstone and not is_marked:
            self._note(self.tombstone, "the session was deleted, and is not marked so any more")

    def _check_seal(self, end: Any, key: TrailKey) -> None:
        if end.trail_seal is None:
            why = "begun without the key (then: sayso trail seal), or its seal was taken away"
            self._note(end.trail_seq, f"is not sealed: {why}")
        elif not (
            str(end.trail_seal).isascii()
            and key.made(end.trail_seal, self.session, end.trail_seq, end.trail_hash)
        ):
            self._note(end.trail_seq, "was sealed with another key, or changed after it was sealed")

    def _missing(self, first: int, last: int) -> None:
        self._note(first, "is missing" if first == last else f"to {last} are missing")

    def _note(self, seq: int, what: str) -> None:
        self.problems.append(Problem(self.session, seq, what))


@contextmanager
def _any_text(conn: Connection) -> Iterator[None]:
    """Meanwhile SQLite also gives out text that is no UTF-8, as Python's file names have it.

    Else one damaged value would keep all others from being read.
    """
    driver = conn.connection.dbapi_connection
    if not isinstance(driver, sqlite3.Connection):
        yield
        return
    before = driver.text_factory
    driver.text_factory = lambda data: data.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        driver.text_factory = before


def _can_be_asked(session: str | None) -> bool:
    """Whether the database can be asked about this id, which it may itself have named."""
    try:
        (session or "").encode()
    except UnicodeEncodeError:  # it is no UTF-8 there
        return False
    return True


def _only_given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _is_plain(row: Any) -> bool:
    """Whether a row has the types that the program writes; SQLite takes any."""
    numbers = (row.position, row.seq)
    texts = (row.at, row.kind, row.data_hash, row.prev, row.hash)
    return all(isinstance(number, int) for number in numbers) and all(
        isinstance(text, str) for text in texts
    )


def _data_fits(row: Any) -> bool:
    """Whether the data is what the entry's hash is about; as it is written, it is ASCII."""
    if not (isinstance(row.salt, str) and isinstance(row.data, str) and row.data.isascii()):
        return False
    return bool(hash_of_data(row.salt, row.data) == row.data_hash)


@cache
def _in_order(*, of_session: bool, of_kind: bool = False, backwards: bool = False) -> Statement:
    number = trail.c.seq if of_session else trail.c.position
    query = select(trail).where(number > bindparam("after"))
    if of_session:
        query = query.where(trail.c.session == bindparam("session"))
    if of_kind:
        query = query.where(trail.c.kind == bindparam("kind"))
    ordered = query.order_by(number.desc() if backwards else number)
    return Statement(ordered.limit(bindparam("limit")))


def _entry(row: Row) -> TrailEntry:
    erased = row["data"] is None
    return TrailEntry(**row | {"data": {} if erased else row["data"], "erased": erased})
