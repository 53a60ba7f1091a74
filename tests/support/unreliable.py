"""A real service that fails as it is told: an ASGI middleware around it, on uvicorn.

Each write takes the next fault of the script, and goes well when there is none; reads always do.
Nothing here waits for a time: an answer that is to be late is held until its caller has gone.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass
class Answer:
    """What the service answered, whole."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass
class Write:
    """A write that is to be answered.

    Args:
        answer: The service's own; ``None`` where it was not asked.
        last: Its answer to the write before.
    """

    scope: Scope
    receive: Receive
    send: Send
    answer: Answer | None
    last: Answer | None

    @property
    def transport(self) -> Any:
        """The connection beneath: uvicorn hands out a bound method of what holds it."""
        return self.send.__self__.transport  # type: ignore[attr-defined]

    async def reply(self, answer: Answer | None, part: int | None = None) -> None:
        """Send an answer, or only so many bytes of the body that it announces."""
        assert answer is not None
        await self.start(answer, len(answer.body))
        more = part is not None
        body = answer.body[:part]
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def start(self, answer: Answer, length: int | None) -> None:
        headers = [(name, value) for name, value in answer.headers if name != b"content-length"]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        start = {"type": "http.response.start", "status": answer.status, "headers": headers}
        await self.send(start)

    def error(
        self, status: int, changed: bool | None, *headers: tuple[bytes, bytes], code: str = "failed"
    ) -> Answer:
        """An error in the service's own form, as the answer to this request."""
        error = {"code": code, "message": "It is said to have failed.", "changed": changed}
        echoed = [
            (name, value)
            for name, value in self.scope["headers"]
            if name in (b"request-id", b"idempotency-key")
        ]
        return Answer(status, [*headers, *echoed], json.dumps({"error": error}).encode())


# The faults --------------------------------------------------------------------------------


async def _well(write: Write) -> None:
    await write.reply(write.answer)


async def _late(write: Write) -> None:
    while (await write.receive())["type"] != "http.disconnect":
        pass


async def _dropped(write: Write) -> None:
    write.transport.abort()


async def _failed(write: Write) -> None:
    await write.reply(write.error(500, None))


async def _failed_unchanged(write: Write) -> None:
    await write.reply(write.error(500, False))


async def _limited(write: Write) -> None:
    await write.reply(write.error(429, False, (b"retry-after", b"7"), code="busy"))


async def _redirected(write: Write) -> None:
    await write.reply(write.error(307, None, (b"location", write.scope["raw_path"])))


async def _of_another(write: Write) -> None:
    await write.reply(write.last)


async def _garbage(write: Write) -> None:
    assert write.answer is not None
    write.answer.body = b"<html>Bad Gateway</html>"
    await write.reply(write.answer)


async def _half(write: Write) -> None:
    assert write.answer is not None
    await write.reply(write.answer, part=len(write.answer.body) // 2)
    write.transport.close()


async def _twice(write: Write) -> None:
    await write.reply(write.answer)
    write.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")


async def _without_end(write: Write) -> None:
    """White space after the answer, as long as anybody reads."""
    assert write.answer is not None
    await write.start(write.answer, None)
    body = write.answer.body
    while not write.transport.is_closing():
        await write.send({"type": "http.response.body", "body": body, "more_body": True})
        body = b" " * 65536


FAULTS: dict[str, tuple[int, Callable[[Write], Awaitable[None]]]] = {
    "answers late": (1, _late),  # when the caller has given up
    "drops before": (0, _dropped),  # the connection ends, and nothing happens
    "drops after": (1, _dropped),  # it happens, and the connection ends
    "runs twice": (2, _well),  # a proxy sends it on twice, and passes on the second answer
    "answers twice": (1, _twice),  # two answers on one connection
    "answers another": (1, _of_another),  # with the answer to the write before this one
    "fails before": (0, _failed),
    "fails after": (1, _failed),
    "fails unchanged": (0, _failed_unchanged),  # and says that nothing was changed
    "is limited": (0, _limited),
    "redirects": (0, _redirected),
    "answers garbage": (1, _garbage),
    "answers half": (1, _half),
    "answers without end": (1, _without_end),
}
"""How often the service runs the request, and what then becomes of the answer."""


class Unreliable:
    """The middleware; ``writes`` counts those that came, whatever became of them."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self._script: deque[str] = deque()
        self._last: Answer | None = None
        self._under_way = 0
        self._changed = threading.Condition()
        self.writes = 0

    def next(self, *faults: str) -> None:
        """What becomes of the next writes, in this order; the names are those of ``FAULTS``."""
        assert set(faults) <= set(FAULTS)
        self._script.extend(faults)

    def settled(self, writes: int) -> None:
        """Wait until so many have come and none is under way: what was to happen has happened."""
        with self._changed:
            self._changed.wait_for(lambda: self.writes >= writes and self._under_way == 0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._application(scope, receive, send)
            return
        self._count(1)
        try:
            await self._write(scope, receive, send)
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._changed:
            self.writes += max(change, 0)
            self._under_way += change
            self._changed.notify_all()

    async def _write(self, scope: Scope, receive: Receive, send: Send) -> None:
        times, reply = FAULTS[self._script.popleft()] if self._script else (1, _well)
        body, last, answer = await _whole(receive), self._last, None
        for _ in range(times):
            self._last = answer = await self._run(scope, body)
        await reply(Write(scope, receive, send, answer, last))

    async def _run(self, scope: Scope, body: bytes) -> Answer:
        """Let the service handle the request; its answer."""
        messages: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Message) -> None:
            messages.append(message)

        await self._application(dict(scope), receive, keep)
        start, *rest = messages
        return Answer(start["status"], start["headers"], b"".join(m["body"] for m in rest))


async def _whole(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body
