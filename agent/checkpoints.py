"""LangGraph's own saver over the store's database, with a strict serialiser.

SQLite: one connection for all sessions of a process; its lock also serialises our own store
calls (see ``middleware.state.Recording``), because both write to one file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from sqlalchemy.engine import make_url

from agent.errors import StoreError, UsageError

BUSY_SECONDS = 10.0


@asynccontextmanager
async def open_saver(url: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    """The saver for a database URL, ready to use.

    Raises:
        UsageError: For PostgreSQL without the extra, or another kind of database.
        StoreError: When the database cannot be opened.
    """
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        async with _sqlite(parsed.database or "") as saver:
            yield saver
    elif parsed.get_backend_name() == "postgresql":
        async with _postgres(parsed.set(drivername="postgresql").render_as_string(False)) as saver:
            yield saver
    else:
        raise UsageError(f"SAYSO_DATABASE_URL: {parsed.get_backend_name()} is not supported.")


def strict_serialiser() -> JsonPlusSerializer:
    """Only the types LangGraph itself knows come back from a checkpoint; nothing is imported."""
    return JsonPlusSerializer(allowed_msgpack_modules=None)


@asynccontextmanager
async def _sqlite(path: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    import aiosqlite
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    try:
        async with aiosqlite.connect(path, timeout=BUSY_SECONDS) as connection:
            await connection.execute("PRAGMA synchronous=FULL")
            saver = AsyncSqliteSaver(connection, serde=strict_serialiser())
            await saver.setup()
            yield saver
    except sqlite3.DatabaseError as error:
        raise StoreError(f"The database {path} cannot be used: {error}") from error


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    try:
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    except ImportError as error:
        raise UsageError(
            "A postgresql:// database needs the extra: pip install 'sayso[postgres]'"
        ) from error
    async with AsyncPostgresSaver.from_conn_string(url, serde=strict_serialiser()) as saver:
        await saver.setup()
        yield saver


async def roll_back(saver: BaseCheckpointSaver[Any]) -> None:
    """Free the connection after a hard cancel, which can leave it inside a transaction."""
    connection = getattr(saver, "conn", None)
    if connection is not None and hasattr(connection, "in_transaction"):
        await connection.rollback()
