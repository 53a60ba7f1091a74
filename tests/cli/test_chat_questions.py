"""A server's questions at a real terminal: forms filled in, left and taken up again."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.mcp.configuration.parse import parse_config
from agent.mcp.pins import Pins
from agent.repl.questions import KEY_MARK
from agent.store import Store
from tests.cli.program import SCRIPT, Invoke
from tests.cli.test_chat_real import chat
from tests.support.openai_server import Call, ModelServer, Reply
from tests.support.terminal import Terminal

Model = Callable[..., ModelServer]
SERVER = Path(__file__).parents[1] / "support" / "form_server.py"
TRIP = Reply(tool_calls=(Call("forms__trip", {}),))
STOPS = Reply(tool_calls=(Call("forms__stops", {}),))


@pytest.fixture(autouse=True)
def forms(sayso_home: Path) -> None:
    """The server, added and confirmed."""
    sayso_home.mkdir(mode=0o700, exist_ok=True)
    path = sayso_home / "mcp.json"
    entry = {"command": sys.executable, "args": [str(SERVER)]}
    path.write_text(json.dumps({"mcpServers": {"forms": entry}}))
    for server in parse_config(path.read_text(), path, {}, folder=None).servers:
        Pins(sayso_home).confirm(server, "ana")


def key(terminal: Terminal, question: str, answer: str) -> None:
    """Answer a question once its keys count."""
    terminal.expect(question)
    terminal.expect(KEY_MARK)
    terminal.send(answer)


def typed(terminal: Terminal, label: str, text: str) -> None:
    """Answer a line editor."""
    terminal.expect(label)
    terminal.send(text)
    terminal.send("\r")


def begin(terminal: Terminal, text: str = "go") -> None:
    """Send a message, and let its call run."""
    terminal.expect("new session")
    terminal.send(f"{text}\r")
    key(terminal, "y approve", "y")


def test_a_form_says_what_each_field_takes_and_can_be_changed_before_it_is_sent(
    model: Model, tmp_path: Path
) -> None:
    model(TRIP, Reply("Booked."))
    mail = "mail (an e-mail address, such as ana@example.org; "
    extras = "extras (1 to 2 of breakfast, parking, gym; with commas between; "
    with chat(tmp_path) as terminal:
        begin(terminal)
        panel = terminal.expect("y answer · n decline")
        for shown in (
            f"{mail}required): Where we write to",
            "day (a date, such as 2026-01-31; default 2026-03-01)",
            "room (one of s “Sea view”, y “Back yard”; required)",
            f"{extras}required)",
            "code (text of 2 to 4 characters; optional)",
        ):
            assert shown in panel
        key(terminal, "", "y")
        terminal.expect("Enter takes the default, or leaves out what is optional.")
        typed(terminal, f"{mail}required): Where we write to:", "ana")
        terminal.expect('mail takes an e-mail address, such as ana@example.org. "ana" does not fit')
        typed(terminal, f"{mail}required): Where we write to:", "")
        terminal.expect("mail is required: an e-mail address, such as ana@example.org.")
        typed(terminal, f"{mail}required): Where we write to:", "ana@example.org")
        typed(terminal, "default 2026-03-01):", "")
        typed(terminal, "room (one of", "back yard")
        typed(terminal, extras, "gym, parking, breakfast")
        terminal.expect("There are 3.")
        typed(terminal, extras, "gym, parking")
        typed(terminal, "code (text of 2 to 4 characters; optional):", "日本語です")
        terminal.expect('"日本語です" has 5.')
        typed(terminal, "code (text of 2 to 4 characters; optional):", "")
        sent = '{"mail": "ana@example.org", "day": "2026-03-01", "room": "y", "extras": ["gym", '
        terminal.expect(f'To forms: {sent}"parking"]}}')
        key(terminal, "y send this · n change it", "n")
        terminal.expect("Enter keeps what you said.")
        typed(terminal, f"{mail}default ana@example.org): Where we write to:", "")
        typed(terminal, "default 2026-03-01):", "2026-04-01")
        typed(terminal, "default y):", "s")
        typed(terminal, f"{extras}default gym, parking):", "")
        typed(terminal, "code (text of 2 to 4 characters; optional):", "")
        terminal.expect('"day": "2026-04-01", "room": "s"')
        key(terminal, "y send this", "y")
        terminal.expect("accept [('day', '2026-04-01'), ('extras', ['gym', 'parking']), ('mail',")
        terminal.expect("Booked.")


def test_a_question_that_was_left_is_put_again_in_the_same_chat(
    model: Model, store: Store, tmp_path: Path
) -> None:
    server = model(STOPS, Reply("Noted."), Reply("So be it."))
    with chat(tmp_path) as terminal:
        begin(terminal)
        key(terminal, "y answer · n decline", "q")
        terminal.expect("Tab shows it again, or from another terminal: sayso respond a-")
        terminal.expect("1 question waits: Tab shows it · Ctrl-C stops the turn")
        terminal.send("n")
        terminal.expect("1 question waits: Tab · for your next message: n")
        terminal.send("y")
        terminal.expect("for your next message: ny")
        terminal.send("\t")
        terminal.expect("A server asks you · forms")
        terminal.expect("Which city?")
        terminal.expect(KEY_MARK)
        (question,) = store.approvals.list(kind="elicitation")  # what was typed answered nothing
        assert question.args["message"] == "Which city?"
        terminal.send("y")
        typed(terminal, "city (text; required):", "Rome")
        key(terminal, "y send this", "y")
        terminal.expect("answered: question of forms “Which city?”")
        terminal.expect("How long?")
        key(terminal, "y answer · n decline", "q")
        terminal.expect("1 question waits: Tab")
        terminal.send("\t")
        key(terminal, "y answer · n decline", "n")
        terminal.expect("accept [('city', 'Rome')], decline []")
        terminal.expect("Noted.")
        terminal.expect("› ny")
        terminal.send("\r")
        terminal.expect("So be it.")
        assert "question waits" not in terminal.display
    assert server.requests[-1].messages[-1]["content"].endswith("\n\nny")


def test_a_question_that_was_left_is_answered_on_another_terminal(
    model: Model, store: Store, tmp_path: Path
) -> None:
    model(STOPS, Reply("Noted."))
    with chat(tmp_path) as terminal:
        begin(terminal)
        key(terminal, "y answer · n decline", "q")
        terminal.expect("1 question waits: Tab")
        (question,) = store.approvals.list(kind="elicitation")
        with beside(tmp_path, "respond", question.id) as other:
            typed(other, "city (text; required):", "")
            other.expect("city is required: text.")
            typed(other, "city (text; required):", "Rome")
            other.expect('To forms: {"city": "Rome"}')
            typed(other, "Answer that? [y/N]", "y")
            other.expect("answered: question of forms “Which city?”")
            assert other.close() == 0
        terminal.expect("question of forms “Which city?” was answered by")
        terminal.expect("How long?")
        terminal.expect(KEY_MARK)
        (question,) = store.approvals.list(kind="elicitation")
        with beside(tmp_path, "respond", question.id) as other:
            typed(other, "nights (a whole number; default 2):", "two")
            other.expect('nights takes a whole number. "two" does not fit.')
            other.expect("nights (a whole number; default 2):")
            other.send("\x04")
            other.expect(f"Nothing was decided; {question.id} still waits.")
            assert other.close() == 1
        with beside(tmp_path, "respond", question.id, "--message", "{}") as other:
            other.expect('To forms: {"nights": 2}')  # what would be sent, defaults and all
            typed(other, "Answer that? [y/N]", "y")
            assert other.close() == 0
        terminal.expect("accept [('city', 'Rome')], accept [('nights', 2)]")
        terminal.expect("Noted.")


def test_the_inbox_says_how_a_form_is_answered_and_what_does_not_fit(
    model: Model, store: Store, tmp_path: Path, script: Invoke
) -> None:
    model(TRIP, Reply("Booked."))
    with chat(tmp_path) as terminal:
        begin(terminal)
        terminal.expect("y answer · n decline")
        (question,) = store.approvals.list(kind="elicitation")
        assert "question of forms “Tell me about your trip.”" in script("approvals").out
        shown = script("approvals", question.id)
        assert "room (one of s “Sea view”, y “Back yard”; required)" in shown.out
        assert f"Answer it: sayso respond {question.id}\n" in shown.err
        whole = '\'{"mail": …, "day": "2026-03-01", "room": …, "extras": …, "code": …}\''
        assert f"sayso respond {question.id} --message {whole}" in shown.err
        blind = script("respond", question.id)
        assert (blind.code, "with --message JSON" in blind.err) == (2, True)
        answer = {"mail": "ana@example", "room": "Sea view", "extras": ["gym"]}
        refused = script("respond", question.id, "--message", json.dumps(answer))
        assert refused.code == 2
        assert "room takes one of s “Sea view”, y “Back yard”" in refused.err
        assert store.approvals.get(question.id).status == "pending"
        answer["room"] = "s"
        answered = script("respond", question.id, "--message", json.dumps(answer))
        assert answered.code == 0, answered.err
        terminal.expect("accept [('day', '2026-03-01'), ('extras', ['gym']), ('mail',")


def test_a_question_that_was_left_ends_with_its_turn(
    model: Model, store: Store, tmp_path: Path
) -> None:
    server = model(TRIP, Reply("Well then."))
    with chat(tmp_path) as terminal:
        begin(terminal)
        key(terminal, "y answer · n decline", "q")
        terminal.expect("1 question waits: Tab")
        terminal.send("\x03")
        terminal.expect("question of forms “Tell me about your trip.” expired: the call that asked")
        terminal.expect('Say "continue" to go on.')
        terminal.expect("› ")
        terminal.send("\t")  # completes nothing, asks nothing
        terminal.send("/approvals\r")
        terminal.expect("Nothing waits for you in this session.")
        terminal.expect("› ")
        terminal.send("\x04")
        assert terminal.close() == 0
    assert len(server.requests) == 1
    assert store.approvals.list() == []


def test_a_question_whose_process_was_killed_is_not_put_again(
    model: Model, store: Store, tmp_path: Path
) -> None:
    model(TRIP, Reply("Well then."))
    with chat(tmp_path) as terminal:
        begin(terminal)
        terminal.expect("y answer · n decline")
        os.kill(terminal.program(), signal.SIGKILL)
        terminal.close()
    with chat(tmp_path, "-c") as terminal:
        terminal.expect("question of forms “Tell me about your trip.” expired: the call that asked")
        terminal.expect("The last turn of this session was interrupted.")
        terminal.expect("› ")
        assert "A server asks you" not in terminal.text
    assert store.approvals.list() == []


def test_an_answer_that_a_killed_process_did_not_send_is_told(
    model: Model, store: Store, script: Invoke, tmp_path: Path
) -> None:
    model(STOPS, Reply("Well then."))
    with chat(tmp_path) as terminal:
        begin(terminal)
        terminal.expect("y answer · n decline")
        os.kill(terminal.program(), signal.SIGSTOP)  # it cannot look any more
        (question,) = store.approvals.list()
        answered = script("reject", question.id, "--reason", "no")
        assert answered.code == 0, answered.err
        os.kill(terminal.program(), signal.SIGKILL)
        terminal.close()
    with chat(tmp_path, "-c") as terminal:
        terminal.expect(f"MCP server forms did not get your answer to {question.id}")
        terminal.expect("› ")
    kinds = [entry.kind for entry in store.trail.entries(question.session)]
    assert kinds.count("approval.not_sent") == 1


def beside(tmp_path: Path, *arguments: str) -> Terminal:
    """A command on a terminal of its own."""
    folder = tmp_path / f"beside-{len(list(tmp_path.glob('beside-*')))}"
    folder.mkdir()
    settings = {n: v for n, v in os.environ.items() if n.startswith(("SAYSO_", "OPENAI_"))}
    return Terminal(folder, [str(SCRIPT), *arguments], size=(60, 200), environment=settings)
