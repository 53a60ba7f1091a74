"""The order server, in memory: what holds inside the agent holds outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastmcp import Client
from langchain_core.tools import BaseTool
from pydantic import BaseModel

from mcp_servers.config import OrdersSettings
from mcp_servers.orders import build_server
from mcp_servers.serving import annotations_of, make_server
from tools.contract import Contract, OutcomeUnknown, TransientFailure, make_tool
from tools.orders import order_tools
from tools.worlds.order_desk import OrderDesk


@pytest.fixture
def desk(tmp_path: Path) -> OrderDesk:
    return OrderDesk(tmp_path / "desk.db")


async def test_definitions_are_those_of_the_tools(desk: OrderDesk) -> None:
    inside = {tool.name: tool for tool in order_tools(desk)}
    async with Client(build_server(desk)) as client:
        outside = {tool.name: tool for tool in await client.list_tools()}
    assert list(outside) == list(inside)
    for name, tool in inside.items():
        schema = tool.args_schema
        assert isinstance(schema, type)
        assert issubclass(schema, BaseModel)
        assert outside[name].inputSchema == schema.model_json_schema()
        assert outside[name].inputSchema["additionalProperties"] is False
        assert outside[name].description == tool.description


async def test_annotations_come_from_the_contracts(desk: OrderDesk) -> None:
    async with Client(build_server(desk)) as client:
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
    undoable = Contract(effects=frozenset({"write:x"}), idempotency="natural", undo="put it back")
    hints = annotations_of(_tool(lambda: "x", undoable))
    assert (hints["destructiveHint"], hints["idempotentHint"]) == (False, True)


async def test_results_are_those_of_the_tools(desk: OrderDesk) -> None:
    get_order = next(tool for tool in order_tools(desk) if tool.name == "get_order")
    async with Client(build_server(desk)) as client:
        result = await client.call_tool_mcp("get_order", {"order_id": "B1"})
    assert [block.text for block in result.content] == [get_order.invoke({"order_id": "B1"})]
    assert not result.isError


async def test_a_repeated_key_counts_once(desk: OrderDesk) -> None:
    call = {"order_id": "C1", "amount": "1.00", "currency": desk.get("C1").currency}
    async with Client(build_server(desk)) as client:
        for key in ("k1", "k1", "k2", None):
            meta = {"sayso/idempotencyKey": key} if key else None
            result = await client.call_tool_mcp("refund_order", call, meta=meta)
            assert not result.isError, result.content
    assert desk.get("C1").refunded == 300
    assert len(desk.history("C1")) >= 3


async def test_errors_teach(desk: OrderDesk) -> None:
    before = desk.get("A1")
    async with Client(build_server(desk)) as client:
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
    pass


def _tool(function: object, contract: Contract) -> BaseTool:
    assert callable(function)
    return make_tool(function, args=_Nothing, contract=contract, name="act")


def _raiser(error: Exception) -> object:
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
    server = make_server("s", "", [_tool(_raiser(error), contract)])
    async with Client(server) as client:
        result = await client.call_tool_mcp("act", {})
    assert result.isError
    assert result.meta == {"sayso/outcome": outcome}
    assert shown in result.content[0].text
    assert "secret" not in json.dumps(result.model_dump(mode="json"))


def test_the_database_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("ORDER_DESK_DB=elsewhere.db\n")
    monkeypatch.delenv("ORDER_DESK_DB", raising=False)
    assert OrdersSettings().database.parts[-3:] == ("sayso", "worlds", "orders.db")
    monkeypatch.setenv("ORDER_DESK_DB", str(tmp_path / "x.db"))
    assert OrdersSettings().database == tmp_path / "x.db"
