"""The order server, in memory: what holds inside the agent holds outside."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fastmcp import Client
from jsonschema import validate
from pydantic import BaseModel, ConfigDict

from mcp_servers.config import OrdersSettings
from mcp_servers.idempotency import KEY_SCHEMA
from mcp_servers.orders import offer
from mcp_servers.serving import annotations_of, offer_tools
from tools.contract import (
    CallInfo,
    Contract,
    OutcomeUnknown,
    PlainTool,
    TransientFailure,
    Undo,
    contract_of,
    current_call,
)
from tools.langchain_tools import ContractTool
from tools.orders import order_tools
from tools.worlds.order_desk import OrderDesk


@pytest.fixture
def desk(tmp_path: Path) -> OrderDesk:
    return OrderDesk(tmp_path / "desk.db")


async def test_definitions_are_those_of_the_tools(desk: OrderDesk) -> None:
    inside = {tool.name: tool for tool in order_tools(desk)}
    async with Client(offer(desk).server()) as client:
        outside = {tool.name: tool for tool in await client.list_tools()}
    assert list(outside) == list(inside)
    for name, tool in inside.items():
        assert isinstance(tool, ContractTool)
        schema = tool.args_schema
        assert isinstance(schema, type)
        assert issubclass(schema, BaseModel)
        inputs = outside[name].inputSchema
        key = inputs["properties"].pop("idempotency_key", None)
        assert key == (KEY_SCHEMA if contract_of(tool).idempotency == "key" else None)
        assert inputs == schema.model_json_schema()
        assert inputs["additionalProperties"] is False
        assert outside[name].description == tool.description
        assert tool.result_schema is not None
        output = outside[name].outputSchema
        assert output is not None
        assert output["required"] == tool.result_schema["required"]
        assert "$ref" not in json.dumps(output)


async def test_annotations_come_from_the_contracts(desk: OrderDesk) -> None:
    async with Client(offer(desk).server()) as client:
        listed = await client.list_tools()
    hints = {
        tool.name: tool.annotations.model_dump(exclude_none=True)
        for tool in listed
        if tool.annotations
    }
    read = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    write = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
    assert hints == {
        "list_orders": {**read, "openWorldHint": False},
        "get_order": {**read, "openWorldHint": False},
        "cancel_order": {**write, "openWorldHint": False},
        "refund_order": {**write, "openWorldHint": False},
    }


def test_a_tool_that_does_not_say_is_announced_at_its_worst() -> None:
    assert annotations_of(_tool(lambda: "x", Contract())) == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }
    undoable = Contract(
        effects=frozenset({"write:x"}), idempotency="natural", undo=Undo("put it back")
    )
    hints = annotations_of(_tool(lambda: "x", undoable))
    assert (hints["destructiveHint"], hints["idempotentHint"]) == (False, True)


async def test_results_are_those_of_the_tools_as_text_and_as_an_object(desk: OrderDesk) -> None:
    tools = {tool.name: tool for tool in order_tools(desk)}
    calls: list[tuple[str, dict[str, object]]] = [
        ("get_order", {"order_id": "B1"}),
        ("list_orders", {"status": "pending", "page_size": 2}),
        ("list_orders", {"response_format": "detailed", "page_size": 2}),
        ("list_orders", {"customer": "nobody at all"}),
    ]
    async with Client(offer(desk).server()) as client:
        for name, arguments in calls:
            result = await client.call_tool_mcp(name, arguments)
            assert [block.text for block in result.content] == [tools[name].invoke(arguments)]
            assert result.structuredContent == json.loads(result.content[0].text)
            assert not result.isError


async def test_what_writes_return_fits_its_schema(desk: OrderDesk) -> None:
    cancel = {"order_id": "A1", "expected_revision": desk.get("A1").revision}
    refund = {"order_id": "C1", "amount": "1.00", "currency": desk.get("C1").currency}
    async with Client(offer(desk).server()) as client:
        listed = {tool.name: tool for tool in await client.list_tools()}
        for name, arguments in (("cancel_order", cancel), ("refund_order", refund)):
            result = await client.call_tool_mcp(name, arguments)
            validate(result.structuredContent, listed[name].outputSchema)
            assert result.structuredContent == json.loads(result.content[0].text)


# Idempotency keys ------------------------------------------------------------------------------

KEY = "sayso/idempotencyKey"


async def test_a_repeated_key_counts_once(desk: OrderDesk) -> None:
    call = {"order_id": "C1", "amount": "1.00", "currency": desk.get("C1").currency}
    with_key = {**call, "idempotency_key": "k1"}
    async with Client(offer(desk).server()) as client:
        for arguments, meta in (
            (call, {KEY: "k1"}),
            (call, {KEY: "k1"}),
            (with_key, None),
            (with_key, {KEY: "k1"}),
            (call, {KEY: "k2"}),
            (call, None),
        ):
            result = await client.call_tool_mcp("refund_order", arguments, meta=meta)
            assert not result.isError, result.content
    assert desk.get("C1").refunded == 300


async def test_two_keys_that_differ_are_refused(desk: OrderDesk) -> None:
    call = {"order_id": "C1", "amount": "1.00", "currency": desk.get("C1").currency}
    async with Client(offer(desk).server()) as client:
        result = await client.call_tool_mcp(
            "refund_order", {**call, "idempotency_key": "mine"}, meta={KEY: "harness"}
        )
    assert result.isError
    assert result.meta == {"sayso/outcome": "failed"}
    assert result.content[0].text.startswith("The call has two idempotency keys that differ")
    assert "Nothing was changed" in result.content[0].text
    assert desk.get("C1").refunded == 0


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 201, "é", "a\n", 7, True, ["k"]])
@pytest.mark.parametrize("place", ["meta", "argument"])
async def test_a_key_of_the_wrong_form_is_refused(desk: OrderDesk, key: object, place: str) -> None:
    call = {"order_id": "C1", "amount": "1.00", "currency": desk.get("C1").currency}
    arguments = {**call, "idempotency_key": key} if place == "argument" else call
    meta = {KEY: key} if place == "meta" else None
    async with Client(offer(desk).server()) as client:
        result = await client.call_tool_mcp("refund_order", arguments, meta=meta)
    assert result.isError
    assert "is not 1 to 200 visible ASCII characters. Nothing was" in result.content[0].text
    assert desk.get("C1").refunded == 0


async def test_the_key_reaches_the_tool_beside_its_arguments() -> None:
    seen: list[tuple[CallInfo, dict[str, object]]] = []

    def act(**arguments: object) -> str:
        """Act."""
        seen.append((current_call.get(), arguments))
        return "done"

    keyed = Contract(effects=frozenset({"write:x"}), idempotency="key")
    for contract in (keyed, WRITE, READ):
        server = offer_tools("s", "", [_tool(act, contract)]).server()
        async with Client(server) as client:
            await client.call_tool_mcp("act", {}, meta={KEY: "m1"})
            given = await client.call_tool_mcp("act", {"idempotency_key": "a1"})
        if contract is not keyed:
            assert "idempotency_key: Extra inputs are not permitted" in given.content[0].text
    assert [(info.idempotency_key, arguments) for info, arguments in seen] == [
        ("m1", {}),
        ("a1", {}),
        (None, {}),
        (None, {}),
    ]


@pytest.mark.parametrize(
    ("arguments", "meta", "named"),
    [
        ({"idempotency_key": "mine"}, None, 'idempotency_key="mine"'),
        ({}, None, 'idempotency_key="mcp-'),
        ({}, {KEY: "harness"}, None),
    ],
)
async def test_an_open_outcome_names_the_key_that_the_caller_can_repeat(
    arguments: dict[str, object], meta: dict[str, object] | None, named: str | None
) -> None:
    keyed = Contract(effects=frozenset({"write:x"}), idempotency="key")
    for error in (OutcomeUnknown("lost the line."), KeyError("secret")):
        server = offer_tools("s", "", [_tool(_raiser(error), keyed)]).server()
        async with Client(server) as client:
            result = await client.call_tool_mcp("act", arguments, meta=meta)
        assert result.meta == {"sayso/outcome": "unknown"}
        text = result.content[0].text
        assert (named in text) if named else ("idempotency_key" not in text)


# Errors ----------------------------------------------------------------------------------------


async def test_errors_teach(desk: OrderDesk) -> None:
    before = desk.get("A1")
    async with Client(offer(desk).server()) as client:
        shipped = await client.call_tool_mcp(
            "cancel_order", {"order_id": "A2", "expected_revision": desk.get("A2").revision}
        )
        wrong = await client.call_tool_mcp("cancel_order", {"order_id": "A1", "force": True})
    assert shipped.isError
    assert "only pending orders can be cancelled" in shipped.content[0].text
    assert shipped.meta == {"sayso/outcome": "failed"}
    assert wrong.isError
    assert wrong.content[0].text == (
        "cancel_order was not called, its arguments do not fit:\n"
        "- expected_revision: Field required\n"
        "- force: Extra inputs are not permitted"
    )
    assert desk.get("A1") == before


class _Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _tool(function: Callable[..., str], contract: Contract) -> PlainTool:
    return PlainTool(function, args=_Nothing, contract=contract, name="act")


def _raiser(error: Exception) -> Callable[..., str]:
    def act() -> str:
        raise error

    return act


WRITE = Contract(effects=frozenset({"write:x"}))
READ = Contract(effects=frozenset({"read:x"}))


@pytest.mark.parametrize(
    ("error", "contract", "outcome", "shown"),
    [
        (TransientFailure("locked; try again"), WRITE, "transient", "locked; try again"),
        (OutcomeUnknown("lost the line"), WRITE, "unknown", "lost the line"),
        (KeyError("secret"), WRITE, "unknown", "may have changed something"),
        (KeyError("secret"), READ, "failed", "nothing was changed"),
    ],
)
async def test_the_outcome_of_an_error_is_told(
    error: Exception, contract: Contract, outcome: str, shown: str
) -> None:
    server = offer_tools("s", "", [_tool(_raiser(error), contract)]).server()
    async with Client(server) as client:
        result = await client.call_tool_mcp("act", {})
    assert result.isError
    assert result.meta == {"sayso/outcome": outcome}
    assert shown in result.content[0].text
    assert "secret" not in json.dumps(result.model_dump(mode="json"))


class _Done(BaseModel):
    done: bool


@pytest.mark.parametrize("text", ['{"done": "perhaps"}', "[]", "no JSON"])
@pytest.mark.parametrize(("contract", "outcome"), [(WRITE, "unknown"), (READ, "failed")])
async def test_a_result_that_breaks_its_schema_is_no_claim_that_nothing_happened(
    text: str, contract: Contract, outcome: str
) -> None:
    tool = PlainTool(lambda: text, args=_Nothing, contract=contract, result=_Done, name="act")
    async with Client(offer_tools("s", "", [tool]).server()) as client:
        result = await client.call_tool_mcp("act", {})
    assert (result.isError, result.meta) == (True, {"sayso/outcome": outcome})
    assert text not in result.content[0].text


def test_the_database_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("ORDER_DESK_DB=elsewhere.db\n")
    monkeypatch.delenv("ORDER_DESK_DB", raising=False)
    assert OrdersSettings().database.parts[-3:] == ("sayso", "worlds", "orders.db")
    monkeypatch.setenv("ORDER_DESK_DB", str(tmp_path / "x.db"))
    assert OrdersSettings().database == tmp_path / "x.db"
