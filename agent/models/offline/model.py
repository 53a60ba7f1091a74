"""``OfflineChatModel``: the chat model that needs no key, no network and no luck."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall
from langchain_core.messages.tool import tool_call
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent.models.choosing import CHOOSE, catalogue_in
from agent.models.local import LocalChatModel
from agent.models.offline import conversation, small_talk
from agent.models.offline.answer import STAND_IN, cannot
from agent.models.offline.catalog import ToolCard, read_tools
from agent.models.offline.choice import tools_for
from agent.models.offline.plan import Call
from agent.models.offline.report import facts_of
from agent.models.offline.sent_back import without_gaps
from agent.models.reporting import REPORT, text_to_read

MAX_STEPS = 40


class OfflineChatModel(LocalChatModel):
    """A rule-based chat model over whatever tools are bound.

    It reads names, descriptions and schemas as a hosted model would, and nothing else: no tool
    is known to it beforehand. Each step follows from the message history alone, so a session
    can go on in another process. It has no state and no randomness and opens no connection.

    Its replies say nothing of usage: rules use no tokens, and an estimate would read as a count.
    """

    @property
    def _llm_type(self) -> str:
        return "offline"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        return {"model_name": "offline"}

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools in OpenAI's format. ``tool_choice="none"`` hides them; others are ignored."""
        specs = [] if tool_choice == "none" else [_spec(t) for t in tools]
        return self.bind(tools=specs, **kwargs)

    def reply(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> AIMessage:
        """The next message of the conversation: text, or calls with a few words before them."""
        if [tool["function"]["name"] for tool in tools] == [CHOOSE]:
            return _choice(messages)
        if [tool["function"]["name"] for tool in tools] == [REPORT]:
            return _report(messages)
        text, calls = _decide(messages, read_tools(tools))
        if not calls:
            text = without_gaps(text, messages)
        number = sum(isinstance(m, AIMessage) for m in messages)
        tool_calls: list[ToolCall] = [
            tool_call(name=c.card.name, args=dict(c.args), id=f"offline_{number}_{i}_{c.mark}")
            for i, c in enumerate(calls)
        ]
        reason = "tool_calls" if tool_calls else "stop"
        metadata = {"finish_reason": reason, "model_name": "offline"}
        return AIMessage(content=text, tool_calls=tool_calls, response_metadata=metadata)


def _choice(messages: Sequence[BaseMessage]) -> AIMessage:
    """The answer to the question which tools the task needs."""
    names = tools_for(str(messages[-1].text), catalogue_in(messages))
    chosen = tool_call(name=CHOOSE, args={"names": names}, id="choice")
    return AIMessage("", tool_calls=[chosen], response_metadata={"finish_reason": "tool_calls"})


def _report(messages: Sequence[BaseMessage]) -> AIMessage:
    """The answer of an isolated reader."""
    facts = facts_of(text_to_read(messages))
    found = tool_call(name=REPORT, args={"facts": facts}, id="report")
    return AIMessage("", tool_calls=[found], response_metadata={"finish_reason": "tool_calls"})


_SPECS: dict[int, tuple[BaseTool, str, Any, dict[str, Any]]] = {}


def _spec(tool: dict[str, Any] | type | Callable[..., Any] | BaseTool) -> dict[str, Any]:
    """A tool in OpenAI's format. An agent binds before every step, and a schema takes 1 ms."""
    if not isinstance(tool, BaseTool):
        return convert_to_openai_tool(tool)
    known = _SPECS.get(id(tool))
    # The tool is kept with its entry, so its id belongs to no other one.
    if known and known[1] == tool.description and known[2] is tool.args_schema:
        return known[3]
    if len(_SPECS) >= 1024:
        _SPECS.clear()
    spec = convert_to_openai_tool(tool)
    _SPECS[id(tool)] = (tool, tool.description, tool.args_schema, spec)
    return spec


def _decide(messages: Sequence[BaseMessage], cards: tuple[ToolCard, ...]) -> tuple[str, list[Call]]:
    state = conversation.read(messages, cards)
    if state.declined:
        return "All right, I leave it at that. Nothing more was done.", []
    if (talk := small_talk.reply(state.text, cards)) is not None:
        return talk, []
    if not state.request.clauses:
        return cannot(state.text, cards), []
    world = conversation.world_of(state.request, messages, cards)
    made = conversation.work(state.request, world)
    if made.calls:
        if _steps_since_user(messages) >= MAX_STEPS:
            return f"I stopped after {MAX_STEPS} steps without coming to an end. {STAND_IN}.", []
        return _announce(made.calls), _distinct(made.calls)
    question = [made.ask.question] if made.ask else []
    return "\n\n".join(dict.fromkeys([*made.lines, *question])) or cannot(state.text, cards), []


def _steps_since_user(messages: Sequence[BaseMessage]) -> int:
    last = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=0)
    return sum(isinstance(m, AIMessage) for m in messages[last:])


def _distinct(calls: Sequence[Call]) -> list[Call]:
    return list(
        {(c.card.name, json.dumps(dict(c.args), sort_keys=True)): c for c in calls}.values()
    )


def _announce(calls: Sequence[Call]) -> str:
    """A few words before the calls; writes are proposed, never announced as done."""
    reads = [c for c in calls if not c.card.writes]
    writes = [c for c in calls if c.card.writes]
    parts = []
    if reads:
        parts.append("I look that up." if not writes else "I look up what is missing.")
    if writes:
        parts.append(
            "I propose this change." if len(writes) == 1 else f"I propose {len(writes)} changes."
        )
    return " ".join(parts)
