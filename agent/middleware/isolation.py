"""Isolated reading: the model that plans never sees what strangers wrote, only facts out of it.

It stands outside of everything else on the way back from a tool, so that whatever is marked as
strangers' text, a result, an error or what a record says, goes through it. A second call of the
model, without tools and with the user's words beside the text, reports short facts; these stand
between the marks in the text's place. The text itself stays in the history for preconditions and
for tracing where a value came from; no provider is sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

import prompts
from agent.canonical import canonical_json
from agent.middleware.bound import Handler
from agent.middleware.state import AgentContext, SaysoState, context_of
from agent.models import as_model_error
from agent.models.reporting import Report
from agent.provenance import RAW, USAGE, between_marks, marked, users_words


class IsolationMiddleware(AgentMiddleware[SaysoState, AgentContext]):
    """Puts facts in the place of strangers' text, in the sessions that ask for it."""

    state_schema = SaysoState

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Handler
    ) -> ToolMessage | Command[Any]:
        """The result of the call, without a stranger's text."""
        result, context = await handler(request), context_of(request)
        if context.reader is None or not isinstance(result, ToolMessage):
            return result
        return await _isolated(result, request, context)


async def _isolated(
    result: ToolMessage, request: ToolCallRequest, context: AgentContext
) -> ToolMessage:
    name, content = request.tool_call["name"], str(result.content)
    parts = list(between_marks(content, name))
    if not parts:
        return result
    said = users_words(request.state["messages"])
    replaced, usages = content, []
    for part in dict.fromkeys(parts):
        facts = await _facts(part, name, said, context)
        replaced = replaced.replace(marked(part, name), marked(facts.text, name))
        usages += [facts.report.usage] if facts.report and facts.report.usage else []
        _note(request, context, facts.report)
    more = {RAW: content, **({USAGE: usages} if usages else {})}
    return result.model_copy(
        update={"content": replaced, "additional_kwargs": {**result.additional_kwargs, **more}}
    )


class _Facts:
    """What stands in a text's place."""

    def __init__(self, text: str, report: Report | None = None) -> None:
        self.text, self.report = text, report


async def _facts(part: str, tool: str, said: Sequence[str], context: AgentContext) -> _Facts:
    assert context.reader is not None
    try:
        found = await context.reader(part, said)
    except GraphBubbleUp:
        raise
    except Exception as error:
        return _Facts(prompts.message("reader_failed", error=as_model_error(error)))
    facts = [{"name": name, "value": value} for name, value in found.facts]
    return _Facts(canonical_json({"facts": facts}), found)


def _note(request: ToolCallRequest, context: AgentContext, found: Report | None) -> None:
    """A trail entry: how much of a text the planning model is shown."""
    if context.recording is None:
        return
    counts = {"facts": len(found.facts), "dropped": found.dropped} if found else {"failed": True}
    entry = {"call": request.tool_call["id"], "tool": request.tool_call["name"], **counts}
    context.recording.later.append(("result.isolated", entry))
