"""Numbers read out of text: every spelling to its exact value, and nothing that is no number."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.quantities import MOST_DIGITS, Reading, literal, quantities

F = Fraction


def values(text: str) -> list[tuple[str, Fraction]]:
    """The first reading of each number that measures something."""
    return [
        (one.readings[0].kind, one.readings[0].value) for one in quantities(text) if one.measures
    ]


def alone(text: str) -> tuple[str, Fraction]:
    (found,) = values(text)
    return found


@pytest.mark.parametrize(
    "text",
    [
        *(
            "35%",
            "35 %",
            "35  %",
            "35\n percent",
            "35 percent",
            "35 per cent",
            "35-percent",
            "35 pct",
            "35 percentage points",
        ),
        *(
            "−35%",
            "-35%",
            "~35%",
            "(35%)",
            "_35%_",
            "**35%**",
            "3**5**%",
            "**35** percent",
            "`35%`",
        ),
        *("３５％", "٣٥٪", "3\u200b5%", "35\u00a0%", "fell…35%", "by.35%", "a drop of 35,0 %"),
        *("thirty-five percent", "Thirty five per cent", "35.0%"),
    ],
)
def test_a_share_in_every_spelling(text: str) -> None:
    assert alone(text) == ("share", F(35, 100))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (half, F(1, 2))
            for half in ("half", "cut in half", "halved", "by half", "one half", "½")
        ),
        *((half, F(1, 2)) for half in ("fifty percent", "1/2", "one in two", "5 out of 10")),
        *((third, F(1, 3)) for third in ("a third of it", "by a third", "one-third", "⅓", "1/3")),
        *((part, F(2, 3)) for part in ("two thirds", "two-thirds", "2/3 of", "two out of three")),
        ("three quarters", F(3, 4)),
        ("a quarter", F(1, 4)),
        ("one space in ten", F(1, 10)),
        ("a hundred percent", F(1)),
        ("hundred percent", F(1)),
        ("two and a half percent", F(25, 1000)),
    ],
)
def test_fractions_in_words(text: str, value: Fraction) -> None:
    assert alone(text) == ("share", value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("doubled", 2), ("Doubling", 2), ("twice as many", 2), ("double the", 2), ("twofold", 2)),
        *(("tripled", 3), ("three times as many", 3), ("3 times higher", 3), ("3x", 3), ("3×", 3)),
        *(("tenfold", 10), ("10-fold", 10), ("by a factor of ten", 10), ("2.5 times as many", 2.5)),
    ],
)
def test_multiples(text: str, value: float) -> None:
    assert alone(text) == ("multiple", F(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(
            (text, 1_300_000)
            for text in ("1.3 million", "1.3e6", "1,300,000", "1.300.000", "1.3mn")
        ),
        *((text, 130_000) for text in ("130 000", "130\u202f000", "130'000", "130 thousand")),
        *(("€129.50", 129.5), ("129,50 EUR", 129.5), ("EUR129.50", 129.5), ("$1.2bn", 1.2e9)),
        *(("two million", 2_000_000), ("half a million", 500_000), ("a thousand", 1_000)),
        *(("one hundred and fifty", 150), ("two hundred thousand", 200_000), ("ninety-two", 92)),
        *(
            ("two and a half million", 2_500_000),
            ("1½", 1.5),
            ("two thousand and twenty-four", 2024),
        ),
        *(("26 minutes", 26), ("5kg", 5), ("the 1990s", 1990), ("in 2024", 2024), (".5", 0.5)),
    ],
)
def test_plain_numbers(text: str, value: float) -> None:
    assert alone(text) == ("plain", F(value))


@pytest.mark.parametrize(
    "text",
    [
        *("2025-02-10", "10 February 2025", "10th of February, 2025", "February 10, 2025"),
        *("10 Feb 2025", "10.02.2025", "10/2/2025"),
    ],
)
def test_dates(text: str) -> None:
    assert alone(text) == ("date", F(20250210))


def test_a_date_that_can_be_read_in_two_ways_has_both() -> None:
    (date,) = quantities("03/04/2025")
    assert [reading.value for reading in date.readings] == [20250403, 20250304]


def test_parts_of_units_and_times_are_no_shares() -> None:
    assert values("half an hour, a half-hour, a quarter of an hour") == [
        *[("piece", F(1, 2))] * 2,
        ("piece", F(1, 4)),
    ]
    assert values("at 18:05 and 6:05 pm") == [("time", F(18 * 60 + 5))] * 2


def test_what_can_be_read_in_two_ways_has_both_readings() -> None:
    for text, readings in {
        "1.299": {1299, F(1299, 1000)},
        "1,299": {1299, F(1299, 1000)},
        "5m": {5, 5_000_000},
    }.items():
        (one,) = quantities(text)
        assert {reading.value for reading in one.readings} == readings


@pytest.mark.parametrize(
    ("text", "values_of_first"),
    [
        ("1.3 to 2.1 million", {("plain", F("1.3")), ("plain", F(1_300_000))}),
        ("6–8%", {("plain", F(6)), ("share", F("0.06"))}),
        ("between six and eight percent", {("plain", F(6)), ("share", F("0.06"))}),
    ],
)
def test_a_unit_is_shared_with_the_number_before(
    text: str, values_of_first: set[tuple[str, Fraction]]
) -> None:
    first, second = quantities(text)
    assert {(reading.kind, reading.value) for reading in first.readings} == values_of_first
    assert first.measures
    assert len(second.readings) == 1


def test_two_years_in_short() -> None:
    assert values("in 2023-24 and 2022/23") == [("plain", F(y)) for y in (2023, 2024, 2022, 2023)]


@pytest.mark.parametrize(
    "text",
    [
        *("two sources", "ten months", "3 sources", "2 other pages", "I searched twice"),
        *("order A1 and T1005", "order_2", "the 2nd", "the 21st century", "a third station"),
        *(
            "https://x.example/2024/50%25?a=1",
            "larkford.gov/reviews/review-2024",
            "see [1], [2, 3]",
        ),
        *("`get(a, 7)`", "`x=5`", "1. One\n2. Two\n3) Three", "## 1. Results", "> 1. Quoted"),
        *(
            "half past two",
            "in the second half",
            "the first quarter of the year",
            "hundreds of them",
        ),
        "9" * (MOST_DIGITS + 1),
    ],
)
def test_what_measures_nothing(text: str) -> None:
    assert values(text) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("50. That is the percentage.", "50"),
        ("1. One\n50. Two", "50"),
        ("[50] percent", "50"),
        ("`car trips fell by 50%`", "50%"),
        ("```\n50%\n```", "50%"),
        ("trips.Then 50%", "50%"),
        ("1.3million", "1.3million"),
        ("in May 5 percent", "5 percent"),
    ],
)
def test_a_number_does_not_hide(text: str, found: str) -> None:
    assert [one.text for one in quantities(text) if one.measures] == [found]


def test_a_number_stands_where_it_says() -> None:
    text = "Übung: **fifty**\n percent of 1½ — and 130 000!"
    for one in quantities(text):
        assert " ".join(text[one.start : one.end].replace("**", "").split()) == one.text
    assert [one.text for one in quantities(text)] == ["fifty percent", "1½", "130 000"]


@pytest.mark.parametrize(
    ("text", "step"),
    [
        *(("35%", "0.01"), ("34.6%", "0.001"), ("1.3 million", 100_000), ("2 million", 200_000)),
        *(
            ("131,000", 1_000),
            ("2000", 1),
            ("300,000", 1),
            ("0.3462", "0.0001"),
            ("a third of", "0.01"),
        ),
    ],
)
def test_what_a_number_is_rounded_to(text: str, step: str | int) -> None:
    (one,) = quantities(text)
    assert one.readings[0].step == F(step)


@given(st.integers(0, 10**9), st.integers(0, 4))
def test_digits_are_read_as_they_are_written(number: int, places: int) -> None:
    value = F(number, 10**places)
    whole, decimals = divmod(number, 10**places)
    text = f"{whole:,}" + (f".{decimals:0{places}}" if places else "")
    for spelled in (text, text.replace(",", " "), text.replace(",", "")):
        (one,) = quantities(f"It was {spelled} there.")
        assert ("plain", value) in [(reading.kind, reading.value) for reading in one.readings]
        (share,) = quantities(f"It was {spelled}% there.")
        assert ("share", value / 100) in [(r.kind, r.value) for r in share.readings]
    assert literal(text.replace(",", "")).value == value


@given(
    st.text(max_size=80)
    | st.text("0123456789.,%' -/:`[]()eE*_½\n", max_size=60)
    | st.lists(
        st.sampled_from(
            [
                "a",
                "one",
                "two",
                "twenty",
                "hundred",
                "thousand",
                "million",
                "and",
                "half",
                "third",
                "quarter",
                "percent",
                "may",
                "times",
                "as",
                "in",
                "out",
                "of",
                "5",
                "2024",
                "1.3",
                "%",
                "-",
                "/",
                "half-hour",
                "doubled",
                "fold",
            ]
        ),
        max_size=12,
    ).map(" ".join)
)
def test_any_text_is_read_and_every_number_stands_in_it(text: str) -> None:
    last = 0
    for one in quantities(text):
        assert 0 <= one.start < one.end <= len(text)
        assert one.start >= last or text[one.start] in "½"
        last = one.start
        assert one.readings
        assert all(reading.value >= 0 and reading.step >= 0 for reading in one.readings)


def test_programs_numbers() -> None:
    assert literal("2.1e6") == Reading("plain", F(2_100_000), F(100_000))
    assert literal("1_000") == Reading("plain", F(1_000), F(1))
    with pytest.raises(ValueError, match="Invalid literal"):
        literal("half")
