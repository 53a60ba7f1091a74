"""Tools of MCP servers as LangChain tools with our contract.

The adapter package turns a server's definition into a LangChain tool; from there the call is
ours. Its own coroutine loses arguments called ``config`` or ``runtime``, raises on audio, drops
structured content of errors and cannot tell "nothing happened" from "nobody knows".

What the outcome of a call means, by what is known:

=====================================  ======================  =========================
what happened                          a read                  a write
=====================================  ======================  =========================
result                                 text, structured part   text, structured part
``isError``                            ``ToolFailure``         ``ToolFailure``
error from before the call             ``ToolFailure``         ``ToolFailure``
any other protocol error               ``ToolFailure``         ``OutcomeUnknown``
timeout, death, unreadable answer      ``TransientFailure``    ``OutcomeUnknown``
the server could not be reached        ``TransientFailure``    ``TransientFailure``
=====================================  ======================  =========================

``isError`` of a write is the server's word that the call failed, and it is taken: the protocol
has no other. A server can do better by putting ``"sayso/outcome": "unknown"`` (or
``"transient"``) into the ``_meta`` of that result; ours do.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NoReturn

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.tools import (
    MCPToolArtifact,
    convert_mcp_tool_to_langchain_tool,
)
from mcp import types
from pydantic import Field

from agent.canonical import canonical_json
from agent.mcp.config import ServerConfig
from agent.mcp.connection import Connection, NoAnswerError, NotSentError, RefusedError
from tools.contract import (
    Contract,
    OutcomeUnknown,
    ToolFailure,
    TransientFailure,
    current_call,
    is_read,
)

IDEMPOTENCY_KEY = "sayso/idempotencyKey"
OUTCOME = "sayso/outcome"
MAX_NAME = 64

_BEFORE_THE_CALL = (
    types.PARSE_ERROR,
    types.INVALID_REQUEST,
    types.METHOD_NOT_FOUND,
    types.INVALID_PARAMS,
)


class McpTool(BaseTool):
    """A tool of an MCP server: the server's own name and schema, our contract.

    Asynchronous only. ``ainvoke`` gives the text for the model; the message's artifact is
    ``{"structured_content": …}`` where the server sent some.
    """

    contract: Contract
    definition: types.Tool = Field(exclude=True, repr=False)
    connection: Connection = Field(exclude=True, repr=False)
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"

    @property
    def args(self) -> dict[str, Any]:
        """The argument schemas by name; a server may leave ``properties`` out."""
        assert isinstance(self.args_schema, dict)
        properties: dict[str, Any] = self.args_schema.get("properties", {})
        return properties

    def _run(self, /, **arguments: Any) -> NoReturn:
        raise NotImplementedError(f"{self.name} can only be awaited")

    # No named parameters: LangChain and LangGraph would put their own values into ``config``,
    # ``runtime`` or ``run_manager`` instead of the argument that was approved.
    async def _arun(self, /, **arguments: Any) -> tuple[str, MCPToolArtifact | None]:
        key = current_call.get().idempotency_key
        meta = {IDEMPOTENCY_KEY: key} if key else {}
        reads = is_read(self.contract.effects_of(arguments))
        server = f"MCP server {self.connection.config.name!r}"
        try:
            result = await self.connection.call(self.definition, arguments, meta)
        except NotSentError as error:
            kind = TransientFailure if error.again else ToolFailure
            raise kind(f"{server}: {error}. Nothing was sent, so nothing changed.") from error
        except RefusedError as error:
            if reads or error.code in _BEFORE_THE_CALL:
                raise ToolFailure(f"{server} refused the call: {error}") from error
            raise OutcomeUnknown(
                f"{server} reported an error and not whether the call happened: {error}"
            ) from error
        except NoAnswerError as error:
            if reads:
                raise TransientFailure(
                    f"{server}: {error}. The call only reads; it can be tried again."
                ) from error
            raise OutcomeUnknown(
                f"{server}: {error}. The call was sent; it may or may not have happened."
            ) from error
        if result.isError:
            raise _failure(result, reads)
        return _text(result), _artifact(result)


def make_tools(connection: Connection, definitions: Mapping[str, types.Tool]) -> list[McpTool]:
    """Turn what a server lists into tools, in its order."""
    return [_make_tool(connection, definition) for definition in definitions.values()]


def _make_tool(connection: Connection, definition: types.Tool) -> McpTool:
    config = connection.config
    adapted = convert_mcp_tool_to_langchain_tool(
        None,
        definition,
        connection={"transport": "stdio", "command": config.command, "args": list(config.args)},
    )
    return McpTool(
        name=provider_name(config.id, definition.name),
        description=adapted.description,
        args_schema=adapted.args_schema,
        metadata=adapted.metadata,
        contract=contract_for(connection, definition),
        definition=definition,
        connection=connection,
    )


def contract_for(connection: Connection, definition: types.Tool) -> Contract:
    """What we take a server's tool to promise.

    Results are always untrusted and private. The version names the exact definition.
    """
    stated = definition.model_dump(mode="json", by_alias=True, exclude_none=True)
    return Contract(
        effects=effects_for(connection.config, definition),
        open_world=True,
        private=True,
        version=hashlib.sha256(canonical_json(stated).encode()).hexdigest()[:12],
        # A call may have to start the server first; the connection's own timeouts come before
        # this one, since they know what was sent.
        timeout=connection.config.timeout
        + connection.timeouts.connect
        + connection.timeouts.listing,
    )


def effects_for(config: ServerConfig, definition: types.Tool) -> frozenset[str]:
    """The configuration's word, else a trusted server's read-only hint, else a write."""
    if definition.name in config.effects:
        return config.effects[definition.name]
    hints = definition.annotations
    if config.trusted and hints is not None and hints.readOnlyHint is True:
        return frozenset({f"read:{config.id}"})
    return frozenset({f"write:{config.id}"})


def provider_name(server: str, tool: str) -> str:
    """``server__tool`` in the characters and the length that model providers accept.

    A name that is too long keeps its beginning and ends in a hash of the whole.
    """
    whole = f"{server}__{tool}"
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", whole)
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _failure(result: types.CallToolResult, reads: bool) -> Exception:
    text, outcome = _text(result), (result.meta or {}).get(OUTCOME)
    if outcome == "unknown" and not reads:
        return OutcomeUnknown(text)
    return TransientFailure(text) if outcome == "transient" else ToolFailure(text)


def _artifact(result: types.CallToolResult) -> MCPToolArtifact | None:
    if result.structuredContent is None:
        return None
    return MCPToolArtifact(structured_content=result.structuredContent)


def _text(result: types.CallToolResult) -> str:
    """What the model reads: every text, a line for everything else, never nothing."""
    lines = list(_lines(result.content))
    if not lines and result.structuredContent is not None:
        lines = [json.dumps(result.structuredContent, ensure_ascii=False)]
    return "\n".join(lines) or "(the server returned nothing)"


def _lines(blocks: list[types.ContentBlock]) -> Iterator[str]:
    for block in blocks:
        match block:
            case types.TextContent():
                yield block.text
            case types.ImageContent() | types.AudioContent():
                size = len(block.data) * 3 // 4
                yield f"[{block.type}, {block.mimeType}, about {size} bytes; not shown]"
            case types.ResourceLink():
                yield f"[link to {block.uri}: {block.name}]"
            case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
                yield f"[resource {resource.uri}]\n{resource.text}"
            case types.EmbeddedResource(resource=resource):
                yield f"[resource {resource.uri}, {resource.mimeType or 'binary'}; not shown]"
