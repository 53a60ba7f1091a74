"""Driving a session without a chat: progress, Ctrl-C, and what a turn ends with.

Answers go to stdout, everything else to stderr. On exit 3 stdout has the session's id.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from agent.cli.output import answer, answer_json, as_json, say
from agent.errors import SaysoError, SessionBusy
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
from agent.store.records import Record
from agent.types import Receipt

if TYPE_CHECKING:
    from agent.application import Application
    from agent.cli.start import Plan
    from agent.session import AgentSession
    from agent.store.records import ApprovalRecord

Settle = Callable[["Application", "AgentSession"], Awaitable[bool]]
"""What to do when a session waits; returns whether it can be carried on at once."""

REST = ("done", "stopped", "interrupted", "cancelled", "failed")


@dataclass(frozen=True)
class Outcome:
    """How a session stands after a drive: its last Done, with the code to exit with."""

    done: Done
    receipt: Receipt
    waiting: tuple[ApprovalRecord, ...] = ()


class Reporter(Protocol):
    """Shows a drive."""

    def event(self, event: Event) -> None: ...
    def end(self, outcome: Outcome) -> None: ...


# --- driving -------------------------------------------------------------------------------


async def drive(
    app: Application,
    session_id: str,
    reporter: Reporter,
    *,
    text: str | None = None,
    settle: Settle | None = None,
) -> int:
    """Send a message, or carry on, until the session is at rest or waits; report it.

    Args:
        text: The message; ``None`` resumes.
        settle: Answers what waits, for a headless run.

    Returns:
        The exit code.

    Raises:
        SessionBusy: Another process holds the session; nothing was changed.
    """
    done = await _hold(app, session_id, reporter, text, settle)
    while _decided_meanwhile(app, session_id, done):
        try:
            done = await _hold(app, session_id, reporter, None, settle)
        except SessionBusy:
            break
    outcome = _outcome(app, done)
    reporter.end(outcome)
    return outcome.done.exit


async def _hold(
    app: Application, session_id: str, reporter: Reporter, text: str | None, settle: Settle | None
) -> Done:
    """Everything that is done under one lease."""
    async with app.open_session(session_id) as session:
        with _stopped_by_ctrl_c(session):
            done = await _follow(session.run(text) if text else session.resume(), reporter)
            while done.state == "waiting" and settle and await settle(app, session):
                done = await _follow(session.resume(), reporter)
        if done.state == "waiting" and session.record.state == "cancelled":
            done = replace(done, state="cancelled", exit=5)
        return done


async def _follow(events: AsyncIterator[Event], reporter: Reporter) -> Done:
    done: Done | None = None
    async for event in events:
        if isinstance(event, Done):
            done = event
        else:
            reporter.event(event)
    assert done is not None
    return done


def _decided_meanwhile(app: Application, session_id: str, done: Done) -> bool:
    """Whether somebody decided after this process looked for the last time.

    They found the lease taken and left the session to this process, so it goes on with it.
    """
    if done.state != "waiting":
        return False
    rows = app.store.approvals.list(status=None, session=session_id, limit=_RECENT)
    turn = app.store.sessions.get(session_id).turn
    return any(row.status != "pending" and _not_run(app, row) for row in rows if row.turn == turn)


_RECENT = 100


def _not_run(app: Application, approval: ApprovalRecord) -> bool:
    raise NotImplementedError
