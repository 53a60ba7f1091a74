"""A mailbox: folders of e-mails, and an outbox that knows what became of each mail.

What is to be sent gets a row in the outbox first, under the idempotency key of its request; the
same key with another letter is refused. The row says how far it came::

    queued                              it stays here: there is no server to hand it over to
    preparing ─► sending ─► sent        the server took it; it is in the folder "sent" then
        │           ├─────► refused     it was not sent
        └───────────┘├────► unknown     the connection ended before the server's reply
    queued ─► withdrawn                 taken out of the outbox

``preparing`` becomes ``sending`` right before the last byte leaves. Until then it can be given up,
for good: of two processes only one finds it ``preparing``. The errors are those of ``service``.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, get_args

from tools.worlds.mime import Letter, message_id
from tools.worlds.sample_mail import MAILS
from tools.worlds.service import Book, NotFound, Refused, Unconfirmed, utc_now

Folder = Literal["inbox", "archive", "sent", "outbox"]
FOLDERS: tuple[Folder, ...] = get_args(Folder)
Status = Literal[
    "received", "queued", "preparing", "sending", "sent", "refused", "unknown", "withdrawn"
]

FIRST = 100
"""Ids count from here: M101."""

_SCHEMA_VERSION = 1
_SCHEMA = (
    """CREATE TABLE emails (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        folder TEXT NOT NULL CHECK (folder IN ('inbox', 'archive', 'sent', 'outbox', 'withdrawn')),
        status TEXT NOT NULL CHECK (status IN ('received', 'queued', 'preparing', 'sending',
            'sent', 'refused', 'unknown', 'withdrawn')),
        message_id TEXT NOT NULL UNIQUE,
        answers INTEGER REFERENCES emails (number),
        sender TEXT NOT NULL, recipients TEXT NOT NULL, cc TEXT NOT NULL,
        subject TEXT NOT NULL, body TEXT NOT NULL, at TEXT NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 0,
        said TEXT NOT NULL DEFAULT '') STRICT""",
    "CREATE INDEX emails_by_folder ON emails (folder, at)",
)


@dataclass(frozen=True)
class Email:
    """An e-mail as the mailbox has it.

    Args:
        sender, to, cc: As they stand in the header, with the names of people where it has any.
        answers: The id of the e-mail that it answers, where that is here.
        attempt: Of one that was to be sent: how often that was begun.
        said: What the server replied, or why it was not sent.
    """

    id: str
    folder: str
    status: Status
    message_id: str
    answers: str | None
    sender: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    body: str
    at: str
    attempt: int = 0
    said: str = ""

    @property
    def letter(self) -> Letter:
        """What was asked to be sent."""
        return Letter(self.sender, self.to, self.cc, self.subject, self.body, self.answers)


@dataclass(frozen=True)
class Emails:
    """Some of the e-mails that matched, newest first."""

    emails: tuple[Email, ...]
    matched: int


class LocalMailbox:
    """The mailbox over one database file; it appears with sample mails.

    Args:
        path: The database file; its folder is made when missing, readable by the owner only.
        busy_timeout: Seconds to wait for another writer before ``Busy``.
        now: The clock that dates what is sent.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        busy_timeout: float = 10.0,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._book = Book(
            path,
            _SCHEMA_VERSION,
            _create,
            name="mailbox",
            letter="MT",
            honours_keys=True,
            busy_timeout=busy_timeout,
            now=now,
        )

    # Reading -------------------------------------------------------------------------------

    def emails(self, folder: str | None, query: str, offset: int, count: int) -> Emails:
        """E-mails of a folder, or of all, in which each word of the query occurs somewhere."""
        words = query.split()
        text = "sender || ' ' || recipients || ' ' || cc || ' ' || subject || ' ' || body"
        where = " AND ".join(
            ["folder <> 'withdrawn'"]
            + ["folder = ?"] * bool(folder)
            + [f"{text} LIKE ? ESCAPE '\\'"] * len(words)
        )
        values = [*([folder] if folder else []), *map(_like, words)]
        some = f"FROM emails WHERE {where}"
        with self._book.reading() as db:
            (matched,) = db.execute(f"SELECT count(*) {some}", values).fetchone()
            rows = db.execute(
                f"SELECT * {some} ORDER BY at DESC, number DESC LIMIT ? OFFSET ?",
                [*values, count, offset],
            ).fetchall()
        return Emails(tuple(map(_as_email, rows)), matched)

    def email(self, id: str) -> Email:
        with self._book.reading() as db:
            return _email(db, id)

    def thread(self, id: str | None) -> tuple[str, ...]:
        """The Message-IDs of an e-mail and of those that it answers, oldest first."""
        found: list[str] = []
        with self._book.reading() as db:
            following = id
            while following is not None:
                email = _as_email(_row(db, following))
                found.insert(0, email.message_id)
                following = email.answers
        return tuple(found)

    def find(self, key: str) -> Email | None:
        """What is to be sent, or was, under a key, as it stands; ``None``: nothing so far."""
        transaction = self._book.find(key)
        if transaction is None or transaction.operation != "send":
            return None
        with self._book.reading() as db:
            return _as_email(_row(db, transaction.subject))

    # Sending -------------------------------------------------------------------------------

    def queue(self, letter: Letter, key: str) -> Email:
        """Put a letter into the outbox, to stay there; the same request gets the same row."""
        return self._put(letter, key, "queued")

    def prepare(self, letter: Letter, key: str, attempt: int) -> Email:
        """Put a letter into the outbox, to be handed over in this attempt.

        One that is known to be sent is returned as it is. A later attempt begins anew: whoever
        makes it knows that the earlier one came to nothing.

        Raises:
            Refused: It was withdrawn.
            Unconfirmed: This very attempt was begun before.
        """
        email = self._put(letter, key, "preparing")
        if email.status in ("queued", "sent"):
            return email
        if email.status == "withdrawn":
            raise Refused(f"{email.id} was withdrawn from the outbox; nothing was sent.")
        with self._book.changing() as db:
            changed = db.execute(
                "UPDATE emails SET folder = 'outbox', status = 'preparing', attempt = :attempt,"
                " said = '' WHERE number = :number AND attempt < :attempt"
                " AND status IN ('preparing', 'sending', 'refused', 'unknown')",
                {"attempt": attempt, "number": _number(email.id)},
            )
            if not changed.rowcount:
                raise Unconfirmed(f"{email.id} is being sent already: it may have been sent.")
            return _email(db, email.id)

    def begin(self, id: str, attempt: int) -> None:
        """Say that the last byte is about to leave.

        Raises:
            Refused: This attempt was given up meanwhile.
        """
        if not self._move(id, attempt, "preparing", "sending", ""):
            raise Refused(f"{id} was given up before it was sent; nothing was sent.")

    def settle(self, id: str, attempt: int, status: Status, said: str) -> None:
        """Record what became of an attempt; of one that is over already, nothing."""
        for before in ("preparing", "sending"):
            if self._move(id, attempt, before, status, said):
                return

    def give_up(self, id: str, attempt: int) -> bool:
        """End an attempt whose last byte has not left; ``False``: it may have."""
        return self._move(
            id, attempt, "preparing", "refused", "It was given up before it was sent."
        )

    def withdraw(self, id: str, key: str) -> Email:
        """Take an e-mail out of the outbox that was not sent."""

        def change(db: sqlite3.Connection, at: str) -> tuple[str, dict[str, Any]]:
            check_withdraw(_email(db, id))
            db.execute(
                "UPDATE emails SET folder = 'withdrawn', status = 'withdrawn' WHERE number = ?",
                (_number(id),),
            )
            return id, {}

        with self._book.changing() as db:
            self._book.once(db, key, "withdraw", {"id": id}, change)
            return _as_email(_row(db, id))

    def withdrawn(self, key: str) -> Email | None:
        """The e-mail that was withdrawn under a key; ``None``: none so far."""
        transaction = self._book.find(key)
        if transaction is None or transaction.operation != "withdraw":
            return None
        with self._book.reading() as db:
            return _as_email(_row(db, transaction.subject))

    def _put(self, letter: Letter, key: str, status: Status) -> Email:
        def change(db: sqlite3.Connection, at: str) -> tuple[str, dict[str, Any]]:
            answers = _number(_email(db, letter.reply_to_id).id) if letter.reply_to_id else None
            number = db.execute(
                "INSERT INTO emails (folder, status, message_id, answers, sender, recipients, cc,"
                " subject, body, at) VALUES ('outbox', ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    status,
                    message_id(key, letter.sender),
                    answers,
                    letter.sender,
                    _list(letter.to),
                    _list(letter.cc),
                    letter.subject,
                    letter.body,
                    at,
                ),
            ).lastrowid
            assert number is not None
            return _id(number), {}

        request = json.loads(json.dumps(asdict(letter)))  # as it is compared with a recorded one
        with self._book.changing() as db:
            transaction = self._book.once(db, key, "send", request, change)
            return _as_email(_row(db, transaction.subject))

    def _move(self, id: str, attempt: int, before: Status, after: Status, said: str) -> bool:
        with self._book.changing() as db:
            changed = db.execute(
                "UPDATE emails SET status = ?, folder = ?, said = ?"
                " WHERE number = ? AND attempt = ? AND status = ?",
                (
                    after,
                    "sent" if after == "sent" else "outbox",
                    said,
                    _number(id),
                    attempt,
                    before,
                ),
            )
            return bool(changed.rowcount)


def check_withdraw(email: Email) -> None:
    """Raise ``Refused`` unless an e-mail can be taken out of the outbox."""
    if email.status != "queued":
        raise Refused(
            f"{email.id} is {email.status}, not queued: only what waits in the outbox can be "
            "withdrawn."
        )


# Rows --------------------------------------------------------------------------------------


def _create(db: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        db.execute(statement)
    numbers: dict[str, int] = {}
    for number, mail in enumerate(MAILS, 1):
        numbers[mail.name] = number
        db.execute(
            "INSERT INTO emails (folder, status, message_id, answers, sender, recipients, cc,"
            " subject, body, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                mail.folder,
                "sent" if mail.folder == "sent" else "received",
                f"<{mail.name}@{mail.sender.rpartition('@')[2].rstrip('>')}>",
                numbers.get(mail.answers),
                mail.sender,
                _list([mail.to]),
                _list([mail.cc] if mail.cc else []),
                mail.subject,
                mail.body,
                mail.at,
            ),
        )


def _email(db: sqlite3.Connection, id: str) -> Email:
    row = _row(db, id)
    if row is None:
        raise NotFound(f"There is no e-mail {id!r}. list_emails shows the ids of those there are.")
    email = _as_email(row)
    if email.status == "withdrawn":
        raise NotFound(f"The e-mail {id!r} was withdrawn from the outbox.")
    return email


def _row(db: sqlite3.Connection, id: str) -> Any:
    return db.execute("SELECT * FROM emails WHERE number = ?", (_number(id),)).fetchone()


def _as_email(row: sqlite3.Row) -> Email:
    return Email(
        id=_id(row["number"]),
        folder=row["folder"],
        status=row["status"],
        message_id=row["message_id"],
        answers=_id(row["answers"]) if row["answers"] is not None else None,
        sender=row["sender"],
        to=tuple(json.loads(row["recipients"])),
        cc=tuple(json.loads(row["cc"])),
        subject=row["subject"],
        body=row["body"],
        at=row["at"],
        attempt=row["attempt"],
        said=row["said"],
    )


def _list(addresses: Sequence[str]) -> str:
    return json.dumps(list(addresses), ensure_ascii=False)


def _id(number: int) -> str:
    return f"M{FIRST + number}"


def _number(id: str) -> int:
    """The row of an id; of what is none, one that is not there."""
    digits = id[1:]
    return int(digits) - FIRST if id[:1] == "M" and digits.isdecimal() and len(digits) < 10 else 0


def _like(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
