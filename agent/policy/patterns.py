"""What a regular expression costs where it is looked for, told by its text.

The library compiles a pattern anew each time, and looks for it with a machine whose states it
makes as it goes. Where these grow too many it follows every place of the pattern at once, so that
each character of the text takes as long as the pattern has places, repetitions written out. Both
are bounded from above here, in units of some 0.1 µs; how they were measured is in
``docs/decisions.md``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

LARGEST = 200_000
"""Units that compiling one pattern may take."""

FEW = 10
"""Places of a pattern up to which its states stay few, whatever it is."""

_FAST, _SLOW = 8, 20
"""Units for 64 characters of text: of a pattern with few states, and for each place of another."""

_MOST = 10**9
_WORDS = re.compile(r"(\(\?i\))?\^?\(?(?:[^.\[\](){}*+?\\]|\\[^A-Za-z0-9])*\)?\$?")
"""Texts with ``|`` between them: as many states as characters, and no more."""

_UNITS = {"w": 2_500, "W": 2_500, "p": 2_500, "P": 2_500, "d": 250, "D": 250}
_ANY, _CLASS, _CHARACTER, _WHOLE = 30, 10, 4, 500
_REPEAT = re.compile(r"\{(\d*)(,?)(\d*)\}")


class Cost(NamedTuple):
    """What looking for a pattern takes at most.

    Args:
        once: Units for compiling it.
        each: Units for every 64 characters of the text.
    """

    once: int
    each: int


@dataclass
class _Group:
    """What stands between two brackets: units and places so far, and those of its last atom."""

    units: int = 0
    places: int = 0
    last: tuple[int, int] = field(default=(0, 0))

    def add(self, units: int, places: int = 1) -> None:
        self.units, self.places = self.units + units, self.places + places
        self.last = (units, places)

    def repeat(self, times: int) -> None:
        """The last atom stands there so many times instead of once."""
        more = max(times - 1, 0)
        self.units = min(self.units + more * self.last[0], _MOST)
        self.places = min(self.places + more * self.last[1], _MOST)
        self.last = (self.last[0] * max(times, 1), self.last[1] * max(times, 1))


def cost_of(pattern: str) -> Cost:
    """The cost of a pattern; of one that is none, whatever comes out.

    One that is written with spaces and remarks (``(?x)``) is not read here: too much.
    """
    if re.search(r"\(\?[a-zA-Z]*x", pattern):
        return Cost(_MOST, _MOST)
    whole = _read(pattern)
    folded = 2 if re.search(r"\(\?[a-zA-Z]*i", pattern) else 1
    few = whole.places <= FEW or _WORDS.fullmatch(pattern) is not None
    return Cost(whole.units * folded + _WHOLE, _FAST if few else _SLOW * whole.places * folded)


def _read(pattern: str) -> _Group:
    open_ = [_Group()]
    at = 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if character == "\\":
            name = pattern[at : at + 1]
            at = _after_name(pattern, at)
            open_[-1].add(_UNITS.get(name, _ANY if name in ("s", "S") else _CHARACTER))
        elif character == "[":
            at, units = _class(pattern, at)
            open_[-1].add(units)
        elif character == "(":
            open_.append(_Group())
            flags = re.match(r"\?(?:P?<\w*>|[\w-]*[:)]?)", pattern[at:])
            at += flags.end() if flags and not flags[0].endswith(")") else 0
        elif character == ")" and len(open_) > 1:
            inner = open_.pop()
            open_[-1].add(inner.units, inner.places)
        elif character == "{" and (found := _REPEAT.match(pattern, at - 1)):
            low, comma, high = found.groups()
            open_[-1].repeat(int(high or low or 0) + (comma == "," and not high))
            at = found.end()
        elif character == ".":
            open_[-1].add(_ANY)
        elif character not in "^$|*+?":
            open_[-1].add(_CHARACTER if character.isascii() else 2 * _CHARACTER)
    while len(open_) > 1:
        inner = open_.pop()
        open_[-1].add(inner.units, inner.places)
    return open_[0]


def _after_name(pattern: str, at: int) -> int:
    """Behind what follows a backslash: ``w``, ``pL``, ``p{Greek}``, ``x{1F600}``."""
    name, end = pattern[at : at + 1], at + 1
    if name in ("p", "P") and pattern[end : end + 1] != "{":
        return end + 1
    if name in ("p", "P", "x", "u", "U") and pattern[end : end + 1] == "{":
        close = pattern.find("}", end)
        return close + 1 if close >= 0 else len(pattern)
    return end


def _class(pattern: str, at: int) -> tuple[int, int]:
    """Behind a class in square brackets, and its units; classes may stand in each other."""
    units, depth, begun = _CLASS, 1, at
    if pattern[at : at + 1] == "^":
        units, at = _ANY, at + 1
    if pattern[at : at + 1] == "]":
        at += 1
    while at < len(pattern) and depth:
        character = pattern[at]
        at += 1
        if character == "\\":
            units += _UNITS.get(pattern[at : at + 1], 2)
            at = _after_name(pattern, at)
        elif character == "[":
            depth += 1
            units += 0 if pattern[at : at + 1] != ":" else 100
        elif character == "]":
            depth -= 1
        else:
            units += 2
    return at, units if at > begun else _CLASS
