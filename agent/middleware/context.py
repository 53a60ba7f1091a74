"""What the model is shown beside its history. Outermost on the way to the model.

The record of an earlier turn, and what a user attached, travel with the user's message (in its
``additional_kwargs``) and are spelled out only in the request, so the history keeps the user's
own words, and the prefix that a provider caches stays the same from step to step.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain_core.messages import AnyMessage, HumanMessage

import prompts
from agent.middleware.state import AgentContext, SaysoState
from agent.provenance import attached_to, marked

RECEIPT = "sayso_receipt"
"""Key of the previous turn's receipt in a user message."""


class ContextMiddleware(AgentMiddleware[SaysoState, AgentContext]):
    """Adds to each of the user's messages, in each request, its receipt and what was attached."""

    state_schema = SaysoState

    async def awrap_model_call(
        self,
        request: ModelRequest[AgentContext],
        handler: Callable[[ModelRequest[AgentContext]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Hand on a request whose user messages carry their receipts."""
        return await handler(request.override(messages=[_shown(m) for m in request.messages]))


def _shown(message: AnyMessage) -> AnyMessage:
    if not isinstance(message, HumanMessage):
        return message
    receipt = message.additional_kwargs.get(RECEIPT)
    attached = attached_to(message)
    if not receipt and not attached:
        return message
    parts = [prompts.message("receipt", receipt=receipt)] if receipt else []
    parts.append(str(message.text))
    parts += [marked(one["text"], one["source"]) for one in attached]
    return HumanMessage(content="\n\n".join(parts), id=message.id)
