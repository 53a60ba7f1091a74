"""What somebody can do to the record who can write the database, and knows how it is made."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sqlalchemy import insert, text

from agent.canonical import canonical_json
from agent.store import Store
from agent.store.schema import sessions, trail
from agent.store.writing import hash_of_data, hash_of_entry

Row = dict[str, Any]
Change = Callable[[list[Row], int], list[Row]]


def sql(store: Store, *statements: str, **values: Any) -> None:
    """Run statements in one transaction, past the store."""
    with store.engine.begin() as conn:
        for statement in statements:
            conn.execute(text(statement), values)


def session_row(store: Store, session: str) -> Row:
    """The row of a session, with the end of its chain."""
    with store.engine.connect() as conn:
        found = conn.execute(sessions.select().where(sessions.c.id == session))
        return dict(found.mappings().one())


def rows_of(store: Store, session: str) -> list[Row]:
    """The entries of a chain as the table has them."""
    with store.engine.connect() as conn:
        query = trail.select().where(trail.c.session == session).order_by(trail.c.seq)
        return [dict(row) for row in conn.execute(query).mappings()]


def put_rows(store: Store, session: str, rows: list[Row]) -> None:
    """Put these entries in place of those of a chain, the session's row left as it is."""
    with store.engine.begin() as conn:
        conn.execute(trail.delete().where(trail.c.session == session))
        if rows:
            kept = [{name: row[name] for name in row if name != "position"} for row in rows]
            conn.execute(insert(trail), kept)


def name_end(store: Store, session: str, last: Row) -> None:
    """Let the session say that this entry is its last."""
    sql(
        store,
        "UPDATE sessions SET trail_seq = :seq, trail_hash = :hash WHERE id = :id",
        seq=last["seq"],
        hash=last["hash"],
        id=session,
    )


def cut(store: Store, session: str, last: int) -> None:
    """Remove the end of a chain, and let the session say that it was never longer."""
    rows = rows_of(store, session)[:last]
    put_rows(store, session, rows)
    name_end(store, session, rows[-1])


def made_anew(rows: list[Row]) -> list[Row]:
    """The entries with numbers and hashes that fit: a chain of its own, salts kept."""
    made: list[Row] = []
    for seq, row in enumerate(rows, 1):
        prev = made[-1]["hash"] if made else ""
        data_hash = hash_of_data(row["salt"], canonical_json(row["data"]))
        place = (prev, seq, row["at"], row["session"], row["kind"], data_hash)
        links = {"seq": seq, "prev": prev, "data_hash": data_hash, "hash": hash_of_entry(*place)}
        made.append(row | links)
    return made


def rewrite(store: Store, session: str, rows: list[Row]) -> None:
    """Put a chain of these entries, made anew, in place of the old one, its end included."""
    rows = made_anew(rows)
    put_rows(store, session, rows)
    name_end(store, session, rows[-1])


def as_json(value: Any) -> str:
    """Everything that was given out, in one text without escapes."""
    return json.dumps(value, ensure_ascii=False)


# --- one change of a chain, at a place -------------------------------------------------------


def _changed(column: str, value: Any) -> Change:
    return lambda rows, at: [*rows[:at], rows[at] | {column: value}, *rows[at + 1 :]]


def _missing(rows: list[Row], at: int) -> list[Row]:
    return [*rows[:at], *rows[at + 1 :]]


def _swapped(rows: list[Row], at: int) -> list[Row]:
    """It changes places with its neighbour."""
    near = at - 1 if at else 1
    places = {at: rows[near]["seq"], near: rows[at]["seq"]}
    return [row | {"seq": places.get(n, row["seq"])} for n, row in enumerate(rows)]


def _duplicated(rows: list[Row], at: int) -> list[Row]:
    return [*rows, rows[at] | {"seq": len(rows) + 1}]


def _put_in(rows: list[Row], at: int) -> list[Row]:
    """One that never was, and all that follow made to fit; the session names the old end."""
    return made_anew([*rows[: at + 1], rows[at] | {"kind": "forged"}, *rows[at + 1 :]])


CHANGES: dict[str, Change] = {
    "data": _changed("data", {"n": "another"}),
    "kind": _changed("kind", "another"),
    "time": _changed("at", "2020-01-01T00:00:00.000000Z"),
    "salt": _changed("salt", "another"),
    "hash of the data": _changed("data_hash", "0" * 64),
    "hash": _changed("hash", "0" * 64),
    "previous hash": _changed("prev", "0" * 64),
    "erased": _changed("data", None),
    "missing": _missing,
    "swapped": _swapped,
    "duplicated": _duplicated,
    "put in": _put_in,
    "cut": lambda rows, at: rows[:at],
    "negative": _changed("seq", -1),
}
