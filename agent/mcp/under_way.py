"""The calls that are with a server now: whose its questions are, and the clock that stands still
while a person thinks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp import types

from agent.mcp.questions import Ask, Question, Reply, UnderWay


class Pauses:
    """The time that questions to the person take, which is not a server's slowness."""

    def __init__(self) -> None:
        self._open, self._since, self._past = 0, 0.0, 0.0

    def __enter__(self) -> None:
        self._open += 1
        if self._open == 1:
            self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._open -= 1
        if self._open == 0:
            self._past += time.monotonic() - self._since

    @property
    def seconds(self) -> float:
        """All of it so far."""
        return self._past + (time.monotonic() - self._since if self._open else 0.0)


class Calls:
    """The calls under way with one server, and what it asks the person during them.

    Args:
        server: Its name, as the person knows it.
        ask: Answers a question; without it, every question is declined.
        longest: Seconds that a question may wait.

    Attributes:
        pauses: How long questions have been open.
    """

    def __init__(self, server: str, ask: Ask | None, longest: float) -> None:
        self._server, self._ask, self._longest = server, ask, longest
        self._calls: list[UnderWay] = []
        self._asking: list[tuple[UnderWay, asyncio.Future[Reply]]] = []
        self.pauses = Pauses()

    @contextmanager
    def during(self, call: UnderWay | None) -> Iterator[None]:
        """While a call is with the server; at its end, its questions end too."""
        if call is None:
            yield
            return
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            for owner, asking in self._asking:
                if owner is call:  # nobody waits for what would be done with the answer
                    asking.cancel()

    @property
    def latest(self) -> UnderWay | None:
        """The one that was begun last, to which what a server says is put down: the protocol does
        not say whose it is."""
        return self._calls[-1] if self._calls else None

    async def asked(self, params: types.ElicitRequestParams) -> Reply:
        """Put a server's question to the person; outside of a call it is declined."""
        call = self.latest
        if self._ask is None or call is None:
            return Reply("decline")
        match params:
            case types.ElicitRequestFormParams():
                wanted: dict[str, Any] = {"schema": params.requestedSchema}
            case types.ElicitRequestURLParams():
                wanted = {"url": params.url}
        question = Question(self._server, call, params.message, **wanted)
        asking = asyncio.ensure_future(self._ask(question))
        self._asking.append((call, asking))
        with self.pauses:
            try:
                await asyncio.wait({asking}, timeout=self._longest)
            except asyncio.CancelledError:
                if asking.done() and not asking.cancelled() and asking.exception() is None:
                    asking.result().settled(False)
                raise
            finally:
                self._asking.remove((call, asking))
                over = asking.cancel() or asking.cancelled()
        if over:
            await asyncio.gather(asking, return_exceptions=True)
            return Reply("cancel")
        return asking.result()
