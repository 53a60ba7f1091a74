"""The state of a world: the rows of its databases, without what no goal can fix."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from agent.canonical import canonical_json
from agent.evals.tasks.task import GoalRow, StateOf

Row = dict[str, Any]


class Differing(BaseModel):
    """Rows of one table: those that the goal has and the final state lacks, and those it has
    beyond the goal. A changed row is one of each."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    table: str
    missing: list[Row] = []
    extra: list[Row] = []


@dataclass(frozen=True)
class State:
    """The rows of each table, in an order of their own: the one they were written in is no part
    of a state."""

    tables: Mapping[str, Sequence[Row]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of all rows."""
        return hashlib.sha256(canonical_json(dict(self.tables)).encode()).hexdigest()

    def has(self, wanted: GoalRow) -> bool:
        """Whether a row of that table has these values."""
        rows = self.tables.get(wanted.table, ())
        return any(wanted.row.items() <= row.items() for row in rows)

    def against(self, goal: State) -> list[Differing]:
        """Where this state differs from a goal; empty where it is the same."""
        found = []
        for table in sorted({*self.tables, *goal.tables}):
            ours, theirs = _counted(self.tables.get(table)), _counted(goal.tables.get(table))
            missing, extra = _rows(theirs - ours), _rows(ours - theirs)
            if missing or extra:
                found.append(Differing(table=table, missing=missing, extra=extra))
        return found


def read_state(folder: Path, wanted: Mapping[str, StateOf]) -> State:
    """The state of the databases in a folder.

    Raises:
        sqlite3.Error: A database is not there, or is none.
        LookupError: A table or column that is to be left out is not there.
    """
    tables: dict[str, Sequence[Row]] = {}
    for name, which in wanted.items():
        with closing(sqlite3.connect(f"{(folder / name).as_uri()}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            found = dict(_tables(db, which))
            tables |= found
            if missing := {*which.leaves_out, *which.only_whether} - found.keys():
                raise LookupError(f"{name} has no table {', '.join(sorted(missing))}")
    return State(tables)


def _tables(db: sqlite3.Connection, which: StateOf) -> Iterator[tuple[str, list[Row]]]:
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for (table,) in db.execute(f"{names} ORDER BY name").fetchall():
        left_out = which.leaves_out.get(table, [])
        whether = which.only_whether.get(table, [])
        columns = [row["name"] for row in db.execute(f'PRAGMA table_info("{table}")')]
        if missing := {*left_out, *whether} - {*columns}:
            raise LookupError(f"table {table} has no column {', '.join(sorted(missing))}")
        kept = [name for name in columns if name not in left_out]
        rows = [
            {name: row[name] is not None if name in whether else row[name] for name in kept}
            for row in db.execute(f'SELECT * FROM "{table}"')
        ]
        yield table, sorted(rows, key=canonical_json)


def _counted(rows: Sequence[Row] | None) -> Counter[str]:
    return Counter(canonical_json(row) for row in rows or ())


def _rows(counted: Counter[str]) -> list[Row]:
    return [json.loads(text) for text in sorted(counted.elements())]
