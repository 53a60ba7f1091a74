"""What a deleted session's person typed is gone from the chat's history too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.history import FileHistory

from agent.cli.history import forget, history_file
from agent.store import Store
from tests.cli.program import Invoke
from tests.support.openai_server import ModelServer, Reply

Model = Callable[..., ModelServer]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history"


def typed(path: Path, *texts: str) -> None:
    for text in texts:
        FileHistory(str(path)).store_string(text)


def kept(path: Path) -> list[str]:
    """What the up-arrow finds, the oldest first."""
    return list(FileHistory(str(path)).load_history_strings())[::-1]


def test_entries_are_found_whole_however_they_were_written(path: Path) -> None:
    gone = ["one", "two\nlines", "+plus", "# 2026-01-01", "a\rb\u2028c", "größe 🎈", "lone \ud800"]
    left = ["one more", "two", "lines", "/resume s-1", "two\nlines\n+one"]
    typed(path, *left[:2], *gone, "  one \n", "one", *left[2:])
    path.chmod(0o600)

    assert forget(path, gone) == len(gone) + 2
    assert kept(path) == left
    content = path.read_bytes()
    assert b"+one\n" not in content.replace(b"++one\n", b"")
    assert "größe".encode() not in content
    assert path.stat().st_mode & 0o777 == 0o600
    assert forget(path, gone) == 0


def test_a_chat_that_is_open_meanwhile_loses_nothing(path: Path) -> None:
    typed(path, "a secret", "kept")
    with path.open("ab") as chat:
        assert forget(path, ["a secret"]) == 1
        chat.write(b"\n# 2026-01-01 12:00:00\n+typed since\n")
    assert kept(path) == ["kept", "typed since"]


def test_where_nothing_was_ever_typed_there_is_nothing_to_forget(path: Path) -> None:
    assert forget(path, ["x"]) == 0
    assert not path.exists()


def test_deleting_a_session_takes_its_lines_and_leaves_those_of_others(
    sayso: Invoke, model: Model, store: Store, sayso_home: Path
) -> None:
    model(Reply("Yes."))
    history = history_file(sayso_home)
    for text in ("my secret\nin two lines", "another session"):
        assert sayso("run", text).code == 0
        typed(history, text)
    secret = next(s for s in store.sessions.list() if "secret" in s.title)

    assert sayso("sessions", "delete", secret.id, "--yes").code == 0
    assert kept(history) == ["another session"]
    assert "secret" not in history.read_text()


def test_a_line_with_a_secret_is_found_though_the_trail_has_a_mark_for_it(
    sayso: Invoke,
    model: Model,
    store: Store,
    sayso_home: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SAYSO_TRAIL_KEY", "sixteen bytes, or more")
    model(Reply("Yes."))
    history = history_file(sayso_home)
    said = "Log in as https://ann:hunter2@host with sixteen bytes, or more"
    assert sayso("run", said).code == 0
    typed(history, said, "another")
    (session,) = store.sessions.list()
    assert "hunter2" not in str(store.trail.entries(session.id))
    assert sayso("sessions", "delete", session.id, "--yes").code == 0
    assert kept(history) == ["another"]


def test_a_history_that_cannot_be_written_is_named(
    sayso: Invoke, model: Model, store: Store, sayso_home: Path
) -> None:
    model(Reply("Yes."))
    assert sayso("run", "my secret").code == 0
    history_file(sayso_home).mkdir()
    (session,) = store.sessions.list()
    result = sayso("sessions", "delete", session.id, "--yes")
    assert result.code == 1
    assert f"{session.id} is deleted" in result.err
    assert f"still in the chat's history, {history_file(sayso_home)}" in result.err
