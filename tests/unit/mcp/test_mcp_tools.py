"""Names and effects of foreign tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from agent.mcp.config import ServerConfig
from agent.mcp.connection import child_environment
from agent.mcp.tools import effects_for, provider_name


@given(st.text(), st.text())
def test_every_name_is_valid_for_providers(server: str, tool: str) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", provider_name(server, tool))


def test_long_names_stay_apart() -> None:
    assert provider_name("s", "get") == "s__get"
    first, second = (provider_name("s", "x" * 500 + end) for end in "ab")
    assert first != second
    assert first.startswith("s__xxx")


def definition(read_only: bool | None) -> types.Tool:
    hints = None if read_only is None else types.ToolAnnotations(readOnlyHint=read_only)
    return types.Tool(name="t", inputSchema={"type": "object"}, annotations=hints)


@pytest.mark.parametrize(
    ("trusted", "read_only", "expected"),
    [
        (True, True, "read:s"),
        (True, False, "write:s"),
        (True, None, "write:s"),
        (False, True, "write:s"),
        (False, None, "write:s"),
    ],
)
def test_only_a_trusted_hint_makes_a_read(
    trusted: bool, read_only: bool | None, expected: str
) -> None:
    config = ServerConfig(name="s", command="x", trusted=trusted)
    assert effects_for(config, definition(read_only)) == {expected}


@pytest.mark.parametrize("trusted", [True, False])
def test_the_configuration_has_the_last_word(trusted: bool) -> None:
    effects = {"t": frozenset({"write:mail", "disclose:mail"})}
    config = ServerConfig(name="s", command="x", trusted=trusted, effects=effects)
    assert effects_for(config, definition(read_only=True)) == {"write:mail", "disclose:mail"}


def test_what_a_child_inherits_is_listed() -> None:
    config = ServerConfig(name="s", command="x", env={"LANG": "C", "OPENAI_API_KEY": "named"})
    ours = {"PATH": "/bin", "LANG": "de", "SAYSO_HOME": "h", "OPENAI_BASE_URL": "u", "X": "x"}
    assert child_environment(config, ours) == {
        "PATH": "/bin",
        "LANG": "C",
        "OPENAI_API_KEY": "named",
    }
