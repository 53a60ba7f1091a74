"""Calling what a builder wrote: however it ends, it ends alone.

``sys.exit()`` in a contract's function would else end the program, with a code that may read as
"done", and would do so again whenever the session is carried on.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


class EndedOddly(Exception):
    """A function ended in what is no ordinary exception; the text names that."""


def contained(function: Callable[..., T], *args: Any) -> T:
    """What a function returns; what it raises instead is an ordinary exception.

    Raises:
        Exception: The function's own, or ``EndedOddly``.
        KeyboardInterrupt: A person's, who wants the program to end.
        CancelledError: The running task is being cancelled.
    """
    try:
        return function(*args)
    except BaseException as error:
        if _is_ordinary(error) or _is_meant_for_the_program(error):
            raise
        raise EndedOddly(_in_words(error)) from error


SECONDS = 2.0
"""For how long a function may think that is asked about nothing but its arguments."""

_hanging: dict[int, Callable[..., Any]] = {}
"""Functions that gave no answer in time and still run, by identity."""


def at_once(function: Callable[..., T], *args: Any, written: Callable[..., Any] | None = None) -> T:
    """What a function of its arguments alone returns; raises as ``contained`` does.

    Whoever asks waits for it, so it gets a thread of its own, and little time. While one hangs it
    is not asked again: its answers are wanted many times in a turn. That it hung is logged, since
    whoever asks goes on without it.

    Args:
        written: The builder's function that this one is made around, where it is not that itself.

    Raises:
        TimeoutError: It gave no answer in time. It goes on alone, and its answer is lost.
    """
    asked = written or function
    if id(asked) in _hanging:
        raise TimeoutError(f"{name_of(asked)} still has not answered an earlier call")
    outcome: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            outcome.set_result(context.run(contained, function, *args))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name=f"contract {name_of(asked)}", daemon=True).start()
    if wait([outcome], SECONDS).done:
        return outcome.result()
    _hanging[id(asked)] = asked
    outcome.add_done_callback(lambda _: _hanging.pop(id(asked), None))
    why = no_answer(asked, SECONDS)
    logging.getLogger(__name__).warning("%s", why)
    raise TimeoutError(why)


def no_answer(function: Callable[..., Any], seconds: float) -> str:
    """What is said of a function that hangs."""
    return f"{name_of(function)} gave no answer within {seconds:g} seconds"


def name_of(function: Callable[..., Any]) -> str:
    """A function as its builder finds it: its name, and where it stands."""
    while isinstance(function, partial):
        function = function.func
    own = inspect.unwrap(function)
    code = getattr(own, "__code__", None)
    if code is None:
        return f"the function {getattr(own, '__name__', type(own).__name__)}"
    name = own.__qualname__.rpartition("<locals>.")[2]
    return f"the function {name} ({Path(code.co_filename).name}, line {code.co_firstlineno})"


async def contained_answer(answer: Awaitable[T]) -> T:
    """What an async function returns; raises as ``contained`` does."""
    try:
        return await answer
    except GeneratorExit:  # it is being closed
        raise
    except BaseException as error:
        if _is_ordinary(error) or _is_meant_for_the_program(error):
            raise
        raise EndedOddly(_in_words(error)) from error


async def answered(result: Any) -> Any:
    """What a function really answers: an awaitable that it returned is awaited, however deep.

    So is an async function that a decorator hides, or a method that only passes one on.

    Raises:
        TypeError: It answers something that has yet to be run or awaited, so that nobody knows
            what it did; or is about to do.
        Exception: Whatever an awaitable ends in.
    """
    while inspect.isawaitable(result):
        result = await result
    check_ended(result)
    return result


def check_ended(result: Any) -> None:
    """Whether an answer is one, and no promise of work: on its own, or within a list.

    Raises:
        TypeError: It is a coroutine, a future, a generator, another iterator or a function.
    """
    several = isinstance(result, list | tuple | set | frozenset)
    unfinished = [item for item in (result if several else ()) if _is_promise(item)]
    if _is_promise(result) or callable(result):
        unfinished.append(result)
    for promise in unfinished:
        if inspect.iscoroutine(promise):
            promise.close()
    if unfinished:
        kind = type(unfinished[0]).__name__
        raise TypeError(f"the tool returned a {kind}, whose work may be yet to come")


def _is_promise(value: Any) -> bool:
    return inspect.isawaitable(value) or isinstance(value, Future | Iterator | AsyncIterator)


def _is_ordinary(error: BaseException) -> bool:
    """Whether ``except Exception`` sees it, and a future can hold it."""
    return isinstance(error, Exception) and not isinstance(error, StopIteration)


def _is_meant_for_the_program(error: BaseException) -> bool:
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is threading.main_thread()
    return isinstance(error, asyncio.CancelledError) and _is_being_cancelled()


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop in this thread
        return False
    return task is not None and task.cancelling() > 0


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
