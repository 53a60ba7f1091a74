"""Answers are checked against the tool and recorded all or none; nothing here runs anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from agent.canonical import call_digest
from agent.errors import AlreadyDecided, ApprovalExpired, InvalidDecision, NotFound
from agent.inbox import decide
from agent.store import Store
from agent.store.records import ApprovalRecord
from agent.types import Actor, Decision
from tools.contract import Contract, make_tool

ANA = Actor("ana", 1000, "here", "cli")


class Amount(BaseModel):
    model_config = ConfigDict(extra="forbid")

    cents: int
    currency: str = "EUR"

    @field_validator("currency")
    @classmethod
    def _known(cls, value: str) -> str:
        if value.upper() not in ("EUR", "USD"):
            raise ValueError("EUR or USD")
        return value.upper()


def pay(cents: int, currency: str) -> str:
    """Pay."""
    raise AssertionError("deciding runs nothing")


TOOL = make_tool(pay, args=Amount, contract=Contract())


def find(name: str) -> Any:
    return TOOL if name == "pay" else None


def never(name: str) -> Any:
    raise AssertionError("only an edit needs the tool")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path}/sayso.db")
    yield opened
    opened.close()


Ask = Callable[..., ApprovalRecord]


@pytest.fixture
def ask(store: Store) -> Ask:
    """Puts a payment of ten cents, or something like it, to a person."""
    session = store.sessions.create(
        model="m", tools=[], workspace=None, granted=[], denied=[], actor=ANA
    ).id

    def asked(call: str = "c", **changes: Any) -> ApprovalRecord:
        args = {"cents": 10, "currency": "EUR"}
        fields: dict[str, Any] = {
            "session": session, "turn": 1, "message": "m", "call": call, "kind": "write",
            "interrupt": None, "tool": "pay", "tool_version": "1", "args": args,
            "effects": [], "rule": "", "reason": "",
            "notes": [], "preview": None, "provenance": None, "undo": None,
        } | changes  # fmt: skip
        digest = call_digest(fields["tool"], fields["args"])
        return store.approvals.ask(**{"digest": digest} | fields)

    return asked


def test_an_approval_binds_the_digest_of_what_was_asked(store: Store, ask: Ask) -> None:
    asked = ask()
    (row,) = decide(store, [(asked.id, Decision("approve"))], ANA, never)
    assert (row.status, row.decided_digest, row.decided_args) == ("approved", asked.digest, None)
    assert (row.decided_by, row.decided_uid, row.decided_host, row.decided_via) == (
        "ana", 1000, "here", "cli",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("decision", "status"),
    [
        (Decision("reject", message="no"), "rejected"),
        (Decision("respond", message="x"), "answered"),
    ],
)
def test_what_does_not_run_binds_nothing(
    store: Store, ask: Ask, decision: Decision, status: str
) -> None:
    (row,) = decide(store, [(ask().id, decision)], ANA, never)
    assert (row.status, row.decided_digest, row.comment) == (status, None, decision.message)


def test_an_edit_is_stored_as_it_will_run_under_the_digest_of_that(store: Store, ask: Ask) -> None:
    edited = Decision("edit", args={"cents": "20", "currency": "usd"})
    (row,) = decide(store, [(ask().id, edited)], ANA, find)
    runs = {"cents": 20, "currency": "USD"}
    assert (row.status, row.decided_args) == ("edited", runs)
    assert row.decided_digest == call_digest("pay", runs)
    assert row.args == {"cents": 10, "currency": "EUR"}


def test_an_edit_may_leave_out_what_has_a_default(store: Store, ask: Ask) -> None:
    (row,) = decide(store, [(ask().id, Decision("edit", args={"cents": 5}))], ANA, find)
    assert row.decided_args == {"cents": 5, "currency": "EUR"}


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"cents": "ten"}, "cents: .*got 'ten'"),
        ({}, "cents: missing"),
        ({"cents": 1, "tip": 1}, "tip: the tool has no such argument"),
        ({"cents": 1, "currency": "DEM"}, "EUR or USD"),
        (None, "needs the whole new arguments"),
        ([("cents", 1)], "needs the whole new arguments"),
        ({1: 1}, "needs the whole new arguments"),
    ],
)
def test_an_edit_that_does_not_fit_is_told_and_decides_nothing(
    store: Store, ask: Ask, args: Any, said: str
) -> None:
    asked = ask()
    with pytest.raises(InvalidDecision, match=rf"(?s){said}.*Nothing was decided"):
        decide(store, [(asked.id, Decision("edit", args=args))], ANA, find)
    assert store.approvals.get(asked.id) == asked


def test_an_edit_of_a_tool_that_is_not_here_cannot_be_checked(store: Store, ask: Ask) -> None:
    asked = ask(tool="elsewhere")
    with pytest.raises(InvalidDecision, match="elsewhere is not available here"):
        decide(store, [(asked.id, Decision("edit", args={"cents": 1}))], ANA, find)
    assert decide(store, [(asked.id, Decision("approve"))], ANA, find)[0].status == "approved"


@pytest.mark.parametrize("kind", ["in_doubt", "elicitation"])
def test_a_question_has_no_arguments_to_edit(store: Store, ask: Ask, kind: str) -> None:
    asked = ask(kind=kind)
    with pytest.raises(InvalidDecision, match="is a question"):
        decide(store, [(asked.id, Decision("edit", args={"cents": 1}))], ANA, find)
    assert store.approvals.get(asked.id) == asked


def test_only_the_whole_id_will_do(store: Store, ask: Ask) -> None:
    asked = ask()
    with pytest.raises(NotFound, match=asked.id):
        decide(store, [(asked.id[:-1], Decision("approve"))], ANA, never)
    assert store.approvals.get(asked.id) == asked


def test_who_comes_second_is_told_who_was_first_before_anything_else(
    store: Store, ask: Ask
) -> None:
    asked = ask()
    decide(store, [(asked.id, Decision("approve"))], ANA, never)
    with pytest.raises(AlreadyDecided, match="already approved by ana"):
        decide(store, [(asked.id, Decision("edit", args={"cents": "nonsense"}))], ANA, find)


def test_answers_are_recorded_together_or_not_at_all(store: Store, ask: Ask) -> None:
    one, two = ask("1"), ask("2")
    good = (one.id, Decision("approve"))
    for bad, error in (
        ((two.id, Decision("edit", args={"cents": "x"})), InvalidDecision),
        ((two.id, Decision("respond")), InvalidDecision),
        (("a-nobody", Decision("approve")), NotFound),
        ((one.id, Decision("reject")), InvalidDecision),
    ):
        with pytest.raises(error):
            decide(store, [good, bad], ANA, find)
        assert store.approvals.list() == [one, two]
    rows = decide(store, [good, (two.id, Decision("reject"))], ANA, find)
    assert [row.status for row in rows] == ["approved", "rejected"]


@pytest.mark.parametrize("noticed", [False, True])
def test_an_answer_after_the_time_is_told_how_to_ask_again(
    store: Store, ask: Ask, noticed: bool
) -> None:
    late, other = ask(hours=1e-12), ask("2")
    if noticed:
        assert [row.id for row in store.approvals.expire_due()] == [late.id]
    with pytest.raises(ApprovalExpired, match=f"sayso resume {late.session} --ask-again"):
        decide(store, [(other.id, Decision("approve")), (late.id, Decision("approve"))], ANA, never)
    assert store.approvals.get(late.id).status == "expired"
    assert store.approvals.list() == [other]


def test_a_servers_question_that_is_over_is_not_asked_again(store: Store, ask: Ask) -> None:
    """The call that raised it has ended: there is nothing to resume."""
    asked = ask(kind="elicitation")
    store.approvals.expire(asked.id, "the call that asked is over")
    with pytest.raises(AlreadyDecided, match="already expired") as told:
        decide(store, [(asked.id, Decision("respond", message="x"))], ANA, never)
    assert not isinstance(told.value, ApprovalExpired)


def test_no_answers_are_no_error(store: Store) -> None:
    assert decide(store, [], ANA, never) == []
