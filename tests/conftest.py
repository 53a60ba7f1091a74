"""Isolation for every test: its own state folder, no keys, no network beyond this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.network import loopback_only

if find_spec("tests.support.fixtures"):
    pytest_plugins = ["tests.support.fixtures"]

# No deadline: a shared runner pauses whenever it likes. In CI the examples are the same each
# time, and none are kept on disk.
settings.register_profile(
    "dev", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

FOREIGN = ("SAYSO_", "OPENAI_", "LANGSMITH_", "LANGCHAIN_", "LANGGRAPH_")


@pytest.fixture(autouse=True)
def _own_environment(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state folder of the test's own, and none of the settings of whoever runs it."""
    for name in list(os.environ):
        if name.startswith(FOREIGN):
            monkeypatch.delenv(name)
    state = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    monkeypatch.setenv("SAYSO_HOME", str(state / "sayso"))


@pytest.fixture
def sayso_home() -> Path:
    """The test's state folder; nothing has made it yet."""
    return Path(os.environ["SAYSO_HOME"])


@pytest.fixture(autouse=True, scope="session")
def _own_machine() -> Iterator[None]:
    """No test of this process reaches another machine."""
    with loopback_only():
        yield
