"""What the grocery shop's own record says of a write, and how one is undone.

``verify_*`` look after a write that was answered, ``find_*`` after one whose answer was lost. All
take arguments that fit the schema, and any result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from tools.contract import Args, Call, CallInfo, Committed, Finding
from tools.grocery.arguments import wanted
from tools.grocery.results import changed, record_of, state_of
from tools.service_tools import as_object, finding
from tools.worlds.amounts import money
from tools.worlds.grocery import Cart, Grocery, OrderStatus, Wanted, cart_of
from tools.worlds.service import NotFound


class GroceryRecord:
    """The record of one shop."""

    def __init__(self, shop: Grocery) -> None:
        self._shop = shop

    def verify_create(self, args: Args, info: CallInfo, result: object) -> Finding:
        """Whether there is a cart of the answer's id with exactly these products."""
        items = wanted(args["items"])
        return self._verify(info, result, lambda cart: cart.holds(items))

    def find_create(self, args: Args, info: CallInfo) -> Finding:
        """What the shop recorded under the key; without keys, which carts it may have been."""
        if self._shop.honours_keys:
            request = {"items": [[i["product_id"], i["quantity"]] for i in args["items"]]}
            return self._recorded(info, "create_cart", request)
        return finding(lambda: self._same_carts(wanted(args["items"])))

    def verify_discard(self, args: Args, info: CallInfo, result: object) -> Finding:
        """Whether the cart is discarded now."""
        return self._verify(info, result, lambda cart: cart.status == "discarded")

    def find_discard(self, args: Args, info: CallInfo) -> Finding:
        """What the shop recorded under the key; without keys, what the cart says."""
        if self._shop.honours_keys:
            return self._recorded(info, "discard_cart", {"cart_id": args["cart_id"]})
        return self._by_state(
            args["cart_id"],
            lambda cart: {"discarded": True, "ordered": False}.get(cart.status),
        )

    def verify_order(self, args: Args, info: CallInfo, result: object) -> Finding:
        """Whether the cart has an order, for exactly this amount."""
        return self._verify(info, result, lambda cart: _is_ordered_for(cart, args))

    def find_order(self, args: Args, info: CallInfo) -> Finding:
        """What the shop recorded under the key; without keys, what the cart says.

        A cart is ordered once at most, so an order of it for this amount is this one.
        """
        if self._shop.honours_keys:
            request = {
                "cart_id": args["cart_id"],
                "total": args["expected_total"],
                "currency": args["currency"],
            }
            return self._recorded(info, "place_order", request)
        return self._by_state(
            args["cart_id"],
            lambda cart: None if cart.status == "open" else _is_ordered_for(cart, args),
        )

    def verify_cancel(self, args: Args, info: CallInfo, result: object) -> Finding:
        """Whether the order is cancelled now."""
        return self._verify(info, result, partial(_order_is, "cancelled"))

    def find_cancel(self, args: Args, info: CallInfo) -> Finding:
        """What the shop recorded under the key; without keys, what the order says."""
        if self._shop.honours_keys:
            return self._recorded(info, "cancel_order", {"order_id": args["order_id"]})
        return self._by_state(
            cart_of(args["order_id"]),
            lambda cart: None if _order_is("placed", cart) else _order_is("cancelled", cart),
        )

    def _recorded(self, info: CallInfo, operation: str, request: Mapping[str, Any]) -> Finding:
        return finding(lambda: self._under_key(info.idempotency_key, operation, request))

    def _under_key(self, key: str | None, operation: str, request: Mapping[str, Any]) -> Finding:
        if key is None:
            return Finding(None, "The call had no key that the shop could be asked about.")
        done = self._shop.find(key)
        if done is None:
            return self._nothing("The shop has recorded nothing under this call's key")
        record = {"transaction": done.id, "operation": done.operation, "request": done.request}
        record |= {"at": done.at, **done.result}
        if (done.operation, done.request) != (operation, request):
            return Finding(None, f"The key belongs to another request, {done.id}.", record)
        answer = changed(done)
        summary = f"The shop recorded it as {done.id} at {done.at}: {answer.done}."
        return Finding(True, summary, record, done.id, answer.model_dump_json())

    def _nothing(self, what: str) -> Finding:
        """What is not there has not happened, unless the request may still be on its way."""
        if self._shop.remote:
            return Finding(None, f"{what} so far; the request may still be on its way.")
        return Finding(False, f"{what}.")

    def _by_state(self, cart_id: str, judge: Callable[[Cart], bool | None]) -> Finding:
        """For a shop without keys: whether the cart is in the state that the call leads to.

        Args:
            judge: ``None`` for the state that the call starts from.
        """

        def ask() -> Finding:
            cart = self._shop.cart(cart_id)
            happened = judge(cart)
            if happened is None:
                return self._nothing(f"Cart {cart_id} is {state_of(cart)}")
            return Finding(happened, f"Cart {cart_id} is {state_of(cart)}.", record_of(cart))

        return finding(ask)

    def _same_carts(self, items: Sequence[Wanted]) -> Finding:
        """For a shop without keys: carts with these products. Which call made one, none tells."""
        same = [cart for cart in self._all_carts() if cart.holds(items)]
        if not same:
            return self._nothing("There is no cart with exactly these products")
        shown = ", ".join(f"{cart.id} ({cart.status}, made {cart.made_at})" for cart in same[:5])
        return Finding(
            None,
            f"There is {shown} with exactly these products. The shop keeps no keys, so whether "
            "this call made it cannot be told.",
            {"carts": [record_of(cart) for cart in same[:5]]},
        )

    def _all_carts(self) -> Iterator[Cart]:
        page = pages = 1
        while page <= pages:
            found = self._shop.carts(None, page, 50)
            yield from found.carts
            page, pages = page + 1, found.pages

    def _verify(self, info: CallInfo, result: object, holds: Callable[[Cart], bool]) -> Finding:
        """What the cart's own record says after a write; the answer alone proves nothing."""
        answer = as_object(result)
        cart_id, transaction = answer.get("cart_id"), answer.get("transaction")
        if not isinstance(cart_id, str):
            return Finding(None, "The answer names no cart, so the record could not be looked up.")

        def ask() -> Finding:
            cart = self._shop.cart(cart_id)
            if not holds(cart):
                text = f"Cart {cart_id} is {state_of(cart)}, which is not what this call leads to."
                return Finding(None, text, record_of(cart))
            if self._shop.honours_keys and (key := info.idempotency_key):
                done = self._shop.find(key)
                if done is None or done.subject != cart_id:
                    text = f"Cart {cart_id} was not changed under this call's key."
                    return Finding(None, text, record_of(cart))
            name = transaction if isinstance(transaction, str) else None
            return Finding(True, f"Cart {cart_id} is {state_of(cart)}.", record_of(cart), name)

        return finding(ask)

    # Undoing -----------------------------------------------------------------------------------

    def undo_create(self, committed: Committed) -> Call | None:
        """Discard the cart, unless it is not open any more.

        Raises:
            ServiceError: The record cannot be read, so nobody can tell.
        """
        cart = self._cart_of(committed)
        if cart is None or cart.status != "open":
            return None
        return Call("discard_cart", {"cart_id": cart.id})

    def undo_order(self, committed: Committed) -> Call | None:
        """Cancel the order, unless it is packed or cancelled.

        Raises:
            ServiceError: The record cannot be read, so nobody can tell.
        """
        cart = self._cart_of(committed)
        if cart is None or cart.order is None or cart.order.status != "placed":
            return None
        return Call("cancel_grocery_order", {"order_id": cart.order.id})

    def _cart_of(self, committed: Committed) -> Cart | None:
        """The cart that a call made or changed, as it stands; ``None`` when none is named."""
        cart_id = as_object(committed.result).get("cart_id") or committed.args.get("cart_id")
        try:
            return self._shop.cart(cart_id) if isinstance(cart_id, str) else None
        except NotFound:
            return None


def _is_ordered_for(cart: Cart, args: Args) -> bool:
    amount = money(cart.total), cart.currency
    return cart.order is not None and amount == (args["expected_total"], args["currency"])


def _order_is(status: OrderStatus, cart: Cart) -> bool:
    return cart.order is not None and cart.order.status == status
