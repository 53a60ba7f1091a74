"""The order tools as a model and the harness meet them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import BaseTool
from pydantic import ValidationError

from tools.contract import (
    Call,
    CallInfo,
    Evidence,
    Finding,
    OutcomeUnknown,
    ToolFailure,
    TransientFailure,
    contract_of,
    current_call,
    is_read,
)
from tools.orders import order_tools
from tools.worlds.order_desk import CommitUnknown, OrderDesk


@pytest.fixture
def desk(tmp_path: Path) -> OrderDesk:
    return OrderDesk(tmp_path / "orders.db", busy_timeout=0.1)


@pytest.fixture
def tools(desk: OrderDesk) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in order_tools(desk)}


@contextmanager
def call_with_key(key: str | None) -> Iterator[None]:
    token = current_call.set(CallInfo(call_id="c1", idempotency_key=key))
    try:
        yield
    finally:
        current_call.reset(token)


def preview(tool: BaseTool, args: dict[str, Any]) -> Any:
    make = contract_of(tool).preview
    assert make is not None
    return make(args)


# Contracts ---------------------------------------------------------------------------------


def test_effects_follow_the_arguments(tools: dict[str, BaseTool]) -> None:
    effects = {
        name: contract_of(tool).effects_of({"order_id": "A1", "amount": "1", "currency": "EUR"})
        for name, tool in tools.items()
    }
    assert effects == {
        "list_orders": {"read:orders"},
        "get_order": {"read:orders"},
        "cancel_order": {"write:orders"},
        "refund_order": {"write:orders", "spend:refund-eur"},
    }
    assert [name for name in tools if is_read(effects[name])] == ["list_orders", "get_order"]
    refund = contract_of(tools["refund_order"])
    assert "spend:refund-usd" in refund.effects_of({"currency": "USD"})
    assert {"write:unknown", "spend:refund-???"} <= refund.effects_of({})


def test_all_results_are_private_and_none_are_from_strangers(tools: dict[str, BaseTool]) -> None:
    for tool in tools.values():
        contract = contract_of(tool)
        assert (contract.private, contract.open_world, contract.version) == (True, False, "1")


def test_calls_on_one_order_share_a_conflict_key(tools: dict[str, BaseTool]) -> None:
    keys = {
        key(args)
        for name in ("get_order", "cancel_order", "refund_order")
        for args in ({"order_id": "A1"}, {"order_id": " a1"})
        if (key := contract_of(tools[name]).conflict_key)
    }
    assert keys == {"order:A1"}


def test_a_person_is_never_offered_to_allow_these_writes_always(
    tools: dict[str, BaseTool],
) -> None:
    for name in ("cancel_order", "refund_order"):
        contract = contract_of(tools[name])
        assert (contract.always, contract.undo, contract.idempotency) == (None, None, "key")


def test_schemas_are_closed_and_describe_every_argument(tools: dict[str, BaseTool]) -> None:
    for tool in tools.values():
        schema = tool.tool_call_schema.model_json_schema()  # type: ignore[union-attr]
        assert schema["additionalProperties"] is False
        for name, field in schema["properties"].items():
            assert field.get("description"), (tool.name, name)
        assert len(tool.description) < 600


def test_the_schema_tells_the_model_every_bound(tools: dict[str, BaseTool]) -> None:
    schema: Any = tools["refund_order"].tool_call_schema
    properties = schema.model_json_schema()["properties"]
    assert properties["order_id"]["pattern"] == "^[A-Z][0-9]{1,4}$"
    assert properties["amount"]["pattern"] == r"^[0-9]{1,7}(\.[0-9]{1,2})?$"
    assert properties["currency"]["enum"] == ["EUR", "USD", "GBP"]


# Arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("get_order", {"order_id": "order A1"}),
        ("get_order", {"order_id": "A1", "id": "A1"}),
        ("get_order", {}),
        ("cancel_order", {"order_id": "A1"}),
        ("cancel_order", {"order_id": "A1", "expected_revision": 0}),
        ("refund_order", {"order_id": "C1", "amount": "-1", "currency": "EUR"}),
        ("refund_order", {"order_id": "C1", "amount": "1,50", "currency": "EUR"}),
        ("refund_order", {"order_id": "C1", "amount": 1.005, "currency": "EUR"}),
        ("refund_order", {"order_id": "C1", "amount": 1e16, "currency": "EUR"}),
        ("refund_order", {"order_id": "C1", "amount": True, "currency": "EUR"}),
        ("refund_order", {"order_id": "C1", "amount": "1", "currency": "CHF"}),
        ("list_orders", {"status": "open"}),
        ("list_orders", {"placed_from": "2026-02-30"}),
        ("list_orders", {"placed_from": "1.11.2026"}),
        ("list_orders", {"page_size": 51}),
        ("list_orders", {"page": 0}),
    ],
)
def test_arguments_that_do_not_fit_reach_no_desk(
    tools: dict[str, BaseTool], desk: OrderDesk, name: str, args: dict[str, Any]
) -> None:
    with pytest.raises(ValidationError):
        tools[name].invoke(args)
    assert not desk.path.exists()


@pytest.mark.parametrize(
    ("amount", "normal"), [("12.5", "12.50"), ("12", "12.00"), (12, "12.00"), (12.5, "12.50")]
)
def test_arguments_have_one_spelling(
    tools: dict[str, BaseTool], amount: object, normal: str
) -> None:
    schema: Any = tools["refund_order"].args_schema
    once = schema(order_id=" c1 ", amount=amount, currency="EUR").model_dump()
    assert once == {"order_id": "C1", "amount": normal, "currency": "EUR"}
    assert schema(**once).model_dump() == once


# Reading -----------------------------------------------------------------------------------


def test_get_order_returns_the_record(tools: dict[str, BaseTool]) -> None:
    assert json.loads(tools["get_order"].invoke({"order_id": "A1"})) == {
        "id": "A1",
        "status": "pending",
        "revision": 1,
        "customer": "Mara Lindqvist",
        "email": "mara.lindqvist@post.example",
        "items": [{"name": "Desk lamp, oak", "quantity": 2, "unit_price": "64.50"}],
        "total": "129.00",
        "refunded": "0.00",
        "refundable": "0.00",
        "currency": "EUR",
        "placed": "2026-11-02T09:30:00Z",
        "updated": "2026-11-02T09:30:00Z",
    }


def test_an_unknown_order_teaches(tools: dict[str, BaseTool]) -> None:
    with pytest.raises(ToolFailure, match=r"no order 'A9'. Near it there are A8, A7, A6. Ids look"):
        tools["get_order"].invoke({"order_id": "A9"})


def test_a_listing_says_what_follows(tools: dict[str, BaseTool]) -> None:
    listed = tools["list_orders"]
    first = json.loads(listed.invoke({"status": "pending", "page_size": 5, "sort": "id"}))
    assert first["orders"][0] == {
        "id": "A1",
        "status": "pending",
        "customer": "Mara Lindqvist",
        "total": "129.00",
        "currency": "EUR",
        "placed": "2026-11-02",
    }
    assert (first["matched"], first["pages"], len(first["orders"])) == (11, 3, 5)
    assert first["note"] == "page 1 of 3; next: page=2"
    last = json.loads(listed.invoke({"status": "pending", "page_size": 5, "page": 3}))
    assert (len(last["orders"]), last["note"]) == (1, "page 3 of 3; nothing follows")
    beyond = json.loads(listed.invoke({"status": "pending", "page": 9}))
    assert (beyond["orders"], beyond["note"]) == ([], "There is no page 9; the last is page=1.")


def test_an_empty_listing_says_what_to_try(tools: dict[str, BaseTool]) -> None:
    empty = json.loads(tools["list_orders"].invoke({"customer": "Zoe", "status": "shipped"}))
    assert empty["matched"] == 0
    assert empty["note"] == "No order matches. Try fewer filters. Check the spelling of 'Zoe'."


def test_days_the_wrong_way_round_teach(tools: dict[str, BaseTool]) -> None:
    with pytest.raises(ToolFailure, match="Swap them"):
        tools["list_orders"].invoke({"placed_from": "2026-11-02", "placed_to": "2026-11-01"})


def test_detailed_is_what_get_order_returns_and_concise_is_much_shorter(
    tools: dict[str, BaseTool],
) -> None:
    detailed = tools["list_orders"].invoke({"response_format": "detailed"})
    concise = tools["list_orders"].invoke({})
    record = json.loads(detailed)["orders"][0]
    assert record == json.loads(tools["get_order"].invoke({"order_id": record["id"]}))
    assert len(concise) < len(detailed) / 2


# Writing -----------------------------------------------------------------------------------


def test_cancel_then_refund(tools: dict[str, BaseTool], desk: OrderDesk) -> None:
    cancelled = json.loads(tools["cancel_order"].invoke({"order_id": "A1", "expected_revision": 1}))
    assert cancelled == {
        "done": "order A1 cancelled",
        "transaction": desk.history("A1")[0].id,
        "order_id": "A1",
        "status": "cancelled",
        "revision": 2,
        "refundable": "129.00",
        "currency": "EUR",
    }
    refund = {"order_id": "A1", "amount": "29", "currency": "EUR"}
    assert json.loads(tools["refund_order"].invoke(refund)) == {
        "done": "29.00 EUR of order A1 refunded",
        "transaction": desk.history("A1")[1].id,
        "order_id": "A1",
        "amount": "29.00",
        "currency": "EUR",
        "refunded": "29.00",
        "refundable": "100.00",
        "revision": 3,
    }


def test_the_harness_key_reaches_the_desk(tools: dict[str, BaseTool], desk: OrderDesk) -> None:
    refund = {"order_id": "C1", "amount": "10", "currency": "EUR"}
    with call_with_key("session/message/call"):
        first = tools["refund_order"].invoke(refund)
        assert tools["refund_order"].invoke(refund) == first
    recorded = desk.find_transaction("session/message/call")
    assert recorded is not None
    assert recorded.id == json.loads(first)["transaction"]
    assert desk.get("C1").refunded == 1000


async def test_the_harness_key_reaches_the_desk_from_async_code(
    tools: dict[str, BaseTool], desk: OrderDesk
) -> None:
    with call_with_key("async-key"):
        await tools["cancel_order"].ainvoke({"order_id": "A1", "expected_revision": 1})
    assert desk.find_transaction("async-key") is not None


def test_calls_without_a_key_are_requests_of_their_own(
    tools: dict[str, BaseTool], desk: OrderDesk
) -> None:
    refund = {"order_id": "C1", "amount": "10", "currency": "EUR"}
    tools["refund_order"].invoke(refund)
    tools["refund_order"].invoke(refund)
    assert desk.get("C1").refunded == 2000


def test_a_refusal_is_a_failure_that_says_why(tools: dict[str, BaseTool]) -> None:
    with pytest.raises(ToolFailure, match="already shipped") as caught:
        tools["cancel_order"].invoke({"order_id": "A2", "expected_revision": 2})
    assert not isinstance(caught.value, TransientFailure)


def test_a_locked_desk_is_a_transient_failure(tools: dict[str, BaseTool], desk: OrderDesk) -> None:
    desk.get("A1")
    other = sqlite3.connect(desk.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TransientFailure, match=r"nothing was changed\. Try the same call again"):
        tools["cancel_order"].invoke({"order_id": "A1", "expected_revision": 1})
    other.close()


def test_a_broken_commit_is_an_unknown_outcome(tmp_path: Path) -> None:
    class HalfBroken(OrderDesk):
        def cancel(self, *args: Any, **kwargs: Any) -> Any:
            super().cancel(*args, **kwargs)
            raise CommitUnknown("k", "disk I/O error")

    desk = HalfBroken(tmp_path / "orders.db")
    cancel = order_tools(desk)[2]
    with pytest.raises(OutcomeUnknown, match="may have happened"):
        cancel.invoke({"order_id": "A1", "expected_revision": 1})
    assert desk.get("A1").status == "cancelled"


# Previews ----------------------------------------------------------------------------------


def test_a_preview_shows_the_change_and_makes_none(
    tools: dict[str, BaseTool], desk: OrderDesk
) -> None:
    shown = preview(tools["cancel_order"], {"order_id": "A1", "expected_revision": 1})
    assert shown.summary == "order A1: pending → cancelled"
    assert "status: pending" in shown.before
    assert "status: cancelled" in shown.after
    assert "Mara Lindqvist <mara.lindqvist@post.example>" in shown.after
    assert "-status: pending\n+status: cancelled\n" in shown.diff
    refund = preview(
        tools["refund_order"], {"order_id": "C1", "amount": "83.50", "currency": "EUR"}
    )
    assert refund.summary == (
        "order C1: 83.50 EUR back to Jonas Weber, refunded 0.00 → 83.50 of 183.50"
    )
    assert (desk.get("A1").revision, desk.get("C1").refunded) == (1, 0)


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("cancel_order", {"order_id": "A2", "expected_revision": 2}, "already shipped"),
        ("cancel_order", {"order_id": "A9", "expected_revision": 1}, "There is no order"),
        ("cancel_order", {"order_id": "A1", "expected_revision": 5}, "at revision 1, not 5"),
        ("refund_order", {"order_id": "C1", "amount": "999", "currency": "EUR"}, "left to refund"),
    ],
)
def test_a_preview_says_that_the_call_would_fail(
    tools: dict[str, BaseTool], name: str, args: dict[str, Any], words: str
) -> None:
    shown = preview(tools[name], args)
    assert "would fail" in shown.summary
    assert words in shown.summary
    assert shown.after == shown.diff == ""


# What was read before, and the record after --------------------------------------------------

WHOLE = {"id": "A1", "status": "pending", "revision": 3}
SEEN: dict[str, tuple[list[Evidence], int | None, str]] = {
    "nothing": ([], 3, "never read"),
    "it": ([Evidence("get_order", {}, WHOLE)], 3, ""),
    "it, of another revision": ([Evidence("get_order", {}, WHOLE)], 4, "last seen at revision 3"),
    "it, twice": (
        [Evidence("get_order", {}, WHOLE), Evidence("get_order", {}, WHOLE | {"revision": 4})],
        3,
        "last seen at revision 4",
    ),
    "it, in a list": ([Evidence("list_orders", {}, {"orders": [{"id": "B1"}, WHOLE]})], 3, ""),
    "it, in a list without revisions": (
        [Evidence("list_orders", {}, {"orders": [{"id": "A1", "status": "pending"}]})],
        3,
        "never read",
    ),
    "what the session did to it": (
        [
            Evidence("get_order", {}, WHOLE),
            Evidence("cancel_order", {}, {"order_id": "A1", "revision": 4}),
        ],
        3,
        "last seen at revision 4",
    ),
    "another order": ([Evidence("get_order", {}, WHOLE | {"id": "A2"})], 3, "never read"),
    "it, and no revision is named": ([Evidence("get_order", {}, WHOLE)], None, ""),
    "the same shape from elsewhere": ([Evidence("read_file", {}, WHOLE)], 3, "never read"),
    "a text": ([Evidence("get_order", {}, "order A1 is at revision 3")], 3, "never read"),
    "nonsense": (
        [
            Evidence("get_order", {}, value)
            for value in (None, 7, ["A1"], {"orders": "A1"}, {"orders": [None, 3]})
        ],
        3,
        "never read",
    ),
    "a revision that is none": (
        [Evidence("get_order", {}, WHOLE | {"revision": True})],
        True,
        "never read",
    ),
}


@pytest.mark.parametrize(("evidence", "revision", "why"), SEEN.values(), ids=SEEN)
def test_an_order_must_have_been_seen_as_it_is_named(
    tools: dict[str, BaseTool], evidence: list[Evidence], revision: int | None, why: str
) -> None:
    args = {"order_id": "A1"} | ({} if revision is None else {"expected_revision": revision})
    for name in ("cancel_order", "refund_order"):
        holds = contract_of(tools[name]).precondition
        assert holds is not None
        missing = holds(args, evidence)
        if not why:
            assert missing is None
            continue
        assert missing is not None
        assert why in missing.why
        assert missing.read == Call("get_order", {"order_id": "A1"})


CANCEL = {"order_id": "A1", "expected_revision": 1}
REFUND = {"order_id": "C1", "amount": "5.00", "currency": "EUR"}


def found(tool: BaseTool, args: dict[str, Any], key: str | None) -> Finding:
    look = contract_of(tool).reconcile
    assert look is not None
    finding = look(args, CallInfo(idempotency_key=key))
    assert isinstance(finding, Finding)
    return finding


def verified(tool: BaseTool, args: dict[str, Any], key: str, result: Any = None) -> Finding:
    check = contract_of(tool).postcondition
    assert check is not None
    finding = check(args, CallInfo(idempotency_key=key), result)
    assert isinstance(finding, Finding)
    return finding


@pytest.mark.parametrize(("name", "args"), [("cancel_order", CANCEL), ("refund_order", REFUND)])
def test_the_desks_own_record_says_what_happened_under_a_key(
    tools: dict[str, BaseTool], desk: OrderDesk, name: str, args: dict[str, Any]
) -> None:
    tool = tools[name]
    before = found(tool, args, "k")
    assert (before.happened, before.transaction) == (False, None)
    assert verified(tool, args, "k").happened is False
    with call_with_key("k"):
        answer = tool.invoke(args)
    after = found(tool, args, "k")
    transaction = desk.find_transaction("k")
    assert transaction is not None
    assert (after.happened, after.transaction, after.result) == (True, transaction.id, answer)
    assert after.record["transaction"] == transaction.id
    assert verified(tool, args, "k").happened is True
    assert found(tool, args, "another").happened is False
    assert found(tool, args, None).happened is None


def test_another_request_under_the_key_is_no_proof_of_this_one(
    tools: dict[str, BaseTool], desk: OrderDesk
) -> None:
    desk.refund("C1", 500, "EUR", "k")
    for tool, args in (
        (tools["cancel_order"], CANCEL),
        (tools["refund_order"], REFUND | {"order_id": "C2"}),
    ):
        finding = found(tool, args, "k")
        assert finding.happened is None
        assert "another request" in finding.summary
    other = verified(tools["refund_order"], REFUND | {"amount": "7.00"}, "k")
    assert (other.happened, other.summary) == (None, "The desk recorded 5.00 paid back.")


def test_a_cancellation_is_verified_by_the_order_itself(
    tools: dict[str, BaseTool], desk: OrderDesk
) -> None:
    desk.cancel("A1", 1, "k")
    good = verified(tools["cancel_order"], CANCEL, "k")
    assert (good.happened, good.record["status"], good.record["revision"]) == (True, "cancelled", 2)
    with sqlite3.connect(desk.path) as db:
        db.execute("UPDATE orders SET status = 'pending' WHERE id = 'A1'")
    db.close()
    finding = verified(tools["cancel_order"], CANCEL, "k", {"status": "cancelled"})
    assert (finding.happened, finding.summary) == (None, "Order A1 is pending.")


def test_what_cannot_be_undone_says_so_and_every_write_names_its_read(
    tools: dict[str, BaseTool],
) -> None:
    for name in ("cancel_order", "refund_order"):
        contract = contract_of(tools[name])
        assert contract.undo is None
        assert contract.check is not None
        assert contract.check({"order_id": " a1"}) == Call("get_order", {"order_id": "A1"})
