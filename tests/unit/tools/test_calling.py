"""However a builder's function ends, it ends alone: not the program, and not the running turn."""

from __future__ import annotations

import asyncio
import functools
import re
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


def test_a_function_that_never_answers_is_not_waited_for_and_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    goes_on, entered = threading.Event(), list[int]()

    def thinks(n: int) -> int:
        entered.append(n)
        if n == 1:
            goes_on.wait()
        return n

    def asked(n: int) -> int:
        return at_once(lambda: thinks(n), written=thinks)

    monkeypatch.setattr(calling, "SECONDS", 0.05)
    named = r"the function thinks \(test_calling.py, line [0-9]+\)"
    with pytest.raises(TimeoutError, match=f"{named} gave no answer within 0.05 seconds"):
        asked(1)
    assert re.search(f"{named} gave no answer", caplog.text)
    monkeypatch.setattr(calling, "SECONDS", 30)
    with pytest.raises(TimeoutError, match=f"{named} still has not answered an earlier call"):
        asked(2)
    assert entered == [1]
    assert at_once(divmod, 7, 2) == (3, 1)

    (hanging,) = [one for one in threading.enumerate() if "thinks" in one.name]
    goes_on.set()
    hanging.join(30)
    assert asked(2) == 2


def test_its_own_time_out_is_no_hang() -> None:
    for _ in "12":
        with pytest.raises(TimeoutError, match="the disk is slow"):
            at_once(raises, TimeoutError("the disk is slow"))


LINE = raises_later.__code__.co_firstlineno


class Thinker:
    def __call__(self) -> None:
        """Do nothing."""


@functools.wraps(raises_later)
async def decorated(error: BaseException) -> Any:
    return await raises_later(error)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (raises, "the function raises (test_calling.py, line "),
        (functools.partial(functools.partial(raises, 1), 2), "the function raises (test_calling"),
        (decorated, f"the function raises_later (test_calling.py, line {LINE})"),
        (lambda: 1, "the function <lambda> (test_calling.py, line"),
        (Thinker().__call__, "the function Thinker.__call__ (test_calling.py, line"),
        (Thinker(), "the function Thinker"),
        (len, "the function len"),
    ],
    ids=["plain", "partial", "decorated", "lambda", "method", "object", "built in"],
)
def test_a_function_is_named_as_its_builder_finds_it(function: Any, name: str) -> None:
    assert calling.name_of(function).startswith(name)


def test_it_sees_what_its_caller_sees() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    variable.set("here")
    assert at_once(variable.get) == "here"
