"""A session that branches from another one: its messages, and what it knows of its line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

import prompts
from agent.checks.limits import turn_starts
from agent.errors import UsageError
from agent.receipt import (
    build_receipt,
    describe_call,
    effect_lines,
    known_since,
    receipt_text,
)
from agent.types import Receipt

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.records import EffectRecord

BEGINNING = 60
"""Characters of a user's message by which a turn is recognised."""


def branch(messages: Sequence[BaseMessage], source: str, at: int | None) -> list[BaseMessage]:
    """The messages of a fork, in which every call has an answer, as providers demand.

    Args:
        source: Id of the session they come from.
        at: The last turn that is kept, from 1; ``None``: all are.

    Raises:
        UsageError: There is no such turn; those that there are are listed.
    """
    starts = turn_starts(messages)
    if not starts:
        raise UsageError(f"{source} has no messages yet, so there is nothing to fork.")
    if at is None or at == len(starts):
        return _closed(messages, source)
    if not 1 <= at < len(starts):
        known = "\n".join(
            f"  {number}  {_beginning(messages[index])}" for number, index in enumerate(starts, 1)
        )
        raise UsageError(f"{source} has no turn {at}. Its turns begin with:\n{known}")
    return _closed(messages[: starts[at]], source)


def record_before(store: Store, session: str, turn: int) -> str:
    """What is known of a turn's writes, for the model that goes on after it.

    Of a turn that a fork took from its source it is what is known there, and which writes
    happened there since: the world has them, though these messages do not. What was undone in the
    meantime is said to be.
    """
    if turn == 0:
        return ""
    came_from = store.sessions.branched_at(session)
    if came_from is None or turn > came_from.turn:
        record = receipt_text(build_receipt(store, session, turn))
        record = _with_undone(store, record, store.ledger.for_turn(session, turn))
        if since := receipt_text(known_since(store, session, turn)):
            record = f"{record}\n{prompts.message('known_since', record=since)}".strip()
        return record
    since = _since(store, came_from.session, came_from.turn)
    parts = [record_before(store, came_from.session, came_from.turn)]
    if since:
        parts.append(prompts.message("happened_since", source=came_from.session, record=since))
    return "\n".join(filter(None, parts))


def _since(store: Store, session: str, turn: int) -> str:
    """The writes of later turns that happened, or may have."""
    effects = store.ledger.after_turn(session, turn)
    done, _, unknown = effect_lines(effects)
    return _with_undone(store, receipt_text(Receipt(done=done, unknown=unknown)), effects)


def _with_undone(store: Store, record: str, effects: Iterable[EffectRecord]) -> str:
    """A record, and which of its writes do not stand any more, or may not."""
    lines = [record]
    for effect in effects:
        undoing = store.ledger.undone_by(effect.id) if effect.state == "committed" else None
        if undoing is not None:
            word = "Undone since" if undoing.state == "committed" else "Undone since, or maybe not"
            call = describe_call(effect.tool, effect.args)
            lines.append(f"{word}: {call} [{effect.id}], by {undoing.id}")
    return "\n".join(filter(None, lines))


def _beginning(message: BaseMessage) -> str:
    line = " ".join(message.text.split())
    return line if len(line) <= BEGINNING else f"{line[: BEGINNING - 1]}…"


def _closed(messages: Sequence[BaseMessage], source: str) -> list[BaseMessage]:
    """A call that waits in the source is open there, not here; its answer says so."""
    result: list[BaseMessage] = []
    for index, message in enumerate(messages):
        result.append(message)
        if isinstance(message, AIMessage):
            answered = {m.tool_call_id for m in _answers_after(messages, index)}
            result += [
                ToolMessage(
                    prompts.message("forked", source=source),
                    name=call["name"],
                    tool_call_id=call["id"],
                    status="error",
                )
                for call in message.tool_calls
                if call["id"] not in answered
            ]
    return result


def _answers_after(messages: Sequence[BaseMessage], index: int) -> list[ToolMessage]:
    """The tool messages between one AI message and the next message of another kind."""
    answers = []
    for message in messages[index + 1 :]:
        if not isinstance(message, ToolMessage):
            break
        answers.append(message)
    return answers
