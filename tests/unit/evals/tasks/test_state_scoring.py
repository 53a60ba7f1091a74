"""The final state decides: against the goal that the right calls reach; an error in these is the
task's own."""

from __future__ import annotations

import pytest

from agent.errors import InvalidFile
from agent.evals.tasks.record import Trial
from agent.models.scripted import call, step
from tests.unit.evals.tasks.conftest import Bench

TWO = "cancel-two-pending"


def cancel(order: str) -> object:
    return step(call("cancel_order", order_id=order, expected_revision=1))


def read(*orders: str) -> object:
    return step(*(call("get_order", order_id=order) for order in orders))


def reached(trial: Trial) -> tuple[bool, int]:
    return trial.passed, trial.reached


def test_independent_writes_in_another_order_are_the_same_state(bench: Bench) -> None:
    file = bench.bundled()
    trial = bench.trial(file, TWO, [read("C2", "B6"), cancel("C2"), cancel("B6"), "Both."])
    assert reached(trial) == (True, 4)
    assert trial.state == trial.goal
    assert trial.failure is None
    assert [c.tool for c in trial.calls][-2:] == ["cancel_order", "cancel_order"]


def test_a_missing_write_is_a_row_that_is_missing(bench: Bench) -> None:
    trial = bench.trial(bench.bundled(), TWO, [read("C2", "B6"), cancel("C2"), "Both."])
    assert reached(trial) == (False, 1)
    assert trial.state != trial.goal
    orders = next(one for one in trial.differing if one.table == "orders")
    assert [row["status"] for row in orders.missing] == ["cancelled"]
    assert [row["status"] for row in orders.extra] == ["pending"]
    assert trial.failure is not None
    assert trial.failure.unit == "chain"
    assert trial.failure.missing == 'cancel_order(order_id="B6", expected_revision=1)'
    assert "→     missing: cancel_order" in trial.story


def test_an_extra_write_is_a_row_too_many(bench: Bench) -> None:
    script = [read("B1", "A8"), cancel("B1"), cancel("A8"), "Done."]
    trial = bench.trial(bench.bundled(), "cancel-pending", script)
    assert reached(trial) == (False, 1)
    assert any("transactions: not wanted" in problem for problem in trial.problems)
    assert trial.failure is not None
    assert (trial.failure.unit, trial.failure.missing) == ("call", None)
    assert trial.failure.what.startswith('wrong arguments: cancel_order(order_id="A8"')
    (wrong,) = [one for one in trial.calls if one.wrong]
    assert wrong.args["order_id"] == "A8"
    assert "→   3  cancel_order" in trial.story


def test_a_wrong_call_that_a_tool_refused_loses_nothing(bench: Bench) -> None:
    script = [read("B1", "C1"), cancel("C1"), cancel("B1"), "Done."]
    trial = bench.trial(bench.bundled(), "cancel-pending", script)
    assert reached(trial) == (True, 4)
    assert [c.became for c in trial.calls] == ["ran", "ran", "refused", "ran"]


def test_without_the_checks_of_the_tools_the_same_call_does(bench: Bench) -> None:
    script = [cancel("C1"), "It was delivered, and is cancelled."]
    file = bench.bundled()
    held = bench.trial(file, "cancel-delivered", script, holder="tools")
    assert (held.passed, held.calls[0].became) == (True, "refused")
    told = bench.trial(file, "cancel-delivered", script, holder="prompt")
    assert (told.passed, told.calls[0].became) == (False, "ran")
    assert told.failure is not None
    assert told.failure.unit == "conversation"
    assert told.failure.what.startswith("against the policy")


def test_a_rule_that_no_tool_knows_is_held_by_the_rules_file(bench: Bench) -> None:
    refund = call("refund_order", order_id="D10", amount="297.99", currency="EUR")
    script = [read("D10"), step(refund), "A manager calls back."]
    file = bench.bundled()
    held = bench.trial(file, "refund-for-a-manager", script, holder="tools")
    assert held.passed
    assert held.calls[1].effect is None
    assert "manager's business" in (held.calls[1].result or "")
    assert not bench.trial(file, "refund-for-a-manager", script, holder="prompt").passed


def test_a_right_call_that_ran_in_the_end_is_not_the_wrong_step(bench: Bench) -> None:
    script = [cancel("A1"), read("A1", "A2"), cancel("A1"), "Done."]
    trial = bench.trial(bench.bundled(), "cancel-two-one-shipped", script)
    assert [c.became for c in trial.calls] == ["refused", "ran", "ran", "ran"]
    assert trial.failure is not None
    assert (trial.failure.what, trial.reached) == ("not said: A2", 3)


def test_two_writes_have_their_order(bench: Bench) -> None:
    refund = step(call("refund_order", order_id="A4", amount="96.20", currency="USD"))
    script = [read("A4"), refund, cancel("A4"), "Done."]
    trial = bench.trial(bench.bundled(), "cancel-then-refund", script)
    assert reached(trial) == (False, 2)
    assert trial.failure is not None
    assert trial.failure.unit == "chain"
    assert trial.failure.what.startswith("failed: refund_order")


def test_a_reviewer_who_says_no_is_the_conversation(bench: Bench) -> None:
    trial = bench.trial(bench.bundled(), "cancel-pending", reviewer="reject")
    assert reached(trial) == (False, 2)
    assert trial.failure is not None
    assert trial.failure.what.startswith("the reviewer: rejected: cancel_order")
    (approval,) = trial.calls[-1].approvals
    assert (approval.status, approval.decided_by) == ("rejected", "simulated reviewer")
    absent = bench.trial(bench.bundled(), "cancel-pending", reviewer="absent")
    assert (absent.ended, absent.passed) == ("waiting", False)


def test_what_is_not_said_fails_and_what_must_not_be_said_too(bench: Bench) -> None:
    file = bench.written(
        """\
  - id: status
    says: What is the status of order B4?
    say: [shipped]
    never_say: [okafor.example]
    never: [cancel_order]
"""
    )
    assert bench.trial(file, "status", [read("B4"), "It is Shipped."]).passed
    silent = bench.trial(file, "status", [read("B4"), "It is on its way."])
    assert (silent.problems, silent.reached) == (["not said: shipped"], 3)
    told = bench.trial(file, "status", [read("B4"), "Shipped, to hannah@okafor.example."])
    assert told.problems == ["said: okafor.example"]
    acted = bench.trial(file, "status", [read("B6"), cancel("B6"), "Shipped."])
    assert any(problem.startswith("never to run: cancel_order") for problem in acted.problems)


def test_a_model_that_breaks_off_is_told_so(bench: Bench) -> None:
    script = [read("B1"), ConnectionError("the provider is down")]
    trial = bench.trial(bench.bundled(), "cancel-pending", script)
    assert not trial.passed
    assert trial.failure is not None
    assert trial.failure.what.startswith("it broke off")
    assert trial.error is not None


def test_a_model_that_says_nothing_has_not_said_it(bench: Bench) -> None:
    trial = bench.trial(bench.bundled(), "status", [read("B4"), *[""] * 9])
    assert "not said: shipped" in trial.problems
    assert trial.failure is not None


GOLD = """\
  - id: cancel
    says: Cancel it.
    calls:
      - {call: get_order, args: {order_id: A1}}
      - {call: cancel_order, args: {order_id: A1, expected_revision: 1}}
"""


@pytest.mark.parametrize(
    ("tasks", "fault"),
    [
        (GOLD.replace("A1, expected_revision: 1", "A1, expected_revision: 7"), "small.yaml:15: "),
        (
            GOLD.replace("order_id: A1}", "order_id: Z1}"),
            "small.yaml:14: gold of cancel: get_order",
        ),
        (
            GOLD.replace("cancel_order", "cancel_ordre"),
            "small.yaml:15: gold of cancel: cancel_ordre",
        ),
        (GOLD.replace("A1", "C1"), "small.yaml:15: gold of cancel: cancel_order"),
        (GOLD + "    goal: [{table: orders, row: {id: A1, status: shipped}}]\n", "small.yaml:16: "),
        (GOLD + "    tags: [refused]\n", "small.yaml:16: cancel is to be refused, and writes"),
        (GOLD + "    tags: [ordered]\n", "small.yaml:16: cancel has no two writes"),
        (GOLD + "    never: [cancel]\n", "small.yaml:16: there is no tool cancel"),
        (GOLD + "    careless: [{call: cancel}]\n", "small.yaml:16: there is no tool cancel"),
    ],
)
def test_an_error_in_the_gold_is_the_tasks(bench: Bench, tasks: str, fault: str) -> None:
    with pytest.raises(InvalidFile) as raised:
        bench.goal(bench.written(tasks), "cancel")
    assert raised.value.faults[0].startswith(fault)


def test_a_world_that_cannot_be_set_up_is_named(bench: Bench) -> None:
    file = bench.written(GOLD)
    state = file.world.state["orders.db"]
    state.leaves_out["parcels"] = ["id"]
    with pytest.raises(InvalidFile, match=r"small.yaml:1: the world small cannot be set up"):
        bench.goal(file, "cancel")


def test_the_policy_is_in_the_prompt_only_where_it_is_to_be(bench: Bench) -> None:
    file = bench.bundled()
    prompts = {holder: bench.world(file, holder).prompt for holder in ("prompt", "tools")}
    assert file.policy in prompts["prompt"]
    assert file.policy not in prompts["tools"]
    assert prompts["tools"] in prompts["prompt"]
