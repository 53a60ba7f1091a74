"""What an error's text says would help."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_AGAIN = re.compile(
    r"\btry (?:it |this |the same call )?again\b|\bretry\b|\btemporar(?:y|ily)\b|\bbusy\b|"
    r"\bsame call again\b|\btimed? ?out\b|\bunavailable\b|\brate limit",
    re.I,
)
_REREAD = re.compile(
    r"\b(?:read|fetch|get|look up|load|check)\b.{0,60}\b(?:again|first|anew|current|latest|now)\b|"
    r"\b(?:stale|outdated|out of date|has changed|was changed|changed since|conflict|mismatch|"
    r"revision is|version is|now at revision|has revision|is at revision)\b",
    re.I,
)


@dataclass(frozen=True)
class Advice:
    """``again``: the same call may work; ``reread``: read the record, then call with its values;
    ``tools``: reads that the text names."""

    again: bool
    reread: bool
    tools: tuple[str, ...]


def advice(text: str, reads: Collection[str]) -> Advice:
    """Read an error text for a way on."""
    return Advice(
        again=bool(_AGAIN.search(text)),
        reread=bool(_REREAD.search(text)),
        tools=tuple(t for t in sorted(reads) if re.search(rf"\b{re.escape(t)}\b", text)),
    )
