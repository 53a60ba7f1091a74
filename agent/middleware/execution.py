"""The point of execution. Innermost: nothing stands between this and the tool.

Whatever the graph, another middleware, an edit, a replay or a stale answer did before, a write
gets past here only with an ``allow`` verdict or a recorded decision bound to the digest of
exactly these arguments; and it is entered at most once, because the ledger says so first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

import prompts
from agent.canonical import call_digest
from agent.checks.arguments import ArgumentsError, Normalised, normalise
from agent.deadlines import within
from agent.errors import ToolMissing
from agent.middleware.bound import Bound, Handler, Permit, enter
from agent.middleware.judging import Judge
from agent.middleware.results import readable
from agent.middleware.state import (
    AgentContext,
    OpenCall,
    Recording,
    SaysoState,
    answer,
    context_of,
    pause,
)
from agent.middleware.writes import Write, superseded
from agent.policy.grants import outside
from agent.provenance import suspicions
from agent.store.ledger import is_of_a_file
from agent.store.records import ApprovalRecord
from tools.contract import CallInfo, contract_of

REFUSED = "the policy does not allow it now"
"""Why an approval is void whose call the policy files have come to refuse."""


class ExecutionMiddleware(AgentMiddleware[SaysoState, AgentContext]):
    """The binding check, the ledger, the time limit, and results as the model may see them."""

    state_schema = SaysoState

    def __init__(self, tools: Sequence[BaseTool] = ()) -> None:
        super().__init__()
        self._tools = {tool.name: tool for tool in tools}

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Handler
    ) -> ToolMessage | Command[Any]:
        """Run the call, or say why it did not run."""
        context = context_of(request)
        if request.tool is None:
            return _without_its_tool(request, context)
        try:
            bound = _bind(request, request.tool)
        except ArgumentsError as error:
            return answer(request, str(error))
        if beyond := outside(bound.effects, context.authority):
            reason = f"it needs {', '.join(sorted(beyond))}, which this session was not granted."
            _deny_here(context.recording, bound, "authority", reason)
            return answer(request, prompts.message("denied", reason=reason))
        request = request.override(
            tool_call={**request.tool_call, "args": bound.args}, tool=bound.tool
        )
        if bound.reads:
            return await self._read(request, handler, context, bound)
        if context.recording is None:
            return answer(request, prompts.message("no_session"))
        return await self._write(request, handler, context, context.recording, bound)

    # --- reads -----------------------------------------------------------------------------

    async def _read(
        self, request: ToolCallRequest, handler: Handler, context: AgentContext, bound: Bound
    ) -> ToolMessage:
        if context.superseding:
            return answer(request, prompts.message("read_left"))
        verdict = bound.open.verdict
        allowed = verdict and verdict["behavior"] == "allow" and verdict["digest"] == bound.digest
        if not allowed:
            approval = _await_decision(request, context.recording, bound)
            if approval is None:
                return answer(request, prompts.message("mismatch"))
            if self._is_refused_now(request, context, bound, None):
                return _refused(request, context.recording, approval)
        timeout = bound.contract.timeout or context.tool_timeout
        try:
            async with within(timeout):
                session = context.recording.session if context.recording else ""
                info = CallInfo(session=session, call_id=bound.open.call)
                result = await enter(request, handler, info)
        except TimeoutError:
            result = answer(request, prompts.message("read_timeout", seconds=f"{timeout:g}"))
        except Exception as error:
            result = answer(request, prompts.message("read_failed", error=error))
        message = readable(request, result, bound.contract, context.result_limit, context.artifacts)
        if context.recording is not None:
            context.recording.later.append(_ended(bound, message))
        return message

    # --- writes ----------------------------------------------------------------------------

    async def _write(
        self,
        request: ToolCallRequest,
        handler: Handler,
        context: AgentContext,
        recording: Recording,
        bound: Bound,
    ) -> ToolMessage:
        if context.superseding:
            decided = not context.cancelling and _allows(_record(recording, bound), bound)
            if not decided:
                return superseded(request, recording, bound.open, bound)
        permit = _permit(request, recording, bound)
        if permit is None:
            return answer(request, prompts.message("mismatch"))
        if self._is_refused_now(request, context, bound, permit.rule):
            return _refused(request, recording, permit.approval)
        key = bound.contract.conflicts_on(bound.args)
        timeout = bound.contract.timeout or context.tool_timeout
        async with recording.under_way.turn(key, timeout):
            write = Write(request, handler, context, recording, bound, permit, key, timeout)
            write.wait_for_a_stop()
            return await write.happen()

    def _is_refused_now(
        self, request: ToolCallRequest, context: AgentContext, bound: Bound, rule: str | None
    ) -> bool:
        """Whether the policy files refuse now what they let run, or be asked about, before.

        They may be others by now, what was spent meanwhile may count, and a person may have edited
        the call: none of these makes a denial less of one. What was entered before is past that.

        Args:
            rule: What allowed it unasked: where that was a file, a file has to allow it still.
        """
        rests_on_a_file = is_of_a_file(rule)
        if context.recording is None or not (rests_on_a_file or context.policy.layers):
            return False
        this = (bound.open.message, bound.open.call)
        if context.recording.store.ledger.for_call(context.recording.session, *this) is not None:
            return False
        judge = Judge(context, request.state["messages"], self._tools)
        behavior = judge(bound.tool, Normalised(bound.args), but=this)["behavior"]
        return behavior != "allow" if rests_on_a_file else behavior == "deny"


def _deny_here(recording: Recording | None, bound: Bound, rule: str, reason: str) -> None:
    """Record that a call was refused right before it ran, and take back what had approved it."""
    if recording is None:
        return
    approval = _record(recording, bound)
    if approval is not None and approval.status in ("approved", "edited"):
        epoch = recording.lease(0).epoch
        recording.store.approvals.void(approval.id, epoch=epoch, reason=reason)
    data = {
        "message": bound.open.message,
        "call": bound.open.call,
        "tool": bound.tool.name,
        "args": bound.args,
        "digest": bound.digest,
        "rule": rule,
        "reason": reason,
    }
    recording.note(("call.denied", data))


def _bind(request: ToolCallRequest, tool: BaseTool) -> Bound:
    normalised = normalise(tool, request.tool_call["args"])
    call, contract = OpenCall.of(request), contract_of(tool)
    judged = call.verdict["effects"] if call.verdict else ()
    return Bound(
        open=call,
        tool=tool,
        contract=contract,
        args=normalised.args,
        digest=call_digest(tool.name, normalised.args),
        effects=contract.effects_of(normalised.args).union(judged),
    )


def _permit(request: ToolCallRequest, recording: Recording, bound: Bound) -> Permit | None:
    """The permission this write runs under; ``None`` when what was decided is something else.

    A rule is looked at once more where the write begins.
    """
    verdict = bound.open.verdict
    allowed = verdict and verdict["behavior"] == "allow" and verdict["digest"] == bound.digest
    if verdict and allowed and _record(recording, bound) is None:  # else a person's word counts
        return Permit(rule=verdict["rule"])
    record = _await_decision(request, recording, bound)
    return Permit(approval=record) if record else None


def _await_decision(
    request: ToolCallRequest, recording: Recording | None, bound: Bound
) -> ApprovalRecord | None:
    """The recorded decision for exactly these arguments; ``None`` when it is about others.

    While nobody has decided, the call pauses, whatever was answered before.
    """
    while (record := _record(recording, bound)) is None or record.status == "pending":
        pause(request, "Nobody has decided about this call.")
    return record if _allows(record, bound) else None


def _refused(
    request: ToolCallRequest, recording: Recording | None, approval: ApprovalRecord | None
) -> ToolMessage:
    """The answer to a call that the policy files refuse now; an approval of it is taken back."""
    if recording is not None and approval is not None:
        epoch = recording.lease(0).epoch
        recording.store.approvals.void(approval.id, epoch=epoch, reason=REFUSED)
    return answer(request, prompts.message("policy_changed"))


def _record(recording: Recording | None, bound: Bound) -> ApprovalRecord | None:
    if recording is None:
        return None
    return recording.store.approvals.for_call(
        recording.session, bound.open.message, bound.open.call
    )


def _allows(record: ApprovalRecord | None, bound: Bound) -> bool:
    if record is None or record.status not in ("approved", "edited"):
        return False
    same_tool = record.tool_version == bound.contract.version  # and, of MCP, the same server
    return same_tool and record.decided_digest == bound.digest


def _without_its_tool(request: ToolCallRequest, context: AgentContext) -> ToolMessage:
    """A call whose tool is not loaded here: it stays open, unless the session moves on.

    An answer would end it for good, although a person may have approved it.
    """
    if context.superseding and context.recording is not None:
        return superseded(request, context.recording, OpenCall.of(request))
    raise ToolMissing(request.tool_call["name"])


def _ended(bound: Bound, message: ToolMessage) -> tuple[str, dict[str, Any]]:
    """A trail entry: that a read ended, and how; the result itself only by its hash."""
    text = str(message.content)
    found = suspicions(text) if bound.contract.open_world else ()
    return "call.result", {
        "message": bound.open.message,
        "call": bound.open.call,
        "tool": bound.tool.name,
        "status": message.status,
        "characters": len(text),
        "sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
        **({"suspicious": list(found)} if found else {}),
    }
