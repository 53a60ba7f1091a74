"""The terminal as a place to print. Nothing reaches it unguarded.

Every renderable passes ``_Guarded``: whatever a model or a tool put into a text, a control
character in it leaves as a visible sign, and no style carries a hyperlink. The callers make
texts safe before layout (``agent.safe_text``); this is the last line.
"""

from __future__ import annotations

import contextlib
import sys
import termios
from collections.abc import Iterable, Iterator
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from agent.safe_text import plain

Lines = list[list[Segment]]


class Screen:
    """Prints what is worth keeping, and one status line that is wiped by the next print.

    Args:
        console: Where to print. Markup, emoji codes and highlighting are never used.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self._status = ""
        self._held = False

    @classmethod
    def on(cls, file: TextIO, *, width: int | None = None) -> Screen:
        """A screen on a stream; colours only where it is a terminal and NO_COLOR allows."""
        return cls(Console(file=file, width=width, highlight=False, markup=False, emoji=False))

    def show(self, *renderables: RenderableType) -> None:
        """Print below what is there; the status line comes back after it."""
        with self._status_wiped():
            for renderable in renderables:
                self.console.print(_Lines(self.lines(renderable)), end="")

    def note(self, text: str, style: str = "dim") -> None:
        """One remark of the program itself, or of somebody whose text is only made safe."""
        self.show(Text(plain(text), style))

    def error(self, text: str) -> None:
        """What went wrong, in the words of the error."""
        self.note(text, "bold red")

    def lines(self, renderable: RenderableType) -> Lines:
        """Lay out a renderable for this width, one list of segments a line, without padding."""
        shown = self.console.render_str(renderable) if isinstance(renderable, str) else renderable
        return [_trimmed(line) for line in self.console.render_lines(_Guarded(shown), pad=False)]

    def show_lines(self, lines: Lines) -> None:
        """Print lines made by ``lines``."""
        with self._status_wiped():
            self.console.print(_Lines(lines), end="")

    @property
    def height(self) -> int:
        """Rows of the terminal; without one, enough for anything (nothing is paged)."""
        return self.console.size.height if self.console.is_terminal else sys.maxsize

    def status(self, text: str, tail: str = "") -> None:
        """Show one transient line at the bottom, cut to the width; empty text removes it.

        Args:
            tail: Stands behind the text; what is being written, so that its end is shown.
        """
        if not self.console.is_terminal or self._held:
            return
        self._wipe()
        self._status = text + _end(tail, self.console.width - 1 - cell_len(text))
        self._draw_status()
        self.console.file.flush()

    @contextlib.contextmanager
    def status_line(self, text: str) -> Iterator[None]:
        """Show a status line, and remove whichever is there at the end."""
        self.status(text)
        try:
            yield
        finally:
            self.status("")

    @contextlib.contextmanager
    def handed_over(self) -> Iterator[None]:
        """While somebody else draws: the status line is removed and stays away."""
        self.status("")
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def drain(self) -> None:
        """Wait until everything printed has been handed to the terminal."""
        self.console.file.flush()
        with contextlib.suppress(OSError, ValueError, termios.error):
            termios.tcdrain(self.console.file.fileno())

    @contextlib.contextmanager
    def _status_wiped(self) -> Iterator[None]:
        self._wipe()
        try:
            yield
        finally:
            self._draw_status()
            self.console.file.flush()

    def _wipe(self) -> None:
        if self._status:
            self.console.file.write("\r\x1b[2K")

    def _draw_status(self) -> None:
        if self._status:
            text = Text(plain(self._status), "dim", no_wrap=True, overflow="ellipsis", end="")
            text.truncate(max(self.console.width - 1, 1), overflow="ellipsis")
            self.console.print(_Guarded(text), end="")


class Quoted:
    """What others say, with a bar before each of its lines on the screen: none can pass for a line
    of ours."""

    BAR = "  │ "

    def __init__(self, *said: RenderableType) -> None:
        self._said = Group(*said)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        inner = options.update(width=max(options.max_width - len(self.BAR), 1))
        for line in console.render_lines(self._said, inner, pad=False):
            yield from (Segment(self.BAR), *line, Segment.line())


class _Guarded:
    """A renderable whose segments hold nothing that a terminal would obey."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._inner, options):
            if segment.control:
                continue
            style = segment.style
            if style is not None and style.link:
                style = style.update_link(None)
            yield Segment(plain(segment.text), style)


class _Lines:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self._lines:
            yield from line
            yield Segment.line()


def _trimmed(line: list[Segment]) -> list[Segment]:
    """The line without blanks at its end, so that copied text has none either."""
    line = list(line)
    while line and not line[-1].text.strip() and not _painted(line[-1]):
        line.pop()
    if line and not _painted(line[-1]):
        line[-1] = Segment(line[-1].text.rstrip(" "), line[-1].style)
    return line


def _painted(segment: Segment) -> bool:
    return segment.style is not None and segment.style.bgcolor is not None


def _end(text: str, cells: int) -> str:
    """The end of a text on one line, as much of it as so many cells hold."""
    shown = plain(" ".join(text[-4 * max(cells, 0) :].split()))
    while cell_len(shown) > max(cells, 0):
        shown = shown[1:]
    return shown.lstrip()


def until(at: str | None) -> str:
    """Until when an "always" rule holds, in words; ``None``: as long as its session."""
    return f"until {at[:16].replace('T', ' ')} UTC" if at else "until the session ends"


def join(parts: Iterable[str], separator: str = " · ") -> str:
    """The parts that are not empty, as one line."""
    return separator.join(part for part in parts if part)
