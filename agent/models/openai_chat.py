"""Chat Completions as ``langchain-openai`` speaks it, minus what it lets pass.

What ``ChatOpenAI`` does and an agent cannot live with:

- A stream that ends early but cleanly, as when a proxy gives up, counts as the answer. Here a
  reply without a finish reason raises ``ModelUnavailable``.
- Tool call arguments that are not JSON are completed while they stream, so that
  ``{"amount": 12`` cut from 1250 becomes a call with amount 12. Here they land in
  ``invalid_tool_calls``, raw, as they do when nothing streams.
- A gateway that refuses ``stream_options`` fails every call. Here the request is repeated once
  without them, and usage is not asked for again.
- Its ``stream_chunk_timeout`` is an ``asyncio.wait_for``, which on Python 3.11 loses a
  cancellation that arrives together with a chunk: Ctrl-C would not stop the turn. Here
  ``content_timeout`` bounds the silence between chunks instead.

Everything streams, also for ``ainvoke``, so that there is one path to get right.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any

import openai
from langchain_core.messages import AIMessageChunk
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langchain_openai import ChatOpenAI

from agent.deadlines import within
from agent.models.errors import broken_reply
from agent.models.strict import as_sent, with_strict_calls

_LONGEST_PAUSE = 120.0  # seconds; the client does not honour a longer Retry-After


class OpenAIChat(ChatOpenAI):
    """``ChatOpenAI`` for an agent: whole replies, strict arguments, any compatible gateway.

    Raises:
        ModelUnavailable: From a call whose stream ended before the reply did.
        TimeoutError: From an async one that was kept alive without content for too long.
    """

    content_timeout: float | None = None
    """Seconds between two chunks of an async reply; ``None`` is without bound."""
    stream_chunk_timeout: float | None = None

    async def agenerate(self, *args: Any, **kwargs: Any) -> LLMResult:
        return with_strict_calls(await super().agenerate(*args, **kwargs))

    def generate(self, *args: Any, **kwargs: Any) -> LLMResult:
        return with_strict_calls(super().generate(*args, **kwargs))

    async def _astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[ChatGenerationChunk]:
        reply = _StreamedReply()
        while True:
            try:
                async with aclosing(super()._astream(*args, **kwargs)) as chunks:  # type: ignore[type-var]
                    async for chunk in self._bounded(chunks):
                        reply.add(chunk)
                        yield chunk
                break
            except openai.APIStatusError as error:
                self._stop_asking_for_usage(error)
        for chunk in reply.finish():
            yield chunk

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        reply = _StreamedReply()
        while True:
            try:
                with closing(super()._stream(*args, **kwargs)) as chunks:  # type: ignore[type-var]
                    for chunk in chunks:
                        reply.add(chunk)
                        yield chunk
                break
            except openai.APIStatusError as error:
                self._stop_asking_for_usage(error)
        yield from reply.finish()

    def _bounded(
        self, chunks: AsyncIterator[ChatGenerationChunk]
    ) -> AsyncIterator[ChatGenerationChunk]:
        """Bound the silence between chunks; before the first there may be retries and pauses."""
        silence, retries = self.content_timeout, self.max_retries or 0
        if silence is None:
            return chunks
        return _each_within(chunks, silence * (retries + 1) + _LONGEST_PAUSE * retries, silence)

    def _stop_asking_for_usage(self, error: openai.APIStatusError) -> None:
        """Give up usage counts where they are refused; raise the error when it is another."""
        if not (self.stream_usage and error.status_code in (400, 422)):
            raise error
        if "stream_options" not in f"{error.message} {error.body}":
            raise error
        self.stream_usage = False


async def _each_within(
    chunks: AsyncIterator[ChatGenerationChunk], first: float, further: float
) -> AsyncIterator[ChatGenerationChunk]:
    """Pass on the chunks; each must come within its seconds, as long as it is awaited."""
    seconds = first
    while True:
        try:
            async with within(seconds):
                chunk = await anext(chunks)
        except StopAsyncIteration:
            return
        yield chunk
        seconds = further


class _StreamedReply:
    """Watches the chunks of one reply go by."""

    def __init__(self) -> None:
        self._begun = False
        self._finished = False
        self._call_chunks: list[AIMessageChunk] = []

    def add(self, chunk: ChatGenerationChunk) -> None:
        self._begun = True
        self._finished |= bool((chunk.generation_info or {}).get("finish_reason"))
        if isinstance(chunk.message, AIMessageChunk) and chunk.message.tool_call_chunks:
            self._call_chunks.append(chunk.message)

    def finish(self) -> Iterator[ChatGenerationChunk]:
        """A last chunk with the calls as they were sent, when one of them is malformed.

        Raises:
            ModelUnavailable: No finish reason came.
        """
        if not self._finished:
            raise broken_reply(begun=self._begun)
        if not self._call_chunks:
            return
        calls = add_ai_message_chunks(*self._call_chunks).tool_call_chunks
        if metadata := as_sent(calls):
            yield ChatGenerationChunk(
                message=AIMessageChunk(content="", response_metadata=metadata)
            )
