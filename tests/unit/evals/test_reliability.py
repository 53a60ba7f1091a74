"""pass^k, pass@k and their intervals; the rates of the stages."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.evals.reliability import Count, estimated, pass_at_k, pass_hat_k
from agent.evals.stages import (
    STAGES,
    Intervention,
    Rate,
    cheapest,
    gain,
    product,
    rates_of,
)

counts = st.integers(1, 9).flatmap(lambda n: st.builds(Count, st.integers(0, n), st.just(n)))


@given(counts, st.integers(1, 9))
def test_both_are_what_enumeration_of_all_draws_gives(count: Count, k: int) -> None:
    if k > count.trials:
        with pytest.raises(ValueError, match=f"k = {k} needs"):
            pass_hat_k([count], k)
        return
    trials = [n < count.successes for n in range(count.trials)]
    draws = list(combinations(trials, k))
    assert pass_hat_k([count], k) == sum(map(all, draws)) / len(draws)
    assert math.isclose(pass_at_k([count], k), sum(map(any, draws)) / len(draws), abs_tol=1e-12)


def test_the_hand_example_of_four_trials_with_three_successes() -> None:
    assert pass_hat_k([Count(3, 4)], 2) == 0.5
    assert pass_at_k([Count(3, 4)], 2) == 1


@pytest.mark.parametrize(
    ("k", "hat", "at"),
    [(1, 0.875, 0.875), (2, 0.762, 0.988), (4, 0.571, 1.0), (8, 0.333, 1.0)],
)
def test_the_table_of_six_seven_and_eight_of_eight(k: int, hat: float, at: float) -> None:
    tasks = [Count(c, 8) for c in (6, 7, 8)]
    assert (round(pass_hat_k(tasks, k), 3), round(pass_at_k(tasks, k), 3)) == (hat, at)


@given(st.lists(counts, min_size=1, max_size=5))
def test_one_falls_and_the_other_rises_with_k(tasks: list[Count]) -> None:
    most = min(count.trials for count in tasks)
    hats = [pass_hat_k(tasks, k) for k in range(1, most + 1)]
    ats = [pass_at_k(tasks, k) for k in range(1, most + 1)]
    assert all(a >= b - 1e-12 for a, b in pairwise(hats))
    assert all(a <= b + 1e-12 for a, b in pairwise(ats))
    assert math.isclose(hats[0], ats[0])


@given(st.lists(counts, min_size=1, max_size=5), st.integers(0, 3))
def test_the_interval_holds_the_value_and_is_the_same_again(tasks: list[Count], seed: int) -> None:
    one = estimated(pass_hat_k, tasks, 1, resamples=200, seed=seed)
    assert one == estimated(pass_hat_k, tasks, 1, resamples=200, seed=seed)
    assert 0 <= one.low <= one.high <= 1
    wide = estimated(pass_hat_k, tasks, 1, resamples=200, seed=seed, level=0.999)
    assert wide.low <= one.low <= one.high <= wide.high


def test_more_tasks_of_the_same_kind_make_it_narrower() -> None:
    some = [Count(1, 2), Count(2, 2), Count(0, 2)]
    few, many = estimated(pass_hat_k, some, 1), estimated(pass_hat_k, some * 30, 1)
    assert few.value == pytest.approx(many.value)
    assert many.high - many.low < (few.high - few.low) / 3


def test_the_interval_of_equal_tasks_is_the_value() -> None:
    one = estimated(pass_hat_k, [Count(1, 2)] * 5, 1)
    assert (one.low, one.value, one.high) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Count(3, 2),
        lambda: Count(-1, 2),
        lambda: pass_hat_k([], 1),
        lambda: pass_at_k([Count(1, 1)], 0),
        lambda: pass_at_k([Count(1, 1), Count(1, 2)], 2),
        lambda: estimated(pass_hat_k, [Count(1, 1)], 1, level=1),
    ],
)
def test_what_cannot_be_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        wrong()  # type: ignore[operator]


# --- stages ----------------------------------------------------------------------------------

RATES = dict(zip(STAGES, (0.90, 0.80, 0.95, 0.85), strict=True))


def test_the_example_multiplies_out_to_58_14_per_cent() -> None:
    assert product(RATES) == pytest.approx(0.5814)
    better = Intervention("examples in the schema", "right arguments", 0.90, cost=1)
    assert gain(RATES, better) == pytest.approx(0.072675)


@given(st.lists(st.integers(0, len(STAGES)), min_size=1))
def test_the_product_of_the_rates_is_how_often_tasks_succeed(reached: list[int]) -> None:
    rates = rates_of(reached)
    measured = product({stage: rate.value for stage, rate in rates.items()})
    whole = sum(n == len(STAGES) for n in reached) / len(reached)
    if all(rate.tried for rate in rates.values()):
        assert measured == pytest.approx(whole)
    else:
        assert whole == 0
        assert math.isnan(measured) or measured == 0


def test_each_rate_is_among_what_got_that_far() -> None:
    assert rates_of([0, 1, 2, 2, 4]) == {
        "right tool": Rate(4, 5),
        "right arguments": Rate(3, 4),
        "executed": Rate(1, 3),
        "task": Rate(1, 1),
    }


def test_the_cheapest_is_by_cost_for_what_it_gains() -> None:
    changes = [
        Intervention("lowest rate, dear", "right arguments", 0.90, cost=10),
        Intervention("small and cheap", "right tool", 0.92, cost=1),
        Intervention("makes it worse", "executed", 0.90, cost=0),
    ]
    found = cheapest(RATES, changes)
    assert found is not None
    assert found.name == "small and cheap"
    assert cheapest(RATES, changes[2:]) is None
    with pytest.raises(ValueError, match="is about 'luck', none of right tool"):
        gain(RATES, Intervention("a charm", "luck", 1, 0))
