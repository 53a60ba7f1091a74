"""A service whose answers get lost, and a tool over it with whatever contract a test wants."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict

from tests.support.sessions import calls
from tools.contract import (
    Call,
    CallInfo,
    Contract,
    Finding,
    OutcomeUnknown,
    TransientFailure,
    current_call,
    make_tool,
)

How = Literal["answers", "lost after", "lost before", "busy", "hangs after", "hangs before"]


class Number(BaseModel):
    """The arguments of both tools."""

    model_config = ConfigDict(extra="forbid")

    n: int


@dataclass
class Service:
    """Adds numbers to a list.

    Args:
        plan: How each entry goes; after the last, it answers.
        honours_keys: Whether a request under a known key is answered and changes nothing.
    """

    plan: Sequence[How] = ()
    honours_keys: bool = True
    numbers: list[int] = field(default_factory=list)
    """What took effect."""
    entries: list[tuple[str, int]] = field(default_factory=list)
    """Every entry into the tool's body: idempotency key and attempt."""
    by_key: dict[str, int] = field(default_factory=dict)
    asked: list[CallInfo] = field(default_factory=list)
    """The calls that its record was asked about."""

    def __post_init__(self) -> None:
        self.entered = asyncio.Event()
        """Set at every entry."""
        self.goes_on = asyncio.Event()
        """What hangs waits for this."""

    async def enter(self, n: int) -> str:
        """The body of the writing tool."""
        info = current_call.get()
        how = self.plan[len(self.entries)] if len(self.entries) < len(self.plan) else "answers"
        self.entries.append((info.idempotency_key or "", info.attempt))
        self.entered.set()
        match how:
            case "busy":
                raise TransientFailure("the service is busy.")
            case "lost before":
                raise OutcomeUnknown("the connection broke.")
            case "hangs before":
                await self.goes_on.wait()
        answer = self.change(n, info.idempotency_key or "")
        match how:
            case "lost after":
                raise OutcomeUnknown("the connection broke.")
            case "hangs after":
                await self.goes_on.wait()
        return answer

    def change(self, n: int, key: str) -> str:
        """Take effect, unless the key is known and honoured."""
        if not (self.honours_keys and key in self.by_key):
            self.numbers.append(n)
            self.by_key[key] = n
        return self.answer(n)

    def answer(self, n: int) -> str:
        """What the tool returns."""
        return json.dumps({"transaction": f"T{n}", "n": n})

    def find(self, args: Any, info: CallInfo) -> Finding:
        """What the service's record says of a call: the ``reconcile`` of a contract."""
        self.asked.append(info)
        if info.idempotency_key not in self.by_key:
            return Finding(False, f"There is no {args['n']} under this key.")
        n = args["n"]
        return Finding(True, f"T{n} is there.", {"n": n}, f"T{n}", self.answer(n))

    def tools(self, **contract: Any) -> list[BaseTool]:
        """``act``, which adds a number, and ``look``, the read that its contract names."""

        async def act(n: int) -> str:
            """Add a number."""
            return await self.enter(n)

        def look(n: int) -> str:
            """Look at the numbers."""
            return f"the numbers are {self.numbers}"

        writes: dict[str, Any] = {
            "effects": frozenset({"write:numbers"}),
            "open_world": False,
            "check": lambda args: Call("look", {"n": args["n"]}),
        }
        reads = Contract(effects=frozenset({"read:numbers"}), open_world=False)
        return [
            make_tool(act, args=Number, contract=Contract(**writes | contract)),
            make_tool(look, args=Number, contract=reads),
        ]


def act(*numbers: int) -> Any:
    """A scripted reply that adds these numbers, under the ids ``c1``, ``c2`` …"""
    return calls(*(("act", {"n": n}) for n in numbers), ids=[f"c{n}" for n in numbers])
