"""Plans, and the bundled worlds: all of their right calls are right, whatever holds the policy."""

from __future__ import annotations

import pytest

from agent.evals.tasks.running import Agent, seed_of
from agent.evals.tasks.task import bundled_worlds, read_world
from agent.evals.tasks.trials import Plan, find_goals, run_trials, workers
from agent.evals.tasks.worlds import HOLDERS
from tests.unit.evals.tasks.conftest import Bench


@pytest.mark.parametrize("name", bundled_worlds())
def test_the_right_calls_of_a_bundled_world_pass(name: str) -> None:
    plan = Plan((read_world(name),), HOLDERS, 1, 0, Agent("mock:gold"))
    told: list[int] = []
    with workers(1) as found:
        goals = find_goals(plan, found, told.append)
        trials = list(run_trials(plan, goals, (), found))
    assert sum(told) == len(plan.files[0].tasks)
    assert len(trials) == 2 * len(plan.files[0].tasks)
    assert [(trial.task, trial.story) for trial in trials if not trial.passed] == []
    assert {trial.reached for trial in trials} == {4}


def test_what_is_done_is_not_run_again(bench: Bench) -> None:
    plan = Plan((bench.bundled(),), ("tools",), 3, 0, Agent("mock:gold"), ("status", "count"))
    done = [job.key for job in plan.jobs][:4]
    with workers(1) as found:
        goals = find_goals(plan, found, lambda _: None)
        trials = list(run_trials(plan, goals, done, found))
    assert [trial.key for trial in trials] == [
        ("retail", "status", "tools", 2),
        ("retail", "count", "tools", 2),
    ]


def test_a_trial_has_the_same_seed_wherever_the_policy_is(bench: Bench) -> None:
    file, model = bench.bundled(), "mock:careless?skip_check=0.5&typo=0.5"
    plan = Plan((file,), HOLDERS, 2, 9, Agent(model), ("cancel-pending",))
    with workers(1) as found:
        goals = find_goals(plan, found, lambda _: None)
        trials = list(run_trials(plan, goals, (), found))
    seeds = {(trial.policy_in, trial.number): trial.seed for trial in trials}
    assert seeds["prompt", 1] == seeds["tools", 1] == seed_of(9, "retail", "cancel-pending", 1)
    assert len(set(seeds.values())) == 2
