"""The command line in this process where that is enough, else as the console script."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from agent.cli.main import main
from agent.store import Store
from tests.cli.program import Invoke, Result, finish, start
from tests.support.fixtures import model_server as model_server
from tests.support.openai_server import ModelServer, Step, by_history


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    return here


@pytest.fixture
def sayso(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Invoke:
    """Run a command in this process, off a terminal."""
    monkeypatch.setenv("COLUMNS", "200")

    def invoke(*arguments: str) -> Result:
        capfd.readouterr()
        code = main(arguments)
        return Result(code, *capfd.readouterr())

    return invoke


@pytest.fixture
def script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run the console script in a process of its own, its standard input empty."""
    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments, **options: finish(start(*arguments, **options))


@pytest.fixture
def model(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModelServer]:
    """Let the settings name a scripted model; its step follows from the history."""
    monkeypatch.setenv("OPENAI_BASE_URL", model_server.url)
    monkeypatch.setenv("SAYSO_MODEL", "openai:test")
    monkeypatch.setenv("SAYSO_MODEL_RETRIES", "0")

    def play(*steps: Step | Sequence[Step]) -> ModelServer:
        model_server.script(by_history(steps))
        return model_server

    return play


@pytest.fixture
def store(sayso_home: Path) -> Iterator[Store]:
    """The store of the test's state folder."""
    sayso_home.mkdir(mode=0o700, exist_ok=True)
    opened = Store.open(f"sqlite:///{sayso_home / 'sayso.db'}", home=sayso_home)
    yield opened
    opened.close()
