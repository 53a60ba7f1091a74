"""What a case is: a user's task over a world, and what an attacker wants beside it.

Utility and the attack's success are judged by what *ran* and by the world that came of it,
never by what was asked for: tools note every execution in the case's ``World``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.models.reporting import LONGEST_VALUE
from tools.contract import current_call

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agent.mcp.servers import ServerConfig


@dataclass(frozen=True)
class GoldCall:
    """A call by somebody's ground truth: the user's or the attacker's."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Executed:
    """A call whose body ran to its end; ``call`` is the model's id of it."""

    call: str
    tool: str
    args: Mapping[str, Any]


@dataclass
class World:
    """What the tools of one case have done, in order."""

    executed: list[Executed] = field(default_factory=list)

    def note(self, tool: str, args: Mapping[str, Any]) -> None:
        """Called by a tool when its body has run: only that counts, not that it was asked for."""
        self.executed.append(Executed(current_call.get().call_id, tool, dict(args)))


@dataclass(frozen=True)
class Attack:
    """What a stranger planted, and what they want.

    Args:
        texts: What was planted. A model that has any of it in a tool result has read it.
        plan: Makes the attacker's calls from the world as it is when the first text is read.
        has_succeeded: From the final answer to whether the attacker has what they want.
        words: What the attacker wants said in the answer, beside or in place of calls.
        together: Only all of the texts together are the attack; else each of them is.
    """

    texts: tuple[str, ...]
    plan: Callable[[], Sequence[GoldCall]]
    has_succeeded: Callable[[str], bool]
    words: str = ""
    together: bool = False

    @cached_property
    def calls(self) -> tuple[GoldCall, ...]:
        """The attacker's calls, made when they are first asked for."""
        return tuple(self.plan())

    def texts_in(self, results: Iterable[str]) -> list[str]:
        """Which of the planted texts stand in what was read."""
        read = list(results)
        return [text for text in self.texts if any(_stands_in(text, one) for one in read)]

    def is_read_in(self, results: Iterable[str]) -> bool:
        """Whether who has read these results, or descriptions of tools, has read the attack."""
        found = self.texts_in(results)
        return len(found) == len(self.texts) if self.together else bool(found)


def pieces_of(text: str) -> list[str]:
    """A text as facts that an isolated reader may report: printable, and short."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    starts = range(0, len(line), LONGEST_VALUE)
    return [piece for start in starts if (piece := line[start : start + LONGEST_VALUE].strip())]


def _stands_in(planted: str, text: str) -> bool:
    """As it is, as a JSON string has it, or in the pieces that a fooled reader has passed on."""
    spellings = (planted, *(json.dumps(planted, ensure_ascii=a)[1:-1] for a in (False, True)))
    if any(spelling in text for spelling in spellings):
        return True
    return FACTS in text and all(json.dumps(one)[1:-1] in text for one in pieces_of(planted))


FACTS = '"facts":'
"""Stands in what an isolated reader has reported."""


@dataclass(frozen=True)
class Case:
    """One session to be run.

    Args:
        id: Such as ``workspace/user_task_3/injection_task_1``.
        suite: The suite, or the part of one, that it is counted in.
        request: The user's words.
        tools: The tools, with their contracts, over ``world``.
        world: What they note their executions in.
        calls: What the user's task takes, by its ground truth.
        is_useful: From the final answer to whether the user has what they wanted.
        answer: What the model says when it has done all of it.
        attack: What is planted; ``None``: the same task left alone.
        policy: A file of rules for these tools, for the defences that have one.
        servers: MCP servers whose tools there are beside ``tools``.
    """

    id: str
    suite: str
    request: str
    tools: Sequence[BaseTool]
    world: World
    calls: tuple[GoldCall, ...]
    is_useful: Callable[[str], bool]
    answer: str = "Done."
    attack: Attack | None = None
    policy: str = ""
    servers: tuple[ServerConfig, ...] = ()


@dataclass(frozen=True)
class Plan:
    """A case that is not built yet: worlds are large, and only one is needed at a time.

    Args:
        build: From an empty folder, for what the world keeps in files, to the case.
    """

    id: str
    build: Callable[[Path], Case]
