"""What a process puts together, what a session keeps of it, and how sessions are opened again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

import prompts
from agent.application import Application, Options
from agent.config import load_settings
from agent.errors import NotFound, SessionBusy, UsageError
from agent.evals.driving import converse
from agent.evals.reviewers import approves, stays_silent
from agent.models.scripted import ScriptedChatModel
from agent.store import Owner, Store
from tests.support.sessions import SCRIPTED, application, calls, session
from tools.contract import Contract, make_tool


class Number(BaseModel):
    n: int


def act(n: int) -> str:
    """Change a number."""
    return f"changed {n}"


WRITER = make_tool(act, args=Number, contract=Contract(effects=frozenset({"write:n"})))
ACT = calls(("act", {"n": 1}), ids=["a"])


# --- opening ---------------------------------------------------------------------------------


async def test_opening_makes_a_private_state_folder_and_the_database_in_it(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    async with application(home):
        assert home.stat().st_mode & 0o777 == 0o700
        assert (home / "sayso.db").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in home.iterdir()) == ["run", "sayso.db"]


async def test_a_model_that_cannot_be_had_is_told_before_there_is_a_session(
    tmp_path: Path,
) -> None:
    async with application(tmp_path, model="openai:test") as app:  # and no key
        assert app.models.keys() == {SCRIPTED}
        with pytest.raises(UsageError, match="OPENAI_API_KEY"):
            app.create_session()
        assert app.store.sessions.list() == []


async def test_a_model_is_built_once(tmp_path: Path) -> None:
    async with application(tmp_path, model="offline") as app:
        record = app.create_session()
        for _ in range(2):
            async with app.open_session(record.id) as opened:
                await converse(opened, "hello", approves)
        assert app.models.keys() == {SCRIPTED, "offline"}
        built = app.models["offline"]
        async with app.open_session(record.id):
            assert app.models["offline"] is built


async def test_what_was_found_and_not_used_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGSMITH_TRACING", "true")
    settings = load_settings(environ={"SAYSO_MODLE": "x"}, home=tmp_path, model="offline")
    async with Application.open(settings) as app:
        said = "\n".join(app.notices)
        assert "SAYSO_MODLE" in said
        assert "LangSmith" in said


async def test_no_secret_of_the_settings_is_in_the_representation(tmp_path: Path) -> None:
    key = "sk-0123456789abcdef"
    async with application(tmp_path, openai_api_key=SecretStr(key)) as app:
        assert key not in repr(app.settings) + repr(app)


# --- what a session keeps --------------------------------------------------------------------


async def test_a_session_keeps_its_model_tools_workspace_and_authority(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    options = Options(granted=("read:*", "write:files"), denied=("write:orders",), via="test")
    async with application(
        tmp_path / "home", domains=["files"], workspace=workspace, options=options
    ) as app:
        record = app.create_session()
    assert record.model == SCRIPTED
    assert (record.tools, record.workspace) == (["files"], str(workspace))
    assert (record.granted, record.denied) == (["read:*", "write:files"], ["write:orders"])
    assert record.user == "ana"

    async with application(tmp_path / "home", domains=["orders"]) as app:  # another process
        async with app.open_session(record.id) as opened:
            assert set(opened._tools) == {"list_files", "read_file", "write_file", "edit_file"}
            assert opened._context.authority.denied == ("write:orders",)
        assert app.changes(record) == []


async def test_what_was_granted_is_what_may_be_done_whatever_opens_the_session(
    tmp_path: Path,
) -> None:
    steps = [ACT, "I may not."]
    options = Options(granted=("read:*",), via="test")
    async with application(tmp_path, steps, tools=[WRITER], options=options) as app:
        record = app.create_session()
    async with (
        application(tmp_path, steps, tools=[WRITER]) as app,
        app.open_session(record.id) as opened,
    ):
        trajectory = await converse(opened, "go", approves)
        assert "was not granted" in trajectory.results["a"]
        assert trajectory.asked == []


async def test_the_workspace_is_the_current_folder_unless_one_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    async with application(tmp_path / "home", domains=["files"]) as app:
        record = app.create_session()
        monkeypatch.chdir(tmp_path)
        assert record.workspace == str(here)
        assert app.workspace == here


async def test_a_session_goes_on_with_its_own_model_unless_told_otherwise(tmp_path: Path) -> None:
    one, two = ScriptedChatModel(["One.", "One."]), ScriptedChatModel(["Two.", "Two."])
    home = tmp_path
    settings = load_settings(environ={}, home=home, model="scripted:one", tools=("orders",))
    async with (
        Application.open(settings, models={"scripted:one": one}) as app,
        app.new_session() as opened,
    ):
        await converse(opened, "hello", approves)
        session_id = opened.id

    other = settings.model_copy(update={"model": "scripted:two"})
    models = {"scripted:one": one, "scripted:two": two}
    for override, answer in ((False, "One."), (True, "Two.")):
        options = Options(override=override)
        async with Application.open(other, options, models=models) as app:
            record = app.store.sessions.get(session_id)
            said = app.changes(record)
            assert bool(said) == override
            assert all("scripted:one" in line and "scripted:two" in line for line in said)
            if not override:
                async with app.open_session(session_id) as opened:
                    assert (await converse(opened, "again", approves)).done.answer == answer


async def test_a_workspace_that_is_gone_is_said_before_the_session_goes_on(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    async with application(tmp_path / "home", domains=["files"], workspace=workspace) as app:
        record = app.create_session()
        workspace.rmdir()
        (said,) = app.changes(record)
        assert str(workspace) in said
        assert "gone" in said


async def test_tools_that_are_gone_are_named_when_the_session_is_opened(tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from langchain_core.tools import tool\n\n@tool\ndef greet() -> str:\n    'Greet.'\n"
    )
    async with application(tmp_path / "home", domains=["orders", str(mine)]) as app:
        record = app.create_session()
        mine.unlink()
        with pytest.raises(UsageError, match=r"mine\.py"):
            async with app.open_session(record.id):
                raise AssertionError("not reached")
        assert app.store.leases.holder(record.id) is None


async def test_a_prompt_that_is_another_one_is_named_when_the_session_goes_on(
    tmp_path: Path,
) -> None:
    home, prompt = tmp_path / "home", tmp_path / "prompt.md"
    prompt.write_text("Be brief.")
    async with application(home, ["Hello.", "Hello."], prompt=prompt) as app:
        async with app.new_session() as opened:
            await converse(opened, "hello", approves)
        record = app.store.sessions.get(opened.id)
        assert app.changes(record) == []
        prompt.write_text("Be rude.")
        (said,) = app.changes(record)
        assert "system prompt has changed" in said
        assert str(prompt) in said
        forked = await app.fork(record.id)
        assert app.changes(forked) == [], "the fork was started with the prompt of today"
        prompt.write_text("Be brief.")
        assert app.changes(record) == []
    async with application(home) as app:  # without a prompt of one's own
        (said,) = app.changes(record)
        assert "the bundled one" in said


async def test_a_newer_bundled_prompt_is_another_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with application(tmp_path) as app:
        record = app.create_session()
        monkeypatch.setattr(prompts, "_text", lambda name: f"a newer {name}")
        (said,) = app.changes(record)
        assert "system prompt has changed" in said


async def test_a_prompt_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    prompt = tmp_path / "prompt.md"
    prompt.write_bytes(b"\xff")
    async with application(tmp_path / "home", prompt=prompt) as app:
        with pytest.raises(UsageError, match=r"SAYSO_PROMPT=.*prompt\.md"):
            app.create_session()
        assert app.store.sessions.list() == []


async def test_requests_that_go_elsewhere_are_named_when_the_session_goes_on(
    tmp_path: Path,
) -> None:
    """Only the host: a key in the address stays out of the trail."""
    key = SecretStr("sk-0123456789abcdef")
    model = {"model": "openai:test", "openai_api_key": key}
    async with application(tmp_path, **model) as app:
        record = app.create_session()
        assert app.changes(record) == []
        plain = app.create_session()
    url = "https://ann:geheim@gateway.example:8443/v1?key=geheim"
    async with application(tmp_path, openai_base_url=url, **model) as app:
        (said,) = app.changes(record)
        assert said == "Its requests went to api.openai.com, now to gateway.example:8443."
        other = app.create_session()
        assert "geheim" not in str(app.store.trail.entries(other.id))
    async with application(
        tmp_path, openai_base_url=url, options=Options(override=True), model="offline"
    ) as app:
        (said,) = app.changes(plain)
        assert "goes on with offline" in said, "the model is another one; it has no address"


async def test_a_session_from_before_that_was_kept_has_not_changed(tmp_path: Path) -> None:
    async with application(tmp_path) as app:
        record = app.store.sessions.create(
            model=SCRIPTED, tools=[], workspace=None, granted=[], denied=[], actor=app.actor
        )
        assert app.changes(record) == []


# --- holding ---------------------------------------------------------------------------------


async def test_a_session_can_be_opened_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    async with application(tmp_path, ["Hello."]) as app:
        record = app.create_session()
        async with app.open_session(record.id[:-1]) as opened:
            assert opened.id == record.id
        with pytest.raises(NotFound, match=record.id):
            async with app.open_session("s-nobody"):
                raise AssertionError("not reached")


async def test_a_session_that_another_process_holds_is_busy_for_everything(tmp_path: Path) -> None:
    async with application(tmp_path, ["Hello."]) as app:
        record = app.create_session()
        elsewhere = Owner("elsewhere:1:0123456789abcdef")
        lease = app.store.leases.acquire(record.id, elsewhere, 600)
        with pytest.raises(SessionBusy, match="elsewhere"):
            async with app.open_session(record.id):
                raise AssertionError("not reached")
        with pytest.raises(SessionBusy):
            await app.delete(record.id)
        assert app.store.sessions.get(record.id) == record
        app.store.leases.release(lease)
        async with app.open_session(record.id) as opened:
            assert opened.id == record.id


async def test_a_fork_leaves_its_source_free_for_others_to_hold(tmp_path: Path) -> None:
    async with application(tmp_path, ["Hello."]) as app:
        async with app.new_session() as opened:
            await converse(opened, "hello", approves)
        app.store.leases.acquire(opened.id, Owner("elsewhere:1:0123456789abcdef"), 600)
        record = await app.fork(opened.id)
        assert record.state == "done"
        assert app.store.leases.holder(record.id) is None


# --- forks -----------------------------------------------------------------------------------


async def test_a_fork_keeps_what_its_source_may_do_and_knows_its_line(tmp_path: Path) -> None:
    options = Options(granted=("read:*",), denied=("read:secrets",), via="test")
    async with application(tmp_path, ["Hello."], options=options) as app:
        async with app.new_session() as opened:
            await converse(opened, "what is the weather like today", approves)
        child = await app.fork(opened.id)
        grandchild = await app.fork(child.id)
        source = app.store.sessions.get(opened.id)
        kept = ("model", "tools", "workspace", "granted", "denied", "labels", "turn")
        for record, parent in ((child, source), (grandchild, child)):
            assert {k: getattr(record, k) for k in kept} == {k: getattr(parent, k) for k in kept}
            assert record.parent == parent.id
        assert child.title == "fork of what is the weather like today"
        assert app._ancestors(grandchild) == [child.id, source.id]
        await app.delete(child.id)
        assert app._ancestors(grandchild) == [child.id, source.id]


async def test_there_is_nothing_to_fork_in_an_empty_session(tmp_path: Path) -> None:
    async with application(tmp_path) as app:
        record = app.create_session()
        with pytest.raises(UsageError, match="nothing to fork"):
            await app.fork(record.id)
        assert [found.id for found in app.store.sessions.list()] == [record.id]


def left_in(home: Path) -> bytes:
    """The database's files as they lie on disk, once nobody has them open."""
    return b"".join(path.read_bytes() for path in home.glob("sayso.db*"))


# --- deleting --------------------------------------------------------------------------------


async def test_deleting_takes_what_waits_with_it_and_leaves_the_others(tmp_path: Path) -> None:
    steps = [ACT, "Done."]
    async with application(tmp_path, steps, tools=[WRITER]) as app:
        async with app.new_session() as gone, app.new_session() as kept:
            await converse(gone, "a word that nobody may find: xyzzy", stays_silent)
            await converse(kept, "go", stays_silent)
        deleted = await app.delete(gone.id)
        assert deleted.id == gone.id
        assert [row.session for row in app.store.approvals.list(None)] == [kept.id]
        assert [record.id for record in app.store.sessions.list()] == [kept.id]
        with pytest.raises(NotFound, match="deleted"):
            await app.delete(gone.id)
        async with app.open_session(kept.id) as opened:
            assert len(opened.pending()) == 1
    assert b"xyzzy" not in left_in(tmp_path)


async def test_two_applications_share_a_database_and_an_inbox(tmp_path: Path) -> None:
    async with session(tmp_path, [ACT, "Done."], tools=[WRITER]) as (_, opened):
        await converse(opened, "go", stays_silent)
        store = Store.open(f"sqlite:///{tmp_path}/sayso.db", home=tmp_path)
        assert store.approvals.list() == opened.pending()
        assert store.sessions.get(opened.id).state == "waiting"
        store.close()
    assert os.listdir(tmp_path / "run")
