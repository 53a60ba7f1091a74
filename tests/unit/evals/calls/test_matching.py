"""When two calls are the same, and what is said where they are not."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.evals.calls.matching import Accepted, Function, Wanted, as_read, assigned, problems, same
from agent.evals.calls.parsing import Called

ORDER = Function(
    "refund",
    {
        "order_id": {"type": "string"},
        "amount": {"type": "number"},
        "count": {"type": "integer"},
        "currency": {"type": "string", "default": "USD"},
        "mail": {"type": "string", "format": "email"},
    },
    frozenset({"order_id", "amount"}),
)


def wanted(**args: Any) -> Wanted:
    return Wanted(
        "refund", {k: v if isinstance(v, Accepted) else Accepted((v,)) for k, v in args.items()}
    )


def what_is_wrong(given: dict[str, Any], strict: bool = False, **args: Any) -> list[str]:
    found = problems(Called("refund", given), wanted(**args), ORDER, strict=strict)
    return [f"{one.kind} {one.path}" for one in found]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("San Francisco", "  san   francisco "),
        ("Ann’s", "ann's"),
        ("At noon?", "at noon"),
        ("Café", "Cafe\u0301"),
        ("2–3", "2-3"),
        (1, 1.0),
        (0.1 + 0.2, 0.3),
        ([1, "A"], [1.0, "a"]),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}),
        (None, None),
    ],
)
def test_what_nobody_reads_as_a_difference(one: Any, other: Any) -> None:
    assert same(one, other)
    assert same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A-1", "A1"),
        ("1.5", "15"),
        ("re-sign", "resign"),
        ("a b", "ab"),
        ("1", 1),
        (True, 1),
        (False, 0),
        (False, None),
        ("", None),
        (1617176400001, 1617176400000),
        (10**15 + 1.0, 10**15),
        (1.0001, 1),
        ([1, 2], [2, 1]),
        ([1], 1),
        ({"a": 1}, {"a": 1, "b": None}),
        (float("nan"), float("nan")),
    ],
)
def test_what_is_another_value(one: Any, other: Any) -> None:
    assert not same(one, other)
    assert not same(other, one)


def test_where_the_schema_asks_for_a_form_texts_are_compared_letter_by_letter() -> None:
    schema = {"type": "string", "format": "email"}
    assert same("Ann@example.com", "Ann@example.com", schema)
    assert not same("Ann@example.com", "ann@example.com", schema)
    inner = {"properties": {"path": {"pattern": "^/"}}}
    assert not same({"path": "/Readme"}, {"path": "/readme"}, inner)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"order_id": "c1", "amount": 5}, []),
        ({"order_id": "C1", "amount": 5.0, "currency": "usd"}, []),
        ({"order_id": "C1"}, ["missing amount"]),
        ({"order_id": "C1", "amount": "5"}, ["type amount"]),
        ({"order_id": "C1", "amount": True}, ["type amount"]),
        ({"order_id": "C2", "amount": 6}, ["value order_id", "value amount"]),
        ({"order_id": "C1", "amount": 5, "why": "late"}, ["unexpected why"]),
        ({"order_id": "C1", "amount": 5, "currency": "EUR"}, ["unexpected currency"]),
        ({"order_id": "C1", "amount": 5, "mail": "a@b.de"}, ["unexpected mail"]),
        ({}, ["missing order_id", "missing amount"]),
    ],
)
def test_what_is_wrong_with_a_call(given: dict[str, Any], expected: list[str]) -> None:
    assert what_is_wrong(given, order_id="C1", amount=5) == expected


def test_what_may_be_left_out() -> None:
    base = {"order_id": "C1", "amount": 5}
    assert what_is_wrong(base, **base, count=Accepted((3,), optional=True)) == []
    assert what_is_wrong(base, **base, count=3) == ["missing count"]
    assert what_is_wrong(base, **base, currency="USD") == []  # the default says the same
    assert what_is_wrong(base, **base, currency="EUR") == ["missing currency"]
    required = Accepted(("C1",), optional=True)  # the schema does not let it be left out
    assert what_is_wrong({"amount": 5}, order_id=required, amount=5) == ["missing order_id"]


def test_strict_compares_texts_letter_by_letter() -> None:
    given = {"order_id": "c1", "amount": 5.0}
    assert what_is_wrong(given, strict=True, order_id="C1", amount=5) == ["value order_id"]


def test_values_without_names_go_by_the_order_of_the_schema() -> None:
    one = wanted(order_id="C1", amount=5)
    assert problems(Called("refund", {}, ("C1", 5)), one, ORDER) == []
    assert problems(Called("refund", {"amount": 5}, ("C1",)), one, ORDER) == []
    twice = problems(Called("refund", {"order_id": "C1", "amount": 5}, ("C1",)), one, ORDER)
    assert [str(p) for p in twice] == ["order_id: it is given twice"]
    many = problems(Called("refund", {}, ("C1", 5, *range(9))), one, ORDER)
    assert str(many[0]) == "argument 6: there are fewer parameters"


def test_an_object_may_have_several_right_forms_within() -> None:
    place = {"room": Accepted(("B12", "B 12")), "floor": Accepted((2,), optional=True)}
    assert same({"room": "b 12"}, place)
    assert same({"room": "B12", "floor": 2}, place)
    assert not same({"floor": 2}, place)
    assert not same({"room": "B12", "online": True}, place)


TEXTS = st.text(max_size=20) | st.text(" aA.!?-–’'\"é\u0301ß", max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@given(TEXTS)
def test_what_was_read_once_is_read_the_same(text: str) -> None:
    assert as_read(as_read(text)) == as_read(text)


@given(VALUES, VALUES)
def test_strict_never_accepts_what_is_not_accepted_otherwise(one: Any, other: Any) -> None:
    assert same(one, one)
    assert same(one, other) == same(other, one)
    if same(one, other, strict=True):
        assert same(one, other)


@given(
    st.integers(0, 5).flatmap(
        lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=n, max_size=n)
    )
)
def test_calls_are_given_out_as_trying_every_order_would(fits: list[list[bool]]) -> None:
    got = assigned(fits)
    taken = [wanted for wanted in got if wanted is not None]
    assert len(taken) == len(set(taken))
    assert all(fits[call][wanted] for call, wanted in enumerate(got) if wanted is not None)
    best = max(
        sum(fits[i][j] for i, j in enumerate(order)) for order in permutations(range(len(fits)))
    )
    assert len(taken) == best


def test_thirty_calls_in_the_worst_order_are_quick() -> None:
    """Each call fits those up to its own place only, so every one displaces all before it. Trying
    orders would take 10^32 steps; this ends."""
    many = 30
    fits = [[j <= i for j in range(many)] for i in reversed(range(many))]
    assert sorted(filter(lambda w: w is not None, assigned(fits))) == [*range(many)]
