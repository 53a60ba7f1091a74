"""The grocery shop for a model: it can look, prepare a cart, and, where it may spend, order it.

A cart commits to nothing; ``place_order`` spends. The tools work over any ``Grocery``, in this
process or behind HTTP. Descriptions of products are the texts of strangers, and only
``search_products`` returns them.
"""

from __future__ import annotations

from functools import partial

from langchain_core.tools import BaseTool

from tools.contract import Args, Call, Contract, Effects, Undo, make_tool
from tools.grocery import evidence
from tools.grocery.arguments import (
    CartId,
    CreateCart,
    ListCarts,
    OrderId,
    PlaceOrder,
    SearchProducts,
)
from tools.grocery.calls import GroceryCalls
from tools.grocery.previews import GroceryPreviews
from tools.grocery.record import GroceryRecord
from tools.grocery.results import CartPage, Changed, Found, WholeCart
from tools.worlds.grocery import Grocery, cart_of

READ: Effects = frozenset({"read:grocery"})
WRITE: Effects = frozenset({"write:grocery"})


def grocery_tools(shop: Grocery) -> list[BaseTool]:
    """Three reads and four writes over one shop; what its keys are worth, the contracts say."""
    calls, previews, record = GroceryCalls(shop), GroceryPreviews(shop), GroceryRecord(shop)
    reads = partial(Contract, effects=READ, conflict_key=_conflict_key, version="1")
    writes = partial(
        Contract,
        open_world=False,
        private=True,
        idempotency="key" if shop.honours_keys else "none",
        conflict_key=_conflict_key,
        version="1",
    )
    return [
        make_tool(
            calls.search_products,
            args=SearchProducts,
            result=Found,
            contract=reads(open_world=True, private=False),
        ),
        make_tool(
            calls.get_cart,
            args=CartId,
            result=WholeCart,
            contract=reads(open_world=False, private=True),
        ),
        make_tool(
            calls.list_carts,
            args=ListCarts,
            result=CartPage,
            contract=reads(open_world=False, private=True),
        ),
        make_tool(
            calls.create_grocery_cart,
            args=CreateCart,
            result=Changed,
            contract=writes(
                effects=WRITE,
                precondition=evidence.products_were_seen,
                postcondition=record.verify_create,
                reconcile=record.find_create,
                check=lambda args: Call("list_carts", {"status": "open"}),
                preview=previews.create,
                undo=Undo("It can be discarded while it is open.", record.undo_create),
            ),
        ),
        make_tool(
            calls.discard_cart,
            args=CartId,
            result=Changed,
            contract=writes(
                effects=WRITE,
                precondition=evidence.cart_was_seen_open,
                postcondition=record.verify_discard,
                reconcile=record.find_discard,
                check=evidence.reading,
                preview=previews.discard,
                undo=None,  # a new cart of the same products is another cart
            ),
        ),
        make_tool(
            calls.place_order,
            args=PlaceOrder,
            result=Changed,
            contract=writes(
                effects=_order_effects,
                effect_families=WRITE | {"spend:???"},
                precondition=evidence.total_was_seen,
                postcondition=record.verify_order,
                reconcile=record.find_order,
                check=evidence.reading,
                preview=previews.order,
                undo=Undo("It can be cancelled until it is packed.", record.undo_order),
            ),
        ),
        make_tool(
            calls.cancel_grocery_order,
            args=OrderId,
            result=Changed,
            contract=writes(
                effects=WRITE,
                precondition=evidence.order_was_seen,
                postcondition=record.verify_cancel,
                reconcile=record.find_cancel,
                check=lambda args: evidence.reading({"cart_id": cart_of(args["order_id"])}),
                preview=previews.cancel,
                undo=None,  # the shop does not take an order up again
            ),
        ),
    ]


def _conflict_key(args: Args) -> str:
    """One for all: an order changes the stock that other carts depend on."""
    return "grocery"


def _order_effects(args: Args) -> Effects:
    return WRITE | {f"spend:{args['currency'].lower()}"}
