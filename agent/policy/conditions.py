"""Conditions of rules: one CEL expression each, checked when it is read and bounded when it runs.

What CEL can do is cut down to comparing. Conditions do not calculate: there is no ``+``, so money
is never summed in binary fractions (sums come in exactly, ``total``), and nothing grows. They do
not loop inside a loop. So what one costs is known before it runs, by the size of what it looks at:
the library holds the interpreter's lock, and nothing could stop it. Its ``size`` of a text counts
bytes of UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agent.policy.language import Loop, Parsed, Reference, parsed
from agent.policy.lookup import Facts, Missing, NotChecked, in_words

LARGEST = 1_000_000
"""Units of work of one condition, each some 0.1 µs; what takes more counts as not checkable."""


@dataclass(frozen=True)
class Condition:
    """A checked condition, compiled once."""

    source: str
    _parsed: Parsed = field(repr=False, compare=False)

    @classmethod
    def of(cls, source: str) -> Condition:
        """Check and compile.

        Raises:
            ConditionError: What is wrong, where, and what to write instead.
        """
        return cls(source, parsed(source))

    @property
    def references(self) -> tuple[Reference, ...]:
        """Every field that it names."""
        return self._parsed.references

    @property
    def least(self) -> int:
        """Units of work that it takes to look at any call; of loops, one round."""
        within = (s.cost.once for loop in self._parsed.loops for s in loop.searches)
        return self._parsed.fixed + sum(within)

    @property
    def texts(self) -> tuple[tuple[Reference, str], ...]:
        """Texts that are written in it, each after the field that it is compared with."""
        return self._parsed.texts

    def named(self, root: str) -> Iterator[Reference]:
        """The fields of one root that it names."""
        return (found for found in self.references if found.root == root)

    def holds(self, facts: Facts) -> bool:
        """Whether it is true of a call.

        Raises:
            NotChecked: A field is missing or of another type, a number cannot be compared
                exactly, or there is too much to look at.
        """
        for found in self.references:
            facts.check(found)
        self._afford(facts)
        for found, wanted in self._parsed.equalities:
            _check_type(found, facts.value(found), wanted)
        try:
            value = self._parsed.program.execute(facts.context)
        except KeyError as error:
            raise Missing(f"there is no {str(error).strip(chr(39))} in this call") from None
        except IndexError:
            raise Missing("a list is shorter than it expects") from None
        except Exception as error:
            raise NotChecked(in_words(error)) from None
        if not isinstance(value, bool):
            raise NotChecked("it says neither true nor false")
        return value

    def units(self, facts: Facts) -> int:
        """What it takes at most to look at a call."""
        outside = sum(facts.size(found) for found in self._parsed.outside)
        work = self._parsed.fixed + outside
        for search in self._parsed.searches:
            work += search.cost.each * (facts.size(search.over) if search.over else outside)
        for loop in self._parsed.loops:
            work += _units_of_loop(loop, facts)
        return work

    def _afford(self, facts: Facts) -> None:
        needed = self.units(facts)
        if needed > LARGEST:
            raise NotChecked("the call is too large for it")
        facts.spend(needed)


def _units_of_loop(loop: Loop, facts: Facts) -> int:
    all_, body = facts.size(loop.over), sum(facts.size(found) for found in loop.body)
    each = loop.tokens + body
    work = all_ * loop.tokens
    for search in loop.searches:
        each += search.cost.once
        if search.over is None:  # an element, or what is asked of one
            work += search.cost.each * all_
            each += search.cost.each * body
        else:
            each += search.cost.each * facts.size(search.over)
    return work + facts.elements(loop.over) * each


def _check_type(found: Reference, value: Any, wanted: str) -> None:
    if value is None or found.whole:
        return
    is_text, is_number = isinstance(value, str), type(value) in (int, float)
    if (wanted == "text" and not is_text) or (wanted == "number" and not is_number):
        kind = "text" if is_text else "a number" if is_number else "neither text nor a number"
        raise NotChecked(f"{found} is {kind}, and it is compared with a {wanted}")
