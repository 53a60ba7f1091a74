"""Tools of MCP servers as LangChain tools with our contract.

The adapter package turns a server's definition into a LangChain tool; from there the call is
ours. Its own coroutine loses arguments called ``config`` or ``runtime``, raises on audio, drops
structured content of errors and cannot tell "nothing happened" from "nobody knows".

What the outcome of a call means, by what is known:

=====================================  ======================  =========================
what happened                          a read                  a write
=====================================  ======================  =========================
result                                 text, artifact          text, artifact
result beside its output schema        ``ToolFailure``         text that says so
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
import re
from collections.abc import Callable, Mapping
from contextvars import copy_context
from typing import Any, Literal, NoReturn

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from langgraph.config import get_stream_writer
from mcp import types
from pydantic import Field

from agent.canonical import canonical_json
from agent.mcp.connection import Connection
from agent.mcp.definitions import Definition
from agent.mcp.errors import NoAnswerError, NotSentError, RefusedError
from agent.mcp.questions import PROGRESS, UnderWay
from agent.mcp.results import Outcome, UnreadableResult, read_result
from agent.mcp.servers import ServerConfig
from agent.safe_text import plain
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
MAX_DESCRIPTION = 2_000
"""Characters of a description that the model is shown."""

_BEFORE_THE_CALL = (
    types.PARSE_ERROR,
    types.INVALID_REQUEST,
    types.METHOD_NOT_FOUND,
    types.INVALID_PARAMS,
    types.URL_ELICITATION_REQUIRED,
)


class McpTool(BaseTool):
    """A tool of an MCP server: the server's own name and schema, our contract.

    Asynchronous only. ``ainvoke`` gives the text for the model; the message's artifact is what
    the server sent beside it (``agent.mcp.results``).
    """

    contract: Contract
    definition: Definition = Field(exclude=True, repr=False)
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
    async def _arun(self, /, **arguments: Any) -> tuple[str, dict[str, Any] | None]:
        reads = is_read(self.contract.effects_of(arguments))
        outcome = await self._ask(arguments, reads)
        if outcome.failed:
            raise _failure(outcome, reads)
        if outcome.mismatch is None:
            return outcome.text, outcome.artifact
        if reads:
            raise ToolFailure(
                f"{self._server} gave an answer that cannot be relied on: {outcome.mismatch}. "
                f"It said: {outcome.text}"
            )
        return f"{outcome.text}\n{_BESIDE.format(outcome.mismatch)}", outcome.artifact

    async def _ask(self, arguments: Mapping[str, Any], reads: bool) -> Outcome:
        """Send the call, and put what becomes of it into the words of ``tools.contract``."""
        info = current_call.get()
        meta = {IDEMPOTENCY_KEY: info.idempotency_key} if info.idempotency_key else {}
        tell = _stream()
        try:
            result = await self.connection.call(
                self.definition,
                arguments,
                meta,
                write=not reads,
                under_way=UnderWay(info, arguments, tell),
                progress=_progress(info.call_id, self.name, tell),
            )
            return read_result(result, self.definition.get("outputSchema"), OUTCOME)
        except NotSentError as error:
            kind = TransientFailure if error.again else ToolFailure
            raise kind(f"{self._server}: {error}. Nothing was sent, so nothing changed.") from error
        except RefusedError as error:
            if reads or error.code in _BEFORE_THE_CALL:
                raise ToolFailure(f"{self._server} refused the call: {error}") from error
            raise OutcomeUnknown(
                f"{self._server} reported an error and not whether the call happened: {error}"
            ) from error
        except (NoAnswerError, UnreadableResult) as error:
            if reads:
                raise TransientFailure(
                    f"{self._server}: {error}. The call only reads; it can be tried again."
                ) from error
            raise OutcomeUnknown(
                f"{self._server}: {error}. The call was sent; it may or may not have happened."
            ) from error

    @property
    def _server(self) -> str:
        return f"MCP server {self.connection.config.name!r}"


def _stream() -> Callable[[dict[str, Any]], None]:
    """Where values go that are told while a call runs; outside of a graph, nowhere."""
    try:
        writer = get_stream_writer()
    except (RuntimeError, KeyError):
        return lambda value: None
    context = copy_context()  # it looks there again, and is called from the server's own task
    return lambda value: context.run(writer, value)


def _progress(call: str, tool: str, tell: Callable[[dict[str, Any]], None]) -> Callable[..., Any]:
    """Tells how far a call is, in the words of ``agent.events.CallProgress``."""

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told = {"call": call, "tool": tool, "done": done, "total": total, "text": message}
        tell({PROGRESS: told})

    return progress


_BESIDE = "[the call was answered, but its structured content cannot be relied on: {}]"


def make_tool(connection: Connection, definition: Definition) -> McpTool:
    """Turn what a server lists into a tool."""
    config = connection.config
    adapted = convert_mcp_tool_to_langchain_tool(
        None,
        types.Tool.model_validate(definition),
        connection={"transport": "stdio", "command": "", "args": []},  # it is never opened
    )
    return McpTool(
        name=provider_name(config.id, definition["name"]),
        description=_shortened(adapted.description),
        args_schema=definition["inputSchema"],
        metadata=adapted.metadata,
        contract=contract_for(connection, definition),
        definition=definition,
        connection=connection,
    )


def contract_for(connection: Connection, definition: Definition) -> Contract:
    """What we take a server's tool to promise.

    A person's claims come first, then the annotations of a server that is trusted; what nobody
    says is taken at its worst. The version names the exact definition.
    """
    config = connection.config
    claims, hints = config.claims_for(definition["name"]), _believed(config, definition)
    natural = hints.get("idempotentHint") is True
    timeouts = connection.timeouts
    return Contract(
        effects=effects_for(config, definition),
        open_world=_first(claims.open_world, hints.get("openWorldHint") is not False),
        private=_first(claims.private, True),
        conflict_key=lambda arguments: f"mcp:{config.id}",  # no other server's writes wait for it
        idempotency=_first(claims.idempotency, "natural" if natural else "none"),
        version=version_of(config, definition),
        # A call may have to start the server first, and may ask the person something; the
        # connection's own timeouts come before this one, since they know what was sent.
        timeout=connection.call_seconds(definition["name"])
        + timeouts.connect
        + timeouts.listing
        + (timeouts.question if connection.asks else 0),
    )


def effects_for(config: ServerConfig, definition: Definition) -> frozenset[str]:
    """A person's word, else a trusted server's read-only hint, else a write.

    The effect has ``mcp.`` in it, so that none of a bundled tool is meant by it: ``write:orders``
    granted is not ``write:mcp.orders``.
    """
    if (claimed := config.claims_for(definition["name"]).effects) is not None:
        return claimed
    reads = _believed(config, definition).get("readOnlyHint") is True
    return frozenset({f"{'read' if reads else 'write'}:mcp.{config.id}"})


def version_of(config: ServerConfig, definition: Definition) -> str:
    """Hex digits that name the exact definition, and the command or address that is behind it.

    An approval holds only for the version that was shown.
    """
    exact = canonical_json([config.fingerprint, definition])
    return hashlib.sha256(exact.encode()).hexdigest()[:16]


def _believed(config: ServerConfig, definition: Definition) -> Mapping[str, Any]:
    """The annotations, if they count. Only a real ``true`` or ``false`` says something."""
    hints = definition.get("annotations")
    return hints if config.trusted and isinstance(hints, dict) else {}


def provider_name(server: str, tool: str) -> str:
    """``server__tool`` in the characters and the length that model providers accept.

    A name that is too long keeps its beginning and ends in a hash of the whole.
    """
    whole = f"{server}__{tool}"
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", whole)
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - 9]}_{hashlib.sha256(whole.encode()).hexdigest()[:8]}"


def _shortened(description: str) -> str:
    description = plain(description)  # a model can be fooled by what a person does not see
    if len(description) <= MAX_DESCRIPTION:
        return description
    return f"{description[:MAX_DESCRIPTION]} […]"


def _first(said: Any, otherwise: Any) -> Any:
    return otherwise if said is None else said


def _failure(outcome: Outcome, reads: bool) -> Exception:
    if outcome.outcome == "unknown" and not reads:
        return OutcomeUnknown(outcome.text)
    kind = TransientFailure if outcome.outcome == "transient" else ToolFailure
    return kind(outcome.text)
