"""The SQLite file of a world, usable from many threads and processes at once.

Its errors say whether anything changed; a world puts them into its own words::

    Unusable              nothing was changed
    └── Locked            another connection kept the file locked; trying again may help
    CommitFailed          the change may or may not have been recorded
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path


class Unusable(Exception):
    """The file, its schema or a statement does not work; nothing was changed."""


class Locked(Unusable):
    """Another connection kept the file locked; the same may work when tried again."""


class CommitFailed(Exception):
    """The commit failed half way."""


class Database:
    """One database file, made at the first use and readable by its owner only.

    Schema and first rows come in one transaction, so that processes which start together
    neither clash nor see half of it. Every transaction has a connection of its own.

    Args:
        path: The file; its folder is made when missing.
        version: Of the schema, from 1; kept in the file. Another one is refused.
        create: Makes schema and first rows, inside a transaction.
        busy_timeout: Seconds to wait for another connection before ``Locked``.
    """

    def __init__(
        self,
        path: Path,
        version: int,
        create: Callable[[sqlite3.Connection], None],
        *,
        busy_timeout: float,
    ) -> None:
        self._path = path
        self._version = version
        self._create = create
        self._busy_timeout = busy_timeout
        self._prepared = False

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a read transaction, so that all its queries see one state.

        Raises:
            Unusable, Locked: As their names say, for what the body does with it too.
        """
        self._prepare()
        with _errors_as_ours(), closing(self._connect()) as db:
            db.execute("BEGIN")
            yield db

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a write transaction, committed at the end.

        Whatever fails before the commit leaves the file as it was: closing the connection
        rolls back. Only a commit that fails leaves the outcome open.

        Raises:
            Unusable, Locked: Nothing was changed.
            CommitFailed: It may have been.
        """
        self._prepare()
        with _errors_as_ours(), closing(self._connect()) as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            try:
                db.execute("COMMIT")
            except sqlite3.Error as error:
                if _is_locked(error):  # a lock is refused before anything is written
                    raise
                raise CommitFailed(str(error)) from error

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(
            f"{self._path.resolve().as_uri()}?mode=rw",  # a file that went is not made anew
            uri=True,
            timeout=self._busy_timeout,
            isolation_level=None,  # transactions are begun and ended by name
        )
        try:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA synchronous = FULL")  # a commit that was answered survives a crash
        except BaseException:
            db.close()
            raise
        return db

    def _prepare(self) -> None:
        """Create file, schema and first rows unless they are there."""
        if self._prepared:
            return
        self._make_file()
        with _errors_as_ours(), closing(self._connect()) as db:
            db.execute("BEGIN IMMEDIATE")
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if version == 0:
                if db.execute("SELECT name FROM sqlite_master").fetchone():
                    raise Unusable(f"{self._path} is the database of another program")
                self._create(db)
                db.execute(f"PRAGMA user_version = {self._version}")
            elif version != self._version:
                raise Unusable(
                    f"{self._path} has schema {version}, this program knows {self._version}"
                )
            db.execute("COMMIT")
            self._switch_to_wal(db)
        self._prepared = True

    def _make_file(self) -> None:
        """Make the file, and its folder.

        One that is there is left alone: closing a descriptor of it would drop the locks that
        other connections of this process hold.
        """
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
                os.close(os.open(self._path, flags, 0o600))
        except OSError as error:
            raise Unusable(f"{error.strerror}: {error.filename}") from error

    def _switch_to_wal(self, db: sqlite3.Connection) -> None:
        """Let readers and a writer work side by side; it is kept in the file.

        SQLite does not wait where two processes switch at once: the second one is refused.
        """
        give_up = time.monotonic() + self._busy_timeout
        while True:
            try:
                if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                    db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if not _is_locked(error) or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)


@contextmanager
def _errors_as_ours() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise (Locked if _is_locked(error) else Unusable)(str(error)) from error


def _is_locked(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)  # missing where the module itself complains
    return code is not None and code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
