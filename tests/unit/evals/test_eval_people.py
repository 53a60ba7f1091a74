"""Simulated reviewers as people are, and simulated users, in real sessions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.evals.harness import Harness, Sitting, harness
from agent.evals.reviewers import (
    PAYLOADS,
    Answers,
    Both,
    ByPolicy,
    Contradicting,
    Edits,
    Malicious,
    Rejects,
    Reviewer,
    Slow,
    Tired,
    approves,
    stays_silent,
)
from agent.evals.users import Scripted, WithGoal
from agent.models.scripted import Step, call, step
from agent.policy import read_policy
from agent.store.records import ApprovalRecord

WAITING = ApprovalRecord(
    id="a-1", kind="write", session="s-1", turn=1, message="m", call="c", tool="act",
    args={"n": 1}, digest="d",
)  # fmt: skip
LOOK = step(call("get_order", order_id="A1"), call("get_order", order_id="A4"))
CANCEL_A1 = step(call("cancel_order", order_id="A1", expected_revision=1))
CANCEL_A4 = step(call("cancel_order", order_id="A4", expected_revision=1))


@pytest.fixture
def sayso(tmp_path: Path) -> Iterator[Harness]:
    with harness(tmp_path) as made:
        yield made


def sitting(sayso: Harness, reviewer: Reviewer, *steps: Step) -> Sitting:
    return sayso.session([LOOK, *steps, "Well."], reviewer=reviewer)


POLICY = """
version: 1
rules:
  - name: only the first order
    tools: [cancel_order]
    when: args.order_id != "A1"
    verdict: deny
    reason: the others are not ours
  - name: ours
    tools: [cancel_order]
    when: args.order_id == "A1"
    verdict: allow
"""


def test_by_a_policy(sayso: Harness) -> None:
    reviewer = ByPolicy(read_policy(POLICY))
    turn = sitting(sayso, reviewer, CANCEL_A1, CANCEL_A4).say("go")
    turn.decided("cancel_order", "approved").decided(
        "cancel_order",
        "rejected",
        comment="project/only the first order: the others are not ours",
    )


def test_by_a_policy_that_asks_it_is_left_to_another(sayso: Harness) -> None:
    silent = ByPolicy(read_policy("version: 1\nrules: []"))
    sitting(sayso, silent, CANCEL_A1).say("go").ended("waiting")
    rejects = ByPolicy(read_policy("version: 1\nrules: []"), Rejects("no"))
    sitting(sayso, rejects, CANCEL_A1).say("go").became("cancel_order", "rejected")


def test_slow_answers_when_it_is_shown_again(sayso: Harness) -> None:
    session = sitting(sayso, Slow(approves, silences=2), CANCEL_A1)
    session.say("go").ended("waiting")
    session.resume().ended("waiting")
    session.resume().ended("done").ran("cancel_order")


def test_absent_until_it_expires(sayso: Harness) -> None:
    session = sayso.session([LOOK, CANCEL_A1, "Well."], approval_hours=1e-9)
    session.say("go").ended("waiting")
    session.resume().became("cancel_order", "expired").never_ran("cancel_order").ledger()


def test_contradicting_is_about_the_same_call_proposed_again(sayso: Harness) -> None:
    reviewer = Contradicting(Rejects("no"), approves)
    turn = sitting(sayso, reviewer, CANCEL_A1, CANCEL_A4, CANCEL_A1).say("go")
    assert [call.became for call in turn.recorded.calls[2:]] == ["rejected", "rejected", "ran"]


@pytest.mark.parametrize(
    ("one", "other", "became"),
    [
        (approves, approves, "ran"),
        (approves, Rejects("no"), "rejected"),
        (Rejects("no"), Answers("later"), "rejected"),
        (Answers("later"), approves, "answered"),
        (approves, stays_silent, "waiting"),
        (stays_silent, Rejects("no"), "waiting"),
    ],
)
def test_of_two_the_more_careful_counts(
    sayso: Harness, one: Reviewer, other: Reviewer, became: str
) -> None:
    turn = sitting(sayso, Both(one, other), CANCEL_A1).say("go")
    turn.became("cancel_order", became)  # type: ignore[arg-type]
    turn = sitting(sayso, Both(other, one), CANCEL_A1).say("go")
    turn.became("cancel_order", became)  # type: ignore[arg-type]


def test_an_edit_counts_before_an_approval(sayso: Harness) -> None:
    both = Both(approves, Edits({"order_id": "A4"}))
    sitting(sayso, both, CANCEL_A1).say("go").decided("cancel_order", "edited")


def test_tired_looks_at_the_first_and_at_none_after_his_patience() -> None:
    answers = []
    for seed in range(200):
        tired = Tired(stays_silent, patience=4, seed=seed)
        answers.append([tired(WAITING) is not None for _ in range(6)])
    unseen = [sum(of) for of in zip(*answers, strict=True)]
    assert unseen[0] == 0
    assert unseen[4:] == [200, 200]
    assert 0 < unseen[1] < unseen[2] < unseen[3] < 200
    again = Tired(stays_silent, patience=4, seed=7)
    assert [again(WAITING) is not None for _ in range(6)] == answers[7]


@pytest.mark.parametrize("number", range(len(PAYLOADS)))
@pytest.mark.parametrize("answers", [False, True])
def test_a_malicious_answer_breaks_nothing_and_runs_nothing(
    sayso: Harness, number: int, answers: bool
) -> None:
    reviewer = Malicious([PAYLOADS[number]], given=int(answers))
    turn = sitting(sayso, reviewer, CANCEL_A1).say("go")
    turn.became("cancel_order", "answered" if answers else "rejected").ended("done")
    turn.never_ran("cancel_order").ledger().trail_holds()
    assert turn.recorded.calls[-1].result


# --- users -----------------------------------------------------------------------------------


def test_a_scripted_user_says_all_of_it(sayso: Harness) -> None:
    talked = sayso.session(["One.", "Two."]).talk(Scripted(["a", "b"]))
    assert [turn.said for turn in talked.recorded.turns] == ["a", "b"]


def test_a_user_with_a_goal_tells_a_fact_only_when_asked(sayso: Harness) -> None:
    user = WithGoal(
        "Cancel my order.", {"number order": "It is A1.", "why": "I need it no longer."}
    )
    script = ["Which order is it?", "Fine. What is your shoe size?", LOOK, CANCEL_A1, "Cancelled."]
    session = sayso.session(script, reviewer=approves)
    talked = session.talk(user)
    assert [t.said for t in talked.recorded.turns] == [
        "Cancel my order.",
        "It is A1.",
        "I do not know.",
    ]
    assert user.told == ["It is A1."]
    talked.ran("cancel_order").ended("done")


def test_a_user_does_not_tell_the_same_fact_twice() -> None:
    user = WithGoal("Go.", {"city": "Bergen."})
    assert [user(None), user("Which city?"), user("Which city?")] == [
        "Go.",
        "Bergen.",
        "I do not know.",
    ]
    assert user("In which velocity?") == "I do not know."
    assert user("Done.") is None


def test_a_conversation_ends_where_a_write_waits(sayso: Harness) -> None:
    session = sitting(sayso, stays_silent, CANCEL_A1)
    talked = session.talk(Scripted(["go", "never said"]))
    talked.ended("waiting")
    assert len(talked.recorded.turns) == 1


def test_one_that_does_not_end_is_stopped(sayso: Harness) -> None:
    session = sayso.session([*["Which?"] * 3])
    with pytest.raises(AssertionError, match="no end after 3 turns"):
        session.talk(WithGoal("Go."), most_turns=3)
