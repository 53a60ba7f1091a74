"""One pass over the graph, told as events; and what a turn's events leave to remember."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.runtime import RunControl
from langgraph.types import Interrupt, PregelTask, StateSnapshot

from agent.events import (
    AnswerMarked,
    ApprovalAsked,
    CallFinished,
    CallJudged,
    CallProgress,
    CallProposed,
    DraftRefused,
    Event,
    Message,
    MessageDelta,
)
from agent.mcp.questions import PROGRESS, QUESTION
from agent.middleware.answers import MARKED, checks_due
from agent.models import ending
from agent.models.choosing import UNSEEN
from agent.provenance import REFUSED, USAGE, labels_of_results

if TYPE_CHECKING:
    from langchain_core.outputs import ChatGenerationChunk, GenerationChunk
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import BaseTool
    from langgraph.graph.state import CompiledStateGraph

    from agent.middleware.state import AgentContext


def words_of(message: AIMessage) -> str:
    """What a reply says, with a mark where it was cut off."""
    if message.text and not message.tool_calls and (mark := _MARKS.get(ending(message))):
        return f"{message.text}\n\n{mark}"
    return str(message.text)


_MARKS = {
    "cut_off": '[cut off by the limit on the length of a reply; say "continue" for the rest]',
    "filtered": "[stopped by the provider's content filter]",
}


class Stopped(Exception):
    """The operator stopped the running pass at once."""


class TurnReader:
    """Turns the graph's updates into events, and remembers what a turn is asked about later.

    Attributes:
        tools: Those of the session, by name.
        tokens: ``input`` and ``output`` that the model's replies counted.
        labels: Where what the model has read came from (``agent.provenance``).
        in_tools: Whether calls are under way, as far as the stream has told.
    """

    def __init__(self, tools: Mapping[str, BaseTool], labels: set[str]) -> None:
        self.tools, self.labels = tools, labels
        self.tokens: dict[str, int] = {}
        self.in_tools = False

    def read(self, chunk: Mapping[str, Any]) -> list[Event]:
        """The events of one chunk of the stream of updates.

        A chunk may repeat what a node wrote before the run was broken off. Results were told
        then; a reply was perhaps not, and is told again.
        """
        again = "__metadata__" in chunk
        events: list[Event] = []
        for node, update in chunk.items():
            if node == "model":
                parts = update if isinstance(update, list) else [update]
                events += self._read_reply(parts, count=not again)
            elif node == "tools" and not again:
                events += self._read_results(update or {})
        return events

    def _read_reply(self, parts: list[Mapping[str, Any] | None], *, count: bool) -> Iterator[Event]:
        messages = [m for part in parts for m in (part or {}).get("messages", [])]
        verdicts = {k: v for part in parts for k, v in ((part or {}).get("verdicts") or {}).items()}
        for message in messages:
            if isinstance(message, ToolMessage):
                yield _finished(message)
            if not isinstance(message, AIMessage):
                continue
            self.in_tools = bool(message.tool_calls)
            if count:
                self._count(message)
            yield from _told(message)
            for call in message.tool_calls:
                identity = call["id"] or ""
                yield CallProposed(identity, call["name"], call["args"])
                if verdict := verdicts.get(identity):
                    yield CallJudged(identity, call["name"], verdict)

    def _read_results(self, update: Mapping[str, Any]) -> Iterator[Event]:
        for message in update.get("messages", []):
            if isinstance(message, ToolMessage):
                self.labels |= labels_of_results([message], self.tools)
                for usage in message.additional_kwargs.get(USAGE, ()):
                    self._add(usage)
                yield _finished(message)

    def _count(self, message: AIMessage) -> None:
        if usage := message.usage_metadata:
            self._add(usage)

    def _add(self, usage: Mapping[str, Any]) -> None:
        self.tokens["input"] = self.tokens.get("input", 0) + usage["input_tokens"]
        self.tokens["output"] = self.tokens.get("output", 0) + usage["output_tokens"]


class GraphPass:
    """One pass: the graph runs in a task of its own, so that a stop cancels it, not its reader.

    Attributes:
        snapshot: Where the pass left the graph; ``None`` when it did not come to its end. It
            says what ``get_state`` says, which makes it anew from all that the database holds.
    """

    def __init__(
        self,
        graph: CompiledStateGraph[Any, AgentContext, Any, Any],
        config: RunnableConfig,
        context: AgentContext,
        reader: TurnReader,
    ) -> None:
        self._graph, self._config, self._context = graph, config, context
        self._reader = reader
        self._control = RunControl()
        self._checked = False
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._task: asyncio.Task[StateSnapshot] | None = None
        self.snapshot: StateSnapshot | None = None

    async def run(self, graph_input: Any) -> AsyncGenerator[Event, None]:
        """The events of the pass, as they come.

        Raises:
            Stopped: It was stopped at once.
            GraphDrained: It was asked to stop, and did so at a safe point.
        """
        self._task = asyncio.create_task(self._pump(graph_input))
        # However it ends, and also when it is stopped before its first step.
        self._task.add_done_callback(lambda _: self._events.put_nowait(None))
        try:
            while (event := await self._events.get()) is not None:
                yield event
            if self._task.cancelled():
                raise Stopped
            self.snapshot = self._task.result()
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _pump(self, graph_input: Any) -> StateSnapshot:
        values: dict[str, Any] = {}
        waiting: dict[str, Interrupt] = {}
        ear = _Ear(self._model_begins, self._model_says)
        config: RunnableConfig = {**self._config, "callbacks": [ear]}
        chunk: Any
        async for mode, chunk in self._graph.astream(
            graph_input,
            config,
            context=self._context,
            stream_mode=["updates", "values", "custom"],
            durability="sync",
            control=self._control,
        ):
            if mode == "values":
                values = chunk
                continue
            if mode == "custom":
                for event in _heard(chunk):
                    self._events.put_nowait(event)
                continue
            waiting |= {found.id: found for found in chunk.get("__interrupt__", ())}
            for event in self._reader.read(chunk):
                self._events.put_nowait(event)
        return _at_rest(values, waiting)

    def _model_begins(self, messages: Sequence[BaseMessage]) -> None:
        self._reader.in_tools = False
        self._checked = bool(checks_due(messages, self._reader.tools))

    def _model_says(self, text: str) -> None:
        """Tell it as it comes; but what may be sent back is told whole, once it has passed."""
        if not self._checked:
            self._events.put_nowait(MessageDelta(text))

    def request_drain(self) -> bool:
        """Stop at the next safe point; ``False`` when there is none to wait for.

        While the model speaks nothing is under way; and who asks twice will not wait.
        """
        if not self._reader.in_tools or self._control.drain_requested:
            return False
        self._control.request_drain("the operator asked to stop")
        return True

    def stop(self) -> None:
        """Stop at once; a write that is under way gets a few seconds to record its outcome."""
        if self._task is not None:
            self._task.cancel()


class _Ear(BaseCallbackHandler):
    """Hears the model begin and speak. A model that a tool may call is not heard.

    LangChain streams for handlers that have the two ``tap_output`` methods. LangGraph's own mode
    ``messages`` looks at every message of the history again at every step.
    """

    run_inline = True
    ignore_chain = ignore_agent = ignore_retriever = ignore_custom_event = True

    def __init__(
        self, begins: Callable[[Sequence[BaseMessage]], None], says: Callable[[str], None]
    ) -> None:
        self._begins, self._says = begins, says
        self._runs: set[UUID] = set()

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Remember the runs of the agent's own model, but for questions beside the conversation."""
        if (metadata or {}).get("langgraph_node") == "model" and UNSEEN not in (tags or ()):
            self._runs.add(run_id)
            self._begins(messages[0])

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        run_id: UUID,
        **kwargs: Any,
    ) -> None:
        """Hand on its text."""
        said = chunk.text if chunk is not None else token
        if said and isinstance(said, str) and run_id in self._runs:
            self._says(said)

    def tap_output_aiter(self, run_id: UUID, output: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Leave a stream as it is."""
        return output

    def tap_output_iter(self, run_id: UUID, output: Iterator[Any]) -> Iterator[Any]:
        """Leave a stream as it is."""
        return output


def _at_rest(values: dict[str, Any], waiting: Mapping[str, Interrupt]) -> StateSnapshot:
    """The graph after a pass: at rest, or with one task for each open call."""
    tasks = tuple(
        PregelTask(id=key, name="tools", path=(), interrupts=(found,))
        for key, found in waiting.items()
    )
    return StateSnapshot(
        values=values,
        next=tuple(task.name for task in tasks),
        config={},
        metadata=None,
        created_at=None,
        parent_config=None,
        tasks=tasks,
        interrupts=tuple(waiting.values()),
    )


def _told(reply: AIMessage) -> Iterator[Event]:
    """What a reply says, or that it was sent back."""
    words, marked = words_of(reply), reply.additional_kwargs.get(MARKED)
    if (unsupported := reply.additional_kwargs.get(REFUSED)) is not None:
        yield DraftRefused(words, tuple(unsupported))
    elif words:
        yield Message(words)
    if marked is not None:
        yield AnswerMarked(tuple(marked["unsupported"]), marked.get("problem"))


def _heard(value: Any) -> Iterator[Event]:
    """What a tool tells while it runs."""
    if not isinstance(value, dict):
        return  # a tool of somebody's own may use the stream for anything
    if isinstance(told := value.get(PROGRESS), dict):
        yield CallProgress(**told)
    if (approval := value.get(QUESTION)) is not None:
        yield ApprovalAsked(approval)


def _finished(message: ToolMessage) -> CallFinished:
    return CallFinished(
        message.tool_call_id, message.name or "", message.status, str(message.content)
    )
