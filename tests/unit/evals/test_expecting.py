"""What can be asserted of a trajectory, and how a failure is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.evals.as_test import as_test
from agent.evals.expecting import Deviation, Expected, a_call
from agent.evals.harness import Harness, harness
from agent.evals.reviewers import ByTool, Edits, Rejects, approves
from agent.models.scripted import call, malformed, step

LOOK, CANCEL = (
    call("get_order", order_id="A1"),
    call("cancel_order", order_id="A1", expected_revision=1),
)
BAD = malformed("get_order", '{"order_id": ')


@pytest.fixture
def sayso(tmp_path: Path) -> Iterator[Harness]:
    with harness(tmp_path) as made:
        yield made


@pytest.fixture
def turn(sayso: Harness) -> Expected:
    """A read, an approved write, a rejected one, and one that the authority does not cover."""
    refund = call("refund_order", order_id="A3", amount="5.00", currency="EUR")
    script = [
        step(LOOK, call("get_order", order_id="A3")),
        step(CANCEL, refund),
        step("Let me write.", call("write_file", path="a.md", content="x")),
        "Cancelled, not refunded.",
    ]
    reviewer = ByTool({"cancel_order": approves, "refund_order": Rejects("not today")})
    session = sayso.session(script, reviewer=reviewer, tools=("orders", "files"), deny=["write:f*"])
    return session.say("Cancel A1")


HOLDS: dict[str, Callable[[Expected], Any]] = {
    "in order, others between": lambda t: t.called("get_order", "cancel_order", "write_file"),
    "twice the same tool": lambda t: t.called("get_order", "get_order", "refund_order"),
    "with arguments": lambda t: t.called(a_call("get_order", order_id="A3")),
    "a number as text": lambda t: t.called(a_call("cancel_order", expected_revision="1")),
    "a condition": lambda t: t.called(
        a_call("get_order", order_id=lambda given: given.endswith("3"))
    ),
    "exactly": lambda t: t.called_exactly(
        "get_order", "get_order", "cancel_order", "refund_order", "write_file"
    ),
    "any order": lambda t: t.called_in_any_order(
        "write_file",
        a_call("get_order", order_id="A3"),
        "refund_order",
        "get_order",
        "cancel_order",
    ),
    "only": lambda t: t.called_only("get_order", "cancel_order", "refund_order", "write_file"),
    "never": lambda t: t.never_called("list_orders", a_call("get_order", order_id="B1")),
    "ran": lambda t: t.ran("get_order", times=2).ran("cancel_order"),
    "never ran": lambda t: t.never_ran("refund_order", "write_file"),
    "rejected": lambda t: t.became("refund_order", "rejected"),
    "denied": lambda t: t.became("write_file", "denied", times=1),
    "asked": lambda t: t.asked().asked("cancel_order", "refund_order"),
    "decided": lambda t: t.decided("cancel_order", "approved", by="simulated reviewer"),
    "decided, why": lambda t: t.decided("refund_order", "rejected", comment="not today"),
    "decided, by which rule": lambda t: t.decided("refund_order", "rejected", rule="writes"),
    "ended": lambda t: t.ended("done").said("CANCELLED", "not refunded").never_said("sorry"),
    "the ledger": lambda t: t.ledger(committed=1, failed=0),
    "the trail": lambda t: t.trail_holds(),
}


@pytest.mark.parametrize("name", HOLDS)
def test_what_holds_gives_back_what_was_asked(turn: Expected, name: str) -> None:
    assert HOLDS[name](turn) is turn


FAILS: dict[str, tuple[Callable[[Expected], Any], str]] = {
    "in order": (
        lambda t: t.called("cancel_order", "get_order"),
        "get_order was to be called after cancel_order.",
    ),
    "more often": (
        lambda t: t.called("get_order", "get_order", "get_order"),
        "get_order was to be called after get_order.",
    ),
    "other arguments": (
        lambda t: t.called(a_call("get_order", order_id="B1")),
        'get_order(order_id="B1") was to be called.',
    ),
    "a condition": (
        lambda t: t.called(a_call("get_order", order_id=str.isdigit)),
        'get_order(order_id="<isdigit>") was to be called.',
    ),
    "an argument that it has not": (
        lambda t: t.called(a_call("get_order", nothing=lambda _: True)),
        'get_order(nothing="<<lambda>>") was to be called.',
    ),
    "exactly, another": (
        lambda t: t.called_exactly("get_order", "cancel_order"),
        "call 2 was to be cancel_order.",
    ),
    "exactly, too few": (
        lambda t: t.called_exactly(*["get_order"] * 2, *CALLED[2:], "list_orders"),
        "was to be called.",
    ),
    "exactly, too many": (lambda t: t.called_exactly("get_order", "get_order"), "only get_order"),
    "any order, one missing": (
        lambda t: t.called_in_any_order(*CALLED, "list_orders"),
        "was to be called.",
    ),
    "any order, one more": (lambda t: t.called_in_any_order(*CALLED[1:]), "only get_order"),
    "only": (lambda t: t.called_only("get_order"), "nothing but get_order was to be called."),
    "never": (lambda t: t.never_called("cancel_order"), "cancel_order was never to be called."),
    "nothing": (lambda t: t.never_called(), "nothing was to be called."),
    "ran": (lambda t: t.ran("refund_order"), "refund_order was to be: ran."),
    "so often": (lambda t: t.ran("get_order", times=3), "ran 3 times, and was 2 times."),
    "never ran": (lambda t: t.never_ran("cancel_order"), "cancel_order was never to run."),
    "asked": (lambda t: t.asked("get_order"), "somebody was to be asked about get_order."),
    "asked nothing": (lambda t: t.asked_nothing(), "nobody was to be asked."),
    "decided": (
        lambda t: t.decided("cancel_order", "approved", by="bob"),
        "cancel_order was to be approved, decided by bob.",
    ),
    "ended": (lambda t: t.ended("waiting"), "the session was to be waiting, and is done."),
    "said": (lambda t: t.said("refunded it"), "the answer was to have “refunded it”."),
    "never said": (lambda t: t.never_said("let me"), "“let me” was never to be said."),
    "the ledger": (
        lambda t: t.ledger(committed=2),
        "the ledger was to have 2 committed, and has 1 committed.",
    ),
}
CALLED = ("get_order", "get_order", "cancel_order", "refund_order", "write_file")


@pytest.mark.parametrize("name", FAILS)
def test_what_does_not_hold_is_told_with_the_story(turn: Expected, name: str) -> None:
    ask, words = FAILS[name]
    with pytest.raises(Deviation) as raised:
        ask(turn)
    what, story = str(raised.value).split("\n\n", 1)
    assert what.startswith("It went another way: ")
    assert words in what
    assert story.splitlines()[0] == "  user: Cancel A1"


def test_a_failure_is_a_story_with_the_first_deviation_marked(turn: Expected) -> None:
    with pytest.raises(Deviation) as raised:
        turn.called_exactly("get_order", "get_order", "refund_order")
    told = str(raised.value).replace(turn.recorded.session, "S")
    told = told.replace(turn.recorded.calls[2].effect.id, "E")  # type: ignore[union-attr]
    assert told.splitlines()[2:] == [
        "  user: Cancel A1",
        '    1  get_order(order_id="A1")',
        "       ran, rule reads",
        '    1  get_order(order_id="A3")',
        "       ran, rule reads",
        '→   2  cancel_order(order_id="A1", expected_revision=1)',
        "       ran, approved by simulated reviewer, E, rule writes",
        '    2  refund_order(order_id="A3", amount="5.00", currency="EUR")',
        "       rejected, rejected by simulated reviewer, rule writes",
        '    3  write_file(path="a.md", content="x")',
        "       denied, rule authority, write_file would need write:files, which this session "
        "was not granted.",
        "  agent: Cancelled, not refunded.",
        "  S is done: 4 steps, 5 calls, 1 writes, 2 asked",
    ]


def test_what_is_missing_is_told_at_the_end(turn: Expected) -> None:
    with pytest.raises(Deviation) as raised:
        turn.called("cancel_order", a_call("list_orders", status="open"))
    assert '→     missing: list_orders(status="open")' in str(raised.value).splitlines()


def test_an_edited_call_has_the_arguments_it_was_proposed_with_and_those_it_ran_with(
    sayso: Harness,
) -> None:
    script = [step(LOOK, call("get_order", order_id="B1")), step(CANCEL), "Done."]
    turn = sayso.session(script, reviewer=Edits({"order_id": "B1"})).say("Cancel A1")
    turn.called(a_call("cancel_order", order_id="A1"))
    turn.decided(a_call("cancel_order", order_id="B1"), "edited")
    turn.ran(a_call("cancel_order", order_id="B1"), times=1)


def test_a_call_that_cannot_be_judged_is_refused(sayso: Harness) -> None:
    turn = sayso.session([step(BAD), step(call("nonsense")), "Hm."]).say("go")
    turn.became("get_order", "refused").became("nonsense", "refused").asked_nothing().ledger()


def test_what_waits_is_neither_run_nor_decided(sayso: Harness) -> None:
    session = sayso.session([step(LOOK), step(CANCEL), "Done."])
    turn = session.say("Cancel A1")
    turn.ended("waiting").became("cancel_order", "waiting").never_ran("cancel_order").ledger()
    assert session.resume(approves).ran("cancel_order").recorded.answer == "Done."
    assert session.pending() == []


def test_only_a_state_of_the_ledger_can_be_counted(turn: Expected) -> None:
    with pytest.raises(TypeError, match="done is no state of the ledger"):
        turn.ledger(done=1)


def test_figures_are_counted_and_fail_nothing(turn: Expected) -> None:
    figures = turn.recorded.figures
    assert (figures.steps, figures.calls, figures.writes, figures.asked) == (4, 5, 1, 2)
    assert figures.tokens == (40, 20)


def test_a_turn_is_looked_at_alone_and_all_of_them_together(sayso: Harness) -> None:
    session = sayso.session([step(LOOK), "One.", "Two."])
    session.say("first").called("get_order")
    session.say("second").never_called().said("two")
    session.so_far.called_exactly("get_order").said("two")


def test_the_world_can_be_looked_at_from_outside(sayso: Harness) -> None:
    session = sayso.session([step(LOOK), step(CANCEL), "Done."], reviewer=approves)
    assert session.look("get_order", order_id="A1")["status"] == "pending"
    session.say("Cancel A1").ran("cancel_order")
    assert session.look("get_order", order_id="A1")["status"] == "cancelled"
    with pytest.raises(LookupError, match="there is no tool nonsense"):
        session.look("nonsense")
    session.so_far.called_exactly("get_order", "cancel_order")  # looking is no call of the session


def test_a_script_and_a_model_exclude_each_other(sayso: Harness) -> None:
    with pytest.raises(TypeError, match="one of both"):
        sayso.session(["Hm."], model="offline")


def test_a_session_that_moved_on_is_replayed_as_a_test(sayso: Harness) -> None:
    edited = call("cancel_order", order_id="A4", expected_revision=1)
    script = [
        step(LOOK, call("get_order", order_id="A4")),
        step(CANCEL),
        'Very "well".',
        step("Now:", edited),
        "Bye.",
    ]
    session = sayso.session(script)
    session.say("Cancel\nA1").ended("waiting")
    session.say("Never mind \u202e", approves, supersede=True)
    session.say("And A4?", Edits({"order_id": "A4"}))
    session.so_far.became("cancel_order", "left")
    text = as_test(session.so_far.recorded, ["orders"])
    assert 'session.say("And A4?")' in text
    names: dict[str, Any] = {}
    exec(text, names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test(sayso)
    assert sayso.sessions[-1].so_far.recorded.figures == session.so_far.recorded.figures


def test_each_session_has_a_world_of_its_own(sayso: Harness) -> None:
    sayso.session([step(LOOK), step(CANCEL), "Done."], reviewer=approves).say("go").ran(
        "cancel_order"
    )
    sayso.session([step(LOOK), step(CANCEL), "Done."], reviewer=approves).say("go").ran(
        "cancel_order"
    )
