"""The point of execution. Innermost: nothing stands between this and the tool.

Whatever the graph, another middleware, an edit, a replay or a stale answer did before, a write
gets past here only with an ``allow`` verdict or a recorded decision bound to the digest of
exactly these arguments; and it is entered at most once, because the ledger says so first.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from langgraph.types import Command

import prompts
from agent.canonical import call_digest
from agent.checks.arguments import ArgumentsError, normalise
from agent.checks.limits import turn_number
from agent.deadlines import within
from agent.errors import RuleEnded, ToolMissing
from agent.middleware.guard import Entry, entry
from agent.middleware.results import failure, readable, transaction_of
from agent.middleware.state import (
    AgentContext,
    OpenCall,
    Recording,
    SaysoState,
    answer,
    context_of,
    pause,
)
from agent.policy import covers
from agent.policy.evaluate import outside
from agent.store.ledger import Begun
from agent.store.records import ApprovalRecord, EffectRecord
from tools.contract import (
    CallInfo,
    Contract,
    Effects,
    OutcomeUnknown,
    ToolFailure,
    contract_of,
    current_call,
    is_read,
)

Handler = Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]

GRACE = 5.0
"""Seconds that a cancelled run waits for a write that is under way, so as to record its outcome."""


@dataclass(frozen=True)
class Bound:
    """A call at the point of execution: its normalised arguments and what they are bound to."""

    open: OpenCall
    tool: BaseTool
    contract: Contract
    args: dict[str, Any]
    digest: str
    effects: Effects
    """What the contract says now, and what it said when the call was judged."""

    @property
    def reads(self) -> bool:
        return is_read(self.effects)


@dataclass(frozen=True)
class Permit:
    """Why a write may run: a recorded decision, or a rule that a person agreed to."""

    approval: str | None = None
    rule: str | None = None


class ExecutionMiddleware(AgentMiddleware[SaysoState, AgentContext]):
    """The binding check, the ledger, the time limit, and results as the model may see them."""

    state_schema = SaysoState

    def __init__(self) -> None:
        super().__init__()
        self._locks: dict[str, asyncio.Lock] = {}
        self._overdue: dict[str, asyncio.Future[Any]] = {}

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
        if not allowed and _await_decision(request, context.recording, bound) is None:
            return answer(request, prompts.message("mismatch"))
        timeout = bound.contract.timeout or context.tool_timeout
        try:
            async with within(timeout):
                session = context.recording.session if context.recording else ""
                info = CallInfo(session=session, call_id=bound.open.call)
                result = await _enter(request, handler, info)
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
                return _superseded(request, recording, bound.open)
        permit = _permit(request, recording, bound)
        if permit is None:
            return answer(request, prompts.message("mismatch"))
        key = bound.contract.conflicts_on(bound.args)
        timeout = bound.contract.timeout or context.tool_timeout
        async with self._locks.setdefault(key, asyncio.Lock()):
            free = await self._no_longer_overdue(key, timeout)
            effect = _begin(request, recording, bound, permit, timeout)
            if isinstance(effect, ToolMessage):
                return effect
            run = _Attempt(request, handler, context, recording, bound, effect)
            if not free:
                return run.not_entered(prompts.message("conflict"))
            try:
                return await run.finish_within(timeout)
            finally:
                if run.task is not None and not run.task.done():
                    self._overdue[key] = run.task

    async def _no_longer_overdue(self, key: str, seconds: float) -> bool:
        """Wait for a body that outlived its own time: writes of one key never overlap."""
        task = self._overdue.get(key)
        if task is not None and not task.done():
            await asyncio.wait({task}, timeout=seconds)
            if not task.done():
                return False
        self._overdue.pop(key, None)
        return True


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
    if verdict and verdict["behavior"] == "allow" and verdict["digest"] == bound.digest:
        return Permit(rule=verdict["rule"])
    record = _await_decision(request, recording, bound)
    return Permit(approval=record.id) if record else None


def _await_decision(
    request: ToolCallRequest, recording: Recording | None, bound: Bound
) -> ApprovalRecord | None:
    """The recorded decision for exactly these arguments; ``None`` when it is about others.

    While nobody has decided, the call pauses, whatever was answered before.
    """
    while (record := _record(recording, bound)) is None or record.status == "pending":
        pause(request, "Nobody has decided about this call.")
    return record if _allows(record, bound) else None


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


def _begin(
    request: ToolCallRequest, recording: Recording, bound: Bound, permit: Permit, seconds: float
) -> EffectRecord | ToolMessage:
    """Put ``intended`` on disk; a message instead when the ledger already knows this call."""
    while True:
        try:
            begun = _begin_once(request, recording, bound, permit, seconds)
        except RuleEnded:
            return answer(request, prompts.message("revoked"))
        match begun.outcome:
            case "run":
                return begun.effect
            case "recorded":
                return _as_recorded(request, begun.effect)
            case "in_doubt":
                if context_of(request).superseding:
                    return _in_doubt(request)
                pause(request, "This write was interrupted; whether it happened is unknown.")
            case "refused":
                return answer(
                    request, prompts.message("failed", error="other arguments ran under this key.")
                )


def _begin_once(
    request: ToolCallRequest, recording: Recording, bound: Bound, permit: Permit, seconds: float
) -> Begun:
    lease = recording.lease(seconds)
    return recording.store.ledger.begin(
        session=recording.session,
        epoch=lease.epoch,
        lease_margin=seconds,
        turn=turn_number(request.state["messages"]),
        message=bound.open.message,
        call=bound.open.call,
        tool=bound.tool.name,
        tool_version=bound.contract.version,
        args=bound.args,
        digest=bound.digest,
        approval=permit.approval,
        rule=permit.rule,
        idempotency_key=_idempotency_key(recording.session, bound.open),
        covered=lambda rule: rule.tool == bound.tool.name and covers(rule.scope_args, bound.args),
    )


def _idempotency_key(session: str, call: OpenCall) -> str:
    """One key a call, the same for every attempt, short enough for any service."""
    text = f"{session}/{call.message}/{call.call}"
    return "sayso-" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _as_recorded(request: ToolCallRequest, effect: EffectRecord) -> ToolMessage:
    """The result of a write that is already in the ledger, in the ledger's words."""
    result = effect.result or {}
    if effect.settled is None and "text" in result:  # else it is from before it was settled
        return answer(request, result["text"], error=effect.state != "committed")
    comment = (effect.evidence or {}).get("comment") or "none"
    return answer(request, prompts.message("settled_happened", comment=comment), error=False)


def _without_its_tool(request: ToolCallRequest, context: AgentContext) -> ToolMessage:
    """A call whose tool is not loaded here: it stays open, unless the session moves on.

    An answer would end it for good, although a person may have approved it.
    """
    if context.superseding and context.recording is not None:
        return _superseded(request, context.recording, OpenCall.of(request))
    raise ToolMissing(request.tool_call["name"])


def _superseded(request: ToolCallRequest, recording: Recording, call: OpenCall) -> ToolMessage:
    effect = recording.store.ledger.for_call(recording.session, call.message, call.call)
    if effect is None or (effect.settled and effect.state == "failed"):
        return answer(request, prompts.message("superseded"))
    if effect.state in ("committed", "failed"):
        return _as_recorded(request, effect)
    return _in_doubt(request)


def _in_doubt(request: ToolCallRequest) -> ToolMessage:
    """The session moves on from a write whose outcome is still unknown; the question stays."""
    return answer(request, prompts.message("unknown_outcome", error="it was interrupted."))


@dataclass
class _Attempt:
    """One attempt of one write, from entering the tool to the ledger's last word on it."""

    request: ToolCallRequest
    handler: Handler
    context: AgentContext
    recording: Recording
    bound: Bound
    effect: EffectRecord
    task: asyncio.Future[Any] | None = None
    """The body, once it is entered; it may outlive its time."""

    def not_entered(self, why: str) -> ToolMessage:
        """Record that it came to nothing before it began."""
        message = answer(self.request, why)
        self._finish("failed", message, "not entered")
        return message

    async def finish_within(self, seconds: float) -> ToolMessage:
        """Run it and record what became of it, also when this task is cancelled meanwhile."""
        info = CallInfo(
            session=self.recording.session,
            call_id=self.bound.open.call,
            attempt=self.effect.attempts,
            idempotency_key=self.effect.idempotency_key,
        )
        started = Entry()
        task = asyncio.ensure_future(_enter(self.request, self.handler, info, started))
        self.task = task
        try:
            async with within(seconds):
                await asyncio.wait({task})
        except TimeoutError:
            task.add_done_callback(lambda late: self._late(late, started))
            return self._record(
                OutcomeUnknown(f"no answer within {seconds:g} seconds."), started, "timeout"
            )
        except asyncio.CancelledError:
            await asyncio.shield(self._after_cancel(task, started))
            raise
        return self._record(_outcome(task), started)

    async def _after_cancel(self, task: asyncio.Future[Any], started: Entry) -> None:
        done, _ = await asyncio.wait({task}, timeout=GRACE)
        if done:
            self._record(_outcome(task), started)
            return
        if started.in_thread:  # nothing can stop it; its result may still come
            task.add_done_callback(lambda late: self._late(late, started))
        else:
            task.cancel()
        self._record(OutcomeUnknown("it was interrupted."), started, "cancelled")

    def _late(self, task: asyncio.Future[Any], started: Entry) -> None:
        """A result that came after its time is evidence for the ledger, nothing more."""
        if not task.cancelled():
            state, message, _ = self._judge(_outcome(task), started)
            if state != "in_doubt":
                self._finish(state, message, "late")

    def _record(self, outcome: Any, started: Entry, transport: str | None = None) -> ToolMessage:
        state, message, how = self._judge(outcome, started)
        self._finish(state, message, transport or how)
        return message

    def _finish(self, state: Any, message: ToolMessage, transport: str) -> None:
        result: dict[str, Any] = {"text": message.content, "status": message.status}
        if state != "committed":
            result["error"] = message.content
        self.recording.store.ledger.finish(
            self.effect.id,
            attempt=self.effect.attempts,
            state=state,
            result=result,
            transport=transport,
            transaction=transaction_of(message),
        )

    def _judge(self, outcome: Any, started: Entry) -> tuple[Any, ToolMessage, str]:
        """From how the body ended to a state of the ledger; a message's status never decides."""
        match outcome:
            case ToolFailure():
                return "failed", self._failure("failed", outcome), "answered"
            case BaseException() if not started.entered:
                text = prompts.message("failed", error=outcome)
                return "failed", answer(self.request, text), "not entered"
            case BaseException():
                return "in_doubt", self._failure("unknown_outcome", outcome), "lost"
            case ToolMessage() if not started.entered:
                return "failed", outcome.model_copy(update={"status": "error"}), "not entered"
        limit = self.context.result_limit
        folder = self.context.artifacts
        message = readable(self.request, outcome, self.bound.contract, limit, folder)
        return "committed", message, "answered"

    def _failure(self, key: str, error: BaseException) -> ToolMessage:
        limit = self.context.result_limit
        return failure(self.request, key, error, self.bound.contract, limit)


def _outcome(task: asyncio.Future[Any]) -> Any:
    """What a finished task ended in: its result, or the exception as a value."""
    if task.cancelled():
        return OutcomeUnknown("it was cancelled.")
    error = task.exception()
    return task.result() if error is None else error


async def _enter(
    request: ToolCallRequest, handler: Handler, info: CallInfo, started: Entry | None = None
) -> ToolMessage | Command[Any]:
    """Enter the tool, with what it may know about its call in place."""
    current_call.set(info)
    entry.set(started)
    return await handler(request)


def _ended(bound: Bound, message: ToolMessage) -> tuple[str, dict[str, Any]]:
    """A trail entry: that a read ended, and how; the result itself only by its hash."""
    text = str(message.content)
    return "call.result", {
        "message": bound.open.message,
        "call": bound.open.call,
        "tool": bound.tool.name,
        "status": message.status,
        "characters": len(text),
        "sha256": hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest(),
    }
