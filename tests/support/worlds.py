"""What the tests of the grocery shop and the bank share."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from langchain_core.tools import BaseTool
from starlette.types import ASGIApp, Receive, Scope, Send

from tools.contract import (
    Call,
    CallInfo,
    Committed,
    Contract,
    Evidence,
    Finding,
    Preview,
    contract_of,
    current_call,
)

TOKEN = "world-token-51c07be2"


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 12, 1, 10, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class Switch:
    """One server for many tests: an application that passes everything on to another."""

    application: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await self.application(scope, receive, send)
            return
        while (message := await receive())["type"] != "lifespan.shutdown":
            await send({"type": f"{message['type']}.complete"})
        await send({"type": "lifespan.shutdown.complete"})


@contextmanager
def under_key(key: str | None) -> Iterator[None]:
    """The harness's part: a call with its idempotency key."""
    token = current_call.set(CallInfo(call_id="c1", idempotency_key=key))
    try:
        yield
    finally:
        current_call.reset(token)


def run(tool: BaseTool, args: Mapping[str, Any], key: str | None = None) -> Any:
    """Call a tool under a key; the value of its JSON."""
    with under_key(key):
        return json.loads(tool.invoke(dict(args)))


def named(tools: Sequence[BaseTool]) -> dict[str, BaseTool]:
    return {tool.name: tool for tool in tools}


@dataclass
class Desk:
    """Tools and their contracts' functions, called as the harness calls them."""

    tools: dict[str, BaseTool]

    def contract(self, name: str) -> Contract:
        return contract_of(self.tools[name])

    def run(self, name: str, args: Mapping[str, Any], key: str | None = None) -> Any:
        return run(self.tools[name], args, key)

    def seen(self, name: str, args: Mapping[str, Any], key: str | None = None) -> Evidence:
        """Call a tool; what a session keeps of it as evidence."""
        return Evidence(name, args, self.run(name, args, key))

    def unmet(self, name: str, args: Mapping[str, Any], *evidence: Evidence) -> Any:
        precondition: Any = self.contract(name).precondition
        return precondition(args, evidence)

    def find(self, name: str, args: Mapping[str, Any], key: str | None) -> Finding:
        reconcile: Any = self.contract(name).reconcile
        found: Finding = reconcile(args, CallInfo(idempotency_key=key))
        return found

    def verify(
        self, name: str, args: Mapping[str, Any], result: object, key: str | None = None
    ) -> Finding:
        postcondition: Any = self.contract(name).postcondition
        found: Finding = postcondition(args, CallInfo(idempotency_key=key), result)
        return found

    def preview(self, name: str, args: Mapping[str, Any]) -> Preview:
        preview: Any = self.contract(name).preview
        shown: Preview = preview(args)
        return shown

    def undo(self, name: str, args: Mapping[str, Any], result: object) -> Call | None:
        undo: Any = self.contract(name).undo
        call: Call | None = undo.call(Committed(args, result))
        return call


async def away(scope: Scope, receive: Receive, send: Send) -> None:
    """A service whose connections end without an answer."""
    send.__self__.transport.abort()  # type: ignore[attr-defined]
