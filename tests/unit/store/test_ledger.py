"""The ledger: one row a call, entered at most once an attempt, and never overwritten."""

from __future__ import annotations

from typing import Any

import pytest

from agent.errors import (
    AlreadyDecided,
    AlreadyUndone,
    InvalidDecision,
    LeaseLost,
    NotFound,
    NothingToUndo,
    RuleEnded,
)
from agent.receipt import build_receipt
from agent.store import Owner, Store
from agent.store.records import EffectRecord, LeaseRecord
from tests.unit.store.databases import ANN, BOB, ask, kinds, new_session, write_of
from tools.contract import Finding


def in_doubt(store: Store, lease: LeaseRecord, call: str = "c1") -> EffectRecord:
    store.ledger.begin(**write_of(lease, call))
    begun = store.ledger.begin(**write_of(lease, call))
    assert begun.outcome == "in_doubt"
    return begun.effect


def test_a_new_write_runs_and_is_on_record_before(store: Store, lease: LeaseRecord) -> None:
    begun = store.ledger.begin(**write_of(lease, args={"order_id": "A1", "token": "geheim"}))
    assert begun.outcome == "run"
    assert (begun.effect.state, begun.effect.attempts) == ("intended", 1)
    assert store.ledger.get(begun.effect.id) == begun.effect
    assert store.ledger.for_call(lease.session, "m1", "c1") == begun.effect
    entry = store.trail.entries(lease.session)[-1]
    assert entry.kind == "effect.intended"
    assert entry.data["approval"] == "a-234567"
    assert entry.data["args"] == {"order_id": "A1", "token": "«masked»"}
    assert begun.effect.args["token"] == "geheim"


@pytest.mark.parametrize("state", ["committed", "failed"])
def test_what_is_finished_is_not_run_again(store: Store, lease: LeaseRecord, state: Any) -> None:
    begun = store.ledger.begin(**write_of(lease))
    done = store.ledger.finish(
        begun.effect.id,
        attempt=1,
        state=state,
        result={"text": "ok"},
        transport="200",
        transaction="tx-1",
        evidence={"read": "A1 cancelled"},
    )
    assert store.ledger.get(done.id) == done
    assert (done.state, done.result, done.transport) == (state, {"text": "ok"}, "200")
    assert (done.transaction, done.evidence) == ("tx-1", {"read": "A1 cancelled"})
    assert done.ended_at is not None
    again = store.ledger.begin(**write_of(lease))
    assert (again.outcome, again.effect) == ("recorded", done)
    assert kinds(store, lease.session)[-1] == f"effect.{state}"


def test_an_intention_found_again_is_in_doubt_and_stays_so(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    assert effect.state == "in_doubt"
    assert store.ledger.begin(**write_of(lease)).outcome == "in_doubt"
    assert store.ledger.open_doubts(lease.session) == [effect]
    assert kinds(store, lease.session).count("effect.in_doubt") == 1


def test_other_arguments_under_the_same_call_are_refused(store: Store, lease: LeaseRecord) -> None:
    begun = store.ledger.begin(**write_of(lease))
    refused = store.ledger.begin(**write_of(lease, args={"order_id": "B1"}, digest="d2"))
    assert (refused.outcome, refused.effect) == ("refused", begun.effect)
    assert store.ledger.get(begun.effect.id) == begun.effect
    assert store.trail.entries(lease.session)[-1].data["other_digest"] == "d2"


def test_a_call_id_that_the_provider_used_before_is_another_write(
    store: Store, lease: LeaseRecord
) -> None:
    first = store.ledger.begin(**write_of(lease))
    second = store.ledger.begin(**write_of(lease, message="m2"))
    assert second.outcome == "run"
    assert first.effect.id != second.effect.id


def test_without_the_lease_nothing_is_intended(store: Store, session: str) -> None:
    stale = store.leases.acquire(session, Owner("elsewhere:1:aa"), ttl=-1)
    with pytest.raises(LeaseLost):
        store.ledger.begin(**write_of(stale))
    current = store.leases.acquire(session, Owner("elsewhere:2:bb"), ttl=60)
    with pytest.raises(LeaseLost):
        store.ledger.begin(**write_of(stale))
    with pytest.raises(LeaseLost):
        store.ledger.begin(**write_of(current, lease_margin=120))
    with pytest.raises(LeaseLost):
        store.ledger.begin(**write_of(current, epoch=current.epoch + 1))
    assert store.ledger.list() == []
    assert store.ledger.begin(**write_of(current, lease_margin=30)).outcome == "run"
    store.leases.release(current)
    with pytest.raises(LeaseLost):
        store.ledger.begin(**write_of(current, call="c2"))
    with pytest.raises(NotFound):
        store.ledger.begin(**write_of(current, session="s-nope"))


def test_a_late_result_resolves_a_doubt_and_closes_its_question(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    question = ask(store, lease.session, kind="in_doubt")
    store.leases.release(lease)
    done = store.ledger.finish(effect.id, attempt=1, state="committed", result={"text": "ok"})
    assert (done.state, done.settled) == ("committed", None)
    closed = store.approvals.get(question.id)
    assert (closed.status, closed.comment) == ("superseded", "found out: committed")
    assert store.ledger.open_doubts(lease.session) == []


def test_what_is_final_is_not_overwritten_and_a_late_word_is_kept(
    store: Store, lease: LeaseRecord
) -> None:
    begun = store.ledger.begin(**write_of(lease))
    done = store.ledger.finish(begun.effect.id, attempt=1, state="committed", result={"a": 1})
    length = len(store.trail.entries(lease.session))
    same = store.ledger.finish(begun.effect.id, attempt=1, state="committed", result={"a": 1})
    assert (same, len(store.trail.entries(lease.session))) == (done, length)
    other = store.ledger.finish(begun.effect.id, attempt=1, state="failed", result=None)
    assert other == done == store.ledger.get(done.id)
    late = store.trail.entries(lease.session)[-1]
    assert (late.kind, late.data["state"], late.data["attempt"]) == ("effect.late", "failed", 1)


def test_that_it_happened_counts_against_whoever_had_said_that_it_did_not(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    settled = store.ledger.settle(effect.id, False, BOB)
    for state in ("in_doubt", "failed"):
        said = store.ledger.finish(effect.id, attempt=1, state=state, result={"text": state})  # type: ignore[arg-type]
        assert said == settled
    done = store.ledger.finish(effect.id, attempt=1, state="committed", result={"text": "done"})
    assert (done.state, done.settled, done.result) == ("committed", None, {"text": "done"})
    assert done.evidence is not None
    against = {"settled": "not happened", "by": settled.evidence["by"], "at": settled.ended_at}  # type: ignore[index]
    assert (done.evidence["against"], done.evidence["before"]) == (against, settled.evidence)
    assert store.ledger.get(effect.id) == done
    last = store.trail.entries(lease.session)[-1]
    assert (last.kind, last.data["by"]["name"]) == ("effect.contradicted", "bob")
    assert store.trail.verify() == []


def test_what_is_said_to_have_happened_is_in_doubt_again_when_it_answers_that_it_failed(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    first = ask(store, lease.session, kind="in_doubt")
    settled = store.ledger.settle(effect.id, True, BOB)
    for state in ("in_doubt", "committed"):
        assert store.ledger.finish(effect.id, attempt=1, state=state, result=None) == settled  # type: ignore[arg-type]
    failed = store.ledger.finish(effect.id, attempt=1, state="failed", result={"text": "full"})
    assert (failed.state, failed.settled, failed.ended_at) == ("in_doubt", None, None)
    assert failed.evidence is not None
    against = {"settled": "happened", "by": settled.evidence["by"], "at": settled.ended_at}  # type: ignore[index]
    assert (failed.evidence["against"], failed.evidence["before"]) == (against, settled.evidence)
    assert store.ledger.get(effect.id) == failed
    second = ask(store, lease.session, kind="in_doubt")
    assert (second.status, second.id != first.id) == ("pending", True)
    assert store.approvals.get(first.id).status == "answered"


def test_what_the_record_shows_to_have_happened_stands_whatever_comes_late(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    finding = Finding(True, "It is there.")
    found = store.ledger.find(effect.id, attempt=1, finding=finding, result={"text": "ok"})
    for state in ("in_doubt", "failed", "committed"):
        assert store.ledger.finish(effect.id, attempt=1, state=state, result=None) == found  # type: ignore[arg-type]


@pytest.mark.parametrize("transport", ["not entered", "answered"])
def test_that_an_earlier_attempt_happened_counts_against_the_failure_of_a_later_one(
    store: Store, lease: LeaseRecord, transport: str
) -> None:
    effect = in_doubt(store, lease)
    store.ledger.settle(effect.id, False, BOB)
    store.ledger.begin(**write_of(lease))
    store.ledger.finish(effect.id, attempt=2, state="failed", result=None, transport=transport)
    store.ledger.finish(effect.id, attempt=1, state="in_doubt", result=None)
    assert store.ledger.get(effect.id).state == "failed"
    done = store.ledger.finish(effect.id, attempt=1, state="committed", result={"text": "ok"})
    assert (done.state, done.result, done.attempts) == ("committed", {"text": "ok"}, 2)
    assert store.ledger.get(effect.id) == done
    assert store.trail.entries(lease.session)[-1].kind == "effect.contradicted"


FIRST, SECOND = {"text": "first"}, {"text": "second"}
KINDS = ("done", "not_done", "unknown")


def attempted_again(store: Store, lease: LeaseRecord) -> EffectRecord:
    """A write whose first attempt was said not to have happened; the second is under way."""
    effect = in_doubt(store, lease)
    store.ledger.settle(effect.id, False, ANN)
    second = store.ledger.begin(**write_of(lease)).effect
    assert second.attempts == 2
    return second


@pytest.mark.parametrize("late", ["before", "after"])
@pytest.mark.parametrize(
    ("second", "once", "state", "result", "twice"),
    [
        ("committed", False, "committed", SECOND, [1, 2]),
        ("committed", True, "committed", SECOND, None),
        ("failed", False, "committed", FIRST, None),
        ("failed", True, "committed", FIRST, None),
        ("in_doubt", False, "in_doubt", SECOND, None),
        ("in_doubt", True, "committed", FIRST, None),
    ],
)
def test_that_an_earlier_attempt_happened_counts_whatever_the_latest_came_to(
    store: Store,
    lease: LeaseRecord,
    second: Any,
    once: bool,
    state: str,
    result: Any,
    twice: Any,
    late: str,
) -> None:
    effect = attempted_again(store, lease)

    def first_happened() -> None:
        store.ledger.finish(effect.id, attempt=1, state="committed", result=FIRST, once=once)

    if late == "before":
        first_happened()
        assert store.ledger.get(effect.id).state == "intended"
        assert store.trail.entries(lease.session)[-1].data["attempt"] == 1
    store.ledger.finish(effect.id, attempt=2, state=second, result=SECOND, once=once)
    question = ask(store, lease.session, kind="in_doubt") if second == "in_doubt" else None
    if late == "after":
        first_happened()
    row = store.ledger.get(effect.id)
    assert (row.state, row.result, (row.evidence or {}).get("twice")) == (state, result, twice)
    assert (row.state == "in_doubt") == (row.ended_at is None)
    if question and state == "committed":
        assert store.approvals.get(question.id).status == "superseded"
    receipt = build_receipt(store, lease.session, row.turn)
    (line,) = [line for kind in KINDS for line in getattr(receipt, kind)]
    if second == "failed":
        assert line.endswith("although attempt 2 failed")
    if twice:
        assert line.endswith("and it happened more than once (attempts 1, 2)")
    if state == "in_doubt":
        assert line.endswith("of attempt 2; an earlier one happened")
    assert store.trail.verify() == []


def test_a_late_end_without_an_answer_keeps_what_was_found_out_meanwhile(
    store: Store, lease: LeaseRecord
) -> None:
    effect = store.ledger.begin(**write_of(lease)).effect
    running = {"running": store.owner().text}
    store.ledger.finish(effect.id, attempt=1, state="in_doubt", result=FIRST, evidence=running)
    store.ledger.find(effect.id, attempt=1, finding=Finding(None, "It is closed."), result={})
    ended = store.ledger.finish(effect.id, attempt=1, state="in_doubt", result=SECOND)
    assert store.ledger.get(effect.id) == ended
    assert ended.evidence is not None
    assert ended.evidence["found"]["summary"] == "It is closed."
    assert "running" not in ended.evidence


@pytest.mark.parametrize("happened", [True, False])
def test_a_person_who_settles_the_latest_attempt_does_not_undo_what_is_known_of_an_earlier_one(
    store: Store, lease: LeaseRecord, happened: bool
) -> None:
    effect = attempted_again(store, lease)
    store.ledger.finish(effect.id, attempt=2, state="in_doubt", result=SECOND)
    store.ledger.finish(effect.id, attempt=1, state="committed", result=FIRST)
    finding = Finding(False, "It is not there.")
    found = store.ledger.find(effect.id, attempt=2, finding=finding, result={})
    assert found.state == "in_doubt"  # a record that denies what is known settles nothing
    settled = store.ledger.settle(effect.id, happened, BOB)
    assert settled.state == "committed"
    assert (settled.evidence or {}).get("twice") == ([1, 2] if happened else None)
    assert store.ledger.begin(**write_of(lease)).outcome == "recorded"


def test_settled_as_happened_it_never_runs_again(store: Store, lease: LeaseRecord) -> None:
    effect = in_doubt(store, lease)
    question = ask(store, lease.session, kind="in_doubt")
    settled = store.ledger.settle(effect.id, True, BOB, "saw it in the shop")
    assert store.ledger.get(effect.id) == settled
    assert (settled.state, settled.settled) == ("committed", "happened")
    assert settled.evidence is not None
    assert settled.evidence["by"]["name"] == "bob"
    assert settled.evidence["comment"] == "saw it in the shop"
    answered = store.approvals.get(question.id)
    assert (answered.status, answered.comment) == ("answered", "happened")
    assert answered.decided_by == "bob"
    assert store.ledger.begin(**write_of(lease)).outcome == "recorded"
    with pytest.raises(AlreadyDecided) as second:
        store.ledger.settle(effect.id, False, ANN)
    assert (second.value.status, second.value.by) == ("committed", "bob")


def test_settled_as_not_happened_it_runs_again_under_the_same_key(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    settled = store.ledger.settle(effect.id, False, BOB)
    assert (settled.state, settled.settled) == ("failed", "not happened")
    other = write_of(lease, approval="a-other2", idempotency_key="another", before="later")
    again = store.ledger.begin(**other)
    assert (again.outcome, again.effect.state) == ("run", "intended")
    assert (again.effect.attempts, again.effect.settled) == (2, None)
    assert (again.effect.idempotency_key, again.effect.approval) == ("key-c1", "a-other2")
    assert (effect.before, again.effect.before) == (None, "later")
    assert store.ledger.get(effect.id) == again.effect
    assert store.ledger.begin(**other).outcome == "in_doubt"


def test_only_a_doubt_can_be_settled(store: Store, lease: LeaseRecord) -> None:
    begun = store.ledger.begin(**write_of(lease))
    with pytest.raises(InvalidDecision, match="sayso resume"):
        store.ledger.settle(begun.effect.id, True, ANN)
    done = store.ledger.finish(begun.effect.id, attempt=1, state="failed", result=None)
    with pytest.raises(AlreadyDecided, match="already failed"):
        store.ledger.settle(begun.effect.id, True, ANN)
    assert store.ledger.get(begun.effect.id) == done
    for call in (
        lambda: store.ledger.settle("e-zzzzzz", True, ANN),
        lambda: store.ledger.finish("e-zzzzzz", attempt=1, state="failed", result=None),
        lambda: store.ledger.get("e-zzzzzz"),
    ):
        with pytest.raises(NotFound):
            call()


def test_lists_are_by_session_state_and_turn(store: Store, lease: LeaseRecord) -> None:
    first = store.ledger.begin(**write_of(lease, "c1")).effect
    second = store.ledger.begin(**write_of(lease, "c2")).effect
    third = store.ledger.begin(**write_of(lease, "c3", turn=2)).effect
    elsewhere = store.leases.acquire(new_session(store).id, store.owner(), ttl=60)
    foreign = store.ledger.begin(**write_of(elsewhere)).effect
    done = store.ledger.finish(second.id, attempt=1, state="committed", result=None)
    assert store.ledger.list() == [foreign, third, done, first]
    assert store.ledger.list(limit=1, offset=1) == [third]
    assert store.ledger.list(session=lease.session, state="intended") == [third, first]
    assert store.ledger.for_turn(lease.session, 1) == [first, done]
    assert store.ledger.get(done.id[:-1]) == done


# --- sent again ------------------------------------------------------------------------------


def test_a_doubt_is_entered_again_only_when_its_service_would_recognise_it(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    assert store.ledger.begin(**write_of(lease)).outcome == "in_doubt"
    again = store.ledger.begin(**write_of(lease), resend=True)
    assert (again.outcome, again.resent, again.effect.state) == ("run", True, "intended")
    assert (again.effect.attempts, again.effect.id) == (2, effect.id)
    assert again.effect.idempotency_key == effect.idempotency_key
    assert store.ledger.get(effect.id) == again.effect
    # Its service has known the key since the first attempt.
    assert again.effect.started_at == effect.started_at
    assert store.ledger.begin(**write_of(lease), resend=True).outcome == "in_doubt"


def test_what_is_known_to_have_happened_or_is_another_call_is_not_sent_again(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    other = write_of(lease, args={"order_id": "B1"}, digest="d2")
    assert store.ledger.begin(**other, resend=True).outcome == "refused"
    store.ledger.settle(effect.id, True, ANN)
    assert store.ledger.begin(**write_of(lease), resend=True).outcome == "recorded"


def test_what_did_not_happen_begins_anew(store: Store, lease: LeaseRecord) -> None:
    effect = in_doubt(store, lease)
    store.ledger.settle(effect.id, False, ANN)
    again = store.ledger.begin(**write_of(lease))
    assert (again.outcome, again.resent) == ("run", False)
    assert again.effect.started_at > effect.started_at
    assert again.effect.evidence is not None
    assert again.effect.evidence["before"]["settled"] == "not happened"


def test_under_a_rule_that_ended_nothing_is_sent_again(store: Store, lease: LeaseRecord) -> None:
    rule = store.rules.add(lease.session, "cancel_order", "all", {}, ANN)
    under = write_of(lease, approval=None, rule=rule.id)
    store.ledger.begin(**under)
    effect = store.ledger.begin(**under).effect
    store.rules.revoke(rule.id, ANN)
    with pytest.raises(RuleEnded):
        store.ledger.begin(**under, resend=True)
    assert store.ledger.get(effect.id) == effect


# --- found in the service's own record --------------------------------------------------------

RESULT = {"text": "it was lost: {}", "status": "success", "skip": 13}


@pytest.mark.parametrize(
    ("happened", "state", "settled"),
    [(True, "committed", "happened"), (False, "failed", "not happened")],
)
def test_what_the_record_says_settles_a_doubt_and_its_question(
    store: Store, lease: LeaseRecord, happened: bool, state: str, settled: str
) -> None:
    effect = in_doubt(store, lease)
    question = ask(store, lease.session, kind="in_doubt")
    store.leases.release(lease)
    finding = Finding(happened, "T1 is there.", {"token": "geheim"}, "T1")
    found = store.ledger.find(effect.id, attempt=1, finding=finding, result=RESULT)

    assert store.ledger.get(effect.id) == found
    assert (found.state, found.settled) == (state, settled)
    assert found.evidence is not None
    assert found.evidence["found"]["summary"] == "T1 is there."
    assert found.evidence["found"]["record"] == {"token": "geheim"}
    assert found.evidence["by"] == {"name": "its own record"}
    assert found.ended_at == found.evidence["found"]["at"]
    assert (found.transaction, found.result) == (("T1", RESULT) if happened else (None, None))
    closed = store.approvals.get(question.id)
    assert (closed.status, closed.comment) == ("superseded", f"found out: {state}")
    entries = store.trail.entries(lease.session)
    assert [entry.kind for entry in entries[-2:]] == ["effect.found", "approval.superseded"]
    assert entries[-2].data["happened"] is happened
    assert entries[-2].data["record"] == {"token": "«masked»"}
    with pytest.raises(AlreadyDecided) as second:
        store.ledger.settle(effect.id, not happened, ANN)
    assert second.value.by == "its own record"


def test_a_finding_that_settles_nothing_is_kept_and_the_question_stays(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    question = ask(store, lease.session, kind="in_doubt")
    for summary in ("The desk is closed.", "Still closed."):
        finding = Finding(None, summary, {"open": False})
        found = store.ledger.find(effect.id, attempt=1, finding=finding, result=RESULT)
    assert (found.state, found.settled, found.result) == ("in_doubt", None, effect.result)
    assert found.evidence is not None
    assert found.evidence["found"]["summary"] == "Still closed."
    assert store.approvals.get(question.id) == question
    assert kinds(store, lease.session).count("effect.found") == 2


@pytest.mark.parametrize("now", ["committed", "settled", "a later attempt", "intended"])
def test_a_finding_changes_nothing_that_is_known_or_a_later_attempts(
    store: Store, lease: LeaseRecord, now: str
) -> None:
    effect = in_doubt(store, lease)
    match now:
        case "committed":
            store.ledger.finish(effect.id, attempt=1, state="committed", result=None)
        case "settled":
            store.ledger.settle(effect.id, True, BOB)
        case "a later attempt":
            store.ledger.begin(**write_of(lease), resend=True)
            store.ledger.finish(effect.id, attempt=2, state="in_doubt", result=None)
        case "intended":
            store.ledger.begin(**write_of(lease), resend=True)
    before, trail = store.ledger.get(effect.id), store.trail.heads()
    finding = Finding(False, "There is nothing.")
    attempt = 2 if now == "intended" else 1
    found = store.ledger.find(effect.id, attempt=attempt, finding=finding, result=RESULT)
    assert found == before == store.ledger.get(effect.id)
    assert store.trail.heads() == trail


def test_what_the_record_does_not_have_runs_again_as_the_next_attempt(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    store.ledger.find(effect.id, attempt=1, finding=Finding(False, "No."), result=RESULT)
    again = store.ledger.begin(**write_of(lease))
    assert (again.outcome, again.resent, again.effect.attempts) == ("run", False, 2)
    assert again.effect.settled is None


# --- left, and compensated -------------------------------------------------------------------


def test_what_nobody_is_at_any_more_is_in_doubt(store: Store, lease: LeaseRecord) -> None:
    effect = store.ledger.begin(**write_of(lease)).effect
    with pytest.raises(LeaseLost):
        store.ledger.leave(effect.id, epoch=lease.epoch + 1)
    assert store.ledger.get(effect.id) == effect
    left = store.ledger.leave(effect.id, epoch=lease.epoch)
    assert left.state == "in_doubt"
    assert store.ledger.open_doubts(lease.session) == [left]
    assert kinds(store, lease.session)[-1] == "effect.in_doubt"
    done = store.ledger.finish(effect.id, attempt=1, state="committed", result=None)
    assert store.ledger.leave(effect.id, epoch=lease.epoch) == done


@pytest.mark.parametrize("state", ["intended", "in_doubt", "committed"])
def test_a_write_is_compensated_once(store: Store, lease: LeaseRecord, state: Any) -> None:
    done = store.ledger.begin(**write_of(lease)).effect
    store.ledger.finish(done.id, attempt=1, state="committed", result=None)
    undoing = write_of(lease, "c2", undoes=done.id)
    back = store.ledger.begin(**undoing).effect
    assert back.undoes == done.id
    assert store.trail.entries(lease.session)[-1].data["undoes"] == done.id
    if state != "intended":
        store.ledger.finish(back.id, attempt=1, state=state, result=None)
    assert store.ledger.undone_by(done.id) == store.ledger.get(back.id)
    with pytest.raises(AlreadyUndone) as refused:
        store.ledger.begin(**write_of(lease, "c3", undoes=done.id))
    assert (refused.value.effect, refused.value.by) == (done.id, back.id)
    assert refused.value.state == state
    assert ("was undone" if state == "committed" else "may have been undone") in str(refused.value)
    assert len(store.ledger.list()) == 2
    if state == "in_doubt":  # the same write may be entered again
        assert store.ledger.begin(**undoing, resend=True).outcome == "run"


@pytest.mark.parametrize("state", ["intended", "in_doubt", "failed"])
def test_what_is_not_known_to_have_happened_is_not_compensated(
    store: Store, lease: LeaseRecord, state: Any
) -> None:
    done = store.ledger.begin(**write_of(lease)).effect
    if state != "intended":
        store.ledger.finish(done.id, attempt=1, state=state, result=None)
    with pytest.raises(NothingToUndo, match="Nothing was run"):
        store.ledger.begin(**write_of(lease, "c2", undoes=done.id))
    assert len(store.ledger.list()) == 1


def test_a_compensation_that_failed_may_be_followed_by_another(
    store: Store, lease: LeaseRecord
) -> None:
    done = store.ledger.begin(**write_of(lease)).effect
    store.ledger.finish(done.id, attempt=1, state="committed", result=None)
    back = store.ledger.begin(**write_of(lease, "c2", undoes=done.id)).effect
    store.ledger.finish(back.id, attempt=1, state="failed", result=None)
    assert store.ledger.undone_by(done.id) is None
    again = store.ledger.begin(**write_of(lease, "c3", undoes=done.id))
    assert again.outcome == "run"
    assert store.ledger.undone_by(done.id) == again.effect
