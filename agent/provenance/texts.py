"""A text made ready to be searched: is this value said in it, in whatever spelling?

Two questions are asked, and they err on different sides. Whether a *user* said a value is asked
strictly: the same tokens, next to each other. Whether a value comes out of *strangers'* or
*private* text is asked loosely too: without its punctuation and spaces, decoded, or in pieces.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from urllib.parse import unquote, unquote_plus

from agent.provenance.tokens import Token, fold, spellings, tokens, words

SHORTEST_LOOSE = 6
"""Letters and digits of a value that is looked for without regard to what stands between them."""

RUN = 4
"""Tokens in a row that a text has from another one, rather than by chance."""

CACHED_CHARACTERS = 16_000_000
"""Of texts whose index is kept; the least recently used go first."""


@dataclass(frozen=True)
class Indexed:
    """A text with what a search needs; also of what stands in it encoded."""

    text: str

    @property
    def vocabulary(self) -> frozenset[str]:
        """Every token, in every reading."""
        return self._read[1]

    @property
    def words(self) -> str:
        """The tokens in order, each between two spaces."""
        return self._read[0]

    @cached_property
    def compact(self) -> str:
        """Letters and digits alone."""
        return _compact(fold(self._with_decoded))

    @cached_property
    def runs(self) -> frozenset[int]:
        """A hash of every ``RUN`` tokens in a row."""
        return frozenset(map(hash, runs(self.words.split())))

    @cached_property
    def _with_decoded(self) -> str:
        return "\n".join([self.text, *decoded_parts(self.text), *parts_of_addresses(self.text)])

    @cached_property
    def _read(self) -> tuple[str, frozenset[str]]:
        found, readings = words(fold(self._with_decoded))
        return f" {' '.join(found)} ", frozenset(readings)

    @cached_property
    def _in_pieces(self) -> tuple[str, frozenset[int]]:
        """Words and numbers without what stands between them, and where each begins and ends.

        An address is a wall: a piece of one is something else.
        """
        pieces, at, edges = [], 0, {0}
        for token in tokens(fold(self.text)):
            piece = token.text if token.text.isalnum() else "\0"
            pieces.append(piece)
            at += len(piece)
            edges.add(at)
        return "".join(pieces), frozenset(edges)

    def says(self, wanted: Sequence[Token]) -> bool:
        """Whether it has these tokens next to each other, in any of their readings."""
        known = self.vocabulary
        for token in wanted:
            if token.text not in known and not any(other in known for other in token.others):
                return False
        if len(wanted) < 2:
            return bool(wanted)
        return f" {' '.join(token.text for token in wanted)} " in self.words

    def holds(self, compact: str) -> bool:
        """Whether it has these letters and digits in a row, whatever stands between them."""
        return len(compact) >= SHORTEST_LOOSE and compact in self.compact

    def spells(self, wanted: Wanted) -> bool:
        """Whether it has the value with other spaces or hyphens, such as an account in groups."""
        compact = wanted.compact
        if len(compact) < SHORTEST_LOOSE or not _GROUPED.fullmatch(fold(wanted.text)):
            return False
        joined, edges = self._in_pieces
        at = joined.find(compact)
        while at >= 0:
            if at in edges and at + len(compact) in edges:
                return True
            at = joined.find(compact, at + 1)
        return False

    def passage(self, wanted: Sequence[Token], around: int = 60) -> str:
        """The place that says it, with what stands around; empty where it is only encoded there."""
        place = self._place(wanted)
        if place is None:
            return ""
        start, end = max(place[0] - around, 0), min(place[1] + around, len(self.text))
        inside = " ".join(self.text[start:end].split())
        return f"{'…' if start else ''}{inside}{'…' if end < len(self.text) else ''}"

    def _place(self, wanted: Sequence[Token]) -> tuple[int, int] | None:
        folded = fold(self.text)
        if len(folded) != len(self.text):  # places would not be those of the text itself
            return None
        plainly = " ".join(token.text for token in wanted)
        if (at := folded.find(plainly)) >= 0:
            return at, at + len(plainly)
        found = tokens(folded)
        readings = [frozenset(spellings(one)) for one in wanted]
        for at in range(len(found) - len(readings) + 1):
            window = found[at : at + len(readings)]
            if all(
                not one.isdisjoint(spellings(t)) for one, t in zip(readings, window, strict=True)
            ):
                return window[0].start, window[-1].end
        return None


class _Cache:
    """Indexes of texts, by the text, as long as they fit."""

    def __init__(self, limit: int) -> None:
        self._limit, self._held, self._lock = limit, 0, Lock()
        self._known: OrderedDict[str, Indexed] = OrderedDict()

    def __call__(self, text: str) -> Indexed:
        with self._lock:
            if text in self._known:
                self._known.move_to_end(text)
                return self._known[text]
            indexed = self._known[text] = Indexed(text)
            self._held += len(text)
            while self._held > self._limit and len(self._known) > 1:
                self._held -= len(self._known.popitem(last=False)[0])
            return indexed


index = _Cache(CACHED_CHARACTERS)
"""The index of a text; kept, since a session asks about the same results at every write."""


def runs(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Every ``RUN`` words in a row."""
    return zip(*(words[offset:] for offset in range(RUN)), strict=False)


_GROUPED = re.compile(r"[\w\s-]+")

# --- what is encoded -------------------------------------------------------------------------

_BASE64 = re.compile(r"(?<![\w+/=-])[A-Za-z0-9+/_-]{12,}={0,2}(?![\w+/=-])")
_HEX = re.compile(r"(?<!\w)(?:0x)?((?:[0-9a-fA-F]{2}){8,})(?!\w)")
_URL = re.compile(r"(?i)https?://[^\s<>\"'`]+")
_WORD = re.compile(r"[^\W_]+")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_ENTITY = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|\w+);")


def decoded_parts(text: str, depth: int = 2) -> list[str]:
    """What stands in a text percent-encoded, as HTML entities, as base64 or as hexadecimals,
    also twice; empty where nothing does."""
    if depth == 0:
        return []
    found = []
    if _PERCENT.search(text):
        found += [unquote(text), unquote_plus(text)]
    if _ENTITY.search(text):
        found.append(html.unescape(text))
    found += [plain for blob in _BASE64.findall(text) if (plain := _from_base64(blob))]
    found += [plain for blob in _HEX.findall(text) if (plain := _from_hex(blob))]
    fresh = [part for part in dict.fromkeys(found) if part != text]
    return fresh + [inner for part in fresh for inner in decoded_parts(part, depth - 1)]


def parts_of_addresses(text: str) -> list[str]:
    """The words of each URL in a text: one that was put together from them has them in a row."""
    if "://" not in text:
        return []
    return [" ".join(_WORD.findall(url)) for url in _URL.findall(text)]


def _from_base64(blob: str) -> str | None:
    plain = blob.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return _readable(base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True))
    except (binascii.Error, ValueError):
        return None


def _from_hex(blob: str) -> str | None:
    return _readable(bytes.fromhex(blob))


def _readable(raw: bytes) -> str | None:
    """Bytes as a text that somebody could have meant."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if text and all(char.isprintable() or char.isspace() for char in text) else None


# --- a value ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """A value to look for: its tokens, its letters and digits, and the same of what it encodes."""

    text: str

    @cached_property
    def tokens(self) -> list[Token]:
        return tokens(fold(self.text))

    @cached_property
    def compact(self) -> str:
        return _compact(fold(self.text))

    @cached_property
    def forms(self) -> list[Wanted]:
        """Itself, and what it is when decoded as a whole."""
        whole = self.text.strip()
        decoded = {unquote(whole), unquote_plus(whole), html.unescape(whole)} - {whole}
        if _BASE64.fullmatch(whole) and (plain := _from_base64(whole)):
            decoded.add(plain)
        if (match := _HEX.fullmatch(whole)) and (plain := _from_hex(match[1])):
            decoded.add(plain)
        return [self, *(Wanted(form) for form in sorted(decoded))]


def _compact(folded: str) -> str:
    """Letters and digits alone, with ``at`` and ``dot`` as they are said of addresses left out."""
    return _BETWEEN.sub("", _SAID.sub("", folded))


_SAID = re.compile(r"(?<=\w)\s{0,3}[\[({<]?\s{0,3}\b(?:at|dot)\b\s{0,3}[\])}>]?\s{0,3}(?=\w)")
_BETWEEN = re.compile(r"[\W_]+")
