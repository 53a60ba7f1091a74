"""Our tools as tools of a FastMCP server: what holds inside the agent holds outside.

Name, description, argument schema and results are those of the LangChain tool; the annotations
are read off its contract; an error becomes an ``isError`` result whose text says what to do.

Two keys of ``_meta`` carry what the protocol has no word for:

* ``sayso/idempotencyKey`` of a call reaches the tool through ``tools.contract.current_call``.
* ``sayso/outcome`` of an error result is ``failed`` or ``transient`` when nothing changed, and
  ``unknown`` when a change may have happened.

Written with what FastMCP 3.4 and 4 share.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.dependencies import get_context
from fastmcp.tools import Tool, ToolResult
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from pydantic import BaseModel, Field, ValidationError

from tools.contract import (
    CallInfo,
    OutcomeUnknown,
    ToolFailure,
    TransientFailure,
    contract_of,
    current_call,
    is_read,
)

IDEMPOTENCY_KEY = "sayso/idempotencyKey"
OUTCOME = "sayso/outcome"

_log = logging.getLogger(__name__)


class ServedTool(Tool):
    """One of our tools, served."""

    inner: BaseTool = Field(exclude=True, repr=False)

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Check the arguments, run the tool once, and put what it says into a result."""
        try:
            _arguments_of(self.inner).model_validate(arguments)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            return wrong_arguments(
                self.name,
                (f"{'.'.join(map(str, p['loc'])) or 'arguments'}: {p['msg']}" for p in problems),
            )
        token = current_call.set(CallInfo(idempotency_key=_idempotency_key()))
        try:
            message = await self.inner.ainvoke(
                {"type": "tool_call", "id": self.name, "name": self.name, "args": arguments}
            )
        except Exception as error:
            effects = contract_of(self.inner).effects_of(arguments)
            return error_result(self.name, error, reads=is_read(effects))
        finally:
            current_call.reset(token)
        assert isinstance(message, ToolMessage)
        return ToolResult(content=message.text)


def make_server(name: str, instructions: str, tools: Iterable[BaseTool]) -> FastMCP:
    """A server that offers ``tools``; the caller runs it on a transport."""
    server = FastMCP(name=name, instructions=instructions, mask_error_details=True)
    for tool in tools:
        server.add_tool(_serve(tool))
    return server


def annotations_of(tool: BaseTool) -> dict[str, bool]:
    """The protocol's hints, as its schema names them, from what the contract promises.

    A write that can be undone is not destructive. One that is only safe to repeat under a key
    is not called idempotent: the protocol means "the same arguments", with or without a key.
    """
    contract = contract_of(tool)
    # Effects may depend on the arguments; without any, such a tool counts as a write.
    reads = is_read(contract.effects_of({}))
    return {
        "readOnlyHint": reads,
        "destructiveHint": not reads and contract.undo is None,
        "idempotentHint": reads or contract.idempotency == "natural",
        "openWorldHint": contract.open_world,
    }


def _serve(tool: BaseTool) -> ServedTool:
    return ServedTool.model_validate(
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": _arguments_of(tool).model_json_schema(),
            "annotations": annotations_of(tool),
            "inner": tool,
        }
    )


def _arguments_of(tool: BaseTool) -> type[BaseModel]:
    schema = tool.args_schema
    assert isinstance(schema, type)
    assert issubclass(schema, BaseModel)
    return schema


def _idempotency_key() -> str | None:
    """The key in the request's ``_meta``, if the caller sent a usable one."""
    key = key_in_meta()
    return key if isinstance(key, str) and key else None


def key_in_meta() -> object:
    """What the request's ``_meta`` has as its idempotency key, of any type; ``None``: nothing."""
    request = get_context().request_context
    meta: Any = request.meta if request else None
    if isinstance(meta, BaseModel):  # FastMCP 3; a plain mapping in 4
        meta = meta.model_dump()
    return meta.get(IDEMPOTENCY_KEY) if isinstance(meta, Mapping) else None


def wrong_arguments(tool: str, problems: Iterable[str]) -> ToolResult:
    """What to change, a problem a line; nothing was run."""
    head = f"{tool} was not called, its arguments do not fit:"
    return _failed("\n".join([head, *(f"- {problem}" for problem in problems)]), "failed")


def error_result(tool: str, error: Exception, *, reads: bool) -> ToolResult:
    """An error of a tool as its result: those of ``tools.contract`` in their own words.

    Of anything unexpected the details are for our log, not for whoever called.

    Args:
        reads: Whether the call could change nothing.
    """
    match error:
        case TransientFailure():
            return _failed(str(error), "transient")
        case ToolFailure():
            return _failed(str(error), "failed")
        case OutcomeUnknown():
            return _failed(str(error), "unknown")
    _log.error("%s failed", tool, exc_info=error)
    if reads:
        return _failed(f"{tool} failed inside the server; nothing was changed.", "failed")
    return _failed(
        f"{tool} failed inside the server and may have changed something. "
        "Look at the present state before trying again.",
        "unknown",
    )


def _failed(text: str, outcome: str) -> ToolResult:
    return ToolResult(content=text, meta={OUTCOME: outcome}, is_error=True)
