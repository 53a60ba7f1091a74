"""A program on a real terminal: a pseudo-terminal for it, a screen for the test to look at.

``pexpect`` starts it, ``pyte`` is the terminal that draws and answers its questions. The program
runs under a small shell that notes the terminal's settings before and after, so that a test can
tell whether they were restored.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import Any

import pexpect
import pyte

PATIENCE = 30.0
"""Seconds to wait for a text before the test fails; reached only when something is broken."""

_SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")
_NOTED = 'sh -c \'echo $$ >"$0/pid"; exec "$@"\' "$0" "$@"'
_UNDER_A_SHELL = f'stty -g >"$0/before"; {_NOTED}; echo $? >"$0/code"; stty -g >"$0/after"'


class _Screen(pyte.HistoryScreen):
    """Answers what a program asks of its terminal, such as where the cursor is."""

    answer: Any = None

    def write_process_input(self, data: str) -> None:
        self.answer(data)


class Terminal:
    """A running program and what its terminal shows.

    Args:
        folder: Where the settings before and after, and the exit code, are kept.
        command: The program and its arguments.
        size: Rows and columns.
        environment: Added to a minimal environment.
        redirected: Whether standard output goes to the file ``stdout`` in the folder.
    """

    def __init__(
        self,
        folder: Path,
        command: list[str],
        *,
        size: tuple[int, int] = (40, 100),
        environment: dict[str, str] | None = None,
        redirected: bool = False,
    ) -> None:
        self.folder = folder
        self.raw = ""
        self._seen = 0
        self._screen = _Screen(size[1], size[0], history=2000)
        self._screen.answer = self.send
        self._stream = pyte.Stream(self._screen)
        script = _UNDER_A_SHELL
        if redirected:
            script = script.replace(_NOTED, f'{_NOTED} >"$0/stdout"')
        self.child = pexpect.spawn(
            "/bin/sh",
            ["-c", script, str(folder), *command],
            dimensions=size,
            encoding="utf-8",
            env={
                "PATH": "/usr/bin:/bin",
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "PYTHONPATH": ":".join(p for p in sys.path if p),
                **(environment or {}),
            },
            cwd=str(Path(__file__).parents[2]),
        )
        self.child.delaybeforesend = None

    @property
    def text(self) -> str:
        """All output so far without escape sequences."""
        return _SEQUENCES.sub("", self.raw)

    @property
    def display(self) -> str:
        """What is on the screen now."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def send(self, keys: str) -> None:
        """Press keys; several at once arrive together, as a paste does."""
        self.child.send(keys)

    def expect(self, text: str) -> str:
        """Wait until ``text`` comes after what was expected before; returns what came with it."""
        return self.expect_one_of(text)

    def expect_one_of(self, *texts: str) -> str:
        """Wait for whichever comes first; returns what came, the text at its end."""

        def first() -> tuple[int, int]:
            found = [(self.text.find(t, self._seen), len(t)) for t in texts]
            return min((pair for pair in found if pair[0] >= 0), default=(-1, 0))

        return self._until(first, " or ".join(texts))

    def expect_on_screen(self, text: str) -> str:
        """Wait until ``text`` is on the screen; returns the screen."""
        end = time.monotonic() + PATIENCE
        while text not in self.display:
            self._read(end, text)
        return self.display

    def close(self) -> int:
        """Wait for the end; returns the program's exit code."""
        end = time.monotonic() + PATIENCE
        while self.child.isalive() or not self._ended():
            try:
                self._read(end, "the end of the program")
            except EOFError:
                break
        self.child.close()
        return int((self.folder / "code").read_text())

    def program(self) -> int:
        """The process id of the program."""
        return int((self.folder / "pid").read_text())

    def is_restored(self) -> bool:
        """Whether the terminal is as it was: settings, cursor, bracketed paste."""
        same = (self.folder / "before").read_text() == (self.folder / "after").read_text()
        return same and all(
            self.raw.rfind(on) < self.raw.rfind(off) or on not in self.raw
            for on, off in (("\x1b[?2004h", "\x1b[?2004l"), ("\x1b[?25l", "\x1b[?25h"))
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()

    def hang_up(self) -> None:
        """Take the terminal away, as closing its window does."""
        self.child.ptyproc.fileobj.close()

    def kill(self) -> None:
        """End it, whatever it does."""
        self.child.close(force=True)

    def _ended(self) -> bool:
        return (self.folder / "after").exists()

    def _until(self, find: Any, text: str) -> str:
        end = time.monotonic() + PATIENCE
        while (found := find())[0] < 0:
            self._read(end, text)
        begin, self._seen = self._seen, sum(found)
        return self.text[begin : self._seen]

    def _read(self, end: float, text: str) -> None:
        left = end - time.monotonic()
        if left <= 0:
            raise AssertionError(f"{text!r} did not come. The screen:\n{self.display}")
        try:
            data = self.child.read_nonblocking(65536, timeout=min(left, 1.0))
        except pexpect.TIMEOUT:
            return
        except pexpect.EOF:
            raise EOFError(f"It ended before {text!r} came. The screen:\n{self.display}") from None
        self.raw += data
        self._stream.feed(data)
