"""What reaches a real terminal, whatever a tool or a model says, and whatever the terminal is."""

import re

from tests.support.fake_chat import ChatTerminal


def test_a_hostile_result_moves_nothing(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("hostile")
        chat.expect("⟨U+202E⟩abc")
        screen = chat.ready().display
    assert "sayso 0." in screen  # the screen was not cleared
    assert "1 fetch ␛]0;owned␇␛[2J⟨U+009B⟩5A␍pwned␈␡ ␛]8;;http://evil␛\\link" in screen
    assert "It says: ␛]0;owned␇" in screen
    assert "⟨U+202E⟩abc" in screen  # from an HTML entity
    assert "\x1b]" not in chat.raw  # no title, no hyperlink
    assert "\x1b[2J" not in chat.raw
    assert not set("\x07\x7f\x9b\u202e") & set(chat.raw)


def test_narrow(tmp_path):
    with ChatTerminal(tmp_path, size=(40, 30)) as chat:
        chat.ready().say("cancel A1")
        chat.asked("y approve")
        assert "q leave it" in chat.display
        chat.send("y")
        chat.expect("Done as you decided.")
        chat.ready()
        assert all(len(line) <= 30 for line in chat.display.split("\n"))


def test_on_a_narrow_terminal_help_stands_below_its_command(tmp_path):
    with ChatTerminal(tmp_path, size=(50, 40)) as chat:
        chat.ready().say("/help")
        chat.expect("At a call that waits")
        lines = chat.display.split("\n")
    assert lines[lines.index("/quit") + 1] == "  leave; nothing is lost"


def test_no_color(tmp_path):
    with ChatTerminal(tmp_path, environment={"NO_COLOR": "1"}) as chat:
        chat.ready().say("cancel A1")
        chat.asked("y approve")
        chat.send("y")
        chat.expect("Done as you decided.")
        chat.ready()
        colours = re.findall(r"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7])(?:;[0-9;]*)?m", chat.raw)
        assert colours == []


def test_answers_go_to_a_redirected_output_and_questions_to_the_terminal(tmp_path):
    with ChatTerminal(tmp_path, redirected=True) as chat:
        chat.ready().say("cancel A1")
        chat.asked("y approve")
        chat.send("y")
        chat.ready()
        assert chat.leave() == 0
        assert chat.is_restored()
    written = (tmp_path / "stdout").read_text()
    assert "Done as you decided." in written
    assert "Done: cancel_order A1" in written
    assert "y approve" not in written
    assert "\x1b" not in written


def test_a_failed_turn_says_what_to_do(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        chat.ready().say("fail")
        chat.expect("The provider gave up after 3 tries (503).")
        chat.expect('Nothing that was said is lost. Say "continue" to try again.')
        chat.ready()
        assert chat.leave() == 0
        chat.expect("To go on with this session: sayso chat -r s-fake01")


def test_commands(tmp_path):
    with ChatTerminal(tmp_path) as chat:
        for command, answer in (
            ("/help", "Ctrl+J or Alt+Enter is a new line"),
            ("/aproval", "Did you mean /approvals"),
            ("/model", "offline: a rule-based stand-in"),
            ("/approvals", "Nothing waits for you in this session."),
            ("/sessions", "s-fake01  done"),
            ("/resume", "Which one?"),
            ("/resume s-nope", "No session 's-nope'."),
            ("/resume s-fake01", "I will cancel it."),
            ("/cost", "1,200 tokens input · 34 tokens output · the offline model costs nothing"),
            ("/trail", "session.created"),
            ("/receipt", "No write was proposed in the last turn."),
            ("/new", "sayso chat -r s-fake01"),
        ):
            chat.ready().say(command)
            chat.expect(answer)
        chat.ready().say("/quit")
        assert chat.close() == 0
