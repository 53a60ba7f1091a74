"""What a session did, read from its record: the history, the ledger, the approvals, the trail.

It is the same whoever drove the session, in which process, and how often it was interrupted; the
model's words about it are quoted and never believed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent.provenance import NOTE

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.records import ApprovalRecord, EffectRecord, TrailEntry

Became = Literal[
    "ran",
    "failed",
    "in doubt",
    "denied",
    "refused",
    "rejected",
    "answered",
    "expired",
    "left",
    "waiting",
    "open",
]
"""What became of a proposed call.

``ran``: a read that answered, or a write that happened. ``failed``: a read that did not, or a write
that is known not to have happened. ``denied``: by the policy or the authority. ``refused``: it was
no call that could be judged, such as one with wrong arguments. ``rejected``, ``answered``,
``expired``: what the reviewer did. ``left``: the session moved on, or what was approved did not
hold any more. ``waiting``: for a decision. ``open``: anything else that has no result yet.
"""

_DECIDED: dict[str, Became] = {
    "pending": "waiting",
    "rejected": "rejected",
    "answered": "answered",
    "expired": "expired",
    "superseded": "left",
}


@dataclass(frozen=True)
class Call:
    """A proposed call and what became of it.

    Args:
        step: The model's reply it is part of, counted through the session from 1.
        args: As it was judged: normalised, defaults filled in; as the model wrote them where it
            was refused before.
        approvals: What was asked about it, the first first; decided or not.
        effect: The ledger's row, of a write that was entered.
        rule: What allowed or denied it unasked, or had it asked about.
        reason: Why, in words.
        result: What the model read of it.
    """

    turn: int
    step: int
    message: str
    id: str
    tool: str
    args: dict[str, Any]
    became: Became
    approvals: tuple[ApprovalRecord, ...] = ()
    effect: EffectRecord | None = None
    rule: str | None = None
    reason: str = ""
    result: str | None = None

    @property
    def decided_args(self) -> dict[str, Any]:
        """The arguments that ran, or would: those that a person chose, where one edited it."""
        edited = [a.decided_args for a in self.approvals if a.decided_args is not None]
        return edited[-1] if edited else self.args


@dataclass(frozen=True)
class Step:
    """One reply of the model: its words and its calls."""

    turn: int
    number: int
    text: str
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Turn:
    """One message of the user, and all that came of it."""

    number: int
    said: str
    steps: tuple[Step, ...] = ()

    @property
    def answer(self) -> str:
        """The model's last words; empty while the turn has not come to its end."""
        last = self.steps[-1] if self.steps else None
        return last.text if last is not None and not last.calls else ""


@dataclass(frozen=True)
class Figures:
    """What it took: efficiency, which says nothing about whether it was right.

    Args:
        steps: Replies of the model.
        asked: Approvals that were put to the reviewer.
        tokens: Those of the whole session, input and output; zero where the model counts none.
    """

    steps: int
    calls: int
    writes: int
    asked: int
    tokens: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Recorded:
    """A session, or some of its turns.

    Args:
        state: Of the session, such as ``done`` or ``waiting``.
        broken: What is wrong with the trail, a line each; empty when it holds.
    """

    session: str
    state: str
    turns: tuple[Turn, ...]
    tokens: tuple[int, int] = (0, 0)
    error: str | None = None
    broken: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every reply, in order."""
        return tuple(chain.from_iterable(turn.steps for turn in self.turns))

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every proposed call, in the order in which the model proposed them."""
        return tuple(chain.from_iterable(step.calls for step in self.steps))

    @property
    def answer(self) -> str:
        """The last turn's answer."""
        return self.turns[-1].answer if self.turns else ""

    @property
    def figures(self) -> Figures:
        """What these turns took."""
        return Figures(
            steps=len(self.steps),
            calls=len(self.calls),
            writes=sum(call.effect is not None for call in self.calls),
            asked=sum(len(call.approvals) for call in self.calls),
            tokens=self.tokens,
        )

    def since(self, turn: int) -> Recorded:
        """The same without the turns before this one."""
        return replace(self, turns=tuple(t for t in self.turns if t.number >= turn))


def read_session(store: Store, session: str, messages: Sequence[BaseMessage]) -> Recorded:
    """A session as the store and its history have it.

    Args:
        messages: The history, as ``AgentSession.history`` or ``sayso show`` reads it.

    Raises:
        NotFound: There is no such session.
    """
    row = store.sessions.get(session)
    reading = _Reading(store, session, messages)
    return Recorded(
        session=session,
        state=row.state,
        turns=tuple(reading.turns()),
        tokens=(row.tokens.get("input", 0), row.tokens.get("output", 0)),
        error=row.error,
        broken=tuple(f"entry {p.seq}: {p.what}" for p in store.trail.verify(session)),
    )


class _Reading:
    """The parts of one session by the call that they are about: (id of the AI message, call)."""

    def __init__(self, store: Store, session: str, messages: Sequence[BaseMessage]) -> None:
        self._messages = messages
        self._approvals: dict[tuple[str, str], list[ApprovalRecord]] = {}
        for approval in reversed(store.approvals.list(None, session=session, limit=None)):
            self._approvals.setdefault((approval.message, approval.call), []).append(approval)
        effects = store.ledger.list(session=session, limit=None)
        self._effects = {(effect.message, effect.call): effect for effect in effects}
        self._judged: dict[tuple[str, str], TrailEntry] = {}
        self._ended: dict[tuple[str, str], TrailEntry] = {}
        for entry in store.trail.entries(session):
            if (about := _call_of(entry)) is None:
                continue
            if entry.kind in ("call.allowed", "call.denied", "call.refused"):
                self._judged[about] = entry
            elif entry.kind == "call.result":
                self._ended[about] = entry

    def turns(self) -> Iterator[Turn]:
        """Turn by turn, as the history has them."""
        number, step, said = 0, 0, ""
        steps: list[Step] = []
        for index, message in enumerate(self._messages):
            match message:
                case HumanMessage() if not message.additional_kwargs.get(NOTE):
                    if number:
                        yield Turn(number, said, tuple(steps))
                    number, said, steps = number + 1, message.text, []
                case AIMessage():
                    step += 1
                    results = self._results_after(index)
                    calls = tuple(
                        self._call(number, step, message, call, results)
                        for call in message.tool_calls
                    )
                    steps.append(Step(number, step, message.text, calls))
        if number:
            yield Turn(number, said, tuple(steps))

    def _results_after(self, index: int) -> dict[str, str]:
        found: dict[str, str] = {}
        for message in self._messages[index + 1 :]:
            if isinstance(message, AIMessage):
                break
            if isinstance(message, ToolMessage):
                found[message.tool_call_id] = message.text
        return found

    def _call(
        self, turn: int, step: int, reply: AIMessage, call: Any, results: dict[str, str]
    ) -> Call:
        about = (reply.id or "", call["id"] or "")
        approvals = tuple(a for a in self._approvals.get(about, ()) if a.kind == "write")
        effect, judged = self._effects.get(about), self._judged.get(about)
        rule, reason = _why(approvals, effect, judged)
        return Call(
            turn=turn,
            step=step,
            message=about[0],
            id=about[1],
            tool=call["name"],
            args=dict(call["args"]),
            became=self._became(about, approvals, effect, judged),
            approvals=approvals,
            effect=effect,
            rule=rule,
            reason=reason,
            result=results.get(about[1]),
        )

    def _became(
        self,
        about: tuple[str, str],
        approvals: Sequence[ApprovalRecord],
        effect: EffectRecord | None,
        judged: TrailEntry | None,
    ) -> Became:
        if effect is not None:
            return _OF_EFFECT[effect.state]
        if judged is not None and judged.kind != "call.allowed":
            return "denied" if judged.kind == "call.denied" else "refused"
        if approvals and approvals[-1].status in _DECIDED:
            return _DECIDED[approvals[-1].status]
        if (ended := self._ended.get(about)) is not None:
            return "ran" if ended.data.get("status") == "success" else "failed"
        return "open"


_OF_EFFECT: dict[str, Became] = {
    "committed": "ran",
    "failed": "failed",
    "in_doubt": "in doubt",
    "intended": "in doubt",
}


def _call_of(entry: TrailEntry) -> tuple[str, str] | None:
    message, call = entry.data.get("message"), entry.data.get("call")
    return (message, call) if isinstance(message, str) and isinstance(call, str) else None


def _why(
    approvals: Sequence[ApprovalRecord], effect: EffectRecord | None, judged: TrailEntry | None
) -> tuple[str | None, str]:
    if approvals:
        return approvals[-1].rule, approvals[-1].reason
    if effect is not None and effect.rule:
        return effect.rule, ""
    if judged is None:
        return None, ""
    data = judged.data
    return data.get("rule"), str(data.get("reason") or data.get("problem") or "")
