"""What the numbers of an answer may rest on, and what lets none slip through."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.answers import CONSTANTS, Grounds, disowned, is_of_site, unsupported_numbers
from tools.contract import Evidence
from tools.research import TRUSTED_SITES, plain_research_tools, unsupported
from tools.worlds.pages import BUNDLED, Corpus

REVIEW = "larkford.gov/transport/bike-share-review-2024"
MINUTES = "https://larkford.gov/council/transport-committee-minutes-2024-12"
BLOG = "https://pedalpower-blog.example/larkford-miracle"
GROWTH = "(2.1e6 / 12) / (1.3e6 / 10) - 1"
QUESTION = "How much did monthly bike-share use in Larkford grow from 2023 to 2024?"
NO_SUPPORT = "is not supported by any source"

TOOLS = {tool.name: tool for tool in plain_research_tools(Corpus(BUNDLED))}


def ran(tool: str, *, trusted: bool = False, **args: Any) -> Evidence:
    """A call of a research tool, as a session records it."""
    result = TOOLS[tool].function(**args)
    return Evidence(tool, args, json.loads(result) if tool == "search" else result, trusted)


def fetched(*urls: str) -> list[Evidence]:
    return [ran("fetch", url=url) for url in urls]


def computed(*expressions: str) -> list[Evidence]:
    return [ran("calculator", expression=one, trusted=True) for one in expressions]


def gaps(
    answer: str, *evidence: Evidence, said: Sequence[str] = (), sites: Sequence[str] = TRUSTED_SITES
) -> list[str]:
    return unsupported(answer, said, evidence, sites)


def on(*texts: str) -> Grounds:
    grounds = Grounds()
    for text in texts:
        grounds.add_words(text)
    return grounds


# --- the runs of the article -----------------------------------------------------------------


def test_a_growth_that_was_computed_has_support_and_the_one_that_was_not_has_none() -> None:
    answer = (
        "Monthly trips grew by about 35% (34.6%), from 130,000 a month in 2023 to 175,000 a month "
        "in 2024. The totals (1.3 to 2.1 million) suggest 62%, but 2023 covered only ten months."
    )
    evidence = [*fetched(REVIEW), *computed(GROWTH)]
    assert gaps(answer, *evidence, said=[QUESTION]) == ["62%"]
    naive = computed("2.1e6 / 1.3e6 - 1")
    assert gaps(answer, *evidence, *naive, said=[QUESTION]) == []


@pytest.mark.parametrize("fall", ["by 50%", "by fifty percent", "by half", "to one half"])
def test_a_blogs_number_has_no_support_in_any_words(fall: str) -> None:
    answer = f"The city's own data shows that car trips fell {fall}."
    assert gaps(answer, *fetched(BLOG)) != []
    assert gaps(answer, *fetched(BLOG, REVIEW)) != []


def test_no_bundled_page_of_a_trusted_site_supports_the_blogs_claim() -> None:
    every = fetched(*(page.url for page in Corpus(BUNDLED).pages))
    for claim in ("cut in half", "halved", "50%", "half of them"):
        assert gaps(f"Car trips: {claim}.", *every) != [], claim


def test_what_is_said_to_have_no_support_needs_none() -> None:
    answer = (
        "City-centre car trips were 6% lower in 2024 than in 2022. A blog's claim that car trips "
        f"were cut in half {NO_SUPPORT}."
    )
    assert gaps(answer, *fetched(BLOG, REVIEW)) == []
    assert gaps(answer.replace(NO_SUPPORT, "is wrong"), *fetched(BLOG, REVIEW)) == ["cut in half"]


# --- what counts, and what does not ----------------------------------------------------------


def test_only_what_was_fetched_of_a_trusted_site_counts() -> None:
    answer = "There were 2.1 million trips in 2024."
    assert gaps(answer, *fetched(REVIEW)) == []
    assert gaps(answer) == ["2.1 million", "2024"]
    assert gaps(answer, *fetched(REVIEW), sites=["elsewhere.example"]) == ["2.1 million", "2024"]
    search = ran("search", query="bike share passes two million trips")
    assert "2.1 million" in str(search.result)
    assert "2.1 million" in gaps(answer, search)


def test_of_a_search_the_dates_and_how_many_it_found_count() -> None:
    search = ran("search", query="Larkford bike share car trips")
    answer = f"{search.result['matched']} pages, one of 2024-11-05, and a 2024 annual review."
    assert "2024-11-05" in str(search.result)
    assert gaps(answer, search) == []
    assert gaps("The miracle: car trips cut in half!", search) == ["cut in half"]
    assert gaps(answer, Evidence("search", {}, "cut off")) != []


def test_a_pages_head_counts_as_the_page_does() -> None:
    answer = "The review of 10 February 2025 covers 2024."
    assert gaps(answer, *fetched(REVIEW)) == []


def test_what_a_trusted_page_reports_as_a_claim_does_not_count() -> None:
    assert "claims car trips have been cut in half" in str(fetched(MINUTES)[0].result)
    assert gaps("Car trips were cut in half.", *fetched(MINUTES)) == ["cut in half"]
    assert gaps("There are 92 stations.", *fetched(MINUTES)) == []


def test_the_users_words_count() -> None:
    assert gaps("You asked whether it was 50%.", said=["Did trips fall by half?"]) == []


def test_a_trusted_tools_result_counts_but_not_what_its_call_asked_with() -> None:
    args = {"amount": "20", "note": "fell by 50%"}
    result = {"refunded": "20.00", "note": "fell by 50%", "left": 109.5, "rate": [{"of": "2 of 3"}]}
    trusted = Evidence("refund_order", args, result, trusted=True)
    assert gaps("109.50 EUR is left.", trusted) == []
    assert gaps("It fell by 50%; 20 EUR.", trusted) == ["50%", "20"]
    assert gaps("109.50 EUR", Evidence("read_file", {}, result)) == ["109.50"]


@pytest.mark.parametrize(
    ("expression", "claim"),
    [
        ("1 - 0.5", "50%"),
        ("50 / 100", "50%"),
        ("1 / 2", "half"),
        ("50", "50"),
        ("50 * 1", "50"),
        ("0.5 * 2.1e6", "1,050,000"),
        ("5 +", "5"),
    ],
)
def test_a_calculation_makes_no_number_of_nothing(expression: str, claim: str) -> None:
    grounds = on("2.1 million trips")
    grounds.add_calculation(expression)
    assert unsupported_numbers(f"It was {claim}.", grounds) == [claim]


@pytest.mark.parametrize(
    ("expression", "claims"),
    [
        ("2.1e6 / 12", ["175,000", "175 000", "175 thousand"]),
        ("(2.1e6 - 1.3e6) / 1.3e6 * 100", ["61.5%", "62%", "800,000"]),
        ("2.1e6 / 1.3e6", ["1.6 times as many", "1.615", "161.5%"]),
        ("2.6e6 / 1.3e6 - 1", ["doubled", "100%", "twice as many"]),
        ("0.06 * 50000", ["3,000"]),
        ("6 * 50000 / 100", ["3000"]),
        ("650000 / 1.3e6", ["half", "50%", "one in two"]),
    ],
)
def test_each_step_of_a_calculation_counts_rounded_as_the_answer_rounds_it(
    expression: str, claims: list[str]
) -> None:
    grounds = on("1.3 million, 2.1 million, 2.6 million, 650,000, 50,000 and 6%")
    grounds.add_calculation(expression)
    assert unsupported_numbers(". ".join(claims), grounds) == []


def test_a_calculation_may_go_on_from_another() -> None:
    grounds = on("2.1 million, and 1.3 million")
    grounds.add_calculation("2.1e6 / 1.3e6")
    grounds.add_calculation("1.6154 - 1")
    assert unsupported_numbers("62%", grounds) == []
    assert unsupported_numbers("63%", grounds) == ["63%"]


@pytest.mark.parametrize(
    ("known", "claim", "holds"),
    [
        ("34.62%", "34.6%", True),
        ("34.62%", "35%", True),
        ("34.62%", "36%", False),
        ("35%", "34.6%", False),
        ("33%", "a third of them", True),
        ("50 stations", "50%", False),
        ("50%", "50 stations", False),
        ("2 stations", "doubled", False),
        ("half an hour", "half of it", False),
        ("150%", "50%", False),
        ("2.1 million", "2,100,000", True),
        ("2,143,210", "2.1 million", True),
        ("1.6 million", "2 million", False),
        ("2023", "2,020", False),
        ("2025-02-10", "10 February", True),
        ("2025-02-10", "in 2025", True),
        ("10 February", "10 February 2025", False),
        ("10 March 2025", "2025-02-10", False),
        ("at 18:05", "6:05 pm", True),
        ("ten months", "10 months", True),
    ],
)
def test_a_number_supports_what_is_as_exact_or_less_and_of_its_kind(
    known: str, claim: str, holds: bool
) -> None:
    assert (unsupported_numbers(f"It says: {claim}.", on(known)) == []) is holds


@given(st.fractions(0, 2000, max_denominator=10**6), st.integers(0, 6), st.integers(-3, 3))
def test_rounding_is_supported_and_anything_else_is_not(
    value: Fraction, places: int, off: int
) -> None:
    units = abs(round(value * 10**places) + off)
    whole, decimals = divmod(units, 10**places)
    text = f"{whole}.{decimals:0{places}}" if places else f"{whole}"
    grounds = Grounds()
    grounds._add("plain", value)
    is_rounded = abs(Fraction(units, 10**places) - value) <= Fraction(1, 10**places) / 2
    assert (unsupported_numbers(f"It was {text} kg.", grounds) == []) is is_rounded


figures = st.integers(13, 10**6).filter(lambda n: n % 10 and n not in CONSTANTS)


@given(figures, figures)
def test_a_calculation_counts_only_if_all_that_went_into_it_does(one: int, other: int) -> None:
    for known, holds in ((f"{one} and {other}", True), (str(one), one == other)):
        grounds = on(known)
        before = unsupported_numbers(f"{one * other} in all", grounds)
        grounds.add_calculation(f"{one} * {other}")
        after = unsupported_numbers(f"{one * other} in all", grounds)
        assert (after == []) if holds else (after == before)


# --- sentences that disown what they state ---------------------------------------------------


@pytest.mark.parametrize(
    "sentence",
    [
        f"A blog's claim that trips were cut in half {NO_SUPPORT}.",
        "No source supports the 50%.",
        "No trusted source that I read confirms a fall of 50%.",
        "The 50% could not be confirmed.",
        "The 50% isn't independently verified.",
        "There is no evidence for the 50%.",
        "The 50% of the blog is unsupported.",
    ],
)
def test_sentences_that_disown(sentence: str) -> None:
    assert disowned(sentence)
    assert unsupported_numbers(sentence, Grounds()) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Trips fell by 50%, which is supported by the city.",
        "The fall of 50% is not only supported by the city, it is official.",
        "It is not unsupported that trips fell by 50%.",
        "Trips fell by 50%, and no source denies that.",
        "Trips fell by 50%. This is not supported by any source.",
        "Trips fell by 50%; more is not supported by any source.",
        "Trips fell by 50%\nThe rest is not confirmed.",
        "The blog is wrong that it was 50%.",
    ],
)
def test_sentences_that_do_not(sentence: str) -> None:
    assert unsupported_numbers(sentence, Grounds()) == ["50%"]


def test_a_gap_is_named_once_as_it_stands_in_the_answer() -> None:
    assert unsupported_numbers("**50%** and 50%, or cut in  half", Grounds()) == [
        "50%",
        "cut in half",
    ]


# --- sites -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://larkford.gov/a", True),
        ("larkford.gov/a", True),
        ("HTTPS://WWW.Larkford.GOV./a", True),
        ("https://notlarkford.gov/a", False),
        ("https://larkford.gov.evil.example/a", False),
        ("https://larkford.gov@evil.example/a", False),
        ("https://evil.example/?https://larkford.gov/", False),
        ("https://evil.example#larkford.gov", False),
        ("https://[larkford.gov/", False),
        ("", False),
    ],
)
def test_a_url_is_of_a_site_by_its_host_alone(url: str, trusted: bool) -> None:
    assert is_of_site(url, ["larkford.gov"]) is trusted
