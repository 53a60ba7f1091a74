"""The figures of a run as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from agent.evals.reliability import Estimate
from agent.evals.stages import STAGES
from agent.evals.tasks.diagnosis import Change, Cost, Diagnosis

HEADINGS = ("WORLD", "POLICY IN", "TASKS", "TRIALS", "K", "PASS^K", "PASS@K")
STAGE_HEADINGS = (
    "WORLD",
    "POLICY IN",
    *(stage.upper() for stage in STAGES),
    "ALL FOUR",
    "END TO END",
)
TASK_HEADINGS = ("WORLD", "TASK", "POLICY IN", "PASSED", "STEPS", "TOKENS", "ASKED")
FAILURE_HEADINGS = ("UNIT", "TASK", "POLICY IN", "TRIALS", "FIRST WRONG STEP")


def reliability_rows(found: Sequence[Diagnosis]) -> Iterator[list[str]]:
    """pass^k and pass@k with their intervals, a line for each k."""
    for one in found:
        fewest = min(count.trials for count in one.counts)
        for k, (every, some) in one.reliability().items():
            place = (one.world, one.policy_in, str(len(one.counts)), str(fewest))
            yield [*place, str(k), _interval(every), _interval(some)]


def stage_rows(found: Sequence[Diagnosis]) -> Iterator[list[str]]:
    """How far trials came, multiplied out, beside how often they succeeded."""
    for one in found:
        rates = [
            f"{_number(rate.value)} ({rate.passed}/{rate.tried})" for rate in one.stages.values()
        ]
        yield [one.world, one.policy_in, *rates, _number(one.through), _number(one.rate)]


def task_rows(found: Sequence[Diagnosis]) -> Iterator[list[str]]:
    """What each task took, on average."""
    for one in found:
        for task, trials in one.by_task.items():
            cost = Cost.of(trials)
            passed = sum(trial.passed for trial in trials)
            yield [
                one.world,
                task,
                one.policy_in,
                f"{passed}/{len(trials)}",
                f"{cost.steps:.1f}",
                f"{cost.tokens:.0f}" if cost.tokens else "none",
                f"{cost.asked:.2f}",
            ]


def failure_rows(found: Sequence[Diagnosis]) -> Iterator[list[str]]:
    """The failures by unit; equal ones of a task on one line, with how many trials they lost."""
    for one in found:
        alike: dict[tuple[str, str, str], int] = {}
        for trial in one.failed:
            assert trial.failure is not None
            key = (trial.failure.unit, trial.task, trial.failure.what)
            alike[key] = alike.get(key, 0) + 1
        for (unit, task, what), times in alike.items():
            yield [unit, task, one.policy_in, str(times), what]


def in_words(change: Change) -> str:
    """A change in a sentence: what it brought, and by which stage."""
    before, after = change.rates
    text = f"{change.name}: {_number(before)} → {_number(after)} end to end"
    if change.best is not None:
        rate = next(one.rate for one in change.stages if one.stage == change.best)
        gained = change.gains[change.best]
        text += f", most of it by “{change.best}” (now {_number(rate)}: {gained:+.3f} alone)"
    if change.stages:
        text += f", {change.stages[0].cost:+.0f} tokens a trial"
    for word, tasks in (("better", change.better), ("worse", change.worse)):
        text += f"; {word}: {', '.join(tasks)}" if tasks else ""
    return text


def as_json(found: Sequence[Diagnosis], changes: Sequence[Change]) -> dict[str, Any]:
    """All of it; a rate of nothing is null."""
    return {
        "worlds": [_diagnosis(one) for one in found],
        "changes": [
            {
                "name": one.name,
                "before": one.rates[0],
                "after": one.rates[1],
                "stages": {
                    change.stage: {"rate": change.rate, "gain": one.gains[change.stage]}
                    for change in one.stages
                },
                "tokens": one.stages[0].cost if one.stages else None,
                "best": one.best,
                "better": list(one.better),
                "worse": list(one.worse),
            }
            for one in changes
        ],
    }


def _diagnosis(one: Diagnosis) -> dict[str, Any]:
    return {
        "world": one.world,
        "policy_in": one.policy_in,
        "tasks": {
            task: {"passed": sum(trial.passed for trial in trials), "trials": len(trials)}
            for task, trials in one.by_task.items()
        },
        "reliability": [
            {"k": k, "pass^k": _estimate(every), "pass@k": _estimate(some)}
            for k, (every, some) in one.reliability().items()
        ],
        "stages": {
            stage: {"passed": rate.passed, "tried": rate.tried}
            for stage, rate in one.stages.items()
        },
        "all_stages": None if math.isnan(one.through) else one.through,
        "end_to_end": one.rate,
        "failures": dict(one.units),
        "cost": {
            "steps": one.cost.steps,
            "tokens": one.cost.tokens,
            "asked": one.cost.asked,
        },
        "broke_off": sum(trial.error is not None for trial in one.trials),
    }


def _estimate(one: Estimate) -> list[float]:
    return [one.value, one.low, one.high]


def _interval(one: Estimate) -> str:
    return f"{one.value:.3f} [{one.low:.3f}, {one.high:.3f}]"


def _number(value: float) -> str:
    return "none" if math.isnan(value) else f"{value:.3f}"
