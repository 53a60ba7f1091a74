"""A run of tasks as it was kept in a folder, and two of them beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agent.evals.tasks.diagnosis import Change, Diagnosis, compared, diagnosed
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
