"""The grocery tools as a model and the harness meet them, over a shop here and one behind HTTP.

The first sections are the test matrix of ``create_grocery_cart``: syntax, semantics,
authorization, runtime, adversarial. The others hold for all tools of the shop.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from pydantic import ValidationError

from agent.policy import Policy, Proposed, decide
from agent.types import Authority
from tests.support.served import served
from tests.support.unreliable import Unreliable
from tests.support.worlds import TOKEN, Clock, Desk, Switch, away, named, run, under_key
from tools.contract import (
    Call,
    Evidence,
    OutcomeUnknown,
    ToolFailure,
    TransientFailure,
    contract_of,
    is_read,
)
from tools.grocery import grocery_tools
from tools.worlds.grocery import GroceryShop
from tools.worlds.grocery_http import HttpGrocery, grocery_service
from tools.worlds.service import Busy, Unconfirmed

READS = ["search_products", "get_cart", "list_carts"]
WRITES = ["create_grocery_cart", "discard_cart", "place_order", "cancel_grocery_order"]
OAT = {"items": [{"product_id": "P3", "quantity": 2}]}
ORDER = {"cart_id": "C16", "expected_total": "9.44", "currency": "EUR"}


@dataclass
class World(Desk):
    """A shop, and the tools over it.

    Args:
        shop: The shop itself, whatever the tools reach it by.
        unreliable: What stands before it; without it there is nothing that could be lost.
        hasty: The tools with little patience.
    """

    shop: GroceryShop
    clock: Clock
    unreliable: Unreliable
    hasty: dict[str, BaseTool]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Switch, str]]:
    switch = Switch()
    with served(switch) as url:
        yield switch, url


def make_world(
    path: Path, server: tuple[Switch, str], *, http: bool, honours_keys: bool = True
) -> World:
    clock = Clock()
    shop = GroceryShop(path / "grocery.db", now=clock, honours_keys=honours_keys, busy_timeout=0.2)
    unreliable = Unreliable(grocery_service(shop, TOKEN))
    if not http:
        tools = named(grocery_tools(shop))
        return World(tools, shop, clock, unreliable, tools)
    switch, url = server
    switch.application = unreliable
    tools = named(grocery_tools(HttpGrocery(url, TOKEN, honours_keys=honours_keys)))
    hasty = HttpGrocery(url, TOKEN, honours_keys=honours_keys, timeout=0.4)
    return World(tools, shop, clock, unreliable, named(grocery_tools(hasty)))


@pytest.fixture(params=["local", "http"])
def world(request: pytest.FixtureRequest, tmp_path: Path, server: tuple[Switch, str]) -> World:
    return make_world(tmp_path, server, http=request.param == "http")


@pytest.fixture
def remote(tmp_path: Path, server: tuple[Switch, str]) -> World:
    return make_world(tmp_path, server, http=True)


@pytest.fixture
def forgetful(tmp_path: Path, server: tuple[Switch, str]) -> World:
    """A shop behind HTTP that ignores keys."""
    return make_world(tmp_path, server, http=True, honours_keys=False)


# create_grocery_cart: syntax ---------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"items": []},
        {"items": None},
        {"items": "P3"},
        {"items": ["P3"]},
        {"items": {"product_id": "P3", "quantity": 1}},
        {"items": [{"product_id": "P3"}]},
        {"items": [{"quantity": 1}]},
        {"items": [{"product_id": 3, "quantity": 1}]},
        {"items": [{"product_id": "", "quantity": 1}]},
        {"items": [{"product_id": "P3", "quantity": "a few"}]},
        {"items": [{"product_id": "P3", "quantity": 0}]},
        {"items": [{"product_id": "P3", "quantity": -1}]},
        {"items": [{"product_id": "P3", "quantity": 1.5}]},
        {"items": [{"product_id": "P3", "quantity": 100}]},
        {"items": [{"product_id": "P3", "quantity": 1, "price": "0.01"}]},
        {"items": [{"product_id": "P3", "quantity": 1}], "pay_by": "card"},
        {"items": [{"product_id": "P3", "quantity": 1}] * 31},
    ],
)
def test_arguments_that_do_not_fit_reach_no_shop(world: World, args: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        world.tools["create_grocery_cart"].invoke(args)
    assert not world.shop.path.exists()
    assert world.unreliable.writes == 0


def test_an_id_has_one_spelling(world: World) -> None:
    schema: Any = world.tools["create_grocery_cart"].args_schema
    given = {"items": [{"product_id": " p3 ", "quantity": 2}]}
    assert schema(**given).model_dump() == OAT
    assert schema(**OAT).model_dump() == OAT


# create_grocery_cart: semantics ------------------------------------------------------------


def test_an_ambiguous_name_is_shown_to_be_one(world: World) -> None:
    found = world.run("search_products", {"query": "oat drink"})
    assert [product["product_id"] for product in found["products"]] == ["P3", "P4"]
    assert "when it is not clear which is meant, ask" in found["note"]
    by_name = {"items": [{"product_id": "Oat drink", "quantity": 1}]}
    missing = world.unmet("create_grocery_cart", by_name)
    assert missing.read == Call("search_products", {"query": "Oat drink"})
    with pytest.raises(ToolFailure, match=r"P3 \(Oat drink, 1 l\), P4 .*Ask which one is meant"):
        world.run("create_grocery_cart", by_name)
    assert world.shop.carts().matched == 3


def test_a_product_that_is_not_available_is_refused_with_the_reason(world: World) -> None:
    args = {"items": [{"product_id": "P9", "quantity": 1}]}
    evidence = world.seen("search_products", {"query": "salted butter"})
    assert "the search showed 0" in world.unmet("create_grocery_cart", args, evidence).why
    assert "would fail" in world.preview("create_grocery_cart", args).summary
    with pytest.raises(ToolFailure, match="not available now") as caught:
        world.run("create_grocery_cart", args, "k")
    assert not isinstance(caught.value, TransientFailure)
    assert world.shop.find("k") is None


def test_products_must_have_been_seen_in_this_session(world: World) -> None:
    search = world.seen("search_products", {"query": "oat"})
    assert world.unmet("create_grocery_cart", OAT, search) is None
    for evidence in ([], [world.seen("get_cart", {"cart_id": "C16"})]):
        missing = world.unmet("create_grocery_cart", OAT, *evidence)
        assert "in no search result of this session" in missing.why
        assert missing.read == Call("search_products", {"query": "P3"})
        offered = world.seen(missing.read.tool, dict(missing.read.args))
        assert world.unmet("create_grocery_cart", OAT, *evidence, offered) is None


def test_the_newest_search_counts_and_an_order_makes_it_stale(world: World) -> None:
    args = {"items": [{"product_id": "P13", "quantity": 5}]}
    first = world.seen("search_products", {"query": "basil"})
    assert world.unmet("create_grocery_cart", args, first) is None
    with sqlite3.connect(world.shop.path) as db:
        db.execute("UPDATE products SET stock = 2 WHERE id = 'P13'")
    db.close()
    second = world.seen("search_products", {"query": "basil"})
    assert "the search showed 2; 5" in world.unmet("create_grocery_cart", args, first, second).why
    order = world.seen("place_order", ORDER)
    assert "in no search result" in world.unmet("create_grocery_cart", args, first, order).why


@pytest.mark.parametrize(
    "result",
    [
        None,
        7,
        "no JSON",
        [],
        {},
        {"products": "P3"},
        {"products": [None, "P3", {}, {"product_id": []}]},
        {"products": [{"product_id": "P3", "stock": "many"}]},
        {"products": [{"product_id": "P3"}]},
        {"carts": [{"cart_id": "C16"}], "cart_id": "C16", "order": {"order_id": "O16"}},
    ],
)
def test_odd_evidence_proves_nothing(world: World, result: object) -> None:
    evidence = [Evidence(name, {}, result) for name in (*READS, *WRITES)]
    for name, args in (
        ("create_grocery_cart", OAT),
        ("discard_cart", {"cart_id": "C16"}),
        ("place_order", ORDER),
        ("cancel_grocery_order", {"order_id": "O16"}),
    ):
        assert world.unmet(name, args, *evidence) is not None


# create_grocery_cart: authorization --------------------------------------------------------


def test_preparing_a_cart_may_be_proposed_and_ordering_it_may_not(world: World) -> None:
    def verdict(name: str, authority: Authority) -> tuple[str, str]:
        effects = world.contract(name).effects_of(ORDER)
        outcome = decide(Policy(), Proposed(name, ORDER, effects, authority))
        return outcome.behavior, outcome.reason

    assert verdict("create_grocery_cart", Authority())[0] == "ask"
    behavior, reason = verdict("place_order", Authority())
    assert behavior == "deny"
    assert "spend:eur" in reason
    assert verdict("place_order", Authority(granted=("write:*", "spend:eur")))[0] == "ask"
    assert verdict("place_order", Authority(granted=("write:*", "spend:usd")))[0] == "deny"
    assert [verdict(name, Authority())[0] for name in READS] == ["allow"] * 3


def test_effects_follow_the_arguments(world: World) -> None:
    effects = {name: contract_of(tool).effects_of(ORDER) for name, tool in world.tools.items()}
    assert effects == {
        **{name: {"read:grocery"} for name in READS},
        **{name: {"write:grocery"} for name in WRITES},
        "place_order": {"write:grocery", "spend:eur"},
    }
    assert [name for name in world.tools if is_read(effects[name])] == READS
    assert {"write:unknown", "spend:???"} <= world.contract("place_order").effects_of({})


# create_grocery_cart: runtime --------------------------------------------------------------


def test_a_timeout_after_the_cart_was_made_is_unknown_and_the_record_knows(
    remote: World,
) -> None:
    """Timeout and "not made" are different states."""
    remote.unreliable.next("answers late")
    with under_key("k"), pytest.raises(OutcomeUnknown, match="did not answer in time"):
        remote.hasty["create_grocery_cart"].invoke(OAT)
    remote.unreliable.settled(1)
    found = remote.find("create_grocery_cart", OAT, "k")
    assert found.happened is True
    assert (found.transaction, found.record["cart_id"]) == ("G1001", "C17")
    again = remote.run("create_grocery_cart", OAT, "k")
    assert json.loads(found.result or "") == again
    assert remote.shop.carts().matched == 4


def test_what_never_arrived_may_still_arrive(remote: World) -> None:
    remote.unreliable.next("drops before")
    with pytest.raises(OutcomeUnknown):
        remote.run("create_grocery_cart", OAT, "k")
    found = remote.find("create_grocery_cart", OAT, "k")
    assert found.happened is None
    assert "may still be on its way" in found.summary
    remote.run("create_grocery_cart", OAT, "k")
    assert remote.shop.carts().matched == 4


def test_a_shop_without_keys_leaves_it_to_a_person(forgetful: World) -> None:
    """A cart with the same products is there; that it was this call, nobody can tell."""
    assert forgetful.contract("create_grocery_cart").idempotency == "none"
    assert forgetful.find("create_grocery_cart", OAT, "k").happened is None
    forgetful.unreliable.next("drops after")
    with pytest.raises(OutcomeUnknown):
        forgetful.run("create_grocery_cart", OAT, "k")
    found = forgetful.find("create_grocery_cart", OAT, "k")
    assert found.happened is None
    assert "There is C17 (open, made 2026-12-01T10:00:00Z)" in found.summary
    assert [cart["cart_id"] for cart in found.record["carts"]] == ["C17"]


def test_a_limited_shop_says_when_to_try_again(remote: World) -> None:
    remote.unreliable.next("is limited")
    with pytest.raises(TransientFailure, match=r"nothing was changed\. .* again in 7 seconds"):
        remote.run("create_grocery_cart", OAT, "k")
    assert remote.find("create_grocery_cart", OAT, "k").happened is not True


def test_the_answer_to_another_call_is_no_answer(remote: World) -> None:
    remote.run("create_grocery_cart", {"items": [{"product_id": "P1", "quantity": 1}]}, "other")
    remote.unreliable.next("answers another")
    with pytest.raises(OutcomeUnknown, match="not the answer to this request"):
        remote.run("create_grocery_cart", OAT, "k")
    assert remote.find("create_grocery_cart", OAT, "k").record["cart_id"] == "C18"


def test_an_answer_that_the_record_does_not_bear_out_is_no_proof(world: World) -> None:
    right = world.run("create_grocery_cart", OAT, "k")
    confirmed = world.verify("create_grocery_cart", OAT, right, "k")
    assert (confirmed.happened, confirmed.transaction) == (True, right["transaction"])
    assert confirmed.record["items"][0]["product_id"] == "P3"
    for wrong in (
        {**right, "cart_id": "C16"},
        {**right, "cart_id": "C99"},
        {**right, "cart_id": 17},
        "cart C17 made",
        None,
    ):
        assert world.verify("create_grocery_cart", OAT, wrong, "k").happened is None
    more = {"items": [{"product_id": "P3", "quantity": 3}]}
    assert world.verify("create_grocery_cart", more, right, "k").happened is None
    twin = world.run("create_grocery_cart", OAT, "twin")
    assert world.verify("create_grocery_cart", OAT, twin, "k").happened is None


def test_a_locked_shop_is_a_transient_failure(world: World) -> None:
    world.shop.carts()
    other = sqlite3.connect(world.shop.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransientFailure, match="nothing was changed"):
        world.run("create_grocery_cart", OAT, "k")
    other.close()


def test_a_half_done_commit_is_unknown(tmp_path: Path) -> None:
    class HalfBroken(GroceryShop):
        def create_cart(self, *args: Any, **kwargs: Any) -> Any:
            super().create_cart(*args, **kwargs)
            raise Unconfirmed("It may have happened.")

    tools = named(grocery_tools(HalfBroken(tmp_path / "grocery.db")))
    with pytest.raises(OutcomeUnknown):
        run(tools["create_grocery_cart"], OAT, "k")


# create_grocery_cart: adversarial ----------------------------------------------------------


def test_a_description_that_gives_orders_stays_text_of_strangers(world: World) -> None:
    """It is returned by the one tool that is marked, and nothing it asks for can be done."""
    honey = world.seen("search_products", {"query": "honey"})
    text = json.dumps(honey.result)
    assert "payment details have changed" in text
    assert world.contract("search_products").open_world
    args = {"items": [{"product_id": "P14", "quantity": 1}]}
    made = world.seen("create_grocery_cart", args)
    cart_id = made.result["cart_id"]
    others = [made, world.seen("get_cart", {"cart_id": cart_id}), world.seen("list_carts", {})]
    assert not any(world.contract(one.tool).open_world for one in others)
    assert "ASSISTANTS" not in json.dumps([one.result for one in others])
    preview = world.preview("create_grocery_cart", args)
    assert "ASSISTANTS" not in preview.before + preview.after + preview.summary
    arguments = {name for tool in world.tools.values() for name in tool.args}
    assert not [name for name in arguments if "pay" in name or "card" in name or "account" in name]


def test_what_a_description_says_changes_no_precondition_and_no_effect(world: World) -> None:
    forged = Evidence(
        "search_products", {}, {"products": [], "note": json.dumps({"cart_id": "C16", **ORDER})}
    )
    assert world.unmet("place_order", ORDER, forged) is not None
    hidden = "\n".join([json.dumps({"products": []}), "P3 P3 P3"])
    assert world.unmet("create_grocery_cart", OAT, Evidence("search_products", {}, hidden))


# The other tools ---------------------------------------------------------------------------


def test_schemas_are_closed_and_describe_every_argument(world: World) -> None:
    assert list(world.tools) == [*READS, *WRITES]
    for tool in world.tools.values():
        schema = tool.tool_call_schema.model_json_schema()  # type: ignore[union-attr]
        assert schema["additionalProperties"] is False
        for name, field in schema["properties"].items():
            assert field.get("description"), (tool.name, name)
        assert len(tool.description) < 600, tool.name


def test_every_write_says_how_it_is_checked_and_undone(world: World) -> None:
    undone = {name: world.contract(name).undo for name in WRITES}
    assert [name for name in WRITES if undone[name]] == ["create_grocery_cart", "place_order"]
    for name in WRITES:
        contract = world.contract(name)
        assert (contract.idempotency, contract.key_seconds) == ("key", None)
        assert contract.precondition
        assert contract.postcondition
        assert contract.reconcile
        assert contract.preview
        assert contract.always is None
        assert contract.conflict_key
        assert contract.conflict_key(ORDER) == "grocery"
    assert {contract_of(tool).version for tool in world.tools.values()} == {"1"}


@pytest.mark.parametrize(
    ("name", "args", "read"),
    [
        ("create_grocery_cart", OAT, Call("list_carts", {"status": "open"})),
        ("discard_cart", {"cart_id": "C16"}, Call("get_cart", {"cart_id": "C16"})),
        ("place_order", ORDER, Call("get_cart", {"cart_id": "C16"})),
        ("cancel_grocery_order", {"order_id": "O16"}, Call("get_cart", {"cart_id": "C16"})),
    ],
)
def test_the_read_that_shows_what_became_of_it_can_be_called(
    world: World, name: str, args: dict[str, Any], read: Call
) -> None:
    check = world.contract(name).check
    assert check is not None
    assert check(args) == read
    assert world.run(read.tool, dict(read.args))


def test_a_cart_from_search_to_order_and_back(world: World) -> None:
    search = world.seen("search_products", {"query": "oat drink"})
    assert world.unmet("create_grocery_cart", OAT, search) is None
    made = world.seen("create_grocery_cart", OAT)
    assert made.result == {
        "done": "cart C17 made, 3.78 EUR; nothing was ordered",
        "transaction": "G1001",
        "cart_id": "C17",
        "status": "open",
        "total": "3.78",
        "currency": "EUR",
        "revision": 1,
        "order_id": None,
        "order_status": None,
        "packed_at": None,
    }
    order = {"cart_id": "C17", "expected_total": "3.78", "currency": "EUR"}
    assert world.unmet("place_order", order, search, made) is None
    placed = world.seen("place_order", order)
    assert placed.result["done"] == "cart C17 ordered for 3.78 EUR"
    assert placed.result["packed_at"] == "2026-12-01T10:30:00Z"
    cancel = {"order_id": "O17"}
    assert world.unmet("cancel_grocery_order", cancel, search, made, placed) is None
    cancelled = world.seen("cancel_grocery_order", cancel)
    assert cancelled.result["order_status"] == "cancelled"
    was = world.unmet("cancel_grocery_order", cancel, made, placed, cancelled)
    assert "was cancelled" in was.why


def test_an_order_needs_the_total_that_was_seen_last(world: World) -> None:
    missing = world.unmet("place_order", ORDER)
    assert missing.read == Call("get_cart", {"cart_id": "C16"})
    listed = world.seen("list_carts", {"status": "open"})
    read = world.seen("get_cart", {"cart_id": "C16"})
    assert world.unmet("place_order", ORDER, listed) is None
    assert world.unmet("place_order", ORDER, read) is None
    for change in ({"expected_total": "9.45"}, {"currency": "USD"}):
        assert "last seen at 9.44 EUR" in world.unmet("place_order", {**ORDER, **change}, read).why
    with sqlite3.connect(world.shop.path) as db:
        db.execute("UPDATE products SET price = 359 WHERE id = 'P5'")
    db.close()
    newer = world.seen("get_cart", {"cart_id": "C16"})
    assert "last seen at 9.54" in world.unmet("place_order", ORDER, read, newer).why
    with pytest.raises(ToolFailure, match=r"costs 9\.54 EUR now, not 9\.44"):
        world.run("place_order", ORDER)


def test_a_change_of_this_session_makes_an_earlier_read_stale(world: World) -> None:
    read = world.seen("get_cart", {"cart_id": "C16"})
    discarded = world.seen("discard_cart", {"cart_id": "C16"})
    for name, args in (("place_order", ORDER), ("discard_cart", {"cart_id": "C16"})):
        assert "not read since" in world.unmet(name, args, read, discarded).why
        again = world.seen("get_cart", {"cart_id": "C16"})
        assert "was discarded" in world.unmet(name, args, read, discarded, again).why


@pytest.mark.parametrize(
    ("name", "args", "summary"),
    [
        ("create_grocery_cart", OAT, "new cart: 1 product, 3.78 EUR; orders nothing"),
        ("discard_cart", {"cart_id": "C16"}, "cart C16: open → discarded"),
        ("place_order", ORDER, "cart C16: open → ordered, pays 9.44 EUR"),
    ],
)
def test_a_preview_shows_the_change_and_makes_none(
    world: World, name: str, args: dict[str, Any], summary: str
) -> None:
    before = world.shop.carts()
    shown = world.preview(name, args)
    assert shown.summary == summary
    assert shown.after != shown.before
    assert shown.diff
    assert world.preview(name, args) == shown
    assert world.shop.carts() == before


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("create_grocery_cart", {"items": [{"product_id": "P99", "quantity": 1}]}, "no product"),
        ("discard_cart", {"cart_id": "C14"}, "was ordered as O14"),
        ("place_order", {**ORDER, "expected_total": "1.00"}, "costs 9.44 EUR now"),
        ("place_order", {**ORDER, "cart_id": "C99"}, "no cart"),
        ("cancel_grocery_order", {"order_id": "O14"}, "was packed"),
        ("cancel_grocery_order", {"order_id": "O16"}, "never ordered"),
    ],
)
def test_a_preview_says_that_the_call_would_fail(
    world: World, name: str, args: dict[str, Any], words: str
) -> None:
    shown = world.preview(name, args)
    assert "would fail" in shown.summary
    assert words in shown.summary
    assert shown.after == shown.diff == ""


# What the record says ----------------------------------------------------------------------

LIFE = [
    ("create_grocery_cart", OAT),
    ("place_order", {"cart_id": "C17", "expected_total": "3.78", "currency": "EUR"}),
    ("cancel_grocery_order", {"order_id": "O17"}),
    ("discard_cart", {"cart_id": "C16"}),
]


@pytest.mark.parametrize("honours_keys", [True, False])
@pytest.mark.parametrize("http", [True, False])
def test_the_record_settles_every_write(
    tmp_path: Path, server: tuple[Switch, str], http: bool, honours_keys: bool
) -> None:
    """Not there: certain only in this process. There: certain, but for a cart without a key."""
    world = make_world(tmp_path, server, http=http, honours_keys=honours_keys)
    for name, args in LIFE:
        before = world.find(name, args, name)
        assert before.happened is (None if http else False)
        done = world.run(name, args, name)
        after = world.find(name, args, name)
        cart_without_key = name == "create_grocery_cart" and not honours_keys
        assert after.happened is (None if cart_without_key else True)
        if honours_keys:
            assert json.loads(after.result or "") == done
            assert after.transaction == done["transaction"]
        verified = world.verify(name, args, done, name)
        assert (verified.happened, verified.transaction) == (True, done["transaction"])


def test_what_is_out_of_the_question_is_known_without_keys_too(forgetful: World) -> None:
    order = {"cart_id": "C15", "expected_total": "13.74", "currency": "EUR"}
    assert forgetful.find("place_order", order, None).happened is False
    assert forgetful.find("discard_cart", {"cart_id": "C14"}, None).happened is False
    assert forgetful.find("cancel_grocery_order", {"order_id": "O14"}, None).happened is False


def test_another_request_under_the_key_settles_nothing(world: World) -> None:
    world.run("create_grocery_cart", OAT, "k")
    for name, args in (("discard_cart", {"cart_id": "C17"}), ("place_order", ORDER)):
        found = world.find(name, args, "k")
        assert found.happened is None
        assert "belongs to another request" in found.summary
    assert world.find("create_grocery_cart", OAT, None).happened is None


def test_a_record_that_cannot_be_read_has_told_nothing(
    remote: World, server: tuple[Switch, str]
) -> None:
    done = {name: remote.run(name, args, name) for name, args in LIFE}

    server[0].application = away
    for name, args in LIFE:
        for found in (
            remote.find(name, args, name),
            remote.verify(name, args, done[name], name),
        ):
            assert found.happened is None
            assert "could not be read" in found.summary


# Undoing -----------------------------------------------------------------------------------


def test_a_cart_is_undone_by_discarding_it_while_it_is_open(world: World) -> None:
    done = world.run("create_grocery_cart", OAT)
    call = world.undo("create_grocery_cart", OAT, done)
    assert call == Call("discard_cart", {"cart_id": "C17"})
    world.run(call.tool, dict(call.args))
    assert world.undo("create_grocery_cart", OAT, done) is None
    for nothing in (None, "made", {}, {"cart_id": 17}, {"cart_id": "C99"}):
        assert world.undo("create_grocery_cart", OAT, nothing) is None


def test_an_order_is_undone_until_it_is_packed(world: World) -> None:
    done = world.run("place_order", ORDER)
    assert world.undo("place_order", ORDER, done) == Call(
        "cancel_grocery_order", {"order_id": "O16"}
    )
    world.clock.now += timedelta(minutes=31)
    assert world.undo("place_order", ORDER, done) is None


def test_where_the_record_cannot_be_read_nobody_says_how_to_undo(
    remote: World, server: tuple[Switch, str]
) -> None:
    done = remote.run("place_order", ORDER)
    server[0].application = away
    with pytest.raises(Busy):
        remote.undo("place_order", ORDER, done)
