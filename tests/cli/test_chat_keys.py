"""Keys at a real terminal: what decides, what does not, what is kept, what stops a turn."""

import os
import signal

import pytest

from agent.repl.questions import KEY_MARK
from tests.support.fake_chat import ChatTerminal


def test_keys_typed_while_a_turn_runs_decide_nothing_and_are_kept(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("slow")
        chat.expect("slow_tool")
        for key in "y\ry":
            chat.send(key)
        chat.expect_on_screen("for your next message: y y")
        (tmp_path / "release").touch()
        chat.asked("y approve")
        chat.send("?")  # is read after the keys above, so they had their chance
        chat.expect("leave it waiting; nothing runs")
        chat.asked("y approve")
        assert chat.log == ['run "slow" supersede=False']
        chat.send("q")
        chat.ready()
        assert chat.expect_on_screen("› y\n  y")
        chat.send("\x03")
        chat.expect("Ctrl-D or /quit leaves")
        chat.ready()
        assert chat.leave() == 0
        assert chat.is_restored()


@pytest.mark.parametrize("paste", ["\x1b[200~y\x1b[201~", "yes", "\x1b[200~y\ry\r\x1b[201~"])
def test_a_paste_at_the_panel_decides_nothing_and_is_kept(tmp_path, paste):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("cancel A1")
        chat.asked("y approve")
        chat.send(paste)
        chat.expect("for your next message: y")
        chat.send("?")
        chat.expect("leave it waiting; nothing runs")
        chat.asked("y approve")
        assert chat.log == ['run "cancel A1" supersede=False']
        chat.send("q")
        chat.ready()
        assert chat.expect_on_screen("› y")


def test_yes_counts_only_after_the_whole_call_was_shown(tmp_path):
    with ChatTerminal(tmp_path, size=(24, 80)) as chat:
        chat.ready().say("write long")
        chat.expect("more lines")
        for _ in range(2):
            chat.send("y")
            chat.expect("Show the rest first")
        chat.send(" ")
        chat.expect('"line 030"')
        chat.expect("more lines")  # keys count once the page is drawn to its end
        chat.send("y")
        chat.expect("Show the rest first")
        shown = ""
        while "y approve" not in shown:
            chat.send(" ")
            shown = chat.expect_one_of("more lines", "y approve")
        chat.expect(KEY_MARK)
        assert '"line 089"' in chat.text
        assert chat.log == ['run "write long" supersede=False']
        chat.send("y")
        chat.expect("Done as you decided.")
        assert chat.log[1].startswith("ap-1 approve")


STATES = {
    "at the prompt": lambda chat: None,
    "while a turn runs": lambda chat: (chat.say("slow"), chat.expect("slow_tool")),
    "at the panel": lambda chat: (chat.say("cancel A1"), chat.asked("y approve")),
    "in the editor": lambda chat: (
        chat.say("cancel A1"),
        chat.asked("y approve"),
        chat.send("e"),
        chat.expect('"expected_revision": 3\n}'),
    ),
    "at the reason": lambda chat: (
        chat.say("cancel A1"),
        chat.asked("y approve"),
        chat.send("n"),
        chat.expect("Why not?"),
    ),
}
AFTER = {
    "at the prompt": "Ctrl-D or /quit leaves",
    "while a turn runs": 'Say "continue" to go on.',
    "at the panel": "Left waiting: ap-1",
    "in the editor": "y approve",
    "at the reason": "y approve",
}


@pytest.mark.parametrize("state", STATES)
def test_ctrl_c_leads_back_and_the_terminal_is_restored(tmp_path, state):
    with ChatTerminal(tmp_path) as chat:
        chat.ready()
        STATES[state](chat)
        chat.send("\x03")
        (chat.asked if AFTER[state] == "y approve" else chat.expect)(AFTER[state])
        assert not any("approve" in line or "reject" in line for line in chat.log)
        if AFTER[state] == "y approve":
            chat.send("q")
        chat.ready()
        assert chat.leave() == 0
        assert chat.is_restored()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_and_the_terminal_is_restored(tmp_path, state, number):
    with ChatTerminal(tmp_path) as chat:
        chat.ready()
        STATES[state](chat)
        os.kill(chat.program(), number)
        if state != "at the prompt":
            chat.expect("sayso chat -r s-fake01")
        assert chat.close() == 128 + number
        assert chat.is_restored()


def test_an_interrupt_signal_is_ctrl_c(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("slow")
        chat.expect("slow_tool")
        os.kill(chat.program(), signal.SIGINT)
        chat.expect("Stopping at the next safe point.")
        chat.ready()
        os.kill(chat.program(), signal.SIGINT)
        chat.expect("Ctrl-D or /quit leaves")
        chat.ready()
        assert chat.leave() == 0


@pytest.mark.parametrize(
    "pieces",
    [["/cost\r/model\rhello"], ["/cost\r", "/model\r", "hello"], list("/cost\r/model\rhello")],
    ids=["together", "line by line", "key by key"],
)
def test_an_enter_typed_ahead_between_two_prompts_sends(tmp_path, pieces):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("early bird")
        chat.expect("That is all.")
        chat.ready()
        for piece in pieces:
            chat.send(piece)
        chat.expect_on_screen("› hello")
        assert "tokens input" in chat.display
        assert "To change it: leave, then sayso chat -r s-fake01 --model" in chat.display
        assert chat.log == ['run "early bird" supersede=False']


def test_a_line_break_is_ctrl_j_and_up_brings_the_message_back(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("first\nsecond")
        chat.expect("That is all.")
        chat.ready()
        chat.send("\x1b[A")
        chat.expect_on_screen("› first\n  second")
        chat.send("\r")
        chat.expect("That is all.")
        chat.ready()
        assert chat.leave() == 0
        assert chat.log == ['run "first\\nsecond" supersede=False'] * 2
        history = tmp_path / "home" / "history"
        assert "+second" in history.read_text()
        assert history.stat().st_mode & 0o777 == 0o600


def test_typed_while_starting_is_sent_when_ready(tmp_path):
    (tmp_path / "closed").touch()
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("early bird")
        chat.expect("Still starting")
        (tmp_path / "open").touch()
        chat.expect("model      offline: a rule-based stand-in")
        chat.expect("That is all.")
        assert chat.log == ['run "early bird" supersede=False']


def test_what_cannot_be_opened_ends_the_chat_with_the_reason(tmp_path):
    (tmp_path / "closed").touch()
    (tmp_path / "broken").touch()
    with ChatTerminal(tmp_path) as chat:
        chat.ready()
        (tmp_path / "open").touch()
        chat.expect("The database cannot be opened.")
        assert chat.close() == 2
        assert chat.is_restored()
