"""The bound of the offline model: twenty tasks, twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from agent.models.offline import OfflineChatModel
from tests.support.offline_tasks import NAMES, TASKS, Run, Task, Worlds, drive, renamed


def check(task: Task, run: Run, worlds: Worlds) -> None:
    """The task's calls, its answer and its world."""
    made = [sorted(c.key for c in step) for step in run.steps]
    assert made == [sorted(c.key for c in step) for step in task.steps]
    answer = run.answers[-1]
    for pattern in task.says:
        assert re.search(pattern, answer), (pattern, answer)
    for pattern in task.never:
        assert not re.search(pattern, answer), (pattern, answer)
    assert task.world(worlds)
    assert len(run.answers) == len(task.texts)


def test_there_are_twenty_tasks_and_every_tool_is_renamed(tmp_path: Path) -> None:
    assert len(TASKS) == len({t.name for t in TASKS}) == 20
    tools = Worlds(tmp_path).tools()
    assert {t.name for t in tools} == set(NAMES)
    for tool in tools:
        new_name, params = NAMES[tool.name]
        assert new_name != tool.name
        assert set(params) == set(tool.args)
        assert all(old != new for old, new in params.items())


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
async def test_task_over_the_bundled_tools(task: Task, tmp_path: Path) -> None:
    worlds = Worlds(tmp_path)
    run = await drive(OfflineChatModel(), worlds.tools(), worlds, task)
    check(task, run, worlds)


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
async def test_task_with_everything_renamed(task: Task, tmp_path: Path) -> None:
    worlds = Worlds(tmp_path)
    run = await drive(OfflineChatModel(), renamed(worlds.tools()), worlds, task)
    check(task, run, worlds)
    called = {c["name"] for m in run.history if isinstance(m, AIMessage) for c in m.tool_calls}
    assert called <= {new for new, _ in NAMES.values()}


@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.name)
async def test_task_with_the_tools_in_another_order(task: Task, tmp_path: Path) -> None:
    worlds = Worlds(tmp_path)
    run = await drive(OfflineChatModel(), worlds.tools()[::-1], worlds, task)
    check(task, run, worlds)
