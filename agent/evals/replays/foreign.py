"""A function of somebody else's world as a tool with a contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.contract import Contract, OutcomeUnknown, ToolFailure, is_read
from tools.langchain_tools import ContractTool


class Refused(Exception):
    """The function says that it cannot, in words for the model."""


@dataclass(frozen=True)
class Executed:
    """A call that reached the world. ``error``: it was refused there, and this is why."""

    tool: str
    args: Mapping[str, Any]
    result: str
    error: bool = False


@dataclass
class World:
    """Somebody else's world, as the tools of one session share it.

    Args:
        state: A text that differs when anything in it does.
        look_at_reads: Whether a read is held to be one, by the state before and after it.
        executed: What reached it, in order.
        no_reads: Names of tools that were to read and changed something.
    """

    state: Callable[[], str]
    look_at_reads: bool = False
    executed: list[Executed] = field(default_factory=list)
    no_reads: set[str] = field(default_factory=set)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True)
class Function:
    """One function of it.

    Args:
        run: Takes the arguments by name and returns what the model reads.
        schema: JSON Schema of the arguments.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    run: Callable[..., str]


def as_tool(function: Function, contract: Contract, world: World) -> ContractTool:
    """The function as a tool of a session.

    Its world is not made for two calls at once, so it is entered by one at a time. What a function
    that raises has done is looked up, not believed: where its world is as it was, the call has
    failed; where it is not, its outcome is unknown.
    """
    writes = not is_read(contract.effects_of({}))

    async def run(**args: Any) -> str:
        async with world.lock:
            before = world.state() if writes or world.look_at_reads else ""
            try:
                result = function.run(**args)
            except Exception as error:
                said = str(error) or type(error).__name__
                world.executed.append(Executed(function.name, args, said, error=True))
                if writes and world.state() != before:
                    raise OutcomeUnknown(f"{said} (something has changed)") from None
                raise ToolFailure(said) from None
            world.executed.append(Executed(function.name, args, result))
            if not writes and world.look_at_reads and world.state() != before:
                world.no_reads.add(function.name)
            return result

    return ContractTool(
        name=function.name,
        description=function.description,
        args_schema=dict(function.schema),
        coroutine=run,
        contract=contract,
    )
