"""Results as the model may see them: text, capped with a visible mark, untrusted text marked."""

from __future__ import annotations

import json
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

import prompts
from agent.canonical import canonical_json
from agent.middleware.state import answer
from tools.contract import Contract

ARTIFACT_LIMIT = 20_000
"""Characters of JSON; a larger artifact is left out of the history."""


def readable(
    request: ToolCallRequest,
    result: ToolMessage | Command[Any],
    contract: Contract,
    limit: int,
) -> ToolMessage:
    """A tool's result as one plain message under the call's own id.

    Whatever else a tool returned is left behind: a ``Command`` could change the graph's state,
    and with it verdicts; an artifact that is not JSON could not be checkpointed.
    """
    if not isinstance(result, ToolMessage):
        return answer(request, prompts.message("graph_command"))
    text = cut(_as_text(result.content), limit)
    if contract.open_world:
        text = marked(text, request.tool_call["name"])
    message = ToolMessage(
        content=text,
        name=request.tool_call["name"],
        tool_call_id=request.tool_call["id"],
        status=result.status,
    )
    if (artifact := _plain(result.artifact)) is not None:
        message.artifact = artifact
    return message


def transaction_of(message: ToolMessage) -> str | None:
    """The service's own id of a change, where a result names it as ``transaction``."""
    result = message.artifact
    if not isinstance(result, dict):
        try:
            result = json.loads(str(message.content))
        except ValueError:
            return None
    found = result.get("transaction") if isinstance(result, dict) else None
    return found if isinstance(found, str) else None


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters; what is missing is said."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n{prompts.message('result_cut', shown=limit, total=len(text))}"


def marked(text: str, tool: str) -> str:
    """Text of strangers between two marks; it cannot close its own frame."""
    end = prompts.message("untrusted_close")
    inner = text.replace(end, end.replace("[", "(").replace("]", ")"))
    return f"{prompts.message('untrusted_open', tool=tool)}\n{inner}\n{end}"


def _as_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(_block(block) for block in content)


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if block.get("type") == "text":
        return str(block.get("text", ""))
    return f"[{block.get('type', 'content')}: not shown as text]"


def _plain(artifact: Any) -> Any:
    if artifact is None:
        return None
    try:
        return artifact if len(canonical_json(artifact)) <= ARTIFACT_LIMIT else None
    except (TypeError, ValueError, RecursionError):
        return None
