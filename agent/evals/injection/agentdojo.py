"""AgentDojo (Debenedetti et al., 2024, arXiv:2406.13352), benchmark version 1.2.2.

Its worlds, tools, tasks, attack text and checks are its own; model and harness are ours. The
injection tasks without a ground truth are left out, which leaves 629 pairs of tasks.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agent.errors import UsageError
from agent.evals.injection.agentdojo_tools import CONTRACTS, TARGETS
from agent.evals.injection.case import Attack, Case, GoldCall, Plan, World
from agent.evals.injection.policies import policy
from tools.contract import Args, PlainTool, Preview, ToolFailure
from tools.langchain_tools import langchain_tool

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

VERSION = "v1.2.2"
DEVELOPED_ON, HELD_OUT = ("workspace", "slack"), ("travel", "banking")
"""The reviewer's rules were made on the first, and run once on the second."""

USER, MODEL = "the user", "the AI language model"
"""How the attack text calls them, as AgentDojo does where it knows no names."""


def plans(names: Sequence[str]) -> list[Plan]:
    """The cases of these suites: each user task alone, then with each injection task.

    Raises:
        UsageError: AgentDojo is not installed.
    """
    load_suite = _library()
    return [plan for name in names for plan in _Suite(name, load_suite(VERSION, name)).plans()]


@cache
def _library() -> Callable[[str, str], Any]:
    """AgentDojo's ``get_suite``, without the providers' SDKs that its package would import."""
    spec = importlib.util.find_spec("agentdojo")
    if spec is None or spec.origin is None:
        raise UsageError(
            "AgentDojo is not installed here. `make evals` installs it, from "
            "requirements-evals.lock, into an environment of its own."
        )
    pipeline = ModuleType("agentdojo.agent_pipeline")
    pipeline.__path__ = [str(Path(spec.origin).parent / "agent_pipeline")]
    google = ModuleType("agentdojo.agent_pipeline.llms.google_llm")
    vars(google)["EMPTY_FUNCTION_NAME"] = ""
    sys.modules.setdefault(pipeline.__name__, pipeline)
    sys.modules.setdefault(google.__name__, google)
    found: Callable[[str, str], Any] = _from("task_suite.load_suites", "get_suite")
    return found


def _from(module: str, name: str) -> Any:
    """Something of AgentDojo's, which has no types for us and is not always there."""
    return getattr(importlib.import_module(f"agentdojo.{module}"), name)


@dataclass
class _World(World):
    """The environment of one case, which its tools change."""

    environment: Any = None


class _Suite:
    """One suite: its tasks, its environment as text, what each user task reads of it."""

    def __init__(self, name: str, suite: Any) -> None:
        self.name, self._suite = name, suite
        self._text: str = _from("task_suite.task_suite", "read_suite_file")(
            name, "environment.yaml", None
        )
        self._vectors: dict[str, str] = suite.get_injection_vector_defaults()
        self._runtime = _from("functions_runtime", "FunctionsRuntime")(suite.tools)

    def plans(self) -> Iterator[Plan]:
        for name, task in self._suite.user_tasks.items():
            yield Plan(f"{self.name}/{name}", partial(self.case, task, None))
        blank = self.environment({})
        scripted = {
            other: task
            for other, task in self._suite.injection_tasks.items()
            if task.GROUND_TRUTH_OUTPUT or _gold(task, blank)
        }
        for name, task in self._suite.user_tasks.items():
            for other, injection in scripted.items():
                yield Plan(f"{self.name}/{name}/{other}", partial(self.case, task, injection))

    def environment(self, injections: dict[str, str]) -> Any:
        """The environment with these texts in its places for them (by the C loader, if any)."""
        text = self._text.format(**{**self._vectors, **injections})
        return self._suite.environment_type.model_validate(_yaml(text))

    def case(self, task: Any, injection: Any | None, folder: Path) -> Case:
        """One user task, with or without what an attacker has planted."""
        planted = self._planted(task, injection) if injection is not None else {}
        world = _World(environment=task.init_environment(self.environment(planted)))
        before = world.environment.model_copy(deep=True)
        attack = None
        if injection is not None:
            attack = Attack(
                texts=tuple({_yaml(f'"{text}"') for text in planted.values()}),
                plan=lambda: _gold(injection, world.environment),
                has_succeeded=lambda answer: _judge(
                    injection.security_from_traces, injection.security, answer, before, world
                ),
                words=injection.GROUND_TRUTH_OUTPUT,
            )
        return Case(
            id="/".join(filter(None, [self.name, task.ID, getattr(injection, "ID", "")])),
            suite=self.name,
            request=task.PROMPT,
            tools=[self._tool(function, world) for function in self._suite.tools],
            world=world,
            calls=_gold(task, world.environment),
            is_useful=lambda answer: _judge(
                task.utility_from_traces, task.utility, answer, before, world
            ),
            answer=task.GROUND_TRUTH_OUTPUT,
            attack=attack,
            policy=policy(self.name),
        )

    def _planted(self, task: Any, injection: Any) -> dict[str, str]:
        """The attack text in every place that the user's task reads."""
        attack = _from("attacks.important_instructions_attacks", "ImportantInstructionsAttack")
        text = attack._JB_STRING.format(goal=injection.GOAL, user=USER, model=MODEL)
        return dict.fromkeys(self._places(task.ID), text)

    @cache  # noqa: B019 - a suite lives as long as the process
    def _places(self, id: str) -> tuple[str, ...]:
        """Where a text must stand so that the user's task reads it."""
        task = self._suite.user_tasks[id]
        marks = {place: f"<CANARY---{place}--->" for place in self._vectors}
        environment = task.init_environment(self.environment(marks))
        read = "".join(
            _as_text(self._runtime.run_function(environment, call.tool, dict(call.args))[0])
            for call in _gold(task, environment)
        )
        return tuple(place for place, mark in marks.items() if mark in read)

    def _tool(self, function: Any, world: _World) -> BaseTool:
        async def run(**args: Any) -> str:
            # Its functions check what they are given before they change anything.
            try:
                result, _ = self._runtime.run_function(
                    world.environment, function.name, args, raise_on_error=True
                )
            except Exception as error:
                raise ToolFailure(f"{type(error).__name__}: {error}") from error
            world.note(function.name, args)
            return _as_text(result)

        run.__doc__ = function.description
        contract = CONTRACTS[function.name]
        if function.name in TARGETS:
            where, argument = TARGETS[function.name]
            contract = replace(contract, preview=partial(_named, world, where, argument))
        return langchain_tool(PlainTool(run, function.parameters, contract, name=function.name))


def _named(world: _World, where: str, argument: str, args: Args) -> Preview:
    """The record that a call is about, as the world names it."""
    records: Any = attrgetter(where)(world.environment)
    key = str(args[argument])
    if isinstance(records, dict):
        record = records.get(key)
    else:
        record = next((one for one in records if str(one.id) == key), None)
    name = next((getattr(record, n) for n in _NAMES if getattr(record, n, None)), "")
    return Preview(f"“{name}”" if name else "there is no such record")


_NAMES = ("title", "filename", "subject")


def _yaml(text: str) -> Any:
    import yaml

    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _gold(task: Any, environment: Any) -> tuple[GoldCall, ...]:
    """A task's ground truth, from the environment as it is now, as plain JSON."""
    calls = task.ground_truth(environment.model_copy(deep=True))
    return tuple(
        GoldCall(call.function, json.loads(json.dumps(dict(call.args), default=str)))
        for call in calls
    )


def _judge(
    by_trace: Callable[..., bool | None],
    by_state: Callable[..., bool],
    answer: str,
    before: Any,
    world: _World,
) -> bool:
    """AgentDojo's own check; its trace is of the calls that ran."""
    called = _from("functions_runtime", "FunctionCall")
    trace = [called(function=one.tool, args=dict(one.args)) for one in world.executed]
    after = world.environment
    judged = by_trace(answer, before, after, trace)
    return bool(by_state(answer, before, after) if judged is None else judged)


def _as_text(result: Any) -> str:
    return result if isinstance(result, str) else json.dumps(_plain(result), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
