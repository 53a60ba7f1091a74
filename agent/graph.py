"""Assembly: the agent as a graph of two nodes, a model and its tools. Nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool

from agent.middleware.approval import ApprovalMiddleware
from agent.middleware.chain import ChainMiddleware
from agent.middleware.context import ContextMiddleware
from agent.middleware.execution import ExecutionMiddleware
from agent.middleware.guard import guarded
from agent.middleware.isolation import IsolationMiddleware
from agent.middleware.proposal import ProposalMiddleware
from agent.middleware.state import AgentContext, SaysoState

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph


def build_agent(
    model: BaseChatModel,
    tools: Sequence[BaseTool],
    system_prompt: str,
    checkpointer: BaseCheckpointSaver[Any] | None = None,
) -> CompiledStateGraph[Any, AgentContext, Any, Any]:
    """The agent. The order of the middlewares is their meaning, outermost first.

    On the way to the model: ``context`` adds what the model should see, ``proposal`` checks what
    it replied. On the way to a tool: ``isolation`` keeps strangers' text from the model where that
    is asked for, ``approval`` waits for a person, ``execution`` checks the binding and keeps the
    ledger, with nothing between it and the tool.
    """
    return create_agent(
        model,
        [guarded(tool) for tool in tools],
        system_prompt=system_prompt,
        middleware=[
            ChainMiddleware(
                ContextMiddleware(),
                ProposalMiddleware(),
                IsolationMiddleware(),
                ApprovalMiddleware(tools),
                ExecutionMiddleware(tools),
            )
        ],
        state_schema=SaysoState,
        context_schema=AgentContext,
        checkpointer=checkpointer,
        name="sayso",
    )
