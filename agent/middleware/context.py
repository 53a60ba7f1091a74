"""What the model is shown beside its history. Outermost on the way to the model.

The record of an earlier turn travels with the user's next message (in its ``additional_kwargs``)
and is spelled out only in the request, so the history keeps the user's own words, and the
prefix that a provider caches stays the same from step to step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, HumanMessage

import prompts
from agent.middleware.state import AgentContext, SaysoState

RECEIPT = "sayso_receipt"
"""Key of the previous turn's receipt in a user message."""


class ContextMiddleware(AgentMiddleware[SaysoState, AgentContext]):
    """Adds the receipt of the previous turn to the user's message in each request."""

    state_schema = SaysoState

    async def awrap_model_call(
        self,
        request: ModelRequest[AgentContext],
        handler: Callable[[ModelRequest[AgentContext]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Hand on a request whose user messages carry their receipts."""
        return await handler(request.override(messages=[_shown(m) for m in request.messages]))


def _shown(message: AnyMessage) -> AnyMessage:
    receipt = isinstance(message, HumanMessage) and message.additional_kwargs.get(RECEIPT)
    if not receipt:
        return message
    record = prompts.message("receipt", receipt=receipt)
    return HumanMessage(content=f"{record}\n\n{message.text}", id=message.id)
