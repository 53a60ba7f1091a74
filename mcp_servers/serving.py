"""Our tools as tools of a FastMCP server: what holds inside the agent holds outside.

Name, description, argument schema and results are those of the tool; annotations and scope are
read off its contract; an error becomes an ``isError`` result whose text says what to do. Where a
result is a JSON object, it comes as structured content too.

Two keys of ``_meta`` carry what the protocol has no word for:

* ``sayso/idempotencyKey`` of a call; see ``mcp_servers.idempotency``. It reaches the tool through
  ``tools.contract.current_call``.
* ``sayso/outcome`` of an error result is ``failed`` or ``transient`` when nothing changed, and
  ``unknown`` when a change may have happened.

Written with what FastMCP 3.4 and 4 share.
"""

from __future__ import annotations

import json
import logging
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from fastmcp import FastMCP
from fastmcp.server.auth import AuthProvider, require_scopes
from fastmcp.tools import Tool, ToolResult
from jsonschema import Draft202012Validator
from pydantic import Field, InstanceOf, ValidationError

from mcp_servers.idempotency import KEY_ARGUMENT, KEY_SCHEMA, Key, key_of
from tools.contract import (
    CallInfo,
    OutcomeUnknown,
    PlainTool,
    ToolFailure,
    TransientFailure,
    current_call,
    is_read,
)

OUTCOME = "sayso/outcome"

_log = logging.getLogger(__name__)


class OfferedTool(Tool):
    """A tool of one of our servers, whatever is behind it: keys and errors are the same for all.

    ``scope`` is what a caller over HTTP needs for it, ``takes_key`` whether what is behind it
    honours an idempotency key.
    """

    scope: str = Field(exclude=True)
    takes_key: bool = Field(exclude=True)

    @abstractmethod
    def complaints(self, arguments: dict[str, Any]) -> Iterable[str]:
        """What is wrong with the arguments, a line each."""

    @abstractmethod
    def reads(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments can change nothing."""

    @abstractmethod
    async def call(self, arguments: dict[str, Any], key: str | None) -> ToolResult:
        """Call it once, with arguments that fit; it raises the errors of ``tools.contract``."""

    async def run(self, arguments: dict[str, Any]) -> ToolResult:
        """Check arguments and key, call once, and put what comes of it into a result."""
        own, key = arguments, None
        if self.takes_key:
            try:
                key = key_of(arguments)
            except ToolFailure as error:
                return _failed(str(error), "failed")
            own = {name: value for name, value in arguments.items() if name != KEY_ARGUMENT}
        if wrong := list(self.complaints(own)):
            return _wrong_arguments(self.name, wrong)
        try:
            return await self.call(own, key.value if key else None)
        except Exception as error:
            return _error_result(self.name, error, reads=self.reads(own), key=key)


class ServedTool(OfferedTool):
    """A tool of ours, served."""

    inner: InstanceOf[PlainTool] = Field(exclude=True, repr=False)

    def complaints(self, arguments: dict[str, Any]) -> Iterable[str]:
        """What the argument model says."""
        try:
            self.inner.args.model_validate(arguments)
        except ValidationError as error:
            for problem in error.errors(include_url=False, include_context=False):
                place = ".".join(map(str, problem["loc"])) or "arguments"
                yield f"{place}: {problem['msg']}"

    def reads(self, arguments: Mapping[str, Any]) -> bool:
        """What the contract says."""
        return is_read(self.inner.contract.effects_of(arguments))

    async def call(self, arguments: dict[str, Any], key: str | None) -> ToolResult:
        """Run the tool as an agent would."""
        token = current_call.set(CallInfo(idempotency_key=key))
        try:
            text = await self.inner.call(arguments)
        finally:
            current_call.reset(token)
        if self.output_schema is None:
            return ToolResult(content=text)
        value = json.loads(text)
        # Else the SDK would find it, and call what happened an error without an outcome.
        Draft202012Validator(self.output_schema).validate(value)
        return ToolResult(content=text, structured_content=value)


@dataclass(frozen=True)
class Offer:
    """What a server offers, the same over every transport.

    Args:
        lifespan: Entered before the first call and left after the last; ``None``: nothing to do.
    """

    name: str
    instructions: str
    tools: Sequence[OfferedTool]
    lifespan: Callable[[FastMCP], AbstractAsyncContextManager[None]] | None = None

    @property
    def scopes(self) -> dict[str, str]:
        """The scope of each tool, by its name."""
        return {tool.name: tool.scope for tool in self.tools}

    def server(self, auth: AuthProvider | None = None) -> FastMCP:
        """A server that offers it; the caller runs it on a transport.

        Args:
            auth: Who may call over HTTP, and what; a tool beyond that is not even listed.
                Without it every tool is there for everybody, as it should be over stdio.
        """
        server = FastMCP(
            name=self.name,
            version=version("sayso"),
            instructions=self.instructions,
            mask_error_details=True,
            lifespan=self.lifespan,
            auth=auth,
        )
        for tool in self.tools:
            guard = require_scopes(tool.scope) if auth else None
            server.add_tool(tool.model_copy(update={"auth": guard}))
        return server


def offer_tools(name: str, instructions: str, tools: Iterable[PlainTool]) -> Offer:
    """Tools of ours as the offer of a server."""
    return Offer(name, instructions, [_served(name, tool) for tool in tools])


def read_scope(server: str) -> str:
    """What a caller's token must permit before it may call anything."""
    return f"{server}:read"


def scope_for(server: str, *, reads: bool) -> str:
    """What a caller's token must permit for a tool."""
    return read_scope(server) if reads else f"{server}:write"


def annotations_of(tool: PlainTool) -> dict[str, bool]:
    """The protocol's hints, as its schema names them, from what the contract promises.

    A write that can be undone is not destructive. One that is only safe to repeat under a key
    is not called idempotent: the protocol means "the same arguments", with or without a key.
    """
    contract, reads = tool.contract, _always_reads(tool)
    return {
        "readOnlyHint": reads,
        "destructiveHint": not reads and contract.undo is None,
        "idempotentHint": reads or contract.idempotency == "natural",
        "openWorldHint": contract.open_world,
    }


def _served(server: str, tool: PlainTool) -> ServedTool:
    takes_key = tool.contract.idempotency == "key"
    parameters = tool.args.model_json_schema()
    if takes_key:
        parameters["properties"][KEY_ARGUMENT] = KEY_SCHEMA
    return ServedTool.model_validate(
        {
            "name": tool.name,
            "description": tool.description,
            "parameters": parameters,
            "output_schema": tool.result_schema,
            "annotations": annotations_of(tool),
            "scope": scope_for(server, reads=_always_reads(tool)),
            "takes_key": takes_key,
            "inner": tool,
        }
    )


def _always_reads(tool: PlainTool) -> bool:
    """Effects may depend on the arguments; without any, such a tool counts as a write."""
    return is_read(tool.contract.effects_of({}))


def _wrong_arguments(tool: str, problems: Iterable[str]) -> ToolResult:
    """What to change, a problem a line; nothing was run."""
    head = f"{tool} was not called, its arguments do not fit:"
    return _failed("\n".join([head, *(f"- {problem}" for problem in problems)]), "failed")


def _error_result(tool: str, error: Exception, *, reads: bool, key: Key | None) -> ToolResult:
    """An error of a tool as its result: those of ``tools.contract`` in their own words.

    Of anything unexpected the details are for our log, not for whoever called.

    Args:
        reads: Whether the call could change nothing.
        key: The key under which it may be repeated, if it took one.
    """
    match error:
        case TransientFailure():
            return _failed(str(error), "transient")
        case ToolFailure():
            return _failed(str(error), "failed")
        case OutcomeUnknown():
            return _failed(f"{error}{_repeat(key)}", "unknown")
    _log.error("%s failed", tool, exc_info=error)
    if reads:
        return _failed(f"{tool} failed inside the server; nothing was changed.", "failed")
    return _failed(
        f"{tool} failed inside the server and may have changed something. "
        f"Look at the present state before trying again.{_repeat(key)}",
        "unknown",
    )


def _repeat(key: Key | None) -> str:
    if key is None or not key.repeatable:
        return ""
    return f' Or repeat the same call with {KEY_ARGUMENT}="{key.value}": it counts once.'


def _failed(text: str, outcome: str) -> ToolResult:
    return ToolResult(content=text, meta={OUTCOME: outcome}, is_error=True)
