"""Questions that one key answers, and long texts that have to be seen whole first.

A key counts only after its question was on the screen, and only when it was typed afterwards
(``keys``). While a question stands it can become void, since somebody may decide elsewhere.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from agent.repl.keys import CLOSED, Answers, Keyboard
from agent.repl.screen import Lines, Screen

POLL_SECONDS = 0.5
"""How often an open question asks whether it is void."""

KEY_MARK = "▸"
"""Stands at the bottom while a key is waited for."""

LEAVE = frozenset({"q", "escape", "c-c", "c-d", CLOSED})
"""Keys that leave any question unanswered."""

_MORE = frozenset({" ", "enter"})
_ROWS_FOR_KEYS = 3  # the line with the keys, the status line, and one to spare

Void = Callable[[], bool]
"""Whether a question has become void; says why when it has."""


@dataclass(frozen=True)
class Questions:
    """Puts questions on the screen and takes the keys that answer them."""

    screen: Screen
    keyboard: Keyboard
    poll: float = POLL_SECONDS

    async def yes(self, question: str) -> bool:
        """One key: ``y`` is a yes, any other a no."""
        with self._asking(question) as answers:
            return await answers.get() == "y"

    async def key(
        self,
        question: str,
        keys: set[str],
        void: Void,
        *,
        otherwise: str = "",
        transient: bool = False,
    ) -> str | None:
        """Wait for one of the keys, or one that leaves.

        Args:
            question: Names the keys; the last thing printed before a key can count.
            keys: The keys that are returned, beside those that leave.
            otherwise: What to say to any other key.
            transient: Whether the question is wiped afterwards.

        Returns:
            The key; ``None`` when the question became void.
        """
        with self._asking(question, transient=transient) as answers:
            while True:
                key = await answers.get(self.poll)
                if key is None:
                    if void():
                        return None
                elif key in keys or key in LEAVE:
                    return key
                else:
                    self.screen.note(otherwise or f"That key does nothing here. {question}")

    async def show_whole(self, lines: Lines, void: Void) -> Literal["shown", "left", "void"]:
        """Print lines, a screenful at a time; a key for the next one, never an answer."""
        page = max(self.screen.height - _ROWS_FOR_KEYS, 1)
        for start in range(0, len(lines), page):
            self.screen.show_lines(lines[start : start + page])
            rest = len(lines) - start - page
            if rest <= 0:
                break
            key = await self.key(
                f"Space shows {rest} more {'line' if rest == 1 else 'lines'} · q leaves it waiting",
                set(_MORE),
                void,
                transient=True,
                otherwise="Show the rest first (Space): the whole call has to be seen.",
            )
            if key is None:
                return "void"
            if key in LEAVE:
                return "left"
        return "shown"

    @contextlib.contextmanager
    def _asking(self, question: str, *, transient: bool = False) -> Iterator[Answers]:
        """Put a question; ``KEY_MARK`` shows that keys count from now on."""
        screen, keyboard = self.screen, self.keyboard
        if not transient:
            screen.note(question, "bold")
        screen.drain()
        mark = f"{KEY_MARK} {question}" if transient else KEY_MARK
        with (
            keyboard.asking() as answers,
            screen.status_line(mark),
            keyboard.echoing(
                lambda text: screen.status(f"{mark} pasted, for your next message: ", text)
            ),
        ):
            yield answers
