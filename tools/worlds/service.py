"""What the sample services share: their errors, and a book in which each request counts once.

Whether a service is in this process or behind HTTP, its errors say what became of a request::

    ServiceError              nothing was changed
    ├── NotFound              there is no such record; names near ones
    ├── Refused               the record's state, or a rule, does not permit it
    ├── KeyReused             the idempotency key belongs to another request
    └── Busy                  not now; the same request may work when tried again
    Unconfirmed               it may have happened: ask the record
"""

from __future__ import annotations

import json
import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.worlds.database import CommitFailed, Database, Locked, Unusable

MAX_PAGE_SIZE = 50

_TRANSACTIONS = """CREATE TABLE transactions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    operation TEXT NOT NULL,
    subject TEXT NOT NULL,
    request TEXT NOT NULL,
    result TEXT NOT NULL,
    at TEXT NOT NULL) STRICT"""


class ServiceError(Exception):
    """A request that changed nothing; the text says why and what may be done instead."""


class NotFound(ServiceError):
    """There is no such record."""


class Refused(ServiceError):
    """The record's present state, or a rule of the service, does not permit it."""


class KeyReused(ServiceError):
    """The idempotency key, or the client's own id, was used before, for another request."""


class Busy(ServiceError):
    """Not now; the same request may work when tried again.

    Args:
        retry_after: Seconds to wait first, where the service says so.
    """

    def __init__(self, text: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(text)


class Unconfirmed(Exception):
    """It may have happened or not; the service's record can tell."""


@dataclass(frozen=True)
class Transaction:
    """One recorded change. ``request`` is what was asked, ``result`` what was answered.

    ``subject`` is the id of the record that was made or changed.
    """

    id: str
    key: str
    operation: str
    subject: str
    request: dict[str, Any]
    result: dict[str, Any]
    at: str


Change = Callable[[sqlite3.Connection, str], tuple[str, Mapping[str, Any]]]
"""Makes a change at a time; returns its subject and its result."""


def is_key(text: str) -> bool:
    """Whether it can be an idempotency key: 1 to 200 visible ASCII characters."""
    return re.fullmatch(r"[!-~]{1,200}", text) is not None


def utc_now() -> datetime:
    return datetime.now(UTC)


def iso(moment: datetime) -> str:
    """A time in UTC to the second, in a form that sorts as text."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Book:
    """A service's database file, in which a change and its record are one transaction.

    Args:
        path: The file; it is made with schema and sample data at the first use.
        version: Of the schema.
        create: Makes the tables beside the book's own, and their first rows.
        name: The service in words, for errors: ``"grocery shop"``.
        letter: Begins the ids of transactions.
        honours_keys: ``False`` for a service that ignores idempotency keys, as many do: a
            request that is sent twice then counts twice.
        busy_timeout: Seconds to wait for another writer before ``Busy``.
        now: The clock that dates changes.
    """

    def __init__(
        self,
        path: Path | str,
        version: int,
        create: Callable[[sqlite3.Connection], None],
        *,
        name: str,
        letter: str,
        honours_keys: bool,
        busy_timeout: float,
        now: Callable[[], datetime],
    ) -> None:
        def make(db: sqlite3.Connection) -> None:
            db.execute(_TRANSACTIONS)
            create(db)

        self.path, self.honours_keys = Path(path), honours_keys
        self._name, self._letter, self._now = name, letter, now
        self._database = Database(self.path, version, make, busy_timeout=busy_timeout)

    def now(self) -> datetime:
        return self._now()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent snapshot.

        Raises:
            ServiceError, Busy: As their names say.
        """
        with self._errors(), self._database.reading() as db:
            yield db

    @contextmanager
    def changing(self) -> Iterator[sqlite3.Connection]:
        """One change, committed at the end.

        Raises:
            ServiceError, Busy: Nothing was changed.
            Unconfirmed: The commit failed half way.
        """
        try:
            with self._errors(), self._database.changing() as db:
                yield db
        except CommitFailed as error:
            raise Unconfirmed(
                f"The {self._name} could not confirm the change ({error}): it may have happened."
            ) from error

    def once(
        self,
        db: sqlite3.Connection,
        key: str,
        operation: str,
        request: Mapping[str, Any],
        change: Change,
    ) -> Transaction:
        """Answer from the record, or make the change and record it, inside ``changing``.

        Raises:
            KeyReused: The key belongs to another request.
            Refused: The key is none.
        """
        if not self.honours_keys:
            key = f"request-{uuid.uuid4()}"
        elif not is_key(key):
            raise Refused(
                "An idempotency key has 1 to 200 visible ASCII characters; nothing was changed."
            )
        recorded = self._find(db, key)
        if recorded is None:
            at = iso(self.now())
            subject, result = change(db, at)
            return self._record(db, key, operation, subject, request, result, at)
        if (recorded.operation, recorded.request) != (operation, request):
            raise KeyReused(
                f"The idempotency key {key} belongs to another request, {recorded.operation} of "
                f"{recorded.subject} ({recorded.id}); this one was not run."
            )
        return recorded

    def find(self, key: str) -> Transaction | None:
        """What was recorded under the key; ``None``: nothing was committed under it so far."""
        with self.reading() as db:
            return self._find(db, key)

    def _find(self, db: sqlite3.Connection, key: str) -> Transaction | None:
        row = db.execute("SELECT * FROM transactions WHERE key = ?", (key,)).fetchone()
        return None if row is None else self._transaction(row)

    def _record(
        self,
        db: sqlite3.Connection,
        key: str,
        operation: str,
        subject: str,
        request: Mapping[str, Any],
        result: Mapping[str, Any],
        at: str,
    ) -> Transaction:
        row = db.execute(
            "INSERT INTO transactions (key, operation, subject, request, result, at)"
            " VALUES (?, ?, ?, ?, ?, ?) RETURNING *",
            (key, operation, subject, json.dumps(request), json.dumps(result), at),
        ).fetchone()
        return self._transaction(row)

    def _transaction(self, row: sqlite3.Row) -> Transaction:
        return Transaction(
            id=f"{self._letter}{1000 + row['number']}",
            key=row["key"],
            operation=row["operation"],
            subject=row["subject"],
            request=json.loads(row["request"]),
            result=json.loads(row["result"]),
            at=row["at"],
        )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except Locked as error:
            raise Busy(
                f"The {self._name} is busy with another change; nothing was changed."
            ) from error
        except Unusable as error:
            raise ServiceError(
                f"The {self._name}'s database cannot be used ({error}); nothing was changed."
            ) from error


def page_bounds(page: int, page_size: int) -> tuple[int, int]:
    """LIMIT and OFFSET of a page, from 1; a size beyond ``MAX_PAGE_SIZE`` is cut to that."""
    size = max(1, min(page_size, MAX_PAGE_SIZE))
    return size, (max(page, 1) - 1) * size
