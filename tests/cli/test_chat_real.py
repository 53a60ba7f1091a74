"""The chat with the real application at a real terminal: the model it shows, and two Ctrl-C."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.store import Store
from tests.cli.program import SCRIPT, TIMEOUT, Invoke, cancel
from tests.support.openai_server import Call, ModelServer, Reply, history_error
from tests.support.terminal import Terminal

Model = Callable[..., ModelServer]

SLOW = """
import asyncio, pathlib
from pydantic import BaseModel
from tools.contract import Contract, make_tool

class Nothing(BaseModel):
    pass

async def look() -> str:
    'Look for ever.'
    pathlib.Path({mark!r}).touch()
    await asyncio.Event().wait()

tools = [make_tool(look, args=Nothing, contract=Contract(effects=frozenset({{"read:world"}})))]
"""


def wait_for(mark: Path) -> None:
    """Wait until a file is there."""
    end = time.monotonic() + TIMEOUT
    while not mark.exists():
        assert time.monotonic() < end
        time.sleep(0.01)


def chat(tmp_path: Path, *arguments: str, **variables: str) -> Terminal:
    """The chat with this process's settings; each one with a folder of its own."""
    folder = tmp_path / f"terminal-{len(list(tmp_path.glob('terminal-*')))}"
    folder.mkdir()
    settings = {n: v for n, v in os.environ.items() if n.startswith(("SAYSO_", "OPENAI_"))}
    return Terminal(
        folder,
        [str(SCRIPT), "chat", *arguments],
        size=(60, 250),
        environment={**settings, **variables},
    )


def test_the_model_that_is_shown_is_the_one_that_answers(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path
) -> None:
    server = model(Reply("Hello."), Reply("Again."), Reply("And again."))
    assert sayso("run", "Hi").code == 0
    (session,) = store.sessions.list()
    with chat(tmp_path, "-r", session.id, SAYSO_MODEL="offline") as terminal:
        terminal.expect("model      openai:test")
        terminal.expect(f"openai:test · {session.id}")
        terminal.send("/model\r")
        terminal.expect("This session uses openai:test.")
        terminal.expect(f"sayso chat -r {session.id} --model provider:name")
        terminal.send("more\r")
        terminal.expect("Again.")
        assert len(server.requests) == 2
        terminal.expect(f"openai:test · {session.id}")
        terminal.send("/new\r")
        terminal.expect("offline · new session")
        terminal.send(f"/resume {session.id}\r")
        terminal.expect(f"openai:test · {session.id}")
        assert "a rule-based stand-in" not in terminal.text


def test_another_model_for_an_old_session_is_shown_and_said(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path
) -> None:
    model(Reply("Hello."))
    assert sayso("run", "Hi").code == 0
    (session,) = store.sessions.list()
    with chat(tmp_path, "-r", session.id, "--model", "offline") as terminal:
        terminal.expect("model      offline")
        terminal.expect("It was with openai:test, it goes on with offline.")
        terminal.expect(f"offline · {session.id}")


def test_the_second_ctrl_c_stops_a_running_tool_at_once(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "entered"
    own = tmp_path / "slow.py"
    own.write_text(SLOW.format(mark=str(mark)))
    monkeypatch.setenv("SAYSO_TOOLS", str(own))
    server = model(Reply(tool_calls=(Call("look"),)), Reply("Here I am again."))
    with chat(tmp_path) as terminal:
        terminal.expect("new session")
        terminal.send("look\r")
        terminal.expect("1 allowed")
        wait_for(mark)
        terminal.send("\x03")
        terminal.expect("Stopping as soon as the running calls have ended.")
        terminal.send("\x03")
        terminal.expect("Stopping now.")
        terminal.expect("the session is in order")
        terminal.expect("› ")
        terminal.send("\x04")
        assert terminal.close() == 0
        assert terminal.is_restored()
    (session,) = store.sessions.list()
    assert session.state == "interrupted"
    with chat(tmp_path, "-r", session.id) as terminal:
        terminal.expect("The last turn of this session was interrupted.")
        terminal.expect("› ")
        terminal.send("never mind\r")
        terminal.expect("Here I am again.")
        terminal.expect("› ")
        terminal.send("\x04")
        assert terminal.close() == 0
    assert history_error(server.requests[-1].body) is None
    assert store.sessions.get(session.id).state == "done"


def test_what_is_different_since_a_session_was_made_is_said(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(cancel("A1"), Reply("Done."))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    assert sayso("run", "Cancel A1", "--workspace", str(workspace)).code == 3
    workspace.rmdir()
    (session,) = store.sessions.list()
    with chat(tmp_path, "-r", session.id) as terminal:
        terminal.expect("is gone; file tools will fail.")
        terminal.expect("▸")
