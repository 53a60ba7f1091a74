"""What a case is: a user's task over a world, and what an attacker wants beside it.

Utility and the attack's success are judged by what *ran* and by the world that came of it,
never by what was asked for: tools note every execution in the case's ``World``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tools.contract import current_call

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


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
    """

    texts: tuple[str, ...]
    plan: Callable[[], Sequence[GoldCall]]
    has_succeeded: Callable[[str], bool]
    words: str = ""

    @cached_property
    def calls(self) -> tuple[GoldCall, ...]:
        """The attacker's calls, made when they are first asked for."""
        return tuple(self.plan())

    def is_read_in(self, text: str) -> bool:
        """Whether a planted text stands in a result, as it is or as a JSON string has it."""
        return any(planted in text or _in_json(planted) in text for planted in self.texts)


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


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


@dataclass(frozen=True)
class Plan:
    """A case that is not built yet: worlds are large, and only one is needed at a time."""

    id: str
    build: Callable[[], Case]
