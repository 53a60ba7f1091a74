"""Keys, and who they are for.

The terminal is in raw mode for as long as the chat runs, so that no key is ever echoed, lost
or turned into a signal between two prompts. A key is *typeahead* (kept for the next prompt)
unless somebody is asking at that moment; and an answer counts only when it was typed, alone,
after the question was on the screen:

- what arrived before ``asking`` was entered is typeahead;
- a paste is typeahead, bracketed or not: keys that arrive together were not pressed one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import signal
from collections.abc import Callable, Iterator

from prompt_toolkit.input import Input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import Output

ESCAPE_WAIT = 0.1
"""Seconds after which a lone escape byte is the Escape key and not the start of a sequence."""

CLOSED = "closed"
"""The key that is delivered when the terminal has gone."""

_NAMES = {
    Keys.ControlM: "enter",
    Keys.ControlJ: "enter",
    Keys.Escape: "escape",
    Keys.ControlC: "c-c",
    Keys.ControlD: "c-d",
    Keys.ControlI: "tab",
}
_PAGING = frozenset({" ", "enter"})
_SENT = "\r"
"""Stands in the text typed ahead for an Enter that sends; a line break there is ``\\n``."""
_NOT_TYPED = frozenset({Keys.CPRResponse, Keys.Vt100MouseEvent, Keys.WindowsMouseEvent})


class Typeahead:
    """Text typed while nobody asked, edited as it was typed.

    An Enter is a line break that stays visible. Only between two message prompts, with no turn
    and no question in between (``sending``), it sends, as it would at the prompt.
    """

    def __init__(self) -> None:
        self._text = ""
        self._sending = False

    @property
    def sending(self) -> bool:
        """Whether Enter sends."""
        return self._sending

    @sending.setter
    def sending(self, on: bool) -> None:
        self._sending = on
        if not on:  # what was sent before a turn began was meant for no moment after it
            self._text = self._text.replace(_SENT, "\n")

    def add(self, key: KeyPress) -> None:
        """Take a key: text and pastes are kept, backspace deletes, other keys say nothing."""
        if key.key == Keys.BracketedPaste:
            self._text += key.data.replace("\r\n", "\n").replace("\r", "\n")
        elif key.key in (Keys.ControlM, Keys.ControlJ):
            self._text += _SENT if self._sending else "\n"
        elif key.key == Keys.ControlH:
            self._text = self._text[:-1]
        elif not isinstance(key.key, Keys) and key.key.isprintable():
            self._text += key.key

    def put_back(self, text: str) -> None:
        """Text that was typed before what is here."""
        self._text = text + self._text

    def take_sent(self) -> str | None:
        """The first line or lines that an Enter has sent; ``None`` when there are none."""
        while _SENT in self._text:
            sent, _, self._text = self._text.partition(_SENT)
            if sent.strip():
                return sent.strip()
        return None

    def take(self) -> str:
        """The text, without blank ends but for one line break; it is empty afterwards."""
        text, self._text = self._text, ""
        stripped = text.strip()
        ends_a_line = "\n" in text[len(text.rstrip()) :]
        return f"{stripped}\n" if stripped and ends_a_line else stripped

    def __str__(self) -> str:
        return self._text.strip()


class Keyboard:
    """The one reader of the terminal's input while no line editor is open.

    Use it as a context: raw mode and bracketed paste are on inside and off after it, whatever
    happened.

    Args:
        source: prompt_toolkit's input.
        output: Where bracketed paste is switched on.
    """

    def __init__(self, source: Input, output: Output) -> None:
        self.source = source
        self.typeahead = Typeahead()
        self.on_interrupt: Callable[[], object] | None = None
        self._on_tab: Callable[[], object] | None = None
        self._show_typed: Callable[[str], None] | None = None
        self.closed = False
        self._output = output
        self._asked: Answers | None = None
        self._lent: Callable[[], None] | None = None
        self._question = 0
        self._flush: asyncio.TimerHandle | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Keyboard:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.source.raw_mode())
            stack.callback(self._bracketed_paste, False)
            self._bracketed_paste(True)
            stack.enter_context(self.source.attach(self._ready))
            stack.enter_context(_interrupt_signal(self.interrupt))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._flush is not None:
            self._flush.cancel()
        self._stack.close()

    @contextlib.contextmanager
    def asking(self) -> Iterator[Answers]:
        """Deliver keys as answers; enter it after the question has been drawn.

        What was typed until now, and what is left unread at the end, is typeahead.
        """
        self.drain()
        self.typeahead.sending = False
        answers = Answers()
        self._question += 1
        self._asked = answers
        if self.closed:
            answers.put(CLOSED)
        try:
            yield answers
        finally:
            self._asked = None
            self._question += 1
            for key in answers.unread():
                self.typeahead.add(key)

    @contextlib.contextmanager
    def echoing(self, show: Callable[[str], None]) -> Iterator[None]:
        """Call ``show`` with the text typed ahead, whenever it changes; Enter sends nothing."""
        self.typeahead.sending = False
        before, self._show_typed = self._show_typed, show
        try:
            yield
        finally:
            self._show_typed = before

    @contextlib.contextmanager
    def lent(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """While a line editor of prompt_toolkit reads: it starts with no key of before.

        Args:
            interrupt: What an interrupt signal does meanwhile.
        """
        self.drain()
        self.source.flush_keys()  # an escape of before is no part of what is typed next
        self._lent = interrupt
        try:
            yield
        finally:
            self._lent = None
            # Its renderer switches bracketed paste off, and keeps keys that it did not use.
            self._bracketed_paste(True)
            self._take_back()

    @contextlib.contextmanager
    def interrupted_by(self, callback: Callable[[], object]) -> Iterator[None]:
        """What Ctrl-C does while nobody asks and no line editor is open."""
        self.on_interrupt = callback
        try:
            yield
        finally:
            self.on_interrupt = None

    @contextlib.contextmanager
    def tab_calls(self, callback: Callable[[], object]) -> Iterator[None]:
        """What Tab does while nobody asks and no line editor is open."""
        self._on_tab = callback
        try:
            yield
        finally:
            self._on_tab = None

    def _take_back(self) -> None:
        """Keys that a line editor has read and not used: they came before any that come now."""
        for key in get_typeahead(self.source):
            self.typeahead.add(key)

    def drain(self) -> None:
        """Read what has arrived until now; it is typeahead."""
        asked, self._asked = self._asked, None
        while not self.closed and _readable(self.source.fileno()):
            self._ready()
        self._asked = asked

    def interrupt(self) -> None:
        """Ctrl-C, from the keyboard or as a signal."""
        if self._asked is not None:
            self._asked.put("c-c")
        elif self._lent is not None:
            self._lent()
        elif self.on_interrupt is not None:
            self.on_interrupt()

    def _ready(self) -> None:
        """Read the keys that have arrived; called by the event loop."""
        keys = self.source.read_keys()
        if self._lent is not None:  # the editor has let go of the input, and is still closing
            self._take_back()
        if self._flush is not None:
            self._flush.cancel()
        self._flush = asyncio.get_running_loop().call_later(
            ESCAPE_WAIT, self._flush_escape, self._question
        )
        self._dispatch(keys)
        if not self.closed and (
            self.source.closed or (not keys and _hung_up(self.source.fileno()))
        ):
            self._close()

    def _flush_escape(self, question: int) -> None:
        """A lone escape: for the question that stood when it was read, else for nobody."""
        self._flush = None
        if self._lent is not None:  # the line editor flushes for itself
            return
        keys = self.source.flush_keys()
        if question == self._question:
            self._dispatch(keys)

    def _dispatch(self, keys: list[KeyPress]) -> None:
        keys = [key for key in keys if key.key not in _NOT_TYPED]
        names = [_name(key) for key in keys]
        typed = len(keys) == 1 or set(names) <= _PAGING
        for key, name in zip(keys, names, strict=True):
            if name == "c-c":
                self.interrupt()
            elif self._asked is not None and typed and name:
                self._asked.put(name, key)
            elif self._asked is None and typed and name == "tab" and self._on_tab is not None:
                self._on_tab()
            else:
                self._keep(key)

    def _keep(self, key: KeyPress) -> None:
        self.typeahead.add(key)
        if self._show_typed is not None:
            with contextlib.suppress(OSError):  # as above: this is called by the event loop
                self._show_typed(str(self.typeahead))

    def _close(self) -> None:
        self.closed = True
        asyncio.get_running_loop().remove_reader(self.source.fileno())
        if self._asked is not None:
            self._asked.put(CLOSED)
        elif self.on_interrupt is not None:
            self.on_interrupt()

    def _bracketed_paste(self, on: bool) -> None:
        if on:
            self._output.enable_bracketed_paste()
        else:
            self._output.disable_bracketed_paste()
        with contextlib.suppress(OSError):  # the terminal has gone, which reading it will show
            self._output.flush()


class Answers:
    """Keys that were typed at a question, by name: ``"y"``, ``" "``, ``"enter"``, ``"c-c"``."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[tuple[str, KeyPress | None]] = asyncio.Queue()

    def put(self, name: str, key: KeyPress | None = None) -> None:
        """Deliver a key."""
        self._queue.put_nowait((name, key))

    async def get(self, patience: float | None = None) -> str | None:
        """The next key, or ``None`` after ``patience`` seconds without one."""
        try:
            async with asyncio.timeout(patience):
                name, _ = await self._queue.get()
        except TimeoutError:
            return None
        return name

    def unread(self) -> Iterator[KeyPress]:
        """Take what nobody has asked for."""
        while not self._queue.empty():
            _, key = self._queue.get_nowait()
            if key is not None:
                yield key


def _name(key: KeyPress) -> str:
    """The name of a key that can answer; empty for one that cannot, such as a paste."""
    if isinstance(key.key, Keys):
        return _NAMES.get(key.key, "")
    return key.key


def _readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def _hung_up(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


@contextlib.contextmanager
def _interrupt_signal(callback: Callable[[], None]) -> Iterator[None]:
    """SIGINT from outside counts as Ctrl-C (from the keyboard it is a key in raw mode)."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_signal_handler(signal.SIGINT, callback)
    except (ValueError, RuntimeError):  # not in the main thread: signals are not ours
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
