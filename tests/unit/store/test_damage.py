"""Rows that hold what the program never writes: SQLite takes any type in any column."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table

from agent.errors import NotFound, StoreError
from agent.store import Store
from agent.store.schema import approvals, effects, rules, sessions, trail
from tests.unit.store.databases import ANN, ask, new_session, write_of
from tests.unit.store.tampering import sql

TABLES: dict[str, Table] = {t.name: t for t in (sessions, approvals, effects, rules, trail)}
LISTINGS: dict[str, list[Callable[[Store, str], Any]]] = {
    "sessions": [
        lambda store, _: store.sessions.list(),
        lambda store, session: store.sessions.get(session),
        lambda store, session: store.leases.holder(session),
    ],
    "approvals": [
        lambda store, _: store.approvals.list(),
        lambda store, session: store.approvals.list(None, session),
        lambda store, _: store.approvals.get("a"),
    ],
    "effects": [
        lambda store, _: store.ledger.list(),
        lambda store, session: store.ledger.for_turn(session, 1),
        lambda store, _: store.ledger.get("e"),
    ],
    "rules": [lambda store, session: store.rules.active(session)],
    "trail": [
        lambda store, _: store.trail.entries(),
        lambda store, session: store.trail.latest(50, session),
        lambda store, session: list(store.trail.export(session)),
    ],
}
"""What shows the rows of each table."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(f"sqlite:///{tmp_path}/sayso.db")
    yield opened
    opened.close()


@pytest.fixture
def session(store: Store) -> str:
    """A running session with a row in every table."""
    session = new_session(store, title="t").id
    lease = store.leases.acquire(session, store.owner(), ttl=600)
    store.sessions.update(session, state="running")
    ask(store, session)
    store.ledger.begin(**write_of(lease))
    store.rules.add(session, "act", "any", {}, ANN)
    return session


def shown(store: Store, session: str, table: str) -> list[Any]:
    return [listing(store, session) for listing in LISTINGS[table]]


@pytest.mark.parametrize("value", ["x'ff00'", "'zz'", "'['", "1.5"])
@pytest.mark.parametrize(
    ("table", "column"), [(name, c.name) for name, t in TABLES.items() for c in t.columns]
)
def test_a_damaged_row_is_shown_or_named(
    store: Store, session: str, table: str, column: str, value: str
) -> None:
    """What cannot be shown is told in words; no listing breaks over it in another way."""
    damage = (
        f'UPDATE {table} SET "{column}" = {value} WHERE rowid = (SELECT max(rowid) FROM {table})'
    )
    with closing(sqlite3.connect(str(store.engine.url.database))) as db, db:
        try:
            db.execute(damage)
        except sqlite3.IntegrityError:
            assert column in ("n", "position")  # SQLite's own number, which has a type
    for listing in LISTINGS[table]:
        with suppress(NotFound):
            try:
                listing(store, session)
            except StoreError as error:
                told = str(error)
            else:
                continue
            assert f"row of the table {table} is damaged" in told


DAMAGES = [
    ("sessions", "turn", "turn"),
    ("sessions", "tools", "tools"),
    ("sessions", "lease_expires_at", "expires_at"),
    ("approvals", "args", "args"),
    ("approvals", "status", "status"),
    ("effects", "attempts", "attempts"),
    ("effects", "state", "state"),
    ("effects", "result", "result"),
    ("rules", "scope_args", "scope_args"),
    ("trail", "seq", "seq"),
    ("trail", "data", "data"),
]


@pytest.mark.parametrize(("table", "column", "field"), DAMAGES)
def test_which_row_is_damaged_is_said(
    store: Store, session: str, table: str, column: str, field: str
) -> None:
    last = f"SELECT max(rowid) FROM {table}"
    sql(store, f"UPDATE {table} SET {column} = 'zz' WHERE rowid = ({last})")
    with pytest.raises(StoreError) as error:
        shown(store, session, table)
    said = str(error.value)
    assert error.value.exit_code == 1
    assert re.search(rf"table {table} is damaged \([^)]+\): its {field} is 'zz'", said)
    assert "Nothing was changed." in said
    command = "sayso trail verify" if table == "trail" else f"sayso trail show {session}"
    assert said.endswith(command)


@pytest.mark.parametrize("column", ["trail_seq", "lease_epoch", "lease_expires_at"])
def test_nothing_is_written_about_a_session_whose_row_is_damaged(
    store: Store, session: str, column: str
) -> None:
    sql(store, f"UPDATE sessions SET {column} = 'zz'")
    with pytest.raises(StoreError, match=f"its {column} is 'zz'"):
        store.trail.append(session, [("note", {})])


def test_verify_names_what_the_listings_refuse(store: Store, session: str) -> None:
    before = store.trail.verify()
    sql(
        store,
        "INSERT INTO trail (session, seq, at, kind, data_hash, prev, hash)"
        f" VALUES ('{session}', 'zz', '', '', '', '', '')",
    )
    with pytest.raises(StoreError, match=f"session '{session}', seq 'zz'"):
        store.trail.latest(50)
    (problem,) = store.trail.verify()
    assert (before, problem.session) == ([], session)
    assert "what stands there is no entry" in problem.what
