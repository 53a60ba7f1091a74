"""What came of crash runs: the world, the ledger, the approvals, the trail, the history, and what
each of them says of the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
    convert_to_openai_messages,
)

from agent.application import Application
from agent.canonical import call_digest
from agent.receipt import build_receipt
from agent.session import AgentSession
from agent.store import Store
from agent.store.records import ApprovalRecord, EffectRecord, TrailEntry
from tests.support.crash_tools import Kind, called
from tests.support.crash_world import Effect, World
from tests.support.openai_server import history_error


@dataclass(frozen=True)
class Report:
    """Numbers of writes, and what is wrong in words.

    Args:
        wanted: Calls that a person approved; of one that was asked again, the last answer counts.
        done: Those of them that the world has an effect of, with the arguments as approved.
        failed: Those of them that are known not to have happened.
        doubled: Effects beyond the first of the same content. Each content is proposed once in a
            run, so that this also finds a second effect under another key.
        lost: Approved calls of which the ledger and the world say different things (committed
            and not in the world; failed and in the world), or that the ledger does not account
            for (no row, only intended, or in doubt without that a person is asked).
        unapproved: Effects whose key has no approving decision in the store that is bound to the
            digest of what the world has.
        by_record: Writes in doubt that the service's own record settled, either way.
        resent: Attempts that were sent again under their key, with the one before in doubt.
        asked: Questions to a person whether a write happened.
        in_doubt: Writes that nobody knows about in the end; it says so.
        ended: The session came to its end.
        problems: What is wrong, and what else does not fit together, in words.
    """

    wanted: int = 0
    done: int = 0
    failed: int = 0
    doubled: int = 0
    lost: int = 0
    unapproved: int = 0
    by_record: int = 0
    resent: int = 0
    asked: int = 0
    in_doubt: int = 0
    ended: int = 0
    problems: tuple[str, ...] = ()

    def __add__(self, other: Report) -> Report:
        return Report(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Report:
        known = {field.name for field in fields(cls)}
        given = {name: value for name, value in values.items() if name in known}
        return cls(**{**given, "problems": tuple(given["problems"])})


async def report_on(kind: Kind, app: Application, session: AgentSession, world: World) -> Report:
    """Hold everything that is left of a session that rests against each other."""
    history = await session.history()
    return _Audit(kind, app.store, session.id, world.effects(), history).report()


class _Audit:
    def __init__(
        self,
        kind: Kind,
        store: Store,
        session: str,
        effects: list[Effect],
        history: list[BaseMessage],
    ) -> None:
        self._kind, self._store, self._session = kind, store, session
        self._effects, self._history = effects, history
        rows = store.approvals.list(None, session=session, limit=None)
        self._approvals = {row.id: row for row in rows}
        self._ledger = {
            row.idempotency_key: row for row in store.ledger.list(session=session, limit=None)
        }
        self._trail = store.trail.entries(session)
        self._results = {m.tool_call_id: m for m in history if isinstance(m, ToolMessage)}

    def report(self) -> Report:
        wanted = self._wanted()
        accounts = [self._account(row) for row in wanted]
        doubled, lost = [*self._doubled()], [*filter(None, accounts)]
        unapproved = [*self._unapproved()]
        doubts = [row for row in self._ledger.values() if row.state == "in_doubt"]
        return Report(
            wanted=len(wanted),
            done=sum(self._in_world(self._of_call(row), row) for row in wanted),
            failed=sum(self._has_failed(row) for row in wanted),
            doubled=len(doubled),
            lost=len(lost),
            unapproved=len(unapproved),
            by_record=self._count("effect.found", lambda e: e.data["happened"] is not None),
            resent=self._resent(),
            asked=self._count("approval.asked", lambda e: e.data["kind"] == "in_doubt"),
            in_doubt=len(doubts),
            ended=int(self._store.sessions.get(self._session).state == "done"),
            problems=(*doubled, *lost, *unapproved, *self._misfits(doubts)),
        )

    # --- the hard ones -----------------------------------------------------------------------

    def _wanted(self) -> list[ApprovalRecord]:
        return [
            row
            for row in self._approvals.values()
            if row.kind == "write" and row.status in ("approved", "edited")
        ]

    def _doubled(self) -> Iterator[str]:
        seen: set[tuple[str, int]] = set()
        for effect in self._effects:
            if (effect.op, effect.n) in seen:
                yield f"doubled: {effect}"
            seen.add((effect.op, effect.n))

    def _account(self, row: ApprovalRecord) -> str | None:
        """What is wrong with the ledger's word on an approved call."""
        effect = self._of_call(row)
        if effect is None:
            return f"lost: {row.id} {row.tool}({row.args}) was approved and never begun"
        happened = self._in_world(effect, row)
        match effect.state:
            case "committed" if not happened:
                return f"lost: {effect} is committed and not in the world"
            case "failed" if happened:
                return f"lost: {effect} is failed and in the world"
            case "intended":
                return f"lost: {effect} is only intended"
            case "in_doubt" if not self._is_asked_about(effect):
                return f"lost: {effect} is in doubt, and nobody is asked"
        return None

    def _unapproved(self) -> Iterator[str]:
        for effect in self._effects:
            row = self._ledger.get(effect.key)
            approval = self._approvals.get(row.approval or "") if row else None
            digest = call_digest(called(self._kind, effect.op), {"n": effect.n})
            if (
                approval is None
                or approval.status not in ("approved", "edited")
                or approval.decided_digest != digest
            ):
                yield f"unapproved: {effect} under {approval}"

    def _in_world(self, effect: EffectRecord | None, row: ApprovalRecord) -> bool:
        args = row.decided_args or row.args
        content = (row.tool, args["n"])
        return effect is not None and any(
            (called(self._kind, e.op), e.n) == content and e.key == effect.idempotency_key
            for e in self._effects
        )

    def _has_failed(self, row: ApprovalRecord) -> bool:
        effect = self._of_call(row)
        return effect is not None and effect.state == "failed"

    def _of_call(self, row: ApprovalRecord) -> EffectRecord | None:
        return self._store.ledger.for_call(row.session, row.message, row.call)

    def _is_asked_about(self, effect: EffectRecord) -> bool:
        return any(
            (row.kind, row.status) == ("in_doubt", "pending")
            and (row.message, row.call) == (effect.message, effect.call)
            for row in self._approvals.values()
        )

    # --- how doubts ended --------------------------------------------------------------------

    def _resent(self) -> int:
        """Intents of a later attempt that nothing had settled before."""
        settled: dict[str, bool] = {}
        resent = 0
        for entry in self._trail:
            effect = entry.data.get("effect", "")
            if entry.kind in ("effect.settled", "effect.found"):
                settled[effect] = entry.data.get("happened") is not None or "settled" in entry.data
            elif entry.kind == "effect.intended":
                resent += entry.data["attempt"] > 1 and not settled.get(effect)
                settled[effect] = False
        return resent

    def _count(self, kind: str, holds: Any) -> int:
        return sum(entry.kind == kind and holds(entry) for entry in self._trail)

    # --- what else must fit together ---------------------------------------------------------

    def _misfits(self, doubts: list[EffectRecord]) -> Iterator[str]:
        for problem in self._store.trail.verify(self._session):
            yield f"trail: {problem}"
        yield from self._closed_twice(self._trail)
        yield from self._mistold()
        record = self._store.sessions.get(self._session)
        said = [
            line
            for turn in range(1, record.turn + 1)
            for line in build_receipt(self._store, self._session, turn).unknown
        ]
        for effect in doubts:
            if not any(f"[{effect.id}]" in line for line in said):
                yield f"the receipt does not say that {effect} is in doubt"
        if sum(isinstance(message, HumanMessage) for message in self._history) != record.turn:
            yield f"{record.turn} turns are not as many messages in {self._history}"
        if record.state not in ("done", "waiting"):
            yield f"the session is {record.state}: {record.error}"
        if (record.state == "waiting") != bool(self._open_calls()):
            yield f"the session is {record.state} with open calls {self._open_calls()}"
        if not self._open_calls() and (problem := _provider_error(self._history)):
            yield f"the history is invalid: {problem}"

    def _closed_twice(self, trail: Iterable[TrailEntry]) -> Iterator[str]:
        closed: set[str] = set()
        for entry in trail:
            if entry.kind in ("approval.decided", "approval.superseded"):
                if entry.data["approval"] in closed:
                    yield f"{entry.data['approval']} was closed twice"
                closed.add(entry.data["approval"])

    def _mistold(self) -> Iterator[str]:
        """Results that tell the model something else than the ledger knows."""
        for effect in self._ledger.values():
            result = self._results.get(effect.call)
            if result is None:
                continue
            told = "unknown" if "outcome of this call is unknown" in result.text else result.status
            right = {"committed": "success", "failed": "error", "in_doubt": "unknown"}
            if told != "unknown" and told != right.get(effect.state):
                yield f"the model was told {told} of {effect}: {result.text}"

    def _open_calls(self) -> list[str]:
        replies = [i for i, m in enumerate(self._history) if isinstance(m, AIMessage)]
        if not replies:
            return []
        reply = self._history[replies[-1]]
        assert isinstance(reply, AIMessage)
        after = self._history[replies[-1] :]
        answered = {m.tool_call_id for m in after if isinstance(m, ToolMessage)}
        return [call["id"] or "" for call in reply.tool_calls if call["id"] not in answered]


def _provider_error(history: list[BaseMessage]) -> str | None:
    return history_error({"messages": convert_to_openai_messages(history)}) if history else None


# --- as a table ------------------------------------------------------------------------------

COLUMNS = [field.name for field in fields(Report) if field.name != "problems"]


def as_table(reports: Mapping[str, tuple[int, Report]]) -> list[str]:
    """Lines: of each combination, in how many runs, and its numbers."""
    width = max(map(len, reports), default=0)
    heads = ["runs", *(column.replace("_", " ") for column in COLUMNS)]
    lines = ["  ".join([" " * width, *heads])]
    for name, (runs, report) in sorted(reports.items()):
        cells = [runs, *(getattr(report, column) for column in COLUMNS)]
        row = "  ".join(f"{cell:>{len(head)}}" for cell, head in zip(cells, heads, strict=True))
        lines.append(f"{name:<{width}}  {row}")
    return lines
