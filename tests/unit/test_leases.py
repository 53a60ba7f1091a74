"""Holding a session: renewed in time, lost in words, given back at the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent import leases
from agent.errors import LeaseLost, SessionBusy, StoreError
from agent.leases import Holdings, LeaseKeeper
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


def holdings(store: Store, seconds: float, running: Sequence[Any] = ()) -> Holdings:
    """Those of this process, with these writes under way."""
    return Holdings(store, store.owner(), seconds, lambda session: set(running))


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


@dataclass
class Clocks:
    """Those of this machine, in place of the module ``time``."""

    wall: float = 1_000_000.0
    steady: float = 500.0

    def time(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady


@pytest.mark.parametrize(
    ("wall", "steady", "renews"),
    [
        (LONG / 4, LONG / 4, False),
        (LONG, LONG, True),
        (LONG - 3600, LONG, True),
        (LONG, 0.0, True),
    ],
    ids=["early", "time has gone by", "the clock was put back", "the machine has slept"],
)
def test_a_lease_is_renewed_in_time_whatever_becomes_of_the_clock(
    store: Store,
    session: str,
    wall: float,
    steady: float,
    renews: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clocks = Clocks()
    monkeypatch.setattr(leases, "time", clocks)
    keeper = LeaseKeeper(store, session, store.owner(), LONG)
    before = keeper.current
    clocks.wall, clocks.steady = clocks.wall + wall, clocks.steady + steady
    assert (keeper.ensure(LONG / 3) != before) == renews


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
    async with holdings(store, 0.3).hold(session) as keeper:
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
    async with holdings(store, 0.3).hold(session) as keeper:
        before = keeper.current
        await asyncio.wait_for(renewed.wait(), 30)
        assert keeper.current.expires_at > before.expires_at
        assert keeper.current.epoch == before.epoch


async def test_it_is_given_back_at_the_end_and_after_an_error(store: Store, session: str) -> None:
    async with holdings(store, LONG).hold(session):
        assert store.leases.holder(session) is not None
    assert store.leases.holder(session) is None
    with pytest.raises(RuntimeError, match="boom"):
        async with holdings(store, LONG).hold(session):
            raise RuntimeError("boom")
    assert store.leases.holder(session) is None


async def test_the_end_of_the_one_who_lost_it_does_not_disturb_the_next(
    store: Store, session: str
) -> None:
    async with holdings(store, LONG).hold(session):
        expire(store, session)
        other = LeaseKeeper(store, session, another(store), LONG)
    assert store.leases.holder(session) == other.current


async def test_who_finds_it_held_starts_nothing(store: Store, session: str) -> None:
    tasks = asyncio.all_tasks()
    LeaseKeeper(store, session, another(store), LONG)
    with pytest.raises(SessionBusy):
        async with holdings(store, LONG).hold(session):
            raise AssertionError("not reached")
    assert asyncio.all_tasks() == tasks


# --- a write outlives the opening of its session ---------------------------------------------


async def test_what_could_not_be_recorded_is_tried_again_while_the_lease_is_renewed(
    store: Store, session: str
) -> None:
    kept, recorded = asyncio.Event(), list[str]()

    def record() -> None:
        recorded.append("e-1")
        kept.set()

    held = Holdings(store, store.owner(), 0.3, lambda session: set(), record)
    async with held.hold(session):
        async with asyncio.timeout(20):
            await kept.wait()
    assert recorded


async def test_it_is_kept_and_renewed_until_the_last_write_has_ended(
    store: Store, session: str
) -> None:
    one, two = asyncio.Event(), asyncio.Event()
    running = [asyncio.ensure_future(event.wait()) for event in (one, two)]
    async with holdings(store, 0.3, running).hold(session):
        pass
    held_until = store.leases.holder(session)
    assert held_until is not None
    with pytest.raises(SessionBusy):
        LeaseKeeper(store, session, another(store), LONG)
    while (now := store.leases.holder(session)) is None or now == held_until:  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # until it was renewed
    one.set()
    await running[0]
    assert store.leases.holder(session) is not None
    two.set()
    while store.leases.holder(session) is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert LeaseKeeper(store, session, another(store), LONG).current.epoch == now.epoch + 1


async def test_who_opens_the_session_again_holds_it_alone(store: Store, session: str) -> None:
    event = asyncio.Event()
    running = [asyncio.ensure_future(event.wait())]
    mine = holdings(store, LONG, running)
    async with mine.hold(session) as first:
        pass
    async with mine.hold(session) as second:
        assert second.current.epoch == first.current.epoch
        event.set()
        await running[0]
        running.clear()
        await asyncio.sleep(0)
        assert store.leases.holder(session) is not None
    assert store.leases.holder(session) is None


async def test_who_cannot_open_it_again_leaves_it_kept(
    store: Store, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = asyncio.Event()
    running = [asyncio.ensure_future(event.wait())]
    mine = holdings(store, 0.3, running)
    async with mine.hold(session):
        pass

    def fails(*_: object) -> Any:
        raise StoreError("the database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(store.leases, "acquire", fails)
        with pytest.raises(StoreError):
            async with mine.hold(session):
                raise AssertionError("not reached")
    held_until = store.leases.holder(session)
    while (now := store.leases.holder(session)) == held_until:  # noqa: ASYNC110
        await asyncio.sleep(0.01)  # until it was renewed
    assert now is not None
    event.set()
    while store.leases.holder(session) is not None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("in_a_thread", [True, False])
async def test_what_runs_when_the_process_closes_keeps_it_until_the_process_ends(
    store: Store, session: str, in_a_thread: bool
) -> None:
    if in_a_thread:
        await asyncio.to_thread(int)  # the loop has a thread of its own now, which is waited for
    running = [asyncio.ensure_future(asyncio.Event().wait())]
    tasks = asyncio.all_tasks()
    mine = holdings(store, LONG, running)
    async with mine.hold(session):
        pass
    before = time.time()
    await mine.close()
    kept = store.leases.holder(session)
    assert kept is not None
    assert (kept.expires_at >= before + leases.LAST_SECONDS) == in_a_thread
    assert asyncio.all_tasks() == tasks
    running[0].cancel()
