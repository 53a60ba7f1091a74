"""Results as the model may see them: text, capped with a visible mark, untrusted text marked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

import prompts
from agent.artifacts import put_away
from agent.canonical import canonical_json, surely_longer
from agent.evidence import IDENTIFIER, RAN, foreign
from agent.middleware.state import answer
from agent.provenance import marked, unmarked
from tools.contract import Contract

ARTIFACT_LIMIT = 20_000
"""Characters of JSON; a larger artifact is left out of the history."""


def readable(
    request: ToolCallRequest,
    result: ToolMessage | Command[Any],
    contract: Contract,
    limit: int,
    artifacts: Path | None = None,
) -> ToolMessage:
    """A tool's result as one plain message under the call's own id.

    Args:
        artifacts: The folder for what it holds beside text.

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
        additional_kwargs={RAN: {}} if result.status == "success" else {},
    )
    if (artifact := _plain(put_away(result.artifact, artifacts))) is not None:
        message.artifact = artifact
    return message


def failure(
    request: ToolCallRequest,
    key: str,
    error: object,
    contract: Contract,
    limit: int,
    **more: str,
) -> ToolMessage:
    """How a call failed, as the model may see it.

    An error that a tool raised is as much its own text as a result is: cut alike, and marked
    where it may be the text of strangers.

    Args:
        key: The text of ``messages.toml`` that ``error``, and ``more``, are put into.
    """
    text = foreign(cut(str(error), limit), request.tool_call["name"], contract)
    return answer(request, prompts.message(key, error=text, **more).strip())


def transaction_of(message: ToolMessage) -> str | None:
    """The service's own id of a change, where a result names it as ``transaction``.

    It is looked for in the artifact, in the structured content of an MCP server (which the
    artifact holds under that name), and in a text that is JSON.
    """
    artifact = message.artifact if isinstance(message.artifact, dict) else {}
    for result in (artifact, artifact.get("structured_content"), _as_json(message)):
        found = result.get("transaction") if isinstance(result, dict) else None
        if isinstance(found, str) and IDENTIFIER.fullmatch(found):
            return found
    return None


def _as_json(message: ToolMessage) -> Any:
    """A result whose text is JSON, also between the marks; ``None`` when it is none."""
    try:
        return json.loads(unmarked(str(message.content), message.name or ""))
    except (ValueError, RecursionError):
        return None


def cut(text: str, limit: int) -> str:
    """At most ``limit`` characters; what is missing is said."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n{prompts.message('result_cut', shown=limit, total=len(text))}"


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
    if artifact is None or surely_longer(artifact, ARTIFACT_LIMIT):
        return None
    try:
        return artifact if len(canonical_json(artifact)) <= ARTIFACT_LIMIT else None
    except (TypeError, ValueError, RecursionError):
        return None
