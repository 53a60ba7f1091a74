"""Where a session stands, as a snapshot of its graph says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, ToolMessage
from langgraph.types import Command, StateSnapshot

from agent.approvals import as_langchain
from agent.checks.limits import turn_number
from agent.errors import SaysoError
from agent.middleware.state import last_reply
from agent.streaming import words_of

if TYPE_CHECKING:
    from agent.store.records import ApprovalRecord, SessionRecord


def answer_in(snapshot: StateSnapshot) -> str:
    """The words that a turn ended with.

    Raises:
        SaysoError: There are none.
    """
    reply = last_reply(snapshot.values.get("messages", []))
    if reply is None or not (reply.text.strip() or reply.tool_calls):
        raise SaysoError(
            "The model's reply was empty, and again when it was asked once more. "
            'Nothing was lost: say "continue", or choose another model with --model.'
        )
    return last_words(snapshot)


def last_words(snapshot: StateSnapshot) -> str:
    """The words of the last reply; empty without one."""
    reply = last_reply(snapshot.values.get("messages", []))
    return "" if reply is None else words_of(reply)


def has_ended(record: SessionRecord, snapshot: StateSnapshot) -> bool:
    """Whether the turn of a session at rest was ended, and not only broken off there."""
    if record.state in ("done", "cancelled"):
        return True
    return record.state in ("failed", "stopped") and taken_up(record, snapshot)


def taken_up(record: SessionRecord, snapshot: StateSnapshot) -> bool:
    """Whether the message of the last turn is in the history."""
    return turn_number(snapshot.values.get("messages", [])) >= record.turn


def comes_first(record: SessionRecord, snapshot: StateSnapshot) -> bool:
    """Whether the message of the last turn is still to be taken up, although the graph would go on:
    it moved on from the turn before, which had come to the model again."""
    left = all(task.name == "model" for task in snapshot.tasks)
    return left and not taken_up(record, snapshot)


def resume_with(rows: Sequence[ApprovalRecord]) -> Command[Any] | None:
    """What to resume with, by interrupt; ``None`` when nothing of it is decided."""
    answers = {
        row.interrupt: as_langchain(row)
        for row in rows
        if row.status != "pending" and row.interrupt
    }
    return Command(resume=answers) if answers else None


def open_tools(snapshot: StateSnapshot) -> list[str]:
    """The tools of the calls that have not been answered yet."""
    if not open_calls(snapshot):
        return []
    answered: set[str] = set()
    for message in reversed(snapshot.values["messages"]):
        if isinstance(message, AIMessage):
            return [call["name"] for call in message.tool_calls if call["id"] not in answered]
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
    return []


def waiting_calls(snapshot: StateSnapshot) -> list[tuple[str, str]]:
    """The paused calls, as (id of the AI message, tool call id)."""
    reply = last_reply(snapshot.values.get("messages", []))
    message = (reply.id or "") if reply else ""
    paused = (interrupt for task in snapshot.tasks for interrupt in task.interrupts)
    return [(message, interrupt.value["tool_call_id"]) for interrupt in paused]


def open_calls(snapshot: StateSnapshot) -> bool:
    """Whether a call has no result yet."""
    return any(task.name == "tools" for task in snapshot.tasks)
