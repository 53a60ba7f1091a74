"""What the commands print: answers on stdout, everything else on stderr, nothing unescaped."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from agent.store.records import Record


_kept: list[TextIO] = []
"""The stream that answers go to while ``only_answers`` keeps all else away from stdout."""


@contextlib.contextmanager
def only_answers() -> Iterator[None]:
    """Meanwhile stdout is for answers alone: what else is printed there goes to stderr.

    A person's tools may print, and so may the programs that they start: who reads our stdout
    from a pipe must not find it between the answers.
    """
    own = sys.stdout
    own.flush()
    with contextlib.ExitStack() as stack:
        if _is_descriptor_1(own):
            kept = stack.enter_context(
                os.fdopen(os.dup(1), "w", encoding=own.encoding, errors=own.errors)
            )
            os.dup2(2, 1)
            stack.callback(os.dup2, kept.fileno(), 1)
            own = kept
        _kept.append(own)
        stack.callback(_kept.pop)
        stack.callback(own.flush)
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield


def _is_descriptor_1(stream: TextIO) -> bool:
    try:
        return stream.fileno() == 1
    except (OSError, ValueError):  # it stands for no file, as in a test
        return False


def _stdout() -> TextIO:
    return _kept[-1] if _kept else sys.stdout


def flush() -> None:
    """Let what was answered stand before what stderr says next."""
    _stdout().flush()


def say(text: str) -> None:
    """A remark of the program, a prompt or progress: stderr."""
    from agent.safe_text import plain

    print(plain(text), file=sys.stderr, flush=True)  # noqa: T201


def answer(text: str) -> None:
    """What was asked for: stdout."""
    from agent.safe_text import plain

    print(plain(text), file=_stdout(), flush=True)


def json_text(value: Any) -> str:
    """JSON in printable ASCII, on one line: nothing in it that a terminal would obey."""
    return json.dumps(value)


def answer_json(value: Any) -> None:
    """One JSON value on one line of stdout."""
    print(json_text(value), file=_stdout(), flush=True)


def answer_json_array(items: Iterable[Any]) -> None:
    """A JSON array on stdout, one item a line."""
    lines = ",\n".join(json_text(item) for item in items)
    print(f"[\n{lines}\n]" if lines else "[]", file=_stdout(), flush=True)


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
    streams = (sys.stdin, sys.stderr)  # either is None where the process was started without it
    return all(stream is not None and stream.isatty() for stream in streams)


def confirm(question: str) -> bool:
    """Ask on the terminal; only ``y`` or ``yes``, typed after the question, is a yes.

    Keys count as soon as ``[y/N]`` stands behind it.
    """
    print(question, end="", file=sys.stderr, flush=True)  # noqa: T201
    _forget_typed()
    print(" [y/N] ", end="", file=sys.stderr, flush=True)  # noqa: T201
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
    return shutil.get_terminal_size().columns if _stdout().isatty() else sys.maxsize
