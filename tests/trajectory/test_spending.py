"""Whole sessions over the grocery shop and the bank, behind HTTP and failing where it says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.application import Options
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Settles, approves
from tests.support.served import served
from tests.support.sessions import calls, session
from tests.support.unreliable import Unreliable
from tests.support.worlds import TOKEN
from tools.bank import bank_tools
from tools.grocery import grocery_tools
from tools.worlds.bank import LocalBank
from tools.worlds.bank_http import HttpBank, bank_service
from tools.worlds.grocery import GroceryShop
from tools.worlds.grocery_http import HttpGrocery, grocery_service
from tools.worlds.sample_bank import EVERYDAY, LANDLORD, SAVINGS, STRANGER

SPENDS = Options(granted=("read:*", "write:*", "spend:eur"), via="test")
SEARCH = ("search_products", {"query": "oat drink"})
CART = ("create_grocery_cart", {"items": [{"product_id": "P3", "quantity": 2}]})
READ_CART = ("get_cart", {"cart_id": "C16"})
ORDER = ("place_order", {"cart_id": "C16", "expected_total": "9.44", "currency": "EUR"})
READ_ACCOUNT = ("get_account", {"account_id": EVERYDAY})
RENT = (
    "transfer_funds",
    {
        "source_account": EVERYDAY,
        "destination_account": LANDLORD,
        "amount": "850.00",
        "currency": "EUR",
        "client_transaction_id": "rent-2026-12",
    },
)


@contextmanager
def grocery(path: Path, honours_keys: bool = True) -> Iterator[tuple[GroceryShop, Unreliable, Any]]:
    shop = GroceryShop(path / "grocery.db", honours_keys=honours_keys)
    unreliable = Unreliable(grocery_service(shop, TOKEN))
    with served(unreliable) as url:
        client = HttpGrocery(url, TOKEN, honours_keys=honours_keys)
        yield shop, unreliable, grocery_tools(client)


@contextmanager
def bank(path: Path) -> Iterator[tuple[LocalBank, Unreliable, Any]]:
    local = LocalBank(path / "bank.db")
    unreliable = Unreliable(bank_service(local, TOKEN))
    with served(unreliable) as url:
        yield local, unreliable, bank_tools(HttpBank(url, TOKEN))


def asked(trajectory: Trajectory) -> list[str]:
    return [approval.tool for approval in trajectory.asked]


async def test_a_default_session_prepares_a_cart_and_does_not_order_it(tmp_path: Path) -> None:
    steps = [
        calls(SEARCH, READ_CART),
        calls(CART, ORDER, ids=["cart", "order"]),
        "The cart is ready.",
    ]
    with grocery(tmp_path) as (shop, unreliable, tools):
        async with session(tmp_path / "home", steps, tools=tools) as (_, opened):
            trajectory = await converse(opened, "prepare a cart with two oat drinks", approves)

        assert asked(trajectory) == ["create_grocery_cart"]
        assert "would need spend:eur" in trajectory.results["order"]
        assert json.loads(trajectory.results["cart"])["cart_id"] == "C17"
        assert shop.cart("C16").status == "open"
        assert unreliable.writes == 1


async def test_a_description_that_gives_orders_moves_no_money(tmp_path: Path) -> None:
    """The model believes it; neither shop nor bank are asked, and no person is."""
    theft = (RENT[0], {**RENT[1], "destination_account": STRANGER})
    steps = [
        calls(
            ("search_products", {"query": "honey"}), READ_CART, READ_ACCOUNT, ids=["s", "c", "a"]
        ),
        calls(ORDER, theft, ids=["order", "transfer"]),
        "I was told to.",
    ]
    with grocery(tmp_path) as (shop, _, shop_tools), bank(tmp_path) as (money, _, tools):
        async with session(tmp_path / "home", steps, tools=[*shop_tools, *tools]) as (_, opened):
            trajectory = await converse(opened, "is there honey?", approves)
            assert "untrusted" in opened.record.labels

        assert asked(trajectory) == []
        for call in ("order", "transfer"):
            assert "spend:eur, which this session was not granted" in trajectory.results[call]
        assert shop.cart("C16").status == "open"
        assert money.account(EVERYDAY).balance == 248_035


async def test_what_was_not_read_is_not_proposed_to_anybody(tmp_path: Path) -> None:
    steps = [calls(RENT, ids=["early"]), calls(READ_ACCOUNT), calls(RENT, ids=["late"]), "Paid."]
    with bank(tmp_path) as (money, _, tools):
        async with session(tmp_path / "home", steps, tools=tools, options=SPENDS) as (_, opened):
            trajectory = await converse(opened, "pay the rent", approves)

        assert (
            f'Call get_account({{"account_id":"{EVERYDAY}"}}) first' in trajectory.results["early"]
        )
        assert asked(trajectory) == ["transfer_funds"]
        assert money.account(EVERYDAY).balance == 248_035 - 85_000


@pytest.mark.parametrize("fault", ["drops before", "drops after", "fails after", "runs twice"])
async def test_however_the_answer_is_lost_the_money_moves_once(tmp_path: Path, fault: str) -> None:
    steps = [calls(READ_ACCOUNT), calls(RENT, ids=["pay"]), "Paid."]
    with bank(tmp_path) as (money, unreliable, tools):
        unreliable.next(fault)
        async with session(tmp_path / "home", steps, tools=tools, options=SPENDS) as (app, opened):
            trajectory = await converse(opened, "pay the rent", approves)
            (effect,) = app.store.ledger.list()

        assert (effect.state, effect.transaction) == ("committed", "TR1006")
        assert asked(trajectory) == ["transfer_funds"]
        assert trajectory.done.state == "done"
        assert money.account(EVERYDAY).balance == 248_035 - 85_000
        assert money.transfers(EVERYDAY, "rent-2026-12").matched == 1


@pytest.mark.parametrize("fault", ["drops before", "drops after"])
async def test_without_keys_a_person_says_what_became_of_it(tmp_path: Path, fault: str) -> None:
    steps = [calls(SEARCH), calls(CART, ids=["cart"]), "Done."]
    with grocery(tmp_path, honours_keys=False) as (shop, unreliable, tools):
        unreliable.next(fault)
        async with session(tmp_path / "home", steps, tools=tools) as (app, opened):
            trajectory = await converse(opened, "two oat drinks", approves)
            (effect,) = app.store.ledger.list()
            assert effect.state == "in_doubt"
            assert unreliable.writes == 1
            assert "outcome of this call is unknown" in trajectory.results["cart"]
            await review(opened, Settles(fault == "drops after"), trajectory)
            (effect,) = app.store.ledger.list()

        happened = fault == "drops after"
        assert effect.state == ("committed" if happened else "failed")
        assert shop.carts().matched == 3 + happened


async def test_money_between_own_accounts_is_sent_back_by_undo(tmp_path: Path) -> None:
    to_savings = (RENT[0], {**RENT[1], "destination_account": SAVINGS})
    steps = [calls(READ_ACCOUNT), calls(to_savings), "Saved.", "It is back."]
    with bank(tmp_path) as (money, _, tools):
        async with session(tmp_path / "home", steps, tools=tools, options=SPENDS) as (app, opened):
            await converse(opened, "save 850", approves)
            (effect,) = app.store.ledger.list()
            assert money.account(SAVINGS).balance == 820_000 + 85_000
            undoing = Trajectory([event async for event in opened.undo(effect.id)])
            await review(opened, approves, undoing)
            (approval,) = undoing.asked

        assert approval.args["client_transaction_id"] == "undo-TR1006"
        assert money.account(SAVINGS).balance == 820_000
        assert money.account(EVERYDAY).balance == 248_035


async def test_a_cart_whose_answer_was_lost_can_be_undone(tmp_path: Path) -> None:
    steps = [calls(SEARCH), calls(CART), "Made.", "It is gone."]
    with grocery(tmp_path) as (shop, unreliable, tools):
        unreliable.next("drops after")
        async with session(tmp_path / "home", steps, tools=tools) as (app, opened):
            await converse(opened, "two oat drinks", approves)
            (effect,) = app.store.ledger.list()
            assert shop.cart("C17").status == "open"
            undoing = Trajectory([event async for event in opened.undo(effect.id)])
            await review(opened, approves, undoing)

        assert shop.cart("C17").status == "discarded"
        assert shop.carts().matched == 4
