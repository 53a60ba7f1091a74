"""The ledger: one row a call, entered at most once an attempt, and never overwritten."""

from __future__ import annotations

from typing import Any

import pytest

from agent.errors import AlreadyDecided, InvalidDecision, LeaseLost, NotFound
from agent.store import Owner, Store
from agent.store.records import EffectRecord, LeaseRecord
from tests.unit.store.databases import ANN, BOB, ask, kinds, new_session, write_of


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


def test_the_result_of_an_earlier_attempt_does_not_end_a_later_one(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    store.ledger.settle(effect.id, False, ANN)
    second = store.ledger.begin(**write_of(lease)).effect
    assert second.attempts == 2
    store.ledger.finish(effect.id, attempt=1, state="committed", result=None)
    assert store.ledger.get(effect.id) == second
    assert store.trail.entries(lease.session)[-1].data["attempt"] == 1
    done = store.ledger.finish(effect.id, attempt=2, state="committed", result=None)
    assert done.state == "committed"


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
    assert store.ledger.finish(effect.id, attempt=1, state="failed", result=None) == settled


def test_settled_as_not_happened_it_runs_again_under_the_same_key(
    store: Store, lease: LeaseRecord
) -> None:
    effect = in_doubt(store, lease)
    settled = store.ledger.settle(effect.id, False, BOB)
    assert (settled.state, settled.settled) == ("failed", "not happened")
    other = write_of(lease, approval="a-other2", idempotency_key="another")
    again = store.ledger.begin(**other)
    assert (again.outcome, again.effect.state) == ("run", "intended")
    assert (again.effect.attempts, again.effect.settled) == (2, None)
    assert (again.effect.idempotency_key, again.effect.approval) == ("key-c1", "a-234567")
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
