"""Applications whose model is a server on a socket, with tools of a test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.tools import BaseTool
from pydantic import SecretStr

from agent.application import Application, Options
from agent.session import AgentSession
from tests.support.openai_server import ModelServer
from tests.support.sessions import application


class Wired:
    """Opens them over one state folder, with the same tools and settings each time."""

    def __init__(
        self, home: Path, server: ModelServer, tools: Sequence[BaseTool], **settings: Any
    ) -> None:
        self.server = server
        self._home, self._tools, self._settings = home, tools, settings

    @asynccontextmanager
    async def app(self, **settings: Any) -> AsyncIterator[Application]:
        """The application; ``settings`` win over those that were given at first."""
        served = {"openai_api_key": SecretStr("k"), "openai_base_url": self.server.url}
        values = {"model_retries": 0, "model": "openai:test-model", **self._settings, **settings}
        async with application(
            self._home,
            tools=self._tools,
            domains=["research"],
            options=Options(via="test"),
            **values,
            **served,
        ) as app:
            yield app

    @asynccontextmanager
    async def session(self, **settings: Any) -> AsyncIterator[tuple[Application, AgentSession]]:
        """A new session in an application of its own."""
        async with self.app(**settings) as app, app.new_session() as opened:
            yield app, opened
