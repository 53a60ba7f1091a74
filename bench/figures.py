"""Measured numbers beside what is promised of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One number. ``bound`` is the most it may be; ``None``: it is only shown.

    ``unit`` is ``ms``, ``MB``, ``×`` (times as much as what it is compared with) or ``%`` of it.
    """

    name: str
    measured: float
    unit: str
    bound: float | None = None

    @property
    def kept(self) -> bool:
        """Whether it is within its bound."""
        return self.bound is None or self.measured <= self.bound


def table(title: str, figures: Sequence[Figure]) -> str:
    """Lines for a person; what is over its bound is marked."""
    width = max(len(figure.name) for figure in figures)
    lines = [title]
    for figure in figures:
        bound = "" if figure.bound is None else f"  at most {figure.bound:g}"
        mark = "" if figure.kept else "  OVER"
        measured = f"{figure.measured:9.2f} {figure.unit}"
        lines.append(f"  {figure.name:{width}}{measured:14}{bound}{mark}".rstrip())
    return "\n".join(lines)


def as_json(figures: Iterable[Figure]) -> list[dict[str, Any]]:
    """The same for a program."""
    return [{**asdict(figure), "kept": figure.kept} for figure in figures]


def ratio(rounds: Sequence[Mapping[str, float]], one: str, other: str) -> float:
    """The median, over the rounds, of how many times ``other`` is ``one``.

    Both come from the same round, a moment apart, so that a slow minute of the machine counts
    for both or for none.
    """
    return median(found[one] / found[other] for found in rounds)


def middle(rounds: Sequence[Mapping[str, float]], name: str) -> float:
    """The median of one number over the rounds."""
    return median(found[name] for found in rounds)
