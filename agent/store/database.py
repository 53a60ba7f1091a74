"""The connection: opening SQLite or PostgreSQL, and the transactions that everything uses.

Calls are synchronous and short. A small write takes a few tenths of a millisecond, and since it
never awaits, a cancelled task cannot leave it half done.

On SQLite a writing transaction begins with ``BEGIN IMMEDIATE``: it waits for the write lock at
its start, where waiting is safe. A transaction that starts by reading and then writes is refused
at once when somebody wrote in between. On PostgreSQL the row of the session is locked instead
(``Writing.lock``): in both, whoever writes about a session is alone with it.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError

from agent.errors import SchemaTooNew, StoreError, UsageError
from agent.store.ids import session_id, short_id
from agent.store.safeguards import Safeguards
from agent.store.schema import schema_version
from agent.store.writing import Writing

T = TypeVar("T")

HEAD = "0003"
"""The newest migration; a test compares it with the files."""

_BUSY_SECONDS = 10
_DRAWS = 8
_BEGIN = "sayso_begin"  # where a connection is told how its next SQLite transaction begins
_MIGRATION_LOCK = 0x5A_79_50  # any number that all processes agree on


class Database:
    """An engine, its schema brought up to date, and the two ways to use it.

    Args:
        url: ``sqlite:////absolute/path.db`` or ``postgresql://user:password@host/name``.
        home: The state folder, which holds the lock files of living processes. ``None`` means
            the folder of the SQLite file; on PostgreSQL then nobody can be proved dead.
        safeguards: What guards the trail.

    Raises:
        UsageError: The URL is not understood, or the PostgreSQL driver is not installed.
        StoreError: The database cannot be opened. ``SchemaTooNew`` when a newer program wrote it.
    """

    def __init__(
        self, url: str, home: Path | None = None, safeguards: Safeguards | None = None
    ) -> None:
        target = _parse(url)
        self.url = url
        self.safeguards = safeguards or Safeguards()
        self.is_sqlite = target.get_backend_name() == "sqlite"
        self.home = home
        if self.is_sqlite:
            path = Path(str(target.database)).absolute()
            _make_private_file(path)
            self.home = home or path.parent
            self.engine = create_engine(target, pool_use_lifo=True)
            event.listen(self.engine, "connect", _prepare_sqlite)
            # Not as an event of the engine: one such makes every statement look for all of them.
            self.engine.dialect.do_begin = _begin_sqlite  # type: ignore[method-assign, assignment]
        else:
            try:
                self.engine = create_engine(target, pool_use_lifo=True, pool_pre_ping=True)
            except ModuleNotFoundError as error:
                raise UsageError(
                    f"PostgreSQL needs a driver that is not installed ({error.name}). "
                    "Install it: pip install 'sayso[postgres]'"
                ) from error
        # On PostgreSQL a single statement needs no BEGIN and ROLLBACK around it.
        options = {} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
        self._reader = self.engine.execution_options(**options)
        self._kept: Connection | None = None
        self._alone = RLock()
        try:
            self._bring_up_to_date()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection for reading; each statement sees what is committed when it runs."""
        with self._explained("Nothing was changed."), self._connection(self._reader) as conn:
            yield conn

    @contextmanager
    def snapshot(self) -> Iterator[Connection]:
        """A connection for reading whose statements all see the same moment."""
        engine = self.engine
        if not self.is_sqlite:
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        with self._explained("Nothing was changed."), engine.connect() as conn, conn.begin():
            yield conn

    @contextmanager
    def write(self) -> Iterator[Writing]:
        """A writing transaction: committed at the end of the block, rolled back on any error.

        Raises:
            IntegrityError: A unique column had the value already; the caller draws another id.
            StoreError: The database failed; the text says whether anything can have changed.
        """
        with self._explained("Nothing was changed."), self._connection(self.engine) as conn:
            conn.connection.info[_BEGIN] = "BEGIN IMMEDIATE"
            try:
                conn.begin()
            finally:
                conn.connection.info.pop(_BEGIN, None)
            writing = Writing(conn, self.safeguards)
            yield writing
            writing.flush()
            with self._explained(
                "It is not known whether the last change was saved; look before you repeat it."
            ):
                self._commit(conn)

    def _commit(self, conn: Connection) -> None:
        """Commit. A connection whose commit failed is given up: what it holds is not known."""
        try:
            conn.commit()
        except BaseException:
            if conn is self._kept:
                self._kept = None
                conn.invalidate()
                conn.close()
            raise

    @contextmanager
    def _connection(self, engine: Engine) -> Iterator[Connection]:
        """A connection of its own on PostgreSQL; on SQLite the one that is kept, alone.

        There all calls of a process wait for each other anyway, and fetching a connection takes
        longer than what most of them do with it.
        """
        if not self.is_sqlite:
            with engine.connect() as conn:
                yield conn
            return
        with self._alone:
            if self._kept is None:
                self._kept = self.engine.connect()
            kept, nested = self._kept, self._kept.in_transaction()
            try:
                yield kept
            finally:
                if kept is self._kept and kept.in_transaction() and not nested:
                    kept.rollback()  # of reading alone, or it failed

    def truncate_log(self) -> None:
        """Copy SQLite's write-ahead log into the file and empty it, as far as readers allow."""
        if self.is_sqlite:
            with self._explained("The change before it is saved."), self.engine.connect() as conn:
                driver = _driver(conn)  # not within a transaction
                driver.execute("PRAGMA busy_timeout=500")
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
                driver.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")

    def close(self) -> None:
        """Close the connections."""
        with self._alone:
            if self._kept is not None:
                self._kept.close()
                self._kept = None
        self.engine.dispose()

    def _bring_up_to_date(self) -> None:
        try:
            with self._reader.connect() as conn:
                found = conn.scalar(select(schema_version.c.version_num))
        except DBAPIError:  # a new database has no such table; any other reason comes up below
            found = None
        if found == HEAD:
            return
        with self.write() as writing:
            conn = writing.conn
            if not self.is_sqlite:
                conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})
            exists = inspect(conn).has_table(schema_version.name)
            found = conn.scalar(select(schema_version.c.version_num)) if exists else None
            if found is not None and found > HEAD:
                raise SchemaTooNew(found, HEAD)
            if found != HEAD:
                from agent.store.migrations import migrate

                migrate(conn)

    @contextmanager
    def _explained(self, consequence: str) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except (DBAPIError, sqlite3.Error) as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            raise StoreError(
                f"The database {self._name()} failed: {cause}. {consequence}"
            ) from error

    def _name(self) -> str:
        return self.engine.url.render_as_string(hide_password=True)


def with_fresh_id(kind: str, insert_as: Callable[[str], T]) -> T:
    """Call ``insert_as`` with a drawn id, again with another one when that id was taken."""
    for _ in range(_DRAWS):
        try:
            return insert_as(session_id() if kind == "s" else short_id(kind))
        except IntegrityError:
            continue
    raise StoreError(f"No free id could be drawn in {_DRAWS} tries. Nothing was changed.")


def _driver(conn: Connection) -> sqlite3.Connection:
    connection: sqlite3.Connection = conn.connection.dbapi_connection  # type: ignore[assignment]
    return connection


def _parse(url: str) -> URL:
    try:
        target = make_url(url)
        backend = target.get_backend_name()
    except ArgumentError as error:
        raise UsageError(f"The database URL cannot be read: {error}") from error
    if backend in ("postgresql", "postgres"):
        return target.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise UsageError(
            f"The database URL begins with {target.drivername!r}; it can be sqlite:////path or "
            "postgresql://host/name."
        )
    if not target.database or target.database == ":memory:":
        raise UsageError("A SQLite URL must name a file, such as sqlite:////home/ann/sayso.db")
    return target


def _make_private_file(path: Path) -> None:
    """Make folder (0700) and file (0600) when missing; SQLite's side files take the file's mode."""
    try:
        if not path.parent.is_dir():
            path.parent.parent.mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(mode=0o700, exist_ok=True)
        # Only a new file is opened: closing any descriptor of a database that this process has
        # open would drop all its locks, and another process could remove the log under it.
        with suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(path, flags, 0o600))
        for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            _close_to_others(name)
    except OSError as error:
        raise StoreError(f"The database {path} cannot be opened: {error.strerror}.") from error


def _close_to_others(path: Path) -> None:
    with suppress(FileNotFoundError):  # a side file may not be there, or just have been removed
        found = path.stat()
        if found.st_mode & 0o077 and found.st_uid == os.geteuid():
            path.chmod(0o600)


def _begin_sqlite(connection: Any) -> None:
    connection.execute(connection.info.pop(_BEGIN, "BEGIN"))


def _prepare_sqlite(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where we say so
    connection.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1000}")
    _switch_to_wal(connection)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA secure_delete=ON")  # what is deleted leaves the file too


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Kept in the file once set. Two processes that set it at once do not wait for each other."""
    give_up = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() > give_up:
                raise
            time.sleep(0.01)
