"""What the commands print: answers on stdout, everything else on stderr, nothing unescaped."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.store.records import Record


def say(text: str) -> None:
    """A remark of the program, a prompt or progress: stderr."""
    from agent.safe_text import plain

    print(plain(text), file=sys.stderr, flush=True)  # noqa: T201


def answer(text: str) -> None:
    """What was asked for: stdout."""
    from agent.safe_text import plain

    print(plain(text), flush=True)  # noqa: T201


def json_text(value: Any) -> str:
    """JSON in printable ASCII, on one line: nothing in it that a terminal would obey."""
    return json.dumps(value)


def answer_json(value: Any) -> None:
    """One JSON value on one line of stdout."""
    print(json_text(value), flush=True)  # noqa: T201


def answer_json_array(items: Iterable[Any]) -> None:
    """A JSON array on stdout, one item a line."""
    lines = ",\n".join(json_text(item) for item in items)
    print(f"[\n{lines}\n]" if lines else "[]", flush=True)  # noqa: T201


def as_json(record: Record) -> dict[str, Any]:
    """A row of the store by field names; a text without content is null."""
    return {name: None if value == "" else value for name, value in record.model_dump().items()}


def answer_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns on stdout; on a terminal the last one is cut to the width."""
    from agent.safe_text import one_line, shorten

    lines = [list(headings), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings) - 1)]
    room = _width() - sum(widths) - 2 * len(widths)
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        answer("  ".join([*cells, shorten(line[-1], max(room, 20))]).rstrip())


def answer_pairs(pairs: Mapping[str, Any]) -> None:
    """Names and values, one a line; what has no value is left out."""
    from agent.safe_text import one_line

    width = max(map(len, pairs))
    for name, value in pairs.items():
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json_text(value)
            answer(f"{name.ljust(width)}  {one_line(text)}")


def moment(at: str | None) -> str:
    """An ISO 8601 time as ``2026-01-31 12:00``, in UTC as it is stored."""
    return (at or "")[:16].replace("T", " ")


def on_terminal() -> bool:
    """Whether a person can be shown something here and answer it."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def confirm(question: str) -> bool:
    """Ask on the terminal; only ``y`` or ``yes``, typed after the question, is a yes."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
    _forget_typed()
    reply = sys.stdin.readline()
    if not reply:
        say("")
    return reply.strip().lower() in ("y", "yes")


def _forget_typed() -> None:
    """Keys typed before a question never answer it."""
    import termios

    with contextlib.suppress(termios.error, OSError, ValueError):  # not a terminal after all
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
