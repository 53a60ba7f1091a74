"""What must have been seen in a session before a write of the grocery shop is proposed.

Evidence is what tools of this session returned. All functions take arguments that fit the schema,
and any evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.contract import Args, Call, Evidence, Unmet
from tools.service_tools import as_object
from tools.worlds.grocery import cart_of


def reading(args: Args) -> Call:
    """The read that shows a cart."""
    return Call("get_cart", {"cart_id": args["cart_id"]})


def products_were_seen(args: Args, evidence: Sequence[Evidence]) -> Unmet | None:
    """Each product was found by a search, and was there in that quantity, as it was last seen.

    The arguments fit the schema. An order that was placed or cancelled has moved the stock, so
    what was seen before it does not count.
    """
    seen: dict[str, Mapping[str, Any]] = {}
    for one in evidence:
        if one.tool in ("place_order", "cancel_grocery_order"):
            seen.clear()
        elif one.tool == "search_products":
            for product in _listed(one, "products"):
                seen[str(product.get("product_id"))] = product
    for item in args["items"]:
        product_id, quantity = item["product_id"], item["quantity"]
        search = Call("search_products", {"query": product_id})
        if product_id not in seen:
            return Unmet(f"Product {product_id} is in no search result of this session.", search)
        product = seen[product_id]
        stock, name = product.get("stock"), product.get("name")
        if not isinstance(stock, int) or stock < quantity:
            return Unmet(
                f"Of {product_id} ({name}) the search showed {stock}; {quantity} are wanted. "
                "Choose another product or fewer of it."
            )
    return None


def cart_was_seen_open(args: Args, evidence: Sequence[Evidence]) -> Unmet | None:
    """The cart was open when it was last seen; this session's own changes of it count as well."""
    cart_id = args["cart_id"]
    cart = _cart_seen(cart_id, evidence)
    if cart is None:
        return Unmet(f"Cart {cart_id} was not read since it last changed.", reading(args))
    if cart.get("status") != "open":
        return Unmet(f"Cart {cart_id} was {cart.get('status')} when it was last read.")
    return None


def total_was_seen(args: Args, evidence: Sequence[Evidence]) -> Unmet | None:
    """The cart was open, at exactly this total, when it was last seen."""
    if (missing := cart_was_seen_open(args, evidence)) is not None:
        return missing
    cart = _cart_seen(args["cart_id"], evidence) or {}
    if (cart.get("total"), cart.get("currency")) != (args["expected_total"], args["currency"]):
        return Unmet(
            f"Cart {args['cart_id']} was last seen at {cart.get('total')} {cart.get('currency')}, "
            f"not at {args['expected_total']} {args['currency']}.",
            reading(args),
        )
    return None


def order_was_seen(args: Args, evidence: Sequence[Evidence]) -> Unmet | None:
    """The order was placed, and neither packed nor cancelled, when it was last seen."""
    order_id = args["order_id"]
    status: object = None
    for one in evidence:
        result = as_object(one.result)
        if one.tool == "get_cart" and isinstance(order := result.get("order"), Mapping):
            seen, word = order.get("order_id"), order.get("status")
        elif one.tool in ("place_order", "cancel_grocery_order"):
            seen, word = result.get("order_id"), result.get("order_status")
        else:
            continue
        status = word if seen == order_id else status
    if status is None:
        read = reading({"cart_id": cart_of(order_id)})
        return Unmet(f"Order {order_id} was never read in this session.", read)
    if status != "placed":
        return Unmet(f"Order {order_id} was {status} when it was last read.")
    return None


def _cart_seen(cart_id: str, evidence: Sequence[Evidence]) -> Mapping[str, Any] | None:
    """The cart as a result showed it last; ``None`` when none did since this session changed it.

    What made the cart shows it as well: its result is the shop's, not the model's.
    """
    seen: Mapping[str, Any] | None = None
    for one in evidence:
        if one.tool in ("get_cart", "create_grocery_cart"):
            shown = [as_object(one.result)]
        elif one.tool == "list_carts":
            shown = _listed(one, "carts")
        elif one.tool in ("place_order", "discard_cart") and one.args.get("cart_id") == cart_id:
            seen, shown = None, []
        else:
            continue
        seen = next((cart for cart in shown if cart.get("cart_id") == cart_id), seen)
    return seen


def _listed(one: Evidence, name: str) -> list[Mapping[str, Any]]:
    """The records that a listing shows under this name."""
    records = as_object(one.result).get(name)
    return [r for r in records if isinstance(r, Mapping)] if isinstance(records, list) else []
