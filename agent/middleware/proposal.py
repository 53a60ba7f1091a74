"""What becomes of the model's reply: arguments → limits → permissions, in the model's own node.

The three checks are plain functions; calling them here, in one ``awrap_model_call``, lets the
reply, the errors and the verdicts land in the model node's own writes. A node of its own for
each would cost a checkpoint a step.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from langchain.agents.middleware import (
    AgentMiddleware,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
)
from langchain_core.messages import AIMessage, HumanMessage, ToolCall, ToolMessage
from langchain_core.messages.ai import add_usage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

import prompts
from agent.canonical import canonical_json, check_plain
from agent.checks.arguments import ArgumentsError, normalise
from agent.checks.limits import NOTE, check_steps, last_turn, turn_number
from agent.errors import ModelUnavailable
from agent.middleware.answers import MARKED, judge_answer
from agent.middleware.freeze import CHOSEN, choose_tools, chosen_in, is_to_choose
from agent.middleware.judging import Judge
from agent.middleware.ordered import reply_to_order
from agent.middleware.state import (
    UNDOES,
    AgentContext,
    SaysoState,
    context_of,
    last_reply,
)
from agent.models import as_model_error, ending
from agent.models.replies import Ending
from agent.provenance import REFUSED
from agent.types import Verdict
from tools.contract import is_read


@dataclass
class Proposal:
    """A reply after the checks: its calls as they will stand in the history, and what was said."""

    reply: AIMessage
    errors: list[ToolMessage] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    note: str | None = None
    """Said to the model when there is no call to answer: an empty or cut-off reply."""

    def update(self) -> dict[str, Any]:
        """The state update beside the reply itself.

        Without an explicit jump a reply with no open call ends the run, in silence.
        """
        messages: list[Any] = list(self.errors)
        if self.note:
            messages.append(HumanMessage(self.note, additional_kwargs={NOTE: True}))
        update: dict[str, Any] = {"messages": messages, "verdicts": self.verdicts}
        answered = {error.tool_call_id for error in self.errors}
        if messages and not any(call["id"] not in answered for call in self.reply.tool_calls):
            update["jump_to"] = "model"
        return update


class ProposalMiddleware(AgentMiddleware[SaysoState, AgentContext]):
    """Checks every reply before anything comes of it."""

    state_schema = SaysoState

    async def awrap_model_call(
        self,
        request: ModelRequest[AgentContext],
        handler: Callable[[ModelRequest[AgentContext]], Awaitable[ModelResponse[Any]]],
    ) -> ExtendedModelResponse[Any]:
        """Call the model within the turn's limit, then check what it asked for.

        Raises:
            LimitReached: Before the call, when the turn's steps are used up.
            ModelUnavailable: The provider gave up; the history is as it was.
        """
        context = context_of(request)
        messages = request.state["messages"]
        check_steps(messages, context.max_steps)
        tools = {tool.name: tool for tool in request.tools if isinstance(tool, BaseTool)}
        reply = await reply_to_order(messages, tools, context.recording)
        turn = last_turn(messages)
        chosen = chosen_in(turn)
        is_first, usage = context.freeze and is_to_choose(turn), None
        try:
            if is_first:
                chosen, usage = await choose_tools(request, tools)
            if chosen is not None:
                request = request.override(tools=[tools[name] for name in tools if name in chosen])
            response = ModelResponse(result=[reply]) if reply else _of_model(await handler(request))
        except GraphBubbleUp:
            raise
        except Exception as error:
            raise as_model_error(error) from None
        proposal = await _check(response, tools, chosen, context, request.state["messages"])
        if is_first and chosen is not None:
            proposal.reply.additional_kwargs[CHOSEN] = sorted(chosen)
            if usage is not None:
                proposal.reply.usage_metadata = add_usage(proposal.reply.usage_metadata, usage)
            proposal.events.insert(0, ("turn.tools", {"tools": sorted(chosen)}))
        if context.recording is not None and proposal.events:
            number = turn_number(request.state["messages"])
            events = [(kind, {"turn": number, **data}) for kind, data in proposal.events]
            context.recording.note(*events)
        return ExtendedModelResponse(
            ModelResponse(result=[proposal.reply]), Command(update=proposal.update())
        )


def _of_model(response: ModelResponse[Any]) -> ModelResponse[Any]:
    """A model's response, without a word that only the harness says."""
    for message in response.result:
        for key in (UNDOES, CHOSEN, REFUSED, MARKED):
            message.additional_kwargs.pop(key, None)
    return response


async def _check(
    response: ModelResponse[Any],
    tools: Mapping[str, BaseTool],
    chosen: frozenset[str] | None,
    context: AgentContext,
    history: Sequence[Any],
) -> Proposal:
    reply = last_reply(response.result)
    if reply is None:
        raise ModelUnavailable('The model gave no reply. Nothing was lost: say "continue".')
    end = ending(reply)
    calls = _all_calls(reply)
    proposal = Proposal(reply=_as_history(reply, [call for call, _ in calls]))
    undoes = proposal.reply.additional_kwargs.get(UNDOES)
    judge_call = Judge(context, history, tools, undoes)
    for index, (call, malformed) in enumerate(calls):
        if end != "complete":
            _refuse(proposal, call, prompts.message(end))
        elif (tool := tools.get(call["name"])) is None:
            _refuse(proposal, call, unknown_tool(call["name"], tools if chosen is None else chosen))
        elif chosen is not None and tool.name not in chosen:
            text = prompts.message("not_chosen", tool=tool.name)
            _refuse(proposal, call, text, kind="call.denied", rule="freeze")
        elif malformed is not None:
            _refuse(proposal, call, _malformed(tool, malformed))
        else:
            proposal.reply.tool_calls[index] = await _admit(proposal, tool, call, judge_call)
    if not calls and not reply.text.strip():
        proposal.note = _nudge(end, history)
    elif not calls:
        judged = await judge_answer(proposal.reply, history, tools, context.max_steps)
        if judged is not None:
            proposal.reply, proposal.note = judged.reply, judged.note
            proposal.events.append(judged.event)
    return proposal


async def _admit(proposal: Proposal, tool: BaseTool, call: ToolCall, judge_call: Judge) -> ToolCall:
    """Validate and judge one call; what is returned stands in the history and runs."""
    ordered = judge_call.undoes is not None  # nobody tries that again: it ends as denied
    try:
        normalised = normalise(tool, call["args"])
    except ArgumentsError as error:
        problems = "\n".join(error.problems)
        text = prompts.message("invalid_arguments", tool=tool.name, problems=problems)
        _refuse(proposal, call, text, kind="call.denied" if ordered else "call.refused")
        return call
    verdict = judge_call(tool, normalised)
    denied = verdict["behavior"] == "deny"
    if not denied and (why := await judge_call.not_yet(tool, normalised, verdict)):
        _refuse(proposal, call, why, kind="call.denied" if ordered else "call.refused")
        return call
    event: dict[str, Any] = {
        **{"told" if name == "message" else name: value for name, value in verdict.items()},
        "message": proposal.reply.id,  # which reply it is of; a rule's own words are another thing
        "call": call["id"],
        "tool": tool.name,
        "args": normalised.args,
    }
    proposal.verdicts[call["id"] or ""] = verdict
    if denied:
        proposal.events.append(("call.denied", event))
        why = verdict.get("message") or verdict["reason"]
        _refuse(proposal, call, prompts.message("denied", reason=why), kind=None)
    if is_read(frozenset(verdict["effects"])) and verdict["behavior"] == "allow":
        # A write enters the trail with its approval, or with its intent in the ledger.
        proposal.events.append(("call.allowed", event))
    return ToolCall(**{**call, "args": normalised.args})


def _refuse(
    proposal: Proposal,
    call: ToolCall,
    text: str,
    *,
    kind: str | None = "call.refused",
    rule: str | None = None,
) -> None:
    """Answer a call without running it; ``kind`` is that of its entry in the trail."""
    proposal.errors.append(
        ToolMessage(text, name=call["name"], tool_call_id=call["id"], status="error")
    )
    if kind is not None:
        proposal.events.append(
            (
                kind,
                {
                    "message": proposal.reply.id,
                    "call": call["id"],
                    "tool": call["name"],
                    "args": call["args"],
                    "problem" if kind == "call.refused" else "reason": text,
                    **({"rule": rule} if rule else {}),
                },
            )
        )


# --- the reply as it will stand in the history ----------------------------------------------


def _all_calls(reply: AIMessage) -> list[tuple[ToolCall, Mapping[str, Any] | None]]:
    """Every call of a reply, with the raw one beside those whose arguments were not JSON.

    Ids are made unique, since results are matched by them, and names are made valid for
    providers, since the history goes back to one.
    """
    found: list[tuple[ToolCall, Mapping[str, Any] | None]] = []
    seen: set[str] = set()
    raw: list[tuple[Any, Mapping[str, Any] | None]] = [
        (call, None if _is_json(call["args"]) else {"args": call["args"], "error": "not JSON"})
        for call in reply.tool_calls
    ]
    raw += [(call, call) for call in reply.invalid_tool_calls]
    for call, malformed in raw:
        identity = call.get("id") or ""
        if identity in seen or not _CALL_ID.fullmatch(identity):
            identity = f"call-{uuid4().hex[:12]}"
        seen.add(identity)
        args = call["args"] if malformed is None else {}
        name = re.sub(r"[^a-zA-Z0-9_-]", "_", call.get("name") or "")[:64] or "unnamed"
        found.append((ToolCall(name=name, args=args, id=identity, type="tool_call"), malformed))
    return found


def _as_history(reply: AIMessage, calls: list[ToolCall]) -> AIMessage:
    """The reply under an id of ours (gateways reuse theirs), with valid calls only."""
    kept = reply.additional_kwargs.items()
    extra = {k: v for k, v in kept if k not in _CALL_KEYS and _is_json(v)}
    return AIMessage(
        content=reply.content,
        additional_kwargs=extra,
        response_metadata={k: v for k, v in reply.response_metadata.items() if _is_json(v)},
        usage_metadata=reply.usage_metadata,
        id=f"m-{uuid4().hex[:16]}",
        tool_calls=calls,
    )


_CALL_ID = re.compile(r"[!-~]{1,40}")
"""What every provider takes back: printable ASCII, at most 40 characters."""

_CALL_KEYS = ("tool_calls", "function_call")


def _is_json(value: Any) -> bool:
    try:
        check_plain(value)
    except ValueError:
        return False
    return True


def _nudge(end: Ending, history: Sequence[Any]) -> str | None:
    """What to say to a reply without text and calls; once, then the run may end."""
    if history and getattr(history[-1], "additional_kwargs", {}).get(NOTE):
        return None
    return prompts.message(_NUDGES[end])


_NUDGES: dict[Ending, str] = {
    "complete": "empty_reply",
    "cut_off": "cut_off_reply",
    "filtered": "filtered_reply",
}


# --- words for the model ---------------------------------------------------------------------


def unknown_tool(name: str, tools: Collection[str]) -> str:
    """What to say about a tool that does not exist."""
    close = difflib.get_close_matches(name, tools, n=1, cutoff=0.5)
    suggestion = f"Did you mean '{close[0]}'?" if close else ""
    return prompts.message(
        "unknown_tool", tool=name, suggestion=suggestion, tools=", ".join(sorted(tools)) or "none"
    )


def _malformed(tool: BaseTool, call: Mapping[str, Any]) -> str:
    shown = convert_to_openai_tool(tool)["function"]["parameters"]
    return prompts.message(
        "malformed_arguments",
        tool=tool.name,
        problem=_short(call.get("error") or "it cannot be parsed", 200),
        received=_short(call.get("args") or "nothing", 400),
        schema=_short(canonical_json(shown), 1500),
    )


def _short(value: object, limit: int) -> str:
    text = str(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
