"""An isolated reader: a model without tools reads a text of strangers and reports short facts.

Nothing of its answer is used but the facts of one function call, and of these only what fits: a
short name, and a number, a yes or no, or a short text on one line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.messages.ai import UsageMetadata

import prompts
from agent.models.choosing import UNSEEN

REPORT = "report_facts"
"""The function's name; it is never run."""

MOST_FACTS = 40
LONGEST_NAME, LONGEST_VALUE = 40, 80
"""Characters."""

Value = str | int | float | bool


@dataclass(frozen=True)
class Report:
    """What an isolated reader has found.

    Args:
        facts: Pairs of a name and a value, in the reader's order.
        dropped: How many of its facts did not fit.
        usage: What it cost, where the model says so.
    """

    facts: tuple[tuple[str, Value], ...]
    dropped: int = 0
    usage: UsageMetadata | None = None


async def report(model: BaseChatModel, text: str, said: Sequence[str]) -> Report:
    """Let a model read a text that the asking one never sees.

    Args:
        said: The user's own words: what the facts are wanted for.

    Raises:
        Exception: Whatever the provider raises.
    """
    asked = [
        SystemMessage(prompts.message("reader")),
        HumanMessage("\n".join([*said, "", prompts.message("reader_text"), text])),
    ]
    reader = model.bind_tools([_function()], tool_choice=REPORT)
    reply = await reader.ainvoke(asked, config={"tags": [UNSEEN]})
    found = list(_found(reply))
    facts = [fact for fact in map(_fact, found[:MOST_FACTS]) if fact is not None]
    return Report(tuple(facts), len(found) - len(facts), reply.usage_metadata)


def text_to_read(messages: Sequence[BaseMessage]) -> str:
    """The text that a reader was given, out of the question to it."""
    _, _, text = str(messages[-1].text).partition(prompts.message("reader_text") + "\n")
    return text


def _found(reply: BaseMessage) -> Iterable[Any]:
    for call in getattr(reply, "tool_calls", ()):
        if call["name"] == REPORT:
            found = call["args"].get("facts")
            return found if isinstance(found, list) else ()
    return ()


_NAME = re.compile(r"[^\W_][\w .,/()#%€$£-]*")


def _fact(found: Any) -> tuple[str, Value] | None:
    """A fact that fits; ``None`` for any other."""
    if not isinstance(found, dict) or set(found) != {"name", "value"}:
        return None
    name, value = found["name"], found["value"]
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not _NAME.fullmatch(name):
        return None
    if isinstance(value, bool):
        return name, value
    if isinstance(value, int | float):
        return (name, value) if math.isfinite(value) else None
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_VALUE:
        return None
    return (name, value) if value.isprintable() else None


def _function() -> dict[str, Any]:
    fact = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": LONGEST_NAME},
            "value": {
                "anyOf": [
                    {"type": "number"},
                    {"type": "boolean"},
                    {"type": "string", "maxLength": LONGEST_VALUE},
                ]
            },
        },
        "required": ["name", "value"],
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {
            "name": REPORT,
            "description": prompts.message("reader_function"),
            "parameters": {
                "type": "object",
                "properties": {"facts": {"type": "array", "maxItems": MOST_FACTS, "items": fact}},
                "required": ["facts"],
                "additionalProperties": False,
            },
        },
    }
