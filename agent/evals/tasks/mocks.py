"""Bundled models that know the task: ``mock:gold`` makes the right calls, ``mock:careless`` slips.

The careless one slips by chance, rolled for each record that a task is about, such as an order:

- ``skip_check``: it does not look the record up, and makes the calls of somebody who takes the
  user's words literally. Where a tool refuses that, it does what it should have done at first;
- ``typo``: it spells the record's id wrongly, and gives the record up when that fails.

Where the user has to be asked and the task says what a guess would be, a skipped check is a skipped
question. Both chances are chosen, not measured: they say nothing about any model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from urllib.parse import parse_qsl

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import Runnable
from pydantic import ConfigDict

from agent.errors import NotFound, UsageError
from agent.evals.tasks.task import GoldCall, Task, WorldWritten
from agent.models.scripted import ScriptedCall, ScriptedChatModel, ScriptedStep

MOCK = "mock:"
GOLD, CARELESS = "mock:gold", "mock:careless"
MOCKS = (GOLD, CARELESS)

IsWrite = Callable[[GoldCall], bool]


@dataclass(frozen=True)
class Carelessness:
    """The chances of its slips, for each record.

    Raises:
        UsageError: A chance that is none.
    """

    skip_check: float = 0.2
    typo: float = 0.05

    def __post_init__(self) -> None:
        for name in ("skip_check", "typo"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} of {CARELESS} is a chance, from 0 to 1.")


def is_mock(name: str) -> bool:
    """Whether a model is one of these."""
    return name.startswith(MOCK)


def read_name(name: str) -> Carelessness | None:
    """The slips that a name such as ``mock:careless?skip_check=0.2&typo=0.1`` asks for; ``None``:
    none, it is ``mock:gold``.

    Raises:
        NotFound: There is no such mock.
        UsageError: It takes no such option, or not this value.
    """
    base, _, query = name.partition("?")
    if base not in MOCKS:
        raise NotFound("bundled model", name, MOCKS)
    given = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := given.keys() - ({"skip_check", "typo"} if base == CARELESS else set()):
        raise UsageError(f"{base} takes no {', '.join(sorted(unknown))}.")
    try:
        values = {key: float(value) for key, value in given.items()}
    except ValueError:
        raise UsageError(f"{name}: a chance is a number from 0 to 1.") from None
    return None if base == GOLD else Carelessness(**values)


def mock(
    name: str, task: Task, world: WorldWritten, is_write: IsWrite, seed: int
) -> ScriptedChatModel:
    """The mock of this name for one trial of a task.

    Args:
        is_write: Whether a call changes something.
        seed: Of its slips.
    """
    slips = read_name(name)
    if slips is None:
        return gold_model(task, asks=bool(task.facts))
    return CarelessModel(plan=_Plan.of(task, world, is_write, slips, Random(seed)), task=task)


class KnowingModel(ScriptedChatModel):
    """A script that knows the task. Tools are not described to it, which would take longer than
    all else that it does."""

    def bind_tools(self, *_: Any, **__: Any) -> Runnable[LanguageModelInput, AIMessage]:
        """Itself."""
        return self


def gold_model(task: Task, *, asks: bool = False) -> ScriptedChatModel:
    """Makes the right calls, one a step, and says what has to be said."""
    first = [ScriptedStep(_question(task))] if asks else []
    calls = [ScriptedStep(calls=(ScriptedCall(c.call, dict(c.args)),)) for c in task.calls]
    return KnowingModel(steps=[*first, *calls, ScriptedStep(_closing(task))])


def _question(task: Task) -> str:
    return f"What is it: {', '.join(task.facts)}?"


def _closing(task: Task) -> str:
    return " ".join(["Done.", *task.say])


@dataclass(frozen=True)
class _Thread:
    """The calls about one record, in order, and those in their place once a tool has refused."""

    calls: tuple[GoldCall, ...]
    then: tuple[GoldCall, ...] = ()


@dataclass(frozen=True)
class _Plan:
    """What one trial will do: calls about no record first, then a thread for each record."""

    asks: bool
    first: tuple[GoldCall, ...]
    threads: tuple[_Thread, ...]

    @classmethod
    def of(
        cls, task: Task, world: WorldWritten, is_write: IsWrite, slips: Carelessness, chance: Random
    ) -> _Plan:
        """Roll the dice, first all of the one kind and then all of the other."""
        literal = task.careless or [call for call in task.calls if is_write(call)]
        records = _records([*literal, *task.calls], world.ids)
        skipped = [chance.random() < slips.skip_check for _ in records]
        typos = [chance.random() < slips.typo for _ in records]
        about = [(r, s, t) for r, s, t in zip(records, skipped, typos, strict=True) if r]
        guesses = bool(task.facts and task.careless) and any(s for _, s, _ in about)
        if guesses:
            return cls(False, (), (_Thread(tuple(literal)),))
        return cls(
            asks=bool(task.facts),
            first=tuple(call for call in task.calls if not _record(call, world.ids)),
            threads=tuple(_threads(task, literal, about, world.ids)),
        )


def _threads(
    task: Task,
    literal: Sequence[GoldCall],
    about: Sequence[tuple[str, bool, bool]],
    ids: Sequence[str],
) -> Iterator[_Thread]:
    for record, skipped, typo in about:
        right = tuple(call for call in task.calls if _record(call, ids) == record)
        blind = tuple(call for call in literal if _record(call, ids) == record)
        thread = _Thread(blind, right) if skipped and blind else _Thread(right)
        yield _mistyped(thread, record) if typo else thread


def _mistyped(thread: _Thread, record: str) -> _Thread:
    wrong = record[:-1] + ("9" if record[-1:] != "9" else "8")

    def spelled(call: GoldCall) -> GoldCall:
        args = {key: wrong if value == record else value for key, value in call.args.items()}
        return call.model_copy(update={"args": args})

    return replace(thread, calls=tuple(map(spelled, thread.calls)), then=())


def _record(call: GoldCall, ids: Sequence[str]) -> str:
    """The id of what a call is about; empty where it names none."""
    found = (str(call.args[name]) for name in ids if name in call.args)
    return next(found, "")


def _records(calls: Sequence[GoldCall], ids: Sequence[str]) -> list[str]:
    found = dict.fromkeys(_record(call, ids) for call in calls)
    return [record for record in found if record] or [""]


class CarelessModel(KnowingModel):
    """Follows its plan, every record at once: what it calls next is told by the history alone."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    plan: Any
    task: Any

    def reply(
        self, messages: Sequence[BaseMessage], tools: Sequence[dict[str, Any]] = ()
    ) -> AIMessage:
        """The next message."""
        number = sum(isinstance(message, AIMessage) for message in messages)
        planned = self._next(number, {m.tool_call_id: m for m in _results(messages)})
        return self._message(planned, number)

    def _next(self, number: int, results: Mapping[str, ToolMessage]) -> ScriptedStep:
        if self.plan.asks and number == 0:
            return ScriptedStep(_question(self.task))
        first = [c for c in (_at("first", self.plan.first, results),) if c is not None]
        if first:
            return ScriptedStep(calls=tuple(first))
        calls = [
            call
            for index, thread in enumerate(self.plan.threads)
            if (call := _next_of(f"{index}", thread, results)) is not None
        ]
        return ScriptedStep(calls=tuple(calls)) if calls else ScriptedStep(_closing(self.task))


def _results(messages: Sequence[BaseMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def _next_of(name: str, thread: _Thread, results: Mapping[str, ToolMessage]) -> ScriptedCall | None:
    if _has_failed(name, thread.calls, results):
        return _at(f"{name}-then", thread.then, results)
    return _at(name, thread.calls, results)


def _at(
    name: str, calls: Sequence[GoldCall], results: Mapping[str, ToolMessage]
) -> ScriptedCall | None:
    """The first of them without a result; ``None`` after the last one, and after a failure."""
    if _has_failed(name, calls, results):
        return None
    for place, call in enumerate(calls):
        if f"{name}-{place}" not in results:
            return ScriptedCall(call.call, dict(call.args), f"{name}-{place}")
    return None


def _has_failed(name: str, calls: Sequence[GoldCall], results: Mapping[str, ToolMessage]) -> bool:
    ids = (f"{name}-{place}" for place in range(len(calls)))
    return any(one in results and results[one].status == "error" for one in ids)
