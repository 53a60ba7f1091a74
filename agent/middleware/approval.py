"""A person decides. Outside ``execution`` on the way to a tool.

LangChain's human-in-the-loop in per-call mode does the pausing; this file says when, and makes
sure that what comes of it is what the store recorded, not what the graph was told.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain.agents.middleware.human_in_the_loop import InterruptOnConfig
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.errors import GraphInterrupt
from langgraph.types import Command

import prompts
from agent.canonical import canonical_json
from agent.evidence import RAN
from agent.middleware.results import cut
from agent.middleware.state import OpenCall, SaysoState, answer, context_of, pause
from agent.middleware.writes import superseded
from agent.store.records import ApprovalRecord
from tools.contract import contract_of

Handler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]

CHANGED = "its tool has changed since it was approved"
"""Why an approval is void whose tool is another one by the time the call would run."""


class ApprovalMiddleware(HumanInTheLoopMiddleware[SaysoState, Any, Any]):
    """Pauses every call whose frozen verdict is not ``allow``, whatever tool it is."""

    def __init__(self, tools: Sequence[BaseTool]) -> None:
        ask = InterruptOnConfig(
            allowed_decisions=["approve", "edit", "reject", "respond"],
            description=lambda call, state, runtime: _why(call, state),
            when=must_ask,
        )
        super().__init__(interrupt_on={tool.name: ask for tool in tools}, interrupt_mode="per_call")
        self._forms: dict[str, Any] = {}

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Handler
    ) -> ToolMessage | Command[Any]:
        """Pause for a person where the verdict says so; then do what the store recorded.

        Once it is recorded there is nothing to ask: the resumed call reads it from the store.
        """
        if not must_ask(request):
            return await handler(request)
        record = _decided(request)
        if record is None and not context_of(request).superseding:
            await self._pause(request)
            record = _decided(request)
        return await _as_recorded(request, handler, record)

    async def _pause(self, request: ToolCallRequest) -> None:
        """Ask as LangChain does, with the form for answers that it publishes for this tool.

        It makes that form anew for every call, from models that pydantic compiles each time: a
        quarter of what an approved step takes. Here it is made once a tool.
        """
        tool = request.tool_call["name"]
        if tool in self._forms:
            pause(request, _why(request.tool_call, request.state), self._forms[tool])
            return
        try:
            await super().awrap_tool_call(_publishable(request), _runs_nothing)
        except GraphInterrupt as pausing:
            self._forms[tool] = pausing.args[0][0].response_schema
            raise


def _publishable(request: ToolCallRequest) -> ToolCallRequest:
    """The request without its tool where the tool's schema has references.

    LangChain puts the schema into the form as it is, where they point to nothing, and fails. The
    form then says of the arguments only that they are an object.
    """
    schema = request.tool.args_schema if request.tool is not None else None
    refers = isinstance(schema, dict) and '"$ref"' in json.dumps(schema, default=str)
    return replace(request, tool=None) if refers else request


def must_ask(request: ToolCallRequest) -> bool:
    """Whether a call waits for a person: anything but a frozen ``allow``.

    It reads nothing else, so that it says the same again on resume: if it turned false then,
    a rejected call would run.
    """
    verdict = OpenCall.of(request).verdict
    return verdict is None or verdict["behavior"] != "allow"


def _why(call: Any, state: Any) -> str:
    verdict = (state.get("verdicts") or {}).get(call["id"])
    return verdict["reason"] if verdict else "Nobody has judged this call."


async def _runs_nothing(request: ToolCallRequest) -> ToolMessage:
    """What LangChain runs after the pause: whatever it was told, the store says what happens."""
    return answer(request, "")


async def _as_recorded(
    request: ToolCallRequest, handler: Handler, record: ApprovalRecord | None
) -> ToolMessage | Command[Any]:
    """What the store recorded about a call; while it says nothing, the question stays open."""
    while record is None:
        if context_of(request).superseding:
            return await handler(request)
        pause(request, "This has not been decided: an answer counts once it is recorded.")
        record = _decided(request)
    if _is_for_another_tool(request, record):
        return _not_under(request, record)
    if record.status == "approved":
        return await handler(request)
    if record.status == "edited":
        return await _run_edited(request, handler, record)
    text = cut(_ANSWERS[record.status](record), context_of(request).result_limit)
    return answer(request, text, error=record.status != "answered")


async def _run_edited(
    request: ToolCallRequest, handler: Handler, record: ApprovalRecord
) -> ToolMessage | Command[Any]:
    """Run the arguments a person chose, and tell the model which they were."""
    args = record.decided_args or {}
    result = await handler(request.override(tool_call={**request.tool_call, "args": args}))
    if not isinstance(result, ToolMessage):
        return result
    note = prompts.message("edited", call=f"{record.tool}({canonical_json(args)})") + "\n"
    update: dict[str, Any] = {"content": note + result.text}
    if RAN in result.additional_kwargs:
        skip = len(note) + result.additional_kwargs[RAN].get("skip", 0)
        update["additional_kwargs"] = {RAN: {"args": args, "skip": skip}}
    return result.model_copy(update=update)


def _is_for_another_tool(request: ToolCallRequest, record: ApprovalRecord) -> bool:
    """Whether what was approved is not the tool that is loaded here: other code, or another server.

    The point of execution would not let it run either, and could not say which of the two it is.
    """
    may_run = record.status in ("approved", "edited") or record.was_void
    tool = request.tool
    return may_run and tool is not None and record.tool_version != contract_of(tool).version


def _not_under(request: ToolCallRequest, record: ApprovalRecord) -> ToolMessage:
    """The answer to a call whose tool has changed; what was begun before that keeps its outcome."""
    recording = context_of(request).recording
    assert recording is not None  # it is where the decision was found
    call = OpenCall.of(request)
    effect = recording.store.ledger.for_call(recording.session, call.message, call.call)
    if effect is not None and not (effect.settled and effect.state == "failed"):
        return superseded(request, recording, call)
    if not record.was_void:
        epoch = recording.lease(0).epoch
        recording.store.approvals.void(record.id, epoch=epoch, reason=CHANGED)
    return answer(request, prompts.message("tool_changed", tool=record.tool))


def _decided(request: ToolCallRequest) -> ApprovalRecord | None:
    """The call's approval, if it is no longer pending."""
    recording = context_of(request).recording
    if recording is None:
        return None
    call = OpenCall.of(request)
    record = recording.store.approvals.for_call(recording.session, call.message, call.call)
    return None if record is None or record.status == "pending" else record


def _rejected(record: ApprovalRecord) -> str:
    if record.decided_via == "run":
        return prompts.message("rejected_unattended")
    if not record.comment:
        return prompts.message("rejected_without_reason")
    return prompts.message("rejected", reason=record.comment)


_ANSWERS: dict[str, Callable[[ApprovalRecord], str]] = {
    "rejected": _rejected,
    "answered": lambda record: record.comment or "",
    "expired": lambda record: prompts.message("expired"),
    "superseded": lambda record: prompts.message(
        "changed_since" if record.was_void else "superseded"
    ),
}
