"""The trail: chained, masked, and every kind of tampering is found."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.errors import NotFound
from agent.store import Problem, Store
from agent.store.heads import Head
from agent.store.safeguards import Safeguards
from agent.store.schema import trail
from tests.unit.store.databases import ANN, kinds, new_session
from tests.unit.store.tampering import CHANGES, made_anew, name_end, put_rows, rows_of, sql


@pytest.fixture
def chain(store: Store, session: str) -> str:
    """A session with six entries."""
    store.trail.append(session, [(f"note.{n}", {"n": n}) for n in range(2, 7)])
    return session


def test_entries_follow_each_other(store: Store, chain: str) -> None:
    store.trail.append(chain, [("note.7", {"n": 7})])
    entries = store.trail.entries(chain)
    assert (entries[-1].kind, entries[-1].data) == ("note.7", {"n": 7})
    assert [one.seq for one in entries] == list(range(1, 8))
    assert [one.prev for one in entries] == ["", *(one.hash for one in entries[:-1])]
    assert store.trail.verify() == []
    assert store.trail.heads() == [(chain, 7, entries[-1].hash)]


def checked_elsewhere(lines: Iterable[str]) -> dict[str, tuple[int, str]]:
    """What ``docs/security.md`` tells somebody to do without this program: the chains' ends."""

    def sha256(value: Any) -> str:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    ends: dict[str, tuple[int, str]] = {}
    for entry in map(json.loads, lines):
        seq, prev = ends.get(entry["session"], (0, ""))
        if not entry["erased"]:
            assert entry["data_hash"] == sha256([entry["salt"], entry["data"]])
        links = [prev, seq + 1, entry["at"], entry["session"], entry["kind"], entry["data_hash"]]
        assert (entry["seq"], entry["hash"]) == (seq + 1, sha256(links))
        ends[entry["session"]] = (seq + 1, entry["hash"])
    return ends


@pytest.fixture
def lines(store: Store, chain: str) -> list[str]:
    """An export with odd values, and with a session that was deleted."""
    odd = {"é\ud800\0": [1.0, -0.0, 1e22, 5e-324, 2**70, True, None, {}], '"\\': "\u2028 «»"}
    store.trail.append(chain, [("odd", odd)])
    gone = new_session(store).id
    store.trail.append(gone, [("note", {})])
    store.sessions.delete(gone, ANN)
    return [json.dumps(entry) for entry in store.trail.export()]


def test_anybody_can_check_an_export_against_a_head(store: Store, lines: list[str]) -> None:
    assert checked_elsewhere(lines) == store.trail.head().ends


@pytest.mark.parametrize(
    "change",
    [
        lambda lines: [line.replace('"n": 3', '"n": 4') for line in lines],
        lambda lines: [line.replace("note.3", "note.4") for line in lines],
        lambda lines: lines[:3] + lines[4:],
        lambda lines: [lines[1], lines[0], *lines[2:]],
        lambda lines: [*lines, lines[-1]],
    ],
)
def test_who_checks_an_export_sees_what_was_changed(
    lines: list[str], change: Callable[[list[str]], list[str]]
) -> None:
    with pytest.raises(AssertionError):
        checked_elsewhere(change(lines))


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
        [3, 3, 4, 4, 4, 5],
    ),
    "reordered": (
        [
            "UPDATE trail SET position = -1 WHERE seq = 3",
            "UPDATE trail SET position = (SELECT position FROM trail WHERE seq = 4) + 1000"
            " WHERE seq = 4",
        ],
        [3, 5],
    ),
    "places swapped": (
        [
            "UPDATE trail SET position = position + 1000 WHERE seq IN (3, 4)",
            "UPDATE trail SET position = (SELECT position FROM trail WHERE seq = 4) - 1000"
            " WHERE seq = 3",
            "UPDATE trail SET position = position - 1001 WHERE seq = 4",
        ],
        [4],
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


def test_where_it_is_shown_elsewhere_its_place_is_told(store: Store, chain: str) -> None:
    """Entries of several sessions are shown by their place; each session's stay in order."""
    other = new_session(store).id
    store.trail.append(chain, [("note.7", {})])
    store.trail.append(other, [("note.2", {})])
    assert store.trail.verify() == []
    places = {entry.seq: entry.position for entry in store.trail.entries(chain)}
    swap = "UPDATE trail SET position = :new WHERE position = :old"
    for old, new in ((places[2], -1), (places[7], places[2]), (-1, places[7])):
        sql(store, swap, old=old, new=new)
    shown = [entry.seq for entry in store.trail.entries() if entry.session == chain]
    assert shown == [1, 7, 3, 4, 5, 6, 2]
    what = "does not stand behind the entry before it: they were reordered"
    assert store.trail.verify() == [Problem(chain, 3, what), Problem(chain, 7, what)]


@settings(max_examples=60)
@given(st.sampled_from(sorted(CHANGES)), st.integers(1, 5), st.integers(0, 4))
def test_any_change_at_any_place_is_found_and_no_other_chain_is_blamed(
    store: Store, how: str, length: int, place: int
) -> None:
    chain, other = new_session(store).id, new_session(store).id
    for session in (chain, other):
        store.trail.append(session, [("note", {"n": n}) for n in range(length)])
    assert store.trail.verify(chain) == store.trail.verify(other) == []
    put_rows(store, chain, CHANGES[how](rows_of(store, chain), min(place, length)))
    assert {problem.session for problem in store.trail.verify(chain)} == {chain}
    assert store.trail.verify(other) == []


@settings(max_examples=20)
@given(st.integers(0, 4))
def test_an_end_that_is_named_wrongly_is_found(store: Store, place: int) -> None:
    chain = new_session(store).id
    store.trail.append(chain, [("note", {"n": n}) for n in range(5)])
    name_end(store, chain, rows_of(store, chain)[place])
    assert [problem.seq for problem in store.trail.verify(chain)] == [6]


def test_an_entry_of_another_session_is_found(store: Store, chain: str) -> None:
    other = new_session(store).id
    store.trail.append(other, [(f"note.{n}", {"n": n}) for n in range(2, 7)])
    rows = rows_of(store, chain)
    foreign = rows_of(store, other)[2] | {"session": chain}
    put_rows(store, chain, [*rows[:2], foreign, *rows[3:]])
    assert [problem.seq for problem in store.trail.verify(chain)] == [3, 3, 4]
    assert store.trail.verify(other) == []


def test_a_session_without_any_entry_is_found(store: Store, chain: str) -> None:
    put_rows(store, chain, [])
    name_end(store, chain, {"seq": 0, "hash": ""})
    assert store.trail.verify() == [Problem(chain, 1, "is missing")]


def test_an_entry_before_the_first_is_found(store: Store, chain: str) -> None:
    rows = rows_of(store, chain)
    put_rows(store, chain, [rows[2] | {"seq": 0}, *rows])
    assert store.trail.verify() == [Problem(chain, 0, "stands before the first entry")]


def test_entries_of_no_session_are_found(store: Store, chain: str) -> None:
    stray = (
        "INSERT INTO trail (session, seq, at, kind, data_hash, prev, hash)"
        " VALUES ('s-stray', 1, '', '', '', '', '')"
    )
    if store.engine.dialect.name == "sqlite":  # where only the program asks for foreign keys
        with closing(sqlite3.connect(str(store.engine.url.database))) as db, db:
            db.execute(stray)
    else:
        sql(store, "ALTER TABLE trail DROP CONSTRAINT trail_session_fkey", stray)
    problems = store.trail.verify()
    assert {problem.session for problem in problems} == {"s-stray"}
    assert problems[0] == Problem("s-stray", 0, "entries of a session that does not exist")
    assert problems[0] in store.trail.verify(head=Head([("s-stray", 1, "0" * 64)]))


@pytest.mark.parametrize("column", ["seq", "at", "kind", "data", "salt", "data_hash", "hash"])
def test_values_of_another_type_are_found(tmp_path: Path, column: str) -> None:
    """SQLite takes any type in any column; PostgreSQL does not."""
    store = Store.open(f"sqlite:///{tmp_path}/sayso.db")
    chain = new_session(store).id
    for statement in (
        f"UPDATE trail SET {column} = x'00ff' WHERE seq = 1",
        "UPDATE sessions SET trail_hash = x'00'",
        "UPDATE sessions SET trail_seq = x'00'",
    ):
        sql(store, statement)
        assert {problem.session for problem in store.trail.verify()} == {chain}
    store.close()


CHAINS = {"trail": "session", "sessions": "id"}
"""The tables that a chain stands in, and the column that names its session there."""

COLUMNS = {
    "trail": [column.name for column in trail.columns],
    "sessions": ["id", "trail_seq", "trail_hash", "trail_seal", "deleted_at", "deleted_by"],
}
VALUES = {
    "nothing": "NULL",
    "an empty text": "''",
    "a word": "'zz'",
    "a number as text": "'4 '",
    "a number": "3",
    "nought": "0",
    "below nought": "-1",
    "the largest number": "9223372036854775807",
    "a fraction": "2.5",
    "without end": "9e999",
    "bytes": "x'00ff'",
    "no UTF-8": "CAST(x'7aff0a1b5b' AS TEXT)",
    "a NUL": "'a' || char(0) || 'b'",
    "controls": "char(27) || '[2J' || char(10) || 'all intact'",
    "broken JSON": "'{\"a\":'",
    "deep JSON": "replace(hex(zeroblob(5000)), '0', '[')",
    "long": "hex(zeroblob(500000))",
}


@pytest.fixture
def loose(tmp_path: Path) -> Iterator[Store]:
    """Two chains of three entries, in tables that take whatever is put into them."""
    store = Store.open(f"sqlite:///{tmp_path}/sayso.db")
    for session in (new_session(store).id, new_session(store).id):
        store.trail.append(session, [("note", {"n": n}) for n in range(2)])
    for name in CHAINS:
        loosen = f"CREATE TABLE kept_{name} AS SELECT * FROM {name}", f"DROP TABLE {name}"
        past(store, *loosen, f"CREATE TABLE {name} AS SELECT * FROM kept_{name}")
    yield store
    store.close()


def past(store: Store, *statements: str) -> None:
    """Run statements past the program and the rules that it asks SQLite to keep."""
    with closing(sqlite3.connect(str(store.engine.url.database))) as db, db:
        for statement in statements:
            db.execute(statement)


def mended(store: Store) -> None:
    for name in CHAINS:
        past(store, f"DELETE FROM {name}", f"INSERT INTO {name} SELECT * FROM kept_{name}")


@settings(max_examples=200)
@given(st.data())
def test_whatever_stands_in_a_damaged_chain_is_found_and_no_other_is_blamed(
    loose: Store, data: st.DataObject
) -> None:
    damaged, other = (name for name, _, _ in loose.trail.heads())
    table = data.draw(st.sampled_from(sorted(CHAINS)))
    column = data.draw(st.sampled_from(COLUMNS[table]))
    value = VALUES[data.draw(st.sampled_from(sorted(VALUES)))]
    where = f"WHERE {CHAINS[table]} = '{damaged}'"
    if table == "trail" and data.draw(st.booleans()):
        where += " AND seq = 2"
    past(loose, f"UPDATE {table} SET {column} = {value} {where}")
    is_changed = rows(loose, table) != rows(loose, f"kept_{table}")
    problems = loose.trail.verify()
    lengths = [loose.trail.length(name) for name in (damaged, other, None)]
    mended(loose)
    assert bool(problems) == (is_changed and column != "trail_seal")
    assert other not in {problem.session for problem in problems}
    assert all(isinstance(problem.seq, int) for problem in problems)
    assert lengths[1:] == [3, 6]
    assert loose.trail.verify() == []


def rows(store: Store, table: str) -> list[Any]:
    with closing(sqlite3.connect(str(store.engine.url.database))) as db:
        db.text_factory = lambda text: ("text", text)
        return db.execute(f"SELECT * FROM {table}").fetchall()


def test_an_entry_that_is_there_twice_is_found(loose: Store) -> None:
    chain = loose.trail.heads()[0][0]
    past(loose, f"INSERT INTO trail SELECT * FROM trail WHERE session = '{chain}' AND seq = 2")
    assert loose.trail.verify() == [Problem(chain, 2, "is there twice")]


def test_entries_of_another_type_are_found_in_postgresql_too(
    postgres_schema: Callable[[], str], tmp_path: Path
) -> None:
    store = Store.open(postgres_schema(), home=tmp_path)
    chain = new_session(store).id
    for change in (
        "ALTER TABLE sessions ALTER trail_seq TYPE text USING 'zz'",
        "ALTER TABLE trail ALTER seq TYPE text USING 'zz'",
        "ALTER TABLE trail ALTER data TYPE jsonb USING data::jsonb",
        "ALTER TABLE sessions ALTER trail_hash TYPE bytea USING '\\x00'",
        "ALTER TABLE trail ALTER position DROP IDENTITY IF EXISTS, "
        "ALTER position TYPE text USING 'zz'",
    ):
        sql(store, change)
        assert {problem.session for problem in store.trail.verify()} == {chain}
    store.close()


def test_a_damaged_chain_is_not_sealed_and_the_others_are(loose: Store) -> None:
    damaged, other = (name for name, _, _ in loose.trail.heads())
    url = str(loose.engine.url)
    for change, what in (
        ("trail_seq = 'zz'", "the session does not say which entry is its last"),
        ("lease_epoch = 'zz'", "is not sealed: The row of session"),
        ("lease_owner = CAST(x'ff' AS TEXT)", "is not sealed: The database"),
        ("id = CAST(x'ff' AS TEXT)", "is not the id of a session"),
    ):
        past(loose, f"UPDATE sessions SET {change} WHERE id = '{damaged}'")
        keyed = Store.open(url, safeguards=Safeguards("a key that only this test has"))
        sealing = keyed.trail.seal()
        assert sealing.sealed + sealing.before == [other]
        assert any(problem.what.startswith(what) for problem in sealing.problems)
        keyed.close()
        mended(loose)


def test_a_rewritten_entry_breaks_the_one_after_it(store: Store, chain: str) -> None:
    rows = rows_of(store, chain)
    third = made_anew([*rows[:2], rows[2] | {"data": {"n": 99}}])[2]
    put_rows(store, chain, [*rows[:2], third, *rows[3:]])
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
    assert [problem.seq for problem in store.trail.verify()] == [1, 2, 3, 4, 5, 6, 6, 7]


@pytest.mark.parametrize("column", ["deleted_at", "deleted_by"])
def test_a_session_that_is_only_marked_as_deleted_is_found(
    store: Store, chain: str, column: str
) -> None:
    sql(
        store,
        f"UPDATE sessions SET {column} = '2026-01-01T00:00:00.000000Z' WHERE id = :s",
        s=chain,
    )
    what = "the session is marked as deleted, and no entry says so"
    assert store.trail.verify() == [Problem(chain, 6, what)]


def test_a_deleted_session_that_is_not_marked_so_is_found(store: Store, chain: str) -> None:
    store.sessions.delete(chain, ANN)
    sql(store, "UPDATE sessions SET deleted_at = NULL, deleted_by = NULL")
    what = "the session was deleted, and is not marked so any more"
    assert store.trail.verify() == [Problem(chain, 7, what)]


def test_the_trail_stores_no_secret(store: Store, session: str) -> None:
    store.trail.append(session, [("note", {"headers": [{"Authorization": "geheim"}]})])
    entry = store.trail.entries(session)[-1]
    assert entry.data == {"headers": [{"Authorization": "«masked»"}]}
    assert "geheim" not in str(rows_of(store, session))
