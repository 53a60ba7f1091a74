"""The checkpointer beside the store, over SQLite and over PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic import BaseModel
from sqlalchemy import text

from agent.application import Application
from agent.checkpoints import FencedSaver, open_saver, strict_serialiser
from agent.errors import LeaseLost, StoreError, UsageError
from agent.evals.driving import converse, review
from agent.evals.reviewers import Edits, Rejects, When, approves, stays_silent
from agent.inbox import decide
from agent.models.scripted import ScriptedChatModel
from agent.store import Owner, Store
from agent.types import Actor, Decision
from tests.support.sessions import application, calls
from tests.unit.store.databases import (
    backend,
    empty_url,
    postgres,
    postgres_schema,
)
from tools.contract import Contract, make_tool

__all__ = ["backend", "empty_url", "postgres", "postgres_schema"]

BEN = Actor("ben", 1001, "another machine", "cli")


class Number(BaseModel):
    n: int


class World:
    def __init__(self) -> None:
        self.numbers: list[int] = []

    def tool(self) -> Any:
        async def act(n: int) -> str:
            """Change a number."""
            self.numbers.append(n)
            return f"changed {n}"

        writes = Contract(effects=frozenset({"write:n"}), open_world=False)
        return make_tool(act, args=Number, contract=writes)


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


async def put(saver: Any, thread: str, **values: Any) -> Any:
    versions = dict.fromkeys(values, "1")
    checkpoint = {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}
    return await saver.aput(config(thread), checkpoint, {"source": "loop", "step": 0}, versions)


# --- a whole session on either database ------------------------------------------------------


@asynccontextmanager
async def process(
    home: Path, url: str, world: World, steps: list[Any]
) -> AsyncIterator[Application]:
    """What one process opens: its own store, saver and model over the shared database."""
    model = ScriptedChatModel(steps)
    async with application(home, model, tools=[world.tool()], database_url=url) as app:
        yield app


async def test_a_session_pauses_is_decided_elsewhere_and_goes_on_over_the_database_alone(
    empty_url: str, tmp_path: Path
) -> None:
    world = World()
    home = tmp_path / "home"
    writes = calls(("act", {"n": 1}), ("act", {"n": 2}), ("act", {"n": 3}), ids=["a", "b", "c"])
    steps = [writes, "Done.", "Fine."]
    async with process(home, empty_url, world, steps) as app, app.new_session() as opened:
        session_id = opened.id
        paused = await converse(opened, "change them", stays_silent)
        assert (paused.done.state, paused.done.exit) == ("waiting", 3)

    store = Store.open(empty_url)  # a reviewer's machine: no state folder, no session
    by_number = {row.args["n"]: row for row in store.approvals.list()}
    decide(store, [(by_number[1].id, Decision("approve"))], BEN, lambda name: None)
    reject = Decision("reject", message="two is even")
    decide(store, [(by_number[2].id, reject)], BEN, lambda name: None)
    store.close()

    async with (
        process(home, empty_url, world, steps) as app,
        app.open_session(session_id) as opened,
    ):
        assert [row.args["n"] for row in opened.pending()] == [3]
        first = [event async for event in opened.resume()]
        assert first[-1].state == "waiting"  # type: ignore[union-attr]
        assert world.numbers == [1]
        finished = await review(opened, Edits({"n": 30}))

        assert world.numbers == [1, 30]
        assert (finished.done.state, finished.done.answer) == ("done", "Done.")
        assert finished.done.exit == 5
        results = {
            m.tool_call_id: m.text for m in await opened.history() if isinstance(m, ToolMessage)
        }
        assert results["a"] == "changed 1"
        assert "two is even" in results["b"]
        assert results["c"].endswith("changed 30")
        deciders = {row.args["n"]: row.decided_by for row in app.store.approvals.list(None)}
        assert deciders == {1: "ben", 2: "ben", 3: "ana"}
        assert app.store.trail.verify() == []
        assert (await converse(opened, "thanks", approves)).done.answer == "Fine."


async def test_fork_move_on_cancel_and_delete_leave_nothing_behind(
    empty_url: str, tmp_path: Path
) -> None:
    world = World()
    write = calls(("act", {"n": 7}))
    steps = [write, "Moved on.", write, "never said"]
    async with process(tmp_path / "home", empty_url, world, steps) as app:
        async with app.new_session() as opened:
            await converse(opened, "a secret word: xyzzy", stays_silent)
            fork = await app.fork(opened.id)
            _ = [event async for event in opened.run("never mind", supersede=True)]
            await converse(opened, "once more", stays_silent)
            await opened.cancel()
            assert opened.record.state == "cancelled"
        assert world.numbers == []
        for session_id in (opened.id, fork.id):
            await app.delete(session_id)
            assert await app.saver.aget_tuple(config(session_id)) is None
        assert app.store.trail.verify() == []
        if empty_url.startswith("postgresql"):
            assert _found_in_postgres(empty_url, b"xyzzy") == []


def _found_in_postgres(url: str, text: bytes) -> list[str]:
    """The tables of the schema in which a text occurs."""
    with psycopg.connect(url) as conn:
        names = [
            row[0]
            for row in conn.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
            )
        ]
        assert {"checkpoints", "checkpoint_writes", "sessions", "trail"} <= set(names)
        return [name for name in names if _holds(conn, name, text)]


def _holds(conn: psycopg.Connection[Any], table: str, text: bytes) -> bool:
    rows = conn.execute(f"SELECT * FROM {table}").fetchall()
    return any(text in (v if isinstance(v, bytes) else str(v).encode()) for r in rows for v in r)


async def test_sessions_of_one_process_run_side_by_side(empty_url: str, tmp_path: Path) -> None:
    world = World()
    steps = [calls(("act", {"n": 1}), ("act", {"n": 2})), "Done."]
    reviewer = When(lambda approval: approval.args["n"] == 1, approves, Rejects("no"))
    async with process(tmp_path / "home", empty_url, world, steps) as app:

        async def one() -> str:
            async with app.new_session() as opened:
                return (await converse(opened, "go", reviewer)).done.state

        assert await asyncio.gather(*(one() for _ in range(8))) == ["done"] * 8
        assert world.numbers == [1] * 8
        assert [effect.state for effect in app.store.ledger.list()] == ["committed"] * 8
        assert app.store.trail.verify() == []


# --- the saver by itself ---------------------------------------------------------------------


async def test_what_was_saved_is_read_back_by_another_process(empty_url: str) -> None:
    Store.open(empty_url).close()
    messages = [HumanMessage("hello"), AIMessage("there")]
    async with open_saver(empty_url) as saver:
        saved = await put(saver, "t", messages=messages)
        await saver.aput_writes(saved, [("one", 1), ("two", {"a": [2]})], "task")
    async with open_saver(empty_url) as saver:
        found = await saver.aget_tuple(config("t"))
        assert found is not None
        assert found.checkpoint["channel_values"]["messages"] == messages
        assert found.pending_writes == [("task", "one", 1), ("task", "two", {"a": [2]})]
        assert [entry.config async for entry in saver.alist(config("t"))] == [found.config]
        await saver.adelete_thread("t")
        assert await saver.aget_tuple(config("t")) is None


def test_only_known_types_come_back_from_a_checkpoint(caplog: pytest.LogCaptureFixture) -> None:
    """A checkpoint is data: reading one imports nothing and calls nothing."""
    serialiser = strict_serialiser()
    stranger = serialiser.loads_typed(serialiser.dumps_typed({"value": Number(n=1)}))
    assert not isinstance(stranger["value"], Number)
    message = HumanMessage("hello")
    assert serialiser.loads_typed(serialiser.dumps_typed(message)) == message


@pytest.fixture
def beside(tmp_path: Path) -> Iterator[tuple[str, Store, str]]:
    """A SQLite database, a store over it, and a session in that."""
    url = f"sqlite:///{tmp_path}/sayso.db"
    store = Store.open(url)
    session = store.sessions.create(
        model="m", tools=[], workspace=None, granted=[], denied=[], actor=BEN
    )
    yield url, store, session.id
    store.close()


async def test_a_store_call_never_waits_for_a_checkpoint_that_only_the_loop_could_finish(
    beside: tuple[str, Store, str],
) -> None:
    """A store call blocks the loop; begun between two halves of a transaction it would wait."""
    url, store, session = beside
    async with open_saver(url) as saver:
        saved = await put(saver, "t")
        writing = threading.Event()
        connection: sqlite3.Connection = saver.conn  # type: ignore[attr-defined]
        connection.set_trace_callback(
            lambda statement: writing.set() if statement.startswith("INSERT") else None
        )
        task = asyncio.create_task(saver.aput_writes(saved, [("a", 1), ("b", 2)], "task"))
        await asyncio.sleep(0)
        assert writing.wait(30)
        store.trail.append(session, [("meanwhile", {})])  # the loop stands still for as long
        await task
        assert store.trail.entries(session)[-1].kind == "meanwhile"
        assert len((await saver.aget_tuple(saved)).pending_writes or ()) == 2  # type: ignore[union-attr]


async def test_a_cancelled_checkpoint_leaves_no_transaction_open(
    beside: tuple[str, Store, str],
) -> None:
    url, store, session = beside
    async with open_saver(url) as saver:
        saved = await put(saver, "t")
        for number in range(20):
            task = asyncio.create_task(saver.aput_writes(saved, [("a", 1)], f"task {number}"))
            for _ in range(number % 4):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            store.trail.append(session, [("after", {"number": number})])
        assert not saver.conn.in_transaction  # type: ignore[attr-defined]
        assert await saver.aget_tuple(config("t")) is not None


async def test_closing_lets_what_is_under_way_end(beside: tuple[str, Store, str]) -> None:
    url, _, _ = beside
    async with open_saver(url) as saver:
        saved = await put(saver, "t")
        task = asyncio.create_task(saver.aput_writes(saved, [("a", 1)], "task"))
        await asyncio.sleep(0)
    await task
    async with open_saver(url) as saver:
        found = await saver.aget_tuple(saved)
        assert found is not None
        assert found.pending_writes == [("task", "a", 1)]


async def test_a_write_that_fails_half_way_is_undone_whole(beside: tuple[str, Store, str]) -> None:
    url, _, _ = beside
    async with open_saver(url) as saver:
        saved = await put(saver, "t")
        with pytest.raises(TypeError):
            await saver.aput_writes(saved, [("good", 1), ("bad", lambda: None)], "task")
        found = await saver.aget_tuple(saved)
        assert found is not None
        assert found.pending_writes == []
        await saver.aput_writes(saved, [("good", 1)], "task")


# --- fenced by the lease ---------------------------------------------------------------------


@pytest.fixture
async def fenced(empty_url: str) -> AsyncIterator[tuple[FencedSaver, Store, str]]:
    """A saver that holds a session's first epoch, the store beside it, and the session."""
    store = Store.open(empty_url)
    session = store.sessions.create(
        model="m", tools=[], workspace=None, granted=[], denied=[], actor=BEN
    ).id
    lease = store.leases.acquire(session, Owner("box:1:a"), ttl=600)
    async with open_saver(empty_url) as saver:
        saver.fence(session, lease.epoch)
        yield saver, store, session
    store.close()


def take_over(store: Store, session: str) -> int:
    """Let the lease run out and another process take it; its epoch."""
    lease = store.leases.holder(session)
    assert lease is not None
    store.leases.renew(lease, ttl=-1)
    return store.leases.acquire(session, Owner("box:2:b"), ttl=600).epoch


async def test_who_has_the_lease_writes_and_erases(
    fenced: tuple[FencedSaver, Store, str],
) -> None:
    saver, _, session = fenced
    saved = await put(saver, session, word="mine")
    await saver.aput_writes(saved, [("a", 1)], "task")
    found = await saver.aget_tuple(config(session))
    assert found is not None
    assert found.pending_writes == [("task", "a", 1)]
    await saver.adelete_thread(session)
    assert await saver.aget_tuple(config(session)) is None


async def test_after_a_takeover_nothing_is_written_or_erased_and_reading_goes_on(
    fenced: tuple[FencedSaver, Store, str],
) -> None:
    saver, store, session = fenced
    saved = await put(saver, session, word="mine", words=["so", "far"])
    epoch = take_over(store, session)
    for change in (
        put(saver, session, word="stale", words=["too", "late"]),
        saver.aput_writes(saved, [("a", 1), ("b", 2)], "task"),
        saver.adelete_thread(session),
    ):
        with pytest.raises(LeaseLost, match=session):
            await change
    found = await saver.aget_tuple(config(session))
    assert found is not None
    assert found.config == saved
    assert found.checkpoint["channel_values"]["words"] == ["so", "far"]
    assert found.pending_writes == []

    saver.fence(session, epoch)  # the same process, when it is the one that took it over
    newer = await put(saver, session, word="next")
    assert (await saver.aget_tuple(config(session))).config == newer  # type: ignore[union-attr]


@pytest.mark.parametrize("backend", ["postgresql"], indirect=True)
async def test_a_lost_connection_is_replaced(
    fenced: tuple[FencedSaver, Store, str],
) -> None:
    saver, store, session = fenced
    saved = await put(saver, session, word="before")
    with store.engine.begin() as conn:
        conn.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        )
    found = await saver.aget_tuple(config(session))
    assert found is not None
    assert found.config == saved
    await put(saver, session, word="after")


async def test_a_database_that_fails_is_a_store_error(tmp_path: Path) -> None:
    async with open_saver(f"sqlite:///{tmp_path}/sayso.db") as saver:
        saved = await put(saver, "a", word="kept")
        saver.conn.execute("DROP TABLE writes")  # type: ignore[attr-defined]
        with pytest.raises(StoreError, match="no such table: writes"):
            await saver.aput_writes(saved, [("a", 1)], "task")


async def test_a_lease_that_ran_out_or_was_given_back_is_enough_while_nobody_else_has_it(
    fenced: tuple[FencedSaver, Store, str],
) -> None:
    saver, store, session = fenced
    lease = store.leases.holder(session)
    assert lease is not None
    store.leases.renew(lease, ttl=-1)
    await put(saver, session, word="late")
    store.leases.release(lease)
    latest = await put(saver, session, word="later")
    assert (await saver.aget_tuple(config(session))).config == latest  # type: ignore[union-attr]


async def test_the_fence_is_about_its_session_and_holds_for_copies_of_the_saver(
    fenced: tuple[FencedSaver, Store, str],
) -> None:
    saver, store, session = fenced
    copy = saver.with_allowlist([("builtins", "object")])
    assert copy is not saver
    take_over(store, session)
    await put(saver, "a thread that is nobody's session", word="free")
    with pytest.raises(LeaseLost):
        await put(copy, session, word="stale")
    assert await copy.aget_tuple(config(session)) is None


# --- databases that cannot be used -----------------------------------------------------------


async def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sayso.db"
    path.write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(StoreError, match=r"sayso\.db cannot be used"):
        async with open_saver(f"sqlite:///{path}"):
            raise AssertionError("not reached")


async def test_a_database_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="mysql is not supported"):
        async with open_saver("mysql://localhost/sayso"):
            raise AssertionError("not reached")


async def test_without_the_extra_postgresql_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "langgraph.checkpoint.postgres.aio", None)
    with pytest.raises(UsageError, match=r"pip install 'sayso\[postgres\]'"):
        async with open_saver("postgresql://localhost/sayso"):
            raise AssertionError("not reached")


async def test_a_server_that_is_not_there_is_a_store_error_without_the_password() -> None:
    with pytest.raises(StoreError) as error:
        async with open_saver("postgresql://ann:geheim@127.0.0.1:1/sayso"):
            raise AssertionError("not reached")
    assert "geheim" not in str(error.value)
