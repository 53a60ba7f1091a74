"""Which keys answer, which are kept, over prompt_toolkit's own input parser."""

import asyncio
import errno

import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.output import DummyOutput

from agent.repl.keys import CLOSED, Keyboard


@pytest.fixture
async def pipe():
    with create_pipe_input() as pipe:
        yield pipe


@pytest.fixture
async def keyboard(pipe):
    with Keyboard(pipe, DummyOutput()) as keyboard:
        yield keyboard


async def answers(keyboard, count):
    with keyboard.asking() as asked:
        return [await asked.get(5) for _ in range(count)]


async def test_what_came_before_the_question_is_typeahead(pipe, keyboard):
    pipe.send_text("y")
    with keyboard.asking() as asked:
        pipe.send_text("n")
        assert await asked.get(5) == "n"
    assert keyboard.typeahead.take() == "y"
    assert keyboard.typeahead.take() == ""


@pytest.mark.parametrize(
    ("pasted", "kept"),
    [
        ("\x1b[200~y\x1b[201~", "y"),
        ("\x1b[200~y\r\nn\rq\x1b[201~", "y\nn\nq"),
        ("yes", "yes"),
        ("y\r", "y\n"),
        ("\x1by", "y"),  # Alt-Y
    ],
)
async def test_keys_that_come_together_are_no_answer(pipe, keyboard, pasted, kept):
    with keyboard.asking() as asked:
        pipe.send_text(pasted)
        assert await asked.get(0.2) is None
        pipe.send_text("x")
        assert await asked.get(5) == "x"
    assert keyboard.typeahead.take() == kept


async def test_a_paste_that_began_before_the_question_is_no_answer(pipe, keyboard):
    pipe.send_text("\x1b[200~y")
    with keyboard.asking() as asked:
        pipe.send_text("y\x1b[201~")
        assert await asked.get(0.2) is None
    assert keyboard.typeahead.take() == "yy"


async def test_an_escape_before_the_question_is_no_answer(pipe, keyboard):
    pipe.send_text("\x1b")
    with keyboard.asking() as asked:
        assert await asked.get(0.3) is None
        pipe.send_text("\x1b")
        assert await asked.get(5) == "escape"


async def test_space_and_enter_may_come_together(pipe, keyboard):
    with keyboard.asking() as asked:
        pipe.send_text("  \r")
        assert [await asked.get(5) for _ in range(3)] == [" ", " ", "enter"]


async def test_what_nobody_asked_for_is_kept(pipe, keyboard):
    with keyboard.asking() as asked:
        pipe.send_text("y")
        assert await asked.get(5) == "y"
        for key in "hi":
            pipe.send_text(key)
            await asyncio.sleep(0)
        keyboard.drain()
    assert keyboard.typeahead.take() == "hi"


async def test_typeahead_is_edited_as_it_was_typed(pipe, keyboard):
    pipe.send_text("helo\x7flo\x1b[Athere\x1b[200~\none\x1b[201~\r")
    keyboard.drain()
    assert keyboard.typeahead.take() == "hello" + "there\none\n"


async def test_an_enter_typed_ahead_stays_visible_or_sends_and_merges_no_lines(pipe, keyboard):
    """While a turn runs it breaks the line; between two message prompts it sends."""
    typeahead = keyboard.typeahead
    with keyboard.echoing(lambda _: None):
        pipe.send_text("/model\r")
        keyboard.drain()
    assert typeahead.take_sent() is None
    assert typeahead.take() == "/model\n"
    typeahead.sending = True
    pipe.send_text("\r/model\rhello\rrest")
    keyboard.drain()
    assert [typeahead.take_sent() for _ in range(3)] == ["/model", "hello", None]
    assert typeahead.take() == "rest"


@pytest.mark.parametrize("what", ["question", "turn"])
async def test_nothing_sends_itself_after_a_question_or_a_turn(pipe, keyboard, what):
    keyboard.typeahead.sending = True
    pipe.send_text("y\r")
    keyboard.drain()
    with keyboard.asking() if what == "question" else keyboard.echoing(lambda _: None):
        pass
    assert keyboard.typeahead.take_sent() is None
    assert keyboard.typeahead.take() == "y\n"


async def test_ctrl_c_interrupts_a_turn_and_answers_a_question(pipe, keyboard):
    stops = []
    keyboard.on_interrupt = lambda: stops.append("stop")
    pipe.send_text("abc\x03")
    keyboard.drain()
    assert stops == ["stop"]
    pipe.send_text("\x03")
    with keyboard.asking() as asked:
        pipe.send_text("\x03")
        assert await asked.get(5) == "c-c"
    assert stops == ["stop", "stop"]
    assert keyboard.typeahead.take() == "abc"


async def test_what_is_typed_ahead_is_shown(pipe, keyboard):
    shown = []
    with keyboard.echoing(shown.append):
        pipe.send_text("a")
        keyboard.drain()
        pipe.send_text("b")
        keyboard.drain()
    pipe.send_text("c")
    keyboard.drain()
    assert shown == ["a", "ab"]


async def test_tab_calls_when_it_was_pressed_alone_and_nobody_asks(pipe, keyboard):
    calls = []
    with keyboard.tab_calls(lambda: calls.append("called")):
        for keys in ("\t", "a\tb", "\x1b[200~c\td\x1b[201~"):
            pipe.send_text(keys)
            keyboard.drain()
        with keyboard.asking() as asked:
            pipe.send_text("\t")
            assert await asked.get(5) == "tab"
    pipe.send_text("\t")
    keyboard.drain()
    assert calls == ["called"]
    assert keyboard.typeahead.take() == "abc\td"


async def test_what_a_terminal_that_has_gone_does_not_take_is_no_error(pipe):
    class Gone(DummyOutput):
        def flush(self):
            raise OSError(errno.EIO, "Input/output error")

    def show(typed):
        raise OSError(errno.EIO, "Input/output error")

    with Keyboard(pipe, Gone()) as keyboard, keyboard.echoing(show):
        pipe.send_text("a")
        keyboard.drain()
    assert keyboard.typeahead.take() == "a"


async def test_a_terminal_that_has_gone_answers_every_question(pipe, keyboard):
    with keyboard.asking() as asked:
        pipe.close()
        assert await asked.get(5) == CLOSED
    assert await answers(keyboard, 1) == [CLOSED]
    assert keyboard.closed


async def test_the_terminal_is_restored_when_entering_fails(pipe):
    class Refusing(DummyOutput):
        modes: list[str] = []  # noqa: RUF012

        def enable_bracketed_paste(self):
            self.modes.append("on")

        def disable_bracketed_paste(self):
            self.modes.append("off")

    output = Refusing()
    pipe.attach = lambda callback: (_ for _ in ()).throw(EOFError)
    with pytest.raises(EOFError), Keyboard(pipe, output):
        pass
    assert output.modes == ["on", "off"]


async def test_keys_that_an_editor_gives_back_come_before_those_typed_while_it_closes(
    pipe, keyboard
):
    with keyboard.lent(lambda: None):
        # As prompt_toolkit leaves them when it has let go of the input.
        store_typeahead(pipe, [KeyPress("/", "/"), KeyPress("m", "m")])
        pipe.send_text("ore")
        keyboard._ready()
    assert keyboard.typeahead.take() == "/more"
