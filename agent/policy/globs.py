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


def is_literal(pattern: str) -> bool:
    """Whether it stands for one name only."""
    return "*" not in pattern and "?" not in pattern


@lru_cache(maxsize=32_768)  # fnmatch keeps 256, and a file may have ten thousand
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
