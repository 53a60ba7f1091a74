"""The chat with the real application at a real terminal: the model it shows, what Ctrl-C stops,
what was decided elsewhere, and what never reaches the screen."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from agent.repl.questions import KEY_MARK
from agent.store import Store
from tests.cli.program import SCRIPT, TIMEOUT, Invoke, cancel, read, status_of
from tests.support.openai_server import Broken, Call, ModelServer, Reply, history_error
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


def chat(
    tmp_path: Path, *arguments: str, command: Sequence[str] = (str(SCRIPT),), **variables: str
) -> Terminal:
    """The chat with this process's settings; each one with a folder of its own."""
    folder = tmp_path / f"terminal-{len(list(tmp_path.glob('terminal-*')))}"
    folder.mkdir()
    settings = {n: v for n, v in os.environ.items() if n.startswith(("SAYSO_", "OPENAI_"))}
    return Terminal(
        folder,
        [*command, "chat", *arguments],
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
        terminal.send(f"/resume {session.id[:-1]}\r")
        terminal.expect(f"{session.id} is the session that is open here.")
        terminal.expect("› ")
        terminal.send("and more\r")  # it still holds the session
        terminal.expect("And again.")
        assert "a rule-based stand-in" not in terminal.text


def test_a_chat_goes_back_to_an_earlier_turn_in_a_session_of_its_own(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path
) -> None:
    server = model(Reply("Hello."), Reply("Blue."))
    with chat(tmp_path) as terminal:
        terminal.expect("new session")
        terminal.send("/fork\r")
        terminal.expect("this session has not begun")
        for said, answered in (("Hi", "Hello."), ("Which colour?", "Blue.")):
            terminal.send(f"{said}\r")
            terminal.expect(answered)
            terminal.expect("› ")
        (source,) = store.sessions.list()
        terminal.send("/fork 3\r")
        terminal.expect("has no turn 3")
        terminal.send("/fork one\r")
        terminal.expect("Use /fork, or /fork TURN")
        terminal.send("/fork 1\r")
        terminal.expect(f"A branch of {source.id}, which stays as it is: /resume {source.id}")
        terminal.expect("Hello.")
        terminal.expect("› ")
        terminal.send("Which one?\r")
        terminal.expect("Blue.")
    messages = [m["content"] for m in server.requests[-1].messages if m["role"] == "user"]
    assert messages == ["Hi", "Which one?"]
    branch, _ = store.sessions.list()
    assert (branch.parent, branch.parent_turn) == (source.id, 1)


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


def at_the_panel(terminal: Terminal) -> None:
    """Wait until a key at the panel counts."""
    terminal.expect("y approve")
    terminal.expect(KEY_MARK)


def ctrl_c_at_the_panel(terminal: Terminal) -> None:
    terminal.send("\x03")
    terminal.expect("Left waiting: a-")
    terminal.expect("Later, or elsewhere: sayso chat -r")
    terminal.expect("› ")


def ctrl_c_in_the_editor(terminal: Terminal) -> None:
    terminal.send("e")
    terminal.expect("Edit the arguments.")
    terminal.expect('"order_id": "A1"\n}')
    terminal.send("\x7f" * len('A1"\n}') + 'A4"}')
    terminal.expect_on_screen('"order_id": "A4"}')
    terminal.send("\x03")
    terminal.expect("Nothing was changed.")
    at_the_panel(terminal)


def leave(terminal: Terminal) -> None:
    """From the panel or the prompt: as a person does."""
    if terminal.display.endswith(KEY_MARK):
        ctrl_c_at_the_panel(terminal)
    terminal.send("\x04")
    assert terminal.close() == 0
    assert terminal.is_restored()


def kill(terminal: Terminal) -> None:
    os.kill(terminal.program(), signal.SIGKILL)
    assert terminal.close() == 128 + signal.SIGKILL


@pytest.mark.parametrize("end", [leave, kill])
@pytest.mark.parametrize("ctrl_c", [ctrl_c_at_the_panel, ctrl_c_in_the_editor])
def test_ctrl_c_at_an_approval_leaves_the_call_waiting_and_the_session_whole(
    model: Model,
    store: Store,
    tmp_path: Path,
    sayso_home: Path,
    ctrl_c: Callable[[Terminal], None],
    end: Callable[[Terminal], None],
) -> None:
    server = model(read("A1"), cancel("A1"), Reply("It is cancelled."))
    with chat(tmp_path) as terminal:
        terminal.expect("new session")
        terminal.send("Cancel A1\r")
        at_the_panel(terminal)
        ctrl_c(terminal)
        end(terminal)
    (session,) = store.sessions.list()
    (approval,) = store.approvals.list(status=None)
    assert (session.state, approval.status, approval.decided_at) == ("waiting", "pending", None)
    assert store.ledger.list() == []
    assert status_of(sayso_home, "A1") == "pending"
    with chat(tmp_path, "-r", session.id) as terminal:
        at_the_panel(terminal)
        assert approval.id in terminal.text
        terminal.send("y")
        terminal.expect("It is cancelled.")
        terminal.expect("› ")
        leave(terminal)
    assert [request for request in server.requests if history_error(request.body)] == []
    assert len(server.requests) == 3
    (decided,) = store.approvals.list(status=None)
    assert (decided.id, decided.status) == (approval.id, "approved")
    (effect,) = store.ledger.list()
    assert (effect.state, effect.attempts, effect.args["order_id"]) == ("committed", 1, "A1")
    assert status_of(sayso_home, "A1") == "cancelled"
    assert store.sessions.get(session.id).state == "done"


@pytest.mark.parametrize("resumed", [["--no-resume"], []], ids=["recorded only", "carried on"])
def test_who_decided_elsewhere_is_said_when_the_session_is_opened(
    sayso: Invoke,
    model: Model,
    store: Store,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    resumed: list[str],
) -> None:
    model(read("A1"), cancel("A1"), Reply("It is cancelled."))
    assert sayso("run", "Cancel A1").code == 3
    (approval,) = store.approvals.list()
    with monkeypatch.context() as other:
        other.setenv("SAYSO_REVIEWER", "ben")
        assert sayso("approve", approval.id, "--comment", "go", *resumed).code == 0
    at = (store.approvals.get(approval.id).decided_at or "")[:16].replace("T", " ")
    with chat(tmp_path, "-r", approval.session) as terminal:
        terminal.expect(
            f'{approval.id} cancel_order(expected_revision=1, order_id="A1") was approved '
            f"by ben, {at} UTC, cli: go"
        )
        terminal.expect_on_screen("It is cancelled.")
        terminal.expect("› ")
        assert terminal.text.count("was approved by") == 1
        leave(terminal)


def test_who_decided_elsewhere_is_said_in_the_open_chat(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(read("A1"), cancel("A1"), Reply("It stays."))
    with chat(tmp_path) as terminal:
        terminal.expect("new session")
        terminal.send("Cancel A1\r")
        at_the_panel(terminal)
        ctrl_c_at_the_panel(terminal)
        (approval,) = store.approvals.list()
        with monkeypatch.context() as other:
            other.setenv("SAYSO_REVIEWER", "ben")
            assert sayso("reject", approval.id, "--reason", "not now").code == 0
        terminal.expect('order_id="A1") was rejected by ben')
        terminal.expect("cli: not now")
        terminal.expect("It stays.")
        terminal.expect("› ")
        leave(terminal)


def test_what_tracing_fails_at_is_in_the_log_and_not_on_the_screen(
    model: Model, tmp_path: Path, sayso_home: Path
) -> None:
    server = model(Reply("Hello."))
    tracing = {
        "LANGSMITH_TRACING": "true",
        "LANGSMITH_ENDPOINT": f"{server.url}/takes-no-traces",
        "LANGSMITH_API_KEY": "none",
    }
    with chat(tmp_path, **tracing) as terminal:
        terminal.expect("LangSmith tracing is on")
        terminal.expect("new session")
        terminal.send("Hi\r")
        terminal.expect("Hello.")
        terminal.expect("› ")
        leave(terminal)
        assert terminal.text.rstrip().splitlines()[-1].startswith("To go on with this session:")
        assert terminal.text.count("takes-no-traces") == 1  # in the notice at the start
    log = sayso_home / "logs" / "sayso.log"
    assert "takes-no-traces" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_what_is_different_since_a_session_was_made_is_said(
    sayso: Invoke, model: Model, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(read("A1"), cancel("A1"), Reply("Done."))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    assert sayso("run", "Cancel A1", "--workspace", str(workspace)).code == 3
    workspace.rmdir()
    (session,) = store.sessions.list()
    with chat(tmp_path, "-r", session.id) as terminal:
        terminal.expect("is gone; file tools will fail.")
        terminal.expect("▸")


HUNG_UP = 'trap "" HUP; "$@" 2>"$0/errors"; echo $? >"$0/ended"'


@pytest.mark.parametrize("at", ["prompt", "panel", "editor"])
def test_a_terminal_that_goes_away_ends_the_chat_and_leaves_the_session_whole(
    model: Model, store: Store, tmp_path: Path, sayso_home: Path, at: str
) -> None:
    model(read("A1"), cancel("A1"), Reply("Hello."))
    command = ["/bin/sh", "-c", HUNG_UP, str(tmp_path), str(SCRIPT)]
    with chat(tmp_path, command=command) as terminal:
        terminal.expect("new session")
        if at != "prompt":
            terminal.send("cancel A1\r")
            at_the_panel(terminal)
        if at == "editor":
            terminal.send("e")
            terminal.expect("Ctrl-S takes these arguments")
        terminal.hang_up()
        wait_for(tmp_path / "ended")
    assert (tmp_path / "errors").read_text() == ""
    assert int((tmp_path / "ended").read_text()) == 128 + signal.SIGHUP
    log = sayso_home / "logs" / "sayso.log"
    if at == "prompt":
        assert not log.exists()
        return
    (session,) = store.sessions.list()
    assert session.state == "waiting"
    (line,) = log.read_text().splitlines()
    assert line.endswith(
        f"the terminal has gone. To go on with this session: sayso chat -r {session.id}"
    )


def test_what_the_model_writes_is_seen_before_its_paragraph_is_whole(
    model: Model, tmp_path: Path
) -> None:
    story = Reply("Once upon a time there was an agent that asked before it wrote.")
    model(Broken(story, after=6, then="hang"))
    with chat(tmp_path) as terminal:
        terminal.expect("new session")
        terminal.send("a story\r")
        terminal.expect("… Once upon a time")
        terminal.send("\x03")
        terminal.expect("Stopping now.")
        terminal.expect("› ")
        leave(terminal)


DIES_BEFORE_THE_FIRST_STEP = """
import os, signal, sys
from agent.streaming import GraphPass
GraphPass._pump = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from agent.__main__ import main
sys.exit(main())
"""


def test_continue_takes_up_what_a_killed_process_left(
    model: Model, store: Store, tmp_path: Path, folder: Path
) -> None:
    server = model(read("A1"), cancel("A1"), Reply("It stays."))
    program = [sys.executable, "-c", DIES_BEFORE_THE_FIRST_STEP, "run", "Please cancel A1"]
    assert subprocess.run(program, cwd=folder, capture_output=True).returncode == -signal.SIGKILL
    assert server.requests == []
    with chat(tmp_path, "-c") as terminal:
        terminal.expect("· interrupted · Please cancel A1")
        terminal.expect('Say "continue"')
        terminal.expect("› ")
        terminal.send("continue\r")
        at_the_panel(terminal)
        for request in server.requests:
            assert [m["content"] for m in request.body["messages"] if m["role"] == "user"] == [
                "Please cancel A1"
            ]
        ctrl_c_at_the_panel(terminal)
        leave(terminal)
