"""Counting steps and turns from the history alone."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent.checks.limits import NOTE, check_steps, steps_taken, turn_number
from agent.errors import LimitReached

CALL = AIMessage("", tool_calls=[{"name": "t", "args": {}, "id": "1"}])
RESULT = ToolMessage("ok", tool_call_id="1")
NUDGE = HumanMessage("Your last reply was empty.", additional_kwargs={NOTE: True})
HISTORY: list[BaseMessage] = [
    HumanMessage("first"),
    CALL,
    RESULT,
    AIMessage("done"),
    HumanMessage("second"),
    CALL,
    RESULT,
    AIMessage(""),
    NUDGE,
    CALL,
    RESULT,
]


def test_steps_begin_anew_with_a_users_message_and_not_with_a_note_of_ours() -> None:
    assert steps_taken(HISTORY) == 3
    assert steps_taken(HISTORY[:4]) == 2
    assert turn_number(HISTORY) == 2


def test_the_limit_stops_before_the_next_model_call() -> None:
    check_steps(HISTORY, limit=4)
    with pytest.raises(LimitReached) as caught:
        check_steps(HISTORY, limit=3)
    assert (caught.value.kind, caught.value.value, caught.value.limit) == ("steps", 3, 3)
    assert "continue" in str(caught.value)
