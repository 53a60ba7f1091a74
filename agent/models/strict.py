"""Tool calls as they were sent, also when they were streamed.

While chunks are added up, LangChain completes arguments that are not JSON, so that
``{"amount": 12`` cut from 1250 becomes a call with amount 12. A model that streams sends the raw
calls along (``as_sent``, in a chunk's response metadata) and sorts them anew once the reply is
whole (``with_strict_calls``, in ``generate`` and ``agenerate``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.outputs import ChatGeneration, LLMResult

from agent.models.replies import parse_arguments

_RAW_CALLS = "raw_tool_calls"


def as_sent(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Response metadata with all calls of a reply, raw; empty when all of them are JSON."""
    malformed = any(_problem(call["args"]) for call in calls)
    return {_RAW_CALLS: [dict(call) for call in calls]} if malformed else {}


def with_strict_calls(result: LLMResult) -> LLMResult:
    """Move malformed calls to ``invalid_tool_calls``, raw, as when nothing streams."""
    for generation in (g for generations in result.generations for g in generations):
        if isinstance(generation, ChatGeneration) and isinstance(generation.message, AIMessage):
            _judge_calls(generation.message)
    return result


def _judge_calls(message: AIMessage) -> None:
    calls = message.response_metadata.pop(_RAW_CALLS, None)
    if calls is None:
        return
    message.tool_calls, message.invalid_tool_calls = [], []
    for call in calls:
        name, raw, call_id = call["name"] or "", call["args"], call["id"]
        if problem := _problem(raw):
            message.invalid_tool_calls.append(
                invalid_tool_call(name=name, args=raw, id=call_id, error=problem)
            )
        else:
            message.tool_calls.append(tool_call(name=name, args=parse_arguments(raw), id=call_id))


def _problem(raw: str | None) -> str | None:
    """Why the arguments are not a JSON object, in words the model can use; else ``None``."""
    try:
        parse_arguments(raw)
    except ValueError as error:
        return f"The arguments are not a JSON object: {error}"
    return None
