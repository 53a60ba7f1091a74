"""The bundled models: the careless one slips as it was told to, and its table is the known one."""

from __future__ import annotations

import pytest

from agent.errors import NotFound, UsageError
from agent.evals.reliability import Count, pass_at_k, pass_hat_k
from agent.evals.tasks.mocks import Carelessness, read_name
from agent.evals.tasks.record import Trial
from tests.unit.evals.tasks.conftest import Bench

THREE = ("cancel-two-one-shipped", "cancel-pending", "cancel-delivered")
"""The tasks of the course, in its order."""


def calls_of(trial: Trial) -> list[tuple[str, str, str]]:
    return [(c.tool, c.args.get("order_id", ""), c.became) for c in trial.calls]


def test_a_name_says_how_careless_it_is() -> None:
    assert read_name("mock:careless?skip_check=0.3&typo=0") == Carelessness(0.3, 0)
    assert read_name("mock:careless") == Carelessness(0.2, 0.05)
    assert read_name("mock:gold") is None
    with pytest.raises(NotFound, match="mock:gold, mock:careless"):
        read_name("mock:other")
    for wrong in ("mock:careless?tpyo=1", "mock:gold?typo=1", "mock:careless?typo=2",
                  "mock:careless?typo=often"):  # fmt: skip
        with pytest.raises(UsageError):
            read_name(wrong)


def test_who_skips_the_check_does_what_was_said(bench: Bench) -> None:
    file, model = bench.bundled(), "mock:careless?skip_check=1&typo=0"
    told = bench.trial(file, THREE[0], model=model, holder="prompt")
    assert calls_of(told) == [("cancel_order", "A1", "ran"), ("cancel_order", "A2", "ran")]
    assert not told.passed
    held = bench.trial(file, THREE[0], model=model, holder="tools")
    assert held.passed
    assert calls_of(held)[:2] == [
        ("cancel_order", "A1", "refused"),
        ("cancel_order", "A2", "refused"),
    ]


def test_who_mistypes_an_id_gives_up_when_it_is_not_there(bench: Bench) -> None:
    trial = bench.trial(bench.bundled(), THREE[0], model="mock:careless?skip_check=0&typo=1")
    assert calls_of(trial) == [("get_order", "A9", "failed"), ("get_order", "A9", "failed")]
    assert trial.failure is not None
    assert trial.failure.unit == "call"


def test_an_id_that_its_check_digits_refuse_is_a_wrong_argument(bench: Bench) -> None:
    file, model = bench.bundled("bank"), "mock:careless?skip_check=0&typo=1"
    trial = bench.trial(file, "pay-the-rent", model=model)
    assert [c.became for c in trial.calls] == ["refused"]
    assert trial.failure is not None
    assert (trial.failure.unit, trial.reached) == ("call", 0)
    assert trial.failure.what.startswith(
        'wrong arguments: get_account(account_id="XB79LARK00001009")'
    )


def test_who_skips_the_question_guesses(bench: Bench) -> None:
    file = bench.bundled()
    guessed = bench.trial(
        file, "which-order", model="mock:careless?skip_check=1&typo=0", holder="prompt"
    )
    assert guessed.failure is not None
    assert guessed.failure.what.startswith("guessed instead of asking")
    asked = bench.trial(file, "which-order", model="mock:careless?skip_check=0&typo=0")
    assert asked.passed
    assert [turn.said for turn in asked.turns] == ["Please cancel my order.", "Order B6."]


def test_the_same_seed_slips_the_same_way(bench: Bench) -> None:
    model = "mock:careless?skip_check=0.5&typo=0.5"
    runs = [
        [
            calls_of(bench.trial(bench.bundled(), THREE[0], model=model, seed=seed))
            for seed in range(4)
        ]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert len({str(calls) for calls in runs[0]}) > 1


def test_the_table_of_the_course_comes_out_with_its_seeds(bench: Bench) -> None:
    """8 trials of each task; the dice are rolled in its order, so its seeds give its successes."""
    file = bench.bundled()
    counts = [
        Count(
            sum(
                bench.trial(
                    file,
                    task,
                    model="mock:careless?skip_check=0.2&typo=0.05",
                    holder="prompt",
                    seed=place * 1009 + number,
                ).passed
                for number in range(8)
            ),
            8,
        )
        for place, task in enumerate(THREE)
    ]
    assert [count.successes for count in counts] == [6, 7, 8]
    table = [
        (round(pass_hat_k(counts, k), 3), round(pass_at_k(counts, k), 3)) for k in (1, 2, 4, 8)
    ]
    assert table == [(0.875, 0.875), (0.762, 0.988), (0.571, 1.0), (0.333, 1.0)]
