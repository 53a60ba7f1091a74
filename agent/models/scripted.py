"""A chat model that follows a script, for tests and evaluation.

::

    model = ScriptedChatModel([
        step("I look it up.", call("get_order", order_id="A1")),     # text and a call
        step(call("cancel_order", order_id="A1", expected_revision=1)),
        ConnectionError("the provider is down"),                     # raised at this step
        lambda messages: step(f"It said: {messages[-1].text}"),      # decided when it comes
        "All done.",                                                 # text alone
    ])

Which step comes next is the number of AI messages in the history, so a session that is resumed
in another process goes on at the right place. A step that raises adds no message: the same step
comes again, so use a function that counts to fail once only. When the script is at its end, the
model raises ``ScriptEnded``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field

from agent.models.local import LocalChatModel


class ScriptEnded(AssertionError):
    """The model was called more often than the script has steps."""


@dataclass(frozen=True)
class ScriptedCall:
    """One tool call of a step; ``args`` as text is sent as it is, valid JSON or not."""

    name: str
    args: dict[str, Any] | str
    id: str | None = None

    @property
    def text(self) -> str:
        return self.args if isinstance(self.args, str) else json.dumps(self.args)

    @property
    def parsed(self) -> dict[str, Any] | None:
        """The arguments, or ``None`` when they are not a JSON object."""
        try:
            value = json.loads(self.text)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


@dataclass(frozen=True)
class ScriptedStep:
    """One reply. ``usage`` is (input, output) tokens; ``finish_reason`` as providers say it."""

    text: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    usage: tuple[int, int] = (10, 5)
    metadata: dict[str, Any] = field(default_factory=dict)


Decide = Callable[[Sequence[BaseMessage]], "ScriptedStep | str | BaseException"]
Step = ScriptedStep | str | BaseException | Decide


def call(tool: str, /, _id: str | None = None, **args: Any) -> ScriptedCall:
    """A tool call with these arguments, under an id of its own or the one given."""
    return ScriptedCall(tool, args, _id)


def malformed(tool: str, /, arguments: str, _id: str | None = None) -> ScriptedCall:
    """A tool call whose arguments are this text, such as ``'{"order_id": '``."""
    return ScriptedCall(tool, arguments, _id)


def step(
    *parts: str | ScriptedCall,
    finish_reason: str | None = None,
    usage: tuple[int, int] = (10, 5),
) -> ScriptedStep:
    """A reply from texts and calls. ``finish_reason="length"`` is one that was cut off."""
    text = "".join(p for p in parts if isinstance(p, str))
    calls = tuple(p for p in parts if isinstance(p, ScriptedCall))
    return ScriptedStep(text, calls, finish_reason, usage)


class ScriptedChatModel(LocalChatModel):
    """Replies with the steps of a script (see the module for how to write one).

    Args:
        steps: What to reply at the first, second … call.
        reuse_ids: Give the calls of every step the ids ``call_0``, ``call_1`` …, as some
            providers do; otherwise ids are unique in the conversation.
        requests: The histories this instance was given, for assertions; never used to choose a
            step.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    steps: list[Any] = Field(default_factory=list)
    reuse_ids: bool = False
    requests: list[list[BaseMessage]] = Field(default_factory=list, exclude=True)

    def __init__(self, steps: Sequence[Step] = (), **kwargs: Any) -> None:
        super().__init__(steps=list(steps), **kwargs)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Bind tools as a real model would; the script decides what is called."""
        return self.bind(tools=[convert_to_openai_tool(t) for t in tools], **kwargs)

    def reply(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()
    ) -> AIMessage:
        """The message of the step that the history asks for."""
        self.requests.append(list(messages))
        number = sum(isinstance(m, AIMessage) for m in messages)
        if number >= len(self.steps):
            raise ScriptEnded(
                f"the script has {len(self.steps)} steps; step {number + 1} was asked for"
            )
        planned: Any = self.steps[number]
        if callable(planned) and not isinstance(planned, BaseException):
            planned = planned(messages)
        if isinstance(planned, BaseException):
            raise planned
        return self._message(ScriptedStep(planned) if isinstance(planned, str) else planned, number)

    def _message(self, planned: ScriptedStep, number: int) -> AIMessage:
        tool_calls, invalid = [], []
        for index, c in enumerate(planned.calls):
            call_id = c.id or (f"call_{index}" if self.reuse_ids else f"call_{number}_{index}")
            if (args := c.parsed) is not None:
                tool_calls.append(tool_call(name=c.name, args=args, id=call_id))
            else:
                invalid.append(
                    invalid_tool_call(
                        name=c.name, args=c.text, id=call_id, error="not a JSON object"
                    )
                )
        reason = planned.finish_reason or ("tool_calls" if planned.calls else "stop")
        tokens_in, tokens_out = planned.usage
        return AIMessage(
            content=planned.text,
            tool_calls=tool_calls,
            invalid_tool_calls=invalid,
            usage_metadata=UsageMetadata(
                input_tokens=tokens_in,
                output_tokens=tokens_out,
                total_tokens=tokens_in + tokens_out,
            ),
            response_metadata={
                "finish_reason": reason,
                "model_name": "scripted",
                **planned.metadata,
            },
        )
