"""Names and effects of foreign tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.mcp.definitions import Definition
from agent.mcp.servers import Claims, ServerConfig, Stdio
from agent.mcp.tools import effects_for, provider_name
from agent.mcp.transport.stdio import child_environment
from agent.policy.grants import outside
from agent.types import Authority


@given(st.text(), st.text())
def test_every_name_is_valid_for_providers(server: str, tool: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", provider_name(server, tool))


def test_long_names_stay_apart() -> None:
    assert provider_name("s", "get") == "s__get"
    first, second = (provider_name("s", "x" * 500 + end) for end in "ab")
    assert first != second
    assert first.startswith("s__xxx")


def definition(read_only: object) -> Definition:
    hints = {} if read_only is None else {"annotations": {"readOnlyHint": read_only}}
    return {"name": "t", "inputSchema": {"type": "object"}, **hints}


@pytest.mark.parametrize(
    ("trusted", "read_only", "expected"),
    [
        (True, True, "read:mcp.s"),
        (True, False, "write:mcp.s"),
        (True, None, "write:mcp.s"),
        (True, "yes", "write:mcp.s"),
        (True, 1, "write:mcp.s"),
        (False, True, "write:mcp.s"),
        (False, None, "write:mcp.s"),
    ],
)
def test_only_a_trusted_hint_makes_a_read(trusted: bool, read_only: object, expected: str) -> None:
    config = ServerConfig("s", Stdio("x"), trusted=trusted)
    assert effects_for(config, definition(read_only)) == {expected}


def test_a_grant_for_a_bundled_domain_is_none_for_a_server_of_that_name() -> None:
    server = effects_for(ServerConfig("orders", Stdio("x")), definition(read_only=None))
    bundled = frozenset({"write:orders"})
    for granted, beyond in (("write:orders", server), ("write:mcp.*", bundled)):
        authority = Authority((granted,))
        assert outside(server | bundled, authority) == beyond
    assert not outside(server | bundled, Authority())


@pytest.mark.parametrize("trusted", [True, False])
def test_the_configuration_has_the_last_word(trusted: bool) -> None:
    claims = {"t": Claims(effects=frozenset({"write:mail", "disclose:mail"}))}
    config = ServerConfig("s", Stdio("x"), trusted=trusted, claims=claims)
    assert effects_for(config, definition(read_only=True)) == {"write:mail", "disclose:mail"}


def test_what_a_child_inherits_is_listed() -> None:
    child = Stdio("x", env={"LANG": "C", "OPENAI_API_KEY": "named"})
    ours = {"PATH": "/bin", "LANG": "de", "SAYSO_HOME": "h", "OPENAI_BASE_URL": "u", "X": "x"}
    assert child_environment(child, ours) == {
        "PATH": "/bin",
        "LANG": "C",
        "OPENAI_API_KEY": "named",
    }
