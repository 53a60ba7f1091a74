"""Tools as the harness runs them: nothing that leaves a body is ambiguous.

A body may end in a result, in ``ToolFailure`` (nothing changed) or in ``OutcomeUnknown``; every
other exception becomes ``OutcomeUnknown`` before it leaves, and it is known whether the body was
entered at all. Without that, a validation error raised after the effect would come back as "fix
your arguments", and the model would try again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from langchain_core.tools import BaseTool

from tools.contract import OutcomeUnknown, ToolFailure


class Entry:
    """Whether the body of the running call was entered."""

    entered = False


entry: ContextVar[Entry | None] = ContextVar("entry", default=None)
"""Set around a call by the execution middleware."""


def guarded(tool: BaseTool) -> BaseTool:
    """A copy of a tool whose body is guarded; schema, contract and name are the tool's own.

    A body is a function the tool was made from, and each method that is not the library's own.
    """
    update: dict[str, Any] = {"handle_tool_error": False, "handle_validation_error": False}
    for name, wrap in _FUNCTIONS.items():
        if name in type(tool).model_fields and callable(body := getattr(tool, name)):
            update[name] = wrap(body)
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
    return found


def _sync(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    def run(*args: Any, **kwargs: Any) -> Any:
        _enter()
        try:
            return body(*args, **kwargs)
        except (ToolFailure, OutcomeUnknown):
            raise
        except Exception as error:
            raise OutcomeUnknown(_in_words(error)) from error

    return run


def _async(body: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(body)
    async def run(*args: Any, **kwargs: Any) -> Any:
        _enter()
        try:
            return await body(*args, **kwargs)
        except (ToolFailure, OutcomeUnknown):
            raise
        except Exception as error:
            raise OutcomeUnknown(_in_words(error)) from error

    return run


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
    if (current := entry.get()) is not None:
        current.entered = True


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
