"""A call at the point of execution: what it is bound to, why it may run, and how it is entered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

from agent.middleware.state import OpenCall
from agent.store.records import ApprovalRecord
from agent.threads import Entry, entry
from tools.contract import CallInfo, Contract, Effects, current_call, is_read

Handler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]


@dataclass(frozen=True)
class Bound:
    """A call with its normalised arguments and the digest that a permission is bound to."""

    open: OpenCall
    tool: BaseTool
    contract: Contract
    args: dict[str, Any]
    digest: str
    effects: Effects
    """What the contract says now, and what it said when the call was judged."""

    @property
    def reads(self) -> bool:
        """Whether it changes nothing."""
        return is_read(self.effects)


@dataclass(frozen=True)
class Permit:
    """Why a write may run: a recorded decision, or a rule that a person agreed to."""

    approval: ApprovalRecord | None = None
    rule: str | None = None


async def enter(
    request: ToolCallRequest, handler: Handler, info: CallInfo, started: Entry | None = None
) -> ToolMessage | Command[Any]:
    """Enter the tool, with what it may know about its call in place.

    Its arguments are a copy of its own: what it changes in them changes no later attempt, and
    nothing of what was approved or read before.
    """
    current_call.set(info)
    entry.set(started)
    args = deepcopy(request.tool_call["args"])
    return await handler(request.override(tool_call={**request.tool_call, "args": args}))
