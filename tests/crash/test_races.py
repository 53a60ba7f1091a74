"""Two at once: exactly one wins, the other one is told, and nothing happens twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.store import Store
from tests.crash.conftest import Stage, option
from tests.support.crash_world import World

pytestmark = pytest.mark.timeout(1200)


class Ran:
    """A race that took place: the store and the world after it, and what the two were told."""

    def __init__(self, answer: dict[str, Any], store: Store, world: World) -> None:
        self.ids: list[str] = answer["ids"]
        self.told: list[tuple[list[Any], list[Any]]] = answer["told"]
        self.store, self.world = store, world


Race = Callable[..., Ran]


@pytest.fixture
def race(
    stage: Stage,
    place: Callable[[], tuple[Path, str]],
    request: pytest.FixtureRequest,
) -> Iterator[Race]:
    """Lets a race take place, in ``usual`` rounds where nothing else is wanted."""
    folder, url = place()
    wanted, seed = option(request.config, "rounds"), option(request.config, "seed")
    with closing(Store.open(url, home=folder / "home")) as store:

        def run(name: str, usual: int = 50) -> Ran:
            rounds = wanted or usual
            values = {"url": url, "folder": str(folder), "rounds": rounds, "seed": seed}
            answer = stage.parent.do("race", name=name, **values)
            assert len(answer["told"]) == rounds
            return Ran(answer, store, World(folder / "world.db"))

        yield run


def check(store: Store, ids: list[str]) -> None:
    """Each of these approvals was closed exactly once, and the trail holds."""
    sessions = {store.approvals.get(approval, whole=True).session for approval in ids}
    closed = [
        entry.data["approval"]
        for session in sessions
        for entry in store.trail.entries(session)
        if entry.kind in ("approval.decided", "approval.superseded")
    ]
    assert sorted(closed) == sorted(ids)
    assert [problem for session in sessions for problem in store.trail.verify(session)] == []


def test_two_deciders(database: str, race: Race) -> None:
    ran = race("two deciders")
    for approval, told in zip(ran.ids, ran.told, strict=True):
        if ran.store.approvals.get(approval, whole=True).status == "approved":
            assert told == [["won", "approved"], ["AlreadyDecided", "approved", "ann"]]
        else:
            assert told == [["AlreadyDecided", "rejected", "bob"], ["won", "rejected"]]
    check(ran.store, ran.ids)


def test_a_decision_against_its_expiry(database: str, race: Race) -> None:
    ran = race("decide and expire")
    for approval, told in zip(ran.ids, ran.told, strict=True):
        if ran.store.approvals.get(approval, whole=True).status == "approved":
            assert told == [["won", "approved"], ["AlreadyDecided", "approved", "ann"]]
        else:
            assert told == [["ApprovalExpired", "expired", ""], ["won", "expired"]]
    check(ran.store, ran.ids)


def test_a_decision_at_the_last_moment(database: str, race: Race) -> None:
    """Whoever notices that the time is over closes it; that may be the decider."""
    ran = race("decide at the last moment")
    expired = []
    for approval, (decider, _) in zip(ran.ids, ran.told, strict=True):
        if ran.store.approvals.get(approval, whole=True).status == "approved":
            assert decider == ["won", "approved"]
        else:
            assert decider == ["ApprovalExpired", "expired", ""]
            expired.append(approval)
    closed = [approval for _, (_, *closed) in ran.told for approval in closed]
    assert len(closed) == len(set(closed))
    assert set(closed) <= set(expired)
    check(ran.store, ran.ids)


def test_two_that_carry_a_session_on(database: str, race: Race) -> None:
    ran = race("two that carry on", usual=20)
    for session, told in zip(ran.ids, ran.told, strict=True):
        assert ["went on", "done"] in told  # the other one may come when that has ended
        assert all(one in (["SessionBusy"], ["went on", "done"]) for one in told)
        (effect,) = ran.store.ledger.list(session=session)
        assert (effect.state, effect.attempts) == ("committed", 1)
        assert ran.store.trail.verify(session) == []
        takeovers = ran.store.trail.entries(session, kind="lease.taken_over")
        assert len(takeovers) == 1
    keys = [effect.key for effect in ran.world.effects()]
    assert len(keys) == len(set(keys)) == len(ran.ids)


@pytest.mark.parametrize("how", ["cancel", "move on"])
def test_a_decision_against_the_end_of_its_question(database: str, how: str, race: Race) -> None:
    """What was approved before the session moved on still runs; once it is cancelled, nothing."""
    ran = race(f"decide and {how}", usual=20)
    state = "cancelled" if how == "cancel" else "done"
    done = {effect.key for effect in ran.world.effects()}
    assert len(done) == len(ran.world.effects())
    for decider, (session, ended) in ran.told:
        approval, effects = decider.pop(), ran.store.ledger.list(session=session)
        assert ended == state
        if ran.store.approvals.get(approval, whole=True).status == "approved":
            assert decider == ["won", "approved"]
            assert len(effects) == (how == "move on")
        else:
            assert decider == ["AlreadyDecided", "superseded", "ana"]
            assert effects == []
        assert [effect.state for effect in effects] == ["committed"] * len(effects)
        assert {effect.idempotency_key for effect in effects} <= done
        check(ran.store, [approval])
