"""The database fails in the middle of a write: what is known of it is said, and is not lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.errors import StoreError
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Settles, approves
from agent.store import Store
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
