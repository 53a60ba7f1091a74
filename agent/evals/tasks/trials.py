"""Trials of tasks, in processes side by side, each in a session and a world of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import TypeVar

from agent.config import process_environment
from agent.errors import InvalidFile, SaysoError
from agent.evals.tasks.record import Trial
from agent.evals.tasks.running import Agent, goal_of, run_trial, seed_of
from agent.evals.tasks.state import State
from agent.evals.tasks.task import TaskFile
from agent.evals.tasks.worlds import HOLDERS, Holder, World

T = TypeVar("T")
Progress = Callable[[int], None]
"""Told how many more are done."""

MOST_TRIES = 1_000
IN_MEMORY = "/dev/shm"
ROOM = 64 * 1024 * 1024
"""Bytes; a trial takes less than one MB."""

AHEAD = 4
"""Jobs for each process that wait in its queue: a run that is stopped has little left to end."""


@dataclass(frozen=True)
class Plan:
    """What is run: ``trials`` of each task of each file, under each holder of the policy."""

    files: tuple[TaskFile, ...]
    holders: tuple[Holder, ...]
    trials: int
    seed: int
    agent: Agent
    tasks: tuple[str, ...] = ()

    @property
    def jobs(self) -> Iterator[Job]:
        """Every trial, so that each task has had as many as the others, wherever it is stopped."""
        for number in range(self.trials):
            for file in self.files:
                for task in self.tasks_of(file):
                    for holder in self.holders:
                        yield Job(file, task, holder, number)

    def tasks_of(self, file: TaskFile) -> list[str]:
        """The tasks of a file that are run: all of them, unless some are named."""
        return [task for task in file.tasks if not self.tasks or task in self.tasks]


@dataclass(frozen=True)
class Job:
    """A trial that is to be run."""

    file: TaskFile
    task: str
    holder: Holder
    number: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """As ``Trial.key``."""
        return self.file.name, self.task, self.holder, self.number


Goals = dict[tuple[str, str], State]
"""By world and task."""


def find_goals(plan: Plan, workers: Workers, progress: Progress) -> Goals:
    """The goal state of each task.

    Raises:
        InvalidFile: Tasks whose right calls do not reach it, all of them.
    """
    wanted = [(file, task) for file in plan.files for task in plan.tasks_of(file)]
    goals, faults = Goals(), list[str]()
    calls = [(_goal, (file, task)) for file, task in wanted]
    for place, found in workers.each(calls):
        file, task = wanted[place]
        if isinstance(found, State):
            goals[file.name, task] = found
        else:
            faults += [fault for fault in found if fault not in faults]
        progress(1)
    if faults:
        raise InvalidFile(sorted(faults, key=_place))
    return goals


def _place(fault: str) -> tuple[str, int]:
    name, _, rest = fault.partition(":")
    line = rest.partition(":")[0]
    return name, int(line) if line.isdigit() else 0


def run_trials(
    plan: Plan, goals: Goals, done: Iterable[tuple[str, str, str, int]], workers: Workers
) -> Iterator[Trial]:
    """Run what is not done yet; trials come as they end."""
    before = set(done)
    jobs = [job for job in plan.jobs if job.key not in before]
    calls = [(_trial, (job, plan.agent, plan.seed, goals[job.file.name, job.task])) for job in jobs]
    for _, trial in workers.each(calls):
        yield trial


# --- processes ---------------------------------------------------------------------------------


class Workers:
    """Runs functions in so many processes; with one, in this process."""

    def __init__(self, number: int, pool: Executor | None) -> None:
        self._number, self._pool = number, pool

    def each(
        self, calls: Sequence[tuple[Callable[..., T], tuple[object, ...]]]
    ) -> Iterator[tuple[int, T]]:
        """The result of each call with its place, as they come.

        Raises:
            SaysoError: A process has ended in the middle, as by a lack of memory.
        """
        if self._pool is None:
            for place, (function, args) in enumerate(calls):
                yield place, function(*args)
            return
        waiting: dict[Future[T], int] = {}
        rest = iter(enumerate(calls))
        try:
            while True:
                for place, (function, args) in islice(rest, self._number * AHEAD - len(waiting)):
                    waiting[self._pool.submit(function, *args)] = place
                if not waiting:
                    return
                future = next(as_completed(waiting))
                yield waiting.pop(future), future.result()
        except BrokenProcessPool as error:
            raise SaysoError(
                "A process that ran trials has ended in the middle. What is done is kept with "
                "--results; run the same command again, with fewer --jobs if memory was short."
            ) from error
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def workers(number: int) -> Iterator[Workers]:
    """Processes that end with the block, and with this process, however that ends.

    What trials leave behind is thrown away, so it is kept in memory where there is a folder for
    that: nothing of it has to outlive the machine. ``TMPDIR`` names another place.
    """
    with tempfile.TemporaryDirectory(prefix="sayso-tasks-", dir=_place_in_memory()) as folder:
        if number <= 1:
            _begin(folder)
            try:
                yield Workers(1, None)
            finally:
                _end_worlds()
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(number, context, _begin, (folder,)) as pool:
            yield Workers(number, pool)


def _place_in_memory() -> str | None:
    """The folder in memory; ``None``: there is none with room, or another place was named."""
    if "TMPDIR" in process_environment() or not os.access(IN_MEMORY, os.W_OK):
        return None
    return IN_MEMORY if shutil.disk_usage(IN_MEMORY).free >= ROOM else None


# --- in such a process -------------------------------------------------------------------------

_WORLDS: dict[tuple[str, Holder], World] = {}
_FOLDER: list[Path] = []
"""The one folder of this run."""


def _end_worlds() -> None:
    for world in _WORLDS.values():
        world.close()
    _WORLDS.clear()


def _begin(folder: str) -> None:
    _FOLDER[:] = [Path(folder)]
    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel, folder), daemon=True).start()


def _end_with(parent: int, folder: str) -> None:
    """End when the parent is gone: a pool's processes would wait for it for ever."""
    wait([parent])
    for _ in range(MOST_TRIES):  # a trial under way goes on writing there
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
    os._exit(1)


def _world(file: TaskFile, holder: Holder) -> World:
    key = (file.digest, holder)
    if key not in _WORLDS:
        template = Path(tempfile.mkdtemp(prefix="template-", dir=_FOLDER[0]))
        _WORLDS[key] = World(file, holder, template)
    return _WORLDS[key]


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=_FOLDER[0]) as folder:
        yield Path(folder) / "home"


def _goal(file: TaskFile, task: str) -> State | list[str]:
    """The goal, which is the same whatever holds the policy; or what is wrong with the task."""
    found: State | None = None
    for holder in HOLDERS:
        with _home() as home:
            try:
                state = asyncio.run(goal_of(_world(file, holder), file.tasks[task], home))
            except InvalidFile as error:
                return list(error.faults)
        if found is not None and state.digest != found.digest:
            where = ", ".join(one.table for one in state.against(found))
            at = file.at(task, "calls")
            return [
                f"{at}: gold of {task} leads elsewhere without the checks of the tools: {where}"
            ]
        found = state
    assert found is not None
    return found


def _trial(job: Job, agent: Agent, seed: int, goal: State) -> Trial:
    world, task = _world(job.file, job.holder), job.file.tasks[job.task]
    own = seed_of(seed, job.file.name, job.task, job.number)
    with _home() as home:
        return asyncio.run(run_trial(world, task, agent, job.number, own, goal, home))
