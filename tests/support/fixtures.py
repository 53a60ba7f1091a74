"""Fixtures that several folders of tests share; a conftest imports the ones it wants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.openai_server import ModelServer


@pytest.fixture
def model_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A scripted model on a real socket.

    Fails the test when a request was refused as invalid, or when the script itself failed,
    whatever the program made of it. A test that means to send such a request clears
    ``refused``.
    """
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with ModelServer() as server:
        yield server
    assert server.refused == []
    assert server.errors == []
