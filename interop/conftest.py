"""Tests against what others wrote; ``make interop`` sets it up and runs them."""

from __future__ import annotations

import pytest

from interop.others import HOME, INSTALLED
from tests.conftest import _own_environment as _own_environment
from tests.conftest import _own_machine as _own_machine
from tests.conftest import sayso_home as sayso_home
from tests.support.fixtures import model_server as model_server


def pytest_sessionstart() -> None:
    """Nothing here runs without what is tried."""
    if not INSTALLED.exists():
        pytest.exit(f"Nothing is set up in {HOME}; make interop does that and runs these tests.", 4)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of others would reach this machine through them."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
