"""What the numbers of an answer rest on: the user's words, pages of trusted sites, calculations.

A number has support when somebody who may be believed has said it, as exactly as the answer does
or more exactly: 0.3462 supports 34.6 % and 35 %, and not 36 %. A calculation is believed as far as
what went into it: else ``1 - 0.5`` would make 50 % of nothing.

What stands in a sentence that says it is not supported needs no support (``disowned``). Nothing
here understands a text: what a number is said to be about is not checked.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

from tools.quantities import Kind, Quantity, Reading, literal, quantities
from tools.worlds.arithmetic import ArithmeticRefused, work_out

CONSTANTS = frozenset({*range(13), 24, 52, 60, 365, 366, *(10**n for n in range(1, 10))})
"""Numbers that a calculation may bring along: small counts, the calendar's, and powers of ten."""

_SENTENCE_END = re.compile(r"(?<=[.!?;])[\"'”’)\]*_]*\s+|\n+")

_HOW = r"(?:\s+(?:independently|officially|publicly|actually|yet))?"
_NOT = r"(?:not|never|cannot|(?:is|was|are|were|has|have|could|can)n[’']t)"
_BACKED = r"(?:supported|confirmed|verified|backed|substantiated|borne\s+out)"
_GROUND = r"(?:support|evidence|sources?|pages?|data|figures?|basis)"
_DISOWNS = re.compile(
    rf"\b{_NOT}(?:\s+be(?:en)?)?{_HOW}\s+{_BACKED}\b"
    r"|(?<!not )\b(?:unsupported|unconfirmed|unverified|unsubstantiated)\b"
    rf"|\bno\s+(?:\w+\s+){{0,2}}{_GROUND}\s+(?:\w+\s+){{0,4}}?"
    r"(?:supports?|confirms?|backs?|verif(?:y|ies)|substantiates?)\b"
    rf"|\bno\s+(?:\w+\s+)?{_GROUND}\s+(?:for|behind)\b",
    re.IGNORECASE,
)
_REPORTS = re.compile(r"\b(?:claim(?:s|ed|ing)?|alleg(?:es?|ed|edly)|rumou?rs?)\b", re.IGNORECASE)


def disowned(sentence: str) -> bool:
    """Whether a sentence says that what it states is not supported.

    That is a "not" (``no source``, ``cannot be``) next to being supported, confirmed, verified,
    backed, substantiated or borne out; or ``unsupported`` and its like.
    """
    return _DISOWNS.search(sentence) is not None


class Grounds:
    """What numbers may rest on. Calculations are added after what went into them."""

    def __init__(self) -> None:
        self._values: dict[Kind, list[Fraction]] = {}

    def add_words(self, text: str) -> None:
        """What somebody said who may be believed."""
        for quantity in quantities(text):
            self._add_quantity(quantity)

    def add_page(self, text: str) -> None:
        """A page that may be believed; not in what it reports as the claim of others."""
        for start, end in _sentences(text):
            sentence = text[start:end]
            if not disowned(sentence) and not _REPORTS.search(sentence):
                self.add_words(sentence)

    def add_result(self, result: Any, args: Mapping[str, Any]) -> None:
        """A result that may be believed, as plain JSON; not in what the call itself had said."""
        asked = Grounds()
        asked._add_json(args)
        self._add_json(result, asked)

    def add_calculation(self, expression: str) -> None:
        """What was worked out from numbers that have support, and constants; each of its steps."""
        try:
            worked = work_out(expression)
        except ArithmeticRefused:
            return
        literals = [literal(digits) for digits in worked.literals]
        given = [one for one in literals if one.value not in CONSTANTS]
        if not worked.steps or not given or not all(map(self._has_literal, given)):
            return
        for one in literals:
            self._add("plain", one.value)
        in_percent = any(one.value == 100 for one in literals)
        for value in map(abs, worked.steps):
            self._add("plain", value)
            self._add("share", value)
            if in_percent:
                self._add("share", value / 100)
            self._add("multiple", value)
        self._add("multiple", 1 + worked.value)  # grown by 1.0 is doubled

    def supports(self, quantity: Quantity) -> bool:
        """Whether a number, in one of its readings, rests on something."""
        return any(self._has(reading) for reading in quantity.readings)

    def _add_json(self, value: Any, but: Grounds | None = None) -> None:
        if isinstance(value, Mapping):
            value = list(value.values())
        if isinstance(value, str):
            for quantity in quantities(value):
                if but is None or not but.supports(quantity):
                    self._add_quantity(quantity)
        elif isinstance(value, Sequence):
            for item in value:
                self._add_json(item, but)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            self._add_json(str(value), but)

    def _add_quantity(self, quantity: Quantity) -> None:
        for reading in quantity.readings:
            self._add(reading.kind, reading.value)
            if reading.kind == "date" and reading.value >= 10_000:  # it has a year
                self._add("plain", Fraction(reading.value // 10_000))
                self._add("date", reading.value % 10_000)

    def _add(self, kind: Kind, value: Fraction) -> None:
        insort(self._values.setdefault(kind, []), value)

    def _has(self, reading: Reading) -> bool:
        known = self._values.get(reading.kind, [])
        lowest, highest = reading.value - reading.step / 2, reading.value + reading.step / 2
        at = bisect_left(known, lowest)
        return at < len(known) and known[at] <= highest

    def _has_literal(self, one: Reading) -> bool:
        """A number of a calculation; 6 % may be written as 0.06 there, or as 6."""
        in_percent = Reading("share", one.value / 100, one.step / 100)
        return any(map(self._has, (one, one._replace(kind="share"), in_percent)))


def unsupported_numbers(answer: str, grounds: Grounds) -> list[str]:
    """The numbers of an answer that rest on nothing, as they stand in it, each once."""
    measures = [one for one in quantities(answer) if one.measures]
    sentences = [(start, end) for start, end in _sentences(answer) if disowned(answer[start:end])]
    found = [
        one.text
        for one in measures
        if not grounds.supports(one)
        and not any(start <= one.start < end for start, end in sentences)
    ]
    return list(dict.fromkeys(found))


def is_of_site(url: str, sites: Iterable[str]) -> bool:
    """Whether a url is of one of these hosts, or of a host below one."""
    try:
        host = urlsplit(url if "://" in url else f"https://{url}").hostname or ""
    except ValueError:
        return False
    host = host.rstrip(".").lower()
    return any(host == site or host.endswith(f".{site}") for site in sites)


def _sentences(text: str) -> list[tuple[int, int]]:
    """Where each sentence begins and ends; lines and halves at a semicolon count as sentences."""
    starts = [0, *(match.end() for match in _SENTENCE_END.finditer(text))]
    return list(zip(starts, [*starts[1:], len(text)], strict=True))
