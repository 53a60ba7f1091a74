"""A folder of pages as a small web: each file has a head (url, title, date, site) and text.

Ranking is BM25 over title and text (``bm25s``, loaded at the first search).
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

BUNDLED = Path(__file__).parent / "corpus"
SNIPPET_LENGTH = 240

_HEAD = re.compile(r"---\n(.*?)\n---\n(.*)", re.DOTALL)
_FIELDS = ("url", "title", "date", "site")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_QUESTION_WORDS = frozenset(
    _WORD.findall("""
    a about an and are as at be but by did do does find for from had has have how i in into is it
    its many me much no not of on or said say says she so some tell than that the their then
    there these they this to us was we were what when where which who why will with you
    """)
)


class MalformedPage(ValueError):
    """A file of the corpus has no head, or a field of it is missing."""


@dataclass(frozen=True)
class WebPage:
    """One page. ``date`` is when it was published, ``YYYY-MM-DD``; ``text`` is plain text."""

    url: str
    title: str
    date: str
    site: str
    text: str


@dataclass(frozen=True)
class Hit:
    """A page that matched, with the passage that matched best."""

    page: WebPage
    snippet: str


class Corpus:
    """The pages of one folder (``*.md`` and ``*.txt``), read at the first use.

    Raises:
        MalformedPage: At the first use, naming the file.
    """

    def __init__(self, folder: Path | str = BUNDLED) -> None:
        self.folder = Path(folder)

    @cached_property
    def pages(self) -> tuple[WebPage, ...]:
        """All pages, in the order of their file names."""
        files = (f for f in sorted(self.folder.iterdir()) if f.suffix in (".md", ".txt"))
        return tuple(_read_page(file) for file in files)

    def get(self, url: str) -> WebPage | None:
        """The page at ``url``; scheme, ``www.``, a final slash and the host's case do not count."""
        return self._by_address.get(_address(url))

    def closest(self, url: str, count: int = 3) -> tuple[str, ...]:
        """The urls most like this one, best first."""
        near = difflib.get_close_matches(_address(url), self._by_address, n=count, cutoff=0.3)
        return tuple(self._by_address[address].url for address in near)

    def search(self, query: str, count: int = 3) -> tuple[tuple[Hit, ...], int]:
        """The best ``count`` pages, best first, and how many matched in all."""
        words = _words(query)
        if not words or not self.pages:
            return (), 0
        scores = self._index.get_scores(words)
        ranked = sorted(
            (n for n in range(len(self.pages)) if scores[n] > 0), key=lambda n: (-scores[n], n)
        )
        hits = (Hit(self.pages[n], _snippet(self.pages[n].text, words)) for n in ranked[:count])
        return tuple(hits), len(ranked)

    @cached_property
    def _by_address(self) -> dict[str, WebPage]:
        return {_address(page.url): page for page in self.pages}

    @cached_property
    def _index(self) -> Any:
        import bm25s  # type: ignore[import-untyped]  # brings in numpy: only when searching

        index = bm25s.BM25(backend="numpy")
        index.index(
            [_words(f"{page.title} {page.text}") for page in self.pages], show_progress=False
        )
        return index


def _read_page(file: Path) -> WebPage:
    match = _HEAD.fullmatch(file.read_text(encoding="utf-8"))
    if match is None:
        raise MalformedPage(f"{file.name}: a page starts with a head between two lines of ---.")
    head = dict(line.split(": ", 1) for line in match[1].splitlines() if ": " in line)
    missing = [field for field in _FIELDS if not head.get(field)]
    if missing:
        raise MalformedPage(f"{file.name}: the head lacks {', '.join(missing)}.")
    url, title, published, site = (head[field].strip() for field in _FIELDS)
    return WebPage(url, title, published, site, match[2].strip())


def _address(url: str) -> str:
    """Host and path, in the one spelling by which pages are found."""
    text = url.strip()
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
    except ValueError:  # such as "https://[": no page has that address
        return text
    host = parts.netloc.lower().removeprefix("www.")
    query = f"?{parts.query}" if parts.query else ""
    return f"{host}{parts.path.rstrip('/')}{query}"


def _words(text: str) -> list[str]:
    return [_stem(w) for w in _WORD.findall(text.casefold()) if w not in _QUESTION_WORDS]


def _stem(word: str) -> str:
    """Drop a plural's ``s``, so that ``trip`` finds ``trips``."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and word[-2] not in "su" else word


def _snippet(text: str, words: Sequence[str]) -> str:
    """The passage of about ``SNIPPET_LENGTH`` characters with most of the words."""
    sentences = _SENTENCE_END.split(" ".join(text.split()))
    wanted = set(words)

    def count(start: int) -> int:
        return len(wanted & set(_words(" ".join(sentences[start : start + 2]))))

    start = max(range(len(sentences)), key=lambda n: (count(n), -n))
    passage = textwrap.shorten(" ".join(sentences[start:]), SNIPPET_LENGTH, placeholder=" …")
    return passage if start == 0 else f"… {passage}"
