"""Statements that are compiled once, and then run on the driver's own cursor.

SQLAlchemy writes the SQL of both databases and knows how values are stored. Running a statement
through it takes several times what SQLite needs for it, though, and a write has a dozen; so what
is the same at every call goes past it, within the same connections and transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from sqlalchemy import Connection, Delete, Dialect, Insert, Select, Update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeDecorator, TypeEngine

Row = dict[str, Any]
Convert = Callable[[Any], Any]


class Statement:
    """A Core statement without lists of values (``IN``), by the names of its parameters.

    All its methods raise what SQLAlchemy raises (``IntegrityError``, ``DBAPIError``).
    """

    def __init__(self, core: Select[Any] | Insert | Update | Delete) -> None:
        self._core = core
        self._compiled: dict[tuple[str, frozenset[str]], _Compiled] = {}

    def one(self, conn: Connection, **values: Any) -> Row | None:
        """The first row by column name; ``None`` when there is none."""
        compiled, cursor = self._execute(conn, values)
        try:
            row = cursor.fetchone()
            return None if row is None else compiled.read(row)
        finally:
            cursor.close()

    def all(self, conn: Connection, **values: Any) -> list[Row]:
        """All rows by column name."""
        compiled, cursor = self._execute(conn, values)
        try:
            return [compiled.read(row) for row in cursor.fetchall()]
        finally:
            cursor.close()

    def run(self, conn: Connection, values: Mapping[str, Any]) -> int:
        """The number of rows it changed. ``values``: columns to set, and parameters."""
        _, cursor = self._execute(conn, values)
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def _execute(self, conn: Connection, values: Mapping[str, Any]) -> tuple[_Compiled, Any]:
        key = conn.dialect.name, frozenset(values)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = _compile(self._core, conn.dialect, values)
        cursor = conn.connection.cursor()
        parameters = compiled.parameters(values)
        try:
            cursor.execute(compiled.sql, parameters)
        except Exception as error:
            cursor.close()
            _raise_as_sqlalchemy(error, compiled.sql, parameters, conn.dialect)
        return compiled, cursor


@dataclass(frozen=True)
class _Compiled:
    """One statement for one database: its text, and how values go in and come out.

    ``order``: the parameters' names, where the database takes them by position.
    """

    sql: str
    fixed: Mapping[str, Any]
    order: tuple[str, ...] | None
    store: tuple[tuple[str, Convert], ...]
    columns: tuple[str, ...]
    load: tuple[tuple[str, Convert], ...]

    def parameters(self, values: Mapping[str, Any]) -> Any:
        found = {**self.fixed, **values}
        for name, convert in self.store:
            found[name] = convert(found[name])
        return found if self.order is None else tuple(found[name] for name in self.order)

    def read(self, row: Any) -> Row:
        found = dict(zip(self.columns, row, strict=True))
        for name, convert in self.load:
            found[name] = convert(found[name])
        return found


def _compile(core: Any, dialect: Dialect, values: Mapping[str, Any]) -> _Compiled:
    compiled: Any = core.compile(dialect=dialect, column_keys=sorted(values))
    binds = {name: bind.type for name, bind in compiled.binds.items()}
    columns = list(core.selected_columns) if isinstance(core, Select) else []
    types = {column.name: column.type for column in columns}
    return _Compiled(
        sql=str(compiled),
        fixed={name: value for name, value in compiled.params.items() if name not in values},
        order=tuple(compiled.positiontup) if compiled.positional else None,
        store=_conversions(binds, lambda kind: kind.bind_processor(dialect)),
        columns=tuple(types),
        load=_conversions(types, lambda kind: kind.result_processor(dialect, None)),
    )


def _conversions(
    types: Mapping[str, TypeEngine[Any]],
    processor: Callable[[TypeDecorator[Any]], Convert | None],
) -> tuple[tuple[str, Convert], ...]:
    """What the types of our schema do to values; all others the drivers know themselves."""
    own = {name: kind for name, kind in types.items() if isinstance(kind, TypeDecorator)}
    found = {name: processor(kind) for name, kind in own.items()}
    return tuple((name, convert) for name, convert in found.items() if convert is not None)


def _raise_as_sqlalchemy(error: Exception, sql: str, parameters: Any, dialect: Dialect) -> NoReturn:
    base = dialect.loaded_dbapi.Error
    raise DBAPIError.instance(sql, parameters, error, base, dialect=dialect) from error
