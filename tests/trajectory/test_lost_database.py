"""The database fails in the middle of a write: what is known of it is said, and is not lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.errors import AlreadyDecided, StoreError
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Settles, approves, stays_silent
from agent.events import KnownSince
from agent.session import AgentSession
from agent.store import Store
from agent.types import Decision
from tests.support.sessions import application, calls, session
from tools.contract import Contract, make_tool

GONE = "The database is gone."


class Number(BaseModel):
    n: int


def acting(world: list[int]) -> list[Any]:
    async def act(n: int) -> str:
        """Change the world."""
        world.append(n)
        return "changed"

    return [make_tool(act, args=Number, contract=Contract(effects=frozenset({"write:world"})))]


def fails(*_: Any, **__: Any) -> Any:
    raise StoreError(GONE)


def lose(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be read or written."""
    for part in (store.sessions, store.approvals, store.ledger, store.trail, store.leases):
        for name in vars(type(part)):
            if not name.startswith("_"):
                monkeypatch.setattr(part, name, fails)


def in_the_tool(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.ledger, "finish", gone(store, monkeypatch))


def before_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store.ledger, "begin", gone(store, monkeypatch))


def gone(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        lose(store, monkeypatch)
        fails()

    return fail


@pytest.mark.parametrize(
    ("when", "known", "happened"),
    [
        (before_it, "act(n=1) was not run now.", False),
        (in_the_tool, "act(n=1) was run and answered; that it happened could not be", True),
    ],
)
async def test_what_is_known_of_the_write_is_said(
    when: Callable[[Store, pytest.MonkeyPatch], None],
    known: str,
    happened: bool,
    tmp_path: Path,
) -> None:
    world: list[int] = []
    steps = [calls(("act", {"n": 1})), "Done."]
    kwargs: dict[str, Any] = {"tools": acting(world), "domains": ["research"]}
    with pytest.MonkeyPatch.context() as patch:
        async with session(tmp_path, steps, **kwargs) as (app, opened):
            session_id = opened.id
            when(app.store, patch)
            with pytest.raises(StoreError) as failed:
                await converse(opened, "act", approves)
    assert str(failed.value).startswith(f"{GONE} {known}")
    assert f"sayso resume {session_id}" in str(failed.value)
    assert world == [1] * happened

    async with (
        application(tmp_path, steps, **kwargs) as app,
        app.open_session(session_id) as opened,
    ):
        resumed = Trajectory([event async for event in opened.resume()])
        ended = await review(opened, Settles(happened), resumed)
        assert ended.done.state == "done"
        assert [effect.state for effect in app.store.ledger.list()] == ["committed"]
    assert world == [1]


# --- and comes back ------------------------------------------------------------------------------


@contextmanager
def away(store: Store) -> Iterator[None]:
    """Nothing that has ended can be recorded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store.ledger, "finish", fails)
        yield


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


async def test_what_could_not_be_recorded_is_recorded_first_when_it_can(tmp_path: Path) -> None:
    world: list[int] = []
    steps = [calls(("act", {"n": 1})), "Done."]
    async with session(tmp_path, steps, tools=acting(world)) as (app, opened):
        await converse(opened, "act", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        with away(app.store):
            failed = await resumed(opened)
            assert "was run and answered; that it happened could not be recorded" in str(
                failed.done.error
            )
            with pytest.raises(StoreError):
                await resumed(opened)
        done = await resumed(opened)
        assert (done.done.answer, opened.pending(), world) == ("Done.", [], [1])
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.attempts) == ("committed", 1)
        assert [row.kind for row in app.store.approvals.list(None)] == ["write"]
        assert app.store.trail.verify() == []


async def test_nor_can_anybody_say_otherwise_before(tmp_path: Path) -> None:
    go_on = threading.Event()
    world: list[int] = []

    def act(n: int) -> str:
        """Change the world."""
        go_on.wait(30)
        world.append(n)
        return "changed"

    contract = Contract(effects=frozenset({"write:world"}), open_world=False, timeout=0.2)
    tools = [make_tool(act, args=Number, contract=contract)]
    steps = [calls(("act", {"n": 1})), "Hm.", "I see."]
    async with session(tmp_path, steps, tools=tools) as (app, opened):
        await converse(opened, "act", approves)
        (asked,), (effect,) = opened.pending(), app.store.ledger.list()
        with away(app.store):
            go_on.set()
            while opened.still_runs(effect):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            with pytest.raises(StoreError):
                opened.decide(asked.id, Decision("respond", message="not happened"))
        with pytest.raises(AlreadyDecided):
            opened.decide(asked.id, Decision("respond", message="not happened"))
        assert app.store.ledger.get(effect.id).state == "committed"
        told = await converse(opened, "And?", stays_silent)
        (known,) = told.of(KnownSince)
        assert known.receipt.done
        assert world == [1]


async def test_what_could_not_be_recorded_is_tried_once_more_at_the_end(tmp_path: Path) -> None:
    world: list[int] = []
    steps = [calls(("act", {"n": 1})), "Done."]
    async with session(tmp_path, steps, tools=acting(world)) as (app, opened):
        await converse(opened, "act", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        with away(app.store):
            await resumed(opened)
        session_id = opened.id
    async with application(tmp_path, steps, tools=acting(world)) as app:
        assert [e.state for e in app.store.ledger.list(session=session_id)] == ["committed"]


async def test_moving_on_says_what_is_known_of_a_write_too(tmp_path: Path) -> None:
    world: list[int] = []
    steps = [calls(("act", {"n": 1})), "Done."]
    async with session(tmp_path, steps, tools=acting(world)) as (app, opened):
        await converse(opened, "act", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        with away(app.store), pytest.raises(StoreError) as failed:
            await converse(opened, "never mind", stays_silent)
        assert "was run and answered; that it happened could not be recorded" in str(failed.value)
        assert world == [1]
