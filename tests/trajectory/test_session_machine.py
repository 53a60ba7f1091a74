"""Any order of anything that can happen to a session: Hypothesis looks for one that breaks it.

A state machine drives real sessions (graph, checkpointer, store) whose model does as it is told
and whose one tool changes a world that remembers every entry into the tool's body. After every
step the world, the ledger, the approvals, the trail, the receipts and the history are held
against each other.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_openai_messages,
)
from langgraph.types import Command
from pydantic import BaseModel, ConfigDict, Field

from agent import checkpoints
from agent.application import Application
from agent.canonical import call_digest
from agent.errors import (
    AlreadyDecided,
    ApprovalExpired,
    CannotUndo,
    InvalidDecision,
    UsageError,
)
from agent.events import Event
from agent.inbox import HAPPENED, NOT_HAPPENED
from agent.middleware import writes
from agent.models.scripted import ScriptedCall, ScriptedChatModel, ScriptedStep
from agent.policy import covers
from agent.receipt import build_receipt
from agent.session import AgentSession, CallsWait
from agent.store import Store
from agent.store.records import ApprovalRecord, TrailEntry
from agent.types import Decision
from tests.support.openai_server import history_error
from tests.support.sessions import application
from tests.unit.store.databases import postgres, sqlite_template
from tools.contract import (
    Call,
    CallInfo,
    Contract,
    Finding,
    OutcomeUnknown,
    Preview,
    Scope,
    ToolFailure,
    Undo,
    current_call,
    make_tool,
)

__all__ = ["postgres", "sqlite_template"]

# --- the world and its tool ------------------------------------------------------------------

OUTCOMES = ("done", "refused", "lost after", "lost before", "breaks", "dies", "dies late")
"""How an entry into the tool's body ends; the last two take the process with them."""

SETTLED_BY = ("a person", "its record", "its key")
"""What the contract of the tool knows to do about an outcome that is unknown."""


class Died(BaseException):
    """The process is gone at this instant; nothing of ours may catch it."""


@dataclass
class World:
    """Every entry into the body, as (idempotency key, attempt), and whether it took effect.

    What is settled by its key takes effect once a key.
    """

    settled_by: str = "a person"
    version: int = 0
    """What previews show; it grows when somebody else changes something."""
    entries: list[tuple[str, int]] = field(default_factory=list)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)
    happened: dict[tuple[str, int], bool] = field(default_factory=dict)
    outcomes: Sequence[str] = ()
    """How entries end, by number: the order of calls that run at the same time is not fixed."""
    dying: str = ""
    """How the process is about to die, once the outcome is to be recorded."""

    def enter(self, n: int) -> str:
        outcome = self.outcomes[n % len(self.outcomes)] if self.outcomes else "done"
        info = current_call.get()
        entry = (info.idempotency_key or "", info.attempt)
        self.entries.append(entry)
        self.numbers[entry] = n
        again = self.settled_by == "its key" and self.has_happened(entry[0])
        self.happened[entry] = outcome not in ("refused", "lost before") and not again
        self.dying = outcome if outcome.startswith("dies") else ""
        match outcome:
            case "refused":
                raise ToolFailure("not today.")
            case "lost after" | "lost before":
                raise OutcomeUnknown("the connection broke.")
            case "breaks":
                raise RuntimeError("surprise")
        return f"changed {n}"

    def has_happened(self, key: str) -> bool:
        """Whether any attempt under this key took effect."""
        return any(happened for (known, _), happened in self.happened.items() if known == key)

    def find(self, args: Any, info: CallInfo) -> Finding:
        """What the record says of a call."""
        return Finding(self.has_happened(info.idempotency_key or ""), "The record was read.")


class Number(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n: int


def tools(world: World) -> list[Any]:
    async def act(n: int) -> str:
        """Change a number."""
        return world.enter(n)

    async def look(n: int) -> str:
        """Look at a number."""
        return f"n is {n}"

    changes = Contract(
        effects=frozenset({"write:n"}),
        open_world=False,
        idempotency="key" if world.settled_by == "its key" else "none",
        reconcile=world.find if world.settled_by == "its record" else None,
        preview=lambda args: Preview(f"n, at version {world.version}"),
        undo=Undo("does it the other way", lambda write: Call("act", {"n": 100 + write.args["n"]})),
        always=lambda args: Scope(f"n = {args['n']}", {"n": {"equals": args["n"]}}),
    )
    reads = Contract(effects=frozenset({"read:n"}), open_world=False)
    return [
        make_tool(act, args=Number, contract=changes),
        make_tool(look, args=Number, contract=reads),
    ]


class Obedient(ScriptedChatModel):
    """Does what the user's message says, "1, 2; 0": calls of one step by commas, steps by ;.

    A positive number is written, zero is looked at. Every step uses the same call ids, as some
    providers do. A history that a provider would refuse is kept in ``refused``.
    """

    refused: list[str] = Field(default_factory=list)

    def reply(self, messages: Sequence[BaseMessage], tools: Any = ()) -> AIMessage:
        if problem := provider_error(messages):
            self.refused.append(problem)
        start = max(i for i, m in enumerate(messages) if isinstance(m, HumanMessage))
        plan = messages[start].text.rsplit("\n\n", 1)[-1].split(";")
        step = sum(isinstance(m, AIMessage) for m in messages[start:])
        numbers = re.findall(r"\d+", plan[step]) if step < len(plan) else []
        calls = tuple(
            ScriptedCall("act" if int(n) else "look", {"n": int(n)}, f"call_{index}")
            for index, n in enumerate(numbers)
        )
        return self._message(ScriptedStep("" if calls else "Done.", calls), step)


def provider_error(messages: Sequence[BaseMessage]) -> str | None:
    """Why OpenAI would refuse this history, if it would."""
    return history_error({"messages": convert_to_openai_messages(list(messages))})


# --- the machine -----------------------------------------------------------------------------

plans = st.lists(
    st.lists(st.sampled_from([1, 2, 3, 0]), min_size=1, max_size=3).map(
        lambda numbers: ", ".join(map(str, numbers))
    ),
    min_size=1,
    max_size=2,
).map("; ".join)
outcomes = st.lists(st.sampled_from(["done", *OUTCOMES]), max_size=3)
answers = st.lists(
    st.sampled_from(["approve", "always", "edit", "reject", "respond", "leave"]),
    min_size=1,
    max_size=3,
)
picks = st.integers(0, 7)
NONSENSE: tuple[Any, ...] = (
    None,
    Decision("aprove"),  # type: ignore[arg-type]
    Decision("edit", args={"n": "x"}),
    Decision("respond"),
)


# --- where it is kept ------------------------------------------------------------------------


class Ground(Protocol):
    """The database of one example. What a kill would leave in it is what counts."""

    url: str

    def cut(self) -> None:
        """The process is dead: keep what is committed at this instant, and nothing after it."""

    def mend(self) -> None:
        """Another process may open it."""

    def remove(self) -> None:
        """The example is over."""


class OnSqlite:
    """A file, made from one with the current schema; at death it is copied."""

    def __init__(self, template: Path, home: Path) -> None:
        shutil.copy(template, home / "sayso.db")
        self._home, self.url = home, f"sqlite:///{home}/sayso.db"

    def cut(self) -> None:
        """What the process does until it has unwound is forgotten with the original."""
        with (
            closing(sqlite3.connect(self._home / "sayso.db")) as here,
            closing(sqlite3.connect(self._home / "left.db")) as there,
        ):
            here.backup(there)

    def mend(self) -> None:
        for name in ("sayso.db", "sayso.db-wal", "sayso.db-shm"):
            (self._home / name).unlink(missing_ok=True)
        (self._home / "left.db").rename(self._home / "sayso.db")

    def remove(self) -> None:
        """It goes with its folder."""


class OnPostgres:
    """A database of its own, made from one with the current schema; at death nobody gets in."""

    def __init__(self, server: str, template: str) -> None:
        self._server, self._name = server, f"m{uuid4().hex}"
        self.url = on_server(server, self._name)
        self._run(f"CREATE DATABASE {self._name} TEMPLATE {template}")

    def cut(self) -> None:
        """The server ends the process's connections, and with them what was not committed."""
        self._run(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS false")
        self._run(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self._name}'"
        )

    def mend(self) -> None:
        self._run(f"ALTER DATABASE {self._name} ALLOW_CONNECTIONS true")

    def remove(self) -> None:
        self._run(f"DROP DATABASE {self._name} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._server, autocommit=True) as conn:
            conn.execute(statement)


def on_server(server: str, database: str) -> str:
    """The URL of another database of a server."""
    return urlsplit(server)._replace(path=f"/{database}").geturl()


class SessionMachine(RuleBasedStateMachine):
    """Sessions, their reviewer and their process, in any order."""

    settled_by = "a person"
    make_ground: Callable[[Path], Ground]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory(prefix="sayso-machine-")
        self.home = Path(self.folder.name) / "home"
        self.home.mkdir(mode=0o700)
        self.ground = self.make_ground(self.home)
        self.world, self.model = World(self.settled_by), Obedient()
        self.stack = AsyncExitStack()
        self.ids: list[str] = []

    app: Application
    session: AgentSession
    dead: bool

    def teardown(self) -> None:
        self._await(self.stack.aclose())
        self.runner.close()
        self.ground.remove()
        self.folder.cleanup()

    def _await(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    @initialize(plan=plans, outcomes=outcomes)
    def start(self, plan: str, outcomes: list[str]) -> None:
        self._await(self._open(None))
        self._drive(lambda: self.session.run(plan), outcomes)

    async def _open(self, session_id: str | None) -> None:
        """What a new process does: open everything, then one session, or a new one."""
        await self.stack.aclose()
        self.stack = AsyncExitStack()
        self.app = await self.stack.enter_async_context(
            application(
                self.home,
                self.model,
                tools=tools(self.world),
                domains=["research"],
                database_url=self.ground.url,
            )
        )
        self._make_mortal(self.app.store)
        record = self.app.create_session() if session_id is None else None
        opened = self.app.open_session(record.id if record else cast(str, session_id))
        self.session = await self.stack.enter_async_context(opened)
        if record:
            self.ids.append(record.id)

    def _make_mortal(self, store: Store) -> None:
        """Let the process die right before or right after an outcome is recorded.

        What a kill would leave on the disk is copied at that instant; whatever this process
        still does until it has unwound is forgotten.
        """
        begin, finish = store.ledger.begin, store.ledger.finish
        self.dead = False

        def die() -> None:
            if not self.dead:
                self.dead = True
                self.ground.cut()
            raise Died

        def mortal_begin(*args: Any, **kwargs: Any) -> Any:
            return die() if self.dead else begin(*args, **kwargs)

        def mortal_finish(*args: Any, **kwargs: Any) -> Any:
            if self.dead or self.world.dying == "dies":
                die()
            result = finish(*args, **kwargs)
            return die() if self.world.dying else result

        store.ledger.begin = mortal_begin  # type: ignore[method-assign]
        store.ledger.finish = mortal_finish  # type: ignore[method-assign]

    def _drive(self, events: Callable[[], Any], outcomes: Sequence[str] = ()) -> list[Event]:
        """Let the session run; when the process dies of it, another one opens the session."""
        self.world.outcomes = outcomes

        async def collect() -> list[Event]:
            return [event async for event in events()]

        return self._until_death(collect()) or []

    def _until_death(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._await(work)
        except BaseException:  # on its way out it may have met other trouble than its death
            if not self.dead:
                raise
        self.world.dying = ""
        with suppress(Exception):
            self._await(self.stack.aclose())
        self.ground.mend()
        self.stack = AsyncExitStack()
        self._await(self._open(self.session.id))
        return None

    def _pending(self, kind: str) -> list[ApprovalRecord]:
        return [row for row in self.session.pending() if row.kind == kind]

    @property
    def writes_wait(self) -> bool:
        return bool(self._pending("write"))

    # --- what a user does --------------------------------------------------------------------

    @precondition(lambda self: not self.writes_wait)
    @rule(plan=plans, outcomes=outcomes)
    def send(self, plan: str, outcomes: list[str]) -> None:
        self._drive(lambda: self.session.run(plan), outcomes)

    @precondition(lambda self: self.writes_wait)
    @rule(plan=plans, outcomes=outcomes)
    def move_on(self, plan: str, outcomes: list[str]) -> None:
        before = self.session.pending()
        with pytest.raises(CallsWait):
            self._drive(lambda: self.session.run(plan))
        assert self.session.pending() == before
        self._drive(lambda: self.session.run(plan, supersede=True), outcomes)

    @rule(outcomes=outcomes)
    def resume(self, outcomes: list[str]) -> None:
        self._drive(lambda: self.session.resume(), outcomes)

    @precondition(lambda self: not self.writes_wait)
    @rule(pick=picks, outcomes=outcomes)
    def undo(self, pick: int, outcomes: list[str]) -> None:
        done = self.app.store.ledger.list(session=self.session.id, state="committed", limit=None)
        if not done:
            return
        effect = done[pick % len(done)]
        try:
            self._drive(lambda: self.session.undo(effect.id), outcomes)
        except CannotUndo:
            assert self.app.store.ledger.undone_by(effect.id) is not None

    # --- what happens meanwhile ---------------------------------------------------------------

    @rule()
    def somebody_else_changes_something(self) -> None:
        self.world.version += 1

    @precondition(lambda self: self.writes_wait)
    @rule(pick=picks, again=st.booleans())
    def nobody_decides_in_time(self, pick: int, again: bool) -> None:
        waiting = self._pending("write")
        late = waiting[pick % len(waiting)]
        self.app.store.approvals.expire(late.id, "nobody decided in time")
        with pytest.raises(ApprovalExpired):
            self.session.decide(late.id, Decision("approve"))
        if again:
            asked = {row.call: row.status for row in self._await(self.session.ask_again())}
            assert asked[late.call] == "pending"
            assert set(asked.values()) == {"pending"}

    @rule(
        what=st.sampled_from(
            ["restart", "begin", "switch", "fork", "follow", "go back", "cancel", "revoke"]
        ),
        pick=picks,
        outcomes=outcomes,
    )
    def do_something_else(self, what: str, pick: int, outcomes: list[str]) -> None:
        room = len(self.ids) < 4
        rules = self.session.rules()
        match what:
            case "begin" if room:
                self._await(self._open(None))
            case "switch":
                self._await(self._open(self.ids[pick % len(self.ids)]))
            case "fork" | "follow" if room:
                self._fork(None, follow=what == "follow")
            case "go back" if room and (turns := self.session.record.turn):
                self._fork(1 + pick % turns, follow=True)
            case "cancel":
                self.world.outcomes = outcomes
                self._until_death(self.session.cancel())
            case "revoke" if rules:
                self.session.revoke(rules[pick % len(rules)].id)
            case _:
                self._await(self._open(self.session.id))

    def _fork(self, at: int | None, follow: bool) -> None:
        try:
            record = self._await(self.app.fork(self.session.id, at))
        except UsageError:
            assert self._await(self.session.history()) == []
            return
        self.ids.append(record.id)
        assert at is None or record.turn == at
        assert self.app.store.approvals.list(None, session=record.id) == []
        assert self.app.store.rules.active(record.id) == []
        if follow:
            self._await(self._open(record.id))
            assert self._await(self.session.history())

    # --- what a reviewer does ----------------------------------------------------------------

    @precondition(lambda self: self.writes_wait)
    @rule(answers=answers, n=st.integers(4, 9), go_on=st.booleans(), outcomes=outcomes)
    def review(self, answers: list[str], n: int, go_on: bool, outcomes: list[str]) -> None:
        """Answer what waits: the first answer to the first call, in turn, some of them left."""
        for index, approval in enumerate(self._pending("write")):
            answer: Any = answers[index % len(answers)]
            if answer == "leave":
                continue
            if answer == "always" and not approval.remember:  # done before this was forked
                with pytest.raises(InvalidDecision, match="not offered"):
                    self.session.allow_always(approval.id)
                assert self.app.store.approvals.get(approval.id) == approval
                continue
            if answer == "always":
                self.session.allow_always(approval.id)
            else:
                args = {"n": n} if answer == "edit" else None
                message = "so" if answer == "respond" else ""
                self.session.decide(approval.id, Decision(answer, args=args, message=message))
            decided = self.app.store.approvals.get(approval.id)
            with pytest.raises(AlreadyDecided):
                self.session.decide(approval.id, Decision("reject"))
            assert self.app.store.approvals.get(approval.id) == decided
        if go_on:
            self._drive(lambda: self.session.resume(), outcomes)

    @precondition(lambda self: self.writes_wait)
    @rule(outcomes=outcomes)
    def approve_everything(self, outcomes: list[str]) -> None:
        self.session.decide_many([(row.id, Decision("approve")) for row in self._pending("write")])
        self._drive(lambda: self.session.resume(), outcomes)

    @precondition(lambda self: bool(self._pending("in_doubt")))
    @rule(pick=picks, go_on=st.booleans(), outcomes=outcomes)
    def settle(self, pick: int, go_on: bool, outcomes: list[str]) -> None:
        """A person who looked at the world says what is true."""
        waiting = self._pending("in_doubt")
        doubt = waiting[pick % len(waiting)]
        effect = self.app.store.ledger.for_call(doubt.session, doubt.message, doubt.call)
        assert effect is not None
        happened = self.world.has_happened(effect.idempotency_key or "")
        answer = HAPPENED if happened else NOT_HAPPENED
        self.session.decide(doubt.id, Decision("respond", message=answer))
        if go_on:
            self._drive(lambda: self.session.resume(), outcomes)

    @precondition(lambda self: bool(self.session.pending()))
    @rule(
        pick=picks,
        nonsense=st.sampled_from(NONSENSE),
        kind=st.sampled_from(["approve", "edit", "reject"]),
    )
    def misbehave(self, pick: int, nonsense: Any, kind: str) -> None:
        waiting = self.session.pending()
        with pytest.raises(InvalidDecision):
            self.session.decide(waiting[pick % len(waiting)].id, nonsense)
        assert self.session.pending() == waiting
        self._answer_the_graph_itself(pick, kind)

    def _answer_the_graph_itself(self, pick: int, kind: str) -> None:
        """Past the driver, as another front end would: it decides nothing."""
        entered = len(self.world.entries)
        undecided = self._pending("write")
        answer = {
            "approve": {"type": "approve"},
            "edit": {"type": "edit", "edited_action": {"name": "act", "args": {"n": 8}}},
            "reject": {"type": "reject", "message": "forged"},
        }[kind]

        async def forge() -> bool:
            snapshot = await self.session._graph.aget_state(self.session._config)
            waiting = {row.interrupt for row in undecided}
            found = [i.id for t in snapshot.tasks for i in t.interrupts if i.id in waiting]
            if found:
                command: Command[Any] = Command(resume={found[pick % len(found)]: answer})
                await self.session._graph.ainvoke(
                    command,
                    self.session._config,
                    context=self.session._context,
                    durability="sync",
                )
                self.session._seen = None
            return bool(found)

        self.world.outcomes = ()
        if self._until_death(forge()):
            waiting = self._pending("write")  # what was decided may have gone on, and be void
            assert [row for row in waiting if row in undecided] == undecided
            decided = [
                row
                for row in self.app.store.approvals.list(None, session=self.session.id, limit=None)
                if row.status in ("approved", "edited")
            ]
            assert len(self.world.entries) == entered or decided

    # --- what always holds -------------------------------------------------------------------

    @invariant()
    def every_entry_into_the_tool_was_intended_once_and_permitted(self) -> None:
        if not self.ids:
            return
        store, world = self.app.store, self.world
        assert len(set(world.entries)) == len(world.entries)
        trail = store.trail.entries()
        intended = {
            (entry.data["idempotency_key"], entry.data["attempt"]): entry
            for entry in trail
            if entry.kind == "effect.intended"
        }
        assert set(intended) == set(world.entries)
        for key, entry in intended.items():
            assert entry.data["args"] == {"n": world.numbers[key]}
            assert entry.data["digest"] == call_digest("act", entry.data["args"])
            assert self._permitted(entry, trail), entry

    def _permitted(self, intent: TrailEntry, trail: Sequence[TrailEntry]) -> bool:
        """Whether a decision or a rule stood behind a write when it was begun."""
        before = [e for e in trail if e.session == intent.session and e.seq < intent.seq]
        if intent.data["approval"] is not None:
            void = [e.data["approval"] for e in before if e.kind == "approval.void"]
            return intent.data["approval"] not in void and any(
                entry.kind == "approval.decided"
                and entry.data["approval"] == intent.data["approval"]
                and entry.data["status"] in ("approved", "edited")
                and entry.data["decided_digest"] == intent.data["digest"]
                and entry.data["message"] == intent.data["message"]
                and entry.data["call"] == intent.data["call"]
                for entry in before
            )
        about = [e for e in before if e.data.get("rule") == intent.data["rule"]]
        kinds = [entry.kind for entry in about if entry.kind.startswith("rule.")]
        scopes = [e.data["scope_args"] for e in about if e.kind == "rule.added"]
        return kinds == ["rule.added"] and covers(scopes[0], intent.data["args"])

    @invariant()
    def the_ledger_says_what_happened(self) -> None:
        if not self.ids:
            return
        world = self.world
        for effect in self.app.store.ledger.list(limit=None):
            key = effect.idempotency_key
            attempts = [world.happened[key, n] for n in range(1, effect.attempts + 1)]
            assert sum(attempts) <= 1
            if effect.state in ("committed", "failed"):
                assert any(attempts) == (effect.state == "committed")
            assert world.settled_by == "its key" or not any(attempts[:-1])

    @invariant()
    def what_undoes_something_was_asked_for_and_does_it_once(self) -> None:
        if not self.ids:
            return
        undoing = [e for e in self.app.store.ledger.list(limit=None) if e.undoes is not None]
        assert all(effect.approval is not None for effect in undoing)
        done = [effect.undoes for effect in undoing if effect.state != "failed"]
        assert len(set(done)) == len(done)

    @invariant()
    def receipts_agree_with_the_ledger(self) -> None:
        for session_id in self.ids:
            last = self.app.store.sessions.get(session_id).turn
            for turn in range(1, last + 1):
                effects = self.app.store.ledger.for_turn(session_id, turn)
                receipt = build_receipt(self.app.store, session_id, turn)
                by_state = {
                    "committed": receipt.done,
                    "failed": receipt.not_done,
                    "in_doubt": receipt.unknown,
                    "intended": receipt.unknown,
                }
                for effect in effects:
                    assert any(f"[{effect.id}]" in line for line in by_state[effect.state])
                assert len(receipt.done) == sum(e.state == "committed" for e in effects)
                assert len(receipt.unknown) == sum(
                    e.state in ("in_doubt", "intended") for e in effects
                )

    @invariant()
    def each_approval_is_closed_at_most_once(self) -> None:
        if not self.ids:
            return
        closed = [
            (entry.data["approval"], entry.data["status"])
            for entry in self.app.store.trail.entries()
            if entry.kind in ("approval.decided", "approval.superseded")
        ]
        rows = self.app.store.approvals.list(None, limit=None)
        assert sorted(closed) == sorted(
            (row.id, given_to(row)) for row in rows if row.status != "pending"
        )
        void = [e.data["approval"] for e in self.app.store.trail.entries(kind="approval.void")]
        assert sorted(void) == sorted(row.id for row in rows if row.was_void)

    @invariant()
    def the_history_is_valid_up_to_what_is_open(self) -> None:
        if not self.ids:
            return
        assert self.model.refused == []
        messages = self._await(self.session.history())
        snapshot = self._await(self.session._snapshot())
        replies = [i for i, m in enumerate(messages) if isinstance(m, AIMessage)]
        last = replies[-1] if replies else len(messages)
        answered = {m.tool_call_id for m in messages[last:] if isinstance(m, ToolMessage)}
        reply = messages[last] if replies else None
        asked = {call["id"] for call in reply.tool_calls} if reply else set()
        if snapshot.tasks and asked - answered:
            messages = messages[:last]
        if messages:
            assert provider_error(messages) is None
        for row in self._pending("write"):
            assert reply is not None
            assert (row.message, row.call) in {(reply.id, call) for call in asked - answered}
        if self.session.record.state == "done":
            assert not snapshot.tasks

    @invariant()
    def nothing_fails_that_should_not(self) -> None:
        """A model that cannot even reply would let all else pass."""
        for record in self.app.store.sessions.list() if self.ids else ():
            assert "unexpected" not in (record.error or ""), record.error
            assert record.state != "failed", record.error

    @invariant()
    def the_trail_holds(self) -> None:
        if self.ids:
            assert self.app.store.trail.verify() == []


def given_to(row: ApprovalRecord) -> str:
    """The status that an approval was given, before it may have become void."""
    if not row.was_void:
        return row.status
    return "edited" if row.decided_args is not None else "approved"


@pytest.mark.timeout(600)  # when it fails, finding the shortest way to fail takes minutes
@pytest.mark.parametrize("settled_by", SETTLED_BY)
def test_any_order_of_anything(
    sqlite_template: Path, monkeypatch: pytest.MonkeyPatch, settled_by: str
) -> None:
    play(lambda home: OnSqlite(sqlite_template, home), settled_by, 20, monkeypatch)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("settled_by", SETTLED_BY)
def test_any_order_of_anything_on_postgresql(
    postgres: str, monkeypatch: pytest.MonkeyPatch, settled_by: str
) -> None:
    monkeypatch.setattr(checkpoints, "BUSY_SECONDS", 1)  # whoever is cut off waits no longer
    template = f"empty{uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {template}")
    Store.open(on_server(postgres, template)).close()
    play(lambda home: OnPostgres(postgres, template), settled_by, 5, monkeypatch)


def play(
    make_ground: Callable[[Path], Ground],
    settled_by: str,
    examples: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let Hypothesis look for a sequence that breaks something."""
    monkeypatch.setattr(writes, "BACK_OFF", 0)
    about = {"settled_by": settled_by, "make_ground": staticmethod(make_ground)}
    run_state_machine_as_test(
        type("Machine", (SessionMachine,), about),
        settings=settings(max_examples=examples, stateful_step_count=20),
    )
