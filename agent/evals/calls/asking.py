"""One request to a real model for each case, with the functions of the case bound as tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.evals.calls.cases import Case
from agent.evals.calls.matching import Function
from agent.evals.calls.parsing import Called
from agent.evals.calls.scoring import Reply

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage


async def ask(model: BaseChatModel, case: Case) -> Reply:
    """What the model replies to the user's words alone; nothing is executed.

    Raises:
        ModelUnavailable: The provider gave up.
    """
    from agent.models.errors import as_model_error

    try:
        reply = await model.bind_tools([_tool(one) for one in case.functions]).ainvoke(case.says)
    except Exception as error:
        raise as_model_error(error) from None
    return _read(reply)


def _tool(function: Function) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": function.name,
            "description": function.description,
            "parameters": {
                "type": "object",
                "properties": dict(function.properties),
                "required": sorted(function.required),
                "additionalProperties": False,
            },
        },
    }


def _read(reply: AIMessage) -> Reply:
    broken = [f"{call.get('name')}: {call.get('error')}" for call in reply.invalid_tool_calls]
    calls = tuple(Called(call["name"], call["args"]) for call in reply.tool_calls)
    return Reply(str(reply.text), calls, "; ".join(broken) or None)
