"""Where trials are lost, what they take, and what a change brought."""

from __future__ import annotations

import math

import pytest

from agent.evals.tasks.diagnosis import Diagnosis, compared, diagnosed
from agent.evals.tasks.record import Failure, FiguresKept, Trial, Unit
from agent.evals.tasks.report import as_json, failure_rows, in_words, stage_rows, task_rows


def trial(task: str, number: int, reached: int, unit: Unit | None = None, **more: object) -> Trial:
    failure = Failure(unit=unit, what=f"a wrong {unit}") if unit else None
    values: dict[str, object] = {
        "world": "retail", "task": task, "policy_in": "prompt", "model": "offline",
        "reviewer": "approve", "number": number, "seed": 7, "passed": failure is None,
        "failure": failure, "reached": reached, "goal": "g", "state": "s", "session": "s-1",
        "ended": "done", "story": "", "figures": figures(steps=2, tokens=15, asked=1),
    }  # fmt: skip
    return Trial.model_validate(values | more)


def figures(steps: int, tokens: int, asked: int) -> FiguresKept:
    return FiguresKept(
        steps=steps, calls=1, writes=1, asked=asked, tokens_in=tokens, tokens_out=0, seconds=0.1
    )


BEFORE = [
    trial("one", 0, 4),
    trial("one", 1, 1, "call"),
    trial("two", 0, 0, "conversation"),
    trial("two", 1, 2, "chain", figures=figures(steps=4, tokens=25, asked=3)),
]
AFTER = [
    trial("one", 0, 2, "chain", policy_in="tools"),
    trial("one", 1, 2, "chain", policy_in="tools"),
    trial("two", 0, 4, policy_in="tools", figures=figures(steps=4, tokens=45, asked=0)),
    trial("two", 1, 4, policy_in="tools"),
]


def test_trials_are_sorted_by_world_and_holder() -> None:
    found = diagnosed([*AFTER, *BEFORE])
    assert [(one.world, one.policy_in) for one in found] == [
        ("retail", "prompt"),
        ("retail", "tools"),
    ]


def test_stages_multiply_out_to_the_end_to_end_rate() -> None:
    (one,) = diagnosed(BEFORE)
    assert [(r.passed, r.tried) for r in one.stages.values()] == [(3, 4), (2, 3), (1, 2), (1, 1)]
    assert one.through == pytest.approx(0.25)
    assert one.rate == 0.25
    assert list(one.ks) == [1, 2]


def test_failures_stand_by_unit_with_their_first_wrong_step() -> None:
    (one,) = diagnosed(BEFORE)
    assert dict(one.units) == {"call": 1, "chain": 1, "conversation": 1}
    assert [row[0] for row in failure_rows([one])] == ["call", "chain", "conversation"]
    assert list(failure_rows(diagnosed(AFTER))) == [["chain", "one", "tools", "2", "a wrong chain"]]


def test_the_cost_is_an_average_of_each_task() -> None:
    (one,) = diagnosed(BEFORE)
    assert (one.cost.steps, one.cost.tokens, one.cost.asked) == (2.5, 17.5, 1.5)
    assert list(task_rows([one]))[1] == ["retail", "two", "prompt", "0/2", "3.0", "20", "2.00"]


def test_a_change_is_told_by_the_stage_that_it_mends_most() -> None:
    (before,), (after,) = diagnosed(BEFORE), diagnosed(AFTER)
    change = compared(before, after, "the policy in the tools")
    assert change.rates == (0.25, 0.5)
    assert change.best == "right arguments"
    assert change.gains["right tool"] == pytest.approx((1 - 0.75) * (2 / 3) * 0.5)
    assert change.gains["right arguments"] == pytest.approx(0.75 * (1 - 2 / 3) * 0.5)
    assert change.gains["executed"] == 0
    assert (change.worse, change.better) == (("one",), ("two",))
    assert {stage.cost for stage in change.stages} == {5.0}
    told = in_words(change)
    assert told.startswith("the policy in the tools: 0.250 → 0.500 end to end")
    assert told.endswith("better: two; worse: one")


def test_what_nothing_reached_has_no_rate_and_is_null() -> None:
    lost = Diagnosis("retail", "prompt", (trial("one", 0, 0, "call"),))
    assert math.isnan(lost.through)
    assert next(stage_rows([lost]))[3] == "none (0/0)"
    assert as_json([lost], [])["worlds"][0]["all_stages"] is None
    assert compared(lost, diagnosed(AFTER)[0], "x").best == "right tool"
