"""Conditions: what they may say, what they cost, and that what cannot be checked says so."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.policy.conditions import LARGEST, Condition
from agent.policy.facts import Spent, facts_of
from agent.policy.language import ConditionError
from agent.policy.lookup import Facts, NotChecked
from agent.policy.patterns import cost_of

EFFECTS = frozenset({"write:orders", "spend:eur"})


def facts(
    args: dict[str, Any] | None = None,
    labels: tuple[str, ...] = (),
    spent: Spent | None = None,
    provenance: dict[str, str] | None = None,
    source: str = "true",
) -> Facts:
    return facts_of(
        tool="pay",
        args=args or {},
        effects=EFFECTS,
        labels=labels,
        user="ana",
        spent=spent or Spent(),
        provenance=provenance if provenance is not None else {},
        mentioned=Condition.of(source).references,
    )


def holds(source: str, **given: Any) -> bool:
    return Condition.of(source).holds(facts(source=source, **given))


def not_checked(source: str, **given: Any) -> str:
    with pytest.raises(NotChecked) as caught:
        holds(source, **given)
    return str(caught.value)


def fault(source: str) -> str:
    with pytest.raises(ConditionError) as caught:
        Condition.of(source)
    assert 0 <= caught.value.offset <= len(source)
    return caught.value.text


ARGS = {"to": ["a@x.org", "b@x.org"], "n": 3, "text": "hello", "deep": {"er": 1}, "none": None}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("args.n > 2 && args.text.startsWith('he')", True),
        ("args.n in [1, 2]", False),
        ('args["deep"].er == 1', True),
        ("has(args.note) && args.note == 'x'", False),
        ('args.to.all(one, one.endsWith("@x.org"))', True),
        ("args.to.exists(one, one == 'c@x.org')", False),
        ("size(args.to.filter(one, one.contains('a@'))) == 1", True),
        ("args.none == null", True),
        ("args.n > -1", True),
        ("args.text.matches('^h.l+o$') // a remark", True),
        ('"untrusted" in labels', True),
        ('"spend:eur" in effects && tool == "pay" && user == "ana"', True),
        ('session.counts["pay"] == 0 && session.sums["spend:eur"] == 0', True),
        ("args.n > 2 ? true : false", True),
    ],
)
def test_what_it_can_ask(source: str, expected: bool) -> None:
    assert holds(source, args=ARGS, labels=("untrusted",)) is expected


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("foo > 3", "there is no field foo"),
        ("label == 'x'", "did you mean labels?"),
        ("args.to.endWith('x')", "did you mean endsWith?"),
        ("string(args.n) == '3'", "there is no function string"),
        ("args.a + args.b > 3", "conditions compare and do not calculate"),
        ("args.a -1 > 3", "do not calculate"),
        ("args.a * 2 > 3", "do not calculate"),
        ("args.a == 'x' + 'y'", "do not calculate"),
        ("amount > 1e3", "is not used here"),
        ("amount > 0x10", "is not used here"),
        ("amount > 1234567890.1234567", "at most 15 digits"),
        ("labels[0] == 'x'", "labels has no fields"),
        ("amount.eur > 3", "amount has no fields"),
        ("session.calls > 3", "session.counts"),
        ("session.counts > 3", "session.counts"),
        ("session.counts[tool] > 3", "session.counts"),
        ('provenance.a.b == "user"', 'provenance["a.b"]'),
        ('"untrustd" in labels', "did you mean untrusted?"),
        ('provenance.to == "untrustd"', "did you mean untrusted?"),
        ('provenance.to in ["user", "untrustd"]', "did you mean untrusted?"),
        ('"untrustd" != provenance.to', "did you mean untrusted?"),
        ('currency == "eur"', 'in capitals: "EUR"'),
        ('currency in ["USD", "eur"]', 'in capitals: "EUR"'),
        ("args.a.exists(x, args.b.exists(y, x == y))", "inside of another one"),
        ("[1, 2].exists(x, x == 1)", "goes through a field"),
        ("args.a.exists(labels, true)", "labels is a field already"),
        ("args.a.map(x, x)", "there is no function map"),
        ("args.a.matches(args.b)", "written down"),
        ("args.a.matches('[')", "no regular expression"),
        ("args.a.matches('((a{100}){100}){100}')", "too large"),
        ("args.a.matches('a{101}')", "100 times at most"),
        (r"args.a.matches(r'((a{1,40}b?){1,40}c?){1,40}d')", "too large"),
        (r"args.a.matches('((\x61\x7b1,40}b?)\x7b1,40}c?){1,40}d')", "too large"),
        (r"args.a.matches(r'(?x)a {1 ,50}')", "too large"),
        ("args.a.has(args.b)", "has(args.note)"),
        ("contains(args.a, 'x')", 'args.to.contains("…")'),
        ("args.a ==", "cannot be read"),
        ("args.a == 'x", "is not used here"),
        ("(" * 400 + "true" + ")" * 400, "nested too deeply"),
        ("x" * 1_001, "at most 1000 characters"),
    ],
)
def test_what_it_cannot_say_is_a_fault_with_what_to_write_instead(source: str, said: str) -> None:
    assert said in fault(source)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("args.note == 'x'", "there is no note in this call"),
        ("args.text > 3", "another type"),
        ("args.text == 3", "args.text is text, and it is compared with a number"),
        ("3 != args.text", "args.text is text"),
        ("args.n == '3'", "args.n is a number, and it is compared with a text"),
        ("args.text in [1, 2]", "args.text is text"),
        ("args.to[7] == 'x'", "a list is shorter"),
        ("args.n.contains('x')", "cannot be asked"),
        ("args.n", "neither true nor false"),
        ("provenance.text == 'user'", "provenance.text is not known"),
        ("args.huge > 1", "cannot be compared exactly"),
        ("args.odd == 'x'", "no valid text"),
        ("has(args.huge)", "cannot be compared exactly"),
        ("args.all(name, name != 'x')", "cannot be compared exactly"),
    ],
)
def test_what_cannot_be_checked_on_a_call_says_why(source: str, said: str) -> None:
    args = {**ARGS, "huge": 2**63, "odd": "\ud800"}
    assert said in not_checked(source, args=args)


def test_a_field_that_is_not_looked_at_does_not_disturb() -> None:
    assert holds("args.n == 3", args={**ARGS, "huge": float("inf"), "odd": "\ud800"})


# --- exact comparison ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amount", "condition", "expected"),
    [
        ("0.30", "total <= 0.3", False),
        ("0.10", "total <= 0.3", True),
        ("0.10", "total == 0.3", True),
        ("50.00", "amount <= 50", True),
        ("50.01", "amount <= 50", False),
        ("0.1", "amount == 0.10", True),
        (0.1, "amount == 0.1", True),
        (1e20, "amount > 5", None),
        ("1e3", "amount > 5", None),
        ("٥٠", "amount > 5", None),
        ("50.000000000000001", "amount <= 50", None),
        ("123456789012345.0000000001", "amount <= 123456789012345", None),
        ("NaN", "amount > 5", None),
        (True, "amount > 0", None),
        (None, "amount > 0", None),
    ],
)
def test_money_is_compared_as_it_is_written_or_not_at_all(
    amount: object, condition: str, expected: bool | None
) -> None:
    """0.1 + 0.2 is 0.3 here; what a binary fraction cannot hold is not compared."""
    given: dict[str, Any] = {
        "args": {"amount": amount},
        "spent": Spent(sums={"spend:eur": Decimal("0.2")}),
    }
    if expected is None:
        assert "amount" in not_checked(condition, **given)
    else:
        assert holds(condition, **given) is expected


cents = st.integers(min_value=0, max_value=10**12)


@given(amount=cents, before=cents, limit=cents)
def test_a_limit_on_money_holds_to_the_cent(amount: int, before: int, limit: int) -> None:
    def text(value: int) -> str:
        return f"{value // 100}.{value % 100:02d}"

    spent = Spent(sums={"spend:eur": Decimal(before) / 100})
    found = holds(f"total <= {text(limit)}", args={"amount": text(amount)}, spent=spent)

    assert found is (amount + before <= limit)


@given(
    one=st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=0, max_value=10**9),
    other=st.decimals(min_value=0, max_value=10**9, places=4),
)
def test_numbers_of_up_to_fifteen_digits_are_ordered_as_decimals_are(
    one: Decimal, other: Decimal
) -> None:
    assert holds(f"args.n <= {other:f}", args={"n": float(one)}) is (one <= other)


# --- where values come from ------------------------------------------------------------------


def test_the_origin_of_a_list_is_the_worst_of_its_values() -> None:
    known = {"to[0]": "user", "to[1]": "untrusted", "to[2]": "trusted", "subject": "user"}

    assert holds('provenance.to == "untrusted"', args=ARGS, provenance=known)
    assert holds('provenance["to[0]"] == "user"', args=ARGS, provenance=known)
    assert holds('provenance.none == "none"', args=ARGS, provenance=known)
    assert holds('provenance.exists(p, provenance[p] == "untrusted")', args=ARGS, provenance=known)


# --- bounds ----------------------------------------------------------------------------------


def work(source: str, args: dict[str, Any]) -> int:
    return Condition.of(source).units(facts(args=args))


def test_work_is_known_beforehand_and_grows_with_what_is_looked_at() -> None:
    small, large = {"l": [1] * 10, "text": "x"}, {"l": [1] * 1_000, "text": "x" * 1_000_000}

    assert work("args.l.all(one, one == 1)", large) < 100 * work("args.l.all(one, one == 1)", small)
    assert work("args.n == 1", large) == work("args.n == 1", small)
    assert work("args.l.all(one, one in args.l)", large) > LARGEST
    assert work("args.text.contains('y')", large) < LARGEST


@pytest.mark.parametrize(
    "source",
    [
        "args.l.all(one, one in args.l)",
        "args.l.all(one, args.l == args.l)",
        "args.l.exists(one, args.text.contains('y'))",
        "args.l.all(one, !args.text.matches('(\\\\pL{20}){2}y'))",
        "args.text.matches('(x{1,90}y?){1,50}z')",
        "args.l.exists(one, args.text.matches('x[xy]{30}z'))",
        "args.words.exists(one, one.matches('(x{1,90}y?){1,50}z'))",
        "args.words.exists(one, one.matches('[xy]{90}z'))",
        "args.words.all(one, !one.matches(r'\\w{64}'))",
    ],
)
def test_what_would_take_too_long_is_not_begun(source: str) -> None:
    args = {"l": [1] * 5_000, "text": "x" * 100_000, "words": ["x" * 1_000] * 100}

    assert "too large" in not_checked(source, args=args)


def test_a_pattern_costs_as_much_as_it_has_places_repetitions_written_out() -> None:
    assert cost_of("(a{1,90}b?){1,50}c").each == cost_of("(?:a{90}b){50}c").each
    assert cost_of("(a{1,90}b?){1,50}c").each > 4_000 * cost_of("abc").each
    assert cost_of(r"\w{20}").once == pytest.approx(20 * cost_of(r"\w").once, rel=0.2)
    assert cost_of(r"[\w.-]{20}").once > cost_of(r"\w{20}").once
    assert cost_of(r"\p{Greek}{20}") == cost_of(r"\pL{20}")
    assert cost_of(r"[a{90}]x") == cost_of(r"[a()90]x")
    assert cost_of(r"a\{90\}").each == cost_of("a.90.").each
    assert cost_of("(?i:a{30})").each > cost_of("a{30}").each


def test_plain_words_cost_little_however_many_there_are() -> None:
    words = "(?i)password|secret|api-key|private key|bearer"

    assert cost_of(words).each == cost_of("a").each
    assert not holds(f"args.text.matches('{words}')", args={"text": "x" * 1_000_000})


@given(st.text(st.sampled_from(r"a[](){}\\wp{2,3}?*+|.^$-:i<>&"), max_size=30))
def test_the_cost_of_any_text_can_be_told(pattern: str) -> None:
    cost = cost_of(pattern)

    assert cost.once > 0
    assert cost.each > 0


def test_many_conditions_share_one_budget() -> None:
    given = facts(args={"l": list(range(800))})
    condition = Condition.of("args.l.all(one, one in args.l)")
    looked = 0
    for _ in range(100):
        try:
            looked += condition.holds(given)
        except NotChecked:
            break
    assert 3 < looked < 100
    with pytest.raises(NotChecked, match="too much work"):
        condition.holds(given)


names = st.sampled_from(["args.a", "labels", "amount", "1", "'x'", "true", "(", ")", "[", "]", "&&",
                         "||", "==", "<", "in", "!", ".exists(x,", "x", "has(args.a)", "-", "?",
                         ":", ".size()", "args.a.matches('x')", ",", " "])  # fmt: skip


@given(st.lists(names, max_size=14))
def test_any_words_are_a_condition_or_a_fault_and_never_anything_else(parts: list[str]) -> None:
    source = " ".join(parts)
    try:
        condition = Condition.of(source)
    except ConditionError:
        return
    try:
        assert condition.holds(facts(args={"a": ["x"]}, source=source)) in (True, False)
    except NotChecked as error:
        why = str(error)
        assert why
