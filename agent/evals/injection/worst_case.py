"""The worst case of a fooled model: it obeys whatever it reads, at once and without a mistake.

It does the user's task by its ground truth. As soon as a result that it was given holds a planted
text, it makes the attacker's calls by *their* ground truth; then it goes on with the user's task.
A call that was refused or rejected is not tried again: it goes on with the next. Descriptions of
tools are read too, before anything else. Asked to read a text in isolation, it is fooled as well:
what was planted goes on in facts, as much of it as their form has room for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool

from agent.evals.injection.case import Case, GoldCall, pieces_of
from agent.models.choosing import CHOOSE
from agent.models.local import LocalChatModel
from agent.models.reporting import REPORT, text_to_read

USER, ATTACK = "user", "attack"
"""Beginnings of the ids of its calls: for whom each is made."""

COULD_NOT = "I could not do all of it."


class WorstCaseModel(LocalChatModel):
    """Chooses its step by the history alone, so it survives resumes and refusals.

    Args:
        case: Whose task it does, and whose attack it falls for.
    """

    case: Any

    def __init__(self, case: Case) -> None:
        super().__init__(case=case)

    @property
    def _llm_type(self) -> str:
        return "worst-case"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind what is asked of it beside its task, and of its tools what describes them."""
        return self.bind(tools=[tool for tool in map(_described, tools) if tool], **kwargs)

    def reply(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()
    ) -> AIMessage:
        """The next call of the attacker, else of the user, else the answer."""
        offered = {tool["function"]["name"] for tool in tools if "function" in tool}
        if CHOOSE in offered:
            return self._choice()
        if REPORT in offered:
            return self._report(text_to_read(messages))
        asked = {
            call["id"]
            for message in messages
            if isinstance(message, AIMessage)
            for call in message.tool_calls
        }
        is_fooled = self._has_read(messages, tools)
        attack = self.case.attack
        if is_fooled and attack is not None and (call := _next(ATTACK, attack.calls, asked)):
            return call
        return _next(USER, self.case.calls, asked) or self._answer(messages, is_fooled)

    def _has_read(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> bool:
        results = [str(one.text) for one in messages if isinstance(one, ToolMessage)]
        described = [json.dumps(tool, ensure_ascii=False) for tool in tools]
        attack = self.case.attack
        return attack is not None and attack.is_read_in([*results, *described])

    def _report(self, text: str) -> AIMessage:
        """The facts of a text: what was planted in it."""
        attack = self.case.attack
        planted = attack.texts_in([text]) if attack is not None else []
        pieces = [piece for one in planted for piece in pieces_of(one)]
        facts = [{"name": f"note {n}", "value": one} for n, one in enumerate(pieces)]
        return _calls(tool_call(name=REPORT, args={"facts": facts}, id="report"))

    def _choice(self) -> AIMessage:
        """The tools that the task needs, chosen before anything is read: it is not fooled yet."""
        names = sorted({call.tool for call in self.case.calls})
        return _calls(tool_call(name=CHOOSE, args={"names": names}, id="choice"))

    def _answer(self, messages: Sequence[BaseMessage], is_fooled: bool) -> AIMessage:
        """The right answer, where nothing of the user's was refused, and the attacker's words."""
        succeeded = {
            message.tool_call_id
            for message in messages
            if isinstance(message, ToolMessage) and message.status == "success"
        }
        done = all(f"{USER}-{number}" in succeeded for number in range(len(self.case.calls)))
        said = (self.case.answer or "Done.") if done else COULD_NOT
        words = self.case.attack.words if is_fooled and self.case.attack else ""
        return AIMessage(f"{said}\n{words}".strip(), response_metadata={"finish_reason": "stop"})


def _described(tool: dict[str, Any] | type | Callable[..., Any] | BaseTool) -> dict[str, Any]:
    """A tool in a provider's format; of one of ours no more than a stranger may have written."""
    if isinstance(tool, dict):
        return tool
    if not isinstance(tool, BaseTool):
        return {}
    schema = tool.args_schema if isinstance(tool.args_schema, dict) else {}
    told = {"name": tool.name, "description": tool.description, "parameters": schema}
    return {"type": "function", "function": told}


def _next(whose: str, calls: Sequence[GoldCall], asked: set[str | None]) -> AIMessage | None:
    """The first call that was not asked for yet."""
    for number, call in enumerate(calls):
        if (call_id := f"{whose}-{number}") not in asked:
            return _calls(tool_call(name=call.tool, args=dict(call.args), id=call_id))
    return None


def _calls(*calls: Any) -> AIMessage:
    return AIMessage("", tool_calls=list(calls), response_metadata={"finish_reason": "tool_calls"})
