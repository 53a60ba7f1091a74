"""Several middlewares that LangChain sees as one.

Around each middleware it puts a span of its tracer, twice a step each, also where nothing is
traced; four of them took longer than what they do. And it gives the human-in-the-loop a node of
its own after the model, which in per-call mode does nothing but cost a checkpoint.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

from agent.middleware.state import AgentContext, SaysoState

Hook = Callable[..., Awaitable[Any]]


class ChainMiddleware(AgentMiddleware[SaysoState, AgentContext]):
    """Its members wrap the model and the tools in their order, the first one outermost.

    Only ``awrap_model_call`` and ``awrap_tool_call`` of a member are used.
    """

    state_schema = SaysoState

    def __init__(self, *members: AgentMiddleware[Any, Any]) -> None:
        super().__init__()
        self._around_model = _hooks(members, "awrap_model_call")
        self._around_tool = _hooks(members, "awrap_tool_call")

    async def awrap_model_call(self, request: Any, handler: Hook) -> Any:
        """Call the model through all members."""
        return await _nested(self._around_model, handler)(request)

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Hook
    ) -> ToolMessage | Command[Any]:
        """Call a tool through all members."""
        result: ToolMessage | Command[Any] = await _nested(self._around_tool, handler)(request)
        return result


def _hooks(members: tuple[AgentMiddleware[Any, Any], ...], name: str) -> list[Hook]:
    """The hooks of this name that members define, innermost first."""
    base = getattr(AgentMiddleware, name)
    return [getattr(m, name) for m in reversed(members) if getattr(type(m), name) is not base]


def _nested(hooks: list[Hook], handler: Hook) -> Hook:
    for hook in hooks:
        handler = partial(hook, handler=handler)
    return handler
