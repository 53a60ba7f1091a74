"""A fault inside the chat is one sentence and a log entry; the chat goes on."""

import io
import logging
from types import SimpleNamespace

from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from agent.repl.app import Chat
from agent.repl.keys import Keyboard
from agent.repl.screen import Screen
from agent.repl.talk import Talk


def faulty(*_):
    raise ZeroDivisionError("a fault \x1b[31mof ours")


async def talk(keys, **app):
    """A whole chat: what was typed, and an application that is broken somewhere."""
    servers = SimpleNamespace(servers=[])
    app = SimpleNamespace(
        model_name="offline",
        workspace=None,
        notices=[],
        servers=servers,
        warm=lambda: None,
        **app,
    )

    async def open_app():
        return app

    file = io.StringIO()
    with create_pipe_input() as pipe, Keyboard(pipe, DummyOutput()) as keyboard:
        chat = Chat(open_app, Screen(Console(file=file, width=300)), keyboard, DummyOutput())
        keyboard.typeahead.sending = True
        pipe.send_text(keys)
        code = await chat.run(None, continue_latest=False)
    return code, file.getvalue()


async def test_the_chat_goes_on(caplog):
    with caplog.at_level(logging.ERROR, "sayso"):
        store = SimpleNamespace(sessions=SimpleNamespace(get=faulty))
        code, shown = await talk("/resume s-x\r/new\r/quit\r", store=store)
    assert code == 0
    assert shown.count("unexpected failed: ZeroDivisionError: a fault ␛[31mof ours.") == 1
    assert "logs/sayso.log" in shown
    assert "A new session begins with your next message." in shown
    (entry,) = caplog.records
    assert entry.exc_info[0] is ZeroDivisionError


async def test_an_application_that_cannot_be_opened_ends_it(caplog):
    async def open_app():
        faulty()

    file = io.StringIO()
    with create_pipe_input() as pipe, Keyboard(pipe, DummyOutput()) as keyboard:
        chat = Chat(open_app, Screen(Console(file=file, width=300)), keyboard, DummyOutput())
        code = await chat.run(None, continue_latest=False)
    assert code == 1
    assert file.getvalue().count("unexpected failed: ZeroDivisionError") == 1


async def test_a_fault_that_comes_again_before_anything_was_read_ends_it(monkeypatch):
    monkeypatch.setattr(Talk, "has_news", faulty)
    code, shown = await talk("/quit\r")
    assert code == 1
    assert shown.count("unexpected failed: ZeroDivisionError") == 2
