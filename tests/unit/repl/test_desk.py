"""What the desk knows of decisions that were made elsewhere."""

import io
from contextlib import contextmanager

import pytest
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


@contextmanager
def desk_over(store: FakeStore, folder, file):
    screen = Screen(Console(file=file, width=200))
    output = DummyOutput()
    with create_pipe_input() as pipe, Keyboard(pipe, output) as keyboard:
        prompts = Prompts(
            keyboard, screen, output, history=None, completer=DummyCompleter(), toolbar=str
        )
        questions = Questions(screen, keyboard)
        yield Desk(FakeSession(store, folder), store, store.rules, screen, questions, prompts)


async def test_what_was_decided_elsewhere_is_said_once_and_lets_the_session_go_on(tmp_path):
    store = FakeStore(tmp_path)
    file = io.StringIO()
    with desk_over(store, tmp_path, file) as desk:
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


@pytest.mark.parametrize(
    ("state", "status", "goes_on"),
    [
        ("interrupted", "superseded", False),  # it came to its end by itself; nobody said go on
        ("interrupted", "answered", True),
        ("waiting", "superseded", True),
    ],
)
async def test_a_turn_that_was_stopped_goes_on_only_when_somebody_says_so(
    tmp_path, state, status, goes_on
):
    store = FakeStore(tmp_path)
    for take in ("settle", "take_news"):
        file = io.StringIO()
        with desk_over(store, tmp_path, file) as desk:
            (doubt,) = SCENES["cancel lost"]
            store.save([doubt])
            assert not desk.has_news()
            store.state = state
            store.save([doubt.model_copy(update={"status": status, "comment": "found out"})])
            assert desk.has_news()
            went_on = await desk.settle() if take == "settle" else desk.take_news()
            assert (went_on, desk.has_news()) == (goes_on, False)
        assert file.getvalue().count("ap-1") == 1
