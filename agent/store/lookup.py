"""Finding a row by its id or by the beginning of one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam

from agent.errors import UsageError
from agent.store.statement import Row, Statement

_ID = re.compile(r"[a-z0-9-]+")
_SHOWN = 10


class Lookup:
    """Finds one row of ``query`` by its id. Made once: a statement is costly to put together.

    Args:
        noun: What a row is called in messages.
    """

    def __init__(self, query: Select[Any], id_column: ColumnElement[str], noun: str) -> None:
        self._noun = noun
        self._whole = Statement(query.where(id_column == bindparam("text")))
        self._prefix = Statement(
            query.where(id_column >= bindparam("text"), id_column < bindparam("end"))
            .order_by(id_column)
            .limit(_SHOWN + 1)
        )

    def find(
        self, conn: Connection, text: str, *, whole: bool, missing: Callable[[], Exception]
    ) -> Row:
        """The one row whose id is ``text``, or begins with it unless ``whole``.

        Raises:
            UsageError: Several ids begin like that; the message lists them.
            Exception: What ``missing()`` returns, when there is none.
        """
        if not is_id(text):
            raise missing()
        if whole:
            rows = self._whole.all(conn, text=text)
        else:
            rows = self._prefix.all(conn, text=text, end=text + "~")
        if not rows:
            raise missing()
        if len(rows) > 1 and rows[0]["id"] != text:
            raise UsageError(_ambiguous(self._noun, text, [row["id"] for row in rows]))
        return rows[0]


def is_id(text: str) -> bool:
    """Whether this could be an id, or the beginning of one."""
    return _ID.fullmatch(text) is not None


def _ambiguous(noun: str, text: str, ids: Sequence[str]) -> str:
    more = " …" if len(ids) > _SHOWN else ""
    return (
        f"{text!r} is the beginning of more than one {noun}: {', '.join(ids[:_SHOWN])}{more}. "
        "Give more of the id."
    )
