"""What the chat needs from the application, on one page.

Protocols instead of imports: the chat draws its prompt and takes keys while LangChain, which
``agent.session`` needs, is still being imported. Tests put a small stand-in here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agent.events import Event
from agent.store.records import ApprovalRecord, RuleRecord, SessionRecord, TrailEntry
from agent.types import ApprovalStatus, Decision, Receipt

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool


class Scope(Protocol):
    """What an "always" answer would cover; see ``tools.contract.Scope``."""

    @property
    def text(self) -> str: ...
    @property
    def args(self) -> Mapping[str, Mapping[str, Any]]: ...


class Session(Protocol):
    """``agent.session.AgentSession``: the only driver of the graph."""

    @property
    def id(self) -> str: ...
    @property
    def record(self) -> SessionRecord: ...
    @property
    def tools(self) -> Sequence[BaseTool]: ...
    def run(self, text: str, *, supersede: bool = False) -> AsyncGenerator[Event, None]: ...
    def resume(self) -> AsyncGenerator[Event, None]: ...
    def pending(self) -> list[ApprovalRecord]: ...
    def decide(self, approval_id: str, decision: Decision) -> ApprovalRecord: ...
    def decide_many(self, answers: list[tuple[str, Decision]]) -> list[ApprovalRecord]: ...
    def always_scope(self, approval_id: str) -> Scope | None: ...
    def allow_always(self, approval_id: str) -> RuleRecord: ...
    def rules(self) -> list[RuleRecord]: ...
    def revoke(self, rule_id: str) -> RuleRecord: ...
    def request_stop(self) -> str: ...
    async def history(self) -> list[BaseMessage]: ...
    def receipt(self) -> Receipt: ...


class Sessions(Protocol):
    """The store's sessions, the latest first."""

    def get(self, id: str, /) -> SessionRecord: ...
    def list(self, *, limit: int = ...) -> Sequence[SessionRecord]: ...


class Approvals(Protocol):
    """The store's approvals, decided ones included."""

    def get(self, approval: str, /) -> ApprovalRecord: ...
    def list(
        self,
        *,
        status: ApprovalStatus | None = ...,
        session: str | None = ...,
        turn: int | None = ...,
        limit: int | None = ...,
    ) -> Sequence[ApprovalRecord]: ...


class Trail(Protocol):
    """The store's record of everything that mattered."""

    def entries(self, session: str) -> Sequence[TrailEntry]: ...


class Store(Protocol):
    """The part of ``agent.store.Store`` that the chat reads."""

    @property
    def sessions(self) -> Sessions: ...
    @property
    def approvals(self) -> Approvals: ...
    @property
    def trail(self) -> Trail: ...


class Application(Protocol):
    """What the command line opened: a store, a model, tools; makes and opens sessions."""

    @property
    def store(self) -> Store: ...
    @property
    def workspace(self) -> Path | None: ...
    @property
    def tools(self) -> Sequence[BaseTool]: ...
    @property
    def model_name(self) -> str: ...
    @property
    def notices(self) -> Sequence[str]: ...
    def new_session(self) -> AbstractAsyncContextManager[Session]: ...
    def open_session(self, id: str, /) -> AbstractAsyncContextManager[Session]: ...
    def changes(self, record: SessionRecord) -> Sequence[str]: ...


Opener = Callable[[], Awaitable[Application]]
