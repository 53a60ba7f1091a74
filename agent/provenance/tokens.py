"""Text as tokens in one spelling: the same word, number, date or address however it was written.

A token is a word in folded case, a number without its formatting (``1,299.00`` is ``1299``), a
date as ``2026-03-14``, a time as ``09:30``, an e-mail address or an absolute URL as one. What can
be read in two ways (``1.299``, ``03/04/2026``) has its other readings beside it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple


class Token(NamedTuple):
    """``text`` in its one spelling, ``others`` it may also be, and its place in the text."""

    text: str
    start: int
    end: int
    others: tuple[str, ...] = ()


def fold(text: str) -> str:
    """Compatible characters as one, in one case, without those that are not seen."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text)
    return "".join(c for c in plain if unicodedata.category(c) != "Cf").casefold()


def tokens(folded: str) -> list[Token]:
    """The tokens of a folded text, in order."""
    found = []
    for match in _TOKEN.finditer(folded):
        kind = match.lastgroup
        if kind is None:
            spoken = _NUMBER_WORDS.get(match[0])
            found.append(Token(match[0], *match.span(), others=(spoken,) if spoken else ()))
        else:
            found.extend(_READERS[kind](match))
    return found


def words(folded: str) -> tuple[list[str], set[str]]:
    """The tokens of a folded text in order, and all their readings; without their places, which
    takes half the time."""
    found: list[str] = []
    others: set[str] = set()
    for match in _TOKEN.finditer(folded):
        kind = match.lastgroup
        if kind is None:
            found.append(match[0])
            continue
        for token in _READERS[kind](match):
            found.append(token.text)
            others.update(token.others)
    readings = others.union(found)
    return found, readings.union(_NUMBER_WORDS[word] for word in readings & _NUMBER_WORDS.keys())


def spellings(token: Token) -> tuple[str, ...]:
    """Every reading of a token."""
    return (token.text, *token.others)


_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            *("jan january", "feb february", "mar march", "apr april", "may may", "jun june"),
            *("jul july", "aug august", "sep september sept", "oct october"),
            *("nov november", "dec december"),
        ),
        1,
    )
    for name in names.split()
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))

_NUMBER_WORDS = {
    word: str(number)
    for words, numbers in (
        ("zero one two three four five six seven eight nine ten eleven twelve", count()),
        ("twenty thirty forty fifty sixty seventy eighty ninety hundred", count(20, 10)),
    )
    for number, word in zip(numbers, words.split(), strict=False)
}

# Read from the left, the first that fits: what is surely a word of its own, then an address before
# the words that it is made of.
_TOKEN = re.compile(
    rf"""
      [^\W\d_]+ (?=[,;:!?)"']{{0,2}}\s(?!\s*\d))
    | (?P<url> https?://[^\s<>"'`|\\^{{}}\[\]]+ )
    | (?P<mail> [\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+ )
    | (?P<iso> (?<!\d)(?P<y1>\d{{4}})[-/](?P<m1>\d{{1,2}})[-/](?P<d1>\d{{1,2}})(?!\d|[-/.]\d) )
    | (?P<dotted> (?<![\w.])(?P<d2>\d{{1,2}})\.(?P<m2>\d{{1,2}})\.(?P<y2>\d{{4}})(?![\w]|\.\d) )
    | (?P<slashed> (?<![\w/])(?P<a3>\d{{1,2}})/(?P<b3>\d{{1,2}})/(?P<y3>\d{{4}})(?![\w/]) )
    | (?P<spoken> (?<!\w)(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<m4>{_MONTH})\.?
        (?:,?\s+(?P<y4>\d{{4}}))?(?!\w) )
    | (?P<american> (?<!\w)(?P<m5>{_MONTH})\.?\s+(?P<d5>\d{{1,2}})(?:st|nd|rd|th)?
        (?:,?\s+(?P<y5>\d{{4}}))?(?![\w:]|\.\d) )
    | (?P<time> (?<![\w:.])(?P<h6>\d{{1,2}}):(?P<n6>\d{{2}})(?::\d{{2}}(?:\.\d+)?)?
        (?:\s?(?P<p6>am|pm))?(?!\w) )
    | (?P<number> (?:(?<![\w)\].,])-)?(?<!\w)\d[\d,.'’]{{0,40}}
        (?P<suffix>[^\W\d_]{{1,3}})?(?!\w) )
    | \w+
    """,
    re.VERBOSE,
)


def _as_is(match: re.Match[str]) -> Iterator[Token]:
    text = match[0].rstrip(".,;:!?)*_~")
    yield Token(text.removesuffix("/"), match.start(), match.start() + len(text))


def _date(
    match: re.Match[str], year: str | None, month: int, day: int, *swapped: tuple[int, int]
) -> Iterator[Token]:
    """A date, and without its year: ``--03-14``."""
    readings = [(month, day), *swapped]
    dates = [f"{year or '-'}-{m:02}-{d:02}" for m, d in readings if 1 <= m <= 12 and 1 <= d <= 31]
    if not dates:
        yield Token(match[0], *match.span())
        return
    short = [f"--{one[-5:]}" for one in dates] if year else []
    yield Token(dates[0], *match.span(), others=(*dates[1:], *short))


def _iso(match: re.Match[str]) -> Iterator[Token]:
    return _date(match, match["y1"], int(match["m1"]), int(match["d1"]))


def _dotted(match: re.Match[str]) -> Iterator[Token]:
    return _date(match, match["y2"], int(match["m2"]), int(match["d2"]))


def _slashed(match: re.Match[str]) -> Iterator[Token]:
    first, second = int(match["a3"]), int(match["b3"])
    return _date(match, match["y3"], first, second, (second, first))


def _spoken(match: re.Match[str]) -> Iterator[Token]:
    return _date(match, match["y4"], _MONTHS[match["m4"]], int(match["d4"]))


def _american(match: re.Match[str]) -> Iterator[Token]:
    return _date(match, match["y5"], _MONTHS[match["m5"]], int(match["d5"]))


def _time(match: re.Match[str]) -> Iterator[Token]:
    hour = int(match["h6"])
    if match["p6"]:
        hour = hour % 12 + (12 if match["p6"] == "pm" else 0)
    yield Token(f"{hour:02}:{match['n6']}", *match.span())


def _number(match: re.Match[str]) -> Iterator[Token]:
    """A number, alone or before a unit (``5kg``), which makes the whole a word as well."""
    suffix = match["suffix"]
    digits = match[0].removesuffix(suffix or "")
    kept = digits.rstrip(".,'’")
    readings = _readings(kept)
    if suffix:
        yield Token(match[0], *match.span(), others=readings)
    else:
        yield Token(readings[0], match.start(), match.start() + len(kept), readings[1:])


_WHOLE = re.compile(r"-?\d+")
_GROUPED = re.compile(r"-?\d{1,3}(?:(?P<mark>[,.'’])\d{3})(?:(?P=mark)\d{3})*")
_POINT = re.compile(r"-?(?:\d+|\d{1,3}(?:[,'’]\d{3})+)\.\d+")
_COMMA = re.compile(r"-?(?:\d+|\d{1,3}(?:[.'’]\d{3})+),\d+")


def _readings(digits: str) -> tuple[str, ...]:
    """What a number may mean: a point or a comma before decimals, or between thousands."""
    if _WHOLE.fullmatch(digits):
        return (digits,)
    found = []
    grouped = _GROUPED.fullmatch(digits)
    if grouped and grouped["mark"] != ".":
        found.append(re.sub(r"[,.'’]", "", digits))
    if _POINT.fullmatch(digits):
        found.append(_shortest(re.sub(r"[,'’]", "", digits)))
    if _COMMA.fullmatch(digits):
        found.append(_shortest(re.sub(r"[.'’]", "", digits).replace(",", ".")))
    if grouped and grouped["mark"] == ".":
        found.append(re.sub(r"[,.'’]", "", digits))
    return tuple(dict.fromkeys(found)) or (digits,)


def _shortest(decimal: str) -> str:
    """A decimal without the zeros that say nothing."""
    whole, _, fraction = decimal.partition(".")
    fraction = fraction.rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


_READERS: dict[str, Callable[[re.Match[str]], Iterator[Token]]] = {
    "url": _as_is,
    "mail": _as_is,
    "iso": _iso,
    "dotted": _dotted,
    "slashed": _slashed,
    "spoken": _spoken,
    "american": _american,
    "time": _time,
    "number": _number,
}
