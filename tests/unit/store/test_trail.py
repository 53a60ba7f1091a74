"""The trail: chained, masked, and every kind of tampering is found."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from agent.canonical import canonical_json
from agent.errors import NotFound
from agent.store import Problem, Store
from agent.store.masking import MASK, looks_secret, masked
from tests.unit.store.databases import ANN, kinds, new_session


@pytest.fixture
def chain(store: Store, session: str) -> str:
    """A session with six entries."""
    store.trail.append(session, [(f"note.{n}", {"n": n}) for n in range(2, 7)])
    return session


def sql(store: Store, statement: str, **values: Any) -> None:
    with store.engine.begin() as conn:
        conn.execute(text(statement), values)


def test_entries_follow_each_other(store: Store, chain: str) -> None:
    store.trail.append(chain, [("note.7", {"n": 7})])
    entries = store.trail.entries(chain)
    assert (entries[-1].kind, entries[-1].data) == ("note.7", {"n": 7})
    assert [one.seq for one in entries] == list(range(1, 8))
    assert [one.prev for one in entries] == ["", *(one.hash for one in entries[:-1])]
    assert store.trail.verify() == []
    assert store.trail.heads() == [(chain, 7, entries[-1].hash)]


def test_anybody_can_check_an_export(store: Store, chain: str) -> None:
    def sha256(value: Any) -> str:
        return hashlib.sha256(canonical_json(value).encode()).hexdigest()

    exported = list(store.trail.export(chain))
    assert len(exported) == 6
    for e in exported:
        assert e["data_hash"] == sha256([e["salt"], e["data"]])
        inner = [e["prev"], e["seq"], e["at"], e["session"], e["kind"], e["data_hash"]]
        assert e["hash"] == sha256(inner)


def test_reading_goes_on_where_it_stopped(store: Store, chain: str) -> None:
    other = new_session(store).id
    assert [one.seq for one in store.trail.entries(chain, after=4)] == [5, 6]
    assert [one.seq for one in store.trail.entries(chain, after=1, limit=2)] == [2, 3]
    everything = store.trail.entries()
    assert [one.session for one in everything] == [chain] * 6 + [other]
    seen = everything[4].position
    assert store.trail.entries(after=seen) == everything[5:]
    assert list(store.trail.export()) == [one.model_dump() for one in everything]


def test_the_latest_come_in_order(store: Store, chain: str) -> None:
    other = new_session(store).id
    assert [one.seq for one in store.trail.latest(2, chain)] == [5, 6]
    assert [one.session for one in store.trail.latest(2)] == [chain, other]
    assert store.trail.latest(100) == store.trail.entries()
    assert store.trail.latest(3, "s-none") == []


def test_a_long_trail_is_read_in_pages(store: Store, session: str) -> None:
    store.trail.append(session, [("note", {"n": n}) for n in range(1200)])
    assert [one["seq"] for one in store.trail.export(session)] == list(range(1, 1202))
    assert store.trail.verify(session) == []


def test_all_or_none_of_several_entries(store: Store, session: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store.trail.append(session, [("good", {}), ("bad", {"n": float("nan")})])
    assert kinds(store, session) == ["session.created"]


def test_unknown_sessions_have_no_trail(store: Store) -> None:
    with pytest.raises(NotFound):
        store.trail.append("s-nope", [("note", {})])
    with pytest.raises(NotFound):
        store.trail.verify("s-nope")
    assert store.trail.entries("s-nope") == []


TAMPERED: dict[str, tuple[list[str], list[int]]] = {
    "data": (["UPDATE trail SET data = '{}' WHERE seq = 3"], [3]),
    "spaces in data": (["UPDATE trail SET data = '{\"n\": 3}' WHERE seq = 3"], [3]),
    "no JSON": (["UPDATE trail SET data = '{' WHERE seq = 3"], [3]),
    "kind": (["UPDATE trail SET kind = 'other' WHERE seq = 3"], [3]),
    "time": (["UPDATE trail SET at = '2020' WHERE seq = 3"], [3]),
    "salt": (["UPDATE trail SET salt = 'x' WHERE seq = 3"], [3]),
    "hash": (["UPDATE trail SET hash = 'x' WHERE seq = 3"], [3, 4]),
    "prev": (["UPDATE trail SET prev = 'x' WHERE seq = 3"], [3, 3]),
    "the first is gone": (["DELETE FROM trail WHERE seq = 1"], [1]),
    "the middle is gone": (["DELETE FROM trail WHERE seq IN (3, 4)"], [3]),
    "the last is gone": (["DELETE FROM trail WHERE seq = 6"], [6]),
    "all are gone": (["DELETE FROM trail"], [1]),
    "gone and numbered anew": (
        ["DELETE FROM trail WHERE seq = 6", "UPDATE sessions SET trail_seq = 5"],
        [5],
    ),
    "swapped": (
        [
            "UPDATE trail SET seq = -1 WHERE seq = 3",
            "UPDATE trail SET seq = 3 WHERE seq = 4",
            "UPDATE trail SET seq = 4 WHERE seq = -1",
        ],
        [3, 3, 4, 4, 5],
    ),
    "contents swapped": (
        [
            "UPDATE trail SET data = (SELECT data FROM trail WHERE seq = 4),"
            " salt = (SELECT salt FROM trail WHERE seq = 4),"
            " data_hash = (SELECT data_hash FROM trail WHERE seq = 4) WHERE seq = 3",
        ],
        [3],
    ),
    "erased without a tombstone": (
        ["UPDATE trail SET data = NULL, salt = NULL WHERE seq = 3"],
        [3],
    ),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_tampering_is_found_where_it_happened(store: Store, chain: str, how: str) -> None:
    statements, expected = TAMPERED[how]
    for statement in statements:
        sql(store, statement)
    problems = store.trail.verify(chain)
    assert [problem.seq for problem in problems] == expected
    assert {problem.session for problem in problems} == {chain}
    assert store.trail.verify() == problems


def test_a_rewritten_entry_breaks_the_one_after_it(store: Store, chain: str) -> None:
    third = store.trail.entries(chain)[2]
    salt, data = third.salt, {"n": 99}
    data_hash = hashlib.sha256(canonical_json([salt, data]).encode()).hexdigest()
    inner = [third.prev, 3, third.at, chain, third.kind, data_hash]
    digest = hashlib.sha256(canonical_json(inner).encode()).hexdigest()
    sql(
        store,
        "UPDATE trail SET data = :data, data_hash = :data_hash, hash = :hash WHERE seq = 3",
        data=canonical_json(data),
        data_hash=data_hash,
        hash=digest,
    )
    (problem,) = store.trail.verify()
    assert problem.seq == 4
    assert "does not follow" in problem.what


def test_what_is_missing_is_named(store: Store, chain: str) -> None:
    sql(store, "DELETE FROM trail WHERE seq IN (2, 3, 5)")
    assert store.trail.verify() == [
        Problem(chain, 2, "to 3 are missing"),
        Problem(chain, 5, "is missing"),
    ]


def test_only_one_chain_is_to_blame(store: Store, chain: str) -> None:
    other = new_session(store).id
    sql(store, "UPDATE trail SET kind = 'x' WHERE session = :s", s=other)
    assert store.trail.verify(chain) == []
    assert [problem.session for problem in store.trail.verify()] == [other]


def test_a_tombstone_does_not_excuse_what_is_erased_after_it(store: Store, chain: str) -> None:
    store.sessions.delete(chain, ANN)
    assert store.trail.verify() == []
    sql(store, "UPDATE trail SET data = NULL, salt = NULL WHERE seq = 7")
    assert [problem.seq for problem in store.trail.verify()] == [7]
    sql(store, "DELETE FROM trail WHERE seq = 7")
    assert [problem.seq for problem in store.trail.verify()] == [1, 2, 3, 4, 5, 6, 7]


SECRET = [
    "password",
    "Password",
    "db_password",
    "PASSWD",
    "token",
    "accessToken",
    "GITHUB_TOKEN",
    "api_key",
    "apiKey",
    "X-API-Key",
    "client_secret",
    "Authorization",
    "Set-Cookie",
    "private_key",
    "credentials",
    "pwd",
    "pin",
    "tokens_secret",
]
OPEN = ["tokens", "max_tokens", "token_count", "order_id", "key", "spin", "author", "passenger"]


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", OPEN)
def test_open_names(name: str) -> None:
    assert not looks_secret(name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(JSON, st.sampled_from(SECRET), st.text("xyz", min_size=3))
def test_a_secret_is_masked_however_deep_and_nothing_else_is(
    around: Any, name: str, secret: str
) -> None:
    value = {"list": [{"deep": {name: {"in": secret}}}], "around": around}
    assert masked(value)["list"] == [{"deep": {name: MASK}}]
    if not any(looks_secret(key) for key in _keys(around)):
        assert masked(value)["around"] == around
    assert value["list"] == [{"deep": {name: {"in": secret}}}]


def test_the_trail_stores_no_secret(store: Store, session: str) -> None:
    store.trail.append(session, [("note", {"headers": [{"Authorization": "geheim"}]})])
    entry = store.trail.entries(session)[-1]
    assert entry.data == {"headers": [{"Authorization": "«masked»"}]}
    with store.engine.connect() as conn:
        assert "geheim" not in str(conn.execute(text("SELECT data FROM trail")).all())


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    if isinstance(value, list):
        return [key for item in value for key in _keys(item)]
    return []
