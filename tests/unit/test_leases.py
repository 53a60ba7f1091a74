"""Holding a session: renewed in time, lost in words, given back at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.errors import LeaseLost, SessionBusy
from agent.leases import LeaseKeeper, held
from agent.store import Owner, Store
from agent.store.records import LeaseRecord
from agent.types import Actor
from tests.unit.store.databases import ask

LONG = 600.0
ANA = Actor("ana", 1000, "here", "test")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path}/sayso.db")
    yield opened
    opened.close()


@pytest.fixture
def session(store: Store) -> str:
    return store.sessions.create(
        model="m", tools=[], workspace=None, granted=[], denied=[], actor=ANA
    ).id


def another(store: Store, token: str = "0" * 16) -> Owner:
    """A process on another machine, of which nobody can know whether it lives."""
    return Owner(f"elsewhere:1:{token}")


def expire(store: Store, session: str) -> None:
    """Let the lease run out now."""
    lease = store.leases.holder(session)
    assert lease is not None
    store.leases.renew(lease, -1)


def test_a_held_session_is_busy_for_others_until_it_is_given_back(
    store: Store, session: str
) -> None:
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    with pytest.raises(SessionBusy, match=session):
        LeaseKeeper(store, session, another(store), LONG)
    keeper.release()
    assert store.leases.holder(session) is None
    assert LeaseKeeper(store, session, another(store), LONG).current.epoch == 2


def test_with_time_enough_nothing_is_renewed(store: Store, session: str) -> None:
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    before = keeper.current
    assert keeper.ensure(LONG / 3) == before


def test_before_a_long_write_the_lease_is_made_long_enough(store: Store, session: str) -> None:
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    before = keeper.current
    after = keeper.ensure(5 * LONG)
    assert after.expires_at >= before.expires_at + 4 * LONG
    assert after.epoch == before.epoch
    assert keeper.current == after == store.leases.holder(session)


@pytest.mark.parametrize("ahead", [-3600.0, 3600.0])
def test_the_clock_of_the_database_may_be_another_one(
    store: Store, session: str, ahead: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire, renew = store.leases.acquire, store.leases.renew
    renewed: list[float] = []

    def acquire_there(*args: Any) -> LeaseRecord:
        lease = acquire(*args)
        return lease.model_copy(update={"expires_at": lease.expires_at + ahead})

    def renew_there(lease: LeaseRecord, ttl: float) -> LeaseRecord:
        renewed.append(ttl)
        return renew(lease, ttl)

    monkeypatch.setattr(store.leases, "acquire", acquire_there)
    monkeypatch.setattr(store.leases, "renew", renew_there)
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    keeper.ensure(LONG / 3)
    assert renewed == []
    keeper.ensure(LONG)
    assert renewed == [2 * LONG]


def test_a_lease_that_ran_out_unnoticed_is_renewed_as_long_as_nobody_took_it(
    store: Store, session: str
) -> None:
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    epoch = keeper.current.epoch
    expire(store, session)
    assert keeper.ensure(10 * LONG).epoch == epoch
    assert store.leases.holder(keeper.current.session) == keeper.current


def test_who_was_overtaken_is_told_and_stays_told(store: Store, session: str) -> None:
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    expire(store, session)
    other = LeaseKeeper(store, session, another(store), LONG)
    for _ in range(2):
        with pytest.raises(LeaseLost, match=f"sayso show {session}"):
            keeper.ensure(10 * LONG)
        with pytest.raises(LeaseLost):
            _ = keeper.current
    keeper.release()
    assert store.leases.holder(session) == other.current


def test_a_loss_is_told_once_to_whoever_waits_for_it(store: Store, session: str) -> None:
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    told: list[str] = []
    keeper.when_lost(lambda: told.append("lost"))
    keeper.ensure(5 * LONG)
    assert told == []
    expire(store, session)
    LeaseKeeper(store, session, another(store), LONG)
    for _ in range(2):
        with pytest.raises(LeaseLost):
            keeper.ensure(10 * LONG)
    assert told == ["lost"]


async def test_a_loss_is_noticed_in_the_background(store: Store, session: str) -> None:
    lost = asyncio.Event()
    async with held(store, session, store.owner(), 0.3) as keeper:
        keeper.when_lost(lost.set)
        expire(store, session)
        other = LeaseKeeper(store, session, another(store), LONG)
        await asyncio.wait_for(lost.wait(), 30)
    assert store.leases.holder(session) == other.current


def test_who_was_overtaken_asks_nobody(store: Store, session: str) -> None:
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    epoch = keeper.current.epoch
    asked = ask(store, session, "first", epoch=epoch)
    expire(store, session)
    other = LeaseKeeper(store, session, another(store), LONG)
    entries = store.trail.entries(session)
    for call in ("first", "second"):
        with pytest.raises(LeaseLost):
            ask(store, session, call, interrupt="stale", epoch=epoch)
    with pytest.raises(LeaseLost):
        store.trail.append(session, [("note", {})], epoch=epoch)
    assert store.approvals.list() == [asked]
    assert store.trail.entries(session) == entries
    assert ask(store, session, "second", epoch=other.current.epoch).status == "pending"


def test_giving_back_twice_is_harmless(store: Store, session: str) -> None:
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    keeper.release()
    other = LeaseKeeper(store, session, another(store), LONG)
    keeper.release()
    assert store.leases.holder(other.current.session) == other.current


async def test_it_is_renewed_in_the_background_before_it_runs_out(
    store: Store, session: str
) -> None:
    renewed = asyncio.Event()
    loop = asyncio.get_running_loop()
    renew = store.leases.renew

    def noticed(lease: object, ttl: float) -> object:
        result = renew(lease, ttl)  # type: ignore[arg-type]
        loop.call_soon(renewed.set)
        return result

    store.leases.renew = noticed  # type: ignore[method-assign, assignment]
    async with held(store, session, store.owner(), 0.3) as keeper:
        before = keeper.current
        await asyncio.wait_for(renewed.wait(), 30)
        assert keeper.current.expires_at > before.expires_at
        assert keeper.current.epoch == before.epoch


async def test_it_is_given_back_at_the_end_and_after_an_error(store: Store, session: str) -> None:
    async with held(store, session, store.owner(), LONG):
        assert store.leases.holder(session) is not None
    assert store.leases.holder(session) is None
    with pytest.raises(RuntimeError, match="boom"):
        async with held(store, session, store.owner(), LONG):
            raise RuntimeError("boom")
    assert store.leases.holder(session) is None


async def test_the_end_of_the_one_who_lost_it_does_not_disturb_the_next(
    store: Store, session: str
) -> None:
    async with held(store, session, store.owner(), LONG):
        expire(store, session)
        other = LeaseKeeper(store, session, another(store), LONG)
    assert store.leases.holder(session) == other.current


async def test_who_finds_it_held_starts_nothing(store: Store, session: str) -> None:
    tasks = asyncio.all_tasks()
    LeaseKeeper(store, session, another(store), LONG)
    with pytest.raises(SessionBusy):
        async with held(store, session, store.owner(), LONG):
            raise AssertionError("not reached")
    assert asyncio.all_tasks() == tasks
