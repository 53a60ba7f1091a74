"""The world that crash runs write to: one SQLite file a run. Standard library only.

``record`` has a row for each effect, whoever made it; nothing else counts as having happened.
``faults`` says how the next writes go wrong, one row each; see ``FAULTS``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_BUSY_SECONDS = 30

_SCHEMA = """
CREATE TABLE record (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    op TEXT NOT NULL, n INTEGER NOT NULL, key TEXT NOT NULL, attempt INTEGER NOT NULL);
CREATE TABLE faults (number INTEGER PRIMARY KEY AUTOINCREMENT, fault TEXT NOT NULL);
CREATE TABLE notes (number INTEGER PRIMARY KEY AUTOINCREMENT, note TEXT NOT NULL);
"""

KILLS = ("killed before the effect", "killed, then the effect", "killed after the effect")
"""Who asked for the write is killed then, by whoever carries it out; the first has no effect."""

ANSWERS = (
    "answers too late",
    "takes effect too late",
    "drops it before the effect",
    "drops it after the effect",
    "fails before the effect",
    "fails after the effect",
    "answers twice",
    "answers for another call",
    "refuses a reused key",
)
"""How an unreliable service takes a write; the first two only once its client has given up."""

LATE = ANSWERS[:2]
WITHOUT_EFFECT = (KILLS[0], "drops it before the effect", "fails before the effect")
ALREADY_GONE = (KILLS[1], "takes effect too late")


class KeyReused(Exception):
    """The key was used before, for other arguments, or the service tells no more than that."""


@dataclass(frozen=True)
class Effect:
    """A row of the record: ``n`` was added or dropped, under this key, by this attempt."""

    number: int
    op: str
    n: int
    key: str
    attempt: int

    @property
    def transaction(self) -> str:
        return f"W{1000 + self.number}"

    def as_json(self) -> dict[str, Any]:
        return {"op": self.op, "n": self.n, "transaction": self.transaction}


class World:
    """The record, and how it is written to.

    Args:
        path: The file; it is made at the first use.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        if not self.path.exists():
            with self._changing() as db:
                if not db.execute("SELECT * FROM sqlite_schema").fetchone():
                    for statement in _SCHEMA.split(";"):
                        db.execute(statement)

    def add_faults(self, faults: Sequence[str]) -> None:
        """Let the next writes go wrong in these ways, one each; an empty text is none."""
        with self._changing() as db:
            db.executemany("INSERT INTO faults (fault) VALUES (?)", [(f,) for f in faults])

    def next_fault(self) -> str:
        """How this write goes wrong; it is told once."""
        with self._changing() as db:
            row = db.execute(
                "DELETE FROM faults WHERE number = (SELECT min(number) FROM faults) RETURNING fault"
            ).fetchone()
        return row[0] if row else ""

    def write(self, op: str, n: int, key: str, attempt: int, *, honours: bool) -> Effect:
        """Make an effect, in one transaction with its record.

        Args:
            honours: Whether a key that was used before gives the effect that it made.

        Raises:
            KeyReused: It is honoured, and made another effect.
        """
        with self._changing() as db:
            known = _rows(db, "WHERE key = ?", key) if honours else []
            if known and (known[0].op, known[0].n) != (op, n):
                raise KeyReused(key)
            if known:
                return known[0]
            db.execute(
                "INSERT INTO record (op, n, key, attempt) VALUES (?, ?, ?, ?)",
                (op, n, key, attempt),
            )
            return _rows(db, "WHERE number = last_insert_rowid()")[0]

    def effects(self) -> list[Effect]:
        """Everything that happened, in order."""
        with self._reading() as db:
            return _rows(db)

    def under(self, key: str) -> Effect | None:
        """What was done under a key."""
        with self._reading() as db:
            return next(iter(_rows(db, "WHERE key = ?", key)), None)

    def done(self, op: str, n: int) -> Effect | None:
        """The latest effect of this content, whoever asked for it."""
        with self._reading() as db:
            return next(iter(_rows(db, "WHERE op = ? AND n = ? ORDER BY number DESC", op, n)), None)

    def note(self, note: str) -> None:
        """Keep a note that is no effect: somebody else's change, what a test has to remember."""
        with self._changing() as db:
            db.execute("INSERT INTO notes (note) VALUES (?)", (note,))

    def notes(self, note: str) -> int:
        """How often this was noted."""
        with self._reading() as db:
            query = "SELECT count(*) FROM notes WHERE note = ?"
            return int(db.execute(query, (note,)).fetchone()[0])

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_BUSY_SECONDS)) as db:
            yield db

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db:
            db.isolation_level = None
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")


def _rows(db: sqlite3.Connection, where: str = "", *values: object) -> list[Effect]:
    query = f"SELECT number, op, n, key, attempt FROM record {where}"
    return [Effect(*row) for row in db.execute(query, values)]
