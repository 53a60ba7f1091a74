"""One write, from its permit to the ledger's last word on it.

::

    up to date? ─► intended ─► tool ─► its record (postcondition) ─► committed │ failed │ in doubt
                      ▲                                                                    │
                      └── did not happen, or the service knows the key ◄── record (look up)┘

What stays in doubt is told to the model and put to a person.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import count
from typing import Any

from langchain.agents.middleware.types import ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command

import prompts
from agent.checks.limits import turn_number
from agent.deadlines import within
from agent.errors import AlreadyUndone, NothingToUndo, RuleEnded, StoreError
from agent.evidence import (
    RAN,
    check_text,
    foreign,
    preview_of,
    unmet,
    unmet_text,
    value_of,
    verify,
)
from agent.middleware.bound import Bound, Handler, Permit, enter
from agent.middleware.results import failure, readable, transaction_of
from agent.middleware.state import AgentContext, OpenCall, Recording, answer, pause
from agent.policy import covers, is_about
from agent.receipt import describe_call
from agent.repeats import held, known_since
from agent.settling import info_of, look_up_effect
from agent.store.ledger import Begun, is_of_a_file
from agent.store.outcomes import NOT_HAPPENED
from agent.store.records import EffectRecord, RuleRecord
from agent.threads import Entry, entry
from tools.contract import (
    Contract,
    Finding,
    OutcomeUnknown,
    Preview,
    ToolFailure,
    contract_of,
)

log = logging.getLogger("sayso")

GRACE = 5.0
"""Seconds that a cancelled run waits for a write that is under way, so as to record its outcome."""

MOST_ATTEMPTS = 3
"""How often one run enters a write whose outcome keeps getting lost."""

BACK_OFF = 0.2
"""Seconds before the second attempt; each further one waits that much longer."""


@dataclass
class Write:
    """A write that may run; ``key`` is its conflict key, ``seconds`` the time one attempt has."""

    request: ToolCallRequest
    handler: Handler
    context: AgentContext
    recording: Recording
    bound: Bound
    permit: Permit
    key: str
    seconds: float
    before: str | None = None
    """The record as the preview shows it, right before the write begins."""

    async def happen(self) -> ToolMessage:
        """Attempt it until its outcome is known, or only a person can tell.

        A doubt is looked up in the service's own record. What the record shows not to have
        happened is entered again, under the same key and approval; so is what the service would
        recognise by its key. Nothing else is ever entered twice, and nothing while a body of it, or
        of its conflict key, still runs.
        """
        if self.context.superseding:
            known = _effect_of(self.recording, self.bound.open)
            if known is not None and known.settled == NOT_HAPPENED:  # not entered again
                return superseded(self.request, self.recording, self.bound.open)
        try:
            return await self._attempts()
        except (RuleEnded, AlreadyUndone, NothingToUndo) as error:
            effect = _effect_of(self.recording, self.bound.open)
            if effect is not None and effect.state == "in_doubt":  # an attempt was entered before
                return self._left(effect, None)
            if isinstance(error, RuleEnded):
                return answer(self.request, prompts.message("revoked"))
            self._void(str(error).removesuffix(" Nothing was run."))
            return answer(self.request, prompts.message("failed", error=error))

    async def _attempts(self) -> ToolMessage:
        resend = False
        for tries in count(1):
            if (problem := await self._out_of_date()) is not None:
                return problem
            self.wait_for_a_stop()  # nothing is awaited from here to the ledger
            begun = self._begin(resend)
            effect, message = begun.effect, None
            match begun.outcome:
                case "refused":
                    text = "other arguments ran under this key."
                    return answer(self.request, prompts.message("failed", error=text))
                case "recorded":
                    return as_recorded(self.request, effect)
                case "run":
                    attempt = _Attempt(self, effect, begun.resent)
                    if not self._is_free():
                        return attempt.not_entered(prompts.message("conflict"))
                    effect, message = await attempt.finish_within(self.seconds)
                    if effect.state != "in_doubt":
                        return message
            effect = await self._looked_up(effect)
            if effect.state == "committed":
                return as_recorded(self.request, effect)
            resend = self._honours_key(effect, BACK_OFF * tries)
            again = tries < MOST_ATTEMPTS and not self.context.superseding
            if not (again and (resend or effect.state == "failed")):
                return self._left(effect, message)
            await asyncio.sleep(BACK_OFF * tries)
            if self.runs(effect) or not self._is_free():
                return self._left(self.recording.store.ledger.get(effect.id), message)
        raise AssertionError("attempts are counted")

    def wait_for_a_stop(self) -> None:
        """Pause what has not begun, or is to be entered again, when the session was stopped."""
        while self.recording.stopping and not self.context.superseding:
            pause(self.request, "It had not begun when the session was stopped.")

    def runs(self, effect: EffectRecord) -> bool:
        """Whether a body of it has not ended in this process."""
        return self.recording.under_way.has(effect.id)

    def _is_free(self) -> bool:
        return self.recording.under_way.is_free(self.key)

    def _begin(self, resend: bool) -> Begun:
        """Put ``intended`` on disk, unless the ledger knows this call already."""
        with self.unrecorded("was not run now"):
            return self._begin_in_ledger(resend)

    def _begin_in_ledger(self, resend: bool) -> Begun:
        bound, approval = self.bound, self.permit.approval
        lease = self.recording.lease(self.seconds)
        return self.recording.store.ledger.begin(
            session=self.recording.session,
            epoch=lease.epoch,
            lease_margin=self.seconds,
            turn=turn_number(self.request.state["messages"]),
            message=bound.open.message,
            call=bound.open.call,
            tool=bound.tool.name,
            tool_version=bound.contract.version,
            args=bound.args,
            digest=bound.digest,
            approval=approval.id if approval else None,
            rule=self.permit.rule,
            idempotency_key=_idempotency_key(self.recording.session, bound.open),
            undoes=approval.undoes if approval else None,
            before=self.before,
            resend=resend,
            covered=None if is_of_a_file(self.permit.rule) else self._is_covered,
        )

    def _is_covered(self, rule: RuleRecord) -> bool:
        bound = self.bound
        is_same = is_about(rule, bound.tool.name, bound.contract.version)
        return is_same and covers(rule.scope_args, bound.args)

    async def _looked_up(self, effect: EffectRecord) -> EffectRecord:
        """The effect after a look at the service's record, where the contract knows how."""
        if effect.state != "in_doubt":
            return effect
        store, limit = self.recording.store, self.context.result_limit
        running = self.runs(effect)
        return await look_up_effect(store, effect, self.bound.tool, limit, running=running)

    def _honours_key(self, effect: EffectRecord, wait: float) -> bool:
        """Whether the same request under the same key is sure to happen once at most.

        Args:
            wait: Seconds until it is sent again; from then on it may take its time.
        """
        contract = self.bound.contract
        if effect.state != "in_doubt" or contract.idempotency != "key":
            return False
        if contract.key_seconds is None:
            return True
        age = _age(effect)  # below 0: the clocks differ, and nobody knows how old it is
        return age >= 0 and age + wait + self.seconds < contract.key_seconds

    def _left(self, effect: EffectRecord, message: ToolMessage | None) -> ToolMessage:
        """What the model is told of a write that came to no known end here."""
        if effect.state in ("committed", "failed"):
            return as_recorded(self.request, effect)
        while message is None and not self.context.superseding:  # an earlier answer is none here
            pause(self.request, "This write was interrupted; whether it happened is unknown.")
        return message or _in_doubt(self.request, self.bound.contract, self.bound.args)

    async def _out_of_date(self) -> ToolMessage | None:
        """Why what was approved is not what would happen now; where it can be, it is asked anew.

        A write that was entered before is past that, only its outcome is open; unless it is known
        not to have happened, and begins anew.
        """
        bound, approval = self.bound, self.permit.approval
        effect = _effect_of(self.recording, bound.open)
        if effect is not None and effect.settled != NOT_HAPPENED:
            return None
        if effect is not None and self.runs(effect):  # said not to have happened, and it may yet
            return answer(self.request, prompts.message("conflict"))
        if effect is None and (text := self._held()) is not None:
            self._void("the same call is in doubt")
            return answer(self.request, text)
        if effect is None and (other := self._happened_meanwhile()) is not None:
            self._void(f"the same call has turned out to have happened as {other.id}")
            return answer(self.request, prompts.message("happened_meanwhile", effect=other.id))
        missing = await unmet(bound.contract, bound.args, self.request.state["messages"])
        if missing is not None:
            self._void("its precondition does not hold any more")
            return answer(self.request, unmet_text(missing, bound.tool.name, bound.contract))
        preview = await self._preview()
        if approval is None:
            return None
        shown = approval.decided_preview or approval.preview
        if shown is None:
            return None
        if approval.status == "edited" and approval.decided_preview is None:
            preview = await preview_of(bound.contract, approval.args)  # all that anybody saw
        if preview is not None and asdict(preview) == shown:
            return None
        if approval.status == "edited" or self.context.superseding:
            self._void(VOID)
            return answer(self.request, prompts.message("changed_since"))
        self.recording.store.approvals.ask_again(
            approval.id,
            epoch=self.recording.lease(0).epoch,
            reason=f"{VOID} {approval.reason.removeprefix(VOID).strip()}",
            preview=asdict(preview) if preview else None,
            hours=self.context.approval_hours,
        )
        while True:  # until somebody has decided about what it would do now
            pause(self.request, VOID)

    def _held(self) -> str | None:
        return held(self.recording.store, self.recording.line, self.bound.tool, self.bound.args)

    def _happened_meanwhile(self) -> EffectRecord | None:
        """The same call, which nobody knew to have happened when this one was asked about."""
        if (approval := self.permit.approval) is None:
            return None
        store, line = self.recording.store, self.recording.line
        return known_since(store, line, self.bound.tool, self.bound.args, approval)

    async def _preview(self) -> Preview | None:
        """What exactly this call would change now; ``before`` of it is kept with the write."""
        preview = await preview_of(self.bound.contract, self.bound.args)
        self.before = preview.before if preview else None
        return preview

    def _void(self, reason: str) -> None:
        """Take back the approval of a call that does not run."""
        if (approval := self.permit.approval) is not None:
            epoch = self.recording.lease(0).epoch
            self.recording.store.approvals.void(approval.id, epoch=epoch, reason=reason)

    @contextmanager
    def unrecorded(self, known: str) -> Iterator[None]:
        """Should the database fail, keep what is known of this write for whoever runs it."""
        try:
            yield
        except StoreError:
            call = describe_call(self.bound.tool.name, self.bound.args)
            self.recording.unrecorded.append(f"{call} {known}.")
            raise


VOID = "The record has changed since this was approved, so that approval is void."


def _idempotency_key(session: str, call: OpenCall) -> str:
    """One key a call, the same for every attempt, short enough for any service."""
    text = f"{session}/{call.message}/{call.call}"
    return "sayso-" + hashlib.sha256(text.encode()).hexdigest()[:32]


def _age(effect: EffectRecord) -> float:
    """Seconds since the first attempt began of those that may have happened."""
    return (datetime.now(UTC) - datetime.fromisoformat(effect.started_at)).total_seconds()


def _effect_of(recording: Recording, call: OpenCall) -> EffectRecord | None:
    return recording.store.ledger.for_call(recording.session, call.message, call.call)


# --- one attempt -----------------------------------------------------------------------------

Answered = tuple[ToolMessage | Command[Any], Finding | None]
"""What a body returned, and what the record said after it."""


@dataclass
class _Attempt:
    """One attempt of a write: entered once, and its outcome recorded."""

    write: Write
    effect: EffectRecord
    resent: bool
    """Whether an earlier attempt may have happened."""

    def not_entered(self, why: str) -> ToolMessage:
        """Record that it came to nothing before it began."""
        message = answer(self.write.request, why)
        self._finish("failed", message, "not entered")
        return message

    async def finish_within(self, seconds: float) -> tuple[EffectRecord, ToolMessage]:
        """Run it and record what became of it, also when this task is cancelled meanwhile."""
        started = Entry()
        task = asyncio.ensure_future(self._body(started))
        write = self.write
        write.recording.under_way.entered(self.effect.session, self.effect.id, write.key, task)
        try:
            async with within(seconds):
                await asyncio.wait({task})
        except TimeoutError:
            task.add_done_callback(lambda late: self._late(late, started))
            unknown = OutcomeUnknown(f"no answer within {seconds:g} seconds.")
            return self._record(unknown, started, "timeout")
        except asyncio.CancelledError:
            await asyncio.shield(self._after_cancel(task, started))
            raise
        return self._record(_outcome(task), started)

    async def _body(self, started: Entry) -> Answered:
        """Enter the tool; where its contract says how, read the record of what it did."""
        write = self.write
        info, bound = info_of(self.effect), write.bound
        result = await enter(write.request, write.handler, info, started)
        if not (isinstance(result, ToolMessage) and started.entered):
            return result, None
        entry.set(None)  # what reads the record is not the body
        value = value_of(result.text, bound.tool.name)
        return result, await verify(bound.contract, bound.args, info, value)

    async def _after_cancel(self, task: asyncio.Future[Any], started: Entry) -> None:
        """A body that was entered goes on: what it waits for, a thread or a service, would do so
        all the same, and unseen. Its result may still come."""
        done, _ = await asyncio.wait({task}, timeout=GRACE)
        if done:
            self._record(_outcome(task), started)
            return
        started.close()
        if started.entered:
            task.add_done_callback(lambda late: self._late(late, started))
        else:
            task.cancel()
        self._record(OutcomeUnknown("it was interrupted."), started, "cancelled")

    def _late(self, task: asyncio.Future[Any], started: Entry) -> None:
        """A result that came after its time is evidence for the ledger, nothing more."""
        if started.entered and not task.cancelled():
            state, message, _, finding = self._judge(_outcome(task), started)
            try:
                self._finish(state, message, "late", finding)
            except StoreError as error:  # it is kept
                log.warning("what %s came to was not recorded yet: %s", self.effect.id, error)

    def _are_one(self) -> bool:
        """Whether all attempts are one for the service, since it honours keys, and for so long."""
        contract = self.write.bound.contract
        if contract.idempotency != "key" or contract.key_seconds is None:
            return contract.idempotency == "key"
        return 0 <= _age(self.effect) < contract.key_seconds

    def _record(
        self, outcome: Any, started: Entry, transport: str | None = None
    ) -> tuple[EffectRecord, ToolMessage]:
        state, message, how, finding = self._judge(outcome, started)
        effect = self._finish(state, message, transport or how, finding)
        if effect.state != state or "twice" in (effect.evidence or {}):  # another attempt counts
            message = as_recorded(self.write.request, effect)
        return effect, message

    def _finish(
        self, state: Any, message: ToolMessage, transport: str, finding: Finding | None = None
    ) -> EffectRecord:
        result: dict[str, Any] = {"text": message.content, "status": message.status}
        if state != "committed":
            result["error"] = message.content
        recording, found = self.write.recording, _as_evidence(finding) or {}
        transaction = (finding.transaction if finding else None) or transaction_of(message)

        def record() -> EffectRecord:
            evidence = dict(found)
            if state == "in_doubt" and self.write.runs(self.effect):
                evidence["running"] = recording.store.owner().text
            return recording.store.ledger.finish(
                self.effect.id,
                attempt=self.effect.attempts,
                state=state,
                result=result,
                transport=transport,
                transaction=transaction,
                evidence=evidence or None,
                once=self._are_one(),
            )

        effect = self.effect
        recording.under_way.forget(effect.session, effect.id, effect.attempts)  # this says more
        with self.write.unrecorded(_UNRECORDED[state]):
            try:
                return record()
            except StoreError:
                recording.under_way.keep(effect.session, effect.id, effect.attempts, record)
                raise

    def _judge(self, outcome: Any, started: Entry) -> tuple[Any, ToolMessage, str, Finding | None]:
        """From how the body ended to a state of the ledger; a message's status never decides."""
        started.close()
        state, message, how, finding = self._of_this_attempt(outcome, started)
        if state == "failed" and self.resent:  # that says nothing about the attempt before it
            return "in_doubt", self._failure("unknown_outcome", _why(outcome)), how, finding
        return state, message, how, finding

    def _of_this_attempt(
        self, outcome: Any, started: Entry
    ) -> tuple[Any, ToolMessage, str, Finding | None]:
        match outcome:
            case ToolFailure():
                return "failed", self._failure("failed", outcome), "answered", None
            case BaseException() if not started.entered:
                text = prompts.message("failed", error=outcome)
                return "failed", answer(self.write.request, text), "not entered", None
            case BaseException():
                return "in_doubt", self._failure("unknown_outcome", outcome), "lost", None
        result, finding = outcome
        if isinstance(result, ToolMessage) and not started.entered:
            failed = result.model_copy(update={"status": "error"})
            return "failed", failed, "not entered", None
        message = self._readable(result)
        if finding is None or finding.happened is True:
            return "committed", message, "answered", finding
        contract, args = self.write.bound.contract, self.write.bound.args
        text = prompts.message(
            "unverified",
            summary=foreign(finding.summary, self.write.bound.tool.name, contract),
            check=check_text(contract, args),
            result=message.content,
        )
        return "in_doubt", answer(self.write.request, text), "answered", finding

    def _readable(self, result: ToolMessage | Command[Any]) -> ToolMessage:
        context, contract = self.write.context, self.write.bound.contract
        return readable(
            self.write.request, result, contract, context.result_limit, context.artifacts
        )

    def _failure(self, key: str, error: object) -> ToolMessage:
        contract, args = self.write.bound.contract, self.write.bound.args
        limit, check = self.write.context.result_limit, check_text(contract, args)
        return failure(self.write.request, key, error, contract, limit, check=check)


_UNRECORDED = {
    "committed": "was run and answered; that it happened could not be recorded",
    "failed": "did not happen, which could not be recorded",
    "in_doubt": "was run, and whether it happened is unknown",
}


def _outcome(task: asyncio.Future[Answered]) -> Any:
    """What a finished task ended in: its result, or the exception as a value."""
    if task.cancelled():
        return OutcomeUnknown("it was cancelled.")
    error = task.exception()
    return task.result() if error is None else error


def _why(outcome: Any) -> object:
    """What a body that came to nothing said: an exception, or a message in a result's place."""
    return outcome if isinstance(outcome, BaseException) else outcome[0].text


def _as_evidence(finding: Finding | None) -> dict[str, Any] | None:
    if finding is None:
        return None
    return {"postcondition": {"summary": finding.summary, "record": dict(finding.record)}}


# --- what the model is told ------------------------------------------------------------------


def as_recorded(request: ToolCallRequest, effect: EffectRecord) -> ToolMessage:
    """The result of a write that is already in the ledger, in the ledger's words."""
    result, evidence = effect.result or {}, effect.evidence or {}
    found = evidence.get("found") if effect.settled is not None else None
    if effect.state == "failed" and found is not None:
        contract = contract_of(request.tool) if request.tool else Contract()
        summary = foreign(found["summary"], effect.tool, contract)
        return answer(request, prompts.message("found_not_happened", summary=summary))
    twice = _twice(evidence)
    if "text" in result and (effect.settled is None or found is not None):
        message = answer(request, twice + result["text"], error=effect.state != "committed")
        if effect.state == "committed":
            message.additional_kwargs[RAN] = {"skip": len(twice) + result.get("skip", 0)}
        return message  # else the text is from before it was settled
    said = prompts.message("settled_happened", comment=evidence.get("comment") or "none")
    return answer(request, twice + said, error=False)


def _twice(evidence: dict[str, Any]) -> str:
    """What is said before the result of a write that happened more than once."""
    attempts = ", ".join(map(str, evidence.get("twice", ())))
    return f"{prompts.message('twice', attempts=attempts)}\n" if attempts else ""


def superseded(
    request: ToolCallRequest, recording: Recording, call: OpenCall, bound: Bound | None = None
) -> ToolMessage:
    """What became of a call that the session moves on from."""
    effect = _effect_of(recording, call)
    if effect is None or (effect.settled and effect.state == "failed"):
        return answer(request, prompts.message("superseded"))
    if effect.state in ("committed", "failed"):
        return as_recorded(request, effect)
    if effect.state == "intended":
        recording.store.ledger.leave(effect.id, epoch=recording.lease(0).epoch)
    return _in_doubt(request, bound.contract if bound else Contract(), effect.args)


def _in_doubt(request: ToolCallRequest, contract: Contract, args: dict[str, Any]) -> ToolMessage:
    """The session moves on from a write whose outcome is still unknown; the question stays."""
    check, error = check_text(contract, args), "it was interrupted."
    return answer(request, prompts.message("unknown_outcome", error=error, check=check))
