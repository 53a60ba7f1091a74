"""Values in a user's text: what they are, what they say, where they stand."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import lru_cache
from typing import Literal

Kind = Literal[
    "quote", "url", "email", "date", "period", "money", "currency", "expression", "path",
    "folder", "id", "number",
]  # fmt: skip


@dataclass(frozen=True)
class Entity:
    """One value found in a text.

    ``value`` by kind: ``money`` is ``"20.50 EUR"``, ``date`` ISO 8601, ``period`` two ISO dates
    with a slash (first and last day), ``number`` a plain decimal, the others as written.
    """

    kind: Kind
    value: str
    start: int
    end: int


_SYMBOLS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}
_CODES = (
    "EUR USD GBP JPY CHF SEK NOK DKK PLN CZK HUF CAD AUD NZD CNY INR BRL MXN KRW SGD HKD ZAR TRY"
)
_CURRENCY_WORDS = {
    "euro": "EUR", "euros": "EUR", "eur": "EUR", "dollar": "USD", "dollars": "USD", "usd": "USD",
    "bucks": "USD", "pound": "GBP", "pounds": "GBP", "gbp": "GBP", "yen": "JPY", "jpy": "JPY",
    "francs": "CHF", "chf": "CHF",
}  # fmt: skip
_MONTHS = [
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
]  # fmt: skip
_MONTH = "|".join(f"{m}|{m[:3]}" for m in _MONTHS)
_UNIT = rf"(?:[€$£¥]|\b(?:{_CODES.replace(' ', '|')})\b|\b(?i:{'|'.join(_CURRENCY_WORDS)})\b)"
_NUM = r"\d{1,3}(?:[, ]\d{3})+(?:\.\d+)?|\d+(?:[.,]\d{1,2}(?!\d))?(?:\.\d+)?|\d+"
_TLD = "com|org|net|gov|edu|io|example|dev|eu|de|fr|uk|info|test|app"
_OPERATOR = re.compile(r"\*\*|[+*/×÷^%-]")


def decimal_of(text: str) -> str:
    """A number as people write it (``1,250.50``, ``20,5``) as a plain decimal."""
    t = text.replace(" ", "")
    t = t.replace(",", ".") if re.fullmatch(r"\d+,\d{1,2}", t) else t.replace(",", "")
    return str(Decimal(t))


def month_number(name: str) -> int | None:
    """1 to 12 for an English month name or its three-letter form."""
    short = name.lower()[:3]
    return next((i for i, m in enumerate(_MONTHS, 1) if m.startswith(short)), None)


def _currency(text: str) -> str:
    return _SYMBOLS.get(text) or _CURRENCY_WORDS.get(text.lower()) or text.upper()


def _iso(year: str, month: int | None, day: str) -> str | None:
    try:
        return date(int(year), month or 0, int(day)).isoformat()
    except ValueError:
        return None


def _month_period(m: re.Match[str]) -> str | None:
    month, year = month_number(m["m"]), int(m["y"])
    if month is None:
        return None
    last = 31 if month == 12 else (date(year, month + 1, 1) - date(year, month, 1)).days
    return f"{date(year, month, 1)}/{date(year, month, last)}"


def _slash_date(m: re.Match[str]) -> str | None:
    first, second = int(m["a"]), int(m["b"])
    if first <= 12 and second <= 12 and first != second:
        return None  # day or month first? Nobody can tell.
    day, month = (first, second) if first > 12 or first == second else (second, first)
    return _iso(m["y"], month, str(day))


def _id(m: re.Match[str]) -> str | None:
    return m[0].lstrip("#")


_WORD_OPERATORS = [
    (re.compile(r"(\d+(?:\.\d+)?)\s*(?:%|per ?cent)\s+of\s+(?=[\d(])", re.I), r"\1 / 100 * "),
    (re.compile(r"(?<=[\d)])\s+plus\s+(?=[\d(])", re.I), " + "),
    (re.compile(r"(?<=[\d)])\s+minus\s+(?=[\d(])", re.I), " - "),
    (re.compile(r"(?<=[\d)])\s*(?:\btimes\b|\bmultiplied by\b|×|\bx\b)\s*(?=[\d(])", re.I), " * "),
    (re.compile(r"(?<=[\d)])\s*(?:\bdivided by\b|\bover\b|÷)\s*(?=[\d(])", re.I), " / "),
    (re.compile(r"(?<=[\d)])\s*(?:\bto the power of\b|\^)\s*(?=[\d(])", re.I), " ** "),
    (re.compile(r"(?<=[\d)])\s+squared\b", re.I), " ** 2"),
    (re.compile(r"(?<=\d),(?=\d{3}\b)"), ""),
]


def spell_operators(text: str) -> str:
    """Arithmetic in words ("3 times 4", "15% of 80") as arithmetic in signs."""
    for pattern, sign in _WORD_OPERATORS:
        text = pattern.sub(sign, text)
    return text


def _expression(m: re.Match[str]) -> str | None:
    text = m[0].strip()
    if not _OPERATOR.search(text) or len(re.findall(r"\d+(?:\.\d+)?", text)) < 2:
        return None
    while text.endswith(")") and text.count(")") > text.count("("):
        text = text[:-1].rstrip()
    return text if text.count("(") == text.count(")") else None


def _path(m: re.Match[str]) -> str | None:
    return None if m[0].lower() in {"e.g", "i.e", "a.m", "p.m"} else m[0]


def _quoted(m: re.Match[str]) -> str:
    return next(g for g in m.groups() if g is not None)


def _dated(m: re.Match[str]) -> str | None:
    month = int(m["m"]) if m["m"].isdigit() else month_number(m["m"])
    return _iso(m["y"], month, m["d"])


def _money(m: re.Match[str]) -> str:
    return f"{decimal_of(m['n'])} {_currency(m['u'])}"


def _folder(m: re.Match[str]) -> str | None:
    return None if m[0].lower() in _NOT_FOLDERS else m[0].rstrip("/")


def _number(m: re.Match[str]) -> str:
    sign = "-" if m[0].startswith("-") else ""
    return sign + decimal_of(m[0].lstrip("-"))


def _whole(m: re.Match[str]) -> str:
    return m[0]


_NOT_FOLDERS = frozenset(
    {"the", "a", "my", "this", "that", "workspace", "which", "is", "in", "what", "are", "and"}
)
_DAY = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_PATHS = (
    r"(?<![\w/])(?:~|\.{0,2})/?(?:[\w.-]+/)*[\w-][\w.-]*\.[A-Za-z]\w{0,5}\b(?!\()",  # a/b.md
    r"(?<![\w/])\.{1,2}/[\w./-]+",  # ../up
    r"(?<![\w/])/(?:[\w.-]+/)*[\w.-]+",  # /from/the/root
)
_URLS = (
    r"https?://[^\s<>\"']+[^\s<>\"'.,;:!?)]",
    rf"\b(?:[\w-]+\.)+(?:{_TLD})(?:/[^\s\"'<>]*[\w/])(?<!@)",
)
_FOLDERS = (
    r"(?<![\w/])(?:[\w.-]+/)+(?=\s|$|[,;?!])",
    r"(?<=\bfolder )[\w./-]*\w",
    r"(?<=\bdirectory )[\w./-]*\w",
    r"\b[\w.-]+(?= (?:folder|directory)\b)",
)
_IDS = (
    r"#\w[\w-]*",
    r"\b[A-Za-z]{1,8}[-_]?\d[\w-]*\b",
    r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b",
)

Read = Callable[["re.Match[str]"], "str | None"]

# Tried in this order; what one rule takes, the later ones do not see.
_PATTERNS: list[tuple[Kind, str, Read]] = [
    ("url", "|".join(_URLS), _whole),
    ("email", r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _whole),
    ("date", r"\b\d{4}-\d{2}-\d{2}(?:T[\d:.]+Z?)?\b", lambda m: m[0][:10]),
    ("date", rf"(?i)\b{_DAY}(?: of)? (?P<m>{_MONTH})\.?,? (?P<y>\d{{4}})\b", _dated),
    ("date", rf"(?i)\b(?P<m>{_MONTH})\.? {_DAY},? (?P<y>\d{{4}})\b", _dated),
    ("date", r"\b(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4})\b", _dated),
    ("date", r"\b(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<y>\d{4})\b", _slash_date),
    ("period", rf"(?i)\b(?P<m>{_MONTH}) (?P<y>\d{{4}})\b", _month_period),
    ("period", r"(?<=\bin )(?:19|20)\d\d\b", lambda m: f"{m[0]}-01-01/{m[0]}-12-31"),
    ("money", rf"(?P<u>{_UNIT})\s?(?P<n>{_NUM})(?![\w-])", _money),
    ("money", rf"(?<![\w.])(?P<n>{_NUM})\s?(?P<u>{_UNIT})", _money),
    ("currency", _UNIT, lambda m: _currency(m[0])),
    ("path", "|".join(_PATHS), _path),
    ("folder", "|".join(_FOLDERS), _folder),
    ("id", "|".join(_IDS), _id),
    ("expression", r"(?<![\w.])-?[\d(][\d\s.+*/^()%-]*[\d)](?!\w)", _expression),
    ("number", rf"(?<![\w.,-])-?(?:{_NUM})(?![\w-])(?!\s?%)", _number),
]
_RULES = [(kind, re.compile(pattern), read) for kind, pattern, read in _PATTERNS]
_QUOTES = (
    r"\"([^\"]*)\"",
    r"“([^”]*)”",
    r"«([^»]*)»",
    r"`([^`]*)`",
    r"(?<!\w)'((?:[^']|(?<=\w)'(?=\w))*)'(?!\w)",  # not the apostrophe of "don't"
)
_QUOTE = re.compile("|".join(_QUOTES))


def _inner_kind(value: str) -> Kind | None:
    """What a quoted value is when all of it is one address, path or id."""
    for kind, pattern, read in _RULES:
        if kind in ("url", "email", "path", "id", "date") and (m := pattern.fullmatch(value)):
            return kind if read(m) else None
    return None


@lru_cache(maxsize=512)
def find_entities(text: str) -> tuple[Entity, ...]:
    """All values in the text, in the order they stand there."""
    found: list[Entity] = []
    hidden = list(text)

    def hide(start: int, end: int) -> None:
        hidden[start:end] = "\0" * (end - start)

    for m in _QUOTE.finditer(text):
        value = _quoted(m)
        found.append(Entity(_inner_kind(value) or "quote", value, m.start(), m.end()))
        hide(m.start(), m.end())
    for kind, pattern, read in _RULES:
        for m in pattern.finditer("".join(hidden)):
            if "\0" not in m[0] and (taken := read(m)) is not None:
                found.append(Entity(kind, taken, m.start(), m.end()))
                hide(m.start(), m.end())
    return tuple(sorted(found, key=lambda e: e.start))


def mask(text: str, entities: tuple[Entity, ...]) -> str:
    """The text with every value replaced by blanks, same length."""
    chars = list(text)
    for e in entities:
        chars[e.start : e.end] = " " * (e.end - e.start)
    return "".join(chars)
