"""Where tasks are lost: the rates of the stages that a task goes through, multiplied out.

::

    P(task) = P(right tool) · P(right arguments | tool) · P(executed | both) · P(task | all three)

The product is held against how often tasks succeed from end to end: where they differ, the stages
are not the whole story. The lowest rate deserves to be looked at; the best investment is the change
with the largest measured gain for its cost.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

STAGES = ("right tool", "right arguments", "executed", "task")
"""In order: each rate is among what got through the stages before it."""


@dataclass(frozen=True)
class Rate:
    """``passed`` of ``tried``."""

    passed: int
    tried: int

    @property
    def value(self) -> float:
        """The share; NaN where nothing was tried."""
        return self.passed / self.tried if self.tried else math.nan


@dataclass(frozen=True)
class Intervention:
    """A change whose effect on one stage was measured.

    Args:
        rate: That of the stage with it, the others as they are.
        cost: In whatever unit the interventions are compared in, such as tokens a task.
    """

    name: str
    stage: str
    rate: float
    cost: float


def rates_of(reached: Iterable[int]) -> dict[str, Rate]:
    """The rate of each stage.

    Args:
        reached: For each task, how many of the stages it got through, from 0 to all of them.
    """
    got = list(reached)
    return {
        stage: Rate(sum(n > at for n in got), sum(n >= at for n in got))
        for at, stage in enumerate(STAGES)
    }


def product(rates: Mapping[str, float]) -> float:
    """The chance of getting through all of them."""
    return math.prod(rates.values())


def gain(rates: Mapping[str, float], intervention: Intervention) -> float:
    """By how much the product grows with it.

    Raises:
        ValueError: It is about a stage that there is not.
    """
    if intervention.stage not in rates:
        known = ", ".join(rates)
        raise ValueError(f"{intervention.name} is about {intervention.stage!r}, none of {known}")
    return product({**rates, intervention.stage: intervention.rate}) - product(rates)


def cheapest(
    rates: Mapping[str, float], interventions: Sequence[Intervention]
) -> Intervention | None:
    """The one with the least cost for what it gains; ``None`` when none gains anything."""
    helpful = [i for i in interventions if gain(rates, i) > 0]
    return min(helpful, key=lambda i: (i.cost / gain(rates, i), i.name), default=None)
