"""However a builder's function ends, it ends alone: not the program, and not the running turn."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Any

import pytest

from agent.threads import in_thread
from tools import calling
from tools.calling import EndedOddly, at_once, contained, contained_answer

ODD = {
    "exit": SystemExit(0),
    "exit with words": SystemExit("no licence"),
    "a group": BaseExceptionGroup("several", [SystemExit(1)]),
    "a cancellation of its own": asyncio.CancelledError(),
    "the end of an iterator": StopIteration(),
}


def raises(error: BaseException) -> Any:
    raise error


async def raises_later(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize("error", ODD.values(), ids=ODD)
async def test_what_would_end_more_than_the_function_is_an_ordinary_exception(
    error: BaseException,
) -> None:
    for called in (contained, at_once):
        with pytest.raises(EndedOddly, match=type(error).__name__) as seen:
            called(raises, error)
        assert seen.value.__cause__ is error
    with pytest.raises(EndedOddly, match=type(error).__name__):
        await asyncio.wait_for(in_thread(contained, raises, error), 30)


@pytest.mark.parametrize(
    "error", [error for error in ODD.values() if not isinstance(error, StopIteration)], ids=str
)
async def test_nor_does_an_async_one(error: BaseException) -> None:
    with pytest.raises(EndedOddly, match=type(error).__name__):
        await contained_answer(raises_later(error))


async def test_what_it_returns_and_raises_in_the_ordinary_way_is_its_own() -> None:
    assert contained(divmod, 7, 2) == (3, 1)
    assert await contained_answer(asyncio.sleep(0, "later")) == "later"
    with pytest.raises(ZeroDivisionError):
        contained(divmod, 1, 0)


async def test_a_person_who_wants_the_program_to_end_is_heard() -> None:
    with pytest.raises(KeyboardInterrupt):
        contained(raises, KeyboardInterrupt())
    with pytest.raises(EndedOddly, match="KeyboardInterrupt"):  # no person interrupts a thread
        await in_thread(contained, raises, KeyboardInterrupt())


async def test_a_turn_that_is_stopped_stops() -> None:
    entered = asyncio.Event()

    async def hangs() -> None:
        entered.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(contained_answer(hangs()))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


def test_a_function_that_never_answers_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calling, "SECONDS", 0.05)
    with pytest.raises(TimeoutError):
        at_once(threading.Event().wait)
    assert at_once(divmod, 7, 2) == (3, 1)


def test_it_sees_what_its_caller_sees() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("here")
    assert at_once(variable.get) == "here"
