"""A run of tasks as it was kept in a folder, and two of them beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean

from agent.evals.tasks.diagnosis import Change, Cost, Diagnosis, compared, diagnosed
from agent.evals.tasks.record import Trial
from agent.evals.tasks.results import RunKept, read_results


@dataclass(frozen=True)
class Run:
    """What was run, and what came of it."""

    name: str
    kept: RunKept
    trials: tuple[Trial, ...]

    @cached_property
    def diagnoses(self) -> Sequence[Diagnosis]:
        """Its trials by world and by what holds the policy."""
        return diagnosed(self.trials)

    @property
    def title(self) -> str:
        """What it is called."""
        return f"{self.name}: {self.kept.model}"

    @property
    def about(self) -> str:
        """How it was run."""
        worlds = ", ".join(sorted(self.kept.worlds))
        return (
            f"Worlds: {worlds}. Reviewer: {self.kept.reviewer}. Seed {self.kept.seed}. "
            f"{len(self.trials)} trials, {sum(not trial.passed for trial in self.trials)} failed."
        )


def read_run(folder: Path) -> Run:
    """The results of a folder.

    Raises:
        UsageError: There are none.
        InvalidFile: One cannot be read; with its line.
    """
    kept, trials = read_results(folder)
    return Run(folder.resolve().name, kept, tuple(trials))


def changes(run: Run, against: Run) -> list[Change]:
    """What a run changed against an earlier one, in each world that both have."""
    before = {(one.world, one.policy_in): one for one in against.diagnoses}
    return [
        compared(
            before[one.world, one.policy_in], one, f"{one.world}, policy in the {one.policy_in}"
        )
        for one in run.diagnoses
        if (one.world, one.policy_in) in before
    ]


BESIDE = (
    "WORLD",
    "POLICY IN",
    "TASK",
    "PASSED BEFORE",
    "NOW",
    "STEPS BEFORE",
    "NOW",
    "ASKED BEFORE",
    "NOW",
    "",
)


def side_by_side(run: Run, against: Run) -> Iterator[list[str]]:
    """Each task of an earlier run and of this one, on one line; the last cell says what changed."""
    before = {(one.world, one.policy_in): one.by_task for one in against.diagnoses}
    for one in run.diagnoses:
        earlier = before.get((one.world, one.policy_in), {})
        for task in dict.fromkeys([*earlier, *one.by_task]):
            yield [
                one.world,
                one.policy_in,
                task,
                *_beside(earlier.get(task), one.by_task.get(task)),
            ]


def _beside(before: Sequence[Trial] | None, now: Sequence[Trial] | None) -> list[str]:
    cells = []
    for figure in (_passed, _steps, _asked):
        cells += [figure(some) if some else "none" for some in (before, now)]
    if not before or not now:
        return [*cells, "new" if now else "gone"]
    gain = _rate(now) - _rate(before)
    return [*cells, "worse" if gain < 0 else "better" if gain > 0 else ""]


def _rate(trials: Sequence[Trial]) -> float:
    return fmean(trial.passed for trial in trials)


def _passed(trials: Sequence[Trial]) -> str:
    return f"{sum(trial.passed for trial in trials)}/{len(trials)}"


def _steps(trials: Sequence[Trial]) -> str:
    return f"{Cost.of(trials).steps:.1f}"


def _asked(trials: Sequence[Trial]) -> str:
    return f"{Cost.of(trials).asked:.2f}"
