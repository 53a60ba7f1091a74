"""What the tools of the grocery shop take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from tools.service_tools import AmountText, Strict
from tools.worlds.amounts import Currency
from tools.worlds.grocery import MAX_LINES, MAX_QUANTITY, CartStatus, Wanted


def _tidy_id(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _tidy_product(value: str) -> str:
    value = value.strip()
    return value.upper() if re.fullmatch("[pP][0-9]+", value) else value


class SearchProducts(Strict):
    """Arguments of ``search_products``."""

    query: str = Field(
        min_length=2,
        max_length=100,
        description="Words that the product's name or description has, all of them.",
        examples=["oat drink", "tomatoes"],
    )
    page: int = Field(1, ge=1, le=1_000, description="Page number, from 1.")
    page_size: int = Field(10, ge=1, le=20, description="Products a page.")


CartIdText = Annotated[
    str,
    Field(
        pattern=r"^C[0-9]{1,6}$", description="Cart id: C and a number.", examples=["C16", "C17"]
    ),
    BeforeValidator(_tidy_id),
]


class CartId(Strict):
    """Arguments of ``get_cart`` and ``discard_cart``."""

    cart_id: CartIdText


class ListCarts(Strict):
    """Arguments of ``list_carts``."""

    status: CartStatus | None = Field(None, description="Only carts in this status.")
    page: int = Field(1, ge=1, le=1_000, description="Page number, from 1.")


class Item(Strict):
    """One product of a new cart."""

    product_id: Annotated[
        str,
        Field(
            min_length=2,
            max_length=60,
            description="The product's id as search_products returned it.",
            examples=["P3"],
        ),
        AfterValidator(_tidy_product),
    ]
    quantity: int = Field(ge=1, le=MAX_QUANTITY, description="How many of it.")


class CreateCart(Strict):
    """Arguments of ``create_grocery_cart``."""

    items: list[Item] = Field(
        min_length=1,
        max_length=MAX_LINES,
        description="The products, each once, with its quantity.",
    )


class PlaceOrder(Strict):
    """Arguments of ``place_order``."""

    cart_id: CartIdText
    expected_total: Annotated[
        AmountText,
        Field(description="The cart's total as get_cart returned it just now; never a guess."),
    ]
    currency: Currency = Field(description="The cart's currency.")


class OrderId(Strict):
    """Arguments of ``cancel_grocery_order``."""

    order_id: Annotated[
        str,
        Field(pattern=r"^O[0-9]{1,6}$", description="Order id: O and a number.", examples=["O17"]),
        BeforeValidator(_tidy_id),
    ]


def wanted(items: Sequence[Any]) -> list[Wanted]:
    """Items of a call, as they come from the schema or as plain values."""
    plain = [item.model_dump() if isinstance(item, Item) else item for item in items]
    return [Wanted(item["product_id"], item["quantity"]) for item in plain]
