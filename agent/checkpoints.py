"""LangGraph's own savers over the store's database, with a strict serialiser."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from functools import partial
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from sqlalchemy.engine import make_url

from agent.errors import StoreError, UsageError

BUSY_SECONDS = 10.0

T = TypeVar("T")


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


class ThreadedSqliteSaver(SqliteSaver):
    """LangGraph's SQLite saver, asynchronous, each operation whole in one worker thread.

    ``AsyncSqliteSaver`` spreads a transaction over several turns of the event loop. A store call
    of ours (synchronous, on the same file) that falls between two of them would wait for a lock
    that only the blocked loop could free; and a cancelled run would leave the connection inside
    a transaction. Here a transaction begins and ends in the thread, whatever happens to the loop.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, serde=strict_serialiser())
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor whose changes are committed together, or not at all."""
        with self.lock, closing(self.conn.cursor()) as cursor:
            self.setup()
            try:
                yield cursor
            except BaseException:
                self.conn.rollback()
                raise
            if transaction:
                self.conn.commit()

    async def _in_thread(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(function, *args, **kwargs))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See :meth:`get_tuple`."""
        return await self._in_thread(self.get_tuple, config)

    async def alist(
        self, config: RunnableConfig | None, **kwargs: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """See :meth:`list`."""
        for found in await self._in_thread(lambda: [*self.list(config, **kwargs)]):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See :meth:`put`."""
        return await self._in_thread(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See :meth:`put_writes`."""
        await self._in_thread(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """See :meth:`delete_thread`."""
        await self._in_thread(self.delete_thread, thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See :meth:`get_delta_channel_history`."""
        return await self._in_thread(
            self.get_delta_channel_history, config=config, channels=channels
        )

    async def close(self) -> None:
        """Let what is under way end, then close the connection."""
        await asyncio.to_thread(self._thread.shutdown)
        self.conn.close()


@asynccontextmanager
async def _sqlite(path: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    try:
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
        connection.execute("PRAGMA synchronous=FULL")
        saver = ThreadedSqliteSaver(connection)
        saver.setup()
    except sqlite3.DatabaseError as error:
        raise StoreError(f"The database {path} cannot be used: {error}") from error
    try:
        yield saver
    finally:
        await saver.close()


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[BaseCheckpointSaver[Any]]:
    try:
        import psycopg
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    except ImportError as error:
        raise UsageError(
            "A postgresql:// database needs the extra: pip install 'sayso[postgres]'"
        ) from error
    async with AsyncExitStack() as stack:
        try:
            saver = await stack.enter_async_context(
                AsyncPostgresSaver.from_conn_string(url, serde=strict_serialiser())
            )
            await saver.setup()
        except psycopg.Error as error:
            raise StoreError(f"The PostgreSQL database cannot be used: {error}") from error
        yield saver
