"""LangGraph's own savers over the store's database: a strict serialiser, and the lease's fence.

A process that was stopped for so long that another one took its session over must not go on in
the history of that session: its next checkpoint would become the newest, and hide what the other
process has done since. So a checkpoint carries the epoch of its writer's lease to the database,
and is refused there when that is no longer the session's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
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

from agent.errors import LeaseLost, StoreError, UsageError

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

BUSY_SECONDS = 10.0
_MOST_CONNECTIONS = 4

_Writes = tuple[RunnableConfig, Sequence[tuple[str, Any]], str, str]
_RAN_ALONE = "~__pregel_pull"
_TOGETHER: ContextVar[sqlite3.Cursor | None] = ContextVar("the transaction under way", default=None)
_WRITING: ContextVar[str] = ContextVar("the session whose checkpoints are being written")


@asynccontextmanager
async def open_saver(url: str) -> AsyncIterator[FencedSaver]:
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


class FencedSaver(BaseCheckpointSaver[Any]):
    """A saver that writes to a session only while this process has its lease.

    It goes in front of one of LangGraph's savers, which asks :meth:`_fence` within the transaction
    of each change. A thread that was never fenced is nobody's session and can be written freely.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._epochs: dict[str, int] = {}  # shared by the copies that LangGraph makes

    def fence(self, session: str, epoch: int) -> None:
        """From now on, write to this session only under this epoch of its lease.

        It stays so after the lease was given back: a change that comes late is then refused as
        soon as another process has the session, and otherwise does no harm.
        """
        self._epochs[session] = epoch

    @contextmanager
    def _writing_to(self, thread: str) -> Iterator[None]:
        token = _WRITING.set(thread)
        try:
            yield
        finally:
            _WRITING.reset(token)

    def _fence(self) -> tuple[str, int] | None:
        """The session being written, and the epoch that it must have; ``None``: no fence."""
        session = _WRITING.get("")
        epoch = self._epochs.get(session)
        return None if epoch is None else (session, epoch)


class WholeSqliteSaver(FencedSaver, SqliteSaver):
    """LangGraph's SQLite saver, asynchronous, each operation whole in one turn of the event loop.

    ``AsyncSqliteSaver`` spreads a transaction over several turns. A store call of ours
    (synchronous, on the same file) that falls between two of them would wait for a lock that
    only the blocked loop could free; and a cancelled run would leave the connection inside a
    transaction. Here nothing comes between the beginning and the end of one, as in the store:
    a small write takes some tenths of a millisecond, less than a thread that does it beside the
    loop, and the two never wait for each other.

    What a node wrote that runs alone in its step (the model's) is saved with the checkpoint that
    follows at once, in one transaction: before it is, nothing comes of it. A process that dies
    between the two asks the model again, as one that dies a moment earlier does.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection, serde=strict_serialiser())
        self._held: dict[str, _Writes] = {}  # by session; shared by the copies as well

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        """A cursor whose changes are committed together, or not at all."""
        if (outer := _TOGETHER.get()) is not None:
            yield outer
            return
        with self.lock, closing(self.conn.cursor()) as cursor:
            self.setup()
            try:
                if (fence := self._fence()) is not None:
                    cursor.execute("BEGIN IMMEDIATE")  # what was read stays true until the commit
                    _check(cursor, *fence)
                yield cursor
                if transaction:
                    self.conn.commit()
            except BaseException as error:
                self.conn.rollback()
                if isinstance(error, sqlite3.Error):
                    raise _failed(error) from error
                raise

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint.

        Raises:
            LeaseLost: Another process has taken the session over; nothing was written.
        """
        thread = _thread_of(config)
        with self._writing_to(thread), self._with_held(thread):
            return super().put(config, checkpoint, metadata, new_versions)

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote, soon or now; raises as :meth:`put` does."""
        thread = _thread_of(config)
        if _waits_for_its_checkpoint(writes, task_path) and thread not in self._held:
            self._held[thread] = (config, writes, task_id, task_path)
            return
        with self._writing_to(thread), self._with_held(thread):
            super().put_writes(config, writes, task_id, task_path)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint asked for, or the latest; with what was written since."""
        thread = _thread_of(config)
        if thread in self._held:
            with suppress(LeaseLost), self._writing_to(thread), self._with_held(thread):
                pass
        return super().get_tuple(config)

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Everything within is one transaction."""
        with self.cursor() as cursor:
            token = _TOGETHER.set(cursor)
            try:
                yield
            finally:
                _TOGETHER.reset(token)

    @contextmanager
    def _with_held(self, thread: str) -> Iterator[None]:
        """Save what is held of this session, and what is done within, together.

        It is held on where that fails, unless another process has the session.
        """
        held = self._held.get(thread)
        if held is None:
            yield
            return
        try:
            with self._together():
                super().put_writes(*held)
                yield
        except LeaseLost:
            self._held.pop(thread, None)
            raise
        if self._held.get(thread) is held:
            del self._held[thread]

    def delete_thread(self, thread_id: str) -> None:
        """Erase a session's checkpoints; raises as :meth:`put` does."""
        self._held.pop(thread_id, None)
        with self._writing_to(thread_id):
            super().delete_thread(thread_id)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See :meth:`get_tuple`."""
        return self.get_tuple(config)

    async def alist(
        self, config: RunnableConfig | None, **kwargs: Any
    ) -> AsyncIterator[CheckpointTuple]:
        """See :meth:`list`."""
        for found in [*self.list(config, **kwargs)]:
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See :meth:`put`."""
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See :meth:`put_writes`."""
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """See :meth:`delete_thread`."""
        self.delete_thread(thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See :meth:`get_delta_channel_history`."""
        return self.get_delta_channel_history(config=config, channels=channels)


def _waits_for_its_checkpoint(writes: Sequence[tuple[str, Any]], task_path: str) -> bool:
    """Whether a task ran alone, and to its end: neither an error nor a pause is among its writes.

    Calls are tasks that were pushed, several of them to a step.
    """
    ended = not any(channel in WRITES_IDX_MAP for channel, _ in writes)
    return ended and task_path.startswith(_RAN_ALONE)


def _thread_of(config: RunnableConfig) -> str:
    return str(config["configurable"]["thread_id"])


def _failed(error: Exception) -> StoreError:
    return StoreError(
        f"The database failed while the history was read or saved: {error}. What was recorded "
        'before is kept. When the database is there again, say "continue", or: sayso resume ID'
    )


def _check(cursor: sqlite3.Cursor, session: str, epoch: int) -> None:
    """Raise unless the session's lease still has this epoch."""
    row = cursor.execute("SELECT lease_epoch FROM sessions WHERE id = ?", (session,)).fetchone()
    if row != (epoch,):
        raise LeaseLost(session)


def _postgres_saver() -> type[AsyncPostgresSaver]:
    """LangGraph's PostgreSQL saver, fenced; made when it is needed, since it is an extra.

    Raises:
        ImportError: Without the extra.
    """
    import psycopg
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg import AsyncCursor
    from psycopg.errors import DivisionByZero
    from psycopg.rows import DictRow

    class FencedPostgresSaver(FencedSaver, AsyncPostgresSaver):
        """The check is the last statement of each transaction, and its failure undoes that.

        It takes no lock on the session's row: one that is held over a turn of the event loop
        would stop our own store calls, which block the loop. So a takeover that falls between
        the check and the commit right behind it (both are sent together) is not noticed.
        """

        @asynccontextmanager
        async def _cursor(self, *, pipeline: bool = False) -> AsyncIterator[AsyncCursor[DictRow]]:
            fence = self._fence()
            try:
                async with super()._cursor(pipeline=pipeline) as cursor:
                    yield cursor
                    if fence is not None:
                        await cursor.execute(_POSTGRES_CHECK, fence)
            except psycopg.Error as error:
                if fence is not None and isinstance(error, DivisionByZero):
                    raise LeaseLost(fence[0]) from error
                raise _failed(error) from error

        async def aput(
            self,
            config: RunnableConfig,
            checkpoint: Checkpoint,
            metadata: CheckpointMetadata,
            new_versions: ChannelVersions,
        ) -> RunnableConfig:
            with self._writing_to(_thread_of(config)):
                return await super().aput(config, checkpoint, metadata, new_versions)

        async def aput_writes(
            self,
            config: RunnableConfig,
            writes: Sequence[tuple[str, Any]],
            task_id: str,
            task_path: str = "",
        ) -> None:
            with self._writing_to(_thread_of(config)):
                await super().aput_writes(config, writes, task_id, task_path)

        async def adelete_thread(self, thread_id: str) -> None:
            with self._writing_to(thread_id):
                await super().adelete_thread(thread_id)

    return FencedPostgresSaver


# In a pipeline nothing of the program runs between a statement and the commit, so the server
# itself has to fail: no such row is a division by zero.
_POSTGRES_CHECK = "SELECT 1 / count(*) FROM sessions WHERE id = %s AND lease_epoch = %s"


@asynccontextmanager
async def _sqlite(path: str) -> AsyncIterator[FencedSaver]:
    async with AsyncExitStack() as stack:
        try:
            connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
            stack.callback(connection.close)
            connection.execute("PRAGMA synchronous=FULL")
            saver = WholeSqliteSaver(connection)
            saver.setup()
        except sqlite3.DatabaseError as error:
            raise StoreError(f"The database {path} cannot be used: {error}") from error
        yield saver


@asynccontextmanager
async def _postgres(url: str) -> AsyncIterator[FencedSaver]:
    try:
        import psycopg
        from psycopg_pool import AsyncConnectionPool

        saver_class = _postgres_saver()
    except ImportError as error:
        raise UsageError(
            "A postgresql:// database needs the extra: pip install 'sayso[postgres]'"
        ) from error
    how: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": psycopg.rows.dict_row}
    # A pool, since it replaces a connection that was lost.
    pool: Any = AsyncConnectionPool(
        url,
        kwargs=how,
        min_size=1,
        max_size=_MOST_CONNECTIONS,
        timeout=BUSY_SECONDS,
        check=AsyncConnectionPool.check_connection,
        open=False,
    )
    async with AsyncExitStack() as stack:
        try:
            async with await psycopg.AsyncConnection.connect(url, **how) as connection:
                await saver_class(connection, serde=strict_serialiser()).setup()
        except (psycopg.Error, StoreError) as error:
            raise StoreError(f"The PostgreSQL database cannot be used: {error}") from error
        await stack.enter_async_context(pool)
        yield cast(FencedSaver, saver_class(pool, serde=strict_serialiser()))
