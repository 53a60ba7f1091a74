"""The line under the prompt."""

from types import SimpleNamespace

import pytest

from agent.repl.status import status_line
from agent.store.records import SessionRecord


def session(tokens, *waiting):
    record = SessionRecord(
        id="s-1", state="done", model="openai:test", labels=["private"], tokens=tokens
    )
    return SimpleNamespace(record=record, pending=lambda: waiting)


@pytest.mark.parametrize(
    ("model", "open_session", "line"),
    [
        ("offline", None, "offline · new session"),
        ("offline", session({}), "offline · s-1 · private"),
        (
            "openai:test",
            session({"input": 12_000, "output": 345}, "a-1", "a-2"),
            "openai:test · s-1 · private · 12,345 tokens · 2 waiting: /approvals",
        ),
        ("openai:" + "x" * 40, None, "openai:" + "x" * 22 + "… · new session"),
    ],
)
def test_what_it_says(model, open_session, line):
    assert status_line(model, open_session) == line
