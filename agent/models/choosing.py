"""The question which tools a task needs, as a function that the model calls with their names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata

import prompts

CHOOSE = "choose_tools"
"""The function's name; it is never run."""

UNSEEN = "nostream"
"""LangGraph streams nothing of a model call with this tag: it is no part of the conversation."""

_LINE = re.compile(r"^- ([\w-]+): (.*)$", re.MULTILINE)


async def ask_for_tools(
    model: BaseChatModel, tools: Mapping[str, str], said: Sequence[str]
) -> tuple[frozenset[str], UsageMetadata | None]:
    """The names of the tools that a task needs, as the model chooses them, and its usage.

    Args:
        tools: What each does, by its name.
        said: The user's own words, the latest last.

    Raises:
        Exception: Whatever the provider raises.
    """
    catalogue = "\n".join(f"- {name}: {does}" for name, does in tools.items())
    asked = [
        SystemMessage(prompts.message("choose_tools", tools=catalogue)),
        HumanMessage("\n\n".join(said)),
    ]
    question = model.bind_tools([_function(sorted(tools))], tool_choice=CHOOSE)
    reply = await question.ainvoke(asked, config={"tags": [UNSEEN]})
    return frozenset(_names(reply)) & frozenset(tools), reply.usage_metadata


def catalogue_in(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """What each tool does, by its name, as the question lists it."""
    return dict(_LINE.findall(str(messages[0].text))) if messages else {}


def _function(names: list[str]) -> dict[str, Any]:
    schema = {"type": "array", "items": {"type": "string", "enum": names}}
    return {
        "type": "function",
        "function": {
            "name": CHOOSE,
            "description": prompts.message("choose_tools_function"),
            "parameters": {
                "type": "object",
                "properties": {"names": schema},
                "required": ["names"],
                "additionalProperties": False,
            },
        },
    }


def _names(reply: BaseMessage) -> list[str]:
    """The names in an answer: of the function's call, or of a text that names them."""
    for call in getattr(reply, "tool_calls", ()):
        if call["name"] == CHOOSE:
            return _texts(call["args"].get("names"))
    try:
        parsed = json.loads(str(reply.text))
    except ValueError:
        return re.findall(r"[\w-]+", str(reply.text))
    return _texts(parsed.get("names") if isinstance(parsed, dict) else parsed)


def _texts(found: Any) -> list[str]:
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []
