"""Raw messages, as hostile as they come, to each server over each transport.

Each gets the protocol's own error, or none where JSON-RPC says so; and whatever came before, the
same connection serves a good request afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp import McpError
from mcp.types import LATEST_PROTOCOL_VERSION, PaginatedRequestParams

from mcp_servers.inbound import PATH
from mcp_servers.messages import MAX_MESSAGE, Gate, Refused
from mcp_servers.strict_json import MAX_DEPTH
from tests.support.courses import LMS_TOKEN
from tests.support.served import (
    AGENT_TOKEN,
    RawStdio,
    closed_port,
    message_of,
    process,
    raw_http,
    raw_stdio,
)
from tests.support.served import over_http as sdk_over_http
from tools.worlds.order_desk import OrderDesk

PARSE, INVALID, METHOD, PARAMS = -32700, -32600, -32601, -32602
SERVED = {"jsonrpc": "2.0", "id": "afterwards", "result": {}}
CLIENT = {"name": "test", "version": "1"}
PROGRAMS: dict[str, tuple[str, dict[str, str]]] = {
    "mcp_servers.orders": ("get_order", {"order_id": "A1"}),
    "mcp_servers.research": ("calculator", {"expression": "6 * 7"}),
    "mcp_servers.courses": ("list_assignments", {}),
}

Raw = tuple[str, bytes, tuple[object, int] | None]


def request(method: object, id: object = 7, **params: object) -> bytes:
    message: dict[str, object] = {"jsonrpc": "2.0", "id": id, "method": method}
    return json.dumps({**message, "params": params} if params else message).encode()


def call(**params: object) -> bytes:
    return request("tools/call", **params)


ARGUMENT = b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "x", "y": %s}}'

RAW: list[Raw] = [
    # What comes, and the (id, code) of what it gets; None: nothing.
    ("words", b"hello", (None, PARSE)),
    ("half an object", b'{"jsonrpc": "2.0", "id": 7', (None, PARSE)),
    ("two objects", b"{} {}", (None, PARSE)),
    ("not UTF-8", b"\xff\xfe{}", (None, PARSE)),
    ("not UTF-8 in a string", b'{"jsonrpc": "2.0", "id": "\xff", "method": "ping"}', (None, PARSE)),
    ("UTF-16", '{"jsonrpc": "2.0", "id": 7, "method": "ping"}'.encode("utf-16"), (None, PARSE)),
    ("a byte order mark", b"\xef\xbb\xbf" + request("ping"), (None, PARSE)),
    ("open brackets", b"[" * 100_000, (None, PARSE)),
    ("deep", ARGUMENT % (b"[" * 5000 + b"]" * 5000), (None, PARSE)),
    ("deeper than the SDK reads", ARGUMENT % (b'{"a":' * 300 + b"1" + b"}" * 300), (None, PARSE)),
    ("half a surrogate pair", request("ping", "\ud800"), (None, PARSE)),
    ("half a pair as an argument", ARGUMENT % b'"\\udc00"', (None, PARSE)),
    ("half a pair as a name", ARGUMENT % b'{"\\udc00": 1}', (None, PARSE)),
    ("not a number", ARGUMENT % b"NaN", (None, PARSE)),
    ("beyond all numbers", ARGUMENT % b"1e999", (None, PARSE)),
    ("a number of 5000 digits", ARGUMENT % (b"9" * 5000), (None, PARSE)),
    ("an empty array", b"[]", (None, INVALID)),
    ("a batch", b"[" + request("ping") + b"]", (None, INVALID)),
    ("a number", b"7", (None, INVALID)),
    ("a string", b'"ping"', (None, INVALID)),
    ("true", b"true", (None, INVALID)),
    ("null", b"null", (None, INVALID)),
    ("an empty object", b"{}", (None, INVALID)),
    ("id null", request("ping", None), (None, INVALID)),
    ("id true", request("ping", True), (None, INVALID)),
    ("id 7.0", request("ping", 7.0), (None, INVALID)),
    ("id of brackets", request("ping", []), (None, INVALID)),
    ("no version", b'{"id": 7, "method": "ping"}', (7, INVALID)),
    ("version 1.0", b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', (7, INVALID)),
    ("no method", b'{"jsonrpc": "2.0", "id": 7}', (7, INVALID)),
    ("a method that is no string", request(7), (7, INVALID)),
    ("an unknown method", request("orders/delete"), (7, METHOD)),
    ("an unknown method with params", request("orders/delete", all=True), (7, METHOD)),
    ("a method of others", request("sampling/createMessage"), (7, METHOD)),
    ("a long id", request("nothing", "x" * 1000), ("x" * 1000, METHOD)),
    (
        "params in an array",
        b'{"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []}',
        (7, PARAMS),
    ),
    (
        "params in a string",
        b'{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": "x"}',
        (7, PARAMS),
    ),
    ("params of another form", request("tools/call", name="x", arguments=[1]), (7, PARAMS)),
    ("a meta of another form", request("ping", _meta="x"), (7, PARAMS)),
    ("a progress token of another form", request("ping", _meta={"progressToken": []}), (7, PARAMS)),
    ("a level nobody knows", request("logging/setLevel", level="loud"), (7, PARAMS)),
    ("an address that is a number", request("resources/read", uri=7), (7, PARAMS)),
    ("a greeting of another form", request("initialize", protocolVersion="1"), (7, PARAMS)),
    ("a cursor nobody gave", request("tools/list", cursor="eyJvIjogMH0="), (7, PARAMS)),
    ("a cursor that is empty", request("tools/list", cursor=""), (7, PARAMS)),
    ("a cursor that is a number", request("tools/list", cursor=0), (7, PARAMS)),
    ("a cursor of resources", request("resources/list", cursor="x"), (7, PARAMS)),
    ("an unknown tool", call(name="delete_everything", arguments={}), (7, PARAMS)),
    ("a tool of another case", call(name="GET_ORDER", arguments={}), (7, PARAMS)),
    ("a call without params", call(), (7, PARAMS)),
    ("a call without a name", call(arguments={}), (7, PARAMS)),
    ("a call of a number", call(name=7, arguments={}), (7, PARAMS)),
    ("an unknown prompt", request("prompts/get", name="x"), (7, PARAMS)),
    ("initialize without params", request("initialize"), (7, PARAMS)),
    (
        "a version that is a number",
        request("initialize", protocolVersion=7, capabilities={}, clientInfo={}),
        (7, PARAMS),
    ),
    ("too long", b'{"jsonrpc": "2.0", "id": "%s"}' % (b"x" * MAX_MESSAGE), (None, INVALID)),
    ("long and no JSON", b"x" * (3 * MAX_MESSAGE), (None, INVALID)),
    ("an unknown notification", b'{"jsonrpc": "2.0", "method": "notifications/x"}', None),
    (
        "a notification with wrong params",
        b'{"jsonrpc": "2.0", "method": "notifications/x", "params": []}',
        None,
    ),
    (
        "the end of what never began",
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}',
        None,
    ),
    ("no progress", b'{"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}', None),
    (
        "the end of another form",
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {}}}',
        None,
    ),
    ("a request as a notification", b'{"jsonrpc": "2.0", "method": "ping"}', None),
    ("a notification without a name", b'{"jsonrpc": "2.0", "method": ""}', None),
    ("an answer to nothing", b'{"jsonrpc": "2.0", "id": 7, "result": {}}', None),
    ("an answer twice over", b'{"jsonrpc": "2.0", "id": 7, "result": {}, "error": {}}', None),
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What any of the servers needs; there is no course service."""
    return {
        "ORDER_DESK_DB": str(tmp_path_factory.mktemp("orders") / "orders.db"),
        "LMS_TOKEN": LMS_TOKEN,
        "LMS_URL": f"http://127.0.0.1:{closed_port()}",
        "AGENT_TOKEN": AGENT_TOKEN,
    }


@pytest.fixture(scope="module")
def orders(environment: dict[str, str]) -> Iterator[RawStdio]:
    """The order server over stdio, greeted; nothing that it is sent here may change an order."""
    with raw_stdio("-m", "mcp_servers.orders", env=environment) as server:
        server.initialize()
        yield server


@pytest.fixture(scope="module")
def orders_url(environment: dict[str, str]) -> Iterator[str]:
    """The order server over HTTP."""
    with process("mcp_servers.orders", "--http", "--port", "0", **environment) as running:
        yield running.url


@pytest.mark.parametrize("program", PROGRAMS)
def test_over_stdio(program: str, environment: dict[str, str]) -> None:
    got: dict[str, object] = {}
    with raw_stdio("-m", program, env=environment) as server:
        server.initialize()
        for name, raw, _ in RAW:
            server.write(raw)
            server.write(request("ping", "afterwards"))
            came = []
            while (message := server.read()) != SERVED:
                came.append((message["id"], message["error"]["code"]))
            got[name] = came
        tool, arguments = PROGRAMS[program]
        server.write(call(name=tool, arguments=arguments))
        assert server.read()["result"]["content"]
        assert "validation" not in server.end(), "nothing of what came is in the log"
    assert got == {name: [expected] if expected else [] for name, _, expected in RAW}


@pytest.mark.parametrize("program", PROGRAMS)
def test_over_http(program: str, environment: dict[str, str]) -> None:
    got: dict[str, object] = {}
    with (
        process(program, "--http", "--port", "0", **environment) as running,
        raw_http(running.url) as client,
    ):
        for name, raw, _ in RAW:
            answer = client.post(PATH, content=raw)
            error = message_of(answer) if answer.status_code in (200, 400) else None
            got[name] = (answer.status_code, error and (error["id"], error["error"]["code"]))
            assert message_of(client.post(PATH, content=request("ping", "afterwards"))) == SERVED
        tool, arguments = PROGRAMS[program]
        good = client.post(PATH, content=call(name=tool, arguments=arguments))
        assert message_of(good)["result"]["content"]
    assert "validation" not in running.log
    assert got == {name: over_http(raw, expected) for name, raw, expected in RAW}


def over_http(raw: bytes, expected: tuple[object, int] | None) -> tuple[int, object]:
    """Status and error: what is no message at all is a bad request."""
    if len(raw) > MAX_MESSAGE:
        return 413, None
    if expected is None:
        return 202, None
    return 400 if expected[1] in (PARSE, INVALID) else 200, expected


def test_what_is_no_request_is_not_run(environment: dict[str, str], orders: RawStdio) -> None:
    """A call that has no id is a notification: nobody could hear what came of it."""
    desk = OrderDesk(Path(environment["ORDER_DESK_DB"]))
    cancel = {"order_id": "A1", "expected_revision": desk.get("A1").revision}
    params = {"name": "cancel_order", "arguments": cancel}
    silent = json.dumps({"jsonrpc": "2.0", "method": "tools/call", "params": params}).encode()
    orders.write(silent)
    orders.write(request("ping", "afterwards"))
    assert orders.read() == SERVED
    assert desk.get("A1").status == "pending"


def test_the_spelling_that_was_read_is_the_one_that_counts(orders: RawStdio) -> None:
    """Two names for one tool: the last one is called, and there is no second reading."""
    twice = call(name="get_order", arguments={"order_id": "A2"}).replace(
        b'"name"', b'"name": "cancel_order", "name"'
    )
    orders.write(twice)
    assert json.loads(orders.read()["result"]["content"][0]["text"])["id"] == "A2"


@pytest.mark.parametrize("task", [{"ttl": 60_000}, {}, "later", None])
def test_a_call_as_a_task_is_served_as_a_call(task: object, orders: RawStdio) -> None:
    """No tasks are announced, so the protocol wants it so."""
    orders.write(call(name="get_order", arguments={"order_id": "A2"}, task=task))
    assert json.loads(orders.read()["result"]["content"][0]["text"])["id"] == "A2"


def test_what_does_not_fit_is_named(orders: RawStdio) -> None:
    orders.write(call(name="get_order", arguments="A1", _meta={"progressToken": [], "x" * 999: 1}))
    said = orders.read()["error"]["message"]
    assert "params.arguments: Input should be a valid dictionary" in said
    assert "params._meta.progressToken.str: Input should be a valid string" in said
    assert len(said) < 1100


def test_before_initialize_nothing_is_served() -> None:
    with raw_stdio("-m", "mcp_servers.research") as server:
        server.write(request("ping", "early"))
        assert server.read() == {"jsonrpc": "2.0", "id": "early", "result": {}}
        server.write(request("tools/list", 8))
        refused = server.read()
        assert (refused["id"], refused["error"]["code"]) == (8, INVALID)
        assert "initialize" in refused["error"]["message"]
        server.initialize()
        server.write(request("tools/list", 9))
        assert server.read()["result"]["tools"]


def test_over_http_nothing_is_served_without_a_session(orders_url: str) -> None:
    with raw_http(orders_url) as client:
        own = client.headers.pop("Mcp-Session-Id")
        none = client.post(PATH, content=request("tools/list"))
        wrong = client.post(
            PATH, content=request("tools/list"), headers={"Mcp-Session-Id": "0" * 32}
        )
        version = client.post(
            PATH,
            content=request("tools/list"),
            headers={"Mcp-Session-Id": own, "MCP-Protocol-Version": "1999-01-01"},
        )
        assert (none.status_code, message_of(none)["error"]["code"]) == (400, INVALID)
        assert (wrong.status_code, message_of(wrong)["error"]["code"]) == (404, INVALID)
        assert (version.status_code, message_of(version)["error"]["code"]) == (400, INVALID)


@pytest.mark.parametrize("version", ["2025-06-18", "1999-01-01", ""])
def test_an_unknown_revision_is_answered_with_one_that_is_spoken(
    version: str, orders_url: str
) -> None:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    with raw_http(orders_url) as client:
        del client.headers["Mcp-Session-Id"]
        greeted = message_of(client.post(PATH, content=request("initialize", **params)))
    spoken = greeted["result"]["protocolVersion"]
    assert spoken == (version if version == "2025-06-18" else LATEST_PROTOCOL_VERSION)


async def test_the_sdks_client_hears_the_errors(orders_url: str) -> None:
    """Also over HTTP the error is an answer to the request, not the end of the session."""
    async with sdk_over_http(orders_url, AGENT_TOKEN) as session:
        with pytest.raises(McpError, match="Unknown tool: 'nothing'"):
            await session.call_tool("nothing", {})
        with pytest.raises(McpError, match="Unknown cursor"):
            await session.list_tools(params=PaginatedRequestParams(cursor="x"))
        assert (await session.list_tools()).tools


def test_the_longest_message_and_the_deepest_are_taken() -> None:
    gate = Gate({"x"})
    head = b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": '
    longest = head + b'"' + b"x" * (MAX_MESSAGE - len(head) - 4) + b'"}}'
    assert len(longest) == MAX_MESSAGE
    assert gate.admit(longest)
    with pytest.raises(Refused, match="at most"):
        gate.admit(longest + b" ")
    inside = MAX_DEPTH - 2
    assert gate.admit(head + b"[" * inside + b"]" * inside + b"}}")
    with pytest.raises(Refused, match="Parse error"):
        gate.admit(head + b"[" * (inside + 1) + b"]" * (inside + 1) + b"}}")
