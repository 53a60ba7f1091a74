"""A session with the server of somebody else, and what a test does in it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import ToolMessage

from agent import inbox
from agent.application import Application, Options
from agent.artifacts import files_in
from agent.errors import McpError
from agent.events import ApprovalAsked, CallFinished, Event
from agent.mcp.servers import ServerConfig
from agent.session import AgentSession
from agent.store.records import ApprovalRecord, EffectRecord
from agent.types import Decision
from tests.support.sessions import session

NO_TASKS = (
    "MCP server everything: its tool 'simulate-research-query' is not offered: "
    "it can only be run as a task, which this host does not do"
)
"""What is said at the start of every session with that server."""


@dataclass
class Talk:
    """A session, and all that was seen of it.

    Attributes:
        answer: Decides on a question that a server asks while its call runs.
    """

    app: Application
    session: AgentSession
    events: list[Event] = field(default_factory=list)
    answer: Callable[[ApprovalRecord], Decision] | None = None

    async def say(self, text: str) -> list[str]:
        """A turn, up to its end or a pause; the results of its calls."""
        return await self._watch(self.session.run(text))

    async def approve(
        self, when: type[Event] | None = None, then: Callable[[], object] | None = None
    ) -> list[str]:
        """Approve the one write that waits, and go on; the results of calls.

        Args:
            when: At the first event of this kind, ``then`` is called.
        """
        (waiting,) = self.session.pending()
        assert waiting.kind == "write"
        return await self.decide(waiting, Decision("approve"), when, then)

    async def decide(
        self,
        approval: ApprovalRecord,
        decision: Decision,
        when: type[Event] | None = None,
        then: Callable[[], object] | None = None,
    ) -> list[str]:
        """Decide, and go on; see :meth:`approve`."""
        self.session.decide(approval.id, decision)
        return await self._watch(self.session.resume(), when, then)

    async def _watch(
        self,
        events: AsyncIterator[Event],
        when: type[Event] | None = None,
        then: Callable[[], object] | None = None,
    ) -> list[str]:
        found = []
        async for event in events:
            self.events.append(event)
            match event:
                case CallFinished(text=text):
                    found.append(text)
                case ApprovalAsked(approval=approval) if approval.kind == "elicitation":
                    assert self.answer is not None
                    decided = [(approval.id, self.answer(approval))]
                    inbox.decide(self.app.store, decided, self.app.actor, lambda name: None)
            if when is not None and isinstance(event, when) and then is not None:
                when = None
                then()
        return found

    async def artifacts(self) -> list[Any]:
        """What was kept beside the results of the calls."""
        history = await self.session.history()
        return [message.artifact for message in history if isinstance(message, ToolMessage)]

    async def files(self) -> list[bytes]:
        """What of that is in files."""
        return [kept for artifact in await self.artifacts() for kept in _contents(artifact)]

    @property
    def effects(self) -> list[EffectRecord]:
        """The writes of the session."""
        return self.app.store.ledger.list(session=self.session.id)

    async def kill(self, server: str) -> None:
        """End a server's process as a power cut would, and wait until that is noticed."""
        connection = self.app.servers.server(server).connection
        assert connection.link is not None
        ended = connection.link.ended
        kill_children()
        await asyncio.wait({ended})

    async def reached(self, server: str) -> None:
        """Wait until a server can be used again: one that was away is left alone for a while."""
        connection = self.app.servers.server(server).connection
        while connection.link is None:
            with suppress(McpError):
                await connection.open()
            await asyncio.sleep(0.01)


def _contents(artifact: Any) -> list[bytes]:
    return [Path(path).read_bytes() for path in files_in(artifact)]


@asynccontextmanager
async def talk(home: Path, steps: list[Any], *servers: ServerConfig) -> AsyncIterator[Talk]:
    """A new session with these servers, and a model that follows ``steps``."""
    options = Options(via="test", servers=servers)
    async with session(home, steps, domains=("research",), options=options) as (app, opened):
        told = [NO_TASKS for server in servers if server.name == "everything"]
        assert app.notices == app.servers.complaints == told
        yield Talk(app, opened)


def kill_children() -> None:
    """What :func:`children` finds."""
    for pid in children():
        os.kill(pid, signal.SIGKILL)


def children() -> set[int]:
    """The processes that this one has started and that are still there."""
    lists = Path("/proc/self/task").glob("*/children")
    return {int(pid) for one in lists for pid in one.read_text().split()}
