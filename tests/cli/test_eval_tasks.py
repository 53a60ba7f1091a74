"""``sayso eval tasks``: tables and JSON, thresholds, a run that is killed and goes on."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.program import Invoke, cancel, finish, read, start
from tests.support.openai_server import ModelServer, Reply

SMALL = """\
world: small
domains: [orders]
policy: policy.md
ids: [order_id]
state:
  orders.db:
    leaves_out:
      orders: [updated_at]
      transactions: [number, key, request, at]
tasks:
  - id: cancel
    says: Cancel order A1.
    calls:
      - {call: get_order, args: {order_id: A1}}
      - {call: cancel_order, args: {order_id: A1, expected_revision: 1}}
  - id: refuse
    says: Cancel order C1.
    calls:
      - {call: get_order, args: {order_id: C1}}
    careless:
      - {call: cancel_order, args: {order_id: C1, expected_revision: 1}}
"""
CARELESS = "mock:careless?skip_check=0.5&typo=0"


@pytest.fixture
def small(folder: Path) -> str:
    (folder / "policy.md").write_text("Cancel only what is pending.")
    (folder / "small.yaml").write_text(SMALL)
    return "small.yaml"


def test_the_offline_model_is_tried_on_a_world_of_ones_own(sayso: Invoke, small: str) -> None:
    shown = sayso("eval", "tasks", "--world", small, "--jobs", "1")
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0].split() == ["WORLD", "POLICY", "IN", "TASKS", "TRIALS", "K", "PASS^K", "PASS@K"]
    assert lines[1].split()[:6] == ["small", "tools", "2", "1", "1", "1.000"]
    assert any(line.split()[:4] == ["small", "cancel", "tools", "1/1"] for line in lines)


def test_the_policy_in_the_prompt_and_in_the_tools_are_compared(sayso: Invoke, small: str) -> None:
    arguments = ["--world", small, "--model", CARELESS, "--trials", "4", "--jobs", "1"]
    told = sayso("eval", "tasks", *arguments, "--policy-in", "both", "--json")
    assert told.code == 0
    report = json.loads(told.out)
    by_holder = {one["policy_in"]: one for one in report["worlds"]}
    assert by_holder["tools"]["end_to_end"] == 1.0
    assert by_holder["prompt"]["end_to_end"] < 1.0
    assert by_holder["prompt"]["failures"]["conversation"] > 0
    (change,) = report["changes"]
    assert (change["better"], change["worse"]) == (["refuse"], [])
    assert [one["k"] for one in by_holder["tools"]["reliability"]] == [1, 2, 4]


def test_a_threshold_that_is_missed_is_exit_code_1(sayso: Invoke, small: str) -> None:
    rejects = ("--world", small, "--reviewer", "reject", "--jobs", "1", "--failed")
    lost = sayso("eval", "tasks", *rejects, "--at-least", "0.6")
    assert lost.code == 1
    assert "small, policy in the tools: 0.5000 of the trials passed, less than 0.6" in lost.err
    assert "→   2  cancel_order" in lost.out
    assert sayso("eval", "tasks", *rejects, "--at-least", "0.5").code == 0


def test_an_error_of_the_task_is_no_failure_of_the_agent(
    sayso: Invoke, folder: Path, small: str
) -> None:
    (folder / small).write_text(SMALL.replace("order_id: C1}}\n", "order_id: Z1}}\n", 1))
    wrong = sayso("eval", "tasks", "--world", small, "--jobs", "1")
    assert (wrong.code, wrong.out) == (2, "")
    assert "small.yaml:19: gold of refuse: get_order" in wrong.err


def test_a_model_that_is_named_is_really_asked(
    sayso: Invoke, small: str, model: Callable[..., ModelServer]
) -> None:
    server = model(read("A1"), cancel("A1"), Reply("It is cancelled."))
    named = ("--world", small, "--task", "cancel", "--model", "openai:test", "--jobs", "1")
    told = sayso("eval", "tasks", *named, "--policy-in", "both", "--json")
    assert told.code == 0
    assert [one["end_to_end"] for one in json.loads(told.out)["worlds"]] == [1.0, 1.0]
    prompts = [str(request.messages[0]["content"]) for request in server.requests]
    told_policy = ["Cancel only what is pending." in prompt for prompt in prompts]
    assert told_policy == [True] * 3 + [False] * 3


@pytest.mark.parametrize(
    "arguments",
    [
        ("--world", "shop"),
        ("--task", "other"),
        ("--model", "mock:other"),
        ("--model", "mock:careless?typo=2"),
        ("--reviewer", "other"),
        ("--policy-in", "other"),
        ("--trials", "0"),
    ],
)
def test_wrong_names_are_wrong_usage(sayso: Invoke, arguments: tuple[str, str]) -> None:
    assert sayso("eval", "tasks", *arguments).code == 2


def test_a_run_that_is_killed_goes_on_where_it_was(
    sayso: Invoke, folder: Path, small: str, tmp_path: Path
) -> None:
    arguments = ("eval", "tasks", "--world", small, "--model", CARELESS, "--trials", "12",
                 "--jobs", "2", "--results", "results")  # fmt: skip
    trials = folder / "results" / "trials.jsonl"
    killed = start(*arguments, env={**os.environ, "SAYSO_HOME": str(tmp_path / "home")})
    try:
        while not trials.exists() or trials.read_bytes().count(b"\n") < 3:
            assert killed.poll() is None
            time.sleep(0.01)
    finally:
        killed.send_signal(signal.SIGKILL)
        finish(killed)
    before = trials.read_bytes()
    assert before.count(b"\n") < 24
    trials.write_bytes(before[: before.rindex(b"\n") + 1] + b'{"version":1,"wor')
    there = before.count(b"\n")

    gone_on = sayso(*arguments, "--json")
    assert gone_on.code == 0
    assert f"trials.jsonl:{there + 1}: it breaks off. Its trial is run again." in gone_on.err
    assert f"{there} of 24 trials are there already." in gone_on.err
    after = trials.read_bytes()
    assert after.startswith(before[: before.rindex(b"\n") + 1])
    kept = [json.loads(line) for line in after.splitlines()]
    assert sorted((one["task"], one["number"]) for one in kept) == sorted(
        (task, number) for task in ("cancel", "refuse") for number in range(12)
    )

    whole = sayso(*arguments[:-2], "--json")
    assert json.loads(whole.out) == json.loads(gone_on.out), "the seeds do not tell the runs apart"

    other = sayso(*arguments, "--seed", "1")
    assert other.code == 2
    assert "results of another run: seed (0, now 1)" in other.err
