"""The chat: read a message or a command, do it, and again.

``chat`` is the whole of it for the command line. The prompt takes keys while the application
(LangChain, the database, the model) is still being opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from prompt_toolkit.input import create_input
from prompt_toolkit.output import Output, create_output
from rich.text import Text

from agent import __version__
from agent.errors import LeaseLost, SaysoError, UsageError
from agent.mcp.waiting import Waiting
from agent.repl.commands import ChatCompleter, run_command
from agent.repl.faults import FatalError, for_person
from agent.repl.keys import Keyboard
from agent.repl.ports import Opener
from agent.repl.prompts import News, Prompts
from agent.repl.questions import POLL_SECONDS
from agent.repl.screen import Screen
from agent.repl.servers import names_of_prompts
from agent.repl.starting import Startup
from agent.repl.status import status_line
from agent.repl.talk import Talk


async def chat(
    open_app: Opener,
    *,
    waiting: Waiting | None = None,
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
        waiting: Which servers ``open_app`` waits for: shown, and Ctrl-C goes on without them.
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
    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            'The chat needs a terminal to read from; nothing was done. Use: sayso run "TASK"'
        )
    stream = sys.stdout if sys.stdout.isatty() else sys.stderr
    source, output = create_input(), create_output(stream)
    answers = Screen.on(sys.stdout)
    screen = answers if stream is sys.stdout else Screen.on(stream)
    with (
        _nothing_left_unwritten(stream),
        Keyboard(source, output) as keyboard,
        _end_signals() as ended_by,
    ):
        talk = Chat(
            open_app,
            screen,
            keyboard,
            output,
            answers=answers,
            waiting=waiting,
            one_model=one_model,
            history=history,
        )
        try:
            return await talk.run(session_id, continue_latest=continue_latest)
        except asyncio.CancelledError:
            if ended_by.signal is None:
                raise
            return 128 + ended_by.signal
        except OSError as error:
            if not has_gone(error, keyboard):
                raise
            ended_by.signal = ended_by.signal or signal.SIGHUP
            return 128 + ended_by.signal  # there is nowhere to say so


class Chat:
    """One person at one terminal.

    Args:
        open_app: See ``chat``.
        screen: Where panels, notes and progress are printed.
        keyboard: Already entered.
        output: prompt_toolkit's output, the same terminal as ``screen``.
        answers: Where turns are printed; ``screen`` unless standard output is redirected.
        waiting: See ``chat``.
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
        waiting: Waiting | None = None,
        one_model: bool = False,
        history: Path | None = None,
        poll: float = POLL_SECONDS,
    ) -> None:
        self._screen, self._keyboard, self._poll = screen, keyboard, poll
        self._fruitless = 0
        self._status = "starting…"
        self._startup = Startup(open_app, screen, keyboard, waiting or Waiting())
        self._prompts = Prompts(
            keyboard,
            screen,
            output,
            history=history,
            completer=ChatCompleter(self._session_names, self._prompt_names),
            toolbar=lambda: self._status,
        )
        self._talk = Talk(
            self._startup,
            screen,
            answers or screen,
            keyboard,
            self._prompts,
            one_model=one_model,
            poll=poll,
        )

    async def run(self, session_id: str | None, *, continue_latest: bool) -> int:
        """Greet, open what was asked for, and talk until the person leaves."""
        self._startup.begin()
        self._screen.show(
            Text.assemble(("sayso ", "bold"), __version__, "  ", ("/help for help", "dim"))
        )
        try:
            async with contextlib.AsyncExitStack() as stack:
                stack.push_async_callback(self._close)
                await self._begin(session_id, continue_latest)
                while not self._talk.leaving:
                    await self._shown(self._next())
        except FatalError as fatal:
            self._screen.error(str(fatal.error))
            return fatal.error.exit_code
        return 0

    async def _begin(self, session_id: str | None, continue_latest: bool) -> None:
        """Open the session that was asked for; a new one waits for the first message."""
        if session_id is None and not continue_latest:
            return
        if session_id is None:
            app = await self._startup.opened()
            latest = app.store.sessions.list(limit=1)
            if not latest:
                self._talk.greet(app)
                self._screen.note("There is no session yet; this is a new one.")
                return
            session_id = latest[0].id
        try:
            await self._talk.open(session_id)
        except SaysoError as error:
            if self._talk.session is None or isinstance(error, LeaseLost):
                raise FatalError(error) from error
            self._screen.error(str(error))  # it is open, and can be looked at and talked to

    async def _close(self) -> None:
        """Leave the session and stop opening."""
        await self._talk.leave_session()
        await self._startup.end()

    # --- one message or command ----------------------------------------------------------

    async def _next(self) -> None:
        """Read one message or command, and do it; before that, what was decided elsewhere."""
        if self._keyboard.closed:
            self._talk.leaving = True
            return
        if self._talk.has_news():
            await self._talk.go_on_with_news()
            return
        self._refresh_toolbar()
        try:
            async with self._watched():
                entry = await self._prompts.message()
        except EOFError:
            self._talk.leaving = True
        except KeyboardInterrupt:
            self._screen.note("Nothing is running. Ctrl-D or /quit leaves.")
        else:
            self._fruitless = 0
            await self._do(entry)

    async def _do(self, entry: str | News) -> None:
        """What the prompt gave: a command, a message, or that it was closed for news."""
        if isinstance(entry, News):
            self._keyboard.typeahead.put_back(entry.text)
            await self._talk.application()  # ends the chat when it could not be opened
            await self._talk.go_on_with_news()
        elif entry.startswith("/"):
            await run_command(self._talk, entry.strip())
        elif entry.strip():
            await self._talk.say(entry.strip())

    async def _shown(self, step: Awaitable[None]) -> None:
        """Do something; an error is shown, its details are kept when it is a fault, and the
        chat goes on, unless it has failed twice without reading anything in between."""
        self._fruitless += 1
        try:
            await step
            self._fruitless = 0
        except LeaseLost as error:
            raise FatalError(error) from error
        except FatalError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and has_gone(error, self._keyboard):
                raise
            told = for_person(error)
            if self._fruitless > 1:
                raise FatalError(told) from error
            self._screen.error(str(told))

    # --- beside the prompt ---------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """While the prompt is open: tell when the application is ready, or somebody decided."""
        watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher

    async def _watch(self) -> None:
        if not self._talk.greeted:
            app = await self._startup.finished()
            if app is None:
                self._prompts.wake()
                return
            await self._prompts.print_above(lambda: self._talk.greet(app))
            self._refresh_toolbar()
        while True:
            waits = bool(self._talk.pending())
            await asyncio.sleep(self._poll)  # another process decides; the store is all we share
            if waits and self._talk.has_news():
                self._prompts.wake()
                return
            if self._talk.has_notices():
                await self._prompts.print_above(self._talk.show_notices)

    def _refresh_toolbar(self) -> None:
        if app := self._startup.app:
            self._status = status_line(self._talk.model_in_use(app), self._talk.session)
        self._prompts.redraw()

    def _prompt_names(self) -> Iterable[tuple[str, str]]:
        app = self._startup.app
        return names_of_prompts(app.servers) if app else ()

    def _session_names(self) -> Iterable[tuple[str, str]]:
        app = self._startup.app
        return [(s.id, s.title) for s in app.store.sessions.list(limit=50)] if app else ()


def has_gone(error: OSError, keyboard: Keyboard) -> bool:
    """Whether what failed did so because the terminal is no longer there."""
    return keyboard.closed or error.errno in (errno.EIO, errno.ENXIO)


@contextlib.contextmanager
def _nothing_left_unwritten(stream: TextIO) -> Iterator[None]:
    """What a terminal that has gone did not take would fail once more as the process ends."""
    try:
        yield
    finally:
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


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
        if ended.signal is not None:  # a closed terminal says so more than once
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
