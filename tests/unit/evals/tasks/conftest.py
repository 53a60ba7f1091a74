"""A world of the bundled orders, and trials of tasks that a test writes down."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from agent.evals.tasks import running
from agent.evals.tasks.record import Trial
from agent.evals.tasks.running import Agent, goal_of, run_trial
from agent.evals.tasks.state import State
from agent.evals.tasks.task import TaskFile, read_tasks, read_world
from agent.evals.tasks.worlds import Holder, World
from agent.models.scripted import ScriptedChatModel, Step

HEAD = """\
world: small
domains: [orders]
policy: policy.md
ids: [order_id]
state:
  orders.db:
    leaves_out:
      orders: [updated_at]
      transactions: [number, key, request, at]
tasks:
"""


@dataclass
class Bench:
    """Runs tasks in folders of their own.

    Args:
        folder: For all of it.
    """

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    _numbers: count[int] = field(default_factory=count)
    _worlds: dict[tuple[str, Holder], World] = field(default_factory=dict)
    _goals: dict[tuple[str, str, Holder], State] = field(default_factory=dict)

    def written(self, tasks: str) -> TaskFile:
        """A file of these tasks over the order desk."""
        folder = self._fresh()
        folder.mkdir()
        (folder / "policy.md").write_text("Be kind.")
        (folder / "small.yaml").write_text(HEAD + tasks)
        return read_tasks(folder / "small.yaml")

    def bundled(self, name: str = "retail") -> TaskFile:
        """A bundled world."""
        return read_world(name)

    def goal(self, file: TaskFile, task: str, holder: Holder = "tools") -> State:
        """The goal state of a task; found once."""
        key = (file.digest, task, holder)
        if key not in self._goals:
            world = self.world(file, holder)
            self._goals[key] = asyncio.run(goal_of(world, file.tasks[task], self._fresh()))
        return self._goals[key]

    def trial(
        self,
        file: TaskFile,
        task: str,
        script: list[Step] | None = None,
        *,
        model: str = "mock:gold",
        reviewer: str = "approve",
        holder: Holder = "tools",
        seed: int = 0,
    ) -> Trial:
        """One trial of a task, by a script or by a model of this name."""
        goal, world = self.goal(file, task), self.world(file, holder)
        with self.monkeypatch.context() as patch:
            if script is not None:
                patch.setattr(running, "mock", lambda *_: ScriptedChatModel(script))
            agent, home = Agent(model, reviewer), self._fresh()
            return asyncio.run(run_trial(world, file.tasks[task], agent, 0, seed, goal, home))

    def world(self, file: TaskFile, holder: Holder) -> World:
        """The world of a file, with its policy there."""
        key = (file.digest, holder)
        if key not in self._worlds:
            self._worlds[key] = World(file, holder, self._fresh())
        return self._worlds[key]

    def _fresh(self) -> Path:
        return self.folder / f"{next(self._numbers)}"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)
