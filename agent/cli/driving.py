"""Driving a session without a chat: Ctrl-C, decisions made meanwhile, the code to exit with."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent.cli.output import say
from agent.cli.report import Outcome, Reporter
from agent.errors import SaysoError, SessionBusy
from agent.events import ApprovalAsked, Done, Event, ReceiptReady

if TYPE_CHECKING:
    from agent.application import Application
    from agent.session import AgentSession

Settle = Callable[["Application", "AgentSession"], Awaitable[Done | None]]
"""Answers what waits, for a headless run. ``None``: decisions were recorded, carry the session
on. A Done: that is how it ends."""

Begin = Callable[["AgentSession"], AsyncGenerator[Event, None]]
"""Begins a turn."""


@dataclass
class _Pass:
    """One pass of a session: how it ended, what it asked, whether anything happened in it."""

    done: Done
    asked: list[str] = field(default_factory=list)
    happened: bool = True


async def drive(
    app: Application,
    session_id: str,
    reporter: Reporter,
    *,
    begin: Begin | None = None,
    settle: Settle | None = None,
    again: bool = True,
) -> int:
    """Let a session go on until it is at rest or waits; report it.

    Args:
        begin: What it does first, such as taking a message; ``None`` resumes.
        settle: Answers what waits; without it a session that waits is left waiting.
        again: Whether the answer of a turn that had ended before is given once more.

    Returns:
        The exit code.

    Raises:
        SessionBusy: Another process holds the session; nothing was changed.
    """
    last = await _hold(app, session_id, reporter, begin, settle)
    while _decided_meanwhile(app, last):
        try:
            last = await _hold(app, session_id, reporter, None, settle)
        except SessionBusy:
            break  # whoever decided has gone on with it
    done = last.done if last.happened or again else replace(last.done, answer="")
    outcome = _outcome(app, done)
    reporter.end(outcome)
    return outcome.done.exit


async def _hold(
    app: Application,
    session_id: str,
    reporter: Reporter,
    begin: Begin | None,
    settle: Settle | None,
) -> _Pass:
    """Everything that is done under one lease."""
    async with app.open_session(session_id) as session:
        with _stopped_by_signals(session):
            events = session.resume() if begin is None else begin(session)
            last = await _follow(events, reporter)
            while last.done.state == "waiting" and settle is not None:
                ended = await settle(app, session)
                if ended is not None:
                    if receipt := session.receipt():  # the one that was shown still waited
                        reporter.show(ReceiptReady(receipt))
                    return _Pass(ended)
                last = await _follow(session.resume(), reporter)
            return last


async def _follow(events: AsyncGenerator[Event, None], reporter: Reporter) -> _Pass:
    asked: list[str] = []
    happened = False
    async with contextlib.aclosing(events):
        async for event in events:
            if isinstance(event, Done):
                return _Pass(event, asked, happened)
            happened = True
            if isinstance(event, ApprovalAsked):
                asked.append(event.approval.id)
            reporter.show(event)
    raise AssertionError("a turn ended without Done")


def _decided_meanwhile(app: Application, last: _Pass) -> bool:
    """Whether somebody decided after the session was looked at for the last time.

    They found the lease taken and left the session to this process.
    """
    return last.done.state == "waiting" and any(
        app.store.approvals.get(asked, whole=True).status != "pending" for asked in last.asked
    )


def _outcome(app: Application, done: Done) -> Outcome:
    """What waits comes before every other way to end, but for an interruption."""
    from agent.receipt import build_receipt

    record = app.store.sessions.get(done.session)
    waiting = app.store.approvals.list(status="pending", session=done.session, limit=_ALL)
    if waiting and done.state != "interrupted":
        done = replace(done, exit=3)
    return Outcome(done, build_receipt(app.store, done.session, record.turn), tuple(waiting))


_ALL = 1000


class Ended(SaysoError):
    """A signal asked the process to end; the session was closed in order."""

    def __init__(self, session: str, number: int) -> None:
        self.exit_code = 128 + number
        super().__init__(
            f"Ended by {signal.Signals(number).name}; the session is in order. "
            f"Carry it on: sayso resume {session}"
        )


@contextlib.contextmanager
def _stopped_by_signals(session: AgentSession) -> Iterator[None]:
    """Ctrl-C stops the turn safely, a second one at once; SIGTERM and SIGHUP end the process.

    Raises:
        Ended: After SIGTERM or SIGHUP.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    received: list[int] = []

    def end(number: int) -> None:
        received.append(number)
        task.cancel()

    loop.add_signal_handler(signal.SIGINT, lambda: say(session.request_stop()))
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end, number)
    try:
        yield
    except asyncio.CancelledError:
        if not received:
            raise
        raise Ended(session.id, received[0]) from None
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(number)
