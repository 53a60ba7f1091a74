"""The grocery shop over HTTP: the service, and ``Grocery`` as a caller of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from starlette.types import ASGIApp

from tools.worlds.amounts import Currency, Minor
from tools.worlds.grocery import (
    Cart,
    Carts,
    CartStatus,
    Grocery,
    Product,
    Products,
    Wanted,
)
from tools.worlds.http_client import HttpService
from tools.worlds.http_service import Arguments, ByKey, Id, Operation, Page, PageSize, http_service
from tools.worlds.service import Transaction


class _Search(Arguments):
    query: Annotated[str, Field(max_length=200)]
    page: Page
    page_size: PageSize


class _ProductId(Arguments):
    product_id: Id


class _CartId(Arguments):
    cart_id: Id


class _OrderId(Arguments):
    order_id: Id


class _Carts(Arguments):
    status: CartStatus | None = None
    page: Page
    page_size: PageSize


class _Items(Arguments):
    items: Annotated[tuple[Wanted, ...], Field(max_length=100)]


class _Placed(Arguments):
    cart_id: Id
    expected_total: Minor
    currency: Currency


_TRANSACTION = TypeAdapter(Transaction)

SEARCH = Operation("search", _Search, TypeAdapter(Products))
PRODUCT = Operation("product", _ProductId, TypeAdapter(Product))
CART = Operation("cart", _CartId, TypeAdapter(Cart))
CARTS = Operation("carts", _Carts, TypeAdapter(Carts))
FIND: Operation[Transaction | None] = Operation("find", ByKey, TypeAdapter(Transaction | None))
CREATE_CART = Operation("create_cart", _Items, _TRANSACTION, writes=True)
DISCARD_CART = Operation("discard_cart", _CartId, _TRANSACTION, writes=True)
PLACE_ORDER = Operation("place_order", _Placed, _TRANSACTION, writes=True)
CANCEL_ORDER = Operation("cancel_order", _OrderId, _TRANSACTION, writes=True)


def grocery_service(shop: Grocery, token: str) -> ASGIApp:
    """The shop over HTTP, for callers that know ``token``."""
    operations = (
        SEARCH,
        PRODUCT,
        CART,
        CARTS,
        FIND,
        CREATE_CART,
        DISCARD_CART,
        PLACE_ORDER,
        CANCEL_ORDER,
    )
    return http_service(shop, operations, token, honours_keys=shop.honours_keys)


class HttpGrocery:
    """A grocery shop behind HTTP.

    Args:
        url: Where it is.
        token: Its bearer token.
        honours_keys: Whether it counts a request once a key.
        timeout: Seconds for a connection, and as many for the answer.
    """

    remote = True

    def __init__(
        self, url: str, token: str, *, honours_keys: bool = True, timeout: float = 10.0
    ) -> None:
        self.honours_keys = honours_keys
        self._http = HttpService(
            url, token, name="grocery shop", honours_keys=honours_keys, timeout=timeout
        )

    def search(self, query: str, page: int = 1, page_size: int = 10) -> Products:
        return self._http.read(SEARCH, query=query, page=page, page_size=page_size)

    def product(self, product_id: str) -> Product:
        return self._http.read(PRODUCT, product_id=product_id)

    def cart(self, cart_id: str) -> Cart:
        return self._http.read(CART, cart_id=cart_id)

    def carts(self, status: CartStatus | None = None, page: int = 1, page_size: int = 20) -> Carts:
        return self._http.read(CARTS, status=status, page=page, page_size=page_size)

    def find(self, key: str) -> Transaction | None:
        return self._http.read(FIND, key=key)

    def create_cart(self, items: Sequence[Wanted], key: str) -> Transaction:
        return self._write(CREATE_CART, key, items=tuple(items))

    def discard_cart(self, cart_id: str, key: str) -> Transaction:
        return self._write(DISCARD_CART, key, cart_id=cart_id)

    def place_order(
        self, cart_id: str, expected_total: int, currency: str, key: str
    ) -> Transaction:
        return self._write(
            PLACE_ORDER, key, cart_id=cart_id, expected_total=expected_total, currency=currency
        )

    def cancel_order(self, order_id: str, key: str) -> Transaction:
        return self._write(CANCEL_ORDER, key, order_id=order_id)

    def _write(self, operation: Operation[Transaction], key: str, **arguments: Any) -> Transaction:
        return self._http.write(operation, key, **arguments)
