"""A long text on the terminal, a screenful at a time, for who has to have seen all of it."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from agent.repl.screen import Lines, Screen

ROOM_FOR_A_QUESTION = 4
"""Rows that stay free below what is shown at once: a question stands there, and its answer."""


def show_whole(screen: Screen, whole: RenderableType, in_short: RenderableType) -> bool:
    """Show something that is to be decided about, as far as the person wants to see it.

    Args:
        in_short: What it is about: shown at the end, right above the question, where the whole
            took more than one screen.

    Returns:
        Whether all of it was shown; ``False``: the person left before its end.
    """
    lines = screen.lines(whole)
    if len(lines) <= screen.height - ROOM_FOR_A_QUESTION:
        screen.show_lines(lines)
        return True
    if not asyncio.run(_paged(screen, lines)):
        return False
    screen.show(in_short)
    return True


async def _paged(screen: Screen, lines: Lines) -> bool:
    from prompt_toolkit.input import create_input
    from prompt_toolkit.output import create_output

    from agent.repl.keys import Keyboard
    from agent.repl.questions import Questions

    with Keyboard(create_input(), create_output(sys.stderr)) as keyboard:
        questions = Questions(screen, keyboard)
        return await questions.show_whole(lines, lambda: False) == "shown"
