"""What a drive shows: for a person, or one JSON object a line.

For a person the answer is on stdout and progress on stderr; when a decision is waited for,
stdout has the session's id and nothing else.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Protocol

from agent.cli.output import answer, answer_json, as_json, flush, say
from agent.events import (
    AnswerMarked,
    ApprovalAsked,
    CallFinished,
    CallJudged,
    CallProposed,
    Done,
    DraftRefused,
    Event,
    KnownSince,
    Message,
    MessageDelta,
)
from agent.safe_text import one_line, shorten
from agent.store.records import Record
from agent.types import Receipt

if TYPE_CHECKING:
    from agent.repl.render import TurnView
    from agent.repl.screen import Screen
    from agent.store.records import ApprovalRecord


@dataclass(frozen=True)
class Outcome:
    """How a session stands after a drive; ``done.exit`` is the code to exit with."""

    done: Done
    receipt: Receipt
    waiting: tuple[ApprovalRecord, ...] = ()


class Reporter(Protocol):
    """Shows the events of a drive, all but Done, and then how it ended."""

    def show(self, event: Event) -> None: ...
    def end(self, outcome: Outcome) -> None: ...


class JsonReporter:
    """One JSON object a line on stdout, ``type`` first; the last one is ``done``."""

    def show(self, event: Event) -> None:
        """Print one event; pieces of a message are left out, since the whole follows."""
        if not isinstance(event, MessageDelta):
            answer_json(event_json(event))

    def end(self, outcome: Outcome) -> None:
        """Print ``done``, and on stderr what a person should know."""
        answer_json(event_json(outcome.done))
        if outcome.done.exit == 130:
            say(_carry_on(outcome.done.session))


def event_json(event: Event) -> dict[str, Any]:
    """An event as a JSON object, its type first."""
    values = {f.name: _plain(getattr(event, f.name)) for f in fields(event)}
    return {"type": event.type, **values}


def _plain(value: Any) -> Any:
    if isinstance(value, Record):
        return as_json(value)
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value


class TextReporter:
    """Progress on stderr as in the chat; the answer on stdout at the end."""

    def __init__(self) -> None:
        self._screen, self._view = _progress()
        self._said = ""

    def show(self, event: Event) -> None:
        """Draw an event. What the model says before its last words is progress."""
        match event:
            case ApprovalAsked(approval) if approval.kind == "elicitation":
                self._tell_progress()
                say(_how_to_decide(approval))  # now: the call waits for the answer
            case CallProposed() | CallJudged() | CallFinished() | DraftRefused():
                self._tell_progress()
                self._view.show(event)
            case AnswerMarked() | KnownSince():
                self._view.show(event)
            case Message(text):
                self._view.finish()
                self._tell_progress()
                self._said = text

    def end(self, outcome: Outcome) -> None:
        """Answer, receipt, error, and how to go on."""
        done = outcome.done
        self._view.finish()
        if done.exit == 3:
            self._tell_progress()
            answer(done.session)
        elif text := done.answer or self._said:
            answer(text)
        if done.error:
            say(done.error)
        if outcome.receipt:
            from agent.repl.render import show_receipt

            flush()
            show_receipt(self._screen, outcome.receipt)
        for line in _next_steps(outcome):
            say(line)

    def _tell_progress(self) -> None:
        if self._said:
            say(self._said)
            self._said = ""


def _progress() -> tuple[Screen, TurnView]:
    from agent.repl.render import TurnView
    from agent.repl.screen import Screen

    screen = Screen.on(sys.stderr)
    return screen, TurnView(screen)


def _next_steps(outcome: Outcome) -> list[str]:
    """How to go on from here."""
    session = outcome.done.session
    lines = [_how_to_decide(approval) for approval in outcome.waiting]
    match outcome.done.state:
        case "interrupted":
            lines.append(_carry_on(session))
        case "stopped" | "failed":
            lines.append(f'Go on: sayso chat -r {session}, and say "continue".')
        case "cancelled":
            lines.append(f"{session} was cancelled; what it did: sayso show {session}")
    return lines


def _carry_on(session: str) -> str:
    return f"Interrupted; the session is in order. Carry it on: sayso resume {session}"


def _how_to_decide(approval: ApprovalRecord) -> str:
    if approval.kind == "in_doubt":
        return f"Did it happen? sayso reconcile {approval.id} --happened (or --not-happened)"
    if approval.kind == "elicitation":
        asked = one_line(shorten(str(approval.args.get("message", "")), 200))
        return (
            f"{one_line(approval.tool)} asks: {asked} "
            f"Answer: sayso respond {approval.id} --message JSON, or sayso reject {approval.id} "
            f"--reason TEXT (the whole question: sayso approvals {approval.id})"
        )
    again = f"{one_line(approval.reason)} " if approval.attempt > 1 else ""
    return (
        f"{again}Decide: sayso approve {approval.id}, or sayso reject {approval.id} --reason TEXT "
        f"(all of it: sayso approvals {approval.id})"
    )
