"""A trial as a real session: its own store, ledger, approvals and trail, over a fresh world."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.application import Application, Options
from agent.config import load_settings, process_environment
from agent.errors import InvalidFile, UsageError
from agent.evals.driving import collect, review
from agent.evals.injection.reviewer import SimulatedReviewer
from agent.evals.recorded import Recorded, read_session
from agent.evals.reviewers import Rejects, Reviewer, Tired, approves, stays_silent
from agent.evals.story import story
from agent.evals.tasks.mocks import gold_model, is_mock, mock
from agent.evals.tasks.record import (
    FiguresKept,
    Trial,
    kept_calls,
    kept_turns,
)
from agent.evals.tasks.scoring import Tools, is_write, score
from agent.evals.tasks.state import State
from agent.evals.tasks.task import GoldCall, Task
from agent.evals.tasks.worlds import PROMPT, Holder, World
from agent.evals.users import Scripted, User, WithGoal
from agent.receipt import describe_call

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from agent.config import Settings
    from agent.session import AgentSession

MOST_TURNS = 12
"""Messages of the user after which a conversation is given up."""

GOLD = "gold"
PATIENCE = 10
"""Prompts after which the tired reviewer looks at nothing any more."""

REVIEWERS: dict[str, Callable[[str, int], Reviewer]] = {
    "approve": lambda request, seed: approves,
    "reject": lambda request, seed: Rejects("It is not wanted."),
    "goal": lambda request, seed: SimulatedReviewer(request),
    "tired": lambda request, seed: Tired(SimulatedReviewer(request), PATIENCE, seed),
    "absent": lambda request, seed: stays_silent,
}
"""Reviewers by name, of the user's request and the trial's seed."""


@dataclass(frozen=True)
class Agent:
    """Who is tried: a model by name, and the reviewer beside it."""

    model: str = "offline"
    reviewer: str = "approve"


def seed_of(seed: int, world: str, task: str, number: int) -> int:
    """The seed of a trial, whatever else is run, and wherever the policy is."""
    text = f"{seed}/{world}/{task}/{number}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")


# --- the goal ------------------------------------------------------------------------------------


async def goal_of(world: World, task: Task, home: Path) -> State:
    """The state that the right calls lead to, made through the whole harness.

    Raises:
        InvalidFile: They do not: it says which call, and where that is written. It is the task
            that is wrong, whatever an agent makes of it.
    """
    settings, user = _settings(home, "scripted:gold"), Scripted([task.says])
    played = await _play(world, settings, home, lambda _: gold_model(task), user, approves)
    if faults := _faults(world, task, played):
        raise InvalidFile(faults)
    return played.state


def _faults(world: World, task: Task, played: _Played) -> list[str]:
    file, calls = world.file, played.recorded.calls
    faults = [
        f"{file.at(task.id, 'calls', number)}: gold of {task.id}: "
        f"{describe_call(call.tool, call.args)} {call.became}: {call.result or call.reason}"
        for number, call in enumerate(calls)
        if call.became != "ran"
    ]
    if len(calls) < len(task.calls) or played.recorded.state != "done":
        why = played.recorded.error or played.recorded.state
        faults.append(f"{file.at(task.id, 'calls')}: gold of {task.id} broke off: {why}")
    if faults:
        return faults
    writes = [c for c in task.calls if is_write(played.tools, c.call, c.args)]
    if "refused" in task.tags and writes:
        faults.append(f"{file.at(task.id, 'tags')}: {task.id} is to be refused, and writes")
    if "ordered" in task.tags and len(writes) < 2:
        faults.append(f"{file.at(task.id, 'tags')}: {task.id} has no two writes to be in order")
    for number, row in enumerate(task.goal):
        if not played.state.has(row):
            at = file.at(task.id, "goal", number)
            faults.append(f"{at}: gold of {task.id} does not lead to {row.row} in {row.table}")
    for name in task.never:
        if name not in played.tools:
            faults.append(f"{file.at(task.id, 'never')}: there is no tool {name}")
    for number, literal in enumerate(task.careless or ()):
        if literal.call not in played.tools:
            at = file.at(task.id, "careless", number)
            faults.append(f"{at}: there is no tool {literal.call}")
    return faults


# --- a trial -------------------------------------------------------------------------------------


async def run_trial(
    world: World, task: Task, agent: Agent, number: int, seed: int, goal: State, home: Path
) -> Trial:
    """Try a task once.

    Args:
        number: Of the trial, from 0.
        seed: Of the trial itself (``seed_of``).
        home: A folder that is not there yet.
    """
    begun = time.perf_counter()

    def model(tools: Tools) -> BaseChatModel:
        def writes(call: GoldCall) -> bool:
            return is_write(tools, call.call, call.args)

        return mock(agent.model, task, world.file.world, writes, seed)

    settings = _settings(home, agent.model)
    own, reviewer = is_mock(agent.model), REVIEWERS[agent.reviewer](task.says, seed)
    played = await _play(world, settings, home, model if own else None, _user(task), reviewer)
    return _trial(world, task, agent, number, seed, goal, played, time.perf_counter() - begun)


def _user(task: Task) -> User:
    return WithGoal(task.says, task.facts) if task.facts else Scripted([task.says])


def _settings(home: Path, model: str) -> Settings:
    """The settings of a trial: no variable counts but those of the model's provider."""
    environ = {k: v for k, v in process_environment().items() if k.startswith("OPENAI_")}
    return load_settings(environ=environ, home=home, model=model, reviewer="simulated reviewer")


@dataclass(frozen=True)
class _Played:
    """What a conversation left behind."""

    recorded: Recorded
    state: State
    tools: Tools


async def _play(
    world: World,
    settings: Settings,
    home: Path,
    model: Callable[[Tools], BaseChatModel] | None,
    user: User,
    reviewer: Reviewer,
) -> _Played:
    world.reset(home)
    options = Options(
        granted=tuple(world.file.world.grant),
        policy=world.rules,
        servers=world.servers,
        via="eval",
    )
    settings = settings.model_copy(update={"tools": (), "prompt": home / PROMPT})
    async with Application.open(settings, options, tools=world.tools(home)) as app:
        tools = {tool.name: tool for tool in app.tools}
        if model is not None:
            app.models[settings.model] = model(tools)
        async with app.new_session() as session:
            await _talk(session, app, user, reviewer)
            recorded = read_session(app.store, session.id, await session.history())
    return _Played(recorded, world.state(home), tools)


async def _talk(session: AgentSession, app: Application, user: User, reviewer: Reviewer) -> None:
    """The user leads until there is nothing more to say, or a turn does not come to its end."""
    answer: str | None = None
    for _ in range(MOST_TURNS):
        text = user(answer)
        if text is None:
            return
        said = await review(session, reviewer, await collect(session.run(text)))
        if app.store.sessions.get(session.id).state != "done":
            return
        answer = said.done.answer


def _trial(
    world: World,
    task: Task,
    agent: Agent,
    number: int,
    seed: int,
    goal: State,
    played: _Played,
    seconds: float,
) -> Trial:
    recorded, differing = played.recorded, played.state.against(goal)
    judged = score(task, recorded, differing, played.tools)
    failure = judged.failure
    marked = {judged.wrong} if judged.wrong else set[tuple[str, str]]()
    figures = recorded.figures
    return Trial(
        world=world.file.name,
        task=task.id,
        tags=list(task.tags),
        policy_in=world.holder,
        model=agent.model,
        reviewer=agent.reviewer,
        number=number,
        seed=seed,
        passed=judged.passed,
        problems=list(judged.problems),
        failure=failure,
        reached=judged.reached,
        goal=goal.digest,
        state=played.state.digest,
        differing=differing,
        session=recorded.session,
        ended=recorded.state,
        error=recorded.error,
        turns=kept_turns(recorded),
        calls=kept_calls(recorded, judged.wrong),
        figures=FiguresKept(
            steps=figures.steps,
            calls=figures.calls,
            writes=figures.writes,
            asked=figures.asked,
            tokens_in=figures.tokens[0],
            tokens_out=figures.tokens[1],
            seconds=seconds,
        ),
        story=story(recorded, marked, failure.missing if failure else None),
    )


def check_agent(agent: Agent) -> None:
    """Whether there is such a reviewer, and such a mock.

    Raises:
        UsageError: There is none.
    """
    if agent.reviewer not in REVIEWERS:
        known = ", ".join(REVIEWERS)
        raise UsageError(f"{agent.reviewer!r} is no simulated reviewer; there are {known}.")
    if is_mock(agent.model):
        from agent.evals.tasks.mocks import read_name

        read_name(agent.model)


def holders(name: str) -> tuple[Holder, ...]:
    """What ``--policy-in`` names.

    Raises:
        UsageError: It is none of them.
    """
    match name:
        case "prompt":
            return ("prompt",)
        case "tools":
            return ("tools",)
        case "both":
            return ("prompt", "tools")
    raise UsageError(f"{name!r} holds no policy; say prompt, tools or both.")
