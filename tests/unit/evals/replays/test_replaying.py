"""Right answers of a foreign world, replayed as real sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import UsageError
from agent.evals.replays import multi_turn, suites, tau2
from agent.evals.replays.foreign import Function, Refused, World, as_tool
from agent.evals.replays.replaying import Gold, RejectsOne, Replay, Turn, replay
from agent.evals.replays.suites import Part, parts_of
from tools.contract import Contract

NUMBER = {
    "type": "object",
    "properties": {"by": {"type": "integer"}},
    "additionalProperties": False,
}


class Counter:
    """A world with one number in it."""

    def __init__(self) -> None:
        self.number = 0
        self.world = World(state=lambda: str(self.number))

    def add(self, by: int = 1) -> str:
        if by == 0:
            raise Refused("nothing to add")
        self.number += by
        if by < 0:
            raise ValueError("below nothing")
        return str(self.number)

    def look(self) -> str:
        return str(self.number)

    def tools(self) -> list[Any]:
        def tool(function: Callable[..., str], effect: str, schema: dict[str, Any]) -> Any:
            contract = Contract(effects=frozenset({effect}), open_world=False, private=False)
            name = function.__name__
            return as_tool(Function(name, f"{name} it.", schema, function), contract, self.world)

        nothing = {"type": "object", "properties": {}}
        return [tool(self.add, "write:number", NUMBER), tool(self.look, "read:number", nothing)]

    def replay(self, *calls: Gold, goal: int, **turn: Any) -> Replay:
        return Replay(
            id="counter",
            tools=self.tools(),
            turns=[Turn("Count.", calls, **turn)],
            judge=lambda: [] if self.number == goal else [f"it is {self.number}"],
            state=lambda: str(self.number),
        )


def add(by: int) -> Gold:
    return Gold("add", {"by": by})


LOOK = Gold("look", {})


async def test_each_call_goes_through_the_gate_and_the_ledger(tmp_path: Path) -> None:
    found = await replay(Counter().replay(LOOK, add(2), add(3), LOOK, goal=5), tmp_path)
    assert (found.wrong, found.state, found.broken) == ((), "5", ())
    assert (found.steps, found.calls, found.writes, found.asked, found.errors) == (5, 4, 2, 2, 0)


async def test_what_is_rejected_is_missing_in_the_end(tmp_path: Path) -> None:
    found = await replay(Counter().replay(add(2), add(3), goal=5), tmp_path, RejectsOne(1))
    assert found.wrong == ("it is 2",)
    assert found.not_run == ("add: rejected",)
    assert (found.writes, found.asked) == (1, 2)


async def test_a_call_that_the_world_refuses_is_read_as_an_error(tmp_path: Path) -> None:
    found = await replay(Counter().replay(add(0), add(1), goal=1), tmp_path)
    assert (found.wrong, found.errors, found.writes) == ((), 1, 1)


async def test_one_that_raises_after_it_changed_something_is_in_doubt(tmp_path: Path) -> None:
    counter = Counter()
    found = await replay(counter.replay(add(-1), goal=-1), tmp_path)
    assert found.not_run == ("add: in doubt",)
    assert found.writes == 0
    assert counter.world.executed[0].error


async def test_the_user_acts_outside_of_the_gate_and_each_turn_is_looked_at(tmp_path: Path) -> None:
    counter = Counter()
    seen: list[int] = []

    def after() -> str | None:
        seen.append(counter.number)
        return "turn 1: too much" if counter.number > 10 else None

    def before() -> None:
        counter.number += 10

    found = await replay(counter.replay(add(1), goal=11, before=before, after=after), tmp_path)
    assert seen == [11]
    assert found.wrong == ("turn 1: too much",)
    assert found.asked == 1


async def test_a_read_that_changes_something_is_found(tmp_path: Path) -> None:
    counter = Counter()
    counter.world.look_at_reads = True
    contract = Contract(effects=frozenset({"read:number"}), open_world=False, private=False)
    lying = as_tool(Function("peek", "Peek.", NUMBER, counter.add), contract, counter.world)
    task = counter.replay(Gold("peek", {"by": 1}), LOOK, goal=1)
    found = await replay(replace(task, tools=[lying, *task.tools]), tmp_path)
    assert (found.wrong, found.writes, found.asked) == ((), 0, 0)
    assert counter.world.no_reads == {"peek"}


async def test_wrong_arguments_never_reach_the_world(tmp_path: Path) -> None:
    found = await replay(Counter().replay(Gold("add", {"by": "x"}), goal=0), tmp_path)
    assert found.not_run == ("add: refused",)
    assert found.faults == ("add: by: should be integer, got 'x'",)
    part = Part("counters", (found,))
    assert (part.right, part.wrong, part.faulty) == (0, [], [found])


async def test_a_part_is_counted(tmp_path: Path) -> None:
    right = await replay(Counter().replay(add(2), goal=2), tmp_path)
    wrong = await replay(Counter().replay(add(2), add(2), goal=2), tmp_path)
    part = Part("counters", (right, wrong))
    assert part.right == 1
    assert part.as_row() == ["counters", "2", "0", "1", "3", "0", "0", "3", "1.50", "2"]
    assert part.as_json()["wrong"] == {"counter": ["it is 4"]}


def test_several_processes_keep_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(suites.SUITES, "counters", (["p"], lambda part: iter(_five())))
    whole = suites.run("counters", "p", jobs=1)
    assert [outcome.state for outcome in whole.outcomes] == ["1", "2", "3", "4", "5"]
    shares = [suites._share("counters", "p", 4, None, 2, number) for number in range(2)]
    assert [[outcome.state for outcome in share] for share in shares] == [["1", "3"], ["2", "4"]]


def _five() -> list[Replay]:
    return [Counter().replay(add(number), goal=number) for number in range(1, 6)]


def test_parts_that_are_not_there_are_named() -> None:
    assert parts_of("tau2", []) == ("retail", "airline", "telecom")
    with pytest.raises(UsageError, match="'hotel' is no part of it; there are retail, airline"):
        parts_of("tau2", ["hotel"])
    for replays in (tau2.replays, multi_turn.replays):
        with pytest.raises(UsageError, match="'hotel' is no"):
            next(iter(replays("hotel")))
