"""The places where a person writes: the message prompt, one-line questions, the JSON editor.

All three are prompt_toolkit line editors on the keyboard's input. They start with the text
they are given and never with keys that were typed for something else.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from agent.repl.keys import Keyboard
from agent.repl.screen import Screen
from agent.safe_text import plain

_STYLE = Style.from_dict({"prompt": "bold ansicyan", "bottom-toolbar": "noreverse ansibrightblack"})
_T = TypeVar("_T")


@dataclass(frozen=True)
class News:
    """What the message prompt returns when it was closed for news, with what was typed."""

    text: str


class Prompts:
    """The three line editors.

    Args:
        keyboard: Whose input they borrow.
        screen: Its status line is out of the way while one is open.
        output: prompt_toolkit's output.
        history: The file of earlier messages, made readable by its owner only; ``None`` keeps
            them in memory.
        completer: Completes messages (commands, session ids).
        toolbar: The text under the message prompt.
    """

    def __init__(
        self,
        keyboard: Keyboard,
        screen: Screen,
        output: Output,
        *,
        history: Path | None,
        completer: Completer,
        toolbar: Callable[[], str],
    ) -> None:
        self._keyboard = keyboard
        self._screen = screen
        self._output = output
        self._toolbar = toolbar
        self._message: PromptSession[str | News] = PromptSession(
            FormattedText([("class:prompt", "› ")]),
            multiline=True,
            prompt_continuation="  ",
            completer=completer,
            complete_while_typing=True,
            complete_in_thread=True,
            reserve_space_for_menu=5,
            history=_history(history),
            key_bindings=_message_keys(),
            bottom_toolbar=lambda: plain(self._toolbar()),
            style=_STYLE,
            enable_suspend=True,
            input=keyboard.source,
            output=output,
        )

    async def message(self) -> str | News:
        """A message for the agent, or a command; starts with what was typed ahead.

        What was typed ahead and sent with Enter, since the prompt was last open, is sent.

        Returns:
            What was sent, or ``News`` when ``wake`` was called meanwhile.

        Raises:
            EOFError: Ctrl-D on an empty line, or the terminal has gone.
            KeyboardInterrupt: Ctrl-C; what was typed is dropped.
        """
        return await self._read(self._message, take_typeahead=True)

    def wake(self) -> None:
        """Close the message prompt if it is open: there is news to show."""
        if self._message.app.is_running and not self._message.app.is_done:
            self._message.app.exit(result=News(self._message.default_buffer.text))

    async def print_above(self, draw: Callable[[], None]) -> None:
        """Print something while the message prompt is open, above it.

        prompt_toolkit's ``run_in_terminal`` is for the same, but puts the terminal into cooked
        mode meanwhile: an Enter pressed just then would arrive as a line feed, a new line.
        """
        app = self._message.app
        if app.is_running:
            # An answer about the cursor that was asked for before this is drawn would be taken
            # for the place after it, and the screen would scroll by the difference.
            await app.renderer.wait_for_cpr_responses(timeout=1)
        if not app.is_running:
            draw()
            return
        app.renderer.erase()
        draw()
        app.renderer.request_absolute_cursor_position()
        app.invalidate()

    def redraw(self) -> None:
        """Draw the toolbar again."""
        self._message.app.invalidate()

    async def line(self, question: str) -> str | None:
        """One line of text; ``None`` when the person went back with Esc, Ctrl-C or Ctrl-D."""
        keys = KeyBindings()
        _going_back(keys)
        session: PromptSession[str | None] = PromptSession(
            FormattedText([("class:prompt", plain(question) + " ")]),
            key_bindings=keys,
            style=_STYLE,
            input=self._keyboard.source,
            output=self._output,
        )
        return await self._read_or_go_back(session)

    async def edit(self, text: str) -> str | None:
        """Edit several lines; Ctrl-S takes them, ``None`` when the person went back."""
        keys = KeyBindings()
        _going_back(keys)

        @keys.add("c-s")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.validate_and_handle()

        session: PromptSession[str | None] = PromptSession(
            "",
            multiline=True,
            key_bindings=keys,
            bottom_toolbar="Ctrl-S takes these arguments · Esc goes back, nothing changed",
            style=_STYLE,
            input=self._keyboard.source,
            output=self._output,
        )
        return await self._read_or_go_back(session, text)

    async def _read_or_go_back(
        self, session: PromptSession[str | None], text: str = ""
    ) -> str | None:
        try:
            return await self._read(session, text)
        except (EOFError, KeyboardInterrupt):
            return None

    async def _read(
        self, session: PromptSession[_T], text: str = "", *, take_typeahead: bool = False
    ) -> _T:
        session.app.ttimeoutlen = 0.1
        session.app.timeoutlen = 0.3

        def interrupt() -> None:
            if session.app.is_running and not session.app.is_done:
                session.app.exit(exception=KeyboardInterrupt())

        with self._screen.handed_over(), self._keyboard.lent(interrupt):
            if not take_typeahead:
                return await session.prompt_async(default=text, handle_sigint=False)
            typeahead = self._keyboard.typeahead
            sent = typeahead.take_sent()
            text = typeahead.take() if sent is None else sent
            typeahead.sending = True  # for what comes while the editor is being closed, too
            return await session.prompt_async(
                default=text, accept_default=sent is not None, handle_sigint=False
            )


def _message_keys() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("c-j")
    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return keys


def _going_back(keys: KeyBindings) -> None:
    @keys.add("escape")
    def _(event: KeyPressEvent) -> None:
        event.app.exit(result=None)


def _history(path: Path | None) -> History:
    """Earlier messages, in a file that only its owner can read."""
    if path is None:
        return InMemoryHistory()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    path.chmod(0o600)
    return FileHistory(str(path))
