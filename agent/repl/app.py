"""The chat: read a message, draw the turn, ask about what waits, and again.

``chat`` is the whole of it for the command line. The prompt takes keys while the application
(LangChain, the database, the model) is still being opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from prompt_toolkit.input import create_input
from prompt_toolkit.output import Output, create_output
from rich.text import Text

from agent import __version__
from agent.errors import LeaseLost, SaysoError, UsageError
from agent.events import Done, Event
from agent.repl.commands import ChatCompleter, model_text, run_command, token_count
from agent.repl.desk import POLL_SECONDS, Desk, asking
from agent.repl.keys import Keyboard
from agent.repl.panel import call_line, decided_elsewhere
from agent.repl.ports import Application, Opener, Session
from agent.repl.prompts import News, Prompts
from agent.repl.render import TurnView, show_history, show_receipt
from agent.repl.screen import Screen, echo, join
from agent.safe_text import shorten, strict
from agent.store.records import ApprovalRecord

log = logging.getLogger("sayso")

_WORKING = "working · Ctrl-C stops it · what you type waits for your next message"


async def chat(
    open_app: Opener,
    *,
    session_id: str | None = None,
    continue_latest: bool = False,
    one_model: bool = False,
    history: Path | None = None,
) -> int:
    """Run the chat on this process's terminal until the person leaves.

    Args:
        open_app: Opens the application; started at once as a task beside the prompt. It must
            do its imports in a thread (``asyncio.to_thread``), or the prompt stands still. What
            it opened stays its caller's to close.
        session_id: A session to open instead of a new one (an id or its unique prefix).
        continue_latest: Open the latest session.
        one_model: Whether every session uses the application's model here, whatever its own is.
        history: The file that keeps earlier messages for the up-arrow.

    Returns:
        The exit code: 0 when the person left, 1 or 2 for an error that was shown, 128 and the
        signal's number when the process was asked to end.

    Raises:
        UsageError: When input is not a terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            'The chat needs a terminal to read from; nothing was done. Use: sayso run "TASK"'
        )
    stream = sys.stdout if sys.stdout.isatty() else sys.stderr
    source, output = create_input(), create_output(stream)
    answers = Screen.on(sys.stdout)
    screen = answers if stream is sys.stdout else Screen.on(stream)
    with Keyboard(source, output) as keyboard, _end_signals() as ended_by:
        talk = Chat(
            open_app,
            screen,
            keyboard,
            output,
            answers=answers,
            one_model=one_model,
            history=history,
        )
        try:
            return await talk.run(session_id, continue_latest=continue_latest)
        except asyncio.CancelledError:
            if ended_by.signal is None:
                raise
            return 128 + ended_by.signal
        except OSError:
            if not keyboard.closed:
                raise
            return 128 + signal.SIGHUP  # the terminal has gone; there is nowhere to say so


class Chat:
    """One person at one terminal; at most one session is open at a time.

    Args:
        open_app: See ``chat``.
        screen: Where panels, notes and progress are printed.
        keyboard: Already entered.
        output: prompt_toolkit's output, the same terminal as ``screen``.
        answers: Where turns are printed; ``screen`` unless standard output is redirected.
        one_model: See ``chat``.
        history: See ``chat``.
        poll: Seconds between two looks for decisions made elsewhere.
    """

    def __init__(
        self,
        open_app: Opener,
        screen: Screen,
        keyboard: Keyboard,
        output: Output,
        *,
        answers: Screen | None = None,
        one_model: bool = False,
        history: Path | None = None,
        poll: float = POLL_SECONDS,
    ) -> None:
        self.screen = screen
        self.session: Session | None = None
        self.leaving = False
        self._answers = answers or screen
        self._one_model = one_model
        self._keyboard = keyboard
        self._poll = poll
        self._open_app = open_app
        self._app: Application | None = None
        self._opening: asyncio.Future[Application] | None = None
        self._desk: Desk | None = None
        self._lease = contextlib.AsyncExitStack()
        self._view = TurnView(self._answers)
        self._greeted = False
        self._fruitless = 0
        self._at_rest: list[ApprovalRecord] = []
        self._prompts = Prompts(
            keyboard,
            screen,
            output,
            history=history,
            completer=ChatCompleter(self._session_names),
            toolbar=self._toolbar,
        )
        self._toolbar_text = "starting…"

    async def run(self, session_id: str | None, *, continue_latest: bool) -> int:
        """Greet, open what was asked for, and talk until the person leaves."""
        self._opening = asyncio.ensure_future(self._open_app())
        self.screen.show(
            Text.assemble(("sayso ", "bold"), __version__, "  ", ("/help for help", "dim"))
        )
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.push_async_callback(self._close)
                await self._begin(session_id, continue_latest)
                self._fruitless = 0
                while not self.leaving:
                    await self._shown(self._next_message())
        except _FatalError as fatal:
            self.screen.error(str(fatal.error))
            return fatal.error.exit_code
        return 0

    async def application(self) -> Application:
        """The application, greeted; says so when it has to be waited for."""
        self._app = await self._opened()
        self._greet()
        return self._app

    async def _opened(self) -> Application:
        assert self._opening is not None
        if not self._opening.done():
            self.screen.note("Still starting; it goes on as soon as everything is loaded.")
        try:
            with self._interrupted_by(self._opening.cancel):
                return await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            if not self._opening.cancelled():
                raise
            raise _FatalError(SaysoError("Stopped while starting; nothing was done.")) from None
        except SaysoError as error:
            raise _FatalError(error) from error

    def model_in_use(self) -> str:
        """The model that the open session uses, or a new one would; empty while starting."""
        if self._app is None:
            return ""
        if self.session is None or self._one_model:
            return self._app.model_name
        return self.session.record.model

    def pending(self) -> list[ApprovalRecord]:
        """What waits in the open session."""
        return self.session.pending() if self.session is not None else []

    async def ask_again(self) -> None:
        """Show the panel for everything that waits, what was left before included."""
        if self._desk is not None:
            self._desk.ask_again()
            await self._settle_and_go_on()

    async def open(self, session_id: str) -> None:
        """Leave the open session and go on with another one; its panel comes first.

        Raises:
            NotFound, SessionBusy: The open session stays open.
        """
        app = self._app = await self._opened()
        if self.session is not None and self.session.id == session_id:
            self.screen.note(f"{session_id} is the session that is open here.")
            return
        session = await self._enter(app, app.open_session(session_id))
        self._greet()
        record = session.record
        self.screen.note(join((record.id, record.state, strict(record.title))), "bold")
        for change in app.changes(record):
            self.screen.note(change, "yellow")
        show_history(self._answers, await session.history())
        if record.state == "waiting" or session.pending():
            await self._settle_and_go_on(decided=True)  # something may have been decided elsewhere
        elif how := _BROKEN_OFF.get(record.state):
            self.screen.note(f'{how} Say "continue" to go on.', "yellow")

    async def leave_session(self) -> None:
        """Close the open session, if there is one, and say how to come back."""
        session, self.session, self._desk = self.session, None, None
        if session is not None:
            try:
                await self._lease.aclose()
            finally:
                self.screen.note(f"To go on with this session: {_resume_command(session)}")
        self._refresh_toolbar()

    # --- one message ---------------------------------------------------------------------

    async def _begin(self, session_id: str | None, continue_latest: bool) -> None:
        """Open the session that was asked for; a new one waits for the first message."""
        if session_id is None and not continue_latest:
            return
        app = self._app = await self._opened()
        if session_id is None:
            latest = app.store.sessions.list(limit=1)
            if not latest:
                self._greet()
                self.screen.note("There is no session yet; this is a new one.")
                return
            session_id = latest[0].id
        try:
            await self.open(session_id)
        except SaysoError as error:
            if self.session is None or isinstance(error, LeaseLost):
                raise _FatalError(error) from error
            self.screen.error(str(error))  # it is open, and can be looked at and talked to

    async def _next_message(self) -> None:
        """Read one message or command, and do it."""
        if self._keyboard.closed:
            self.leaving = True
            return
        self._at_rest = self.pending()
        self._refresh_toolbar()
        try:
            async with self._news():
                entry = await self._prompts.message()
        except EOFError:
            self.leaving = True
        except KeyboardInterrupt:
            self.screen.note("Nothing is running. Ctrl-D or /quit leaves.")
        else:
            self._fruitless = 0
            await self._do(entry)

    async def _do(self, entry: str | News) -> None:
        """What the prompt gave: a command, a message, or the reason why it was closed."""
        if isinstance(entry, News):
            self._keyboard.typeahead.put_back(entry.text)
            await self.application()  # ends the chat when it could not be opened
            await self._go_on_with_news()
        elif entry.startswith("/"):
            await run_command(self, entry.strip())
        elif entry.strip():
            await self._say(entry.strip())

    async def _say(self, text: str) -> None:
        """Send a message; what waits is superseded only after the person agreed."""
        if self.session is None:
            app = await self.application()
            await self._enter(app, app.new_session())
        assert self.session is not None
        if self._decided_elsewhere():
            self._keyboard.typeahead.put_back(text)
            await self._go_on_with_news()
            return
        waiting = [approval for approval in self.session.pending() if approval.kind != "in_doubt"]
        if waiting and not await self._superseding(len(waiting)):
            self._keyboard.typeahead.put_back(text)
            return
        self._view = TurnView(self._answers)
        if waiting:
            events = self.session.run(text, supersede=True)
            await self._turn(self._after_superseding(waiting, events))
        elif text != "continue" or not await self._continued(self.session):
            await self._turn(self.session.run(text))
        await self._settle_and_go_on()

    async def _continued(self, session: Session) -> bool:
        """Whether a turn that was broken off had something left to do, which is done then."""
        if session.record.state not in ("interrupted", "failed"):
            return False
        return await self._turn(session.resume())

    async def _superseding(self, waiting: int) -> bool:
        what = "1 call waits" if waiting == 1 else f"{waiting} calls wait"
        question = f"{what}; send anyway and nothing of it runs? y/N"
        with asking(self.screen, self._keyboard, question) as answers:
            return await answers.get() == "y"

    async def _after_superseding(
        self, left: Sequence[ApprovalRecord], events: AsyncIterator[Event]
    ) -> AsyncGenerator[Event, None]:
        """The events of a turn; before the first one, what became of the calls that waited."""
        assert self._app is not None
        told = False
        try:
            async for event in events:
                if not told:
                    told = True
                    for approval in left:
                        row = self._app.store.approvals.get(approval.id)
                        self._answers.note(_left_behind(row), "yellow")
                yield event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()

    # --- a turn --------------------------------------------------------------------------

    async def _settle_and_go_on(self, *, decided: bool = False) -> None:
        """Ask about what waits and carry the session on, until nothing can be decided now.

        Args:
            decided: Whether something was decided already, so that the session can go on.
        """
        if self._desk is None or self.session is None or not (decided or self.session.pending()):
            return
        while await self._desk.settle() or decided:
            decided = False
            await self._turn(self.session.resume())
            if not self.session.pending():
                return
        show_receipt(self._answers, self.session.receipt())
        self.screen.note(f"Later, or elsewhere: {_resume_command(self.session)}")

    async def _turn(self, events: AsyncIterator[Event]) -> bool:
        """Draw a turn; Ctrl-C asks the session to stop, typed keys are kept.

        Returns:
            Whether anything happened before it was done.
        """
        happened = False
        with self._interrupted_by(self._stop), self._working():
            try:
                async for event in events:
                    self._view.show(event)
                    happened = happened or not isinstance(event, Done) or event.error is not None
            finally:
                self._view.finish()
                if isinstance(events, AsyncGenerator):
                    await events.aclose()
        return happened

    def _stop(self) -> None:
        assert self.session is not None
        sentence = self.session.request_stop()
        with contextlib.suppress(OSError):  # the terminal may be what has gone
            self.screen.note(sentence, "yellow")

    @contextlib.contextmanager
    def _working(self) -> Iterator[None]:
        """The status line while a turn runs; it echoes what is typed ahead."""

        def typed(text: str) -> None:
            self.screen.status(f"for your next message: {echo(text)}" if text else _WORKING)

        with self.screen.status_line(""), self._keyboard.echoing(typed):
            typed(str(self._keyboard.typeahead))
            yield

    @contextlib.contextmanager
    def _interrupted_by(self, callback: Callable[[], object]) -> Iterator[None]:
        self._keyboard.on_interrupt = callback
        try:
            yield
        finally:
            self._keyboard.on_interrupt = None

    # --- beside the prompt ---------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _news(self) -> AsyncIterator[None]:
        """While the prompt is open: tell when the application is ready, or somebody decided."""
        watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher

    async def _watch(self) -> None:
        assert self._opening is not None
        if not self._greeted:
            await asyncio.wait({self._opening})
            if self._opening.cancelled() or self._opening.exception() is not None:
                self._prompts.wake()
                return
            self._app = self._opening.result()
            await self._prompts.print_above(self._greet)
            self._refresh_toolbar()
        while self._at_rest:
            await asyncio.sleep(self._poll)  # another process decides; the store is all we share
            if self._decided_elsewhere():
                self._prompts.wake()
                return

    def _decided_elsewhere(self) -> list[str]:
        """Ids that waited when the session last came to rest, and are decided now."""
        still = {approval.id for approval in self.pending()}
        return [approval.id for approval in self._at_rest if approval.id not in still]

    async def _go_on_with_news(self) -> None:
        """Say who decided what elsewhere, and carry the session on with it."""
        assert self._app is not None
        decided = self._decided_elsewhere()
        for approval in decided:
            self.screen.note(decided_elsewhere(self._app.store.approvals.get(approval)), "green")
        if decided:
            await self._settle_and_go_on(decided=True)

    # --- small things --------------------------------------------------------------------

    def _greet(self) -> None:
        """The part of the banner that is known once the application is open; shown once."""
        if self._greeted or self._app is None:
            return
        self._greeted = True
        workspace = self._app.workspace
        rows = [f"model      {model_text(self.model_in_use())}"]
        if workspace:
            rows.append(f"workspace  {strict(str(workspace))}")
        rows += [f"note       {strict(notice)}" for notice in self._app.notices]
        self.screen.note("\n".join(rows))

    async def _enter(
        self, app: Application, opened: AbstractAsyncContextManager[Session]
    ) -> Session:
        """Hold another session; the open one is left only when that has worked."""
        async with contextlib.AsyncExitStack() as stack:
            session = await stack.enter_async_context(opened)
            await self.leave_session()
            self._lease = stack.pop_all()
        self._view = TurnView(self._answers)
        self.session = session
        self._desk = Desk(
            session, app.store.approvals, self.screen, self._keyboard, self._prompts, self._poll
        )
        return session

    async def _close(self) -> None:
        """Leave the session and stop opening; on a terminal that has gone, silently."""
        with contextlib.suppress(OSError):
            await self.leave_session()
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)

    async def _shown(self, step: Awaitable[None]) -> None:
        """Do something; an error is shown, its details are kept when it is a fault, and the
        chat goes on, unless it has failed twice without reading anything in between."""
        self._fruitless += 1
        try:
            await step
            self._fruitless = 0
        except LeaseLost as error:
            raise _FatalError(error) from error
        except _FatalError:
            raise
        except Exception as error:
            told = error if isinstance(error, SaysoError) else _fault(error)
            if self._keyboard.closed and isinstance(error, OSError):
                raise  # the terminal has gone
            if self._fruitless > 1:
                raise _FatalError(told) from error
            self.screen.error(str(told))

    def _refresh_toolbar(self) -> None:
        self._toolbar_text = self._status_text()
        self._prompts.redraw()

    def _toolbar(self) -> str:
        return self._toolbar_text

    def _status_text(self) -> str:
        """Model, session, labels, tokens and what waits, on one line."""
        if self._app is None:
            return "starting…"
        model = shorten(self.model_in_use(), 30)
        if self.session is None:
            return join((model, "new session"))
        record, waiting = self.session.record, len(self.session.pending())
        return join(
            (
                model,
                record.id,
                " ".join(record.labels),
                f"{token_count(sum(record.tokens.values()), model)} tokens",
                f"{waiting} waiting: /approvals" if waiting else "",
            )
        )

    def _session_names(self) -> Iterable[tuple[str, str]]:
        if self._app is None:
            return ()
        return [(s.id, s.title) for s in self._app.store.sessions.list(limit=50)]


class _FatalError(Exception):
    """An error that ends the chat, after it was shown."""

    def __init__(self, error: SaysoError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class _Ended:
    """The signal that ended the chat, if one did."""

    signal: int | None = None


@contextlib.contextmanager
def _end_signals() -> Iterator[_Ended]:
    """SIGTERM and SIGHUP cancel the chat, so that the session is closed and the terminal kept."""
    ended, loop, task = _Ended(), asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end(number: int) -> None:
        ended.signal = number
        task.cancel()

    numbers = (signal.SIGTERM, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, end, number)
    try:
        yield ended
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


_BROKEN_OFF = {
    "interrupted": "The last turn of this session was interrupted.",
    "running": "The last turn of this session was interrupted.",
    "failed": "The last turn of this session failed.",
    "stopped": "The last turn of this session was stopped by a limit.",
}


def _left_behind(approval: ApprovalRecord) -> str:
    """What became of a call that waited when the person moved on."""
    if approval.status == "superseded":
        return f"Not run, since you moved on: {call_line(approval, 80)} [{approval.id}]"
    return decided_elsewhere(approval)


def _fault(error: Exception) -> SaysoError:
    """One sentence for the person; the details are in the log."""
    log.error("the chat failed", exc_info=error)
    return SaysoError(
        f"Something unexpected failed: {type(error).__name__}: {error}. What was recorded before "
        "is kept. The details are in logs/sayso.log of the state folder (sayso doctor names it)."
    )


def _resume_command(session: Session) -> str:
    return f"sayso chat -r {session.id}"
