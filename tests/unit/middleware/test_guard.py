"""Whatever kind of tool it is: what leaves its body is never ambiguous."""

from __future__ import annotations

import asyncio
import functools
import typing
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool, Tool, ToolException
from pydantic import BaseModel, Field, ValidationError

from agent.middleware.guard import guarded
from agent.threads import Entry, entry
from tools.contract import (
    Contract,
    OutcomeUnknown,
    ToolFailure,
    TransientFailure,
    contract_of,
    make_tool,
)

Body = Callable[[str], str]


class Text(BaseModel):
    text: str


class Subclassed(StructuredTool):
    """A tool made from a function, of a class that adds nothing to it."""


class WithRun(BaseTool):
    name: str = "act"
    description: str = "Act."
    body: Any = Field(exclude=True)

    def _run(self, text: str) -> str:
        return str(self.body(text))


class WithArun(WithRun):
    async def _arun(self, text: str) -> str:
        return str(self.body(text))


class WithInvoke(WithRun):
    async def ainvoke(self, input: Any, config: Any = None, **kwargs: Any) -> Any:
        return ToolMessage(self.body(input["args"]["text"]), tool_call_id=input["id"])


def _asynchronous(body: Body) -> Any:
    async def act(text: str) -> str:
        """Act."""
        return body(text)

    return act


def _synchronous(body: Body) -> Any:
    def act(text: str) -> str:
        """Act."""
        return body(text)

    return act


KINDS: dict[str, Callable[[Body], BaseTool]] = {
    "contract": lambda body: make_tool(_synchronous(body), args=Text, contract=Contract()),
    "async contract": lambda body: make_tool(_asynchronous(body), args=Text, contract=Contract()),
    "structured": lambda body: StructuredTool.from_function(_synchronous(body)),
    "async structured": lambda body: StructuredTool.from_function(coroutine=_asynchronous(body)),
    "subclass": lambda body: Subclassed.from_function(_synchronous(body)),
    "async subclass": lambda body: Subclassed.from_function(coroutine=_asynchronous(body)),
    "simple": lambda body: Tool("act", _synchronous(body), "Act."),
    "_run": lambda body: WithRun(body=body),
    "_arun": lambda body: WithArun(body=body),
    "ainvoke": lambda body: WithInvoke(body=body),
}


@pytest.fixture(params=list(KINDS.values()), ids=list(KINDS))
def make(request: pytest.FixtureRequest) -> Callable[[Body], BaseTool]:
    """Makes a tool of one kind from a function."""
    return request.param  # type: ignore[no-any-return]


async def called(
    tool: BaseTool, args: dict[str, Any] | None = None, started: Entry | None = None
) -> tuple[Any, Entry]:
    """What the guarded tool ends in, an exception as a value, and whether it was entered."""
    started = started or Entry()
    entry.set(started)
    call = {"type": "tool_call", "id": "c", "name": tool.name, "args": args or {"text": "x"}}
    try:
        return await guarded(tool).ainvoke(call), started
    except BaseException as error:
        return error, started


def raises(error: BaseException) -> Body:
    def body(text: str) -> str:
        raise error

    return body


async def test_a_result_passes_and_the_entry_is_seen(make: Callable[[Body], BaseTool]) -> None:
    result, started = await called(make(lambda text: f"did {text}"))
    assert (result.content, result.status) == ("did x", "success")
    assert started.entered


@pytest.mark.parametrize(
    "error", [ToolFailure("no"), TransientFailure("busy"), OutcomeUnknown("?")]
)
async def test_the_words_of_the_contract_pass(
    make: Callable[[Body], BaseTool], error: Exception
) -> None:
    result, started = await called(make(raises(error)))
    assert result is error
    assert started.entered


def _validation_error() -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Text.model_validate({})
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("boom"),
        ValueError(""),
        TimeoutError("slow"),
        ToolException("handled by LangChain otherwise"),
        _validation_error(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_any_other_exception_leaves_the_outcome_unknown(
    make: Callable[[Body], BaseTool], error: Exception
) -> None:
    result, started = await called(make(raises(error)))
    assert isinstance(result, OutcomeUnknown)
    assert type(error).__name__ in str(result)
    assert started.entered


async def test_a_cancellation_is_not_an_error_of_the_tool() -> None:
    entered = asyncio.Event()

    async def act(text: str) -> str:
        """Act."""
        entered.set()
        await asyncio.Event().wait()
        return text

    task = asyncio.create_task(called(make_tool(act, args=Text, contract=Contract())))
    await entered.wait()
    task.cancel()
    result, _ = await task
    assert isinstance(result, asyncio.CancelledError)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if "structured" in kind or "class" in kind]
)
async def test_arguments_that_do_not_fit_never_reach_the_body(kind: str) -> None:
    entered: list[str] = []

    def body(text: str) -> str:
        entered.append(text)
        return text

    _, started = await called(KINDS[kind](body), {"wrong": 1})
    assert entered == []
    assert not started.entered


@pytest.mark.parametrize("kind", KINDS)
async def test_once_its_outcome_is_being_recorded_a_body_is_not_entered_any_more(
    kind: str,
) -> None:
    entered: list[str] = []

    def body(text: str) -> str:
        entered.append(text)
        return text

    late = Entry()
    late.close()
    result, started = await called(KINDS[kind](body), started=late)
    assert entered == []
    assert not started.entered
    assert isinstance(result, ToolFailure)
    assert not isinstance(result, OutcomeUnknown)


def test_what_was_entered_in_time_goes_on() -> None:
    """A body of several methods passes its entry several times."""
    started = Entry()
    assert started.enter()
    started.close()
    assert started.enter()
    assert started.entered


def test_what_the_model_sees_of_a_tool_and_its_contract_stay() -> None:
    contract = Contract(effects=frozenset({"write:n"}), version="7")
    tool = make_tool(_synchronous(str), args=Text, contract=contract, name="renamed")
    copy = guarded(tool)
    assert (copy.name, copy.description) == ("renamed", "Act.")
    assert copy.args_schema is Text
    assert contract_of(copy) is contract


async def test_the_tool_itself_is_left_as_it_was() -> None:
    tool = StructuredTool.from_function(_synchronous(raises(KeyError("x"))), handle_tool_error=True)
    guarded(tool)
    assert tool.handle_tool_error is True
    with pytest.raises(KeyError):
        await tool.ainvoke({"text": "x"})


async def test_a_tool_may_not_turn_its_own_errors_into_results() -> None:
    """Else a failure after the effect would come back as a result that says "try again"."""
    tool = StructuredTool.from_function(
        _synchronous(raises(ToolException("lost"))),
        handle_tool_error="Please try again.",
        handle_validation_error="Please fix your arguments.",
    )
    result, _ = await called(tool)
    assert isinstance(result, OutcomeUnknown)


async def test_without_a_run_around_it_a_guarded_tool_just_works() -> None:
    tool = guarded(make_tool(_synchronous(str.upper), args=Text, contract=Contract()))
    assert await tool.ainvoke({"text": "x"}) == "X"
    assert tool.invoke({"text": "y"}) == "Y"


# --- results that are none yet ---------------------------------------------------------------


class Asynchronous:
    """An object that is called, and answers later."""

    def __init__(self, body: Body) -> None:
        self.body, self.__name__, self.__doc__ = body, "act", "Act."

    async def __call__(self, text: str) -> str:
        return self.body(text)


class RunPassesOn(WithRun):
    def _run(self, text: str) -> Any:
        return _asynchronous(self.body)(text)


def _passed_on(function: Callable[..., Any]) -> Any:
    """As a decorator does that knows nothing of async functions."""

    def act(text: str) -> Any:
        """Act."""
        return function(text)

    return act


def _partial(body: Body) -> Any:
    function: Any = functools.partial(_asynchronous(body))
    function.__doc__ = "Act."
    return function


def _twice(body: Body) -> Any:
    async def act(text: str) -> Any:
        """Act."""
        return _asynchronous(body)(text)

    return act


HIDDEN: dict[str, Callable[[Body], BaseTool]] = {
    "decorated": lambda body: _acting(_passed_on(_asynchronous(body))),
    "an object": lambda body: _acting(Asynchronous(body)),
    "a partial": lambda body: _acting(_partial(body)),
    "twice": lambda body: _acting(_twice(body)),
    "structured": lambda body: StructuredTool.from_function(_passed_on(_asynchronous(body))),
    "_run": lambda body: RunPassesOn(body=body),
}


def _acting(function: Any) -> BaseTool:
    return make_tool(function, args=Text, contract=Contract(), name="act")


@pytest.mark.parametrize("kind", HIDDEN)
async def test_a_result_that_is_to_be_awaited_is_awaited(kind: str) -> None:
    result, _ = await called(HIDDEN[kind](lambda text: f"did {text}"))
    assert result.content == "did x"
    error = ToolFailure("no")
    result, _ = await called(HIDDEN[kind](raises(error)))
    assert result is error
    result, _ = await called(HIDDEN[kind](raises(KeyError("lost"))))
    assert isinstance(result, OutcomeUnknown)
    assert "KeyError" in str(result)


def _generator(text: str) -> Iterator[str]:
    yield text


async def _async_generator(text: str) -> AsyncIterator[str]:
    yield text


UNFINISHED: dict[str, Callable[[str], Any]] = {
    "a generator": _generator,
    "an async generator": _async_generator,
    "a map": lambda text: map(str, text),
    "a future": lambda text: Future(),
    "a function": lambda text: lambda: text,
    "coroutines": lambda text: [_asynchronous(str)(text), _asynchronous(str)(text)],
}


@pytest.mark.parametrize("kind", ["an object", "a partial"])
def test_the_types_of_a_body_without_annotations_can_be_asked_for(kind: str) -> None:
    """As LangGraph does when the agent is built."""
    tool: Any = guarded(HIDDEN[kind](str))
    typing.get_type_hints(tool.coroutine)


@pytest.mark.parametrize("kind", UNFINISHED)
@pytest.mark.parametrize("wrap", [lambda f: f, _twice], ids=["sync", "async"])
async def test_what_has_yet_to_be_run_is_no_result(kind: str, wrap: Callable[[Any], Any]) -> None:
    result, started = await called(_acting(_passed_on(wrap(UNFINISHED[kind]))))
    assert isinstance(result, OutcomeUnknown)
    assert started.entered


def test_without_an_event_loop_a_result_to_be_awaited_is_none() -> None:
    with pytest.raises(OutcomeUnknown, match="coroutine"):
        guarded(_acting(_passed_on(_asynchronous(str)))).invoke({"text": "x"})
