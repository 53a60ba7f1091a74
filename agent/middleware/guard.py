"""Tools as the harness runs them: nothing that leaves a body is ambiguous.

A body may end in a result, in ``ToolFailure`` (nothing changed) or in ``OutcomeUnknown``; every
other exception becomes ``OutcomeUnknown`` before it leaves, and it is known whether the body was
entered at all. Without that, a validation error raised after the effect would come back as "fix
your arguments", and the model would try again.

An awaitable that it returns is awaited before that; anything else that has yet to be run, such as
a generator, is no result.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool
from langgraph._internal._constants import CONFIG_KEY_SCRATCHPAD

from agent.threads import entry, in_thread
from tools.calling import answered, check_ended
from tools.contract import OutcomeUnknown, ToolFailure

Body = TypeVar("Body", bound=Callable[..., Any])


def guarded(tool: BaseTool) -> BaseTool:
    """A copy of a tool whose body is guarded; schema, contract and name are the tool's own.

    A body is a function the tool was made from, and each method that is not the library's own.
    """
    update: dict[str, Any] = {"handle_tool_error": False, "handle_validation_error": False}
    for name, wrap in _FUNCTIONS.items():
        if name in type(tool).model_fields and callable(body := getattr(tool, name)):
            update[name] = wrap(body)
    if (
        update.get("func")
        and not update.get("coroutine")
        and "coroutine" in type(tool).model_fields
    ):
        update["coroutine"] = _threaded(tool.func)  # type: ignore[attr-defined]
    copy = tool.model_copy(update=update)
    kind = type(tool)
    if methods := _methods_of_its_own(kind):
        subclass = type(kind.__name__, (kind,), {"__module__": kind.__module__, **methods})
        object.__setattr__(copy, "__class__", subclass)
    return copy


def _methods_of_its_own(kind: type[BaseTool]) -> dict[str, Any]:
    found = {}
    for name, wrap in _METHODS.items():
        method = getattr(kind, name)
        if method.__module__.split(".")[0] != "langchain_core":
            found[name] = wrap(method)
    if "_run" in found and "_arun" not in found:
        found["_arun"] = _threaded_method(kind._run)
    return found


def _named_as(body: Callable[..., Any]) -> Callable[[Body], Body]:
    """``functools.wraps``, also for a callable without annotations, such as a partial."""

    def name(run: Body) -> Body:
        functools.update_wrapper(run, body)
        run.__annotations__ = getattr(body, "__annotations__", {})
        return run

    return name


def _sync(body: Callable[..., Any]) -> Callable[..., Any]:
    @_named_as(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        _enter()
        with _in_this_thread():
            result = body(*args, **kwargs)
            check_ended(result)
            return result

    return run


def _async(body: Callable[..., Any]) -> Callable[..., Any]:
    @_named_as(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        _enter()
        with _in_the_loop():
            return await answered(body(*args, **kwargs))

    return run


def _threaded(body: Callable[..., Any]) -> Callable[..., Any]:
    """A sync body in a thread; what it returns to be awaited is awaited in the event loop."""

    def begin(*args: Any, **kwargs: Any) -> Any:
        _enter()
        with _in_this_thread():
            return body(*args, **kwargs)

    @_named_as(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        result = await in_thread(begin, *args, **kwargs)
        with _in_the_loop():
            return await answered(result)

    return run


def _threaded_method(body: Callable[..., Any]) -> Callable[..., Any]:
    threaded = _threaded(body)

    @_named_as(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        if (manager := kwargs.get("run_manager")) is not None:
            kwargs["run_manager"] = manager.get_sync()
        return await threaded(*args, **kwargs)

    return run


@contextmanager
def _in_this_thread() -> Iterator[None]:
    """Around a body: it ends in a result, or in one of the contract's two exceptions."""
    try:
        with _alone():
            yield
    except (ToolFailure, OutcomeUnknown):
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and _in_main_thread():
            raise  # a person's, who wants the program to end
        raise OutcomeUnknown(_in_words(error)) from error


@contextmanager
def _in_the_loop() -> Iterator[None]:
    """The same around what is awaited; a cancellation of ours passes."""
    try:
        with _alone():
            yield
    except (ToolFailure, OutcomeUnknown):
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # we stop it
        raise OutcomeUnknown("the tool cancelled itself.") from error
    except (GeneratorExit, KeyboardInterrupt):
        raise  # it is being closed, or the program is to end
    except BaseException as error:
        raise OutcomeUnknown(_in_words(error)) from error


@contextmanager
def _alone() -> Iterator[None]:
    """Without LangGraph's scratchpad: a body that interrupts would get the approval's answer."""
    config = var_child_runnable_config.get()
    if config is None:
        yield
        return
    configurable = {
        key: value
        for key, value in config.get("configurable", {}).items()
        if key != CONFIG_KEY_SCRATCHPAD
    }
    token = var_child_runnable_config.set({**config, "configurable": configurable})
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


_FUNCTIONS = {"func": _sync, "coroutine": _async}
_METHODS = {
    "_run": _sync,
    "_arun": _async,
    "run": _sync,
    "arun": _async,
    "invoke": _sync,
    "ainvoke": _async,
}


def _enter() -> None:
    current = entry.get()
    if current is not None and not current.enter():
        raise ToolFailure("its time was over before it began.")


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _in_words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
