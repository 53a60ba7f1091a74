"""What writes of the grocery shop would change, without changing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tools.contract import Args, Preview
from tools.grocery.arguments import wanted
from tools.grocery.results import card_of, price_of
from tools.service_tools import preview_change
from tools.worlds.amounts import minor_units, money
from tools.worlds.grocery import (
    Cart,
    Grocery,
    cart_of,
    check_cancel,
    check_discard,
    check_new_cart,
    check_order,
)
from tools.worlds.service import ServiceError


class GroceryPreviews:
    """Previews over one shop, for arguments that fit the schema."""

    def __init__(self, shop: Grocery) -> None:
        self._shop = shop

    def create(self, args: Args) -> Preview:
        """The cart that would be made, at present prices; or why it would be refused."""
        items = wanted(args["items"])
        try:
            products = [self._shop.product(item.product_id) for item in items]
            check_new_cart(items, {product.id: product for product in products})
        except ServiceError as error:
            return Preview(f"new cart: would fail. {error}")
        pairs = list(zip(items, products, strict=True))
        lines = [f"{w.quantity} × {p.name}, {money(p.price)} each" for w, p in pairs]
        total = money(sum(w.quantity * p.price for w, p in pairs))
        currency = products[0].currency
        text = "".join(f"{line}\n" for line in [*lines, f"total: {total} {currency}"])
        count = f"{len(lines)} product{'s' * (len(lines) > 1)}"
        summary = f"new cart: {count}, {total} {currency}; orders nothing"
        return preview_change(summary, "", text)

    def discard(self, args: Args) -> Preview:
        """The cart before and after; or why it would be refused."""
        return self._preview(
            args["cart_id"],
            check_discard,
            {"status": "discarded"},
            lambda cart: f"{cart.status} → discarded",
        )

    def order(self, args: Args) -> Preview:
        """The cart before and after, and what is paid; or why it would be refused."""
        total, currency = args["expected_total"], args["currency"]
        return self._preview(
            args["cart_id"],
            lambda cart: check_order(cart, minor_units(total), currency),
            {"status": "ordered", "order": f"placed, {total} {currency} paid"},
            lambda cart: f"{cart.status} → ordered, pays {total} {currency}",
        )

    def cancel(self, args: Args) -> Preview:
        """The order before and after; or why it would be refused."""
        return self._preview(
            cart_of(args["order_id"]),
            check_cancel,
            {"order": "cancelled"},
            lambda cart: f"order placed → cancelled, {price_of(cart)} paid back",
        )

    def _preview(
        self,
        cart_id: str,
        check: Callable[[Cart], None],
        change: Mapping[str, str],
        describe: Callable[[Cart], str],
    ) -> Preview:
        try:
            cart = self._shop.cart(cart_id)
        except ServiceError as error:
            return Preview(f"cart {cart_id}: would fail. {error}")
        try:
            check(cart)
        except ServiceError as error:
            return Preview(f"cart {cart_id}: would fail. {error}", before=card_of(cart))
        summary = f"cart {cart_id}: {describe(cart)}"
        return preview_change(summary, card_of(cart), card_of(cart, **change))
