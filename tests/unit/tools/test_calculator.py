"""Exact arithmetic: right, bounded, and never more than arithmetic."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tools.contract import ToolFailure, contract_of
from tools.research import calculator, research_tools
from tools.worlds.arithmetic import MAX_BITS, ArithmeticRefused, decimal_text, evaluate

numbers = st.one_of(
    st.integers(0, 10**9).map(str),
    st.decimals(0, 10**6, places=3, allow_nan=False).map(lambda d: format(d, "f")),
    st.sampled_from(["1e3", "2.1e6", ".5", "1_000", "1.5E-2"]),
)


def combined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An expression's text and its value, or ``None`` where it has none."""

    def join(left: Any, operator: str, right: Any, spaced: bool) -> Any:
        space = " " if spaced else ""
        text = f"({left[0]}){space}{operator}{space}({right[0]})"
        if left[1] is None or right[1] is None or (operator in "/%" and right[1] == 0):
            return text, None
        return text, {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": lambda a, b: a / b,
            "%": lambda a, b: a % b,
        }[operator](left[1], right[1])

    negated = parts.map(lambda p: (f"-({p[0]})", None if p[1] is None else -p[1]))
    return st.one_of(
        st.builds(join, parts, st.sampled_from("+-*/%"), parts, st.booleans()), negated
    )


expressions = st.recursive(numbers.map(lambda n: (n, Fraction(n))), combined, max_leaves=12)


@given(expressions)
def test_it_agrees_with_fractions(case: tuple[str, Fraction | None]) -> None:
    text, value = case
    if value is None:
        with pytest.raises(ArithmeticRefused, match="zero"):
            evaluate(text)
    else:
        assert evaluate(text) == value


@example("0E_")
@given(st.text(max_size=60) | st.text("0123456789.eE_+-*/%() ,^×", max_size=60))
def test_any_text_is_worked_out_or_refused_in_words(text: str) -> None:
    try:
        value = evaluate(text)
    except ArithmeticRefused:
        return  # in words; any other exception fails the test
    assert max(abs(value.numerator), value.denominator).bit_length() <= MAX_BITS
    assert decimal_text(value)


@given(st.fractions(max_denominator=10**6))
def test_the_decimal_text_is_exact_or_says_that_it_is_not(value: Fraction) -> None:
    text, exact = decimal_text(value)
    if exact:
        assert Fraction(text) == value
    else:
        assert Fraction(text) != value
        assert abs(Fraction(text) - value) <= abs(value) / 10**11


@pytest.mark.parametrize(
    ("expression", "result", "exact"),
    [
        ("0.1 + 0.2", "0.3", True),
        ("-2 ** 2", "-4", True),
        ("2 ** -3", "0.125", True),
        ("2 ** 3 ** 2", "512", True),
        ("7 % 3", "1", True),
        ("175000 ÷ 130000 − 1", "0.346153846154", False),
        ("(1 +\n 2) × 3", "9", True),
        ("0 * -1", "0", True),
        ("1e-3", "0.001", True),
    ],
)
def test_results(expression: str, result: str, exact: bool) -> None:
    answer = json.loads(calculator(expression))
    assert (answer["result"], answer["exact"]) == (result, exact)


def test_the_growth_of_the_bike_share() -> None:
    answer = json.loads(calculator("(2.1e6 / 12) / (1.3e6 / 10) - 1"))
    assert answer == {"result": "0.346153846154", "exact": False, "fraction": "9/26"}


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("1 / 0", "Division by zero"),
        ("5 % (2 - 2)", "remainder"),
        ("0 ** -1", "divides by zero"),
        ("2 ** 0.5", "whole numbers"),
        ("9 ** 9 ** 9", "too large"),
        ("(2 ** 900) ** 900", "too large"),
        ("1e999999999", "too large"),
        ("1e-999_999_999", "too large"),
        ("1,300,000 / 10", "thousands separators"),
        ("2 ^ 10", r"\*\*"),
        ("6%", "6 / 100"),
        ("__import__('os')", "only numbers"),
        ("1 if 2 else 3", "only numbers"),
        ("0x10", "only numbers"),
        ("e", "Only numbers"),
        ("2(3)", r"write \*"),
        ("1 // 2", r"Only numbers, \+ - \* / \*\* %"),
        ("~1", "only numbers"),
        ("(1", "not complete"),
        ("", "empty"),
        ("1" * 501, "at most 500"),
        ("(" * 240 + "1" + ")" * 240, "nested too deeply"),
        ("*".join(["9" * 90] * 5) + "**1000", "too large"),
    ],
)
def test_refusals_teach(expression: str, words: str) -> None:
    with pytest.raises(ToolFailure, match=words):
        calculator(expression)


def test_products_are_bounded_too() -> None:
    with pytest.raises(ArithmeticRefused, match="digits"):
        evaluate("9 ** 1000 * 9 ** 1000 * 9 ** 1000")


def test_contract() -> None:
    contract = contract_of(research_tools()[2])
    assert contract.effects == {"read:math"}
    assert (contract.open_world, contract.private) == (False, False)
