"""Simulated reviewers answer as they are told, from what an approval shows alone."""

from __future__ import annotations

from typing import Any

import pytest

from agent.evals.reviewers import (
    Answers,
    ByTool,
    Edits,
    InOrder,
    Rejects,
    Reviewer,
    Settles,
    When,
    approves,
    stays_silent,
)
from agent.store.records import ApprovalRecord
from agent.types import Decision


def approval(kind: Any = "write", tool: str = "act", **args: Any) -> ApprovalRecord:
    return ApprovalRecord(
        id="a-1", kind=kind, session="s-1", turn=1, message="m", call="c", tool=tool,
        args=args or {"n": 1, "m": 2}, digest="d",
    )  # fmt: skip


HAPPENED = Decision("respond", message="happened")
NOT_HAPPENED = Decision("respond", message="not happened")


@pytest.mark.parametrize(
    ("reviewer", "to_write", "to_doubt"),
    [
        (approves, Decision("approve"), None),
        (stays_silent, None, None),
        (Rejects("no"), Decision("reject", message="no"), None),
        (Rejects(), Decision("reject"), None),
        (Settles(happened=True), Decision("approve"), HAPPENED),
        (Settles(happened=False), Decision("approve"), NOT_HAPPENED),
        (Settles(True, other=stays_silent), None, HAPPENED),
        (ByTool({"act": Rejects("no")}), Decision("reject", message="no"), None),
        (ByTool({"other": approves}), None, None),
        (ByTool({}), None, None),
        (When(lambda a: a.args["n"] == 1, approves, stays_silent), Decision("approve"), None),
        (When(lambda a: a.args["n"] == 2, stays_silent, Rejects()), Decision("reject"), None),
        (When(lambda a: False, stays_silent), Decision("approve"), None),
        (InOrder([]), None, None),
    ],
)
def test_what_each_says(
    reviewer: Reviewer, to_write: Decision | None, to_doubt: Decision | None
) -> None:
    assert reviewer(approval()) == to_write
    assert reviewer(approval(kind="in_doubt")) == to_doubt


@pytest.mark.parametrize(
    ("reviewer", "answer"),
    [
        (Edits({"n": 7}), Decision("edit", args={"n": 7, "m": 2})),
        (Edits({}), Decision("edit", args={"n": 1, "m": 2})),
        (Answers("so"), Decision("respond", message="so")),
    ],
)
def test_what_is_said_in_place_of_a_call(reviewer: Reviewer, answer: Decision) -> None:
    assert reviewer(approval()) == answer


def test_an_edit_leaves_what_was_proposed_as_it_was() -> None:
    shown = approval()
    Edits({"n": 7})(shown)
    assert shown.args == {"n": 1, "m": 2}


def test_prepared_answers_are_given_once_each() -> None:
    answers = [Decision("approve"), None, Decision("reject")]
    reviewer = InOrder(answers)
    assert [reviewer(approval()) for _ in range(5)] == [*answers, None, None]
    assert len(answers) == 3
