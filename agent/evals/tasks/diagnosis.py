"""What the trials of a world come to: how reliable, where they are lost, what they take.

``compared`` holds two runs against each other: which stage got better, and what that alone would
have brought.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from agent.evals.reliability import Count, Estimate, estimated, pass_at_k, pass_hat_k
from agent.evals.stages import Intervention, Rate, gain, product, rates_of
from agent.evals.tasks.record import Trial, Unit

KS = (1, 2, 4, 8, 16)
UNITS: tuple[Unit, ...] = ("call", "chain", "conversation")


@dataclass(frozen=True)
class Cost:
    """What a trial took on average; ``asked`` are prompts to the reviewer."""

    steps: float
    tokens: float
    asked: float

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> Cost:
        """The average over trials."""
        figures = [trial.figures for trial in trials]
        return cls(
            steps=fmean(one.steps for one in figures),
            tokens=fmean(one.tokens_in + one.tokens_out for one in figures),
            asked=fmean(one.asked for one in figures),
        )


@dataclass(frozen=True)
class Diagnosis:
    """The trials of one world, with the policy in one place."""

    world: str
    policy_in: str
    trials: tuple[Trial, ...]

    @cached_property
    def by_task(self) -> Mapping[str, Sequence[Trial]]:
        """The trials of each task, in the order of their numbers."""
        found: dict[str, list[Trial]] = {}
        for trial in self.trials:
            found.setdefault(trial.task, []).append(trial)
        return {task: sorted(some, key=lambda one: one.number) for task, some in found.items()}

    @cached_property
    def counts(self) -> Sequence[Count]:
        """How often each task succeeded."""
        return [
            Count(sum(trial.passed for trial in some), len(some)) for some in self.by_task.values()
        ]

    @property
    def rate(self) -> float:
        """How often tasks succeed, from end to end: pass^1."""
        return pass_hat_k(self.counts, 1)

    @property
    def ks(self) -> Sequence[int]:
        """The k that there are enough trials for."""
        return [k for k in KS if k <= min(count.trials for count in self.counts)]

    def reliability(self) -> Mapping[int, tuple[Estimate, Estimate]]:
        """pass^k and pass@k with their intervals."""
        return {
            k: (estimated(pass_hat_k, self.counts, k), estimated(pass_at_k, self.counts, k))
            for k in self.ks
        }

    @cached_property
    def stages(self) -> Mapping[str, Rate]:
        """The rate of each stage among what got through those before."""
        return rates_of(trial.reached for trial in self.trials)

    @property
    def through(self) -> float:
        """The stages multiplied out. Where tasks succeed more often, some went another way than
        the right calls and got there all the same, as after a call that a tool has refused."""
        return product(_values(self.stages))

    @property
    def failed(self) -> Sequence[Trial]:
        """Those that did not pass, by unit, task and number."""
        lost = [trial for trial in self.trials if trial.failure is not None]
        order = list(self.by_task)
        return sorted(lost, key=lambda t: (UNITS.index(_unit(t)), order.index(t.task), t.number))

    @property
    def units(self) -> Mapping[Unit, int]:
        """How many failed in each unit."""
        found = Counter(_unit(trial) for trial in self.failed)
        return {unit: found[unit] for unit in UNITS}

    @cached_property
    def cost(self) -> Cost:
        """What a trial took."""
        return Cost.of(self.trials)


def _unit(trial: Trial) -> Unit:
    assert trial.failure is not None
    return trial.failure.unit


def diagnosed(trials: Iterable[Trial]) -> list[Diagnosis]:
    """The trials sorted by world and by what holds the policy."""
    found: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        found.setdefault((trial.world, trial.policy_in), []).append(trial)
    return [Diagnosis(*key, tuple(some)) for key, some in sorted(found.items())]


@dataclass(frozen=True)
class Change:
    """What changed between two runs.

    Args:
        rates: How often tasks succeeded, before and after.
        stages: Of each stage that both runs came to, its change as an intervention on the first
            run: the rate that was measured, and what a trial took more of tokens.
        gains: What each of them alone brings to the first run's product.
        worse, better: Tasks that succeeded less and more often.
    """

    name: str
    rates: tuple[float, float]
    stages: tuple[Intervention, ...]
    gains: Mapping[str, float]
    worse: tuple[str, ...]
    better: tuple[str, ...]

    @property
    def best(self) -> str | None:
        """The stage whose change brings most; ``None`` when none brings anything."""
        stage = max(self.gains, key=lambda stage: self.gains[stage], default=None)
        return stage if stage is not None and self.gains[stage] > 0 else None


def compared(one: Diagnosis, other: Diagnosis, name: str) -> Change:
    """What ``other`` changed against ``one``, as an intervention of that name."""
    before, after = _values(one.stages), _values(other.stages)
    known = [stage for stage in before if one.stages[stage].tried and other.stages[stage].tried]
    rates = {stage: before[stage] for stage in known}
    cost = other.cost.tokens - one.cost.tokens
    stages = tuple(Intervention(name, stage, after[stage], cost) for stage in known)
    return Change(
        name=name,
        rates=(one.rate, other.rate),
        stages=stages,
        gains={change.stage: gain(rates, change) for change in stages},
        worse=_tasks(one, other, worse=True),
        better=_tasks(one, other, worse=False),
    )


def _values(stages: Mapping[str, Rate]) -> dict[str, float]:
    return {stage: rate.value for stage, rate in stages.items()}


def _tasks(one: Diagnosis, other: Diagnosis, *, worse: bool) -> tuple[str, ...]:
    found = []
    for task, trials in one.by_task.items():
        if task in other.by_task:
            before = fmean(trial.passed for trial in trials)
            after = fmean(trial.passed for trial in other.by_task[task])
            if (after < before) if worse else (after > before):
                found.append(task)
    return tuple(found)
