"""Reading what a server sends: a message, an error for whoever waits, or nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from agent.mcp.transport.wire import Fate, failed, fate_of, read_message

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
LIKE_A_MESSAGE = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | ANY_JSON},
    optional={
        name: ANY_JSON | st.integers(0, 9) | st.just({"code": 1, "message": "x"})
        for name in ("id", "method", "params", "result", "error")
    },
)


def read(message: Any) -> Any:
    found = read_message(json.dumps(message).encode())
    return None if found is None else found.root


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_nothing(data: bytes) -> None:
    found = read_message(data)
    assert found is None or isinstance(found, types.JSONRPCMessage)
    begun = read_message(bytearray(b'{"jsonrpc":"2.0","id":1,"result":' + data))
    assert begun is not None, "whoever waits for it is told at once"
    assert isinstance(begun.root, types.JSONRPCResponse | types.JSONRPCError)


@given(LIKE_A_MESSAGE)
def test_what_is_read_is_what_json_rpc_has(message: dict[str, Any]) -> None:
    found = read(message)
    asks = "method" in message
    match found:
        case None:
            return
        case types.JSONRPCRequest() | types.JSONRPCNotification():
            assert asks
            assert not {"result", "error"} & message.keys()
            assert ("id" in message) is isinstance(found, types.JSONRPCRequest)
        case types.JSONRPCResponse():
            assert found.result == message["result"]
            assert not asks
            assert "error" not in message
        case types.JSONRPCError() if fate_of(found.error) is None:
            assert not asks
            assert "result" not in message
        case types.JSONRPCError():
            assert not asks
    assert getattr(found, "id", message.get("id")) == message.get("id")


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":7,"result":{"x":',
        b' { "jsonrpc" : "2.0" , "id" : 7 , "error" : nonsense',
        b'{"result":{"x":NaN},"jsonrpc":"2.0","id":7}',
        b'{"error":{"code":1,"message":"\\ud800"},"jsonrpc":"2.0","id":7} ',
        b'{"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","id":7,"result":[]}',
        b'{"jsonrpc":"2.0","id":7,"result":{},"error":null}',
    ],
)
def test_whoever_waits_for_a_broken_answer_is_told(line: bytes) -> None:
    message = read_message(line)
    assert message is not None
    assert isinstance(message.root, types.JSONRPCError)
    assert message.root.id == 7
    fate = fate_of(message.root.error)
    assert fate is not None
    assert fate.sent
    assert not fate.ends_session


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","method":"x","result":{"y":',
        b'{"method":"x","params":{"y":NaN},"jsonrpc":"2.0","id":7}',
        b'{"jsonrpc":"2.0","id":null,"result":[]}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":true}',
        b'{"jsonrpc":"2.0","id":7.0}',
        b'{"level":"info","id":7,"error":"x"}',
        b"",
    ],
)
def test_nobody_is_told_of_what_is_for_nobody(line: bytes) -> None:
    assert read_message(line) is None


def test_a_server_cannot_write_a_fate() -> None:
    made = failed(1, Fate(False, "it is away")).root
    assert isinstance(made, types.JSONRPCError)
    assert fate_of(made.error) == Fate(False, "it is away")
    copied = read(made.model_dump(mode="json"))
    assert fate_of(copied.error) is None


@pytest.mark.parametrize(
    ("fate", "ends"),
    [
        (Fate(False, "no connection"), True),
        (Fate(True, "cut"), False),
        (Fate(False, "", 400), True),
        (Fate(False, "", 401), True),
        (Fate(False, "", 403), False),
        (Fate(False, "", 404), True),
        (Fate(False, "", 429), False),
        (Fate(True, "", 500), False),
    ],
)
def test_which_fate_asks_for_a_new_session(fate: Fate, ends: bool) -> None:
    assert fate.ends_session is ends


def test_a_message_of_very_many_parts_is_not_taken_apart() -> None:
    parts = "[" + ",".join(["[]"] * 1_000_001) + "]"
    found = read_message(f'{{"jsonrpc":"2.0","id":7,"result":{parts}}}'.encode())
    assert found is not None
    assert isinstance(found.root, types.JSONRPCError)
    assert (found.root.id, "too many parts" in found.root.error.message) == (7, True)
    log = f'{{"jsonrpc":"2.0","method":"notifications/message","params":{parts}}}'
    assert read_message(log.encode()) is None
