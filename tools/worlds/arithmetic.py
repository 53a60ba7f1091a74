"""Exact arithmetic over a small language: numbers, ``+ - * / ** %`` and brackets.

The text is parsed with ``ast`` and walked here; nothing is ever evaluated by Python. Values are
fractions, so ``0.1 + 0.2`` is ``3/10``. Sizes are bounded before the work is done.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction

MAX_LENGTH = 500  # characters of an expression
MAX_EXPONENT = 1_000
MAX_BITS = 8_192  # of a numerator or denominator, about 2,466 digits
SIGNIFICANT_DIGITS = 12  # of a result that has no short decimal form
MAX_EXACT_DIGITS = 60

_SYMBOLS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "–": "-", "\u00a0": " "})
_FOREIGN = re.compile(r"[^0-9.eE_+\-*/%()\s]")
_LITERAL = re.compile(r"[0-9][0-9_]*(?:\.[0-9_]*)?(?:[eE][+-]?([0-9_]+))?|\.[0-9][0-9_]*")


class ArithmeticRefused(ValueError):
    """The expression cannot be worked out; the text says why and how to write it."""


@dataclass(frozen=True)
class Worked:
    """An expression that was worked out.

    Args:
        value: Its exact value.
        literals: The numbers in it, as they are written.
        steps: The value of each operation in it; the last one's is ``value``. Empty for a
            number alone.
    """

    value: Fraction
    literals: tuple[str, ...]
    steps: tuple[Fraction, ...]


def evaluate(expression: str) -> Fraction:
    """The exact value of an expression.

    Raises:
        ArithmeticRefused: It is not arithmetic, divides by zero, or grows too large.
    """
    return work_out(expression).value


def work_out(expression: str) -> Worked:
    """The exact value of an expression, and of each step to it; raises as ``evaluate`` does."""
    text = " ".join(expression.translate(_SYMBOLS).split())
    _check_text(text)
    literals: list[str] = []
    steps: list[Fraction] = []
    try:
        value = _value(ast.parse(text, mode="eval").body, text, literals, steps)
        return Worked(value, tuple(literals), tuple(steps))
    except ArithmeticRefused:
        raise
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ArithmeticRefused(
            f"{textwrap.shorten(text, 60)!r} is not complete arithmetic, or is nested too deeply. "
            "Write it like (2.1e6 / 12) / 130000 - 1; for six percent write 6 / 100."
        ) from error


def decimal_text(value: Fraction) -> tuple[str, bool]:
    """The value as a decimal string, and whether that is exact.

    A fraction with a short finite decimal form is written out; any other is rounded to
    ``SIGNIFICANT_DIGITS``.
    """
    exact = _finite_decimal(value)
    if exact is not None:
        return exact, True
    context = Context(prec=SIGNIFICANT_DIGITS)
    rounded = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return str(rounded), False


def _check_text(text: str) -> None:
    if not text:
        raise ArithmeticRefused("The expression is empty. Write it like 175000 / 130000 - 1.")
    if len(text) > MAX_LENGTH:
        raise ArithmeticRefused(
            f"The expression has {len(text)} characters, at most {MAX_LENGTH} are worked out. "
            "Split it into several calculations."
        )
    if "," in text:
        raise ArithmeticRefused(
            "Write numbers without thousands separators and with a decimal point: 1300000 or 1.3e6."
        )
    if "^" in text:
        raise ArithmeticRefused("Write powers with **, such as 2 ** 10.")
    foreign = _FOREIGN.search(text)
    if foreign:
        raise ArithmeticRefused(
            f"{foreign[0]!r} is not arithmetic: only numbers, + - * / ** % and brackets. "
            "Put in the numbers themselves instead of names, units or functions."
        )
    for literal in _LITERAL.finditer(text):
        exponent = (literal[1] or "").replace("_", "")
        if exponent and int(exponent) > MAX_EXPONENT:
            raise ArithmeticRefused(f"{literal[0]} is too large to work out.")


def _value(node: ast.expr, text: str, literals: list[str], steps: list[Fraction]) -> Fraction:
    """The value of a part; its numbers and the values of its operations are added to the lists."""
    match node:
        case ast.Constant(value=int() | float()):
            # From the text, not the float, so that 0.1 is one tenth.
            literals.append(ast.get_source_segment(text, node) or "")
            return _bounded(Fraction(literals[-1]))
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, text, literals, steps)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text, literals, steps)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
            operands = (_value(side, text, literals, steps) for side in (left, right))
            steps.append(_bounded(_OPERATIONS[type(op)](*operands)))
            return steps[-1]
    raise ArithmeticRefused(
        "Only numbers, + - * / ** % and brackets are worked out; write * between two brackets."
    )


def _divide(left: Fraction, right: Fraction) -> Fraction:
    if right == 0:
        raise ArithmeticRefused("Division by zero has no value. Check the divisor.")
    return left / right


def _remainder(left: Fraction, right: Fraction) -> Fraction:
    if right == 0:
        raise ArithmeticRefused("The remainder of a division by zero has no value.")
    return left % right


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise ArithmeticRefused(
            "Exponents must be whole numbers: a root has no exact value in general."
        )
    power = exponent.numerator
    if base == 0 and power < 0:
        raise ArithmeticRefused("0 to a negative power divides by zero and has no value.")
    largest = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(power) > MAX_EXPONENT or largest * abs(power) > 2 * MAX_BITS:
        raise ArithmeticRefused(
            f"The power is too large: exponents go to {MAX_EXPONENT}, results to about "
            f"{MAX_BITS * 3 // 10} digits."
        )
    # Fraction to an integer power is a Fraction; typeshed says float for a negative one.
    return Fraction(base**power)


_OPERATIONS: dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: _divide,
    ast.Mod: _remainder,
    ast.Pow: _power,
}


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise ArithmeticRefused(
            f"A result has more than about {MAX_BITS * 3 // 10} digits; work with smaller numbers."
        )
    return value


def _finite_decimal(value: Fraction) -> str | None:
    """The decimal form if it ends and is short, else ``None``."""
    twos, rest = _factor(value.denominator, 2)
    fives, rest = _factor(rest, 5)
    places = max(twos, fives)
    if rest != 1 or places > MAX_EXACT_DIGITS or value.numerator.bit_length() > 4 * MAX_BITS:
        return None
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    if len(digits) > MAX_EXACT_DIGITS:
        return None
    sign = "-" if value < 0 else ""
    whole, decimals = digits[: len(digits) - places], digits[len(digits) - places :]
    return f"{sign}{whole}.{decimals}" if places else f"{sign}{whole}"


def _factor(number: int, prime: int) -> tuple[int, int]:
    count = 0
    while number % prime == 0:
        number //= prime
        count += 1
    return count, number
