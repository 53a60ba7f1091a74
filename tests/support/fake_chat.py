"""A stand-in for the application: real terminal, real keys, scripted sessions.

What it decides on lives in a JSON file, so that a test can decide from another process.
Run as a program it is a chat: ``python -m tests.support.fake_chat FOLDER [-r ID]``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from agent.canonical import call_digest
from agent.errors import AlreadyDecided, InvalidDecision, NotFound
from agent.events import (
    ApprovalAsked,
    CallFinished,
    CallJudged,
    CallProposed,
    Done,
    Event,
    Message,
    MessageDelta,
    ReceiptReady,
)
from agent.policy import Policy
from agent.repl.app import chat
from agent.repl.questions import KEY_MARK
from agent.store.records import ApprovalRecord, RuleRecord, SessionRecord, TrailEntry
from agent.types import Authority, Decision, Receipt, Verdict
from tests.support.terminal import Terminal

SESSION = "s-fake01"
UNTIL = "2026-01-02T11:04:05.000000Z"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b5A\rpwned\x08\x7f \x1b]8;;http://evil\x1b\\link"
STATUS = {"approve": "approved", "edit": "edited", "reject": "rejected", "respond": "answered"}


def proposal(number: int, tool: str, args: dict[str, Any], **fields: Any) -> ApprovalRecord:
    """A pending approval ``ap-N`` with everything a panel can show."""
    return ApprovalRecord(
        **{
            "id": f"ap-{number}",
            "kind": "write",
            "session": SESSION,
            "turn": 1,
            "message": "m-1",
            "call": f"c-{number}",
            "tool": tool,
            "args": args,
            "digest": call_digest(tool, args),
            "effects": ["write:orders"],
            "rule": "default/ask-writes",
            "reason": "writes wait for a person",
            "asked_at": "2026-01-02T03:04:05.000000Z",
            **fields,
        }
    )


CANCEL = proposal(
    1,
    "cancel_order",
    {"order_id": "A1", "expected_revision": 3},
    notes=["expected_revision: “3” became 3"],
    preview={"summary": "order A1: pending → cancelled", "before": "", "after": "", "diff": ""},
    provenance=[
        {"path": "order_id", "origin": "user", "tool": None},
        {
            "path": "expected_revision",
            "origin": "trusted",
            "tool": "get_order",
            "where": 'get_order(order_id="A1")',
        },
        {"path": "note", "origin": "model", "tool": None},
    ],
    undo="reopen_order",
)
SCENES: dict[str, list[ApprovalRecord]] = {
    "cancel A1": [CANCEL],
    "cancel three": [
        proposal(n, "cancel_order", {"order_id": order})
        for n, order in enumerate(("A1", "A2", "B1"), 1)
    ],
    "write long": [
        proposal(1, "write_file", {f"line {n:03}": f"text {n}" for n in range(90)}, undo=None)
    ],
    "cancel lost": [proposal(1, "refund_order", {"order_id": "A1", "amount": 5}, kind="in_doubt")],
}


class FakeStore:
    """Approvals in a JSON file, and the parts of the store that the chat reads."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "approvals.json"
        self.state = "done"
        self.sessions = SimpleNamespace(list=self._sessions, get=self._session)
        self.approvals = self
        self.rules = SimpleNamespace(until=lambda: UNTIL, expired=lambda session: [])
        self.trail = SimpleNamespace(entries=self._entries)

    def all(self) -> list[ApprovalRecord]:
        rows = json.loads(self._path.read_text()) if self._path.exists() else []
        return [ApprovalRecord(**row) for row in rows]

    def save(self, approvals: Sequence[ApprovalRecord]) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps([a.model_dump() for a in approvals]))
        new.replace(self._path)

    def get(self, approval: str) -> ApprovalRecord:
        for record in self.all():
            if record.id == approval:
                return record
        raise NotFound("approval", approval, [a.id for a in self.all()])

    def list(
        self,
        *,
        status: str | None = "pending",
        session: str | None = None,
        turn: int | None = None,
        limit: int | None = 50,
    ) -> list[ApprovalRecord]:
        wanted = {"status": status, "session": session, "turn": turn}
        found = [
            record
            for record in self.all()
            if all(value in (None, getattr(record, name)) for name, value in wanted.items())
        ]
        return found[:limit]

    def decide(self, approval: str, decision: Decision, by: str, via: str) -> ApprovalRecord:
        """Compare-and-set, as the real store does."""
        old = self.get(approval)
        if old.status != "pending":
            raise AlreadyDecided(old.id, old.status, old.decided_by or "", old.decided_at or "")
        new = old.model_copy(
            update={
                "status": STATUS[decision.type],
                "decided_args": decision.args,
                "decided_by": by,
                "decided_via": via,
                "decided_at": "2026-01-02T03:05:00.000000Z",
                "comment": decision.message or None,
            }
        )
        self.save([new if record.id == approval else record for record in self.all()])
        return new

    def session(self) -> SessionRecord:
        return SessionRecord(
            id=SESSION,
            state=self.state,
            title="Cancel A1",
            model="offline",
            tokens={"input": 1200, "output": 34},
            labels=["untrusted"],
            turn=1,
            updated_at="2026-01-02T03:04:05.000000Z",
        )

    def _session(self, id: str) -> SessionRecord:
        if not SESSION.startswith(id):
            raise NotFound("session", id, [SESSION])
        return self.session()

    def _sessions(self, *, limit: int = 50) -> list[SessionRecord]:
        return [self.session()][:limit]

    def _entries(self, session: str) -> list[TrailEntry]:
        return [
            TrailEntry(
                seq=1,
                at="2026-01-02T03:04:05.000000Z",
                session=session,
                kind="session.created",
                data={"by": "ada"},
                prev="",
                hash="00",
            )
        ]


class FakeSession:
    """One scripted session; ``said`` and ``log`` tell a test what reached it."""

    def __init__(self, store: FakeStore, folder: Path) -> None:
        self.id = SESSION
        self.tools: list[Any] = []
        self.said: list[tuple[str, bool]] = []
        self.stops = 0
        self.authority = Authority(("read:*",))
        self._store, self._folder = store, folder
        self._stop = asyncio.Event()
        self._rules: list[RuleRecord] = []

    @property
    def record(self) -> SessionRecord:
        return self._store.session()

    def pending(self) -> list[ApprovalRecord]:
        return self._store.list(session=self.id)

    async def run(
        self, text: str, *, supersede: bool = False, attached: Any = ()
    ) -> AsyncGenerator[Event, None]:
        self.said.append((text, supersede))
        self._log(f"run {json.dumps(text)} supersede={supersede}")
        if supersede:
            self._store.save(
                [
                    a.model_copy(update={"status": "superseded"}) if a.status == "pending" else a
                    for a in self._store.all()
                ]
            )
        if text in SCENES:
            async for event in self._ask(SCENES[text]):
                yield event
        elif text == "slow":
            async for event in self._slow():
                yield event
        elif text == "hostile":
            yield CallProposed("c-9", "fetch", {"url": f"http://x/{HOSTILE}"})
            yield CallFinished("c-9", "fetch", "success", HOSTILE)
            async for event in self._say(f"It says: {HOSTILE} &#27;[2J &#x202E;abc\n\nend"):
                yield event
        elif text == "fail":
            yield self._done("failed", error="The provider gave up after 3 tries (503).")
        else:
            async for event in self._say(f"# You said\n\n*{text}*\n\nThat is **all**."):
                yield event

    async def resume(self) -> AsyncGenerator[Event, None]:
        self._log("resume")
        if self.pending():
            yield self._done("waiting")
            return
        for approval in self._store.list(status=None, session=self.id):
            yield CallFinished(approval.call, approval.tool, "success", self._outcome(approval))
        yield ReceiptReady(self.receipt())
        async for event in self._say("Done as you decided."):
            yield event

    async def _ask(self, approvals: list[ApprovalRecord]) -> AsyncIterator[Event]:
        self._store.save(approvals)
        for approval in approvals:
            verdict = Verdict(
                behavior="ask",
                rule=approval.rule,
                reason=approval.reason,
                effects=approval.effects,
                digest=approval.digest,
                notes=[],
            )
            yield CallProposed(approval.call, approval.tool, approval.args)
            yield CallJudged(approval.call, approval.tool, verdict)
            yield ApprovalAsked(approval)
        yield self._done("waiting")

    async def _slow(self) -> AsyncIterator[Event]:
        """A tool that runs until the test makes a file, or somebody stops it."""
        yield CallProposed("c-1", "slow_tool", {})
        while not (self._folder / "release").exists() and not self._stop.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), 0.02)
        if self._stop.is_set():
            self._stop.clear()
            yield self._done("interrupted")
            return
        yield CallFinished("c-1", "slow_tool", "success", "slept well")
        async for event in self._ask(SCENES["cancel A1"]):
            yield event

    async def _say(self, text: str) -> AsyncIterator[Event]:
        for start in range(0, len(text), 7):
            yield MessageDelta(text[start : start + 7])
        yield Message(text)
        yield self._done("done")

    def _done(self, state: Any, error: str | None = None) -> Done:
        self._store.state = state
        return Done(self.id, state, "", 0, error)

    def _outcome(self, approval: ApprovalRecord) -> str:
        args = json.dumps(approval.decided_args or approval.args)
        return f"{approval.status} {args} {approval.comment or ''}".strip()

    async def as_edited(self, approval_id: str, args: dict[str, Any]) -> ApprovalRecord:
        if not isinstance(args.get("order_id", ""), str):
            raise InvalidDecision("order_id: a string is expected. Nothing was decided.")
        approval = self._store.get(approval_id)
        preview = {"summary": f"order {args.get('order_id')}: shipped → cancelled"}
        changed = {"args": args, "digest": "another", "preview": preview, "provenance": None}
        return approval if args == approval.args else approval.model_copy(update=changed)

    def is_under_way(self, approval: ApprovalRecord) -> bool:
        return False

    def decide(self, approval_id: str, decision: Decision) -> ApprovalRecord:
        decided = self._store.decide(approval_id, decision, "ada", "chat")
        self._log(f"{approval_id} {decision.type} {json.dumps(decision.args)} {decision.message!r}")
        return decided

    def decide_many(self, answers: list[tuple[str, Decision]]) -> list[ApprovalRecord]:
        return [self.decide(approval, decision) for approval, decision in answers]

    def always_scope(self, approval_id: str) -> Any:
        if self._store.get(approval_id).undo is None:
            return None
        return SimpleNamespace(text="cancel_order of order A1", args={"order_id": {"equals": "A1"}})

    def allow_always(self, approval_id: str) -> RuleRecord:
        rule = RuleRecord(
            id="ru-1",
            session=self.id,
            tool="cancel_order",
            scope="cancel_order of order A1",
            scope_args={"order_id": {"equals": "A1"}},
            created_by="ada",
            created_at="2026",
            expires_at=UNTIL,
        )
        self.decide(approval_id, Decision("approve"))
        self._rules.append(rule)
        return rule

    def change_authority(
        self, *, grant: Sequence[str] = (), deny: Sequence[str] = (), take_back: Sequence[str] = ()
    ) -> Authority:
        kept = [p for p in self.authority.granted if p not in take_back]
        self.authority = Authority((*kept, *grant), (*self.authority.denied, *deny))
        return self.authority

    def rules(self) -> list[RuleRecord]:
        return self._rules

    def revoke(self, rule_id: str) -> RuleRecord:
        for rule in self._rules:
            if rule.id == rule_id:
                self._rules.remove(rule)
                return rule
        raise NotFound("rule", rule_id, [rule.id for rule in self._rules])

    def request_stop(self) -> str:
        self.stops += 1
        self._stop.set()
        return "Stopping at the next safe point." if self.stops == 1 else "Stopping now."

    async def history(self) -> list[Any]:
        return [
            SimpleNamespace(type="human", text="cancel A1", additional_kwargs={}),
            SimpleNamespace(type="ai", text="I will **cancel** it.", additional_kwargs={}),
        ]

    async def expired(self) -> list[Any]:
        return []

    def receipt(self) -> Receipt:
        lines: dict[str, list[str]] = {"done": [], "not_done": [], "waiting": []}
        kinds = {"approved": "done", "edited": "done", "pending": "waiting"}
        for approval in self._store.list(status=None, session=self.id):
            kind = kinds.get(approval.status, "not_done")
            lines[kind].append(f"{approval.tool} {approval.args.get('order_id', '')}")
        return Receipt(**{kind: tuple(texts) for kind, texts in lines.items()})

    def _log(self, line: str) -> None:
        with (self._folder / "log").open("a") as log:
            log.write(line + "\n")


class FakeApplication:
    """Opens the one scripted session."""

    def __init__(self, folder: Path) -> None:
        self.store = FakeStore(folder)
        self.tools: list[Any] = []
        self.policy, self.authority = Policy(), Authority()
        self.model_name = "offline"
        self.workspace: Path | None = Path("/srv/work")
        self.notices = ["LangSmith tracing is on: it sends what is said to a server."]
        self.servers = SimpleNamespace(servers=[])
        self.session = FakeSession(self.store, folder)
        if self.store.all():
            self.store.state = "waiting"

    @contextlib.asynccontextmanager
    async def new_session(self) -> AsyncIterator[FakeSession]:
        yield self.session

    @contextlib.asynccontextmanager
    async def open_session(self, id: str) -> AsyncIterator[FakeSession]:
        self.store.sessions.get(id)
        yield self.session

    def changes(self, record: SessionRecord) -> list[str]:
        return []

    def warm(self) -> None:
        pass


def opener(folder: Path) -> Callable[[], Any]:
    """Opens the fake; waits for a file ``open`` first when there is a file ``closed``."""

    async def open_app() -> FakeApplication:
        while (folder / "closed").exists() and not (folder / "open").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        if (folder / "broken").exists():
            raise InvalidDecision("The database cannot be opened.")
        return FakeApplication(folder)

    return open_app


class ChatTerminal(Terminal):
    """The fake chat on a terminal, in a folder of its own."""

    def __init__(self, folder: Path, *arguments: str, **options: Any) -> None:
        program = [sys.executable, "-m", "tests.support.fake_chat", str(folder), *arguments]
        super().__init__(folder, program, **options)

    def ready(self) -> ChatTerminal:
        """Wait for the message prompt."""
        self.expect("› ")
        return self

    def asked(self, text: str) -> str:
        """Wait for a question that a key answers, until keys count; returns what came."""
        return self.expect(text) + self.expect(KEY_MARK)

    def say(self, text: str) -> None:
        """Type a message at the prompt and send it."""
        self.send(text)
        self.expect(text.rsplit("\n", 1)[-1])
        self.send("\r")

    def leave(self) -> int:
        """Ctrl-D at an empty prompt; returns the exit code."""
        self.send("\x04")
        return self.close()

    @property
    def log(self) -> list[str]:
        """What reached the session."""
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("-r", dest="session")
    arguments.add_argument("-c", dest="latest", action="store_true")
    given = arguments.parse_args()
    return asyncio.run(
        chat(
            opener(given.folder),
            session_id=given.session,
            continue_latest=given.latest,
            history=given.folder / "home" / "history",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
