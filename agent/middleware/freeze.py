"""Least privilege before reading: a turn's tools, chosen from what the user said alone.

The model is asked once, before the turn has read anything, which tools the task needs; it sees
the user's own messages and nothing else, no result and nothing attached. No other tool is offered
in that turn, and a call of one is denied. The choice is kept with the turn's first reply, so it
holds over approvals, restarts and resumes, also where the next turn is not frozen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from langchain.agents.middleware import ModelRequest
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.tools import BaseTool

from agent.middleware.state import AgentContext
from agent.models.choosing import ask_for_tools
from agent.provenance import ORDERED, users_words

CHOSEN = "sayso_chosen"
"""Key, in a turn's first reply, of the names of the tools that the turn may call."""


def chosen_in(turn: Sequence[BaseMessage]) -> frozenset[str] | None:
    """The tools that a turn was frozen to; ``None`` where it is not, or not yet."""
    for message in turn:
        if isinstance(message, AIMessage):
            names = message.additional_kwargs.get(CHOSEN)
            return None if names is None else frozenset(names)
    return None


def is_to_choose(turn: Sequence[BaseMessage]) -> bool:
    """Whether a turn begins, and not with a call that the user ordered."""
    if any(isinstance(message, AIMessage) for message in turn):
        return False
    return not any(message.additional_kwargs.get(ORDERED) for message in turn)


async def choose_tools(
    request: ModelRequest[AgentContext], tools: Mapping[str, BaseTool]
) -> tuple[frozenset[str], UsageMetadata | None]:
    """Ask the model which of these tools the user's words need; without an answer, none.

    Returns:
        Their names, and what the question cost.

    Raises:
        Exception: Whatever the provider raises.
    """
    does = {name: _in_short(tool) for name, tool in tools.items()}
    return await ask_for_tools(request.model, does, users_words(request.state["messages"]))


def _in_short(tool: BaseTool) -> str:
    first, *_ = (tool.description or "").strip().split("\n", 1)
    return first[:200]
