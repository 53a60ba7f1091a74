"""A bank: accounts, and transfers that move money once.

A transfer is counted by the request's idempotency key and by the customer's own id for it, the
client transaction id; either of them with other arguments is refused. Inside the bank it settles
at once. To another bank it is ``pending`` until it is cleared, an hour later; then it is settled,
or has failed and the money is back. ``Bank`` is the service as one customer's programs see it;
``LocalBank`` keeps it in a database here, ``bank_http`` puts it behind HTTP. The errors are those
of ``service``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

from tools.worlds.amounts import Currency, Minor, money
from tools.worlds.sample_bank import ACCOUNTS, CUSTOMER, TRANSFERS
from tools.worlds.service import Book, KeyReused, NotFound, Refused, iso, page_bounds, utc_now

TransferStatus = Literal["pending", "settled", "failed"]

BANK_CODE = "LARK"
CLEARED_AFTER = timedelta(hours=1)
SENT_BACK = "The other bank sent it back: it does not accept money for this account."

_SCHEMA_VERSION = 1
_SCHEMA = (
    """CREATE TABLE accounts (
        id TEXT PRIMARY KEY, holder TEXT NOT NULL, name TEXT NOT NULL, currency TEXT NOT NULL,
        balance INTEGER NOT NULL CHECK (balance >= 0),
        transfer_limit INTEGER NOT NULL, daily_limit INTEGER NOT NULL,
        accepts INTEGER NOT NULL CHECK (accepts IN (0, 1)),
        revision INTEGER NOT NULL CHECK (revision > 0)) STRICT""",
    """CREATE TABLE transfers (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        source TEXT NOT NULL REFERENCES accounts (id),
        destination TEXT NOT NULL REFERENCES accounts (id),
        amount INTEGER NOT NULL CHECK (amount > 0), currency TEXT NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('pending', 'settled', 'failed')),
        client_id TEXT NOT NULL, requested_at TEXT NOT NULL, ends_at TEXT NOT NULL,
        reason TEXT NOT NULL DEFAULT '',
        CHECK (source <> destination)) STRICT""",
    "CREATE INDEX transfers_by_client_id ON transfers (client_id)",
    "CREATE INDEX transfers_pending ON transfers (ends_at) WHERE status = 'pending'",
)


@dataclass(frozen=True)
class Account:
    """An account of the customer as it stands.

    Args:
        sent_today: What left it today (UTC), pending transfers included; failed ones are not.
        revision: Grows by one whenever money comes or goes.
    """

    id: str
    name: str
    holder: str
    currency: Currency
    balance: Minor
    transfer_limit: Minor
    daily_limit: Minor
    sent_today: Minor
    revision: int


@dataclass(frozen=True)
class Payee:
    """What anybody may know of an account that money is to go to.

    Args:
        own: It is one of the customer's.
        instant: Money for it settles at once; else after clearing.
        accepts: Whether this bank knows it to accept money.
    """

    id: str
    holder: str
    currency: Currency
    own: bool
    instant: bool
    accepts: bool


@dataclass(frozen=True)
class Instruction:
    """What a transfer is to be; ``client_transaction_id`` is the customer's own id for it."""

    source: str
    destination: str
    amount: Minor
    currency: Currency
    client_transaction_id: str


@dataclass(frozen=True)
class Transfer:
    """The record of a transfer: the authority on what became of it.

    Args:
        recipient: The holder of the destination.
        client_transaction_id: Empty where the money comes from somebody else: it is their text.
        ends_at: When it was settled or failed; of a pending one, when it will be.
        reason: Why it failed; else empty.
    """

    id: str
    source: str
    destination: str
    recipient: str
    amount: Minor
    currency: Currency
    status: TransferStatus
    client_transaction_id: str
    requested_at: str
    ends_at: str
    reason: str

    @property
    def instruction(self) -> Instruction:
        """What it was made for."""
        return Instruction(
            self.source,
            self.destination,
            self.amount,
            self.currency,
            self.client_transaction_id,
        )


@dataclass(frozen=True)
class Transfers:
    """One page of transfers, newest first: ``matched`` in all, on ``pages`` pages."""

    transfers: tuple[Transfer, ...]
    matched: int
    page: int
    pages: int


class Bank(Protocol):
    """The service as one customer's programs see it. Methods raise the errors of ``service``."""

    @property
    def honours_keys(self) -> bool:
        """``False``: neither keys nor client transaction ids are looked at before money moves."""
        ...

    @property
    def remote(self) -> bool:
        """Whether a request may still arrive after its sender has given it up."""
        ...

    def account(self, account_id: str) -> Account:
        """One of the customer's own accounts."""
        ...

    def accounts(self) -> tuple[Account, ...]: ...

    def payee(self, account_id: str) -> Payee: ...

    def transfers(
        self, account_id: str, client_transaction_id: str | None, page: int, page_size: int
    ) -> Transfers:
        """Transfers from and to one of the customer's accounts; by their own id only those from."""
        ...

    def find(self, key: str) -> Transfer | None:
        """The transfer that was made under the key, as it stands; ``None``: none so far."""
        ...

    def transfer(self, wanted: Instruction, key: str) -> Transfer:
        """Move money; the same request again gets the same transfer."""
        ...


def check_transfer(source: Account, payee: Payee, wanted: Instruction) -> None:
    """Raise ``Refused`` unless the bank would make this transfer now."""
    amount, currency = wanted.amount, wanted.currency
    if source.id == payee.id:
        raise Refused("Source and destination are the same account.")
    if currency != source.currency:
        raise Refused(f"{source.name} ({source.id}) is in {source.currency}, not in {currency}.")
    if currency != payee.currency:
        raise Refused(
            f"{payee.id} is in {payee.currency}; nothing is converted, so it takes no {currency}."
        )
    if not payee.accepts:
        raise Refused(f"{payee.id} ({payee.holder}) does not accept money.")
    if amount <= 0:
        raise Refused("A transfer must be more than 0.00.")
    if amount > source.transfer_limit:
        raise Refused(
            f"{source.name} sends at most {money(source.transfer_limit)} {currency} at once."
        )
    if source.sent_today + amount > source.daily_limit:
        raise Refused(
            f"{source.name} sends at most {money(source.daily_limit)} {currency} a day, and "
            f"{money(source.sent_today)} have left it today."
        )
    if amount > source.balance:
        raise Refused(
            f"{source.name} has {money(source.balance)} {currency}; {money(amount)} is more."
        )


class LocalBank:
    """The bank over one database file, for ``CUSTOMER``; it appears with sample data.

    Args:
        path: The database file; its folder is made when missing, readable by the owner only.
        honours_keys: ``False`` for a bank that ignores keys and client transaction ids.
        busy_timeout: Seconds to wait for another writer before ``Busy``.
        now: The clock that dates changes.
    """

    remote = False

    def __init__(
        self,
        path: Path | str,
        *,
        honours_keys: bool = True,
        busy_timeout: float = 10.0,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.path, self.honours_keys = Path(path), honours_keys
        self._book = Book(
            path,
            _SCHEMA_VERSION,
            _create,
            name="bank",
            letter="B",
            honours_keys=honours_keys,
            busy_timeout=busy_timeout,
            now=now,
        )

    def account(self, account_id: str) -> Account:
        with self._reading() as db:
            return self._account(db, account_id)

    def accounts(self) -> tuple[Account, ...]:
        with self._reading() as db:
            return tuple(self._account(db, account_id) for account_id in self._own(db))

    def payee(self, account_id: str) -> Payee:
        with self._reading() as db:
            return self._payee(db, account_id)

    def transfers(
        self,
        account_id: str,
        client_transaction_id: str | None = None,
        page: int = 1,
        page_size: int = 20,
    ) -> Transfers:
        where = "WHERE :account IN (source, destination)"
        if client_transaction_id is not None:
            where = "WHERE source = :account AND client_id = :client_id"
        size, start = page_bounds(page, page_size)
        values = {"account": account_id, "client_id": client_transaction_id}
        with self._reading() as db:
            self._account(db, account_id)
            own = self._own(db)
            (matched,) = db.execute(f"SELECT count(*) FROM transfers {where}", values).fetchone()
            rows = db.execute(
                f"{_SELECT} {where} ORDER BY number DESC LIMIT :size OFFSET :start",
                {**values, "size": size, "start": start},
            ).fetchall()
        shown = (_as_transfer(row) for row in rows)
        seen = tuple(t if t.source in own else replace(t, client_transaction_id="") for t in shown)
        return Transfers(seen, matched, page, -(-matched // size))

    def find(self, key: str) -> Transfer | None:
        transaction = self._book.find(key)
        if transaction is None:
            return None
        with self._reading() as db:
            return _transfer(db, transaction.subject)

    def transfer(self, wanted: Instruction, key: str) -> Transfer:
        def change(db: sqlite3.Connection, at: str) -> tuple[str, dict[str, Any]]:
            return self._known(db, wanted) or self._move(db, wanted, at), {}

        with self._book.changing() as db:
            self._clear(db)
            transaction = self._book.once(db, key, "transfer", asdict(wanted), change)
            return _transfer(db, transaction.subject)

    def _known(self, db: sqlite3.Connection, wanted: Instruction) -> str | None:
        """The transfer that the customer has already made under this id of theirs."""
        row = db.execute(
            f"{_SELECT} WHERE client_id = ? AND s.holder = ?",
            (wanted.client_transaction_id, CUSTOMER),
        ).fetchone()
        if row is None or not self.honours_keys:
            return None
        found = _as_transfer(row)
        if found.instruction != wanted:
            raise KeyReused(
                f"The client transaction id {found.client_transaction_id} belongs to {found.id}, "
                f"{money(found.amount)} {found.currency} to {found.recipient}; this request was "
                "not run. A new transfer needs an id of its own."
            )
        return found.id

    def _move(self, db: sqlite3.Connection, wanted: Instruction, at: str) -> str:
        """Take the money from the source and, where that is at once, pay it in."""
        payee = self._payee(db, wanted.destination)
        check_transfer(self._account(db, wanted.source), payee, wanted)
        _pay(db, wanted.source, -wanted.amount)
        if payee.instant:
            _pay(db, wanted.destination, wanted.amount)
            return _insert(db, wanted, "settled", at, at)
        return _insert(db, wanted, "pending", at, iso(self._book.now() + CLEARED_AFTER))

    def _own(self, db: sqlite3.Connection) -> list[str]:
        rows = db.execute("SELECT id FROM accounts WHERE holder = ? ORDER BY rowid", (CUSTOMER,))
        return [row["id"] for row in rows]

    def _account(self, db: sqlite3.Connection, account_id: str) -> Account:
        row = db.execute(
            """SELECT id, name, holder, currency, balance, transfer_limit, daily_limit,
                   (SELECT coalesce(sum(amount), 0) FROM transfers WHERE source = a.id
                    AND status <> 'failed' AND substr(requested_at, 1, 10) = ?) sent_today, revision
               FROM accounts a WHERE id = ? AND holder = ?""",
            (iso(self._book.now())[:10], account_id, CUSTOMER),
        ).fetchone()
        if row is None:
            own = ", ".join(self._own(db)) or "none"
            raise NotFound(f"{account_id!r} is no account of {CUSTOMER}. Theirs are: {own}.")
        return Account(*row)

    def _payee(self, db: sqlite3.Connection, account_id: str) -> Payee:
        row = db.execute(
            "SELECT holder, currency, accepts FROM accounts WHERE id = ?", (account_id,)
        ).fetchone()
        if row is None:
            raise NotFound(
                f"There is no account {account_id!r}. Ask for the right one; never guess it."
            )
        instant = account_id[4:8] == BANK_CODE
        return Payee(
            id=account_id,
            holder=row["holder"],
            currency=row["currency"],
            own=row["holder"] == CUSTOMER,
            instant=instant,
            accepts=bool(row["accepts"]) or not instant,
        )

    # Clearing ------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """One snapshot, in which everything that is due has been cleared."""
        with self._book.reading() as db:
            due = db.execute(_DUE, (iso(self._book.now()),)).fetchone() is not None
        if due:
            with self._book.changing() as db:
                self._clear(db)
        with self._book.reading() as db:
            yield db

    def _clear(self, db: sqlite3.Connection) -> None:
        """End the pending transfers whose time has come."""
        for row in db.execute(_DUE, (iso(self._book.now()),)).fetchall():
            settled = row["accepts"]
            _pay(db, row["destination"] if settled else row["source"], row["amount"])
            db.execute(
                "UPDATE transfers SET status = ?, reason = ? WHERE number = ?",
                ("settled", "", row["number"]) if settled else ("failed", SENT_BACK, row["number"]),
            )


_SELECT = """SELECT t.*, d.holder AS recipient FROM transfers t
    JOIN accounts d ON d.id = destination JOIN accounts s ON s.id = source"""
_DUE = """SELECT t.*, d.accepts FROM transfers t JOIN accounts d ON d.id = destination
    WHERE status = 'pending' AND ends_at <= ? ORDER BY number"""


def _transfer(db: sqlite3.Connection, transfer_id: str) -> Transfer:
    row = db.execute(f"{_SELECT} WHERE number = ?", (int(transfer_id[2:]) - 1000,)).fetchone()
    return _as_transfer(row)


def _as_transfer(row: sqlite3.Row) -> Transfer:
    return Transfer(
        id=f"TR{1000 + row['number']}",
        source=row["source"],
        destination=row["destination"],
        recipient=row["recipient"],
        amount=row["amount"],
        currency=row["currency"],
        status=row["status"],
        client_transaction_id=row["client_id"],
        requested_at=row["requested_at"],
        ends_at=row["ends_at"],
        reason=row["reason"],
    )


def _insert(
    db: sqlite3.Connection, wanted: Instruction, status: TransferStatus, at: str, ends_at: str
) -> str:
    (number,) = db.execute(
        "INSERT INTO transfers (source, destination, amount, currency, client_id, status,"
        " requested_at, ends_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING number",
        (*astuple(wanted), status, at, ends_at),
    ).fetchone()
    return f"TR{1000 + number}"


def _pay(db: sqlite3.Connection, account_id: str, amount: int) -> None:
    """Add to a balance; a negative amount is taken away."""
    db.execute(
        "UPDATE accounts SET balance = balance + ?, revision = revision + 1 WHERE id = ?",
        (amount, account_id),
    )


def _create(db: sqlite3.Connection) -> None:
    """Schema and sample data, inside the caller's transaction."""
    for statement in _SCHEMA:
        db.execute(statement)
    db.executemany(
        "INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)",
        [(*account[:-1], int(account.accepts)) for account in ACCOUNTS],
    )
    for past in TRANSFERS:
        _insert(db, Instruction(*past[:-1]), "settled", past.at, past.at)
