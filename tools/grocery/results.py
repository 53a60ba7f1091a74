"""What the tools of the grocery shop return, and records as people read them."""

from __future__ import annotations

from typing import Any

from tools.service_tools import Strict
from tools.worlds.amounts import Currency, money
from tools.worlds.grocery import Cart, CartStatus, OrderStatus
from tools.worlds.service import Transaction


class FoundProduct(Strict):
    """A product that was found; ``description`` is its seller's text."""

    product_id: str
    name: str
    price: str
    currency: Currency
    stock: int
    description: str


class Found(Strict):
    """What ``search_products`` returns; ``matched`` counts all pages."""

    products: list[FoundProduct]
    matched: int
    page: int
    pages: int
    note: str


class CartItem(Strict):
    """One line of a cart; ``stock`` is how many the shop has now."""

    product_id: str
    name: str
    quantity: int
    unit_price: str
    stock: int


class CartOrder(Strict):
    """A cart's order; it can be cancelled until ``packed_at`` (UTC)."""

    order_id: str
    status: OrderStatus
    placed_at: str
    packed_at: str


class CartLine(Strict):
    """One cart of a list; ``made`` is a time in UTC."""

    cart_id: str
    status: CartStatus
    products: int
    total: str
    currency: Currency
    made: str
    revision: int


class CartPage(Strict):
    """What ``list_carts`` returns, newest first; ``matched`` counts all pages."""

    carts: list[CartLine]
    matched: int
    page: int
    pages: int


class WholeCart(Strict):
    """A cart's record; ``made`` is a time in UTC."""

    cart_id: str
    status: CartStatus
    items: list[CartItem]
    total: str
    currency: Currency
    made: str
    revision: int
    order: CartOrder | None


class Changed(Strict):
    """What a change returns: the cart as it was left, and its order where there is one."""

    done: str
    transaction: str
    cart_id: str
    status: CartStatus
    total: str
    currency: Currency
    revision: int
    order_id: str | None = None
    order_status: OrderStatus | None = None
    packed_at: str | None = None


# Rendering ---------------------------------------------------------------------------------


def search_note(matched: int, page: int, pages: int) -> str:
    if matched == 0:
        return "Nothing was found. Try fewer or other words, or ask the user."
    if page > pages:
        return f"There is no page {page}; the last is page={pages}."
    which = "Several match: when it is not clear which is meant, ask. " if matched > 1 else ""
    return f"{which}page {page} of {pages}" + (f"; next: page={page + 1}" if page < pages else "")


def cart_line(cart: Cart) -> CartLine:
    return CartLine(
        cart_id=cart.id,
        status=cart.status,
        products=len(cart.lines),
        total=money(cart.total),
        currency=cart.currency,
        made=cart.made_at,
        revision=cart.revision,
    )


def whole_cart(cart: Cart) -> WholeCart:
    return WholeCart(
        cart_id=cart.id,
        status=cart.status,
        items=[
            CartItem(
                product_id=line.product_id,
                name=line.name,
                quantity=line.quantity,
                unit_price=money(line.unit_price),
                stock=line.stock,
            )
            for line in cart.lines
        ],
        total=money(cart.total),
        currency=cart.currency,
        made=cart.made_at,
        revision=cart.revision,
        order=cart.order
        and CartOrder(
            order_id=cart.order.id,
            status=cart.order.status,
            placed_at=cart.order.placed_at,
            packed_at=cart.order.packed_at,
        ),
    )


def changed(done: Transaction) -> Changed:
    result = done.result
    amount = f"{result['total']} {result['currency']}"
    words = {
        "create_cart": f"cart {done.subject} made, {amount}; nothing was ordered",
        "discard_cart": f"cart {done.subject} discarded",
        "place_order": f"cart {done.subject} ordered for {amount}",
        "cancel_order": f"order {result['order_id']} cancelled, {amount} paid back",
    }
    return Changed(done=words[done.operation], transaction=done.id, **result)


def record_of(cart: Cart) -> dict[str, Any]:
    return whole_cart(cart).model_dump()


def state_of(cart: Cart) -> str:
    order = f" as {cart.order.id} ({cart.order.status})" if cart.order else ""
    return f"{cart.status}{order}, {price_of(cart)}"


def price_of(cart: Cart) -> str:
    return f"{money(cart.total)} {cart.currency}"


def card_of(cart: Cart, **fields_after: str) -> str:
    """The record as a person reads it, a field a line; ``fields_after`` will differ."""
    items = ", ".join(f"{line.quantity} × {line.name}" for line in cart.lines)
    fields = {
        "cart": cart.id,
        "status": cart.status,
        "items": items,
        "total": price_of(cart),
        "order": f"{cart.order.id}, {cart.order.status}" if cart.order else "none",
    }
    return "".join(f"{name}: {value}\n" for name, value in {**fields, **fields_after}.items())
