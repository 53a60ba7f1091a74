"""The key of the trail: it seals each chain, shows what was cut, and lets nobody else go on."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from sqlalchemy import text

from agent.errors import StoreError, UsageError
from agent.store import Problem, Store
from agent.store.owner import Owner
from agent.store.safeguards import Safeguards, TrailKey
from tests.unit.store.databases import ANN, FreshUrl, ask, kinds, new_session, write_of
from tests.unit.store.tampering import as_json, cut, rewrite, rows_of, session_row, sql

KEY = "the key of this trail"
OTHER = "another key altogether"
UNSEALED = (
    "is not sealed: begun without the key (then: sayso trail seal), or its seal was taken away"
)
FOREIGN = "was sealed with another key, or changed after it was sealed"


class Open(Protocol):
    """Opens the database of a test with a key, and the one before it."""

    def __call__(self, key: str | None, before: str | None = None) -> Store: ...


@pytest.fixture
def open_with(fresh_url: FreshUrl, tmp_path: Path) -> Iterator[Open]:
    """Opens one database, with a key or without."""
    url = fresh_url()
    with ExitStack() as stack:

        def open_one(key: str | None, before: str | None = None) -> Store:
            guards = Safeguards(key, key_before=before)
            opened = Store.open(url, home=tmp_path / "home", safeguards=guards)
            stack.callback(opened.close)
            return opened

        yield open_one


@pytest.fixture
def store(open_with: Open) -> Store:
    return open_with(KEY)


@pytest.fixture
def chain(store: Store, session: str) -> str:
    """A sealed session with four entries."""
    store.trail.append(session, [(f"note.{n}", {"n": n}) for n in range(2, 5)])
    return session


def counts(store: Store) -> dict[str, int]:
    tables = ("sessions", "approvals", "rules", "effects", "trail")
    with store.engine.connect() as conn:
        return {t: conn.execute(text(f"SELECT count(*) FROM {t}")).scalar_one() for t in tables}


@contextmanager
def nothing_changes(store: Store, session: str) -> Iterator[None]:
    before = session_row(store, session), counts(store), kinds(store, session)
    yield
    assert (session_row(store, session), counts(store), kinds(store, session)) == before


def test_a_seal_is_an_hmac_of_the_chains_end(store: Store, chain: str) -> None:
    last = store.trail.entries(chain)[-1]
    message = f'["{chain}",4,"{last.hash}"]'
    expected = hmac.new(KEY.encode(), message.encode(), hashlib.sha256).hexdigest()
    assert session_row(store, chain)["trail_seal"] == expected
    assert store.trail.verify() == []


def test_every_change_renews_the_seal_in_its_own_transaction(store: Store, chain: str) -> None:
    seals = [session_row(store, chain)["trail_seal"]]
    ask(store, chain)
    seals.append(session_row(store, chain)["trail_seal"])
    store.sessions.update(chain, state="waiting")
    seals.append(session_row(store, chain)["trail_seal"])
    with pytest.raises(ValueError, match="JSON"):
        store.trail.append(chain, [("good", {}), ("bad", {"n": float("nan")})])
    assert session_row(store, chain)["trail_seal"] == seals[-1]
    store.sessions.delete(chain, ANN)
    seals.append(session_row(store, chain)["trail_seal"])
    assert len({*seals}) == 4
    assert store.trail.verify() == []


def test_one_new_seal_a_transaction_however_many_entries(
    store: Store, chain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    seal = TrailKey.seal

    def counted(self: TrailKey, session: str, seq: int, hash: str) -> str:
        made.append(seq)
        return seal(self, session, seq, hash)

    monkeypatch.setattr(TrailKey, "seal", counted)
    store.trail.append(chain, [("note", {"n": n}) for n in range(20)])
    assert made == [4, 24]  # the old one is compared, the new one is made


def test_writers_with_the_key_take_turns(open_with: Open, store: Store, chain: str) -> None:
    stores = [store, open_with(KEY)]

    def append(number: int) -> None:
        for n in range(20):
            stores[number % 2].trail.append(chain, [("note", {"by": number, "n": n})])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(append, range(4)))
    assert store.trail.verify() == []
    assert session_row(store, chain)["trail_seq"] == 84


# --- what the key shows ---------------------------------------------------------------------


def test_a_cut_chain_is_found_without_any_head(open_with: Open, store: Store, chain: str) -> None:
    cut(store, chain, 2)
    assert open_with(None).trail.verify() == []
    assert store.trail.verify() == [Problem(chain, 2, FOREIGN)]


def test_a_chain_made_anew_is_found(open_with: Open, store: Store, chain: str) -> None:
    head = store.trail.head()
    rewrite(store, chain, [row | {"data": {"forged": True}} for row in rows_of(store, chain)])
    assert open_with(None).trail.verify() == []
    assert store.trail.verify() == [Problem(chain, 4, FOREIGN)]
    assert [problem.seq for problem in open_with(None).trail.verify(head=head)] == [4]


def test_a_seal_of_another_session_does_not_fit(store: Store, chain: str) -> None:
    other = new_session(store).id
    seal = session_row(store, other)["trail_seal"]
    sql(store, f"UPDATE sessions SET trail_seal = '{seal}' WHERE id = '{chain}'")
    assert store.trail.verify() == [Problem(chain, 4, FOREIGN)]


def test_what_is_put_back_with_its_old_seal_is_found_by_a_head_alone(
    store: Store, chain: str
) -> None:
    """As ``docs/security.md`` says: a key does not show that a row is an earlier one."""
    then = session_row(store, chain)
    store.trail.append(chain, [("note.5", {})])
    head = store.trail.head()
    sql(store, f"UPDATE sessions SET trail_seq = 4, trail_hash = '{then['trail_hash']}'")
    assert [problem.seq for problem in store.trail.verify()] == [4, 5]
    sql(store, f"UPDATE sessions SET trail_seal = '{then['trail_seal']}'")
    assert [problem.seq for problem in store.trail.verify()] == [5]
    sql(store, "DELETE FROM trail WHERE seq = 5")
    assert store.trail.verify() == []
    assert [problem.seq for problem in store.trail.verify(head=head)] == [5]


@pytest.mark.parametrize("emptied", [False, True])
def test_a_seal_that_was_taken_away_does_not_come_back_by_itself(
    store: Store, chain: str, emptied: bool
) -> None:
    sql(store, "UPDATE sessions SET trail_seal = NULL")
    if emptied:
        sql(store, "DELETE FROM trail", "UPDATE sessions SET trail_seq = 0, trail_hash = ''")
        assert Problem(chain, 1, "is missing") in store.trail.verify()
    store.trail.append(chain, [("note.5", {})])
    assert store.trail.verify() == [Problem(chain, 1 if emptied else 5, UNSEALED)]


def test_odd_values_in_the_row_are_named(backend: str, store: Store, chain: str) -> None:
    if backend == "sqlite":  # PostgreSQL has types
        sql(store, "UPDATE sessions SET trail_seal = x'00ff'")
        assert store.trail.verify() == [Problem(chain, 4, FOREIGN)]
    sql(store, "UPDATE sessions SET trail_seal = 'é'")
    assert store.trail.verify() == [Problem(chain, 4, FOREIGN)]
    with pytest.raises(StoreError, match="another key"):
        store.trail.append(chain, [("note", {})])


# --- who has no key, or another -------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (None, "this process has no key for it. Nothing was changed. Set SAYSO_TRAIL_KEY"),
        (OTHER, "is sealed with another key than SAYSO_TRAIL_KEY, or was changed. Nothing was"),
    ],
)
def test_who_has_not_the_key_adds_nothing(
    open_with: Open, store: Store, chain: str, key: str | None, says: str
) -> None:
    approval = ask(store, chain)
    lease = store.leases.acquire(chain, store.owner(), ttl=600)
    stranger = open_with(key)
    changes: list[Callable[[], object]] = [
        lambda: stranger.trail.append(chain, [("note", {})]),
        lambda: stranger.sessions.update(chain, state="failed"),
        lambda: stranger.sessions.delete(chain, ANN),
        lambda: ask(stranger, chain, "c2"),
        lambda: stranger.ledger.begin(**write_of(lease, approval=approval.id)),
    ]
    for change in changes:
        with nothing_changes(store, chain), pytest.raises(StoreError, match=re.escape(says)) as e:
            change()
        assert KEY not in str(e.value)
        assert OTHER not in str(e.value)


def test_a_wrong_key_is_named_by_verify(open_with: Open, chain: str) -> None:
    assert open_with(OTHER).trail.verify() == [Problem(chain, 4, FOREIGN)]


def test_leases_and_what_adds_nothing_need_no_key(
    open_with: Open, store: Store, chain: str
) -> None:
    stranger = open_with(None)
    seal = session_row(store, chain)["trail_seal"]
    lease = stranger.leases.acquire(chain, stranger.owner(), ttl=600)
    stranger.leases.renew(lease, ttl=600)
    stranger.sessions.update(chain, title="a title")
    stranger.leases.release(lease)
    assert session_row(store, chain)["trail_seal"] == seal
    assert store.trail.verify() == []


def test_a_takeover_is_an_entry_and_needs_the_key(
    open_with: Open, store: Store, chain: str
) -> None:
    store.leases.acquire(chain, Owner("elsewhere:1:x"), ttl=-1)
    stranger = open_with(None)
    with nothing_changes(store, chain), pytest.raises(StoreError, match="SAYSO_TRAIL_KEY"):
        stranger.leases.acquire(chain, stranger.owner(), ttl=600)
    store.leases.acquire(chain, store.owner(), ttl=600)
    assert kinds(store, chain)[-1] == "lease.taken_over"
    assert store.trail.verify() == []


def test_sessions_begun_without_the_key_go_on_without_a_seal(open_with: Open) -> None:
    keyless, store = open_with(None), open_with(KEY)
    session = new_session(keyless).id
    store.trail.append(session, [("note", {})])
    keyless.trail.append(session, [("note", {})])
    assert keyless.trail.verify() == []
    assert store.trail.verify() == [Problem(session, 3, UNSEALED)]


# --- sealing --------------------------------------------------------------------------------


def test_sealing_takes_what_is_in_order_and_names_the_rest(open_with: Open) -> None:
    keyless, store = open_with(None), open_with(KEY)
    good, changed, deleted = (new_session(keyless).id for _ in range(3))
    foreign, sealed = new_session(open_with(OTHER)).id, new_session(store).id
    keyless.sessions.delete(deleted, ANN)
    sql(store, f"UPDATE trail SET kind = 'x' WHERE session = '{changed}'")
    result = store.trail.seal()
    assert (sorted(result.sealed), result.before) == (sorted([good, deleted]), [sealed])
    assert {problem.session for problem in result.problems} == {changed, foreign}
    assert session_row(store, changed)["trail_seal"] is None
    assert {p.session: p.what for p in store.trail.verify()} == {
        changed: UNSEALED,
        foreign: FOREIGN,
    }
    assert store.trail.seal().sealed == []
    store.trail.append(good, [("note", {})])
    assert store.trail.verify(good) == []


def test_what_a_living_process_works_on_is_sealed_later(open_with: Open) -> None:
    """It may have no key, and could not record what comes of a write that is under way."""
    keyless, store = open_with(None), open_with(KEY)
    session = new_session(keyless).id
    lease = keyless.leases.acquire(session, keyless.owner(), ttl=600)
    assert store.trail.seal().busy == [session]
    keyless.trail.append(session, [("note", {})], epoch=lease.epoch)
    keyless.leases.release(lease)
    assert store.trail.seal().sealed == [session]
    assert store.trail.verify() == []


def test_what_the_key_before_had_sealed_is_sealed_anew_once_it_was_checked(
    open_with: Open, store: Store, chain: str
) -> None:
    """``OTHER`` takes the place of ``KEY``."""
    changed, busy = new_session(store).id, new_session(store).id
    sql(store, f"UPDATE sessions SET trail_seq = 0, trail_hash = '' WHERE id = '{changed}'")
    lease = store.leases.acquire(busy, store.owner(), ttl=600)
    new, unsealed = open_with(OTHER, KEY), new_session(open_with(None)).id
    with nothing_changes(store, chain), pytest.raises(StoreError, match="sayso trail seal"):
        new.trail.append(chain, [("note", {})])

    result = new.trail.seal()
    assert sorted(result.sealed) == sorted([chain, unsealed])
    assert (result.before, result.busy) == ([], [busy])
    assert {problem.session for problem in result.problems} == {changed}
    new.trail.append(chain, [("note", {})])
    assert open_with(OTHER).trail.verify(chain) == []
    with pytest.raises(StoreError, match="another key"):
        store.trail.append(chain, [("note", {})])

    store.leases.release(lease)
    again = new.trail.seal()
    assert (again.sealed, sorted(again.before)) == ([busy], sorted([chain, unsealed]))
    same = open_with(OTHER, OTHER).trail.seal()
    assert (same.sealed, len(same.before)) == ([], 3)


def test_a_key_before_seals_nothing(open_with: Open) -> None:
    store = open_with(OTHER, KEY)
    session = new_session(store).id
    assert open_with(OTHER).trail.verify(session) == []
    with pytest.raises(UsageError, match="SAYSO_TRAIL_KEY is not set"):
        open_with(None, KEY).trail.seal()
    store.trail.append(session, [("note", {"text": f"{KEY} and {OTHER}"})])
    exported = as_json(list(store.trail.export()))
    assert KEY not in exported
    assert OTHER not in exported


def test_sealing_needs_the_key(open_with: Open) -> None:
    with pytest.raises(UsageError, match="SAYSO_TRAIL_KEY is not set"):
        open_with(None).trail.seal()


def test_the_key_is_shown_nowhere(store: Store, chain: str) -> None:
    store.trail.append(chain, [("note", {"text": f"They say {KEY}!", KEY: 1})])
    exported = as_json(list(store.trail.export()))
    safeguards = Safeguards(KEY)
    assert KEY not in exported
    assert "They say «masked: configured secret»!" in exported
    assert KEY not in f"{safeguards!r} {safeguards.key!r} {safeguards.masks!r}"
