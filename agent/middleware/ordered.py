"""A turn that the user ordered: its one call is proposed as it is, and no model is asked.

::

    order ─► the read that its precondition lacks ─► the call ─► what the ledger says of it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from langchain_core.tools import BaseTool

import prompts
from agent.checks.arguments import ArgumentsError, normalise
from agent.checks.limits import last_turn
from agent.evidence import unmet
from agent.middleware.state import UNDOES, Recording
from agent.provenance import ORDERED
from agent.receipt import describe_call
from agent.store.records import EffectRecord
from tools.contract import contract_of


async def reply_to_order(
    messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool], recording: Recording | None
) -> AIMessage | None:
    """The next reply of a turn that was ordered; ``None`` where the model has to be asked."""
    turn = last_turn(messages)
    order = turn[0].additional_kwargs.get(ORDERED) if turn else None
    if order is None:
        return None
    replies = [message for message in turn if isinstance(message, AIMessage)]
    proposed = next((reply for reply in replies if UNDOES in reply.additional_kwargs), None)
    if proposed is None:
        read = None if replies else await _read_first(order, tools, messages)
        return AIMessage("", tool_calls=[read]) if read else _proposal(order)
    result = messages[-1]
    if recording is None or not isinstance(result, ToolMessage):
        return None
    return AIMessage(_last_words(proposed, result, recording))


def _proposal(order: Mapping[str, Any]) -> AIMessage:
    call = ToolCall(name=order["tool"], args=order["args"], id=None, type="tool_call")
    return AIMessage("", tool_calls=[call], additional_kwargs={UNDOES: order["undoes"]})


async def _read_first(
    order: Mapping[str, Any], tools: Mapping[str, BaseTool], messages: Sequence[BaseMessage]
) -> ToolCall | None:
    """The read without whose evidence the call may not be proposed."""
    tool = tools.get(order["tool"])
    if tool is None:
        return None
    try:
        args = normalise(tool, order["args"]).args
    except ArgumentsError:
        return None
    missing = await unmet(contract_of(tool), args, messages)
    if missing is None or missing.read is None or missing.read.tool not in tools:
        return None
    return ToolCall(name=missing.read.tool, args=dict(missing.read.args), id=None, type="tool_call")


def _last_words(proposed: AIMessage, result: ToolMessage, recording: Recording) -> str:
    """What became of the undone write, by the ledger."""
    undone, call = proposed.additional_kwargs[UNDOES], proposed.tool_calls[0]
    key = (recording.session, proposed.id or "", result.tool_call_id)
    effect = recording.store.ledger.for_call(*key)
    asked = recording.store.approvals.for_call(*key) is not None
    return prompts.message(
        _KEYS[_outcome(effect, call["args"])],
        effect=undone,
        call=describe_call(effect.tool, effect.args) if effect else "",
        result=result.text if asked else "",  # else it is for a model; the receipt says why
    ).strip()


def _outcome(effect: EffectRecord | None, proposed: Mapping[str, Any]) -> str:
    if effect is None or effect.state == "failed":
        return "not done"
    if effect.state != "committed":
        return "unknown"
    return "done" if effect.args == proposed else "done otherwise"


_KEYS = {
    "not done": "not_undone",
    "unknown": "perhaps_undone",
    "done": "undone",
    "done otherwise": "undone_otherwise",
}
