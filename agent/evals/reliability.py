"""How often it works, and how sure that is: pass^k and pass@k over repeated trials.

Both are the unbiased estimates from c successes in n trials of a task, averaged over tasks: what
is estimated is the chance for k further trials, not what k of these happened to do. The interval is
a percentile bootstrap over tasks: which tasks were chosen matters more than one trial more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean


@dataclass(frozen=True)
class Count:
    """One task: ``successes`` of ``trials``.

    Raises:
        ValueError: There cannot be so many.
    """

    successes: int
    trials: int

    def __post_init__(self) -> None:
        if not 0 <= self.successes <= self.trials:
            raise ValueError(f"{self.successes} of {self.trials} trials cannot have succeeded")


def pass_hat_k(counts: Sequence[Count], k: int) -> float:
    """pass^k: the chance that all of k trials of a task succeed, ``C(c, k) / C(n, k)``.

    Raises:
        ValueError: There are no tasks, or one with less than k trials.
    """
    _check(counts, k)
    return fmean(_all_of(count, k) for count in counts)


def pass_at_k(counts: Sequence[Count], k: int) -> float:
    """pass@k: the chance that one of k trials succeeds at least, ``1 - C(n - c, k) / C(n, k)``.

    Raises:
        ValueError: There are no tasks, or one with less than k trials.
    """
    _check(counts, k)
    return fmean(1 - _all_of(Count(c.trials - c.successes, c.trials), k) for c in counts)


def _all_of(count: Count, k: int) -> float:
    return math.comb(count.successes, k) / math.comb(count.trials, k)


def _check(counts: Sequence[Count], k: int) -> None:
    if not counts:
        raise ValueError("there is no task to average over")
    if k < 1:
        raise ValueError("k counts trials, from 1")
    if few := [count.trials for count in counts if count.trials < k]:
        raise ValueError(f"k = {k} needs as many trials of each task; one has {min(few)}")


Metric = Callable[[Sequence[Count], int], float]


@dataclass(frozen=True)
class Estimate:
    """A figure with the interval that holds it, at the level it was asked for."""

    value: float
    low: float
    high: float


def estimated(
    metric: Metric,
    counts: Sequence[Count],
    k: int,
    *,
    level: float = 0.95,
    resamples: int = 2_000,
    seed: int = 0,
) -> Estimate:
    """A metric with its bootstrap interval over tasks.

    Args:
        metric: ``pass_hat_k`` or ``pass_at_k``.
        level: Of the interval.
        seed: Of the resampling: the same gives the same interval.

    Raises:
        ValueError: As the metric does; or a level that is none.
    """
    if not 0 < level < 1:
        raise ValueError("the level of an interval is between 0 and 1")
    value = metric(counts, k)
    each = [metric([count], k) for count in counts]
    chance = Random(seed)
    means = sorted(fmean(chance.choices(each, k=len(each))) for _ in range(resamples))
    return Estimate(value, _quantile(means, (1 - level) / 2), _quantile(means, (1 + level) / 2))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Between the two values that stand around this share, in proportion."""
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)
