"""A small order desk: a real service over SQLite, usable from many threads and processes.

It shows what the harness asks of a service that changes things: a revision that a stale write
runs into, an idempotency key that makes a repeated request count once, and a record that can
be asked afterwards what happened. All three live in the transaction that makes the change.

The service knows nothing of models and tools. Its errors say whether anything changed::

    DeskError                 nothing was changed
    ├── UnknownOrder          no such order; names near ids
    ├── Refused               the order's state does not permit it, or the record is stale
    ├── KeyReused             the idempotency key belongs to another request
    └── DeskBusy              the database stayed locked; trying again may help
    CommitUnknown             the commit failed half way: ask ``find_transaction``
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tools.worlds import sample_orders
from tools.worlds.amounts import Currency, money
from tools.worlds.database import CommitFailed, Database, Locked, Unusable

Status = Literal["pending", "shipped", "delivered", "cancelled"]
Sort = Literal[
    "placed_newest", "placed_oldest", "updated_newest", "total_highest", "total_lowest", "id"
]

MAX_PAGE_SIZE = 50

_SCHEMA_VERSION = 1
_SCHEMA = (
    """CREATE TABLE customers (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL) STRICT""",
    """CREATE TABLE orders (
        id TEXT PRIMARY KEY,
        customer TEXT NOT NULL REFERENCES customers (id),
        status TEXT NOT NULL CHECK (status IN ('pending', 'shipped', 'delivered', 'cancelled')),
        currency TEXT NOT NULL,
        total INTEGER NOT NULL CHECK (total > 0),
        refunded INTEGER NOT NULL DEFAULT 0 CHECK (refunded BETWEEN 0 AND total),
        placed_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        revision INTEGER NOT NULL CHECK (revision > 0)) STRICT""",
    """CREATE TABLE items (
        order_id TEXT NOT NULL REFERENCES orders (id), line INTEGER NOT NULL,
        name TEXT NOT NULL, quantity INTEGER NOT NULL, unit_price INTEGER NOT NULL,
        PRIMARY KEY (order_id, line)) STRICT""",
    """CREATE TABLE transactions (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        operation TEXT NOT NULL,
        order_id TEXT NOT NULL REFERENCES orders (id),
        request TEXT NOT NULL,
        result TEXT NOT NULL,
        at TEXT NOT NULL) STRICT""",
    "CREATE INDEX transactions_of_order ON transactions (order_id, number)",
)
_ORDER_BY = {
    "placed_newest": "placed_at DESC, number",
    "placed_oldest": "placed_at, number",
    "updated_newest": "updated_at DESC, number",
    "total_highest": "total DESC, number",
    "total_lowest": "total, number",
    "id": "number",
}
_SELECT = """SELECT o.*, c.name AS customer_name, c.email AS customer_email,
    (unicode(o.id) * 100000 + CAST(substr(o.id, 2) AS INTEGER)) AS number
    FROM orders o JOIN customers c ON c.id = o.customer"""


class DeskError(Exception):
    """A request that changed nothing; the text says why and what may be done instead."""


class UnknownOrder(DeskError):
    """There is no such order.

    Args:
        order_id: What was asked for.
        near: Ids that exist and look like it, nearest first.
    """

    def __init__(self, order_id: str, near: tuple[str, ...]) -> None:
        self.order_id, self.near = order_id, near
        hint = f" Near it there are {', '.join(near)}." if near else ""
        super().__init__(f"There is no order {order_id!r}.{hint} Ids look like A1, B7 or C12.")


class Refused(DeskError):
    """The order's present state does not permit the change."""


class KeyReused(DeskError):
    """The idempotency key was used before, for another request."""


class DeskBusy(DeskError):
    """Another writer kept the database locked; the same request may work when tried again."""


class CommitUnknown(Exception):
    """The commit failed half way, so the change may or may not have been recorded.

    Args:
        key: The idempotency key under which ``find_transaction`` can settle it.
    """

    def __init__(self, key: str, cause: str) -> None:
        self.key = key
        super().__init__(
            f"The order desk could not confirm the change ({cause}): it may have happened. "
            f"Its record can be looked up by the idempotency key {key}."
        )


@dataclass(frozen=True)
class Item:
    """One line of an order; ``unit_price`` in minor units."""

    name: str
    quantity: int
    unit_price: int


@dataclass(frozen=True)
class Order:
    """One order as it stands. Amounts are integer minor units, times ISO 8601 in UTC.

    ``revision`` grows by one with every change; ``items`` is empty in listings that did not
    ask for it.
    """

    id: str
    customer_id: str
    customer_name: str
    customer_email: str
    status: Status
    currency: Currency
    total: int
    refunded: int
    placed_at: str
    updated_at: str
    revision: int
    items: tuple[Item, ...] = ()

    @property
    def refundable(self) -> int:
        """What a refund may still pay back now, in minor units."""
        return self.total - self.refunded if self.status in ("delivered", "cancelled") else 0


@dataclass(frozen=True)
class Page:
    """One page of a listing: ``matched`` orders in all, on ``pages`` pages."""

    orders: tuple[Order, ...]
    matched: int
    page: int
    pages: int


@dataclass(frozen=True)
class Transaction:
    """One recorded change. ``request`` is what was asked, ``result`` what was answered."""

    id: str
    key: str
    operation: str
    order_id: str
    request: dict[str, Any]
    result: dict[str, Any]
    at: str


def check_cancel(order: Order, expected_revision: int) -> Order:
    """The order as cancelling would leave it (its ``updated_at`` aside).

    Raises:
        Refused: It is no longer pending, or the revision is not the present one.
    """
    if order.status == "cancelled":
        raise Refused(f"Order {order.id} is already cancelled, since {order.updated_at}.")
    if order.status != "pending":
        raise Refused(
            f"Order {order.id} is already {order.status}, since {order.updated_at}; only pending "
            f"orders can be cancelled.{_refund_hint(order)}"
        )
    if order.revision != expected_revision:
        raise Refused(
            f"Order {order.id} is at revision {order.revision}, not {expected_revision}: it "
            f"changed at {order.updated_at}, or it was never read. Read it again, then decide."
        )
    return replace(order, status="cancelled", revision=order.revision + 1)


def _refund_hint(order: Order) -> str:
    if order.status == "shipped":
        return " It can be refunded once it is delivered."
    return " It can be refunded." if order.refundable else ""


def check_refund(order: Order, amount: int, currency: str) -> Order:
    """The order as the refund would leave it (its ``updated_at`` aside).

    Raises:
        Refused: Its status, its currency or what is left does not permit the refund.
    """
    if order.status == "pending":
        raise Refused(f"Order {order.id} is still pending: cancel it first, then refund it.")
    if order.status == "shipped":
        raise Refused(f"Order {order.id} is on its way; it can be refunded once it is delivered.")
    if currency != order.currency:
        raise Refused(
            f"Order {order.id} was paid in {order.currency}, so it cannot be refunded in "
            f"{currency}. Amounts are not converted."
        )
    if amount <= 0:
        raise Refused("A refund must be more than 0.00.")
    if amount > order.refundable:
        raise Refused(
            f"Order {order.id} has {money(order.refundable)} {order.currency} left to refund "
            f"(total {money(order.total)}, refunded {money(order.refunded)}); "
            f"{money(amount)} is more than that."
        )
    return replace(order, refunded=order.refunded + amount, revision=order.revision + 1)


def _utc_now() -> datetime:
    return datetime.now(UTC)


class OrderDesk:
    """The service over one database file.

    The file appears with sample data at the first operation.

    Args:
        path: The database file; its folder is made when missing, readable by the owner only.
        busy_timeout: Seconds to wait for another writer before ``DeskBusy``.
        now: The clock that dates changes.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        busy_timeout: float = 10.0,
        now: Callable[[], datetime] = _utc_now,
    ) -> None:
        self.path = Path(path)
        self._now = now
        self._database = Database(self.path, _SCHEMA_VERSION, _create, busy_timeout=busy_timeout)

    # Reading ------------------------------------------------------------------------------

    def get(self, order_id: str) -> Order:
        """One order with its items.

        Raises:
            UnknownOrder: With near ids.
        """
        with self._reading() as db:
            return _load(db, order_id)

    def list(
        self,
        *,
        status: Status | None = None,
        customer: str | None = None,
        placed_from: str | None = None,
        placed_to: str | None = None,
        sort: Sort = "placed_newest",
        page: int = 1,
        page_size: int = 20,
        with_items: bool = False,
    ) -> Page:
        """One page of the orders that match all filters, from one consistent snapshot.

        Args:
            customer: A part of the name or e-mail address, or a customer id; case is ignored.
            placed_from: First day, ``YYYY-MM-DD`` in UTC.
            placed_to: Last day, included.
            page: From 1; a page after the last is empty.
            page_size: At most ``MAX_PAGE_SIZE``, else it is cut to that.
        """
        size = max(1, min(page_size, MAX_PAGE_SIZE))
        where, values = _conditions(status, customer, placed_from, placed_to)
        with self._reading() as db:
            db.create_function("casefold", 1, str.casefold, deterministic=True)
            (matched,) = db.execute(
                f"SELECT count(*) FROM ({_SELECT}{where})",
                values,
            ).fetchone()
            rows = db.execute(
                f"{_SELECT}{where} ORDER BY {_ORDER_BY[sort]} LIMIT ? OFFSET ?",
                (*values, size, (max(page, 1) - 1) * size),
            ).fetchall()
            orders = tuple(_order(db, row, with_items) for row in rows)
        return Page(orders, matched, page, -(-matched // size))

    def history(self, order_id: str) -> tuple[Transaction, ...]:
        """Every recorded change of an order, oldest first.

        Raises:
            UnknownOrder: With near ids.
        """
        with self._reading() as db:
            _load(db, order_id)
            rows = db.execute(
                "SELECT * FROM transactions WHERE order_id = ? ORDER BY number", (order_id,)
            ).fetchall()
        return tuple(map(_transaction, rows))

    def find_transaction(self, idempotency_key: str) -> Transaction | None:
        """What was recorded under the key: the authority on whether a request happened.

        ``None`` means that nothing was committed under it up to now.
        """
        with self._reading() as db:
            return _find(db, idempotency_key)

    # Writing ------------------------------------------------------------------------------

    def cancel(self, order_id: str, expected_revision: int, idempotency_key: str) -> Transaction:
        """Cancel a pending order.

        Raises:
            UnknownOrder, Refused, KeyReused, DeskBusy: Nothing was changed.
            CommitUnknown: It may have happened.
        """
        request = {"order_id": order_id, "expected_revision": expected_revision}

        def change(order: Order) -> tuple[Order, dict[str, Any]]:
            after = check_cancel(order, expected_revision)
            return after, {"status": after.status}

        return self._write("cancel", order_id, request, idempotency_key, change)

    def refund(
        self, order_id: str, amount: int, currency: str, idempotency_key: str
    ) -> Transaction:
        """Pay back ``amount`` minor units of a delivered or cancelled order.

        Raises:
            UnknownOrder, Refused, KeyReused, DeskBusy: Nothing was changed.
            CommitUnknown: It may have happened.
        """
        request = {"order_id": order_id, "amount": money(amount), "currency": currency}

        def change(order: Order) -> tuple[Order, dict[str, Any]]:
            after = check_refund(order, amount, currency)
            return after, {"amount": money(amount)}

        return self._write("refund", order_id, request, idempotency_key, change)

    def _write(
        self,
        operation: str,
        order_id: str,
        request: dict[str, Any],
        key: str,
        change: Callable[[Order], tuple[Order, dict[str, Any]]],
    ) -> Transaction:
        """Answer from the record, or change the order and record it, in one transaction."""
        with self._changing(key) as db:
            recorded = _find(db, key)
            if recorded is not None:
                if (recorded.operation, recorded.request) != (operation, request):
                    raise KeyReused(
                        f"The idempotency key {key} belongs to {recorded.operation} of order "
                        f"{recorded.order_id} ({recorded.id}); this request was not run."
                    )
                return recorded
            after, result = change(_load(db, order_id))
            at = _iso(self._now())
            _save(db, replace(after, updated_at=at))
            result |= {
                "revision": after.revision,
                "refunded": money(after.refunded),
                "refundable": money(after.refundable),
                "currency": after.currency,
            }
            return _record(db, key, operation, order_id, request, result, at)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _errors_as_ours(), self._database.reading() as db:
            yield db

    @contextmanager
    def _changing(self, key: str) -> Iterator[sqlite3.Connection]:
        try:
            with _errors_as_ours(), self._database.changing() as db:
                yield db
        except CommitFailed as error:
            raise CommitUnknown(key, str(error)) from error


@contextmanager
def _errors_as_ours() -> Iterator[None]:
    try:
        yield
    except Locked as error:
        raise DeskBusy(
            "The order desk is busy with another change; nothing was changed."
        ) from error
    except Unusable as error:
        raise DeskError(
            f"The order desk's database cannot be used ({error}); nothing was changed."
        ) from error


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _conditions(
    status: str | None, customer: str | None, placed_from: str | None, placed_to: str | None
) -> tuple[str, list[str]]:
    """The WHERE clause of a listing and its values; all text goes through parameters."""
    terms: list[tuple[str, list[str]]] = []
    if status:
        terms.append(("o.status = ?", [status]))
    if customer:
        part = customer.strip().casefold()
        terms.append(
            (
                "(instr(casefold(c.name), ?) OR instr(casefold(c.email), ?) OR casefold(c.id) = ?)",
                [part, part, part],
            )
        )
    if placed_from:
        terms.append(("date(o.placed_at) >= ?", [placed_from]))
    if placed_to:
        terms.append(("date(o.placed_at) <= ?", [placed_to]))
    where = " WHERE " + " AND ".join(term for term, _ in terms) if terms else ""
    return where, [value for _, values in terms for value in values]


def _load(db: sqlite3.Connection, order_id: str) -> Order:
    row = db.execute(f"{_SELECT} WHERE o.id = ?", (order_id,)).fetchone()
    if row is None:
        raise UnknownOrder(order_id, _near(db, order_id))
    return _order(db, row, with_items=True)


def _near(db: sqlite3.Connection, order_id: str) -> tuple[str, ...]:
    """Up to three existing ids, those of the same letter and the closest number first."""
    letter, number = order_id[:1].upper(), order_id[1:]
    wanted = int(number) if re.fullmatch(r"[0-9]{1,9}", number) else 0

    def distance(known: str) -> tuple[bool, int, str]:
        return known[0] != letter, abs(int(known[1:]) - wanted), known

    ids = [row["id"] for row in db.execute("SELECT id FROM orders")]
    return tuple(sorted(ids, key=distance)[:3])


def _order(db: sqlite3.Connection, row: sqlite3.Row, with_items: bool) -> Order:
    items: tuple[Item, ...] = ()
    if with_items:
        lines = db.execute(
            "SELECT name, quantity, unit_price FROM items WHERE order_id = ? ORDER BY line",
            (row["id"],),
        )
        items = tuple(Item(*line) for line in lines)
    return Order(
        id=row["id"],
        customer_id=row["customer"],
        customer_name=row["customer_name"],
        customer_email=row["customer_email"],
        status=row["status"],
        currency=row["currency"],
        total=row["total"],
        refunded=row["refunded"],
        placed_at=row["placed_at"],
        updated_at=row["updated_at"],
        revision=row["revision"],
        items=items,
    )


def _save(db: sqlite3.Connection, order: Order) -> None:
    db.execute(
        "UPDATE orders SET status = ?, refunded = ?, updated_at = ?, revision = ? WHERE id = ?",
        (order.status, order.refunded, order.updated_at, order.revision, order.id),
    )


def _record(
    db: sqlite3.Connection,
    key: str,
    operation: str,
    order_id: str,
    request: Mapping[str, Any],
    result: Mapping[str, Any],
    at: str,
) -> Transaction:
    row = db.execute(
        "INSERT INTO transactions (key, operation, order_id, request, result, at)"
        " VALUES (?, ?, ?, ?, ?, ?) RETURNING *",
        (key, operation, order_id, json.dumps(request), json.dumps(result), at),
    ).fetchone()
    return _transaction(row)


def _find(db: sqlite3.Connection, key: str) -> Transaction | None:
    row = db.execute("SELECT * FROM transactions WHERE key = ?", (key,)).fetchone()
    return None if row is None else _transaction(row)


def _transaction(row: sqlite3.Row) -> Transaction:
    return Transaction(
        id=f"T{1000 + row['number']}",
        key=row["key"],
        operation=row["operation"],
        order_id=row["order_id"],
        request=json.loads(row["request"]),
        result=json.loads(row["result"]),
        at=row["at"],
    )


def _create(db: sqlite3.Connection) -> None:
    """Schema and sample data, inside the caller's transaction."""
    for statement in _SCHEMA:
        db.execute(statement)
    db.executemany(
        "INSERT INTO customers (id, name, email) VALUES (?, ?, ?)",
        [(key, *rest) for key, rest in sample_orders.CUSTOMERS.items()],
    )
    for order in sample_orders.ORDERS:
        _insert_sample(db, order)


def _insert_sample(db: sqlite3.Connection, sample: sample_orders.SampleOrder) -> None:
    """One sample order with its items and, when it has changed before, its transactions."""
    lines = sample_orders.order_lines(sample)
    total = sum(quantity * price for _, quantity, price in lines)
    steps = {"pending": 1, "shipped": 2, "cancelled": 2, "delivered": 3}[sample.status]
    db.execute(
        "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            sample.id,
            sample.customer,
            sample.status,
            sample.currency,
            total,
            sample.refunded,
            f"{sample.placed}T09:30:00Z",
            f"{sample.updated}T{'09:30' if sample.updated == sample.placed else '16:45'}:00Z",
            steps + (sample.refunded > 0),
        ),
    )
    db.executemany(
        "INSERT INTO items VALUES (?, ?, ?, ?, ?)",
        [(sample.id, number, *line) for number, line in enumerate(lines, 1)],
    )
    if sample.refunded:
        amount = money(sample.refunded)
        left = money(total - sample.refunded)
        _record(
            db,
            f"sample-refund-{sample.id}",
            "refund",
            sample.id,
            {"order_id": sample.id, "amount": amount, "currency": sample.currency},
            {
                "amount": amount,
                "revision": steps + 1,
                "refunded": amount,
                "refundable": left,
                "currency": sample.currency,
            },
            f"{sample.updated}T16:45:00Z",
        )
