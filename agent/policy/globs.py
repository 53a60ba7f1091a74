"""Patterns for names of tools, effects and recipients: ``*`` and ``?``, nothing else.

What fnmatch reads as a set (``[ab]``) is refused where a pattern is read: nobody who writes one by
accident would notice.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable
from functools import lru_cache

TOOL = re.compile(r"[A-Za-z0-9_.*?-]{1,64}")
EFFECT = re.compile(r"(\*|[a-z_]+):[^\s\[\]]+|\*")
RECIPIENT = re.compile(r"[^\s\[\],;<>\"()]{1,254}")


def matches(name: str, pattern: str) -> bool:
    """Whether a pattern stands for a whole name; case counts."""
    return _compiled(pattern).fullmatch(name) is not None


def any_matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether one of several patterns stands for a name."""
    return any(matches(name, pattern) for pattern in patterns)


def overlap(one: str, other: str) -> bool:
    """Whether there is a name that both patterns stand for."""
    ends = {(0, 0)}  # how far each of them is used up, for some beginning of a name
    seen: set[tuple[int, int]] = set()
    while ends:
        at = ends.pop()
        if at in seen:
            continue
        seen.add(at)
        i, j = at
        mine, its = one[i : i + 1], other[j : j + 1]
        if not mine and not its:
            return True
        ends |= {(i + 1, j)} if mine == "*" else set()
        ends |= {(i, j + 1)} if its == "*" else set()
        if mine and its and (mine == its or "?" in (mine, its) or "*" in (mine, its)):
            ends.add((i + (mine != "*"), j + (its != "*")))
    return False


def is_part_of(inner: str, outer: str) -> bool:
    """Whether a pattern is sure to stand for nothing that another one does not stand for.

    Only a ``*`` takes in a ``*``, and only a ``*`` or a ``?`` a ``?``. So it may say no of two
    patterns where that is true only in a roundabout way.
    """
    return _compiled(outer.replace("?", "[!*]")).fullmatch(inner) is not None


def is_literal(pattern: str) -> bool:
    """Whether it stands for one name only."""
    return "*" not in pattern and "?" not in pattern


@lru_cache(maxsize=32_768)  # fnmatch keeps 256, and a file may have ten thousand
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
