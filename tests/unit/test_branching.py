"""Which messages a fork gets: whole turns, in a history that providers accept."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_openai_messages,
)

from agent.branching import branch
from agent.checks.limits import NOTE
from agent.errors import UsageError
from tests.support.openai_server import history_error


def reply(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": "act", "args": {"n": 1}, "id": id_} for id_ in ids])


USER = HumanMessage("go")


@pytest.mark.parametrize(
    ("messages", "added"),
    [
        ([USER, AIMessage("b")], []),
        ([USER, reply("1", "2")], ["1", "2"]),
        ([USER, reply("1", "2"), ToolMessage("x", tool_call_id="1")], ["2"]),
        # The same id in two replies: the first one's answer is not the second one's.
        ([USER, reply("1"), ToolMessage("x", tool_call_id="1"), AIMessage("b"), reply("1")], ["1"]),
        ([USER, reply("1"), HumanMessage("moved on"), AIMessage("b")], ["1"]),
    ],
    ids=["none", "all open", "one open", "a reused id", "left open in the middle"],
)
def test_every_call_is_answered_once(messages: list[Any], added: list[str]) -> None:
    result = branch(messages, "s-source", None)
    new = [message for message in result if message not in messages]
    assert [message.tool_call_id for message in new] == added  # type: ignore[attr-defined]
    assert all("s-source" in str(message.content) for message in new)
    assert history_error({"messages": convert_to_openai_messages(result)}) is None


FIRST = [HumanMessage("one"), reply("1"), ToolMessage("x", tool_call_id="1"), AIMessage("1.")]
SECOND = [
    HumanMessage("  two\nlines "),
    HumanMessage("Hm.", additional_kwargs={NOTE: True}),
    AIMessage("2."),
]
THIRD = [HumanMessage("w" * 99), AIMessage("3.")]
TALK: list[BaseMessage] = [*FIRST, *SECOND, *THIRD]


def test_it_ends_with_the_turn_that_is_named() -> None:
    """A note of the harness begins no turn."""
    assert branch(TALK, "s-1", 1) == FIRST
    assert branch(TALK, "s-1", 2) == FIRST + SECOND
    assert branch(TALK, "s-1", 3) == branch(TALK, "s-1", None) == TALK


@pytest.mark.parametrize("at", [0, -1, 4, 10**30])
def test_a_turn_that_is_not_there_is_refused_and_those_that_are_listed(at: int) -> None:
    with pytest.raises(UsageError) as refused:
        branch(TALK, "s-1", at)
    assert str(refused.value).splitlines() == [
        f"s-1 has no turn {at}. Its turns begin with:",
        "  1  one",
        "  2  two lines",
        f"  3  {'w' * 59}…",
    ]


@pytest.mark.parametrize("at", [None, 1])
def test_without_a_message_there_is_nothing_to_branch_from(at: int | None) -> None:
    with pytest.raises(UsageError, match="s-1 has no messages yet"):
        branch([], "s-1", at)
