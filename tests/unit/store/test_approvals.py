"""Approvals: asked once, decided once, and never by an answer that does not fit."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from agent.errors import (
    AlreadyDecided,
    ApprovalExpired,
    DecisionError,
    InvalidDecision,
    LeaseLost,
    NotFound,
    UsageError,
)
from agent.store import Store
from agent.store.records import ApprovalRecord, LeaseRecord
from agent.store.schema import approvals
from agent.types import Decision
from tests.unit.store.databases import ANN, BOB, DIGEST, ask, kinds, new_session, write_of

APPROVE = Decision("approve")


def test_asking_again_while_pending_renews_only_the_interrupt(store: Store, session: str) -> None:
    first = ask(store, session)
    again = ask(store, session, interrupt="i2", args={"order_id": "B1"}, reason="other")
    assert again == first.model_copy(update={"interrupt": "i2"})
    assert store.approvals.get(first.id) == again
    assert kinds(store, session).count("approval.asked") == 1


def test_asking_again_after_a_decision_returns_it(store: Store, session: str) -> None:
    decided = store.approvals.decide(ask(store, session).id, Decision("reject", message="no"), ANN)
    assert ask(store, session, interrupt="i2") == decided
    assert decided.interrupt == "i1"


def test_one_call_has_one_approval_of_each_kind(store: Store, session: str) -> None:
    write, doubt = ask(store, session), ask(store, session, kind="in_doubt")
    other_message = ask(store, session, message="m2")
    assert len({write.id, doubt.id, other_message.id}) == 3
    assert store.approvals.for_call(session, "m1", "c1") == write
    assert store.approvals.for_call(session, "m1", "c1", kind="in_doubt") == doubt
    assert store.approvals.for_call(session, "m1", "c9") is None


def test_a_write_is_not_put_to_a_person_under_the_digest_of_other_arguments(
    store: Store, session: str
) -> None:
    with pytest.raises(ValueError, match="other arguments"):
        ask(store, session, args={"order_id": "B1"}, digest=DIGEST)
    assert store.approvals.list() == []


def test_nothing_is_asked_in_a_session_that_is_not_there(store: Store) -> None:
    with pytest.raises(NotFound):
        ask(store, "s-nope")


@pytest.mark.parametrize(
    ("decision", "digest", "status", "decided_digest"),
    [
        (Decision("approve"), None, "approved", DIGEST),
        (Decision("approve"), DIGEST, "approved", DIGEST),
        (Decision("edit", args={"order_id": "B1"}), "d2", "edited", "d2"),
        (Decision("reject", message="wrong order"), None, "rejected", None),
        (Decision("respond", message="ask them first"), None, "answered", None),
    ],
)
def test_a_decision_is_kept_with_who_made_it(
    store: Store,
    session: str,
    decision: Decision,
    digest: str | None,
    status: str,
    decided_digest: str | None,
) -> None:
    asked = ask(store, session)
    decided = store.approvals.decide(asked.id, decision, BOB, digest=digest)
    assert store.approvals.get(asked.id) == decided
    assert (decided.status, decided.decided_digest) == (status, decided_digest)
    assert (decided.decided_args, decided.comment) == (decision.args, decision.message or None)
    assert (decided.decided_by, decided.decided_uid, decided.decided_host) == ("bob", 1001, "box")
    assert decided.decided_via == "test"
    assert (decided.args, decided.digest) == (asked.args, asked.digest)
    entry = store.trail.entries(session)[-1]
    assert entry.kind == "approval.decided"
    assert entry.data["args"] == asked.args
    assert entry.data["decided_args"] == decision.args
    assert entry.data["status"] == status
    assert entry.data["comment"] == (decision.message or None)
    assert entry.data["by"] == {"name": "bob", "uid": 1001, "host": "box", "via": "test"}


INVALID: list[tuple[str, Any, str | None]] = [
    ("write", Decision("aprove"), None),  # type: ignore[arg-type]
    ("write", "approve", None),
    ("write", None, None),
    ("write", Decision("edit"), "d2"),
    ("write", Decision("edit", args={"order_id": "B1"}), None),
    ("write", Decision("edit", args=["B1"]), "d2"),  # type: ignore[arg-type]
    ("write", Decision("edit", args={"amount": float("nan")}), "d2"),
    ("write", Decision("approve", args={"order_id": "B1"}), None),
    ("write", Decision("approve"), "d2"),
    ("write", Decision("respond"), None),
    ("write", Decision("reject", message=7), None),  # type: ignore[arg-type]
    ("in_doubt", Decision("approve"), None),
    ("in_doubt", Decision("reject", message="not happened"), None),
    ("in_doubt", Decision("edit", args={}), "d2"),
    ("in_doubt", Decision("respond", message="maybe"), None),
    ("in_doubt", Decision("respond", message="Happened"), None),
    ("in_doubt", Decision("respond", message="happened"), None),  # nothing in the ledger
    ("elicitation", Decision("approve"), None),
]


@pytest.mark.parametrize(("kind", "decision", "digest"), INVALID)
def test_an_answer_that_does_not_fit_changes_nothing(
    store: Store, session: str, kind: str, decision: Any, digest: str | None
) -> None:
    asked = ask(store, session, kind=kind)
    heads = store.trail.heads()
    with pytest.raises(InvalidDecision, match=r"[Nn]othing (was )?changed"):
        store.approvals.decide(asked.id, decision, ANN, digest=digest)
    assert store.approvals.get(asked.id) == asked
    assert store.trail.heads() == heads


def test_the_second_answer_is_told_who_was_first(store: Store, session: str) -> None:
    asked = ask(store, session)
    first = store.approvals.decide(asked.id, Decision("reject", message="no"), BOB)
    with pytest.raises(AlreadyDecided) as second:
        store.approvals.decide(asked.id, APPROVE, ANN)
    assert (second.value.status, second.value.by) == ("rejected", "bob")
    assert second.value.at == first.decided_at
    assert store.approvals.get(asked.id) == first


def test_decisions_take_whole_ids_and_lookups_take_prefixes(store: Store, session: str) -> None:
    asked = ask(store, session)
    prefix = asked.id[:-1]
    assert store.approvals.get(prefix) == asked
    with pytest.raises(NotFound) as missing:
        store.approvals.get(prefix, whole=True)
    assert missing.value.tried == (asked.id,)
    for wrong in (prefix, "a-", "", "a-zzzzzz", "%"):
        with pytest.raises(NotFound):
            store.approvals.decide(wrong, APPROVE, ANN)
    ask(store, session, call="c2")
    with pytest.raises(UsageError, match=asked.id):
        store.approvals.get("a-")
    assert store.approvals.get(asked.id).status == "pending"


def test_several_decisions_are_recorded_together(store: Store) -> None:
    one, two = ask(store, new_session(store).id), ask(store, new_session(store).id)
    decided = store.approvals.decide_many(
        [(two.id, APPROVE, None), (one.id, Decision("reject", message="no"), None)], ANN
    )
    assert [(each.id, each.status) for each in decided] == [
        (two.id, "approved"),
        (one.id, "rejected"),
    ]
    assert store.trail.verify() == []


@pytest.mark.parametrize("wrong", ["unknown", "decided", "malformed", "misfit", "twice"])
def test_of_several_decisions_all_or_none_are_recorded(
    store: Store, session: str, wrong: str
) -> None:
    good, other = ask(store, session), ask(store, session, call="c2")
    doubt = ask(store, session, call="c3", kind="in_doubt")
    answers: dict[str, tuple[str, Decision, str | None]] = {
        "unknown": ("a-zzzzzz", APPROVE, None),
        "decided": (other.id, APPROVE, None),
        "malformed": (other.id, Decision("edit"), None),
        "misfit": (doubt.id, APPROVE, None),
        "twice": (good.id, APPROVE, None),
    }
    if wrong == "decided":
        store.approvals.decide(other.id, APPROVE, BOB)
    heads = store.trail.heads()
    with pytest.raises((DecisionError, NotFound)):
        store.approvals.decide_many([(good.id, APPROVE, None), answers[wrong]], ANN)
    assert store.approvals.get(good.id).status == "pending"
    assert store.trail.heads() == heads


def test_superseding_closes_what_waits_but_not_a_doubt(store: Store, session: str) -> None:
    one, two = ask(store, session), ask(store, session, call="c2")
    done = store.approvals.decide(ask(store, session, call="c3").id, APPROVE, BOB)
    doubt = ask(store, session, call="c4", kind="in_doubt")
    foreign = ask(store, new_session(store).id)
    closed = store.approvals.supersede(session, ANN, "a new message came")
    assert [(each.id, each.status) for each in closed] == [
        (one.id, "superseded"),
        (two.id, "superseded"),
    ]
    assert closed[0].comment == "a new message came"
    assert store.approvals.get(done.id) == done
    assert {each.id for each in store.approvals.list()} == {doubt.id, foreign.id}
    assert kinds(store, session)[-2:] == ["approval.superseded"] * 2
    with pytest.raises(AlreadyDecided, match="superseded by ann"):
        store.approvals.decide(one.id, APPROVE, BOB)


def test_lists_filter_and_page(store: Store, session: str) -> None:
    asked = [ask(store, session, call=f"c{n}") for n in range(4)]
    elicited = ask(store, session, call="c9", kind="elicitation")
    foreign = ask(store, new_session(store).id)
    ids = [one.id for one in asked]
    store.approvals.decide(ids[1], APPROVE, ANN)
    waiting = [ids[0], ids[2], ids[3], elicited.id, foreign.id]
    assert [one.id for one in store.approvals.list()] == waiting
    assert [one.id for one in store.approvals.list(limit=2, offset=1)] == waiting[1:3]
    assert [one.id for one in store.approvals.list(session=foreign.session)] == [foreign.id]
    assert [one.id for one in store.approvals.list(kind="elicitation")] == [elicited.id]
    assert [one.id for one in store.approvals.list("approved")] == [ids[1]]
    newest_first = [foreign.id, elicited.id, *reversed(ids)]
    assert [one.id for one in store.approvals.list(None)] == newest_first


def test_answering_a_doubt_settles_the_ledger(store: Store, lease: LeaseRecord) -> None:
    session = lease.session
    begun = store.ledger.begin(**write_of(lease))
    store.ledger.finish(begun.effect.id, attempt=1, state="in_doubt", result=None)
    doubt = ask(store, session, kind="in_doubt")
    answered = store.approvals.decide(doubt.id, Decision("respond", message="happened"), BOB)
    assert (answered.status, answered.comment) == ("answered", "happened")
    effect = store.ledger.get(begun.effect.id)
    assert (effect.state, effect.settled) == ("committed", "happened")
    assert kinds(store, session)[-2:] == ["effect.settled", "approval.decided"]


def test_the_doubt_of_another_attempt_is_asked_anew(store: Store, lease: LeaseRecord) -> None:
    session = lease.session
    begun = store.ledger.begin(**write_of(lease))
    for attempt in (1, 2):
        assert store.ledger.begin(**write_of(lease)).outcome == "in_doubt"
        doubt = ask(store, session, kind="in_doubt")
        assert (doubt.status, doubt.attempt) == ("pending", attempt)
        assert ask(store, session, kind="in_doubt") == doubt
        assert store.approvals.for_call(session, "m1", "c1", "in_doubt") == doubt
        store.approvals.decide(doubt.id, Decision("respond", message="not happened"), ANN)
        again = store.ledger.begin(**write_of(lease))
        assert (again.outcome, again.effect.attempts) == ("run", attempt + 1)
        assert again.effect.id == begun.effect.id


def test_the_notes_of_a_doubt_are_renewed_while_it_waits(store: Store, lease: LeaseRecord) -> None:
    session = lease.session
    store.ledger.begin(**write_of(lease))
    store.ledger.begin(**write_of(lease))
    first = ask(store, session, kind="in_doubt", notes=["the desk is closed"])
    later = ask(store, session, kind="in_doubt", notes=["the desk has nothing"])
    assert later == first.model_copy(update={"notes": ["the desk has nothing"]})
    assert store.approvals.get(first.id) == later
    answered = store.approvals.decide(first.id, Decision("respond", message="happened"), ANN)
    assert ask(store, session, kind="in_doubt", notes=["too late"]) == answered


# --- time, and what does not hold any more ----------------------------------------------------

LONG_AGO = "2020-01-01T00:00:00.000000Z"


def overdue(store: Store, asked: ApprovalRecord) -> ApprovalRecord:
    """Its time was over long ago."""
    with store.approvals._db.write() as writing:
        change = update(approvals).where(approvals.c.id == asked.id)
        writing.conn.execute(change.values(expires_at=LONG_AGO))
    return asked.model_copy(update={"expires_at": LONG_AGO})


def test_a_question_says_until_when_it_may_be_answered(store: Store, session: str) -> None:
    for_ever = ask(store, session)
    for_an_hour = ask(store, session, call="c2", hours=1)
    assert for_ever.expires_at is None
    assert for_an_hour.expires_at is not None
    assert for_an_hour.asked_at < for_an_hour.expires_at
    assert store.trail.entries(session)[-1].data["expires_at"] == for_an_hour.expires_at
    assert store.approvals.expire_due() == []
    assert store.approvals.decide(for_an_hour.id, APPROVE, ANN).status == "approved"


def test_an_answer_after_the_time_is_refused_and_closes_the_question(
    store: Store, session: str
) -> None:
    late = overdue(store, ask(store, session, hours=1))
    other = ask(store, session, call="c2")
    with pytest.raises(ApprovalExpired) as refused:
        store.approvals.decide_many([(other.id, APPROVE, None), (late.id, APPROVE, None)], ANN)
    assert (refused.value.approval, refused.value.status) == (late.id, "expired")
    assert (refused.value.at, refused.value.by) == (LONG_AGO, "")
    assert store.approvals.list() == [other]
    expired = store.approvals.get(late.id)
    assert (expired.status, expired.decided_by, expired.decided_digest) == ("expired", None, None)
    assert expired.comment == "nobody decided in time"
    with pytest.raises(ApprovalExpired):
        store.approvals.decide(late.id, APPROVE, ANN)
    assert kinds(store, session).count("approval.decided") == 1


def test_what_is_due_is_closed_once_in_every_session(store: Store, session: str) -> None:
    late = [
        overdue(store, ask(store, session, hours=1)),
        overdue(store, ask(store, new_session(store).id, hours=1)),
    ]
    decided = store.approvals.decide(ask(store, session, call="c2", hours=1).id, APPROVE, ANN)
    overdue(store, decided)
    waiting = ask(store, session, call="c3", hours=1)
    expired = store.approvals.expire_due()
    assert sorted(one.id for one in expired) == sorted(one.id for one in late)
    assert {one.status for one in expired} == {"expired"}
    assert store.approvals.expire_due() == []
    assert store.approvals.list() == [waiting]
    assert store.approvals.get(decided.id).status == "approved"


def test_what_expired_is_asked_again_as_it_was(store: Store, lease: LeaseRecord) -> None:
    late = overdue(store, ask(store, lease.session, hours=1, undoes="e-1"))
    store.approvals.expire_due()
    again = store.approvals.ask_again(
        late.id, epoch=lease.epoch, reason="again", preview={"summary": "new"}, hours=2
    )
    assert (again.status, again.attempt, again.interrupt) == ("pending", 2, None)
    assert (again.reason, again.preview) == ("again", {"summary": "new"})
    assert again.expires_at is not None
    assert again.expires_at > again.asked_at >= late.asked_at
    same = ("session", "turn", "message", "call", "kind", "tool", "tool_version", "args", "digest",
            "effects", "rule", "notes", "provenance", "undo", "undoes")  # fmt: skip
    assert again.model_dump(include=set(same)) == late.model_dump(include=set(same))
    assert store.approvals.for_call(lease.session, "m1", "c1") == again
    assert store.approvals.get(late.id).status == "expired"
    entry = store.trail.entries(lease.session)[-1]
    assert (entry.kind, entry.data["attempt"], entry.data["undoes"]) == ("approval.asked", 2, "e-1")
    renewed = ask(store, lease.session, interrupt="i9")
    assert renewed == again.model_copy(update={"interrupt": "i9"})


def test_asked_again_twice_it_is_one_question(store: Store, lease: LeaseRecord) -> None:
    first = store.approvals.decide(ask(store, lease.session).id, APPROVE, ANN)
    fields: dict[str, Any] = {"epoch": lease.epoch, "reason": "changed", "preview": None}
    again = store.approvals.ask_again(first.id, **fields)
    assert store.approvals.ask_again(first.id, **fields) == again
    assert again.expires_at is None
    assert len(store.approvals.list(None)) == 2


def test_an_approval_that_is_void_keeps_who_had_given_it(store: Store, lease: LeaseRecord) -> None:
    approved = store.approvals.decide(ask(store, lease.session).id, APPROVE, BOB)
    store.approvals.ask_again(approved.id, epoch=lease.epoch, reason="changed", preview=None)
    void = store.approvals.get(approved.id)
    assert void == approved.model_copy(update={"status": "superseded"})
    assert void.was_void
    entries = store.trail.entries(lease.session)
    assert [entry.kind for entry in entries[-2:]] == ["approval.void", "approval.asked"]
    assert entries[-2].data["decided_by"] == "bob"
    assert entries[-2].data["digest"] == approved.decided_digest
    assert entries[-2].data["reason"] == "changed"
    with pytest.raises(AlreadyDecided):
        store.approvals.decide(approved.id, APPROVE, ANN)


@pytest.mark.parametrize(
    ("decision", "digest"),
    [(None, None), (Decision("reject"), None), (Decision("respond", message="x"), None),
     (Decision("edit", args={"order_id": "B1"}), "d2")],
    ids=["pending", "rejected", "answered", "edited"],
)  # fmt: skip
def test_nothing_else_is_asked_again(
    store: Store, lease: LeaseRecord, decision: Decision | None, digest: str | None
) -> None:
    asked = ask(store, lease.session)
    if decision is not None:
        asked = store.approvals.decide(asked.id, decision, ANN, digest=digest)
    heads = store.trail.heads()
    for epoch, error in ((lease.epoch, InvalidDecision), (lease.epoch + 1, LeaseLost)):
        with pytest.raises(error):
            store.approvals.ask_again(asked.id, epoch=epoch, reason="", preview=None)
    assert store.approvals.get(asked.id) == asked
    assert store.trail.heads() == heads


def test_a_superseded_or_cancelled_question_was_never_given(store: Store, session: str) -> None:
    asked = ask(store, session)
    (closed,) = store.approvals.supersede(session, ANN, "a new message came")
    assert (closed.id, closed.was_void) == (asked.id, False)


@pytest.mark.parametrize("kind", ["approve", "edit"])
def test_what_does_not_run_is_taken_back_without_another_question(
    store: Store, lease: LeaseRecord, kind: Any
) -> None:
    edit = {"args": {"order_id": "B1"}} if kind == "edit" else {}
    digest = "d2" if kind == "edit" else None
    given = store.approvals.decide(
        ask(store, lease.session).id, Decision(kind, **edit), BOB, digest=digest
    )
    with pytest.raises(LeaseLost):
        store.approvals.void(given.id, epoch=lease.epoch + 1, reason="x")
    void = store.approvals.void(given.id, epoch=lease.epoch, reason="it changed")
    assert void == given.model_copy(update={"status": "superseded"})
    assert void.was_void
    assert store.trail.entries(lease.session)[-1].data["digest"] == (digest or DIGEST)
    assert store.approvals.list() == []
    with pytest.raises(AlreadyDecided):
        store.approvals.void(given.id, epoch=lease.epoch, reason="again")
    with pytest.raises(AlreadyDecided):
        store.approvals.void(ask(store, lease.session, call="c2").id, epoch=lease.epoch, reason="")
