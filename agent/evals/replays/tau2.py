"""τ²-bench's public domains (Barres et al., 2025, arXiv:2506.07982; τ-bench: arXiv:2406.12045).

Retail, airline and telecom: worlds, tools, tasks and judgement are its own. Of telecom's tasks the
user does a part on their own telephone; that is replayed as what it is, the user's and outside of
the gate.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from agent.errors import UsageError
from agent.evals.replays.foreign import Function, World, as_tool
from agent.evals.replays.replaying import Gold, Replay, Turn
from tools.contract import Contract

DOMAINS = ("retail", "airline", "telecom")

_GENERIC: Mapping[str, str] = {
    "calculate": "read:arithmetic",
    "transfer_to_human_agents": "write:handover",
}
"""What the tools do that it calls generic: they change nothing in the database, but one hands the
user over to a person."""


def replays(domain: str) -> Iterator[Replay]:
    """The tasks of a domain, each in a world of its own.

    Raises:
        UsageError: It is not installed, or there is no such domain.
    """
    if domain not in DOMAINS:
        raise UsageError(f"{domain!r} is no domain of τ²-bench; there are {', '.join(DOMAINS)}.")
    library = _library(domain)
    for task in library.get_tasks():
        yield _replay(domain, library, task)


def kinds(domain: str) -> dict[str, str]:
    """Its tools by name, each with the kind that it gives it: read, write or generic.

    Raises:
        UsageError: It is not installed.
    """
    tools = _library(domain).get_environment().tools
    return {name: tools.tool_type(name).value for name in tools.tools}


def _library(domain: str) -> Any:
    """The module of a domain, which has no types for us and is not always there."""
    if importlib.util.find_spec("tau2") is None:
        raise UsageError(
            "τ²-bench is not installed here. `make evals` installs it, from "
            "requirements-evals.lock, into an environment of its own."
        )
    logger = importlib.import_module("loguru").logger
    logger.remove()  # it tells every call on stderr
    return importlib.import_module(f"tau2.domains.{domain}.environment")


def _replay(domain: str, library: Any, task: Any) -> Replay:
    environment, gold = _environment(library, task), _environment(library, task)
    actions = task.evaluation_criteria.actions or []
    for action in actions:
        _act(gold, action)
    return Replay(
        id=f"{domain}/{task.id}",
        tools=_tools(domain, environment),
        turns=_turns(environment, task, actions),
        judge=lambda: _judge(environment, gold, task),
        state=lambda: _state(environment),
        changing=lambda: _changing(_environment(library, task), actions),
    )


def _environment(library: Any, task: Any) -> Any:
    environment, state = library.get_environment(), task.initial_state
    environment.set_state(
        initialization_data=state.initialization_data if state else None,
        initialization_actions=state.initialization_actions if state else None,
        message_history=(state.message_history if state else None) or [],
    )
    return environment


def _act(environment: Any, action: Any) -> None:
    """As its own evaluator does: a right call that raises is passed over.

    After the call the user's side is brought in step, as after every call of a conversation. Its
    evaluator leaves that out here, so that by its own figures 71 of telecom's right answers end
    with another hash than themselves.
    """
    with suppress(Exception):
        environment.make_tool_call(
            tool_name=action.name, requestor=action.requestor, **action.arguments
        )
        environment.sync_tools()


def _changing(environment: Any, actions: Sequence[Any]) -> list[int]:
    """The places, among the agent's calls, of those that change the database."""
    found, place = [], 0
    for action in actions:
        before = _state(environment)
        _act(environment, action)
        if action.requestor == "assistant":
            if _state(environment) != before:
                found.append(place)
            place += 1
    return found


def _tools(domain: str, environment: Any) -> list[Any]:
    world = World(state=lambda: _state(environment))
    found = []
    for name, tool in environment.tools.get_tools().items():
        schema = tool.openai_schema["function"]

        def run(_name: str = name, /, **args: Any) -> str:
            result = environment.make_tool_call(_name, requestor="assistant", **args)
            environment.sync_tools()
            return str(environment.to_json_str(result))

        function = Function(name, schema["description"], schema["parameters"], run)
        contract = _contract(domain, name, environment.tools.tool_type(name).value)
        found.append(as_tool(function, contract, world))
    return found


def _contract(domain: str, name: str, kind: str) -> Contract:
    """What a tool may do, by the kind that it is given; one without a known kind is a write."""
    effect = _GENERIC.get(name, f"write:{domain}")
    if kind in ("read", "think"):
        effect = f"read:{domain}"
    elif kind == "write":
        effect = f"write:{domain}"
    return Contract(effects=frozenset({effect}), open_world=False, private=True)


def _turns(environment: Any, task: Any, actions: Sequence[Any]) -> list[Turn]:
    """A turn ends where the user does something themselves."""
    turns: list[Turn] = []
    said, own, calls = _request(task), list[Any](), list[Gold]()
    for action in actions:
        if action.requestor == "user":
            if calls:
                turns.append(_turn(environment, said, own, calls))
                said, own, calls = "I have done it.", [], []
            own.append(action)
        else:
            calls.append(Gold(action.name, json.loads(json.dumps(action.arguments))))
    return [*turns, _turn(environment, said, own, calls)]


def _turn(environment: Any, said: str, own: Sequence[Any], calls: Sequence[Gold]) -> Turn:
    def before() -> None:
        for action in own:
            environment.make_tool_call(action.name, requestor="user", **action.arguments)
            environment.sync_tools()

    return Turn(said, tuple(calls), before if own else None)


def _request(task: Any) -> str:
    instructions = task.user_scenario.instructions
    return str(getattr(instructions, "reason_for_call", instructions))


def _state(environment: Any) -> str:
    """Its own hashes, of the database and of the user's telephone."""
    return f"{environment.get_db_hash()} {environment.get_user_db_hash()}"


def _judge(environment: Any, gold: Any, task: Any) -> list[str]:
    wrong = []
    if environment.get_db_hash() != gold.get_db_hash():
        wrong.append("the hash of the database is another one")
    if environment.get_user_db_hash() != gold.get_user_db_hash():
        wrong.append("the hash of the user's side is another one")
    for assertion in task.evaluation_criteria.env_assertions or []:
        if not environment.run_env_assertion(assertion, raise_assertion_error=False):
            wrong.append(f"{assertion.func_name} does not hold")
    return wrong
