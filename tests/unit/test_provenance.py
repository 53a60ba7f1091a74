"""Where argument values occur, as a reviewer is shown it."""

from __future__ import annotations

from langchain_core.messages import HumanMessage, ToolMessage
from pydantic import BaseModel

from agent.provenance import labels_of, trace
from tools.contract import Contract, make_tool

MESSAGES = [
    HumanMessage("Cancel order A1, please"),
    ToolMessage(
        '{"id":"A1","revision":3,"owner":"ana@example.com"}', tool_call_id="1", name="get_order"
    ),
]


def test_the_users_words_come_first_then_results_then_the_model_itself() -> None:
    args = {"order_id": "A1", "expected_revision": 3, "reason": "too late", "notify": True}

    assert trace(args, MESSAGES) == [
        {"path": "order_id", "origin": "user", "tool": None},
        {"path": "expected_revision", "origin": "tool", "tool": "get_order"},
        {"path": "reason", "origin": "model", "tool": None},
    ]


def test_a_value_is_found_whole_and_not_inside_another() -> None:
    found = trace({"order_id": "A", "amount": 0.3, "to": ["ana@example.com"]}, MESSAGES)

    assert [(source["path"], source["origin"]) for source in found] == [
        ("order_id", "model"),
        ("amount", "model"),
        ("to[0]", "tool"),
    ]


def test_a_number_is_looked_for_under_a_field_of_its_name_first() -> None:
    later = ToolMessage('{"lines":3}', tool_call_id="2", name="write_file")

    (source,) = trace({"expected_revision": 3}, [*MESSAGES, later])
    assert source["tool"] == "get_order"


def test_labels_follow_from_what_a_tool_says_of_its_results_and_the_worst_is_assumed() -> None:
    class Nothing(BaseModel):
        pass

    def look() -> str:
        """Look."""
        return ""

    quiet = Contract(open_world=False, private=False)
    assert labels_of(make_tool(look, args=Nothing, contract=quiet)) == set()
    assert labels_of(make_tool(look, args=Nothing, contract=Contract())) == {"untrusted", "private"}
