"""What the desk knows of decisions that were made elsewhere."""

import io

from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from agent.repl.desk import Desk
from agent.repl.keys import Keyboard
from agent.repl.prompts import Prompts
from agent.repl.questions import Questions
from agent.repl.screen import Screen
from agent.types import Decision
from tests.support.fake_chat import SCENES, FakeSession, FakeStore


async def test_what_was_decided_elsewhere_is_said_once_and_lets_the_session_go_on(tmp_path):
    store = FakeStore(tmp_path)
    file = io.StringIO()
    screen = Screen(Console(file=file, width=200))
    output = DummyOutput()
    with create_pipe_input() as pipe, Keyboard(pipe, output) as keyboard:
        prompts = Prompts(
            keyboard, screen, output, history=None, completer=DummyCompleter(), toolbar=str
        )
        session = FakeSession(store, tmp_path)
        questions = Questions(screen, keyboard)
        desk = Desk(session, store, store.rules, screen, questions, prompts)
        assert not desk.has_news()
        store.save(SCENES["cancel three"])
        assert not desk.has_news()  # what begins to wait is none
        for number in (1, 2, 3):
            store.decide(f"ap-{number}", Decision("approve"), "bob", "cli")
        assert desk.has_news()
        assert file.getvalue() == ""
        assert await desk.settle()
        assert not desk.has_news()
        assert not await desk.settle()
    said = file.getvalue().splitlines()
    assert [line.split()[0] for line in said] == ["ap-1", "ap-2", "ap-3"]
    assert all("was approved by bob" in line for line in said)
