"""Any order of asking, deciding, beginning, finishing, settling and taking over.

A model of what must hold runs beside the real store: one decision an approval, one ``run`` for
a key and attempt, states that move along the arrows of the ledger only, and a trail that holds.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from agent.errors import AlreadyDecided, DecisionError, InvalidDecision, LeaseLost
from agent.store import Owner, Store
from agent.store.records import EffectRecord, LeaseRecord
from agent.types import Decision
from tests.unit.store.databases import ANN, BOB, DIGEST, FreshUrl, ask, new_session, write_of

CALLS = st.sampled_from(["c1", "c2"])
ARROWS = {
    ("intended", "in_doubt"),
    ("intended", "committed"),
    ("intended", "failed"),
    ("in_doubt", "committed"),
    ("in_doubt", "failed"),
    ("failed", "intended"),  # only settled as not happened, and only as the next attempt
}
DECISIONS = st.one_of(
    st.just(Decision("approve")),
    st.just(Decision("edit", args={"order_id": "B1"})),
    st.builds(Decision, st.sampled_from(["reject", "respond"]), message=st.just("why")),
    st.builds(
        Decision,
        st.just("respond"),
        message=st.sampled_from(["happened", "not happened", "perhaps"]),
    ),
    st.just(Decision("nonsense")),  # type: ignore[arg-type]
)


class Machine(RuleBasedStateMachine):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.store = Store.open(url)
        self.decided: dict[str, tuple[str, str]] = {}
        self.runs: set[tuple[str, int]] = set()
        self.contradicted: set[str] = set()
        self.happened: dict[str, set[int]] = {}
        self.seen: dict[str, EffectRecord] = {}
        self.owners = 0

    @initialize()
    def start(self) -> None:
        self.session = new_session(self.store).id
        self.lease = self.take_lease()
        self.stale: LeaseRecord | None = None

    def take_lease(self) -> LeaseRecord:
        self.owners += 1
        return self.store.leases.acquire(self.session, Owner(f"away:1:{self.owners}"), ttl=600)

    @rule()
    def take_over(self) -> None:
        self.store.leases.renew(self.lease, ttl=-1)
        self.stale, self.lease = self.lease, self.take_lease()
        assert self.lease.epoch == self.stale.epoch + 1

    @rule(call=CALLS, kind=st.sampled_from(["write", "in_doubt"]))
    def asks(self, call: str, kind: Any) -> None:
        known = self.store.approvals.for_call(self.session, "m1", call, kind)
        asked = ask(self.store, self.session, call, kind=kind)
        effect = self.store.ledger.for_call(self.session, "m1", call)
        is_refuted = known and known.status == "answered" and effect and effect.state == "in_doubt"
        if is_refuted and kind == "in_doubt":
            assert (asked.status, asked.attempt > known.attempt) == ("pending", True)  # type: ignore[union-attr]
        elif known and (kind == "write" or known.attempt >= (effect.attempts if effect else 1)):
            assert asked == known
        elif kind == "in_doubt" and effect and effect.state in ("committed", "failed"):
            assert (asked.status, asked.comment) == ("superseded", f"found out: {effect.state}")
        else:
            assert asked.status == "pending"

    @rule(call=CALLS, kind=st.sampled_from(["write", "in_doubt"]), decision=DECISIONS)
    def decides(self, call: str, kind: Any, decision: Decision) -> None:
        approval = self.store.approvals.for_call(self.session, "m1", call, kind)
        if approval is None:
            return
        digest = "d2" if decision.type == "edit" else None
        try:
            decided = self.store.approvals.decide(approval.id, decision, ANN, digest=digest)
        except InvalidDecision:
            assert self.store.approvals.get(approval.id) == approval
        except AlreadyDecided:
            assert approval.status != "pending"
            assert self.store.approvals.get(approval.id) == approval
        else:
            assert approval.status == "pending"
            assert approval.id not in self.decided
            assert kind == "write" or decided.comment in ("happened", "not happened")

    @rule()
    def supersedes(self) -> None:
        closed = self.store.approvals.supersede(self.session, BOB, "new message")
        assert all(one.kind == "write" for one in closed)

    @rule(call=CALLS, other_arguments=st.booleans())
    def begins(self, call: str, other_arguments: bool) -> None:
        before = self.store.ledger.for_call(self.session, "m1", call)
        digest = "d9" if other_arguments else DIGEST
        begun = self.store.ledger.begin(**write_of(self.lease, call, digest=digest))
        if begun.outcome == "run":
            run = (begun.effect.id, begun.effect.attempts)
            assert run not in self.runs
            assert before is None or before.settled == "not happened"
            self.runs.add(run)
        elif begun.outcome == "refused":
            assert before == begun.effect
            assert begun.effect.digest != digest
        else:
            states = {"in_doubt": {"in_doubt"}, "recorded": {"committed", "failed"}}
            assert begun.effect.state in states[begun.outcome]

    @rule(call=CALLS)
    def begins_under_a_stale_lease(self, call: str) -> None:
        if self.stale is None:
            return
        before = self.store.ledger.for_call(self.session, "m1", call)
        with pytest.raises(LeaseLost):
            self.store.ledger.begin(**write_of(self.stale, call))
        assert self.store.ledger.for_call(self.session, "m1", call) == before

    @rule(
        call=CALLS,
        state=st.sampled_from(["committed", "failed", "in_doubt"]),
        earlier=st.integers(0, 1),
    )
    def finishes(self, call: str, state: Any, earlier: int) -> None:
        effect = self.store.ledger.for_call(self.session, "m1", call)
        if effect is None:
            return
        attempt = effect.attempts - earlier
        if attempt == 0:
            return
        after = self.store.ledger.finish(effect.id, attempt=attempt, state=state, result={"n": 1})
        happened = self.happened.setdefault(effect.id, set())
        has_ended = effect.state in ("committed", "failed") and effect.settled is None
        if state == "committed" and not (attempt == effect.attempts and has_ended):
            happened.add(attempt)  # an attempt answers once
        if state == "committed" and (
            (earlier and effect.state == "failed") or effect.settled == "not happened"
        ):
            assert (after.state, after.settled) == ("committed", None)
            self.contradicted.add(effect.id)
        elif not earlier and effect.settled == "happened" and state == "failed":
            assert (after.state, after.settled) == ("in_doubt", None)
            self.contradicted.add(effect.id)
        elif earlier or effect.state in ("committed", "failed"):
            assert (after.state, after.result) == (effect.state, effect.result)
        elif state == "failed" and happened - {attempt}:
            assert after.state == "committed"
        else:
            assert after.state == state

    @rule(call=CALLS, happened=st.booleans())
    def settles(self, call: str, happened: bool) -> None:
        effect = self.store.ledger.for_call(self.session, "m1", call)
        if effect is None:
            return
        try:
            self.store.ledger.settle(effect.id, happened, BOB)
        except DecisionError:
            assert effect.state != "in_doubt"
            assert self.store.ledger.get(effect.id) == effect
        else:
            assert effect.state == "in_doubt"

    @invariant()
    def decisions_stand(self) -> None:
        for approval in self.store.approvals.list(None):
            if approval.status != "pending":
                now = (approval.status, approval.decided_at or "")
                assert self.decided.setdefault(approval.id, now) == now
                assert (approval.decided_digest is None) == (
                    approval.status not in ("approved", "edited")
                )

    @invariant()
    def states_move_along_the_arrows(self) -> None:
        for effect in self.store.ledger.list():
            before = self.seen.get(effect.id)
            if before is not None and before.state != effect.state:
                assert (before.state, effect.state) in ARROWS or effect.id in self.contradicted
            if before is not None and before.state == "failed" and effect.state == "intended":
                assert before.settled == "not happened"
                assert effect.attempts == before.attempts + 1
            elif before is not None:
                assert effect.attempts == before.attempts
                assert effect.idempotency_key == before.idempotency_key
            assert (effect.id, effect.attempts) in self.runs
            self.seen[effect.id] = effect

    @invariant()
    def what_is_known_to_have_happened_is_not_forgotten(self) -> None:
        for effect in self.store.ledger.list():
            known = self.happened.get(effect.id, set())
            if not known:
                continue
            assert effect.state != "failed"
            evidence = effect.evidence or {}
            if effect.state == "committed" and len(known) > 1:
                assert known <= set(evidence["twice"])
            if effect.state != "committed":
                earlier = {item["attempt"] for item in evidence.get("earlier", ())}
                assert known - {effect.attempts} <= earlier

    @invariant()
    def nobody_is_asked_about_a_known_outcome(self) -> None:
        for approval in self.store.approvals.list("pending", kind="in_doubt"):
            effect = self.store.ledger.for_call(self.session, "m1", approval.call)
            assert effect is None or effect.state in ("intended", "in_doubt")

    @invariant()
    def the_trail_holds(self) -> None:
        assert self.store.trail.verify() == []

    def teardown(self) -> None:
        self.store.close()


def test_whatever_happens_in_whatever_order(backend: str, fresh_url: FreshUrl) -> None:
    examples = 30 if backend == "sqlite" else 10
    run_state_machine_as_test(
        lambda: Machine(fresh_url()),
        settings=settings(max_examples=examples, stateful_step_count=25, deadline=None),
    )
