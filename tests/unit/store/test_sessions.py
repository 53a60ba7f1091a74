"""Sessions: finding, listing, changing, deleting."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from sqlalchemy import insert, text

from agent.errors import LeaseLost, NotFound, SessionBusy, UsageError
from agent.store import Owner, Store, database
from agent.store.ids import session_id
from agent.store.records import LeaseRecord
from agent.store.schema import sessions
from agent.store.sessions import Branch
from tests.unit.store.databases import ANN, BOB, ask, kinds, new_session, write_of


def test_a_new_session_reads_as_created(store: Store) -> None:
    at = Branch("s-0", 2)
    created = new_session(store, title="cancel", labels=["private"], branched=at, policy="p")
    assert store.sessions.get(created.id) == created
    assert (created.state, created.user, created.uid, created.host) == ("done", "ann", 1000, "box")
    assert created.created_at.endswith("Z")
    (entry,) = store.trail.entries(created.id)
    assert entry.kind == "session.created"
    assert entry.data["granted"] == ["read:*", "write:*"]
    assert entry.data["by"] == {"name": "ann", "uid": 1000, "host": "box", "via": "test"}


def test_ids_are_short_and_sort_by_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1_800_000_000, 1_800_000_001, 1_900_000_000])
    monkeypatch.setattr("time.time", lambda: next(clock))
    drawn = [session_id() for _ in range(3)]
    assert drawn == sorted(drawn)
    assert {len(one) for one in drawn} == {11}


def test_an_id_that_is_taken_is_drawn_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = itertools.chain(["s-000000000"] * 2, ["s-000000001"])
    monkeypatch.setattr(database, "session_id", lambda: next(draws))
    assert new_session(store).id == "s-000000000"
    assert new_session(store).id == "s-000000001"


def test_a_prefix_finds_one_session_and_an_exact_id_wins(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = iter(["s-0a", "s-0ab", "s-0ac", "s-1"])
    monkeypatch.setattr(database, "session_id", lambda: next(draws))
    for _ in range(4):
        new_session(store)
    assert store.sessions.get("s-1").id == "s-1"
    assert store.sessions.get("s-0a").id == "s-0a"
    assert store.sessions.get("s-0ac").id == "s-0ac"
    with pytest.raises(UsageError, match=r"s-0a, s-0ab, s-0ac\. Give more"):
        store.sessions.get("s-0")


@pytest.mark.parametrize("name", ["s-nope", "", "%", "s_", "\0", "ü"])
def test_what_is_not_there_lists_what_is(store: Store, name: str) -> None:
    known = new_session(store).id
    with pytest.raises(NotFound) as missing:
        store.sessions.get(name)
    assert missing.value.tried == (known,)


def test_lists_are_newest_first_in_pages(store: Store) -> None:
    ids = [new_session(store).id for _ in range(5)]
    store.sessions.update(ids[1], title="touched")
    order = [ids[1], ids[4], ids[3], ids[2], ids[0]]
    assert [one.id for one in store.sessions.list()] == order
    assert [one.id for one in store.sessions.list(limit=2, offset=1)] == order[1:3]
    latest = store.sessions.latest()
    assert latest is not None
    assert latest.id == ids[1]


def test_there_is_no_latest_of_none(store: Store) -> None:
    assert store.sessions.latest() is None


def test_running_without_a_living_owner_reads_as_interrupted(store: Store) -> None:
    session = new_session(store).id
    lease = store.leases.acquire(session, store.owner(), ttl=600)
    store.sessions.update(session, epoch=lease.epoch, state="running")
    assert store.sessions.get(session).state == "running"
    assert [one.id for one in store.sessions.list(state="running")] == [session]
    assert store.sessions.list(state="interrupted") == []

    store.leases.renew(lease, ttl=-1)
    assert store.sessions.get(session).state == "interrupted"
    assert store.sessions.list(state="running") == []
    assert [one.id for one in store.sessions.list(state="interrupted")] == [session]
    assert [one.state for one in store.sessions.list()] == ["interrupted"]


def test_a_filtered_list_has_pages_too(store: Store) -> None:
    ids = [new_session(store).id for _ in range(6)]
    for one in ids[::2]:
        store.sessions.update(one, state="running")
    wanted = [ids[4], ids[2], ids[0]]
    assert [one.id for one in store.sessions.list(state="interrupted")] == wanted
    assert [one.id for one in store.sessions.list(1, 1, state="interrupted")] == wanted[1:2]
    assert len(store.sessions.list(2, 1, state="done")) == 2


def test_a_list_of_ten_thousand_uses_the_index(store: Store) -> None:
    session = new_session(store)
    plain = {"trail_seq": 0, "trail_hash": "", "lease_owner": "", "lease_epoch": 0}
    row = session.model_dump() | plain | {"lease_expires_at": 0.0}
    rows = [row | {"id": f"s-z{n:08}", "updated_at": f"2025-{n:08}"} for n in range(10_000)]
    with store.engine.begin() as conn:
        conn.execute(insert(sessions), rows)
    assert [one.id for one in store.sessions.list(2)] == [session.id, "s-z00009999"]
    if store.engine.dialect.name == "sqlite":
        query = (
            "EXPLAIN QUERY PLAN SELECT * FROM sessions WHERE deleted_at IS NULL "
            "ORDER BY updated_at DESC, id DESC LIMIT 50"
        )
        with store.engine.connect() as conn:
            plan = " ".join(str(step) for step in conn.execute(text(query)))
        assert "sessions_newest" in plan
        assert "TEMP B-TREE" not in plan


def test_updates_set_fields_and_record_changes_of_state(store: Store, session: str) -> None:
    before = store.sessions.get(session)
    store.sessions.update(session, state="failed", error="boom", tokens={"input": 3}, cost=0.5)
    store.sessions.update(session, state="failed", turn=2)
    after = store.sessions.get(session)
    assert (after.state, after.error, after.tokens, after.cost, after.turn) == (
        "failed",
        "boom",
        {"input": 3},
        0.5,
        2,
    )
    assert after.updated_at > before.updated_at
    assert kinds(store, session) == ["session.created", "session.state"]
    entry = store.trail.entries(session)[-1]
    assert entry.data == {"from": "done", "to": "failed", "error": "boom"}


def test_a_wider_authority_shows_in_the_trail(store: Store, session: str) -> None:
    store.sessions.update(session, granted=["read:*", "write:*"], denied=[])
    assert kinds(store, session) == ["session.created"]
    store.sessions.update(session, granted=["*"], labels=["untrusted"])
    assert store.trail.entries(session)[-1].data == {
        "granted": {"from": ["read:*", "write:*"], "to": ["*"]},
        "labels": {"from": [], "to": ["untrusted"]},
    }


def test_an_update_under_a_stale_epoch_changes_nothing(store: Store, session: str) -> None:
    mine = store.leases.acquire(session, Owner("elsewhere:1:aa"), ttl=-1)
    theirs = store.leases.acquire(session, Owner("elsewhere:2:bb"), ttl=600)
    with pytest.raises(LeaseLost):
        store.sessions.update(session, epoch=mine.epoch, title="stale")
    store.sessions.update(session, epoch=theirs.epoch, title="current")
    store.leases.release(theirs)
    with pytest.raises(LeaseLost):
        store.sessions.update(session, epoch=theirs.epoch, title="released")
    assert store.sessions.get(session).title == "current"


def test_fields_that_are_not_a_callers_cannot_be_set(store: Store, session: str) -> None:
    for wrong in ({"user": "eve"}, {"trail_seq": 9}, {"created_at": ""}, {"state": "asleep"}):
        with pytest.raises(ValueError, match=r"cannot be set|is not a state"):
            store.sessions.update(session, **wrong)
    with pytest.raises(NotFound):
        store.sessions.update("s-nope", title="x")


def test_delete_erases_the_content_and_keeps_a_tombstone(
    store: Store, lease: LeaseRecord, session: str
) -> None:
    secret = "order-no-one-may-know"
    store.sessions.update(session, title=secret, error=secret)
    approval = ask(store, session, args={"order": secret}, reason=secret)
    store.rules.add(session, "write_file", secret, {"path": {"under": secret}}, ANN)
    begun = store.ledger.begin(**write_of(lease, args={"order": secret}))
    store.ledger.finish(begun.effect.id, attempt=1, state="committed", result={"text": secret})
    store.trail.append(session, [("note", {"text": secret})])
    before = store.trail.entries(session)

    store.sessions.delete(session, BOB)

    with pytest.raises(NotFound, match=r"deleted at .*Z by bob"):
        store.sessions.get(session)
    with pytest.raises(NotFound):
        store.approvals.get(approval.id)
    assert store.sessions.list() == []
    assert store.approvals.list(status=None) == []
    assert store.ledger.list() == []
    after = store.trail.entries(session)
    assert [one.hash for one in after[:-1]] == [one.hash for one in before]
    assert all(one.erased and one.data == {} and one.salt is None for one in after[:-1])
    assert after[-1].kind == "session.deleted"
    assert after[-1].data["erased"] == {"approvals": 1, "rules": 1, "effects": 1}
    assert after[-1].data["by"]["name"] == "bob"
    assert store.trail.verify() == []
    assert secret not in _everything(store)
    with pytest.raises(LeaseLost):
        store.ledger.begin(**write_of(lease, call="c2"))
    with pytest.raises(NotFound, match="deleted at"):
        store.sessions.delete(session, ANN)
    with pytest.raises(NotFound):
        store.trail.append(session, [("note", {})])


def test_a_deleted_session_leaves_nothing_in_the_files(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/sayso.db")
    secret = "order-no-one-may-know"
    session = new_session(store, title=secret).id
    store.trail.append(session, [("note", {"text": secret})])
    ask(store, session, reason=secret)
    assert _in_files(tmp_path, secret)
    store.sessions.delete(session, ANN)
    assert not _in_files(tmp_path, secret)
    store.close()


def test_a_session_that_another_process_drives_is_not_deleted(store: Store, session: str) -> None:
    store.leases.acquire(session, Owner("elsewhere:1:aa"), ttl=600)
    with pytest.raises(SessionBusy, match="process 1 on elsewhere"):
        store.sessions.delete(session, ANN)
    assert store.sessions.get(session).id == session


def _everything(store: Store) -> str:
    with store.engine.connect() as conn:
        tables = ("sessions", "approvals", "rules", "effects", "trail")
        return str([conn.execute(text(f"SELECT * FROM {table}")).all() for table in tables])


def _in_files(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.glob("sayso.db*"))
