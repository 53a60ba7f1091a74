"""Markdown of a model: printed block by block while it streams, and nothing hidden.

A block is printed once the next one has begun, because only then can nothing change it any
more; so the scrollback is right and nothing is drawn twice. HTML is shown as the text it is,
links and images as their text and target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement, TableElement
from rich.table import Table

from agent.safe_text import plain


class _Heading(Heading):
    """Bold, at the left; Rich centres and boxes it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Table(TableElement):
    """With its cells whole; Rich cuts a long word in a narrow column off."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            for column in table.columns:
                column.overflow = "fold"
            yield table


class SafeMarkdown(Markdown):
    """Rich's Markdown without hyperlinks, HTML or control characters (entities included)."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "table_open": _Table,
    }

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.markup = plain(text)
        self.parsed = _parser().parse(self.markup)
        _make_safe(self.parsed)


class MarkdownStream:
    """Pieces of Markdown in, finished blocks out.

    Args:
        show: Called with each finished part, in order.
    """

    def __init__(self, show: Callable[[SafeMarkdown], None]) -> None:
        self._show = show
        self._text = ""
        self._parser = _parser()

    @property
    def unfinished(self) -> str:
        """What has come and is not printed yet."""
        return self._text

    def feed(self, piece: str) -> None:
        """Add a piece; prints the blocks that it completes."""
        self._text += plain(piece)
        if "\n" in piece:
            *whole, self._text = self._cut(self._text)
            self._print(whole)

    def finish(self) -> bool:
        """The reply is over: print the rest. Returns whether there was any."""
        rest, self._text = self._text, ""
        self._print(self._cut(rest))
        return bool(rest.strip())

    def _print(self, blocks: Iterable[str]) -> None:
        for block in blocks:
            if block.strip():
                self._show(SafeMarkdown(block))

    def _cut(self, text: str) -> list[str]:
        """The text, cut where its blocks begin; what stands before the first is kept with it."""
        lines = text.split("\n")
        starts = [t.map[0] for t in self._parser.parse(text) if t.map and t.level == 0]
        cuts = [0, *starts[1:], len(lines)]
        return ["\n".join(lines[i:j]) for i, j in pairwise(cuts)]


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])


def _make_safe(tokens: Iterable[Token]) -> None:
    for token in tokens:
        token.content = plain(token.content)
        token.info = plain(token.info)
        token.attrs = {key: _safe_value(value) for key, value in token.attrs.items()}
        if token.type == "image":  # Rich would draw it before the paragraph it stands in
            token.content = f"[image: {token.content}] ({token.attrs.get('src', '')})"
            token.type, token.tag, token.children = "text", "", None
        _make_safe(token.children or ())


def _safe_value(value: Any) -> Any:
    return plain(value) if isinstance(value, str) else value
