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

from langchain_core.tools import BaseTool, StructuredTool

from tools.contract import ContractTool, OutcomeUnknown, ToolFailure


class Entry:
    """Whether the body of the running call was entered."""

    entered = False


entry: ContextVar[Entry | None] = ContextVar("entry", default=None)
"""Set around a call by the execution middleware."""


def guarded(tool: BaseTool) -> BaseTool:
    """A copy of a tool whose body is guarded; schema, contract and name are the tool's own."""
    if type(tool) in (StructuredTool, ContractTool):
        assert isinstance(tool, StructuredTool)
        update = {
            "func": tool.func and _sync(tool.func),
            "coroutine": tool.coroutine and _async(tool.coroutine),
            "handle_tool_error": False,
            "handle_validation_error": False,
        }
        return tool.model_copy(update=update)
    return _guarded_subclass(tool)


def _guarded_subclass(tool: BaseTool) -> BaseTool:
    """For tools that bring methods of their own: each that is not the library's is a body."""
    kind = type(tool)
    bodies: dict[str, Any] = {}
    for name, wrap in _METHODS.items():
        method = getattr(kind, name)
        if method.__module__.split(".")[0] != "langchain_core":
            bodies[name] = wrap(method)
    subclass = type(kind.__name__, (kind,), {"__module__": kind.__module__, **bodies})
    copy = tool.model_copy(update={"handle_tool_error": False, "handle_validation_error": False})
    object.__setattr__(copy, "__class__", subclass)
    return copy


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
