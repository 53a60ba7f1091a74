"""A grocery shop: products, carts, and orders that cost money.

A cart commits to nothing. Ordering one does: it pays, and takes what is in it from the stock. An
order can be cancelled until it is packed, half an hour later. ``Grocery`` is the service as its
callers see it; ``GroceryShop`` keeps it in a database here, ``grocery_http`` puts it behind HTTP.
The errors are those of ``service``.
"""

from __future__ import annotations

import difflib
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol

from tools.worlds import sample_grocery
from tools.worlds.amounts import Currency, Minor, money
from tools.worlds.service import (
    Book,
    NotFound,
    Refused,
    Transaction,
    iso,
    page_bounds,
    utc_now,
)

CartStatus = Literal["open", "ordered", "discarded"]
OrderStatus = Literal["placed", "packed", "cancelled"]

PACKED_AFTER = timedelta(minutes=30)
MAX_LINES = 30
MAX_QUANTITY = 99

_SCHEMA_VERSION = 1
_SCHEMA = (
    """CREATE TABLE products (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT NOT NULL,
        description TEXT NOT NULL, price INTEGER NOT NULL CHECK (price > 0),
        stock INTEGER NOT NULL CHECK (stock >= 0)) STRICT""",
    """CREATE TABLE carts (
        number INTEGER PRIMARY KEY,
        status TEXT NOT NULL CHECK (status IN ('open', 'ordered', 'discarded')),
        made_at TEXT NOT NULL, ordered_at TEXT, cancelled_at TEXT,
        revision INTEGER NOT NULL CHECK (revision > 0),
        CHECK ((status = 'ordered') = (ordered_at IS NOT NULL))) STRICT""",
    """CREATE TABLE lines (
        cart INTEGER NOT NULL REFERENCES carts (number), line INTEGER NOT NULL,
        product TEXT NOT NULL REFERENCES products (id),
        quantity INTEGER NOT NULL CHECK (quantity > 0), paid INTEGER,
        PRIMARY KEY (cart, line)) STRICT""",
)


@dataclass(frozen=True)
class Product:
    """A product as it stands; ``description`` is the text of whoever sells it."""

    id: str
    name: str
    description: str
    price: Minor
    currency: Currency
    stock: int


@dataclass(frozen=True)
class Products:
    """One page of what was found: ``matched`` products in all, on ``pages`` pages."""

    products: tuple[Product, ...]
    matched: int
    page: int
    pages: int


@dataclass(frozen=True)
class Wanted:
    """So many of a product."""

    product_id: str
    quantity: int


@dataclass(frozen=True)
class Line:
    """One line of a cart.

    Args:
        unit_price: Of an ordered cart what was paid, else the present price.
        stock: How many the shop has now.
    """

    product_id: str
    name: str
    quantity: int
    unit_price: Minor
    stock: int


@dataclass(frozen=True)
class Order:
    """The order of a cart; it can be cancelled until ``packed_at``."""

    id: str
    status: OrderStatus
    placed_at: str
    packed_at: str


@dataclass(frozen=True)
class Cart:
    """A cart as it stands; ``revision`` grows by one with every change of its status."""

    id: str
    status: CartStatus
    lines: tuple[Line, ...]
    currency: Currency
    made_at: str
    revision: int
    order: Order | None

    @property
    def total(self) -> int:
        """In minor units: of an ordered cart what was paid, else at present prices."""
        return sum(line.quantity * line.unit_price for line in self.lines)

    def holds(self, wanted: Sequence[Wanted]) -> bool:
        """Whether it has exactly these products in these quantities."""
        held = {line.product_id: line.quantity for line in self.lines}
        return held == {one.product_id: one.quantity for one in wanted} and len(held) == len(wanted)


@dataclass(frozen=True)
class Carts:
    """One page of carts, newest first: ``matched`` in all, on ``pages`` pages."""

    carts: tuple[Cart, ...]
    matched: int
    page: int
    pages: int


class Grocery(Protocol):
    """The service as its callers see it. All methods raise the errors of ``service``.

    A write is sent under an idempotency key: the same request under the same key counts once,
    another request under it is refused.
    """

    @property
    def honours_keys(self) -> bool:
        """``False``: keys are ignored, and a request that is sent twice counts twice."""
        ...

    @property
    def remote(self) -> bool:
        """Whether a request may still arrive after its sender has given it up."""
        ...

    def search(self, query: str, page: int, page_size: int) -> Products:
        """Products with all words of the query in id, name or description, names coming first."""
        ...

    def product(self, product_id: str) -> Product: ...

    def cart(self, cart_id: str) -> Cart: ...

    def carts(self, status: CartStatus | None, page: int, page_size: int) -> Carts: ...

    def find(self, key: str) -> Transaction | None:
        """What was recorded under the key; ``None``: nothing so far."""
        ...

    def create_cart(self, items: Sequence[Wanted], key: str) -> Transaction: ...

    def discard_cart(self, cart_id: str, key: str) -> Transaction: ...

    def place_order(
        self, cart_id: str, expected_total: int, currency: str, key: str
    ) -> Transaction: ...

    def cancel_order(self, order_id: str, key: str) -> Transaction: ...


# What is allowed ---------------------------------------------------------------------------


def check_new_cart(items: Sequence[Wanted], products: Mapping[str, Product]) -> None:
    """Raise ``Refused`` unless a cart of these products can be made now."""
    if not 0 < len(items) <= MAX_LINES:
        raise Refused(f"A cart has 1 to {MAX_LINES} different products.")
    ids = [item.product_id for item in items]
    for item in items:
        product = products[item.product_id]
        if ids.count(product.id) > 1:
            raise Refused(f"{product.id} is in the list more than once. Put its quantities in one.")
        if not 0 < item.quantity <= MAX_QUANTITY:
            raise Refused(f"{product.id}: a quantity is 1 to {MAX_QUANTITY}.")
        _check_stock(product.id, product.name, item.quantity, product.stock)


def check_discard(cart: Cart) -> None:
    """Raise ``Refused`` unless the cart can be discarded."""
    if cart.status == "discarded":
        raise Refused(f"Cart {cart.id} is discarded already.")
    if cart.status == "ordered":
        raise Refused(f"Cart {cart.id} was ordered as {order_of(cart.id)}; it stays on record.")


def check_order(cart: Cart, expected_total: int, currency: str) -> None:
    """Raise ``Refused`` unless the cart can be ordered for exactly this amount."""
    if cart.status == "ordered":
        raise Refused(f"Cart {cart.id} was ordered already, as {order_of(cart.id)}.")
    if cart.status == "discarded":
        raise Refused(f"Cart {cart.id} was discarded; make a new one.")
    if currency != cart.currency:
        raise Refused(f"Cart {cart.id} is in {cart.currency}, not in {currency}.")
    for line in cart.lines:
        _check_stock(line.product_id, line.name, line.quantity, line.stock)
    if expected_total != cart.total:
        raise Refused(
            f"Cart {cart.id} costs {money(cart.total)} {cart.currency} now, not "
            f"{money(expected_total)}. Read it again, then decide."
        )


def check_cancel(cart: Cart) -> None:
    """Raise ``Refused`` unless the cart's order can still be cancelled."""
    order = cart.order
    if order is None:
        raise Refused(f"Cart {cart.id} was never ordered.")
    if order.status == "cancelled":
        raise Refused(f"Order {order.id} is cancelled already.")
    if order.status == "packed":
        raise Refused(f"Order {order.id} was packed at {order.packed_at}; it is on its way.")


def _check_stock(product_id: str, name: str, wanted: int, stock: int) -> None:
    if stock == 0:
        raise Refused(f"{product_id} ({name}) is not available now. Search for another one.")
    if wanted > stock:
        raise Refused(f"Of {product_id} ({name}) there are only {stock}, {wanted} are wanted.")


def order_of(cart_id: str) -> str:
    """An order has the number of its cart: ``"C17"`` → ``"O17"``."""
    return f"O{cart_id[1:]}"


def cart_of(order_id: str) -> str:
    """``"O17"`` → ``"C17"``."""
    return f"C{order_id[1:]}"


# The shop ----------------------------------------------------------------------------------


class GroceryShop:
    """The shop over one database file, for one customer; it appears with sample data.

    Args:
        path: The database file; its folder is made when missing, readable by the owner only.
        honours_keys: ``False`` for a shop that ignores idempotency keys.
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
            name="grocery shop",
            letter="G",
            honours_keys=honours_keys,
            busy_timeout=busy_timeout,
            now=now,
        )

    def search(self, query: str, page: int = 1, page_size: int = 10) -> Products:
        words = re.findall(r"[^\W_]+", query.casefold())
        with self._book.reading() as db:
            found = [product for product in _products(db) if _matches(product, words)]
        found.sort(key=lambda product: -sum(w in product.name.casefold() for w in words))
        size, start = page_bounds(page, page_size)
        shown = tuple(found[start : start + size])
        return Products(shown, len(found), page, -(-len(found) // size))

    def product(self, product_id: str) -> Product:
        with self._book.reading() as db:
            return _product(db, product_id)

    def cart(self, cart_id: str) -> Cart:
        with self._book.reading() as db:
            return _cart(db, cart_id, self._book.now())

    def carts(self, status: CartStatus | None = None, page: int = 1, page_size: int = 20) -> Carts:
        size, start = page_bounds(page, page_size)
        with self._book.reading() as db:
            where, values = ("WHERE status = ?", [status]) if status else ("", [])
            (matched,) = db.execute(f"SELECT count(*) FROM carts {where}", values).fetchone()
            rows = db.execute(
                f"SELECT * FROM carts {where} ORDER BY number DESC LIMIT ? OFFSET ?",
                (*values, size, start),
            ).fetchall()
            carts = tuple(_as_cart(db, row, self._book.now()) for row in rows)
        return Carts(carts, matched, page, -(-matched // size))

    def find(self, key: str) -> Transaction | None:
        return self._book.find(key)

    def create_cart(self, items: Sequence[Wanted], key: str) -> Transaction:
        request = {"items": [[item.product_id, item.quantity] for item in items]}

        def change(db: sqlite3.Connection, at: str) -> tuple[str, dict[str, Any]]:
            check_new_cart(
                items, {item.product_id: _product(db, item.product_id) for item in items}
            )
            cart_id = _insert_cart(db, items, at)
            return cart_id, _result(_cart(db, cart_id, self._book.now()))

        with self._book.changing() as db:
            return self._book.once(db, key, "create_cart", request, change)

    def discard_cart(self, cart_id: str, key: str) -> Transaction:
        def change(db: sqlite3.Connection, cart: Cart, at: str) -> None:
            check_discard(cart)
            db.execute(
                "UPDATE carts SET status = 'discarded', revision = revision + 1 WHERE number = ?",
                (_number(cart_id),),
            )

        return self._change_cart(cart_id, "discard_cart", {"cart_id": cart_id}, key, change)

    def place_order(
        self, cart_id: str, expected_total: int, currency: str, key: str
    ) -> Transaction:
        request = {"cart_id": cart_id, "total": money(expected_total), "currency": currency}

        def change(db: sqlite3.Connection, cart: Cart, at: str) -> None:
            check_order(cart, expected_total, currency)
            for line in cart.lines:
                _take(db, line, line.quantity)
                db.execute(
                    "UPDATE lines SET paid = ? WHERE cart = ? AND product = ?",
                    (line.unit_price, _number(cart_id), line.product_id),
                )
            db.execute(
                "UPDATE carts SET status = 'ordered', ordered_at = ?, revision = revision + 1"
                " WHERE number = ?",
                (at, _number(cart_id)),
            )

        return self._change_cart(cart_id, "place_order", request, key, change)

    def cancel_order(self, order_id: str, key: str) -> Transaction:
        cart_id = cart_of(order_id)

        def change(db: sqlite3.Connection, cart: Cart, at: str) -> None:
            check_cancel(cart)
            for line in cart.lines:
                _take(db, line, -line.quantity)
            db.execute(
                "UPDATE carts SET cancelled_at = ?, revision = revision + 1 WHERE number = ?",
                (at, _number(cart_id)),
            )

        return self._change_cart(cart_id, "cancel_order", {"order_id": order_id}, key, change)

    def _change_cart(
        self,
        cart_id: str,
        operation: str,
        request: Mapping[str, Any],
        key: str,
        change: Callable[[sqlite3.Connection, Cart, str], None],
    ) -> Transaction:
        def change_and_show(db: sqlite3.Connection, at: str) -> tuple[str, dict[str, Any]]:
            change(db, _cart(db, cart_id, self._book.now()), at)
            return cart_id, _result(_cart(db, cart_id, self._book.now()))

        with self._book.changing() as db:
            return self._book.once(db, key, operation, request, change_and_show)


def _matches(product: Product, words: Sequence[str]) -> bool:
    text = f"{product.id} {product.name} {product.description}".casefold()
    return bool(words) and all(word in text for word in words)


def _result(cart: Cart) -> dict[str, Any]:
    """What is answered, and kept, after a change."""
    return {
        "cart_id": cart.id,
        "status": cart.status,
        "total": money(cart.total),
        "currency": cart.currency,
        "revision": cart.revision,
        "order_id": cart.order.id if cart.order else None,
        "order_status": cart.order.status if cart.order else None,
        "packed_at": cart.order.packed_at if cart.order else None,
    }


def _number(cart_id: str) -> int:
    """The number in a cart's id; of a text that is none, one that no cart has."""
    return int(cart_id[1:]) if re.fullmatch(r"C[0-9]{1,9}", cart_id) else 0


def _products(db: sqlite3.Connection) -> Iterator[Product]:
    for row in db.execute("SELECT * FROM products ORDER BY number"):
        yield _as_product(row)


def _product(db: sqlite3.Connection, product_id: str) -> Product:
    row = db.execute("SELECT * FROM products WHERE id = ?", (product_id,)).fetchone()
    if row is None:
        raise NotFound(_no_product(product_id, list(_products(db))))
    return _as_product(row)


def _as_product(row: sqlite3.Row) -> Product:
    return Product(
        id=row["id"],
        name=row["name"],
        description=row["description"],
        price=row["price"],
        currency=sample_grocery.CURRENCY,
        stock=row["stock"],
    )


def _no_product(wanted: str, products: Sequence[Product]) -> str:
    """Which products somebody may have meant who named one instead of giving its id."""
    meant = [p for p in products if wanted.casefold().strip() in p.name.casefold()]
    if not meant:
        names = [product.name for product in products]
        near = difflib.get_close_matches(wanted, names, n=3, cutoff=0.5)
        meant = [product for product in products if product.name in near]
    if not meant:
        return f"There is no product {wanted!r}. Search for it, and use an id such as P3."
    shown = ", ".join(f"{product.id} ({product.name})" for product in meant[:5])
    ask = " Ask which one is meant." if len(meant) > 1 else ""
    return f"There is no product with the id {wanted!r}. It may be {shown}.{ask} Use its id."


def _cart(db: sqlite3.Connection, cart_id: str, now: datetime) -> Cart:
    row = db.execute("SELECT * FROM carts WHERE number = ?", (_number(cart_id),)).fetchone()
    if row is None:
        rows = db.execute("SELECT number FROM carts WHERE status = 'open' ORDER BY number DESC")
        there = ", ".join(f"C{row['number']}" for row in rows.fetchmany(5))
        raise NotFound(f"There is no cart {cart_id!r}. Open carts: {there or 'none'}.")
    return _as_cart(db, row, now)


def _as_cart(db: sqlite3.Connection, row: sqlite3.Row, now: datetime) -> Cart:
    lines = db.execute(
        """SELECT p.id, p.name, quantity, coalesce(paid, price), stock
           FROM lines JOIN products p ON p.id = product WHERE cart = ? ORDER BY line""",
        (row["number"],),
    ).fetchall()
    return Cart(
        id=f"C{row['number']}",
        status=row["status"],
        lines=tuple(Line(*line) for line in lines),
        currency=sample_grocery.CURRENCY,
        made_at=row["made_at"],
        revision=row["revision"],
        order=_order(row, now) if row["ordered_at"] else None,
    )


def _order(row: sqlite3.Row, now: datetime) -> Order:
    packed_at = iso(datetime.fromisoformat(row["ordered_at"]) + PACKED_AFTER)
    status: OrderStatus = "packed" if iso(now) >= packed_at else "placed"
    if row["cancelled_at"]:
        status = "cancelled"
    return Order(f"O{row['number']}", status, row["ordered_at"], packed_at)


def _take(db: sqlite3.Connection, line: Line, quantity: int) -> None:
    """Take so many from the stock; a negative quantity is put back."""
    db.execute("UPDATE products SET stock = stock - ? WHERE id = ?", (quantity, line.product_id))


def _insert_cart(db: sqlite3.Connection, items: Sequence[Wanted], at: str) -> str:
    (number,) = db.execute("SELECT max(number) + 1 FROM carts").fetchone()
    db.execute("INSERT INTO carts VALUES (?, 'open', ?, NULL, NULL, 1)", (number, at))
    db.executemany(
        "INSERT INTO lines VALUES (?, ?, ?, ?, NULL)",
        [(number, line, item.product_id, item.quantity) for line, item in enumerate(items, 1)],
    )
    return f"C{number}"


def _create(db: sqlite3.Connection) -> None:
    """Schema and sample data, inside the caller's transaction."""
    for statement in _SCHEMA:
        db.execute(statement)
    db.executemany(
        "INSERT INTO products VALUES (?, ?, ?, ?, ?, ?)",
        [
            (number, sample.id, sample.name, sample.description, sample.price, sample.stock)
            for number, sample in enumerate(sample_grocery.PRODUCTS, 1)
        ],
    )
    for cart in sample_grocery.CARTS:
        _insert_sample(db, cart)


def _insert_sample(db: sqlite3.Connection, cart: sample_grocery.SampleCart) -> None:
    ordered = cart.status == "ordered"
    db.execute(
        "INSERT INTO carts VALUES (?, ?, ?, ?, NULL, ?)",
        (
            cart.number,
            cart.status,
            cart.made,
            cart.made if ordered else None,
            1 + (cart.status != "open"),
        ),
    )
    db.executemany(
        "INSERT INTO lines VALUES (?, ?, ?, ?, ?)",
        [
            (cart.number, line, product, quantity, price if ordered else None)
            for line, (product, quantity, price) in enumerate(sample_grocery.cart_lines(cart), 1)
        ],
    )
