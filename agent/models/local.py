"""Chat models that run in this process: whoever makes a whole reply gets the rest from here."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult, LLMResult

from agent.models.strict import as_sent, with_strict_calls


class LocalChatModel(BaseChatModel):
    """A chat model whose subclass says what it replies; streamed as a provider streams.

    A reply takes about a millisecond: a thread for it would cost more than it frees.
    """

    def reply(self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]]) -> AIMessage:
        """The whole next message.

        Args:
            messages: The history.
            tools: The bound tools in OpenAI's format.
        """
        raise NotImplementedError

    async def agenerate(self, *args: Any, **kwargs: Any) -> LLMResult:
        """Malformed calls stay malformed, as with the models that are built for a provider."""
        return with_strict_calls(await super().agenerate(*args, **kwargs))

    def generate(self, *args: Any, **kwargs: Any) -> LLMResult:
        """The same, synchronous."""
        return with_strict_calls(super().generate(*args, **kwargs))

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self.reply(messages, kwargs.get("tools") or [])
        return ChatResult(generations=[ChatGeneration(message=message)])

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return self._generate(messages, stop, None, **kwargs)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in _pieces(self.reply(messages, kwargs.get("tools") or [])):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in _pieces(self.reply(messages, kwargs.get("tools") or [])):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def _pieces(message: AIMessage) -> Iterator[ChatGenerationChunk]:
    """A message as a provider streams it: text by words, calls in two parts, usage last."""
    for word in re.findall(r"\s*\S+|\s+$", message.text):
        yield ChatGenerationChunk(message=AIMessageChunk(content=word))
    calls = [
        (c["name"], json.dumps(c["args"], ensure_ascii=False), c["id"]) for c in message.tool_calls
    ]
    calls += [(c["name"] or "", c["args"] or "", c["id"]) for c in message.invalid_tool_calls]
    for index, (name, args, call_id) in enumerate(calls):
        head = tool_call_chunk(name=name, args="", id=call_id, index=index)
        body = tool_call_chunk(name=None, args=args, id=None, index=index)
        for part in (head, body):
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[part]))
    sent = as_sent([{"name": name, "args": args, "id": id_} for name, args, id_ in calls])
    last = AIMessageChunk(
        content="",
        usage_metadata=message.usage_metadata,
        response_metadata={**message.response_metadata, **sent},
        chunk_position="last",
    )
    yield ChatGenerationChunk(
        message=last, generation_info={"finish_reason": message.response_metadata["finish_reason"]}
    )
