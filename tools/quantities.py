"""The numbers that a text states, as exact values: in digits, in words, as dates.

``34.6 percent``, ``2.1e6``, ``1.3 to 2.1 million``, ``130 000``, ``€129.50``, ``cut in half``,
``two thirds``, ``tenfold``, ``10 February 2025``. What can be read in two ways (``1.299``, ``5m``)
has all its readings. Numbers in URLs, of lists and of footnotes, parts of names (``A1``) and
ordinals (``2nd``) say nothing of how much, and neither does code, unless it is a number alone or
reads like prose. Signs do not count. English, with the separators of other countries.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal, NamedTuple

Kind = Literal["plain", "share", "multiple", "piece", "date", "time"]

SMALL = 12
"""Number words up to this one (``two sources``) are a way to speak, not a figure."""

LONGEST = 200_000
"""Characters of one text that are read."""

MOST_DIGITS = 60
"""Characters of one number; what is longer is no figure."""

LAST_YEAR = 2_100
"""A whole number up to this one may be a year, and is never a rounded one."""

EXACT = Fraction(0)


class Reading(NamedTuple):
    """One value that a number may have.

    Args:
        kind: ``share``: a part of one (50 % is 1/2); ``multiple``: of something else (doubled is
            2); ``piece``: of a unit (half an hour is 1/2, and no share of anything); ``date``: as
            the whole number yyyymmdd, without a year mmdd; ``time``: minutes of the day.
        step: The unit of its last digit, which it may have been rounded to.
    """

    kind: Kind
    value: Fraction
    step: Fraction = EXACT


Unit = Callable[[Reading], Reading]


@dataclass(frozen=True)
class Quantity:
    """A number in a text.

    Args:
        text: As it stands there, on one line.
        start: Where it begins.
        end: Behind its last character.
        readings: What it may mean; at least one.
        measures: Whether it says how much of something; ``two sources`` does not.
    """

    text: str
    start: int
    end: int
    readings: tuple[Reading, ...]
    measures: bool = True


@lru_cache(maxsize=512)
def quantities(text: str) -> tuple[Quantity, ...]:
    """The numbers of a text, in order."""
    text = text[:LONGEST]
    prose, places = _squeezed(*_fold(text))
    whole = []
    for one in _sharing_units(_found_in(prose), prose):
        start, end = places[one.start], places[one.end - 1] + 1
        said = " ".join(_EMPHASIS.sub("", text[start:end]).split())
        whole.append(Quantity(said, start, end, one.said.readings, one.said.measures))
    return tuple(whole)


def literal(digits: str) -> Reading:
    """A number as programs write it: ``2.1e6``, ``1_000``.

    Raises:
        ValueError: It is none.
    """
    mantissa, _, exponent = digits.replace("_", "").lower().partition("e")
    power = Fraction(10) ** int(exponent or 0)
    value = Fraction(mantissa)
    return Reading("plain", value * power, _step(mantissa) * power)


# --- the text, ready to be read --------------------------------------------------------------

_EMPHASIS = re.compile(r"\*\*|__|~~")
_ALIKE = str.maketrans("−‐‑‒–—―٪×⁄’ʼ", "-------%x/''")


def _fold(text: str) -> tuple[str, Sequence[int]]:
    """The text in lower case and compatible characters, and where each of these comes from.

    What is not seen, and marks of emphasis, are left out, so that ``5**0**%`` is ``50%``.
    """
    left_out = {place for mark in _EMPHASIS.finditer(text) for place in range(*mark.span())}
    folded: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        if place not in left_out:
            plain = character.lower() if character.isascii() else _plain(character)
            folded += plain
            places += [place] * len(plain)
    return "".join(folded), places


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    if unicodedata.decomposition(character).startswith("<fraction>"):
        character = f" {unicodedata.normalize('NFKC', character)}"
    elif unicodedata.category(character) in ("Cf", "Mn"):
        return ""
    elif character.isdecimal():
        return str(unicodedata.decimal(character))
    return unicodedata.normalize("NFKC", character).translate(_ALIKE).lower()


_URL = re.compile(
    r"[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`]+"
    r"|(?<![\w.-])[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?:/[^\s<>\"'`)\]]*)?"
)
_FOOTNOTE = re.compile(r"\[\d{1,3}(?: ?[,-] ?\d{1,3})*\](?! ?(?:%|per ?cent|\())")
_CURRENCY = re.compile(r"(?<![^\W_])(?:eur|usd|gbp|chf)(?=\d)")
_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_CODE_SIGNS = re.compile(r"[=*/(){}\[\]<>_]")
_LIST_NUMBER = re.compile(r"^[ \t>]*(?:#{1,6} +)?(\d{1,3})[.)](?=\s)", re.MULTILINE)


def _prose(folded: str) -> str:
    """The text with blanks in place of what holds no numbers, as long as it was."""
    for pattern in (_URL, _FOOTNOTE, _CURRENCY):
        folded = pattern.sub(_blank, folded)
    folded = _CODE.sub(lambda code: code[0] if _reads_as_prose(code[1]) else _blank(code), folded)
    return _without_list_numbers(folded).replace("`", " ")


def _squeezed(folded: str, places: Sequence[int]) -> tuple[str, Sequence[int]]:
    """The prose with one blank between words, and where its characters come from.

    The end of a line before a word is such a blank, as it is in Markdown.
    """
    prose, squeezed, kept, last = _prose(folded), [], list[int](), 0
    for space in _SPACE.finditer(prose):
        squeezed += [prose[last : space.start()], " "]
        kept += places[last : space.start() + 1]
        last = space.end()
    return "".join([*squeezed, prose[last:]]), [*kept, *places[last:]]


_SPACE = re.compile(r"[ \t\r]*\n[ \t\r]*(?=[a-z%])|[ \t\r]+")


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _reads_as_prose(code: str) -> bool:
    """Whether a code span is a number (``50%``), or words between which one would be hidden."""
    return not re.search(r"[a-z]", code) or (" " in code and not _CODE_SIGNS.search(code))


def _without_list_numbers(text: str) -> str:
    """Only what begins at 1 and counts up, or repeats, is the number of a list."""
    last = 0
    for match in _LIST_NUMBER.finditer(text):
        number = int(match[1])
        if number in (1, last, last + 1):
            last = number
            text = text[: match.start(1)] + " " * len(match[1]) + text[match.end(1) :]
    return text


# --- what numbers look like ------------------------------------------------------------------

_BELOW_TWENTY = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen",
)
_TENS = re.findall(r"\w+", "twenty thirty forty fifty sixty seventy eighty ninety")
_WORDS = {word: value for value, word in enumerate(_BELOW_TWENTY)} | dict(
    zip(_TENS, range(20, 100, 10), strict=True)
)
_SPELLED_SCALES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9}
_SCALES = {
    **_SPELLED_SCALES,
    **dict.fromkeys(("m", "mn", "mio"), 10**6),
    **dict.fromkeys(("b", "bn"), 10**9),
    "k": 10**3,
}
_ORDINALS = re.findall(r"\w+", "third fourth fifth sixth seventh eighth ninth tenth")
_PARTS = {word: value for value, word in enumerate(_ORDINALS, 3)}
_PARTS |= {"half": 2, "halve": 2, "quarter": 4, "twentieth": 20, "hundredth": 100}
_STEMS = {"doubl": 2, "tripl": 3, "trebl": 3, "quadrupl": 4, "quintupl": 5}
_MULTIPLES = {**_STEMS, "twice": 2, "thrice": 3}
_MONTHS = {
    name: number
    for number, names in enumerate(
        (
            *("jan january", "feb february", "mar march", "apr april", "may", "jun june"),
            *("jul july", "aug august", "sep sept september", "oct october"),
            *("nov november", "dec december"),
        ),
        1,
    )
    for name in names.split()
}


def _any(words: Iterable[str]) -> str:
    return f"(?:{'|'.join(sorted(words, key=len, reverse=True))})"


_SCALE = _any(_SPELLED_SCALES)
_WORD = _any(_WORDS)
_SMALL_WORD = _any(_BELOW_TWENTY)
_A_SCALE = rf"an?(?=[ ]{_SCALE}\b)"
_PERCENT = r"[ -]?(?:%|per[ -]?cent\b|percents?\b|percentage\b|pct\b|pc\b|pp\b)(?:[ -]points?\b)?"
_AND = rf"(?:{'|'.join(f'(?<={scale})' for scale in _SPELLED_SCALES)})[ ]and[ ]"
_CARDINAL = (
    rf"\b(?:{_A_SCALE}|hundred(?={_PERCENT})|{_WORD})\b"
    rf"(?:(?:[ -]|{_AND})(?:{_WORD}|{_SCALE})\b){{0,11}}"
)
_BEFORE = r"(?<![^\W_])(?<![^\W_]_)(?<!\d\.)"
_COMPARED = (
    r"(?=[ ](?:as|the|that|those|its|their|what|more|less|fewer|higher|lower|larger|bigger|"
    r"greater|smaller|faster|slower)\b)"
)
_SPAN = r"(?:hour|day|week|month|year|minute|mile|kilomet(?:re|er)|met(?:re|er)|dozen)s?\b"
_MONTH = _any(_MONTHS)
_DIGITS = (
    r"(?:\d{1,3}(?P<mark>[ ,.'])\d{3}(?:(?P=mark)\d{3}){0,6}(?!\d)(?:[.,]\d+)?"
    r"|(?:\d+(?:[.,]\d+)?|(?<!\.)\.\d+)(?:e[+-]?\d{1,3}(?!\w))?)"
)
_ITS_OWN = (
    r"(?=[ ](?:\w+[ ])?(?:source|page|article|document|result|search|step|calculation)e?s?\b)"
)


@dataclass(frozen=True)
class _Said:
    """What a form of numbers reads in a match; ``unit`` is one that a number before may share."""

    readings: tuple[Reading, ...]
    measures: bool = True
    unit: Unit | None = None


@dataclass(frozen=True)
class _Found:
    """Where something is said in the prose."""

    start: int
    end: int
    said: _Said


NOTHING = _Said(())
"""What looks like a number and is none."""

Form = tuple[re.Pattern[str], Callable[[re.Match[str]], _Said | None]]


def _found_in(prose: str) -> list[_Found]:
    """The numbers of each form in turn, in order; what one form has read, the next does not see."""
    found = []
    for pattern, read in _FORMS:
        seen = list(prose)
        for match in pattern.finditer(prose):
            said = read(match)
            if said is None:
                continue
            seen[match.start() : match.end()] = "\x1f" * len(match[0])
            if said.readings:
                found.append(_Found(match.start(), match.end(), said))
        prose = "".join(seen)
    return sorted(found, key=lambda one: one.start)


_BETWEEN = re.compile(r"\s*(?:-|to|and|or)\s*[€$£]?\s*")


def _sharing_units(found: list[_Found], prose: str) -> list[_Found]:
    """``1.3 to 2.1 million``: the first number may have the unit of the second."""
    for i in range(len(found) - 2, -1, -1):
        one, unit = found[i], found[i + 1].said.unit
        between = prose[one.end : found[i + 1].start]
        if unit is None or one.said.unit is not None or not _BETWEEN.fullmatch(between):
            continue
        if shared := [unit(reading) for reading in one.said.readings if reading.kind == "plain"]:
            said = _Said((*one.said.readings, *shared), unit=unit)
            found[i] = _Found(one.start, one.end, said)
    return found


# --- reading them ----------------------------------------------------------------------------

_WHOLE = re.compile(r"\d+")
_GROUPED = re.compile(r"\d{1,3}(?:(?P<mark>[ ,.'])\d{3})(?:(?P=mark)\d{3})*")
_POINT = re.compile(r"(?:\d+|\d{1,3}(?:[ ,']\d{3})+)?\.\d+")
_COMMA = re.compile(r"(?:\d+|\d{1,3}(?:[ .']\d{3})+),\d+")


def _digits(text: str) -> list[Reading]:
    """What digits may mean: a point or a comma before decimals, or between thousands."""
    mantissa, _, exponent = text.partition("e")
    if len(mantissa) > MOST_DIGITS:
        return []
    spelled = []
    if _WHOLE.fullmatch(mantissa):
        spelled.append(mantissa)
    if _GROUPED.fullmatch(mantissa):
        spelled.append(re.sub(r"[ ,.']", "", mantissa))
    if _POINT.fullmatch(mantissa):
        spelled.append(re.sub(r"[ ,']", "", mantissa))
    if _COMMA.fullmatch(mantissa):
        spelled.append(re.sub(r"[ .']", "", mantissa).replace(",", "."))
    exponent = f"e{exponent}" if exponent else ""
    return [literal(one + exponent) for one in dict.fromkeys(spelled)]


def _step(digits: str) -> Fraction:
    """The unit of the last digit; zeros at the end of a large number may be those of rounding."""
    _, point, decimals = digits.partition(".")
    if point:
        return Fraction(1, 10 ** len(decimals))
    zeros = len(digits) - len(digits.rstrip("0"))
    is_rounded = int(digits) > LAST_YEAR and len(digits.lstrip("0")) - zeros > 1
    return Fraction(10**zeros if is_rounded else 1)


def _times(scale: int) -> Unit:
    """A scale, such as a million; ``2 million`` may be rounded, but not by half a million."""

    def scaled(reading: Reading) -> Reading:
        value = reading.value * scale
        return Reading(reading.kind, value, min(reading.step * scale, value / 10))

    return scaled


def _percent(reading: Reading) -> Reading:
    return Reading("share", reading.value / 100, (reading.step or Fraction(1)) / 100)


def _multiple(value: Fraction | int, step: Fraction = Fraction(1)) -> Reading:
    return Reading("multiple", Fraction(value), min(step, Fraction(1, 10)))


def _plainly(value: Fraction | int, step: Fraction = EXACT) -> Reading:
    return Reading("plain", Fraction(value), step)


def _share(numerator: int, denominator: int) -> Reading:
    return Reading("share", Fraction(numerator, denominator), Fraction(1, 100))


def _date(year: str | None, month: int, day: int) -> Reading:
    return Reading("date", Fraction(int(year or 0) * 10_000 + month * 100 + day))


def _is_day(month: int, day: int) -> bool:
    return 1 <= month <= 12 and 1 <= day <= 31


def _iso(match: re.Match[str]) -> _Said | None:
    month, day = int(match[2]), int(match[3])
    return _Said((_date(match[1], month, day),)) if _is_day(month, day) else None


def _numeric_date(match: re.Match[str]) -> _Said | None:
    first, second = int(match[1]), int(match[2])
    orders = [(second, first), (first, second)]
    dates = [_date(match[3], *order) for order in orders if _is_day(*order)]
    return _Said(tuple(dict.fromkeys(dates))) if dates else None


def _spoken_date(match: re.Match[str]) -> _Said | None:
    month, day = _MONTHS[match["month"]], int(match["day"])
    return _Said((_date(match["year"], month, day),)) if _is_day(month, day) else None


def _clock(match: re.Match[str]) -> _Said | None:
    hour, minute = int(match[1]), int(match[2])
    if hour > 24 or minute > 59:
        return None
    half = {"a": hour % 12, "p": hour % 12 + 12}.get(match[3] or "", hour)
    return _Said((Reading("time", Fraction(half * 60 + minute)),))


def _short_year(match: re.Match[str]) -> _Said:
    return _Said((_plainly(int(match[1] + match[2])),))


def _mixed(match: re.Match[str]) -> _Said | None:
    whole, numerator, denominator = map(int, match.groups())
    return _Said((_plainly(whole + Fraction(numerator, denominator)),)) if denominator else None


def _ratio(match: re.Match[str]) -> _Said | None:
    numerator, denominator = (_WORDS.get(part, part) for part in match.groups())
    if not 0 < int(numerator) < int(denominator):
        return None
    return _Said((_share(int(numerator), int(denominator)),))


def _nothing(match: re.Match[str]) -> _Said:
    return NOTHING


def _half_a_scale(match: re.Match[str]) -> _Said:
    return _Said((_plainly(Fraction(_SCALES[match[1]], 2)),))


def _part_of_a_unit(match: re.Match[str]) -> _Said:
    return _Said((Reading("piece", Fraction(1, _PARTS[match[1]])),))


def _half(match: re.Match[str]) -> _Said:
    return _Said((_share(1, 2),))


def _word_multiple(match: re.Match[str]) -> _Said:
    return _Said((_multiple(_MULTIPLES[match[1]]),))


def _counted_multiple(match: re.Match[str]) -> _Said | None:
    said = match[1]
    if said in _WORDS or said == "hundred":
        return _Said((_multiple(_WORDS.get(said, 100)),))
    return _Said(tuple(_multiple(r.value, r.step) for r in _digits(said))) if said else None


def _part(match: re.Match[str]) -> _Said | None:
    numerator = _WORDS.get(match[1], 1)
    denominator = _PARTS[match[2].removesuffix("s")]
    return _Said((_share(numerator, denominator),)) if numerator else None


def _and_a_part(match: re.Match[str]) -> _Said:
    """``two and a half million``, ``one and a half percent``."""
    count = {"a": 1, "one": 1, "three": 3}[match["count"]]
    part = Fraction(count, _PARTS[match["part"].rstrip("s")])
    reading = _plainly(_cardinal(match["whole"])[0][0] + part)
    if match["percent"]:
        return _Said((_percent(reading),), unit=_percent)
    scale = _SCALES.get(match["scale"] or "", 1)
    return _Said((_times(scale)(reading),), unit=_times(scale) if scale > 1 else None)


def _in_words(match: re.Match[str]) -> _Said:
    """A number in words; of several in a row, the largest."""
    value, scale = max(_cardinal(match[1]))
    reading = _plainly(value, min(Fraction(scale), value / 10) if scale > 100 else EXACT)
    if match["percent"]:
        return _Said((_percent(reading),), unit=_percent)
    return _Said((reading,), value > SMALL, _times(scale) if scale > 1 else None)


def _cardinal(text: str) -> list[tuple[Fraction, int]]:
    """Numbers in words with the last scale of each: ``one hundred and fifty`` is (150, 100).

    ``twenty ten`` is none, so it is read as two.
    """
    numbers: list[tuple[Fraction, int]] = []
    total, group, scale, joined = 0, 0, 1, False
    begun = False
    for word in re.split(r"[ -]+", text):
        if word == "and":
            joined = True
            continue
        if (factor := _SCALES.get(word)) is not None:
            if factor == 100:
                group = (group or 1) * 100
            else:
                total, group = total + (group or 1) * factor, 0
            scale, begun, joined = factor, True, False
            continue
        value = 1 if word in ("a", "an") else _WORDS[word]
        room = 100 if group % 100 == 0 and scale > 1 else 0
        if not joined and group % 100 >= 20 and group % 10 == 0:
            room = 10
        if begun and not 0 < value < room:
            numbers.append((Fraction(total + group), scale))
            total, group, scale = 0, 0, 1
        group, begun, joined = group + value, True, False
    numbers.append((Fraction(total + group), scale))
    return numbers


def _number(match: re.Match[str]) -> _Said | None:
    """Digits with what stands behind them: a percent sign, a scale, ``times as``."""
    readings = _digits(match["digits"])
    if not readings:
        return None
    if match["percent"]:
        return _Said(tuple(map(_percent, readings)), unit=_percent)
    if match["scale"]:
        unit = _times(_SCALES[match["scale"]])
        return _Said(tuple(map(unit, readings)), unit=unit)
    if match["letter"]:  # 5m are five metres, or five million
        unit = _times(_SCALES[match["letter"]])
        return _Said((*readings, *map(unit, readings)), unit=unit)
    if match["compared"]:
        return _Said(tuple(_multiple(r.value, r.step) for r in readings))
    measures = match["own"] is None or all(reading.value > SMALL for reading in readings)
    return _Said(tuple(readings), measures)


def _form(pattern: str, read: Callable[[re.Match[str]], _Said | None]) -> Form:
    return re.compile(pattern), read


_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?:,?[ ](?P<year>\d{4})(?!\w))?"
_PART_WORD = rf"{_any(_PARTS)}s?"
_OF_IT = r"(?=[ ](?:of|as|fewer|less|more|lower|higher|smaller|larger|bigger)\b|[ ]?[^\w -]|[ ]?$)"

_FORMS: tuple[Form, ...] = (
    _form(rf"{_BEFORE}(\d{{4}})-(\d{{1,2}})-(\d{{1,2}})(?!\d)", _iso),
    _form(rf"{_BEFORE}(\d{{1,2}})[./](\d{{1,2}})[./](\d{{4}})(?!\w)", _numeric_date),
    _form(rf"{_BEFORE}{_DAY}[ ](?:of[ ])?(?P<month>{_MONTH})\b\.?{_YEAR}", _spoken_date),
    _form(
        rf"\b(?P<month>{_MONTH})\b\.?[ ]{_DAY}"
        rf"(?![\w:]|[.,]\d|{_PERCENT}|[ ]{_SCALE}){_YEAR}",
        _spoken_date,
    ),
    _form(rf"{_BEFORE}(\d{{1,2}}):(\d\d)(?::\d\d)?(?:[ ]?([ap])\.?m\b)?(?![\d:])", _clock),
    _form(r"(?<=\b(19|20)\d\d[-/])(\d\d)(?![\w%-])", _short_year),
    _form(rf"{_BEFORE}(\d{{1,4}})[ -](\d{{1,2}})/(\d{{1,3}})(?![\w/])", _mixed),
    _form(rf"{_BEFORE}(\d{{1,3}})(?:/|[ ]out[ ]of[ ])(\d{{1,3}})(?![\w/]|[.,]\d)", _ratio),
    _form(rf"\b(one)[ ](?:\w+[ ])?in[ ]({_SMALL_WORD}|{_any(_TENS)})\b(?![ -]{_SCALE})", _ratio),
    _form(rf"\b({_SMALL_WORD})[ ](?:in|out[ ]of)[ ]({_SMALL_WORD})\b(?![ -]{_SCALE})", _ratio),
    _form(rf"{_BEFORE}\d+(?:st|nd|rd|th)\b", _nothing),
    _form(
        rf"(?P<whole>{_CARDINAL})[ ]and[ ](?P<count>a|one|three)[ -]"
        rf"(?P<part>half|quarters?|third)\b"
        rf"(?:[ -](?P<scale>{_SCALE})\b)?(?P<percent>{_PERCENT})?",
        _and_a_part,
    ),
    _form(rf"\b(half|quarter)[ -](?:an?[ ]|of[ ]an?[ ])?{_SPAN}", _part_of_a_unit),
    _form(rf"\b(?:half|quarter)[ ](?:past|to[ ]{_SMALL_WORD})\b", _nothing),
    _form(r"\b(?:first|second|latter|last|final|third|fourth)[ -](?:half|quarter)\b", _nothing),
    _form(rf"\bhalf[ -](?:an?[ ])?({_SCALE})\b", _half_a_scale),
    _form(rf"\b(an?|one)[ -]({_any(_ORDINALS)})\b{_OF_IT}", _part),
    _form(rf"\b({_SMALL_WORD})[ -]({_PART_WORD})\b", _part),
    _form(r"\b(an?)[ -](half|quarter|twentieth|hundredth)\b", _part),
    _form(
        r"\b(?:(?:cut|cuts|cutting|fell|falls|fallen|slashed|split|chopped)[ ](?:in|into|by)[ ]half"
        r"|halv(?:es?|ed|ing)|half)\b",
        _half,
    ),
    _form(rf"\b({_any(_STEMS)})(?:ed|es|ing|e{_COMPARED})\b", _word_multiple),
    _form(rf"\b(twice|thrice){_COMPARED}", _word_multiple),
    _form(rf"(?:{_BEFORE}|\b)({_DIGITS}|{_WORD}|hundred)[ -]?fold\b", _counted_multiple),
    _form(rf"\bfactor[ ]of[ ]({_DIGITS}|{_WORD})\b", _counted_multiple),
    _form(rf"\b({_WORD})[ ]times\b{_COMPARED}", _counted_multiple),
    _form(rf"({_CARDINAL})(?P<percent>{_PERCENT})?", _in_words),
    _form(
        rf"{_BEFORE}(?P<digits>{_DIGITS})(?:(?P<percent>{_PERCENT})"
        rf"|[ -]?(?P<scale>{_SCALE}|mn|mio|bn)\b|(?P<letter>[kmb])\b"
        rf"|(?P<compared>x(?!\w)|[ ]times\b{_COMPARED})|(?P<own>{_ITS_OWN}))?",
        _number,
    ),
)
"""From the most to the least particular."""
