"""The picture of the README, made by the program itself: ``make docs``.

``sayso chat`` runs in a pseudo-terminal, in an empty folder, with a state folder of its own and
the offline model. What is on the screen at the end becomes ``session.svg``. Names that differ
from run to run (ids, times, folders) are replaced by fixed ones, so that the picture changes
only when the program does.

    python docs/render.py [--output FILE]
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

import pexpect
import pyte

ROOT = Path(__file__).parents[1]
PICTURE = Path(__file__).with_name("session.svg")
COLUMNS, ROWS = 96, 70
PATIENCE = 60.0
"""Seconds to wait for a text on the screen; reached only when something is broken."""

SCRIPT = (
    ("new session", "Cancel orders A1 and A2 if they are still pending\r"),
    ("▸", "y"),
    ("Receipt", ""),
)
"""What to wait for on the screen, and what to type then."""


# --- the terminal ----------------------------------------------------------------------------


class _Screen(pyte.Screen):
    """A screen that knows faint text, and answers what a program asks of its terminal."""

    answer: Any = None

    def write_process_input(self, data: str) -> None:
        self.answer(data)

    def select_graphic_rendition(self, *attrs: int, **kwargs: Any) -> None:
        """Faint (2) is kept as the colour bright black, which nothing else here uses."""
        super().select_graphic_rendition(*(90 if a == 2 else a for a in attrs), **kwargs)


class Chat:
    """A running chat and what its terminal shows."""

    def __init__(self, folder: Path) -> None:
        workspace = folder / "shop"
        workspace.mkdir()
        self._screen = _Screen(COLUMNS, ROWS)
        self._screen.answer = self.send
        self._stream = pyte.Stream(self._screen)
        self._child = pexpect.spawn(
            sys.executable,
            ["-m", "agent", "chat"],
            dimensions=(ROWS, COLUMNS),
            encoding="utf-8",
            cwd=str(workspace),
            env={
                "PATH": "/usr/bin:/bin",
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "PYTHONPATH": str(ROOT),
                "SAYSO_HOME": str(folder / "state"),
                "SAYSO_REVIEWER": "ada",
            },
        )

    def send(self, keys: str) -> None:
        """Press keys."""
        self._child.send(keys)

    def wait_for(self, text: str) -> None:
        """Read until a text is on the screen."""
        end = time.monotonic() + PATIENCE
        while text not in self._shown():
            self._read(end, text)

    def settle(self) -> None:
        """Read until the prompt is back below the receipt and the screen stands still."""
        end, before = time.monotonic() + PATIENCE, ""
        while before != self._shown() or "›" not in self._shown().split("Receipt")[-1]:
            before = self._shown()
            self._read(end, "the prompt")

    def rows(self) -> list[list[Any]]:
        """The characters on the screen, with their colours, a list a row."""
        buffer = self._screen.buffer
        return [[buffer[y][x] for x in range(COLUMNS)] for y in range(ROWS)]

    def close(self) -> None:
        """Leave the chat as a person does."""
        self.send("\x04")
        self._child.expect(pexpect.EOF)
        self._child.close()

    def _shown(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def _read(self, end: float, awaited: str) -> None:
        if time.monotonic() > end:
            raise SystemExit(f"{awaited!r} did not come. The screen:\n{self._shown()}")
        try:
            self._stream.feed(self._child.read_nonblocking(65536, timeout=0.5))
        except pexpect.TIMEOUT:
            return
        except pexpect.EOF:
            raise SystemExit(f"The chat ended. The screen:\n{self._shown()}") from None


def play() -> list[list[Any]]:
    """Play the script and return the rows of the screen."""
    with tempfile.TemporaryDirectory(prefix="sayso-docs-") as folder:
        chat = Chat(Path(folder))
        for awaited, keys in SCRIPT:
            chat.wait_for(awaited)
            chat.send(keys)
        chat.settle()
        rows = chat.rows()
        chat.close()
    return rows


# --- the same in every run -------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """Characters of one look that stand side by side, from a column on."""

    column: int
    text: str
    color: str
    bold: bool
    reverse: bool


_ID = re.compile(r"\b[aers]-[0-9a-z]{6,9}\b")
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_FOLDER = re.compile(r"/\S*sayso-docs-[^/\s]*/shop")


class Stable:
    """Puts fixed names in place of those that differ from run to run."""

    def __init__(self) -> None:
        self._seen: dict[str, str] = {}
        self._first: date | None = None

    def __call__(self, line: str) -> str:
        """The line with fixed names."""
        line = _FOLDER.sub("/home/ada/shop", line)
        line = _TIME.sub(self._time, line)
        return _ID.sub(self._name, line)

    def _time(self, found: re.Match[str]) -> str:
        """The same half hour, as many days after the first time that was seen."""
        day = date.fromisoformat(found[0][:10])
        self._first = self._first or day
        return f"{date(2026, 11, 30) + (day - self._first)}T09:30:00.000000Z"

    def _name(self, found: re.Match[str]) -> str:
        """An id of the same kind and length, numbered in the order of appearance."""
        text = found[0]
        kind = sum(known[0] == text[0] for known in self._seen)
        return self._seen.setdefault(text, text[:2] + f"{kind + 1}kq7wxz4m"[: len(text) - 2])


def runs_of(row: Sequence[Any], stable: Stable) -> list[Run]:
    """A row as runs of one look, trailing space left out."""
    runs, column = [], 0
    for look, group in itertools.groupby(row, key=lambda c: (c.fg, c.bold, c.reverse)):
        text = stable("".join(character.data for character in group))
        runs.append(Run(column, text, *look))
        column += len(text)
    while runs and not runs[-1].text.strip() and not runs[-1].reverse:
        runs.pop()
    return runs


def without_gaps(lines: Iterable[list[Run]]) -> Iterator[list[Run]]:
    """Lines with at most one empty one in a row: the prompt keeps room for its menu."""
    for empty, group in itertools.groupby(lines, key=lambda line: not line):
        kept = list(group)
        yield from kept[:1] if empty else kept


_RESULT = re.compile(r"  (\d+) (?!allowed|asks)")


def in_order(lines: Iterable[list[Run]]) -> Iterator[list[Run]]:
    """Results of calls that ran side by side, by number: which is first differs from run to run."""

    def result(line: list[Run]) -> re.Match[str] | None:
        return _RESULT.match("".join(run.text for run in line))

    def number(line: list[Run]) -> int:
        found = result(line)
        return int(found[1]) if found else 0

    for are_results, group in itertools.groupby(lines, key=lambda line: bool(result(line))):
        neighbours = list(group)
        yield from sorted(neighbours, key=number) if are_results else neighbours


# --- the picture -----------------------------------------------------------------------------

CELL_WIDTH, CELL_HEIGHT, SIZE, MARGIN = 8.4, 18, 14, 18
BACKGROUND, FOREGROUND, FAINT = "#16181d", "#d6d9de", "#868d98"
COLORS = {
    "default": FOREGROUND,
    "brightblack": FAINT,
    "red": "#f2777a",
    "green": "#8fce7e",
    "brown": "#e8c56b",  # what pyte calls yellow
    "yellow": "#e8c56b",
    "blue": "#7fb0f0",
    "magenta": "#d3a4e8",
    "cyan": "#74c7cc",
    "white": FOREGROUND,
}


def picture(lines: Sequence[list[Run]]) -> str:
    """The lines as an SVG that needs no font but a monospaced one: every run has its width."""
    width = round(COLUMNS * CELL_WIDTH + 2 * MARGIN)
    height = len(lines) * CELL_HEIGHT + 2 * MARGIN
    drawn = "\n".join(
        _drawn(run, MARGIN + (number + 1) * CELL_HEIGHT - 5)
        for number, line in enumerate(lines)
        for run in line
        if run.text.strip()
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">
<title>A session of sayso chat: reads run by themselves, a write waits for a person</title>
<style>
text {{ font: {SIZE}px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  white-space: pre; }}
.b {{ font-weight: bold; }}
</style>
<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>
{drawn}
</svg>
"""


def _drawn(run: Run, baseline: float) -> str:
    text = run.text.rstrip()
    column = run.column + len(text) - len(text.lstrip())
    text = text.lstrip()
    color = COLORS.get(run.color, f"#{run.color}" if len(run.color) == 6 else FOREGROUND)
    if run.reverse:  # the prompt's own status line
        color = FAINT
    bold = ' class="b"' if run.bold else ""
    return (
        f'<text x="{MARGIN + column * CELL_WIDTH:.1f}" y="{baseline:g}" fill="{color}"{bold} '
        f'textLength="{len(text) * CELL_WIDTH:.1f}" xml:space="preserve">{escape(text)}</text>'
    )


def main() -> None:
    """Play a session and write its picture."""
    parser = argparse.ArgumentParser(description="Renew the picture of the README.")
    parser.add_argument("--output", type=Path, default=PICTURE, help="Instead of session.svg.")
    output: Path = parser.parse_args().output
    stable = Stable()
    lines = list(in_order(without_gaps(runs_of(row, stable) for row in play())))
    while lines and not lines[-1]:
        lines.pop()
    output.write_text(picture(lines), encoding="utf-8")
    sys.stdout.write(f"{output}\n")


if __name__ == "__main__":
    main()
