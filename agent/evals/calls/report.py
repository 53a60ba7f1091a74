"""From scores to figures: accuracy by category, failures by class, and what exact text says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent.evals.calls.cases import CATEGORIES, Case
from agent.evals.calls.scoring import FAILURES, Reply, Score

HEADINGS = ("MODEL", "RIGHT", *(name.upper() for name in CATEGORIES), "EXACT TEXT", "DISAGREE")


@dataclass(frozen=True)
class Figures:
    """What one model's replies are worth.

    Args:
        exact: For each score, whether the reply is, letter by letter, the right calls as Python
            writes them; the brittle way to score.
    """

    model: str
    scores: tuple[Score, ...]
    exact: tuple[bool, ...]

    @property
    def accuracy(self) -> float:
        """The share of right replies."""
        return _share([score.right for score in self.scores])

    @property
    def failures(self) -> dict[str, int]:
        """How often each class of failure was met, in the order of the classes."""
        counts = Counter(score.failure for score in self.scores)
        return {failure: counts[failure] for failure in FAILURES if counts[failure]}

    @property
    def disagree(self) -> int:
        """Replies that one way of scoring calls right and the other wrong."""
        return sum(s.right != exact for s, exact in zip(self.scores, self.exact, strict=True))

    def of(self, category: str) -> float | None:
        """The share of right replies in a category; ``None`` where there is no case."""
        right = [score.right for score in self.scores if score.category == category]
        return _share(right) if right else None

    def as_json(self, *, scores: bool = False) -> dict[str, Any]:
        """For ``--json``; ``scores``: each case too."""
        found: dict[str, Any] = {
            "model": self.model,
            "cases": len(self.scores),
            "accuracy": round(self.accuracy, 4),
            "by_category": {
                name: round(value, 4) for name in CATEGORIES if (value := self.of(name)) is not None
            },
            "failures": self.failures,
            "exact_text": {"accuracy": round(_share(self.exact), 4), "disagree": self.disagree},
        }
        if scores:
            found["scores"] = [
                {"case": one.case, "failure": one.failure, "problems": list(one.problems)}
                for one in self.scores
            ]
        return found

    def as_row(self) -> list[str]:
        """A line of the table."""
        values = [self.accuracy, *(self.of(name) for name in CATEGORIES), _share(self.exact)]
        return [self.model, *map(_percent, values), str(self.disagree)]


def figures(
    model: str, cases: Sequence[Case], replies: Sequence[Reply], scores: Sequence[Score]
) -> Figures:
    """The figures of one model's replies, each to the case of the same place."""
    exact = tuple(
        reply.calls is None and reply.text == case.gold_text
        for case, reply in zip(cases, replies, strict=True)
    )
    return Figures(model, tuple(scores), exact)


def _share(right: Sequence[bool]) -> float:
    return sum(right) / len(right) if right else 0.0


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"
