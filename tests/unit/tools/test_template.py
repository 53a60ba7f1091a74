"""The template for a person's own tools works as it is, copied anywhere, in a session."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

import tools.template
from agent.application import Application
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Rejects, approves, stays_silent
from agent.models.scripted import ScriptedStep
from agent.session import AgentSession
from tests.support.sessions import calls, session
from tools.contract import CallInfo, Finding, ToolFailure, contract_of, current_call, is_read

LOOK = calls(("read_shopping_list", {}))


def puts(**items: int) -> ScriptedStep:
    wanted = [{"item": item, "quantity": quantity} for item, quantity in items.items()]
    return calls(*(("change_shopping_list", args) for args in wanted), ids=list(items))


@asynccontextmanager
async def copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch, steps: list[Any]
) -> AsyncIterator[tuple[Application, AgentSession]]:
    """A session with a copy of the template as its tools, and its list in ``folder``."""
    copy = shutil.copy(tools.template.__file__, folder / "my_tools.py")
    monkeypatch.setenv("HOME", str(folder))
    async with session(folder / "state", steps, domains=[str(copy)]) as (app, opened):
        yield app, opened


def rows(folder: Path) -> list[tuple[str, int]]:
    """The record itself."""
    with closing(sqlite3.connect(folder / "shopping-list.db")) as db:
        return list(db.execute("SELECT item, quantity FROM changes ORDER BY id"))


def add(folder: Path, item: str, quantity: int) -> None:
    """Another program changes the list."""
    with closing(sqlite3.connect(folder / "shopping-list.db")) as db:
        db.execute("INSERT INTO changes (item, quantity) VALUES (?, ?)", (item, quantity))
        db.commit()


def test_it_offers_a_read_and_a_write_with_a_whole_contract() -> None:
    read, write = map(contract_of, tools.template.tools)
    assert is_read(read.effects_of({}))
    assert not is_read(write.effects_of({"item": "salt", "quantity": 1}))
    assert write.idempotency == "key"
    for part in ("precondition", "preview", "postcondition", "reconcile", "check", "undo"):
        assert getattr(write, part) is not None, part


@pytest.mark.parametrize("broken", ["no folder", "no database"])
def test_its_failure_says_what_to_do(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "list.txt" if broken == "no database" else tmp_path / "gone" / "list.db"
    if broken == "no database":
        path.write_text("2 lemons, salt and whatever else is needed\n" * 50)
    monkeypatch.setattr(tools.template, "LIST", path)
    for tool, args in zip(tools.template.tools, [{}, {"item": "salt", "quantity": 1}], strict=True):
        with pytest.raises(ToolFailure, match="Ask the user where the list is"):
            tool.invoke(args)


async def test_a_change_is_seen_approved_recorded_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [puts(lemons=2), LOOK, puts(lemons=2), LOOK, "There are 2 lemons."]
    async with copied(tmp_path, monkeypatch, steps) as (app, opened):
        asked = await converse(opened, "2 lemons", stays_silent)
        assert "read_shopping_list({}) first" in asked.results["lemons"]
        (waiting,) = opened.pending()
        assert waiting.preview is not None
        assert waiting.preview["summary"] == "lemons: 0 → 2"
        assert rows(tmp_path) == []

        done = await review(opened, approves)
        (effect,) = app.store.ledger.list()
        assert (effect.state, effect.transaction) == ("committed", "1")
        assert effect.evidence is not None
        assert effect.evidence["postcondition"]["record"] == {"item": "lemons", "quantity": 2}
        assert rows(tmp_path) == [("lemons", 2)]
        assert '[{"item": "lemons", "quantity": 2}]' in done.results.values()


async def test_two_changes_of_one_step_do_not_void_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copied(tmp_path, monkeypatch, [LOOK, puts(lemons=2, salt=1), "Done."]) as (_, s):
        done = await converse(s, "lemons and salt", approves)
        assert len(done.asked) == 2
        assert sorted(rows(tmp_path)) == [("lemons", 2), ("salt", 1)]


async def test_what_another_program_changed_meanwhile_is_asked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copied(tmp_path, monkeypatch, [LOOK, puts(lemons=2), "Hm."]) as (_, opened):
        await converse(opened, "2 lemons", stays_silent)
        (waiting,) = opened.pending()
        opened.decide(waiting.id, approves(waiting))  # type: ignore[arg-type]
        add(tmp_path, "salt", 1)
        add(tmp_path, "lemons", 5)
        _ = [event async for event in opened.resume()]
        (anew,) = opened.pending()
        assert anew.preview is not None
        assert anew.preview["summary"] == "lemons: 5 → 2"
        await review(opened, Rejects("enough"))
        assert rows(tmp_path) == [("salt", 1), ("lemons", 5)]


async def test_undo_reads_first_and_sets_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [LOOK, puts(lemons=2), "Done.", puts(lemons=5), LOOK, puts(lemons=5), "Done."]
    async with copied(tmp_path, monkeypatch, steps) as (app, opened):
        await converse(opened, "2 lemons", approves)
        again = await converse(opened, "5 lemons", approves)
        assert len(again.asked) == 1  # what was read before the first change is out of date
        last = app.store.ledger.list()[0]
        ordered = Trajectory([event async for event in opened.undo(last.id)])
        assert ordered.calls == [
            ("read_shopping_list", {}),
            ("change_shopping_list", {"item": "lemons", "quantity": 2}),
        ]
        done = await review(opened, approves)
        assert done.done.answer == f"{last.id} is undone."
        assert rows(tmp_path) == [("lemons", 2), ("lemons", 5), ("lemons", 2)]


def test_the_same_request_under_the_same_key_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools.template, "LIST", tmp_path / "shopping-list.db")
    _, write = tools.template.tools
    args = {"item": "lemons", "quantity": 2}
    call = CallInfo(idempotency_key="k-1")
    reconcile = contract_of(write).reconcile
    assert reconcile is not None
    before = reconcile(args, call)
    token = current_call.set(call)
    try:
        assert write.invoke(args) == write.invoke(args)
    finally:
        current_call.reset(token)
    after = reconcile(args, call)
    assert isinstance(before, Finding)
    assert isinstance(after, Finding)
    assert (before.happened, after.happened) == (False, True)
    assert after.result == write.invoke(args)  # from elsewhere: a request of its own
    assert len(rows(tmp_path)) == 2
