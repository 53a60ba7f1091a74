"""Functions of others in threads of their own, which never keep the process from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class Entry:
    """Whether the body of the running call was entered."""

    def __init__(self) -> None:
        self.entered = False
        self._closed, self._lock = False, threading.Lock()

    def enter(self) -> bool:
        """Enter the body, unless it is too late for that; whether it may run."""
        with self._lock:
            self.entered = self.entered or not self._closed
            return self.entered

    def close(self) -> None:
        """What was not entered up to now never is: its outcome is about to be recorded."""
        with self._lock:
            self._closed = True


entry: ContextVar[Entry | None] = ContextVar("entry", default=None)
"""Set around a call by the execution middleware."""


def _settle(future: asyncio.Future[Any], settle: Callable[[Any], None], value: Any) -> None:
    if not future.done():
        settle(value)


async def in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Run a function in a thread of its own, which never keeps the process from ending.

    The event loop's own threads are waited for at exit, so one that hangs would hang the program.
    A function that outlives its caller goes on; its result is lost.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def deliver(settle: Callable[[Any], None], value: Any) -> None:
        with suppress(RuntimeError):  # the loop may be gone
            loop.call_soon_threadsafe(_settle, future, settle, value)

    def run() -> None:
        try:
            result = context.run(function, *args, **kwargs)
        except BaseException as error:
            deliver(future.set_exception, error)
        else:
            deliver(future.set_result, result)

    name = f"tool {getattr(function, '__name__', function)}"
    threading.Thread(target=run, name=name, daemon=True).start()
    return await future
