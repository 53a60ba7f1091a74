"""What a trajectory costs: whole sessions of the retail world, in processes side by side.

Each is a session of its own over a fresh store and a fresh world: ten steps with a call, two of
which are writes that a reviewer approves, and an answer; ledger, approvals and trail are kept, the
final state is held against the goal state. The model is scripted and takes no time of its own.

    python -m bench.trajectories [--count 1000] [--jobs 2] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from agent.evals.tasks.mocks import GOLD
from agent.evals.tasks.record import Trial
from agent.evals.tasks.running import Agent
from agent.evals.tasks.task import TaskFile, read_tasks
from agent.evals.tasks.trials import Plan, find_goals, run_trials, workers
from bench.figures import Figure, as_json, table

COUNT, JOBS = 1_000, 2
MS = 120.0
"""1,000 in 120 seconds."""

READS, WRITES = ("A3", "A5", "A6", "B2", "B5", "C1"), ("A1", "A4")
STEPS = len(READS) + 2 * len(WRITES)

_HEAD = """\
world: ten-steps
domains: [orders]
policy: policy.md
state:
  orders.db:
    leaves_out: {orders: [updated_at], transactions: [number, key, request, at]}
tasks:
  - id: ten-steps
    says: Look at these orders, and cancel two of them.
    calls:
"""


def ten_steps(folder: Path) -> TaskFile:
    """A file with one task of ten calls, one a step."""
    read, cancel = "get_order, args: {order_id: %s}", "cancel_order, args: {order_id: %s, %s}"
    calls = [read % order for order in READS]
    for order in WRITES:
        calls += [read % order, cancel % (order, "expected_revision: 1")]
    lines = "".join(f"      - {{call: {call}}}\n" for call in calls)
    (folder / "policy.md").write_text("Cancel only what is pending.\n")
    (folder / "ten-steps.yaml").write_text(_HEAD + lines)
    return read_tasks(folder / "ten-steps.yaml")


def compare(count: int = COUNT, jobs: int = JOBS) -> list[Figure]:
    """The figures; a trajectory that is not what it should be stops it.

    Raises:
        AssertionError: One did not reach the goal state, or not in these steps.
    """
    with tempfile.TemporaryDirectory() as folder, workers(jobs) as found:
        plan = Plan((ten_steps(Path(folder)),), ("tools",), count, 0, Agent(GOLD))
        begun = time.perf_counter()
        goals = find_goals(plan, found, lambda _: None)
        trials = list(run_trials(plan, goals, (), found))
        seconds = time.perf_counter() - begun
    for trial in trials:
        _check(trial)
    assert len(trials) == count
    return [
        Figure(f"a trajectory of {STEPS} steps, {jobs} processes", 1000 * seconds / count, "ms", MS)
    ]


def _check(trial: Trial) -> None:
    took = trial.figures
    assert trial.passed, trial.story
    assert (took.steps, took.calls, took.writes, took.asked) == (STEPS + 1, STEPS, 2, 2)


def report(figures: Sequence[Figure]) -> str:
    """A table."""
    return table("Trajectories", figures)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.trajectories",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = compare(options.count, options.jobs)
    print(json.dumps(as_json(figures), indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
