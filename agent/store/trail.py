"""The trail: what mattered, one hash chain a session, in a form that can be checked.

::

    data_hash = sha256([salt, data])
    hash      = sha256([prev, seq, at, session, kind, data_hash])      prev of the first: ""

over canonical JSON. When a session is deleted, data and salts go and the hashes stay, so its
chain still holds. The head of each chain is kept in the session's row, so that a cut end is
noticed as well. Somebody who can write the database can of course write a whole new chain: that
takes ``heads()`` kept elsewhere, or signed, to notice.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Text, bindparam, select, type_coerce, union

from agent.errors import NotFound
from agent.store.database import Database
from agent.store.records import TrailEntry
from agent.store.schema import sessions, trail
from agent.store.statement import Row, Statement
from agent.store.writing import hash_of_data, hash_of_entry

_PAGE = 500
TOMBSTONE = "session.deleted"
_CHECKED = select(
    trail.c.seq,
    trail.c.at,
    trail.c.kind,
    type_coerce(trail.c.data, Text).label("data"),
    trail.c.salt,
    trail.c.data_hash,
    trail.c.prev,
    trail.c.hash,
)


@dataclass(frozen=True)
class Problem:
    """Something wrong with a chain: ``seq`` is the entry concerned, ``what`` says it in words."""

    session: str
    seq: int
    what: str


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

    def latest(self, count: int, session: str | None = None) -> list[TrailEntry]:
        """The last so many entries, in order as ``entries`` gives them."""
        query = _in_order(of_session=session is not None, backwards=True)
        values = _only_given(session=session)
        with self._db.read() as conn:
            rows = query.all(conn, after=0, limit=count, **values)
        return [_entry(row) for row in reversed(rows)]

    def export(self, session: str | None = None) -> Iterator[dict[str, Any]]:
        """Every entry as a dictionary, read in pages; with salts, so that others can verify."""
        after = 0
        while page := self.entries(session, after, _PAGE):
            for entry in page:
                yield entry.model_dump()
            after = page[-1].position if session is None else page[-1].seq

    def heads(self) -> list[tuple[str, int, str]]:
        """Session, number of entries and last hash of every chain, by session.

        Kept outside the database, or under a key, it shows later what was cut or rewritten.
        """
        query = select(sessions.c.id, sessions.c.trail_seq, sessions.c.trail_hash)
        with self._db.read() as conn:
            return [(*row,) for row in conn.execute(query.order_by(sessions.c.id))]

    def verify(self, session: str | None = None) -> list[Problem]:
        """What is changed, missing or out of place; an empty list when all chains hold.

        Raises:
            NotFound: There is no such session, not even a deleted one.
        """
        names = self._chains()
        if session is not None and session not in names:
            raise NotFound("session", session)
        chosen = names if session is None else [session]
        return [problem for name in chosen for problem in self._verify_chain(name)]

    def _chains(self) -> list[str]:
        names = union(select(sessions.c.id), select(trail.c.session))
        with self._db.read() as conn:
            return sorted(conn.scalars(names))

    def _verify_chain(self, session: str) -> list[Problem]:
        with self._db.snapshot() as conn:
            head = conn.execute(
                select(sessions.c.trail_seq, sessions.c.trail_hash).where(sessions.c.id == session)
            ).one_or_none()
            chain = _ChainCheck(session)
            query = _CHECKED.where(trail.c.session == session).order_by(trail.c.seq)
            for row in conn.execution_options(yield_per=_PAGE).execute(query):
                chain.look_at(row)
        return chain.close(head)


class _ChainCheck:
    """Walks one chain in order of ``seq`` and notes what does not fit."""

    def __init__(self, session: str) -> None:
        self.session = session
        self.problems: list[Problem] = []
        self.seq, self.hash = 0, ""
        self.erased: list[int] = []
        self.tombstone = 0

    def look_at(self, row: Any) -> None:
        if row.seq != self.seq + 1:
            self._missing(self.seq + 1, row.seq - 1)
        elif row.prev != self.hash:
            self._note(row.seq, "does not follow the entry before it: one of them was replaced")
        expected = hash_of_entry(row.prev, row.seq, row.at, self.session, row.kind, row.data_hash)
        if expected != row.hash:
            self._note(row.seq, "was changed, or moved from another place")
        elif row.kind == TOMBSTONE:
            self.tombstone = row.seq
        if row.data is None:
            self.erased.append(row.seq)
        elif not _data_fits(row):
            self._note(row.seq, "its data was changed")
        self.seq, self.hash = row.seq, row.hash

    def close(self, head: Any) -> list[Problem]:
        if head is None:
            if self.seq:
                self._note(0, "entries of a session that does not exist")
        elif self.seq < head.trail_seq:
            self._missing(self.seq + 1, head.trail_seq)
        elif self.seq != head.trail_seq or self.hash != head.trail_hash:
            self._note(self.seq, "is not the entry that the session names as its last")
        for seq in self.erased:
            if seq >= self.tombstone:
                self._note(seq, "its data was erased, and the session was not deleted after it")
        return sorted(self.problems, key=lambda problem: problem.seq)

    def _missing(self, first: int, last: int) -> None:
        self._note(first, "is missing" if first == last else f"to {last} are missing")

    def _note(self, seq: int, what: str) -> None:
        self.problems.append(Problem(self.session, seq, what))


def _only_given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _data_fits(row: Any) -> bool:
    return row.salt is not None and hash_of_data(row.salt, row.data) == str(row.data_hash)


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
    return TrailEntry(**row | {"data": row["data"] or {}, "erased": erased})
