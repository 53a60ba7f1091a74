"""The application, opened beside the prompt: LangChain takes seconds to import."""

from __future__ import annotations

import asyncio

from agent.errors import SaysoError
from agent.mcp.waiting import Waiting
from agent.repl.faults import FatalError, for_person
from agent.repl.keys import Keyboard
from agent.repl.ports import Application, Opener
from agent.repl.screen import Screen
from agent.safe_text import one_line


class Startup:
    """Opens the application once, in a task of its own.

    Args:
        open_app: See ``agent.repl.app.chat``.
        screen: Where it is said that something has to wait.
        keyboard: Its Ctrl-C stops the start, while somebody waits for it.
        waiting: Which servers the start waits for; then Ctrl-C goes on without them instead.
    """

    def __init__(
        self, open_app: Opener, screen: Screen, keyboard: Keyboard, waiting: Waiting
    ) -> None:
        self._open_app, self._screen, self._keyboard = open_app, screen, keyboard
        self._waiting = waiting
        self._opening: asyncio.Future[Application] | None = None

    def begin(self) -> None:
        """Start opening it."""
        self._opening = asyncio.ensure_future(self._open_app())

    @property
    def app(self) -> Application | None:
        """The application; ``None`` while it is being opened, or when it could not be."""
        task = self._opening
        if task is None or not task.done() or task.cancelled() or task.exception() is not None:
            return None
        return task.result()

    async def finished(self) -> Application | None:
        """Wait without a word; ``None`` when it could not be opened."""
        assert self._opening is not None
        await asyncio.wait({self._opening})
        return self.app

    async def opened(self) -> Application:
        """The application; says so when it has to be waited for.

        Raises:
            FatalError: It cannot be opened, or Ctrl-C stopped the start.
        """
        assert self._opening is not None
        if not self._opening.done():
            self._screen.note("Still starting; it goes on as soon as everything is loaded.")
        try:
            with self._keyboard.interrupted_by(self._interrupt), self._screen.status_line(""):
                while not self._opening.done():
                    self._screen.status(self._waited_for())
                    await asyncio.wait({self._opening}, timeout=1)
                return self._opening.result()
        except asyncio.CancelledError:
            if not self._opening.cancelled():
                raise
            raise FatalError(SaysoError("Stopped while starting; nothing was done.")) from None
        except Exception as error:
            raise FatalError(for_person(error)) from error

    def _waited_for(self) -> str:
        """Which servers are waited for, how long already, and how to wait no longer."""
        names = " and ".join(map(one_line, self._waiting.servers))
        them = "it" if len(self._waiting.servers) == 1 else "them"
        seconds = f"{self._waiting.seconds:.0f} s"
        return f"waiting for {names} ({seconds}; Ctrl-C goes on without {them})" if names else ""

    def _interrupt(self) -> None:
        assert self._opening is not None
        if self._waiting.servers:
            self._waiting.go_on()
        else:
            self._opening.cancel()

    async def end(self) -> None:
        """Stop opening it, if that is still going on. What was opened stays its opener's."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.gather(self._opening, return_exceptions=True)
