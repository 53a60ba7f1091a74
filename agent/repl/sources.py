"""Where each value of a call occurs, as a reviewer is shown it; drawing only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from agent.provenance import values_of
from agent.repl.screen import Quoted
from agent.safe_text import exact_json, one_line, shorten

WARNING = "bold red"
LONGEST = 200
"""Characters of a passage, or of a piece of a value, on the screen."""


def source_lines(
    sources: Iterable[Mapping[str, Any]], args: Mapping[str, Any], *, leaving: bool
) -> list[RenderableType]:
    """A line for each value (``agent.provenance.Source``), with the passage of strangers' text.

    The model's own stand out, and what comes out of strangers' text alone has the warning colour.

    Args:
        leaving: Whether the call takes its arguments to somebody else; then so has private data.
    """
    return [line for source in sources for line in _lines(source, args, leaving=leaving)]


def _lines(
    source: Mapping[str, Any], args: Mapping[str, Any], *, leaving: bool
) -> Iterator[RenderableType]:
    path = str(source.get("path", ""))
    is_private = leaving and bool(source.get("private"))
    is_foreign = source.get("origin") == "untrusted"
    parts = source.get("parts") or ()
    origin = f"{_origin(source)}{'; private data' if is_private and not parts else ''}"
    style = WARNING if is_private or is_foreign else _STYLES.get(str(source.get("origin")), "")
    yield _line(f"{one_line(path)}: {origin}", style)
    value = values_of(args).get(path)
    for part in parts:
        if leaving or part.get("origin") == "untrusted":
            yield _line(_part(part, value), WARNING)
    if (is_private or is_foreign) and (passage := source.get("passage")):
        yield Quoted(Text(one_line(shorten(str(passage), LONGEST)), overflow="fold"))


_STYLES = {"model": "bold"}


def _origin(source: Mapping[str, Any]) -> str:
    where = one_line(str(source.get("where") or source.get("tool")))
    match source.get("origin"):
        case "user":
            return "in your words"
        case "trusted" | "tool":
            return f"in a result of {where}"
        case "untrusted" if source.get("parts"):
            return "partly out of untrusted content"
        case "untrusted":
            return f"only in untrusted content, {where}"
        case "reviewer":
            return "in your edit"
        case "record":
            return "from what is recorded of the write it undoes"
        case "model" if source.get("parts"):
            return "the model wrote it; parts of it are in a result"
        case "model":
            return "nowhere before: the model wrote it, or it is a default"
    return exact_json(dict(source), indent=None)


def _part(part: Mapping[str, Any], value: Any) -> str:
    start, end = part.get("start", 0), part.get("end", 0)
    piece = str(value)[start:end] if value is not None else f"characters {start} to {end}"
    kind = "untrusted" if part.get("origin") == "untrusted" else ""
    kind = " and ".join(filter(None, (kind, "private" if part.get("private") else "")))
    said = one_line(shorten(piece, LONGEST))
    return f"“{said}” is in a result of {one_line(str(part.get('tool')))} ({kind or 'trusted'})"


def _line(text: str, style: str) -> Padding:
    """Further in than any line of ours, wherever the screen breaks it."""
    return Padding(Text(text, style, overflow="fold"), (0, 0, 0, 2))
