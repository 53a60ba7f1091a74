"""The benches run, at a tiny size, and report what they say they report. No time is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent.store import Store
from bench import inbox, mcp, policy, startup, steps
from bench.figures import Figure, as_json, middle, ratio, table
from bench.worlds import fill

ROOT = Path(__file__).parents[2]


def test_a_figure_over_its_bound_is_marked_and_one_without_a_bound_never_is() -> None:
    figures = [Figure("a", 2.0, "ms", 3.0), Figure("b", 4.0, "ms", 3.0), Figure("c", 9.0, "ms")]

    assert [line.endswith("OVER") for line in table("T", figures).splitlines()[1:]] == [
        False,
        True,
        False,
    ]
    assert [found["kept"] for found in as_json(figures)] == [True, False, True]


def test_a_ratio_is_taken_within_rounds() -> None:
    rounds = [{"a": 2.0, "b": 1.0}, {"a": 30.0, "b": 10.0}, {"a": 4.0, "b": 1.0}]

    assert ratio(rounds, "a", "b") == 3.0  # the slow round counts like the others
    assert middle(rounds, "a") == 4.0


def test_a_filled_store_is_a_valid_one(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sayso.db"
    ids = fill(url, tmp_path, 3)

    store = Store.open(url, home=tmp_path)
    assert sorted(found.id for found in store.sessions.list()) == sorted(ids)
    assert len(store.approvals.list()) == len(store.ledger.list()) == 3
    assert store.trail.verify() == []
    store.close()


def test_the_store_is_measured_page_by_page(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/sayso.db"
    figures = inbox.measure(url, tmp_path, count=3, rounds=2)

    assert [figure.name for figure in figures if figure.bound == 3.0] == [
        "approvals, a page of 50",
        "sessions, a page of 50",
        "effects, a page of 50",
    ]
    assert all(figure.measured > 0 for figure in figures)
    store = Store.open(url, home=tmp_path)
    decided = store.approvals.list("approved")
    assert [effect.state for effect in store.ledger.list(session=decided[0].session)] == [
        "committed",
        "committed",
    ]
    store.close()


@pytest.fixture(scope="module")
def one_round() -> steps.Round:
    """Every variant for a few steps, each in a process of its own."""
    return steps.compare(rounds=1, steps=4)[0]


def test_every_variant_takes_its_steps(one_round: steps.Round) -> None:
    assert set(one_round) == set(steps.VARIANTS)
    assert one_round["bare"]["checkpoints_a_step"] == 0
    for variant in ("saver", "saver+delta", "hitl+delta", "sayso-read", "sayso-approved"):
        assert one_round[variant]["checkpoints_a_step"] >= 2
    assert one_round["hitl+delta"]["checkpoints_a_step"] >= 3  # its empty node


def test_a_step_costs_no_checkpoint_more(one_round: steps.Round) -> None:
    figures = {figure.name: figure for figure in steps.figures([one_round])}
    assert figures["checkpoints a step more than saver+delta"].kept


def test_the_report_of_the_steps_names_every_variant_and_every_promise(
    one_round: steps.Round,
) -> None:
    text = steps.report([one_round, one_round])

    assert all(f"\n{variant} " in text for variant in steps.VARIANTS)
    assert all(figure.name in text for figure in steps.figures([one_round]))


def test_starting_is_measured_with_the_prompt_of_the_chat() -> None:
    figures = {figure.name: figure for figure in startup.compare(count=2, rounds=1)}

    assert figures["sayso --help / empty"].bound == 1.3
    assert figures["sayso approvals / empty"].bound == 4.0
    assert figures["chat"].measured > 0
    assert figures["chat takes keys / import langchain.agents"].measured > 0


@pytest.mark.parametrize(
    "name",
    [
        "bench",
        "bench.steps",
        "bench.startup",
        "bench.inbox",
        "bench.policy",
        "bench.calls",
        "bench.trajectories",
    ],
)
def test_each_says_how_it_is_used(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", name, "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "--json" in ended.stdout
    assert f"\n\n    python -m {name} [--" in ended.stdout, "the command stands on its own line"


def test_servers_are_called_and_started() -> None:
    figures = mcp.compare(rounds=1, calls=2)

    assert [figure.bound for figure in figures if figure.bound is not None] == [
        *(1.3, 2),
        *(1.3, 2),
        1.3,
    ]
    assert all(figure.measured > 0 for figure in figures)


def test_a_verdict_is_timed_on_rules_that_are_looked_at() -> None:
    figures = policy.by_rules(rounds=1, sizes=(20,))

    assert [figure.bound for figure in figures] == [2.0, None]
    outcome = policy.judge(policy.Policy(policy.read_policy(policy.page(40))))
    assert len(outcome.findings) == 20
    assert {found.state for found in outcome.findings} == {"differs"}


def test_a_verdict_by_origin_is_timed_on_values_that_are_found() -> None:
    figures = policy.by_text(rounds=2, sizes=("200 kB",))

    assert [figure.bound for figure in figures] == [2.0, None, None]
    page = policy.Policy(policy.read_policy(policy.page(100, origins=True)))
    outcome = policy.judge_by_origin(page, policy.results(2 * policy.RESULT, 7))
    assert outcome.facts is not None
    assert outcome.facts.values["provenance"] == {
        "to": "user",
        "amount": "user",
        "reference": "user",
        "subject": "model",
        "body": "untrusted",
    }
    assert len(policy.results(2 * policy.RESULT, 7)[-1].text) == policy.RESULT
    assert {found.state for found in outcome.findings} == {"differs"}
