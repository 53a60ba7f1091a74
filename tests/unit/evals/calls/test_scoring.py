"""The verdict on a reply, the bundled cases, and the models that come with them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import InvalidFile
from agent.evals.calls.cases import CATEGORIES, Case, bundled_cases, by_category, read_cases
from agent.evals.calls.changes import CHANGES
from agent.evals.calls.matching import Accepted, Function, Wanted
from agent.evals.calls.mocks import mocks
from agent.evals.calls.parsing import Called, rendered
from agent.evals.calls.report import figures
from agent.evals.calls.scoring import FAILURES, Reply, score

CASES = bundled_cases()
NUMBERS = {"a": {"type": "number"}, "b": {"type": "number"}}
ADD = Function("add", NUMBERS, frozenset(NUMBERS))
MULT = Function("mult", NUMBERS, frozenset(NUMBERS))


def sums(*pairs: tuple[int, int]) -> tuple[Wanted, ...]:
    return tuple(Wanted("add", {"a": Accepted((a,)), "b": Accepted((b,))}) for a, b in pairs)


ONE = Case("one", "simple", "Add 2 and 3.", (ADD, MULT), sums((2, 3)))
TWO = Case("two", "parallel", "Add 2 and 3, 4 and 5.", (ADD, MULT), sums((2, 3), (4, 5)))
NONE = Case("none", "irrelevance", "What is 6 less 2?", (ADD, MULT))
ASKS = Case("asks", "missing-parameter", "Add 2.", (ADD,), asks="the other number")


@pytest.mark.parametrize(
    ("case", "text", "failure"),
    [
        (ONE, "add(a=2, b=3)", None),
        (ONE, "add(2, 3)", None),
        (ONE, "add(a=2, b=", "format error"),
        (ONE, "That makes 5.", "missed call"),
        (ONE, "plus(a=2, b=3)", "hallucinated function"),
        (ONE, "mult(a=2, b=3)", "wrong function"),
        (ONE, "add(a=2, b=4)", "wrong arguments"),
        (ONE, "[add(a=2, b=3), add(a=2, b=3)]", "wrong count"),
        (TWO, "[add(a=4, b=5), add(a=2, b=3)]", None),
        (TWO, "add(a=2, b=3)", "wrong count"),
        (TWO, "[add(a=2, b=3), add(a=2, b=3)]", "wrong arguments"),
        (TWO, "[add(a=2, b=3), mult(a=4, b=5)]", "wrong function"),
        (NONE, "I cannot subtract.", None),
        (NONE, "", None),
        (NONE, "add(a=6, b=-2)", "should abstain"),
        (NONE, "add(a=6,", "format error"),
        (ASKS, "Which number shall I add to it?", None),
        (ASKS, "add(a=2, b=0)", "should ask"),
        (ASKS, "I cannot.", "should ask"),
    ],
)
def test_each_failure_has_its_class(case: Case, text: str, failure: str | None) -> None:
    found = score(case, Reply(text))
    assert found.failure == failure
    assert found.right == (failure is None)
    assert bool(found.problems) == (failure is not None)


def test_calls_through_an_interface_count_as_those_in_text() -> None:
    calls = (Called("add", {"a": 2, "b": 3}),)
    assert score(ONE, Reply("I add.", calls)).right
    assert score(ONE, Reply("add(a=2, b=3)", ())).failure == "missed call"
    assert score(ONE, Reply("", (), broken="add: no JSON")).failure == "format error"


def test_what_is_wrong_is_said_of_the_nearest_call() -> None:
    found = score(TWO, Reply("[add(a=4, b=6), add(a=2, b=3)]"))
    assert found.problems == ("b: 6 is not 5",)


# --- the bundled cases --------------------------------------------------------------------------


def test_there_are_cases_of_every_category() -> None:
    found = by_category(CASES)
    assert [*found] == [*CATEGORIES]
    assert len(CASES) >= 60
    assert all(len(cases) >= 10 for cases in found.values())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_right_calls_are_right_and_no_change_of_them_is(case: Case) -> None:
    if not case.calls:
        assert score(case, Reply("Which one?"), strict=True).right
        return
    assert score(case, Reply(case.gold_text), strict=True).right
    never = ("a call missing", "a call twice", "another function offered", "a function made up")
    for kind in (*never, "an argument made up", "a required argument left out", "number as text"):
        calls = CHANGES[kind](case, list(case.gold))
        if calls is not None:
            assert not score(case, Reply(calls=tuple(calls))).right, kind
    for kind in ("order of calls", "integer as float", "a full stop at the end"):
        calls = CHANGES[kind](case, list(case.gold))
        has_form = any(
            "format" in s or "pattern" in s for f in case.functions for s in f.properties.values()
        )
        if calls is not None and not (has_form and kind.startswith("a full")):
            assert score(case, Reply(calls=tuple(calls))).right, kind


@given(st.sampled_from([case for case in CASES if len(case.calls) > 1]), st.randoms())
def test_the_order_of_parallel_calls_never_matters(case: Case, chance: random.Random) -> None:
    calls = [*case.gold]
    chance.shuffle(calls)
    assert score(case, Reply(rendered(calls))).right
    wrong = [replace(calls[0], args={**calls[0].args, "unheard_of": 1}), *calls[1:]]
    chance.shuffle(wrong)
    assert score(case, Reply(rendered(wrong))).failure == "wrong arguments"


def test_where_it_is_too_strict_and_where_too_lenient() -> None:
    """The two that docs/calls.md explains: a date in other words, and a name whose case counts."""
    by_id = {case.id: case for case in CASES}
    right = dict(by_id["simple-10"].gold[0].args)
    date = Called("create_event", right | {"date": "6 May 2027"})
    assert score(by_id["simple-10"], Reply(calls=(date,))).problems[0].startswith("date: ")
    folder = "list_files(folder='REPORTS')"
    assert score(by_id["multiple-10"], Reply(folder)).right
    assert not score(by_id["multiple-10"], Reply(folder), strict=True).right


# --- the models that come with them -------------------------------------------------------------


def test_each_model_errs_in_its_own_way_and_is_reproducible() -> None:
    expected = {
        "mock:makes-up-names": {"hallucinated function"},
        "mock:drops-optional": {"wrong arguments"},
        "mock:ignores-irrelevance": {"should abstain", "should ask"},
    }
    for name, mock in mocks(seed=3).items():
        replies = [mock(case) for case in CASES]
        assert replies == [mocks(seed=3)[name](case) for case in CASES]
        assert replies != [mocks(seed=4)[name](case) for case in CASES]
        found = figures(
            name, CASES, replies, [score(c, r) for c, r in zip(CASES, replies, strict=True)]
        )
        assert set(found.failures) == expected[name]
        assert 0.3 < found.accuracy < 1
        assert sum(found.failures.values()) == round((1 - found.accuracy) * len(CASES))
        assert found.disagree > 0


def test_figures_are_counted_by_category_and_against_exact_text() -> None:
    cases, replies = [ONE, TWO, NONE], [Reply("add(b=3, a=2)"), Reply(TWO.gold_text), Reply("no(")]
    scores = [score(case, reply) for case, reply in zip(cases, replies, strict=True)]
    found = figures("m", cases, replies, scores)
    assert found.as_json() == {
        "model": "m",
        "cases": 3,
        "accuracy": 0.6667,
        "by_category": {"simple": 1.0, "parallel": 1.0, "irrelevance": 0.0},
        "failures": {"format error": 1},
        "exact_text": {"accuracy": 0.3333, "disagree": 1},
    }
    assert [*found.failures] == [failure for failure in FAILURES if failure in found.failures]


# --- files of one's own -------------------------------------------------------------------------

GOOD = """\
functions:
  add:
    description: The sum.
    properties: {a: {type: number}, b: {type: number}}
    required: [a, b]
cases:
  - {id: one, category: simple, says: Add 2, offers: [add], calls: [{call: add, args: {a: [2], b: [3]}}]}
"""  # noqa: E501


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD)
    [case] = read_cases(tmp_path / "mine.yaml")
    assert score(case, Reply("add(a=2, b=3)")).right


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("category: simple", "category: hard", "mine.yaml:7: category: Input should be"),
        ("says:", "sais:", "mine.yaml:7: says: it is missing"),
        ("says:", "sais:", "mine.yaml:7: sais: there is no such field"),
        ("offers: [add]", "offers: [sum]", "mine.yaml:7: one offers 'sum', which is not described"),
        ("{call: add,", "{call: sum,", "mine.yaml:7: one does not offer 'sum'"),
        ("a: [2]", "a: []", "mine.yaml:7: a: List should have at least 1 item"),
        ("a: [2]", "a: [two]", "mine.yaml:7: a of add can never be 'two'"),
        ("a: [2], ", "", "mine.yaml:7: add needs 'a'"),
        ("b: [3]}", "b: [3], c: [1]}", "mine.yaml:7: add has no 'c'"),
        ("b: [3]}}", "b: [3]}, may_omit: [b]}", "mine.yaml:7: add needs 'b'"),
        ("category: simple", "category: parallel", "mine.yaml:7: one has 1 calls, which is"),
        ("category: simple", "category: irrelevance", "mine.yaml:7: one has no calls"),
        ("required: [a, b]", "required: [a, z]", "mine.yaml:2: add requires 'z'"),
        ("{type: number}, b", "{type: 7}, b", "mine.yaml:2: the schema of add is none"),
        ("cases:\n", "cases:\n  - &x {}\n", "mine.yaml:7: anchors"),
        ("cases:", "cases: [", "mine.yaml:"),
        (GOOD, "", "mine.yaml:1: it is empty"),
        (GOOD, "[]", "mine.yaml:1: Input should be"),
        ("Add 2", "\udcff", "mine.yaml:7: this is not UTF-8"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(GOOD.replace(old, new, 1).encode("utf-8", "surrogateescape"))
    with pytest.raises(InvalidFile) as found:
        read_cases(path)
    assert fault in "\n".join(found.value.faults)


def test_two_cases_of_one_id_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD + GOOD.splitlines()[-1])
    with pytest.raises(
        InvalidFile, match=r"mine.yaml:8: 'one' is the id of the case in mine.yaml:7"
    ):
        read_cases(tmp_path / "mine.yaml")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"none.yaml: it cannot be read \(No such file"):
        read_cases(tmp_path / "none.yaml")
