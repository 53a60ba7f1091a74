"""A trial judged: by the final state, by what was said, and by how far it got.

The state decides, and what had to be said or not. How it got there only tells where it was lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agent.canonical import canonical_json
from agent.checks.arguments import ArgumentsError, normalise
from agent.evals.recorded import Call, Recorded
from agent.evals.tasks.record import Failure
from agent.evals.tasks.state import Differing
from agent.evals.tasks.task import GoldCall, Task
from agent.receipt import describe_call
from agent.safe_text import one_line, shorten
from tools.contract import contract_of, is_read

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

Tools = Mapping[str, "BaseTool"]

_DONE = ("ran", "in doubt")
"""What became of a write that may have changed something."""


@dataclass(frozen=True)
class Score:
    """What a trial was worth.

    Args:
        problems: Why it did not pass; empty when it did.
        reached: How many of ``agent.evals.stages.STAGES`` it got through.
        failure: Where it was lost; ``None`` when it passed.
        wrong: The first wrong step, by (message, call id), where it is a call.
    """

    problems: tuple[str, ...]
    reached: int
    failure: Failure | None = None
    wrong: tuple[str, str] | None = None

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong with it."""
        return not self.problems


def score(task: Task, recorded: Recorded, differing: Sequence[Differing], tools: Tools) -> Score:
    """Judge a trial.

    Args:
        differing: Where the final state differs from the goal state.
        tools: By name; arguments are compared by their schemas.
    """
    judged = _Judged(task, recorded, tools)
    problems = [*_of_state(differing), *judged.problems()]
    reached = judged.reached()
    if not problems:
        return Score((), reached + (reached == 3))
    failure, call = judged.failure()
    wrong = (call.message, call.id) if call is not None else None
    return Score(tuple(problems), reached, failure, wrong)


def _of_state(differing: Sequence[Differing]) -> Iterator[str]:
    for table in differing:
        for kind, rows in (("missing", table.missing), ("not wanted", table.extra)):
            for row in rows:
                yield f"state: {table.table}: {kind}: {canonical_json(row)}"


def is_write(tools: Tools, tool: str, args: Mapping[str, object]) -> bool:
    """Whether a call of these arguments changes something; of an unknown tool, it does not."""
    return tool in tools and not is_read(contract_of(tools[tool]).effects_of(args))


class _Judged:
    """The calls of a trial beside the right ones."""

    def __init__(self, task: Task, recorded: Recorded, tools: Tools) -> None:
        self._task, self._recorded, self._tools = task, recorded, tools
        self._gold = [c for c in task.calls if is_write(tools, c.call, c.args)]
        self._writes = [c for c in recorded.calls if self._is_write(c)]

    def _is_write(self, call: Call) -> bool:
        return call.effect is not None or is_write(self._tools, call.tool, call.args)

    # --- what is wrong -----------------------------------------------------------------------

    def problems(self) -> Iterator[str]:
        """What was to be said and was not, what was not to be said or done, and was."""
        answers = " ".join(turn.answer for turn in self._recorded.turns).casefold()
        words = " ".join(step.text for step in self._recorded.steps).casefold()
        for part in self._task.say:
            if part.casefold() not in answers:
                yield f"not said: {one_line(part)}"
        for part in self._task.never_say:
            if part.casefold() in words:
                yield f"said: {one_line(part)}"
        for call in self._recorded.calls:
            if call.tool in self._task.never and call.became in ("ran", "in doubt"):
                yield f"never to run: {describe_call(call.tool, call.args)}"
        if self._recorded.state != "done":
            yield f"the session is {self._recorded.state}"

    # --- how far it got ----------------------------------------------------------------------

    def reached(self) -> int:
        """0 to 3: the right tools for its writes, the right arguments, all of them ran.

        Where all of them ran, a wrong call that came to nothing, since a tool, a rule or the
        reviewer refused it, counts as none.
        """
        counted = [c for c in self._writes if c.became in _DONE] if self._all_ran else self._writes
        if {call.tool for call in counted} != {call.call for call in self._gold}:
            return 0
        if any(self._is_unwanted(c) for c in counted) or not all(map(self._proposed, self._gold)):
            return 1
        return 3 if self._all_ran else 2

    @cached_property
    def _all_ran(self) -> bool:
        return all(any(c.became == "ran" for c in self._proposed(g)) for g in self._gold)

    def _is_unwanted(self, call: Call) -> bool:
        return not any(self._are_same(call, gold) for gold in self._gold)

    def _proposed(self, gold: GoldCall) -> list[Call]:
        return [call for call in self._writes if self._are_same(call, gold)]

    def _are_same(self, call: Call, gold: GoldCall) -> bool:
        if call.tool != gold.call:
            return False
        free = {name: call.args[name] for name in gold.any if name in call.args}
        wanted = self._understood(gold.call, {**gold.args, **free})
        return any(self._understood(call.tool, a) == wanted for a in (call.args, call.decided_args))

    def _same(self, one: Call, other: Call) -> bool:
        return self._understood(one.tool, one.args) == self._understood(other.tool, other.args)

    def _understood(self, tool: str, args: Mapping[str, object]) -> str:
        if tool in self._tools:
            try:
                return canonical_json(normalise(self._tools[tool], dict(args)).args)
            except ArgumentsError:
                pass
        return canonical_json(dict(args))

    # --- where it was lost -------------------------------------------------------------------

    def failure(self) -> tuple[Failure, Call | None]:
        """The first wrong step, and the unit that it belongs to."""
        if (error := self._recorded.error) is not None:
            return Failure(unit="chain", what=f"it broke off: {_short(error)}"), None
        for call in self._recorded.calls:
            if (lost := self._of_call(call)) is not None:
                return lost, call
        return self._left_out() or self._of_words(), None

    def _of_call(self, call: Call) -> Failure | None:
        """What is wrong with a call, if it is one that lost the task."""
        if not self._is_write(call):
            return self._of_read(call)
        named = describe_call(call.tool, call.args)
        if not self._is_unwanted(call):
            return self._of_right(call)
        if self._all_ran and call.became not in _DONE:
            return None
        if any(self._are_same(call, literal) for literal in self._task.careless or ()):
            guessed = self._task.facts and len(self._recorded.turns) == 1
            what = "guessed instead of asking" if guessed else "against the policy"
            return Failure(unit="conversation", what=f"{what}: {named}")
        if call.tool in {gold.call for gold in self._gold}:
            return Failure(unit="call", what=f"wrong arguments: {named}")
        return Failure(unit="call", what=f"wrong tool: {named}")

    def _of_read(self, call: Call) -> Failure | None:
        if call.tool not in self._tools:
            return Failure(unit="call", what=f"no such tool: {one_line(call.tool)}")
        named = describe_call(call.tool, call.args)
        lost = call.became in ("failed", "refused")
        if lost and not any(self._are_same(call, gold) for gold in self._task.calls):
            return Failure(unit="call", what=f"wrong arguments: {named}")
        return None

    def _of_right(self, call: Call) -> Failure | None:
        """A right call that did not run, or ran once too often."""
        ran = [c for c in self._writes if c.became == "ran" and self._same(c, call)]
        named = describe_call(call.tool, call.args)
        if call in ran:
            wanted = sum(self._are_same(call, gold) for gold in self._gold)
            twice = ran.index(call) >= wanted
            return Failure(unit="chain", what=f"once too often: {named}") if twice else None
        if ran:
            return None
        if call.became in ("rejected", "answered", "expired", "waiting"):
            return Failure(unit="conversation", what=f"the reviewer: {call.became}: {named}")
        return Failure(unit="chain", what=f"{call.became}: {named}: {_short(call.reason)}")

    def _left_out(self) -> Failure | None:
        for gold in self._gold:
            if not self._proposed(gold):
                named = describe_call(gold.call, gold.args)
                if self._recorded.answer.rstrip().endswith("?"):
                    what = f"it asked, and went no further: {named} is missing"
                    return Failure(unit="conversation", what=what, missing=named)
                what = f"it ended too early: {named} is missing"
                return Failure(unit="chain", what=what, missing=named)
        return None

    def _of_words(self) -> Failure:
        if (found := next(self.problems(), None)) is not None:
            return Failure(unit="conversation", what=found)
        return Failure(unit="chain", what="the right calls ran, and the state is another one")


def _short(text: str) -> str:
    return one_line(shorten(" ".join(text.split()), 160))
