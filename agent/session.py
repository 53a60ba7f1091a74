"""``AgentSession``: the only driver of the graph. Run, resume, decide, cancel, fork.

The store is the authority: a decision is recorded first, then the graph is resumed with it. When
a resumed graph raises an interrupt that the store has already decided, it is answered from the
store, so nobody is asked twice; an interrupt answered elsewhere decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from contextvars import Context
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import langsmith
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.errors import GraphDrained
from langgraph.types import StateSnapshot
from langsmith.utils import tracing_is_enabled

from agent import inbox
from agent.approvals import ask_about_doubt, record_interrupts, scope_of
from agent.authority import authority_of, change_authority
from agent.branching import record_before
from agent.checks.limits import turn_number
from agent.elicitation import ENDED
from agent.errors import (
    AlreadyDecided,
    CannotUndo,
    InvalidDecision,
    LeaseLost,
    LimitReached,
    NotFound,
    SaysoError,
    StoreError,
    ToolMissing,
    UsageError,
)
from agent.events import ApprovalAsked, Done, Event, KnownSince, ReceiptReady
from agent.middleware.context import RECEIPT
from agent.middleware.results import cut
from agent.middleware.state import AgentContext
from agent.provenance import ATTACHED, ORDERED, labels_of_results
from agent.receipt import STARTED, build_receipt, describe_call, news
from agent.settling import compensation, look_up_effect
from agent.snapshots import (
    answer_in,
    comes_first,
    has_ended,
    last_words,
    open_calls,
    open_tools,
    resume_with,
    taken_up,
    waiting_calls,
)
from agent.streaming import GraphPass, Stopped, TurnReader
from agent.types import Actor, Attachment, Authority, Decision, Receipt, SessionState

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from langgraph.graph.state import CompiledStateGraph

    from agent.leases import LeaseKeeper
    from agent.store import Store
    from agent.store.records import ApprovalRecord, EffectRecord, RuleRecord, SessionRecord
    from tools.contract import Scope

log = logging.getLogger("sayso")

"""The trail entry of a user's message."""

NOTHING_LEFT = object()
"""In place of input for the graph, which is at rest: the turn has only to be ended."""

EXIT_CODES: dict[SessionState, int] = {
    "waiting": 3,
    "stopped": 4,
    "failed": 1,
    "interrupted": 130,
    "cancelled": 5,
    "done": 0,
    "running": 1,
}
"""What a headless run ends with in each state; a turn with a refused write ends with 5."""


class CallsWait(UsageError):
    """A new message was sent while calls wait for a decision."""

    def __init__(self, approvals: Sequence[ApprovalRecord]) -> None:
        self.approvals = tuple(approvals)
        super().__init__(
            f"{len(self.approvals)} call(s) wait for a decision "
            f"({', '.join(approval.id for approval in self.approvals[:5])}). Decide them first, or "
            "move on; then none of them runs. See them: sayso approvals --session "
            f"{self.approvals[0].session}"
        )


@dataclass
class _Turn:
    """What one drive has seen so far, and how it ended; ``before`` is the row as it began."""

    before: SessionRecord
    reader: TurnReader
    state: SessionState = "failed"
    asked: list[ApprovalRecord] = field(default_factory=list)
    answer: str = ""
    error: str | None = None


class AgentSession:
    """One conversation, held by this process for as long as the object is open.

    Made by ``agent.application.Application``, which also gives the lease back.
    """

    def __init__(
        self,
        *,
        id: str,
        store: Store,
        graph: CompiledStateGraph[Any, AgentContext, Any, Any],
        tools: Sequence[BaseTool],
        context: AgentContext,
        lease: LeaseKeeper,
        actor: Actor,
    ) -> None:
        self.id = id
        self._store, self._graph, self._lease = store, graph, lease
        self._tools: Mapping[str, BaseTool] = {tool.name: tool for tool in tools}
        self._context, self._actor = context, actor
        self._config: Any = {"configurable": {"thread_id": id}}
        self._driving = self._stopped = self._leaving = False
        self._pass: GraphPass | None = None
        self._labels: set[str] | None = None
        self._seen: StateSnapshot | None = None
        lease.when_lost(self._stop_now)
        langsmith.set_runtime_overrides(aio_to_thread=_without_thread)

    # --- what it is ------------------------------------------------------------------------

    @property
    def record(self) -> SessionRecord:
        """The session's row, as it is now."""
        return self._store.sessions.get(self.id)

    @property
    def tools(self) -> tuple[BaseTool, ...]:
        """The tools that it may propose calls of."""
        return tuple(self._tools.values())

    def pending(self) -> list[ApprovalRecord]:
        """What waits for a person, oldest first; decisions made elsewhere are seen here."""
        self._store.approvals.expire_due()
        waiting = self._store.approvals.list(status="pending", session=self.id, limit=None)
        return sorted(waiting, key=lambda approval: approval.asked_at)

    async def history(self) -> list[BaseMessage]:
        """The messages so far."""
        return list((await self._snapshot()).values.get("messages", []))

    def receipt(self) -> Receipt:
        """What happened to the writes of the last turn."""
        return build_receipt(self._store, self.id, self.record.turn)

    def _expire_questions(self) -> None:
        """A server's question of before: the call that raised it ended with its process."""
        for row in self.pending():
            if row.kind == "elicitation":
                with suppress(AlreadyDecided):
                    self._store.approvals.expire(row.id, ENDED)

    # --- a turn ----------------------------------------------------------------------------

    async def undo(self, effect_id: str | None = None) -> AsyncGenerator[Event, None]:
        """Propose the call that compensates a write, as a turn of its own; a person is asked.

        Args:
            effect_id: ``None``: the last write of this session that happened and stands.

        Raises:
            NotFound: It is no write of this session.
            UsageError: None was named, and none stands.
            CannotUndo: It did not happen, was undone already, has to be undone by hand, or a tool
                for it is not loaded here.
        """
        self._record_kept()
        effect = self._last_standing() if effect_id is None else self._own_effect(effect_id)
        order = await self._order_to_undo(effect)
        text = f"Undo {effect.id}, {describe_call(effect.tool, effect.args)}."
        async with aclosing(self.run(text, ordered=order)) as events:
            async for event in events:
                yield event

    async def _order_to_undo(self, effect: EffectRecord) -> dict[str, Any]:
        call = await compensation(self._store, effect, self._tools)
        return {"tool": call.tool, "args": dict(call.args), "undoes": effect.id}

    def _last_told(self) -> int | None:
        """Where in the trail the last word on a turn of this session was said."""
        entries = self._store.trail.latest(1, self.id, "session.state")
        return entries[0].seq if entries else None

    def _last_standing(self) -> EffectRecord:
        """The last write that happened and was not undone; one that undoes another is none, and
        one that undoes such a one is."""
        ledger = self._store.ledger
        undoing: set[str] = set()
        effects = ledger.list(session=self.id, state="committed", limit=None)
        for effect in reversed(effects):
            if effect.undoes is not None and effect.undoes not in undoing:
                undoing.add(effect.id)
        for effect in reversed(ledger.open_writes(self.id)):
            if effect.undoes is None:
                call = describe_call(effect.tool, effect.args)
                why = f"{call} may have happened, and that comes first. Settle it: sayso reconcile"
                raise CannotUndo(effect.id, f"{why} {effect.id}.")
        for effect in effects:
            if effect.id in undoing:
                continue
            if (by := ledger.undone_by(effect.id)) is None:
                return effect
            if by.state != "committed":
                why = f"it may be undone by {by.id}, whose outcome is unknown."
                raise CannotUndo(effect.id, why)
        raise UsageError(
            "There is nothing to undo: no write of this session stands. Nothing was changed."
        )

    async def run(
        self,
        text: str,
        *,
        supersede: bool = False,
        attached: Sequence[Attachment] = (),
        ordered: Mapping[str, Any] | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Take a user's message through to an answer, a pause or a stop; the last event is Done.

        Args:
            attached: Texts of others that the model is shown with it, cut and marked as such.
            ordered: A call that the user orders with it; see ``undo``.
            supersede: Move on although calls wait: none of them runs, and the model is told.

        Raises:
            CallsWait: When calls wait and ``supersede`` is false. Nothing was changed.
            LeaseLost: Another process has taken the session over; nothing more was recorded.
        """
        self._check_free()
        snapshot = await self._snapshot()
        waiting = [approval for approval in self.pending() if approval.kind == "write"]
        if waiting and not supersede:
            raise CallsWait(waiting)
        told = self._last_told()
        if open_calls(snapshot):
            await self._leave_open_calls("the user sent a new message")
            snapshot = await self._snapshot()
        known_since = news(self._store, self.id, self.record.turn, told)
        said: dict[str, Any] = {"text": text}
        if attached and self._context.reader is not None:
            raise UsageError(
                "This session is isolated: what is attached would be read by the model that plans. "
                "Nothing was sent. A session without --isolate takes it."
            )
        if attached:
            limit = self._context.result_limit
            said["attached"] = [{"source": a.source, "text": cut(a.text, limit)} for a in attached]
        if ordered is not None:
            said["ordered"] = dict(ordered)
        before = self.record
        turn = turn_number(snapshot.values.get("messages", [])) + 1
        self._update(
            entry=(STARTED, {"turn": turn, **said}),
            state="running",
            turn=turn,
            error=None,
            title=before.title or _title(text),
        )
        begun = self._begin(before.model_copy(update={"turn": turn}), snapshot)
        if known_since:
            yield KnownSince(known_since)
        async with aclosing(self._drive(self._said(said, before.turn), begun)) as events:
            async for event in events:
                yield event

    def _said(self, said: Mapping[str, Any], last_turn: int) -> dict[str, Any]:
        """A user's message as input of the graph, with the receipt of the turn before it.

        Args:
            said: What the trail has of it: ``text``, and perhaps ``attached``.
        """
        receipt = record_before(self._store, self.id, last_turn)
        beside = {
            RECEIPT: receipt,
            ATTACHED: said.get("attached"),
            ORDERED: said.get("ordered"),
        }
        kept = {key: value for key, value in beside.items() if value}
        message = HumanMessage(said["text"], additional_kwargs=kept)
        if self._labels is not None:
            self._labels |= labels_of_results([message], self._tools)
        return {"messages": [message]}

    async def resume(self) -> AsyncGenerator[Event, None]:
        """Carry on from wherever the session stands: recorded decisions, a crash, an outage.

        Where the last turn has ended there is nothing to do, and its Done comes again. Where the
        process ended between the last step and that word, the turn is ended now; where it ended
        before the first step, the message is taken up from the trail.

        Raises:
            ToolMissing: An open call needs a tool that is not loaded here; nothing was changed.
            CannotUndo: The turn was to undo a write, which cannot be done any more; nothing was
                changed. A new message begins the next turn.
            LeaseLost: Another process has taken the session over; nothing more was recorded.
        """
        self._check_free()
        snapshot, record = await self._snapshot(), self.record
        self._check_tools(snapshot)
        turn = self._begin(record, snapshot)
        if not snapshot.tasks and has_ended(record, snapshot):
            turn.answer = last_words(snapshot) if record.state == "done" else ""
            yield self._done(record.state, turn, self.receipt())
            return
        if snapshot.tasks and not comes_first(record, snapshot):
            graph_input: Any = resume_with(await self._recorded(record.turn, snapshot))
        elif taken_up(record, snapshot):
            graph_input = NOTHING_LEFT
        else:
            graph_input = self._said(await self._started_with(record.turn), record.turn - 1)
        self._update(state="running", error=None)
        async with aclosing(self._drive(graph_input, turn)) as events:
            async for event in events:
                yield event

    async def _started_with(self, turn: int) -> dict[str, Any]:
        """The message that a turn began with, from the trail.

        What was ordered with it is asked for anew: the trail's arguments may be masked.
        """
        entries = self._store.trail.entries(self.id, kind=STARTED)
        said = next(e.data for e in reversed(entries) if e.data["turn"] == turn)
        if (order := said.get("ordered")) is None:
            return said
        return said | {"ordered": await self._order_to_undo(self._own_effect(order["undoes"]))}

    def _begin(self, before: SessionRecord, snapshot: StateSnapshot) -> _Turn:
        self._record_kept()
        self._expire_questions()
        if self._context.recording is not None:
            self._context.recording.unrecorded.clear()
        if self._labels is None:  # a crash may have kept them off the row
            self._labels = labels_of_results(snapshot.values.get("messages", []), self._tools)
        reader = TurnReader(self._tools, self._labels)
        reader.in_tools = open_calls(snapshot)
        return _Turn(before, reader)

    async def _drive(self, graph_input: Any, turn: _Turn) -> AsyncGenerator[Event, None]:
        """Run the graph until it rests, waits or stops, and say how it ended."""
        self._driving, self._stopped = True, False
        self._set_stopping(False)
        try:
            async with aclosing(self._until_rest(graph_input, turn)) as events:
                async for event in events:
                    yield event
        except (GeneratorExit, asyncio.CancelledError):
            with suppress(LeaseLost):  # how it stands is then for its new owner to say
                self._end("interrupted", turn, Receipt())
            raise
        except LeaseLost:
            raise
        except (GraphDrained, Stopped):
            turn.state = "interrupted"
        except LimitReached as error:
            turn.state, turn.error = "stopped", str(error)
        except SaysoError as error:
            unrecorded = self._unrecorded()
            said = str(error).removesuffix(" Nothing was changed.") if unrecorded else str(error)
            turn.state, turn.error = "failed", " ".join([said, *unrecorded])
        except Exception as error:
            log.exception("a turn of %s failed", self.id)
            turn.state, turn.error = "failed", _unexpected(error)
        finally:
            self._driving = False
        _ = self._lease.current  # whoever lost it has nothing to say about the session any more
        try:
            async with aclosing(self._say_how_it_ended(turn)) as events:
                async for event in events:
                    yield event
        except StoreError as error:
            if turn.error is None:
                raise
            raise StoreError(turn.error) from error  # what failed first says more

    async def _say_how_it_ended(self, turn: _Turn) -> AsyncGenerator[Event, None]:
        for approval in [*turn.asked, *await self._ask_about_doubts()]:
            yield ApprovalAsked(approval)
        receipt = self.receipt() if turn.state != "waiting" else Receipt()
        if receipt:
            yield ReceiptReady(receipt)
        yield self._end(turn.state, turn, receipt)

    def _record_kept(self) -> None:
        """Record first what a write came to while the database could not be had.

        Raises:
            StoreError: It still cannot be; nothing was lost.
        """
        if self._context.recording is not None:
            recording = self._context.recording
            recording.under_way.record_kept(recording.line)

    def _unrecorded(self) -> list[str]:
        """What is known of writes that could not be recorded, and what to do."""
        known = self._context.recording.unrecorded if self._context.recording else []
        later = f"When the database is there again, carry it on: sayso resume {self.id}"
        return [*known, later] if known else []

    async def _until_rest(self, graph_input: Any, turn: _Turn) -> AsyncGenerator[Event, None]:
        """Pass after pass: each answer that the store already holds is handed to the graph."""
        answered: set[str] = set()
        while True:
            if graph_input is not NOTHING_LEFT:
                async with aclosing(self._stream(graph_input, turn)) as events:
                    async for event in events:
                        yield event
            snapshot = await self._snapshot()
            if not snapshot.tasks:
                turn.answer = answer_in(snapshot)
                turn.state = "done"
                return
            rows = await self._recorded(turn.before.turn, snapshot)
            graph_input = resume_with(rows)
            turn.asked = [row for row in rows if row.status == "pending"]
            if graph_input is None and turn.asked:
                turn.state = "waiting"
                return
            if graph_input is None and self._is_stopping():
                raise Stopped
            given = {row.id for row in rows if row.status != "pending"}
            if answered & given or (graph_input is None and not rows):
                raise SaysoError(f"The session does not move on from {snapshot.next}.")
            answered |= given

    def _end(self, state: SessionState, turn: _Turn, receipt: Receipt) -> Done:
        if self._context.recording is not None:
            self._context.recording.note()
        before = turn.before
        tokens = {
            key: before.tokens.get(key, 0) + turn.reader.tokens.get(key, 0)
            for key in before.tokens.keys() | turn.reader.tokens.keys()
        }
        labels = sorted({*before.labels, *turn.reader.labels})
        learnt = {"labels": labels} if labels != before.labels else {}
        self._update(state=state, error=turn.error, tokens=tokens, **learnt)
        return self._done(state, turn, receipt)

    def _done(self, state: SessionState, turn: _Turn, receipt: Receipt | None = None) -> Done:
        refused = receipt is not None and receipt.refused
        code = 5 if state == "done" and refused else EXIT_CODES[state]
        return Done(self.id, state, turn.answer, code, turn.error)

    # --- the graph -------------------------------------------------------------------------

    async def _stream(self, graph_input: Any, turn: _Turn) -> AsyncGenerator[Event, None]:
        """One pass of the graph as events; where it came to its end, its state is known."""
        if self._is_stopping():  # asked for between two passes
            raise Stopped
        self._seen = None
        running = GraphPass(self._graph, self._config, self._context, turn.reader)
        self._pass = running
        try:
            async with aclosing(running.run(graph_input)) as events:
                async for event in events:
                    yield event
        finally:
            self._pass = None
        self._seen = running.snapshot

    def _is_stopping(self) -> bool:
        recording = self._context.recording
        return self._stopped or (recording is not None and recording.stopping)

    async def _snapshot(self) -> StateSnapshot:
        """The graph's state, as the last pass left it: nobody else drives this session.

        It is read back when there was none, or when the last one did not come to its end.
        """
        if self._seen is None:
            self._seen = await self._graph.aget_state(self._config)
        return self._seen

    def _check_free(self) -> None:
        if self._driving:
            raise UsageError(
                f"A turn of {self.id} is under way here; wait for its end. Nothing was changed."
            )

    def _check_tools(self, snapshot: StateSnapshot) -> None:
        """Raise before anything runs when an open call needs a tool that is not loaded here."""
        for name in open_tools(snapshot):
            if name not in self._tools:
                raise ToolMissing(name)

    def _update(self, **fields: Any) -> None:
        self._store.sessions.update(self.id, epoch=self._lease.current.epoch, **fields)

    # --- approvals -------------------------------------------------------------------------

    async def _recorded(self, turn: int, snapshot: StateSnapshot) -> list[ApprovalRecord]:
        """The approvals of what waits in the graph; new questions are asked."""
        epoch = self._lease.current.epoch
        return await record_interrupts(
            self._store, self.id, turn, snapshot, self._tools, epoch=epoch, context=self._context
        )

    async def _ask_about_doubts(self) -> list[ApprovalRecord]:
        """A write that ended in doubt while the run went on is put to a person all the same."""
        asked = []
        for effect in self._store.ledger.open_doubts(self.id):
            known = self._store.approvals.for_call(
                self.id, effect.message, effect.call, kind="in_doubt"
            )
            if known is None or known.attempt < effect.attempts or known.status != "pending":
                asked.append(
                    await ask_about_doubt(
                        self._store,
                        effect,
                        self._tools,
                        self._context,
                        epoch=self._lease.current.epoch,
                    )
                )
        return asked

    async def look_up(self, effect_id: str) -> EffectRecord:
        """Ask the service's own record about a write in doubt, and keep what it says.

        Returns:
            The effect as it stands then; still ``in_doubt`` when the record cannot tell.

        Raises:
            NotFound: It is no write of this session.
            ToolMissing: Its tool is not loaded here; nothing was changed.
        """
        self._record_kept()
        effect = self._own_effect(effect_id)
        tool = self._tools.get(effect.tool)
        if tool is None:
            raise ToolMissing(effect.tool)
        if effect.state != "in_doubt":
            return effect
        running, limit = self.still_runs(effect), self._context.result_limit
        return await look_up_effect(self._store, effect, tool, limit, running=running)

    def is_under_way(self, approval: ApprovalRecord) -> bool:
        """Whether the write that this asks about still runs in this process."""
        if approval.kind != "in_doubt":
            return False
        effect = self._store.ledger.for_call(self.id, approval.message, approval.call)
        return effect is not None and self.still_runs(effect)

    def still_runs(self, effect: EffectRecord) -> bool:
        """Whether the body of a write runs in this process, maybe long after its time."""
        recording = self._context.recording
        return recording is not None and recording.under_way.has(effect.id)

    def decide(self, approval_id: str, decision: Decision) -> ApprovalRecord:
        """Validate and record one answer; see ``agent.inbox.decide`` for what it raises."""
        return self.decide_many([(approval_id, decision)])[0]

    def decide_many(self, answers: Sequence[tuple[str, Decision]]) -> list[ApprovalRecord]:
        """Validate and record answers, all or none; they are about this session's approvals.

        Raises:
            InvalidDecision: One says of a write that still runs here that it did not happen; or
                see ``agent.inbox.decide``, also for what else it raises.
        """
        self._record_kept()
        for approval_id, decision in answers:
            approval = self._own(approval_id)
            says_no = isinstance(decision, Decision) and decision.message == inbox.NOT_HAPPENED
            if says_no and self.is_under_way(approval):
                raise InvalidDecision(
                    f"{approval_id} asks about a write that is still under way here, so nobody can "
                    "say yet that it did not happen. Nothing was recorded. Wait for its end, which "
                    "answers this by itself, or end the program."
                )
        return inbox.decide(self._store, answers, self._actor, self._tools.get)

    async def as_edited(self, approval_id: str, args: dict[str, Any]) -> ApprovalRecord:
        """An approval as an edit would have it; see ``agent.inbox.as_edited``."""
        return await inbox.as_edited(self._own(approval_id), args, self._tools.get)

    def always_scope(self, approval_id: str) -> Scope | None:
        """What "always for this session" would cover; ``None`` when it is not offered."""
        return scope_of(self._own(approval_id), self._tools)

    def allow_always(self, approval_id: str) -> RuleRecord:
        """Approve this call, and add the rule that allows what its shown scope covers."""
        scope = self.always_scope(approval_id)
        if scope is None:
            raise InvalidDecision(f'"always" is not offered for {approval_id}.')
        approval = self.decide(approval_id, Decision("approve"))
        return self._store.rules.add(
            self.id,
            approval.tool,
            scope.text,
            {k: dict(v) for k, v in scope.args.items()},
            self._actor,
            approval.tool_version,
        )

    def _own(self, approval_id: str) -> ApprovalRecord:
        """An approval of this session: another one's would be checked against other tools."""
        approval = self._store.approvals.get(approval_id, whole=True)
        if approval.session != self.id:
            mine = [row.id for row in self.pending()]
            hint = f"It belongs to {approval.session}; decide it there. Nothing was changed."
            raise NotFound("approval", approval_id, mine, hint)
        return approval

    def _own_effect(self, effect_id: str) -> EffectRecord:
        effect = self._store.ledger.get(effect_id)
        if effect.session != self.id:
            hint = f"It belongs to {effect.session}; go on there. Nothing was changed."
            raise NotFound("effect", effect_id, hint=hint)
        return effect

    async def expired(self) -> list[ApprovalRecord]:
        """What nobody decided in time, as long as its call still waits."""
        self._store.approvals.expire_due()
        rows = [
            self._store.approvals.for_call(self.id, message, call)
            for message, call in waiting_calls(await self._snapshot())
        ]
        return [row for row in rows if row is not None and row.status == "expired"]

    async def ask_again(self) -> list[ApprovalRecord]:
        """Put what expired undecided to a person once more.

        What a call would change is compared with what was shown when it runs.
        """
        epoch, hours = self._lease.current.epoch, self._context.approval_hours
        return [
            self._store.approvals.ask_again(
                row.id, epoch=epoch, reason=row.reason, preview=row.preview, hours=hours
            )
            for row in await self.expired()
        ]

    @property
    def authority(self) -> Authority:
        """What this session may do now."""
        return authority_of(self._store, self.id)

    def change_authority(
        self, *, grant: Sequence[str] = (), deny: Sequence[str] = (), take_back: Sequence[str] = ()
    ) -> Authority:
        """Widen or narrow it, as a person says; see ``agent.authority.change_authority``."""
        return change_authority(
            self._store, self.id, self._actor, grant=grant, deny=deny, take_back=take_back
        )

    def rules(self) -> list[RuleRecord]:
        """The "always" rules in force."""
        return self._store.rules.active(self.id)

    def revoke(self, rule_id: str) -> RuleRecord:
        """End a rule; calls that it allowed and that have not run yet do not run."""
        return self._store.rules.revoke(rule_id, self._actor)

    # --- stopping and moving on ------------------------------------------------------------

    def request_stop(self) -> str:
        """Stop the running turn: at the next safe point; asked again, at once.

        While the model speaks nothing is under way, so that stops at once too. A write under
        way gets a few seconds, so that its outcome is recorded.
        """
        if self._leaving:
            return "What was approved before is carried out first; then nothing else of it runs."
        if not self._driving:
            return "Nothing is running."
        self._expire_questions()  # else the call would wait for an answer before it ends
        self._set_stopping(True)
        if self._pass is None or not self._pass.request_drain():
            self._stop_now()
            return "Stopping now."
        return "Stopping as soon as the running calls have ended. Ctrl-C again stops at once."

    def _set_stopping(self, stopping: bool) -> None:
        """What has not begun by then does not begin any more."""
        if self._context.recording is not None:
            self._context.recording.stopping = stopping

    def _stop_now(self) -> None:
        self._stopped = True
        if self._pass is not None:
            self._pass.stop()

    async def cancel(self) -> None:
        """End the session: nothing that waits runs, the history stays valid."""
        if open_calls(await self._snapshot()):
            await self._leave_open_calls("the session was cancelled", cancelling=True)
        if (await self._snapshot()).tasks:
            await self.seed([])
        await self._ask_about_doubts()
        self._update(state="cancelled")

    async def _leave_open_calls(self, reason: str, *, cancelling: bool = False) -> None:
        """Answer every open call without running it: with what the ledger knows, or "not run"."""
        self._lease.ensure(0)
        self._record_kept()
        self._store.approvals.supersede(self.id, self._actor, reason)
        self._seen = None
        context = replace(self._context, superseding=True, cancelling=cancelling)
        self._leaving = True
        try:
            await self._graph.ainvoke(
                None, self._config, context=context, durability="sync", interrupt_before=["model"]
            )
        except StoreError as error:
            raise StoreError(" ".join([str(error), *self._unrecorded()])) from error
        finally:
            self._leaving = False

    async def seed(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages and come to rest after them, with no model call to follow.

        A fork begins so, with the messages of its source.
        """
        self._seen = None
        await self._graph.aupdate_state(
            self._config, {"messages": list(messages), "jump_to": "end"}, as_node="model"
        )


async def _without_thread(
    default: Callable[..., Awaitable[Any]],
    context: Context,
    function: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """LangSmith's bookkeeping before and after each middleware's turn.

    It goes through a thread, eight times a step, also where nothing is traced and there is
    nothing to keep; then it is done on the spot.
    """
    if tracing_is_enabled():
        return await default(context, function, *args, **kwargs)
    return context.run(function, *args, **kwargs)


def _unexpected(error: Exception) -> str:
    return (
        f"Something unexpected failed: {type(error).__name__}: {error}. What was recorded is "
        'kept. Say "continue" to go on; the details are in the log of the state folder.'
    )


def _title(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
