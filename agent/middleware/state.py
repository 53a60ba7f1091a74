"""What the middlewares share: the graph's state, the run's context, and one proposed call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from langchain.agents.middleware import AgentState
from langchain.agents.middleware.human_in_the_loop import ToolApprovalRequest
from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import _messages_delta_reducer
from langgraph.types import interrupt

from agent.authority import authority_of
from agent.middleware.under_way import WritesUnderWay
from agent.models.reporting import Report
from agent.policy import Policy
from agent.types import Authority, Verdict

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.records import LeaseRecord

Reader = Callable[[str, Sequence[str]], Awaitable[Report]]
"""From a text and the user's own words to the facts in it."""

SNAPSHOT_EVERY = 100
"""Updates of the message channel between two full snapshots; between them only deltas are kept."""


class SaysoState(AgentState[Any]):
    """Messages are kept as deltas; verdicts are those of the last reply alone, by call id."""

    messages: Annotated[
        list[AnyMessage],
        DeltaChannel(_messages_delta_reducer, snapshot_frequency=SNAPSHOT_EVERY),
    ]
    verdicts: NotRequired[Annotated[dict[str, Verdict], PrivateStateAttr]]


@dataclass
class Recording:
    """Where a run is recorded: the store, the session, and the lease that fences its writes."""

    store: Store
    session: str
    lease: Callable[[float], LeaseRecord]
    """Renews the lease so that at least so many seconds remain, or raises ``LeaseLost``."""
    ancestors: tuple[str, ...] = ()
    later: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Trail entries about reads that have ended; they go along with the next entry."""
    unrecorded: list[str] = field(default_factory=list)
    """What is known of writes and could not be recorded, in sentences for whoever runs them."""
    stopping: bool = False
    """Whether somebody has asked to stop: what has not begun waits for the session to go on."""
    under_way: WritesUnderWay = field(default_factory=WritesUnderWay)
    """The writes of this process, of all its sessions, that have not ended."""

    @property
    def line(self) -> tuple[str, ...]:
        """The session, and those that it was forked from, the nearest first."""
        return (self.session, *self.ancestors)

    def note(self, *entries: tuple[str, dict[str, Any]]) -> None:
        """Append to the trail what was kept for later, and these entries.

        Raises:
            LeaseLost: Another process has taken the session over; the record is its own now.
        """
        entries = (*self.later, *entries)
        if entries:
            self.store.trail.append(self.session, entries, epoch=self.lease(0).epoch)
            self.later.clear()


READ_ONLY = Authority(granted=("read:*", "network:*"))


@dataclass
class AgentContext:
    """What one run may do. Never checkpointed, so this is where secrets would go.

    Without a ``recording`` (the exported graph, opened in another front end) it may only read:
    what changes the world cannot be approved there.
    """

    recording: Recording | None = None
    labels: frozenset[str] = frozenset()
    """What the session had read when it was opened, also where its history no longer tells."""
    policy: Policy = field(default_factory=Policy)
    """The files of rules that hold."""
    user: str = ""
    """Whose session it is, as they said."""
    outside_of_sessions: Authority = READ_ONLY
    """What may be done where there is no ``recording``."""
    max_steps: int = 25
    tool_timeout: float = 60.0
    result_limit: int = 20_000
    approval_hours: float = 0
    """For how long an approval may be answered; 0: for ever."""
    artifacts: Path | None = None
    """The folder for what tools return beside text; without one, that is dropped."""
    freeze: bool = False
    """Whether each turn's tools are chosen from the user's words before anything is read."""
    reader: Reader | None = None
    """Reads strangers' text so that the planning model does not; ``None``: it reads it itself."""
    superseding: bool = False
    """Finish the open calls: the session moves on. What was approved already still runs."""
    cancelling: bool = False
    """While superseding: run nothing at all, the session ends."""

    @property
    def authority(self) -> Authority:
        """What may be done now: a person may have changed it since the session was opened."""
        if self.recording is None:
            return self.outside_of_sessions
        return authority_of(self.recording.store, self.recording.session)


def context_of(request: Any) -> AgentContext:
    """The run's context; the read-only default where a front end gave none."""
    context = request.runtime.context
    return context if isinstance(context, AgentContext) else AgentContext()


UNDOES = "sayso_undoes"
"""Key, in the reply that holds a call which the user ordered, of the effect that it undoes."""


def last_reply(messages: Sequence[BaseMessage]) -> AIMessage | None:
    """The last AI message."""
    return next((m for m in reversed(messages) if isinstance(m, AIMessage)), None)


@dataclass(frozen=True)
class OpenCall:
    """One call on its way to a tool: where it stands, and what was decided about it."""

    message: str
    call: str
    tool: str
    verdict: Verdict | None

    @classmethod
    def of(cls, request: ToolCallRequest) -> OpenCall:
        """Read it from a tool call request; no verdict means that nobody has judged it."""
        reply = last_reply(request.state["messages"])
        call = request.tool_call["id"] or ""
        return cls(
            message=(reply.id or "") if reply else "",
            call=call,
            tool=request.tool_call["name"],
            verdict=(request.state.get("verdicts") or {}).get(call),
        )


def answer(request: ToolCallRequest, text: str, *, error: bool = True) -> ToolMessage:
    """A tool message that the harness wrote in place of a result."""
    return ToolMessage(
        content=text,
        name=request.tool_call["name"],
        tool_call_id=request.tool_call["id"],
        status="error" if error else "success",
    )


def pause(request: ToolCallRequest, why: str, form: dict[str, Any] | None = None) -> None:
    """Pause this call until the store holds a decision; an answer to the graph alone is none.

    The request follows LangChain's per-call schema so that any front end can show it. ``form``
    is the JSON schema of an answer, where LangChain publishes one.
    """
    interrupt(
        ToolApprovalRequest(
            type="tool_approval",
            tool_call_id=request.tool_call["id"] or "",
            name=request.tool_call["name"],
            args=request.tool_call["args"],
            description=why,
        ),
        response_schema=form,
    )
