"""How far one turn may go. Everything is counted from the message history itself.

A counter in the state would have to be reset at the right moment; the history cannot be out of
step with itself, and it survives approvals, restarts and resumes.
"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage

from agent.errors import LimitReached
from agent.provenance import NOTE

__all__ = ["NOTE", "check_steps", "last_turn", "steps_taken", "turn_number", "turn_starts"]


def turn_starts(messages: Sequence[BaseMessage]) -> list[int]:
    """Where the turns begin: the places of the user's own messages."""
    return [
        place
        for place, message in enumerate(messages)
        if message.type == "human" and not message.additional_kwargs.get(NOTE)
    ]


def last_turn(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """The messages from the user's last own one on; none where there is no such message."""
    starts = turn_starts(messages)
    return messages[starts[-1] :] if starts else []


def steps_taken(messages: Sequence[BaseMessage]) -> int:
    """Model calls since the user's last message."""
    return sum(isinstance(message, AIMessage) for message in last_turn(messages))


def turn_number(messages: Sequence[BaseMessage]) -> int:
    """How many messages the user has sent: the number of the turn they belong to."""
    return len(turn_starts(messages))


def check_steps(messages: Sequence[BaseMessage], limit: int) -> None:
    """Stop before another model call when the turn's steps are used up.

    Raises:
        LimitReached: With ``kind="steps"``.
    """
    steps = steps_taken(messages)
    if steps >= limit:
        raise LimitReached("steps", steps, limit)
