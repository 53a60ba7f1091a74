"""How far one turn may go. Everything is counted from the message history itself.

A counter in the state would have to be reset at the right moment; the history cannot be out of
step with itself, and it survives approvals, restarts and resumes.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from agent.errors import LimitReached
from agent.provenance import NOTE

__all__ = ["NOTE", "begins_turn", "check_steps", "steps_taken", "turn_number"]


def begins_turn(message: BaseMessage) -> bool:
    """Whether a message is a user's own."""
    return message.type == "human" and not message.additional_kwargs.get(NOTE)


def steps_taken(messages: Sequence[BaseMessage]) -> int:
    """Model calls since the user's last message."""
    steps = 0
    for message in reversed(messages):
        if begins_turn(message):
            break
        steps += isinstance(message, AIMessage)
    return steps


def turn_number(messages: Sequence[BaseMessage]) -> int:
    """How many messages the user has sent: the number of the turn they belong to."""
    return sum(begins_turn(message) for message in messages)


def check_steps(messages: Sequence[BaseMessage], limit: int) -> None:
    """Stop before another model call when the turn's steps are used up.

    Raises:
        LimitReached: With ``kind="steps"``.
    """
    steps = steps_taken(messages)
    if steps >= limit:
        raise LimitReached("steps", steps, limit)
