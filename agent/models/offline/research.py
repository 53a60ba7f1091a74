"""Answering a question from pages: search, read the best results, compute, name the source.

Everything works on patterns of English text (numbers near years, "ten months"), so it is modest:
where two comparable figures cannot be found, the sentences that fit are quoted with their source.
Page text is only ever quoted or measured; nothing in it is followed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from agent.models.offline import answer, words
from agent.models.offline.catalog import ToolCard
from agent.models.offline.entities import month_number
from agent.models.offline.evidence import Observation, Record, records
from agent.models.offline.fill import fill
from agent.models.offline.request import Clause

MAX_PAGES = 3
Attempts = Callable[[ToolCard, Mapping[str, Any]], list[Observation]]

_GROWTH = re.compile(
    r"\b(?:gr[eo]w\w*|increas\w*|ris[ei]\w*|rose|fall\w*|fell|drop\w*|decreas\w*|"
    r"declin\w*|chang\w*|"
    r"differ\w*|compar\w*|shr[aiu]nk\w*)\b",
    re.I,
)
_WH = re.compile(r"\b(?:what|which|who|when|where|why|how|did|does|is|are)\b|\?", re.I)
_NOT_FOR_READERS = re.compile(
    r"\bAI (?:assistants?|agents?|models?)\b|\b(?:ignore|disregard)\b.*\binstructions?\b", re.I
)
_SCALES = {"thousand": 10**3, "k": 10**3, "million": 10**6, "m": 10**6, "billion": 10**9}
_FIGURE = re.compile(
    r"(?<![\w.,-])(?P<n>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)\s?(?P<s>thousand|million|billion|[km]\b)?"
    r"(?!\s?%|\s?percent|[\w-])(?:\s+(?P<unit>[A-Za-z][\w-]*))?"
)
_COUNT_WORDS = "one two three four five six seven eight nine ten eleven twelve"
_COUNTS = {word: count for count, word in enumerate(_COUNT_WORDS.split(), 1)}
_MONTHS_LONG = re.compile(rf"\b(\d{{1,2}}|{'|'.join(_COUNTS)}) months\b", re.I)
_BEGAN = re.compile(
    r"\b(?:opened|launched|started|began|begun|since|"
    r"from)\b[^.]{0,30}?\b(?:1 )?(?P<m>[A-Z][a-z]{2,8}) (?P<y>\d{4})"
)


@dataclass
class Step:
    """Calls to make now, or the lines of the answer."""

    calls: list[tuple[ToolCard, Mapping[str, Any]]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Page:
    """A page that was read."""

    title: str
    url: str
    date: str
    text: str

    @property
    def source(self) -> str:
        return f"{self.title} ({self.url}{f', {self.date}' if self.date else ''})"


@dataclass(frozen=True)
class Figure:
    """A number that a sentence gives for a year, for so many of its months."""

    value: Decimal
    unit: str
    year: str
    months: int
    sentence: str
    fit: int


def fetcher(cards: Sequence[ToolCard], search: ToolCard) -> ToolCard | None:
    """The read that takes the url of a search result."""
    return next(
        (c for c in cards if not c.writes and c.param("url") and c.name != search.name), None
    )


def next_step(
    clause: Clause, search: ToolCard, cards: Sequence[ToolCard], attempts: Attempts
) -> Step:
    """Search, then read, then compute, then answer: the first of these that is not yet done."""
    args = next(iter(fill(search, clause).variants), {})
    searched = attempts(search, args)
    if not searched:
        return Step(calls=[(search, args)])
    if searched[-1].outcome != "ok":
        return Step(lines=[answer.failed(search, args, searched[-1])])
    results = [r for r in records(searched[-1].data) if _url(r)]
    fetch = fetcher(cards, search)
    if not results or fetch is None or _only_search(clause):
        return Step(lines=[answer.found(search, clause, searched[-1])])
    return _read_pages(clause, ranked(results, clause), fetch, cards, attempts)


def _only_search(clause: Clause) -> bool:
    """Whether the user wants the hits themselves ("search for X"), not an answer from a page."""
    return "search" in words.actions_of(clause.lead) and not _WH.search(clause.text)


def _read_pages(
    clause: Clause,
    results: Sequence[Record],
    fetch: ToolCard,
    cards: Sequence[ToolCard],
    attempts: Attempts,
) -> Step:
    url_param = fetch.param("url")
    assert url_param is not None  # fetcher() chose it by this parameter
    quoted: list[tuple[float, str]] = []
    for result in results[:MAX_PAGES]:
        args = {url_param.name: _url(result)}
        tries = attempts(fetch, args)
        if not tries:
            # One page that answers is enough; a weak one makes the next worth reading.
            if quoted and quoted[0][0] >= 6:
                break
            return Step(calls=[(fetch, args)])
        if tries[-1].outcome != "ok":
            continue
        page = _page(result, tries[-1])
        if computed := _computed(clause, page, cards, attempts):
            return computed
        if best := sentences(page.text, clause):
            quote = " ".join(s for _, s in best)
            quoted.append((best_score(best), f"{page.source} says: “{answer.short(quote, 600)}”"))
            quoted.sort(key=lambda q: -q[0])
    if not quoted:
        titles = "; ".join(str(r.get("title") or _url(r)) for r in results[:MAX_PAGES])
        return Step(
            lines=[f"I found pages, but no sentence in them that answers this. Read: {titles}."]
        )
    return Step(
        lines=[
            "I quote what the pages say; I did not compute anything.",
            *[q for _, q in quoted[:2]],
        ]
    )


def _url(record: Record) -> str:
    for key, value in record.items():
        if isinstance(value, str) and words.concepts(key) & words.concepts("url"):
            return value
    return ""


def ranked(results: Sequence[Record], clause: Clause) -> list[Record]:
    """Results by how many of the question's words they carry; first-hand sources before blogs."""
    asked = frozenset(c for w in clause.words for c in words.concepts_of(w))

    def score(indexed: tuple[int, Record]) -> tuple[float, int]:
        position, record = indexed
        text = " ".join(str(v) for v in record.values())
        host = _url(record).split("//")[-1].split("/")[0]
        standing = 1.5 if host.endswith((".gov", ".edu")) or ".gov." in host else 0.0
        standing -= 3.0 if re.search(r"\bblog\b|forum", text, re.I) else 0.0
        return (len(words.concepts(text) & asked) + standing, -position)

    return [r for _, r in sorted(enumerate(results), key=score, reverse=True)]


def page_text(observation: Observation) -> str:
    """The text of a result that is either plain or an object with a text in it."""
    if isinstance(observation.data, dict):
        for key in ("text", "content", "body"):
            if isinstance(observation.data.get(key), str):
                return str(observation.data[key])
        texts = [v for v in observation.data.values() if isinstance(v, str)]
        return max(texts, key=len, default="")
    return observation.text


def _page(result: Record, observation: Observation) -> Page:
    date = next((str(v)[:10] for v in result.values() if re.match(r"\d{4}-\d\d-\d\d", str(v))), "")
    url = _url(result)
    return Page(str(result.get("title") or url), url, date, page_text(observation))


def split_sentences(text: str) -> list[str]:
    """Sentences of a text; headings and lines count as sentences."""
    return [s.strip() for s in re.split(r"(?<=[.!?])\s+(?=[A-Z“\"])|\n+", text) if s.strip()]


def sentences(text: str, clause: Clause, most: int = 3) -> list[tuple[float, str]]:
    """The sentences that fit the question best, in the page's order, each with its score."""
    asked = frozenset(c for w in clause.words for c in words.concepts_of(w))
    asked |= frozenset(re.findall(r"\b\d{4}\b", clause.text))
    counted = re.search(r"\bhow (?:much|many)\b", clause.text, re.I)
    every = [(s, words.concepts(s) & asked) for s in split_sentences(text)]
    rarity = Counter(c for _, hits in every for c in hits)
    scored: list[tuple[float, int, str]] = []
    for i, (s, hits) in enumerate(every):
        if len(hits) >= 2 and s[-1] in '.!?”"' and not _NOT_FOR_READERS.search(s):
            # A word that half the page uses tells little; a figure answers "how much".
            fit = sum(1 + 2 / rarity[c] for c in hits)
            figure = counted and re.search(r"\d\s?%|\d,\d|million|thousand", s)
            scored.append((fit + (2 if figure else 0), i, s))
    best = sorted(scored, key=lambda x: (-x[0], x[1]))[:most]
    return [(fit, s) for fit, _, s in sorted(best, key=lambda x: x[1])]


def best_score(found: Sequence[tuple[float, str]]) -> float:
    """The score of the best sentence."""
    return max(fit for fit, _ in found)


# Figures -----------------------------------------------------------------------------------


def _computed(
    clause: Clause, page: Page, cards: Sequence[ToolCard], attempts: Attempts
) -> Step | None:
    """The growth between two years, where the page has comparable figures for both."""
    years = list(dict.fromkeys(re.findall(r"\b(?:19|20)\d\d\b", clause.text)))
    calculator = next((c for c in cards if not c.writes and c.param("expression")), None)
    if len(years) != 2 or calculator is None or not _GROWTH.search(clause.text):
        return None
    first, last = sorted(years)
    pair = comparable(figures(page.text, (first, last), clause), first, last)
    if pair is None:
        return None
    expression = f"{_per_month(pair[1], pair)} / {_per_month(pair[0], pair)} - 1"
    param = calculator.param("expression")
    assert param is not None  # it was chosen by this parameter
    tries = attempts(calculator, {param.name: expression})
    if not tries:
        return Step(calls=[(calculator, {param.name: expression})])
    if tries[-1].outcome != "ok" or (growth := _result(tries[-1])) is None:
        return None
    return Step(lines=_growth_lines(pair, growth, expression, page))


def figures(text: str, years: Sequence[str], clause: Clause) -> list[Figure]:
    """Numbers given for one of the years; the better a sentence fits the question, the better
    its figures, and among those of a sentence the number nearest to the year."""
    asked = frozenset(c for w in clause.words for c in words.concepts_of(w))
    found: list[Figure] = []
    for s in split_sentences(text):
        for year, number in _numbers_of_years(s, years):
            unit = words.stem(number["unit"] or "")
            value = Decimal(number["n"].replace(",", ""))
            value *= _SCALES.get((number["s"] or "").lower(), 1)
            fit = len(words.concepts(s) & asked) * 100 - abs(number.start() - year.start())
            months = _months(text, s, year.start(), year[0])
            found.append(Figure(value, unit, year[0], months, s, fit))
    return found


def _numbers_of_years(
    sentence: str, years: Sequence[str]
) -> list[tuple[re.Match[str], re.Match[str]]]:
    """Which number of a sentence belongs to which year.

    As many numbers of a unit as years go together in order ("1.3 million trips in 2023 and 2.1
    million in 2024"); otherwise a year has the numbers that no other year stands before.
    """
    mentions = list(re.finditer(r"\b(?:19|20)\d\d\b(?!\s?%)", sentence))
    by_unit: dict[str, list[re.Match[str]]] = {}
    for m in _FIGURE.finditer(sentence):
        if not _is_date(m):
            by_unit.setdefault(words.stem(m["unit"] or ""), []).append(m)
    pairs: list[tuple[re.Match[str], re.Match[str]]] = []
    for numbers in by_unit.values():
        if len(numbers) == len(mentions):
            pairs += zip(mentions, numbers, strict=True)
            continue
        for year in mentions:
            between = [
                n
                for n in numbers
                if not any(
                    min(year.start(), n.start()) < o.start() < max(year.start(), n.start())
                    for o in mentions
                )
            ]
            pairs += [(year, n) for n in between]
    return [(year, n) for year, n in pairs if year[0] in years]


def comparable(found: Sequence[Figure], first: str, last: str) -> tuple[Figure, Figure] | None:
    """The best pair of figures in the same unit, one for each year."""
    pairs = [
        (a, b)
        for a in found
        for b in found
        if (a.year, b.year) == (first, last)
        and a.unit == b.unit
        and a.unit not in words.STOP
        and a.value > 0
    ]
    return max(pairs, key=lambda p: p[0].fit + p[1].fit, default=None)


def _is_date(m: re.Match[str]) -> bool:
    is_year = re.fullmatch(r"(?:19|20)\d\d", m["n"]) is not None and not m["s"]
    return is_year or (
        m["unit"] is not None and month_number(m["unit"]) is not None and m["unit"][:1].isupper()
    )


def _months(text: str, sentence: str, at: int, year: str) -> int:
    """How many months of the year a figure covers, as the page says it; 12 when it says nothing."""
    others = [m.start() for m in re.finditer(r"\b(?:19|20)\d\d\b", sentence)]
    for m in _MONTHS_LONG.finditer(sentence):
        if min(others, key=lambda o: abs(o - m.start())) == at:
            return int(m[1]) if m[1].isdigit() else _COUNTS[m[1].lower()]
    for m in _BEGAN.finditer(text):
        month = month_number(m["m"])
        if m["y"] == year and month:
            return 13 - month
    return 12


def _per_month(figure: Figure, pair: tuple[Figure, Figure]) -> str:
    value = f"{figure.value.normalize():f}"
    return value if pair[0].months == pair[1].months else f"({value} / {figure.months})"


def _result(observation: Observation) -> Decimal | None:
    data = observation.data
    text = (
        str(data.get("result", next(iter(data.values()), "")))
        if isinstance(data, dict)
        else observation.text
    )
    m = re.search(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", text.rsplit("=", 1)[-1])
    return Decimal(m[0]) if m else None


def _growth_lines(
    pair: tuple[Figure, Figure], growth: Decimal, expression: str, page: Page
) -> list[str]:
    a, b = pair
    unit = re.search(r"[A-Za-z][\w-]*", a.sentence[a.sentence.find(a.unit) :]) if a.unit else None
    thing = unit[0] if unit else "the figure"
    moved = "grew" if growth >= 0 else "fell"
    percent = f"{abs(growth) * 100:.1f}%"
    if a.months == b.months:
        head = (
            f"{thing.capitalize()} {moved} by about {percent}, from {a.value:,f} in {a.year} "
            f"to {b.value:,f} in {b.year}."
        )
    else:
        head = (
            f"Per month, {thing} {moved} by about {percent}: from {a.value / a.months:,.0f} a "
            f"month in {a.year} to {b.value / b.months:,.0f} a month in {b.year}. The totals "
            f"({a.value:,.0f} and {b.value:,.0f}) do not cover the same time: {a.months} months "
            f"of {a.year}, {b.months} of {b.year}."
        )
    quotes = " ".join(dict.fromkeys((a.sentence, b.sentence)))
    return [head, f"Source: {page.source}: “{quotes}” Computed: {expression} = {growth}."]
