"""The grocery shop: what it refuses, what it records, and that each request counts once."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.worlds import Clock
from tools.worlds.grocery import MAX_LINES, Cart, GroceryShop, Wanted
from tools.worlds.service import KeyReused, NotFound, Refused, ServiceError

ROOT = Path(__file__).parents[3]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def shop(tmp_path: Path, clock: Clock) -> GroceryShop:
    return GroceryShop(tmp_path / "worlds" / "grocery.db", now=clock)


def items(**quantities: int) -> list[Wanted]:
    return [Wanted(product_id, quantity) for product_id, quantity in quantities.items()]


def stocks(shop: GroceryShop) -> dict[str, int]:
    every_id = shop.search("p", page_size=50).products
    return {product.id: product.stock for product in every_id}


def all_carts(shop: GroceryShop) -> Iterator[Cart]:
    page = 1
    while carts := shop.carts(page=page, page_size=50).carts:
        yield from carts
        page += 1


# Looking -----------------------------------------------------------------------------------


def test_nothing_is_made_before_the_first_operation(shop: GroceryShop) -> None:
    assert not shop.path.parent.exists()
    assert (shop.carts().matched, len(stocks(shop))) == (3, 18)
    assert shop.path.stat().st_mode & 0o777 == 0o600


def test_a_search_takes_all_words_and_puts_names_first(shop: GroceryShop) -> None:
    assert [p.id for p in shop.search("milk").products] == ["P1", "P2", "P3", "P4"]
    assert [p.id for p in shop.search("OAT barista").products] == ["P4"]
    assert [p.id for p in shop.search("P3").products] == ["P3"]
    assert shop.search("unobtainium").products == shop.search("%").products == ()


def test_a_search_comes_in_pages(shop: GroceryShop) -> None:
    found = shop.search("e", page=2, page_size=5)
    assert (len(found.products), found.page) == (5, 2)
    assert found.pages == -(-found.matched // 5)
    assert shop.search("e", page=99, page_size=5).products == ()


def test_a_name_in_an_ids_place_is_answered_with_what_may_be_meant(shop: GroceryShop) -> None:
    with pytest.raises(NotFound, match=r"It may be P1 \(Whole milk.*P2 .*Ask which one is meant"):
        shop.create_cart(items(milk=1), "k")
    with pytest.raises(NotFound, match=r"It may be P15 \(Coffee beans, 1 kg\)\. Use its id"):
        shop.product("coffee")
    with pytest.raises(NotFound, match="Search for it"):
        shop.product("unobtainium")
    assert shop.find("k") is None


def test_an_open_cart_has_present_prices(shop: GroceryShop) -> None:
    cart = shop.cart("C16")
    assert (cart.status, cart.total, cart.order) == ("open", 944, None)
    assert [(line.product_id, line.quantity) for line in cart.lines] == [
        ("P5", 1),
        ("P10", 2),
        ("P12", 3),
    ]
    for wrong in ("C99", "16", "", "C", "c16", "C-1", "../C16"):
        with pytest.raises(NotFound, match="Open carts: C16"):
            shop.cart(wrong)


# Carts -------------------------------------------------------------------------------------


def test_a_new_cart_is_on_the_record_and_takes_nothing_from_the_stock(shop: GroceryShop) -> None:
    before = stocks(shop)
    made = shop.create_cart(items(P3=2, P6=1), "k")
    cart = shop.cart("C17")
    assert made.subject == cart.id
    assert made.result["total"] == "7.98"
    assert (cart.status, cart.total, cart.revision) == ("open", 798, 1)
    assert cart.made_at == "2026-12-01T10:00:00Z"
    assert shop.find("k") == made
    assert stocks(shop) == before


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([], "1 to 30"),
        ([Wanted("P9", 1)], "not available now"),
        ([Wanted("P13", 7)], "there are only 6, 7 are wanted"),
        ([Wanted("P3", 0)], "quantity is 1 to 99"),
        ([Wanted("P3", -1)], "quantity is 1 to 99"),
        ([Wanted("P12", 100)], "quantity is 1 to 99"),
        ([Wanted("P3", 1), Wanted("P3", 2)], "more than once"),
        ([Wanted("P1", 1)] * (MAX_LINES + 1), "1 to 30"),
    ],
)
def test_a_cart_that_cannot_be_filled_is_not_made(
    shop: GroceryShop, wanted: list[Wanted], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        shop.create_cart(wanted, "k")
    assert shop.carts().matched == 3
    assert shop.find("k") is None


def test_only_an_open_cart_can_be_discarded(shop: GroceryShop) -> None:
    assert shop.discard_cart("C16", "a").result["status"] == "discarded"
    assert shop.cart("C16").revision == 2
    with pytest.raises(Refused, match="discarded already"):
        shop.discard_cart("C16", "b")
    with pytest.raises(Refused, match="was ordered as O14"):
        shop.discard_cart("C14", "c")


# Orders ------------------------------------------------------------------------------------


def test_an_order_takes_from_the_stock_and_keeps_what_was_paid(shop: GroceryShop) -> None:
    before = stocks(shop)
    shop.create_cart(items(P3=2), "k")
    placed = shop.place_order("C17", 378, "EUR", "o")
    cart = shop.cart("C17")
    assert cart.order is not None
    assert (cart.status, cart.order.id, cart.order.status) == ("ordered", "O17", "placed")
    assert (placed.result["order_id"], placed.result["total"]) == ("O17", "3.78")
    assert stocks(shop) == {**before, "P3": before["P3"] - 2}


@pytest.mark.parametrize(
    ("cart_id", "total", "currency", "words"),
    [
        ("C16", 943, "EUR", r"costs 9\.44 EUR now, not 9\.43"),
        ("C16", 944, "USD", "is in EUR, not in USD"),
        ("C14", 2077, "EUR", "ordered already, as O14"),
        ("C15", 1374, "EUR", "was discarded"),
    ],
)
def test_what_cannot_be_ordered_is_not(
    shop: GroceryShop, cart_id: str, total: int, currency: str, words: str
) -> None:
    before = shop.cart(cart_id), stocks(shop)
    with pytest.raises(Refused, match=words):
        shop.place_order(cart_id, total, currency, "k")
    assert (shop.cart(cart_id), stocks(shop)) == before


def test_what_is_in_two_carts_is_sold_once(shop: GroceryShop) -> None:
    shop.create_cart(items(P13=4), "a")
    shop.create_cart(items(P13=4), "b")
    shop.place_order("C17", 4 * 199, "EUR", "c")
    with pytest.raises(Refused, match="there are only 2, 4 are wanted"):
        shop.place_order("C18", 4 * 199, "EUR", "d")
    assert shop.product("P13").stock == 2


def test_an_order_can_be_cancelled_until_it_is_packed(shop: GroceryShop, clock: Clock) -> None:
    before = stocks(shop)
    shop.place_order("C16", 944, "EUR", "a")
    clock.now += timedelta(minutes=29, seconds=59)
    assert shop.cancel_order("O16", "b").result["order_status"] == "cancelled"
    assert stocks(shop) == before
    with pytest.raises(Refused, match="cancelled already"):
        shop.cancel_order("O16", "c")


def test_a_packed_order_is_on_its_way(shop: GroceryShop, clock: Clock) -> None:
    shop.place_order("C16", 944, "EUR", "a")
    clock.now += timedelta(minutes=30)
    order = shop.cart("C16").order
    assert order is not None
    assert order.status == "packed"
    with pytest.raises(Refused, match="was packed at 2026-12-01T10:30:00Z"):
        shop.cancel_order("O16", "b")
    with pytest.raises(Refused, match="never ordered"):
        shop.cancel_order("O15", "c")
    with pytest.raises(NotFound):
        shop.cancel_order("O99", "d")


# Keys --------------------------------------------------------------------------------------


def test_the_same_key_gets_the_recorded_answer(shop: GroceryShop, clock: Clock) -> None:
    first = shop.create_cart(items(P3=2), "k")
    shop.discard_cart("C17", "d")
    clock.now += timedelta(days=400)
    assert shop.create_cart(items(P3=2), "k") == first
    assert GroceryShop(shop.path).create_cart(items(P3=2), "k") == first
    assert shop.carts().matched == 4


def test_a_key_belongs_to_one_request(shop: GroceryShop) -> None:
    shop.create_cart(items(P3=2), "k")
    for other in (
        lambda: shop.create_cart(items(P3=3), "k"),
        lambda: shop.create_cart(items(P3=2, P1=1), "k"),
        lambda: shop.discard_cart("C17", "k"),
        lambda: shop.place_order("C17", 378, "EUR", "k"),
    ):
        with pytest.raises(KeyReused, match="was not run"):
            other()
    assert (shop.carts().matched, shop.cart("C17").status) == (4, "open")


def test_a_refused_request_leaves_its_key_free(shop: GroceryShop) -> None:
    with pytest.raises(Refused):
        shop.place_order("C16", 1, "EUR", "k")
    assert shop.place_order("C16", 944, "EUR", "k").subject == "C16"


@pytest.mark.parametrize("key", ["", " ", "two words", "line\nbreak", "schlüssel", "k" * 201])
def test_what_is_no_key_is_refused(shop: GroceryShop, key: str) -> None:
    with pytest.raises(Refused, match="visible ASCII"):
        shop.create_cart(items(P3=2), key)
    assert shop.carts().matched == 3


def test_a_shop_without_keys_makes_another_cart_each_time(tmp_path: Path) -> None:
    shop = GroceryShop(tmp_path / "grocery.db", honours_keys=False)
    shop.create_cart(items(P3=2), "k")
    shop.create_cart(items(P3=2), "k")
    assert shop.carts().matched == 5
    assert shop.find("k") is None


class ShopMachine(RuleBasedStateMachine):
    """Random requests under few keys, so that they are repeated, and a clock that moves."""

    keys = st.sampled_from(["k1", "k2", "k3", "k4", "k5", "k6"])
    carts = st.sampled_from(["C16", "C17", "C18", "C19"])
    wanted = st.sampled_from([items(P13=4), items(P6=1, P3=2), items(P13=2)])

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        self.shop = GroceryShop(Path(self.folder.name) / "grocery.db", now=self.clock)
        self.answers: dict[str, tuple[Any, Any]] = {}
        self.first_stock = stocks(self.shop)

    @rule(wanted=wanted, key=keys)
    def create(self, wanted: list[Wanted], key: str) -> None:
        self._ask(("create", str(wanted)), key, lambda: self.shop.create_cart(wanted, key))

    @rule(cart=carts, key=keys)
    def discard(self, cart: str, key: str) -> None:
        self._ask(("discard", cart), key, lambda: self.shop.discard_cart(cart, key))

    @rule(cart=carts, key=keys, right=st.booleans())
    def place(self, cart: str, key: str, right: bool) -> None:
        known = {c.id: c.total for c in all_carts(self.shop)}
        total = known.get(cart, 0) if right else 1
        request = ("place", cart, total)
        self._ask(request, key, lambda: self.shop.place_order(cart, total, "EUR", key))

    @rule(cart=carts, key=keys)
    def cancel(self, cart: str, key: str) -> None:
        order = f"O{cart[1:]}"
        self._ask(("cancel", order), key, lambda: self.shop.cancel_order(order, key))

    @rule()
    def later(self) -> None:
        self.clock.now += timedelta(minutes=20)

    def _ask(self, request: Any, key: str, run: Any) -> None:
        """Known keys get their answer or are refused; others change something once, or nothing."""
        before = list(all_carts(self.shop)), stocks(self.shop)
        try:
            answer = run()
        except ServiceError:
            assert self.answers.get(key, (None,))[0] != request
            assert (list(all_carts(self.shop)), stocks(self.shop)) == before
            return
        if key in self.answers:
            assert self.answers[key] == (request, answer)
            assert (list(all_carts(self.shop)), stocks(self.shop)) == before
        self.answers[key] = request, answer

    @invariant()
    def a_cart_a_key_and_nothing_is_lost(self) -> None:
        if not hasattr(self, "shop"):
            return
        carts = list(all_carts(self.shop))
        made = [answer.subject for what, answer in self.answers.values() if what[0] == "create"]
        assert len(made) == len(set(made)) == len(carts) - 3
        gone = dict.fromkeys(self.first_stock, 0)
        for cart in carts:
            if cart.id != "C14" and cart.order and cart.order.status != "cancelled":
                for line in cart.lines:
                    gone[line.product_id] += line.quantity
        left = stocks(self.shop)
        assert {product: left[product] + gone[product] for product in left} == self.first_stock

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestShopMachine = ShopMachine.TestCase
TestShopMachine.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)


# Many at once ------------------------------------------------------------------------------

RACE = """
import sys
from tools.worlds.grocery import GroceryShop, Wanted
from tools.worlds.service import ServiceError
shop = GroceryShop(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for n in range(5):
    print("made", shop.create_cart([Wanted("P13", 2)], f"shared-{n}").subject)
for n in range(17, 22):
    try:
        print("won", shop.place_order(f"C{n}", 398, "EUR", f"{sys.argv[2]}-{n}").subject)
    except ServiceError as error:
        print("lost", type(error).__name__)
"""


def test_processes_that_race_make_a_cart_a_key_and_sell_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "grocery.db"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(path), str(number)],
            cwd=ROOT,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    lines = [line.split() for process in processes for line in process.communicate()[0].split("\n")]
    made = {line[1] for line in lines if line[:1] == ["made"]}
    won = [line[1] for line in lines if line[:1] == ["won"]]
    shop = GroceryShop(path)
    assert len(made) == shop.carts().matched - 3 == 5
    assert len(won) == len(set(won)) == 3  # six pots of basil, two a cart
    assert shop.product("P13").stock == 0
