"""What a tool promises beside its schema, and the errors it may raise.

What a contract does not say is assumed at its worst: a tool without one changes the world in
an unknown way, its results are untrusted and private, and repeating it is not safe.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from langchain_core.tools.base import ArgsSchema
from pydantic import BaseModel

Args = Mapping[str, Any]
Effects = frozenset[str]
UNKNOWN_EFFECTS: Effects = frozenset({"write:unknown"})


class ToolFailure(Exception):
    """It is known that nothing changed. The text says why and what to do next."""


class TransientFailure(ToolFailure):
    """Nothing changed, and the same call may work when tried again."""


class OutcomeUnknown(Exception):
    """The change may have happened; nobody may claim either."""


@dataclass(frozen=True)
class Scope:
    """What an "always for this session" answer would cover.

    Args:
        text: The scope in words, shown to the person before they agree.
        args: For each argument named here, what its value must be: ``{"equals": value}``, or
            ``{"under": folder}`` for a relative path inside a folder. Arguments that are not
            named may have any value.
    """

    text: str
    args: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Preview:
    """What a call would change, without changing it.

    Args:
        summary: One line, such as ``"order A1: pending → cancelled"``.
        before: The record or text as it is now; empty when there is none.
        after: The same after the call.
        diff: A unified diff where before and after are texts; else empty.
    """

    summary: str
    before: str = ""
    after: str = ""
    diff: str = ""


@dataclass(frozen=True)
class Contract:
    """What a tool says about itself beyond its schema (see ``docs/architecture.md``).

    Args:
        effects: What a call may do (``read:orders``, ``write:files``, ``spend:usd`` …), or a
            function from the arguments to that.
        open_world: Results are content written by strangers: untrusted.
        private: Results are private data.
        idempotency: ``natural`` when repeating gives the same state, ``key`` when the service
            honours an idempotency key (the harness passes one), else ``none``.
        conflict_key: From the arguments to a key; calls of one key never overlap.
        preview: From the arguments to what would change.
        always: From the arguments to the scope that an "always" answer covers; without it
            "always" is not offered.
        undo: How a committed call can be compensated, in words; ``None``: it cannot.
        version: Kept with each effect.
        timeout: Seconds for one call; ``None`` means the setting's default.
    """

    effects: Effects | Callable[[Args], Effects] = UNKNOWN_EFFECTS
    open_world: bool = True
    private: bool = True
    idempotency: Literal["none", "natural", "key"] = "none"
    conflict_key: Callable[[Args], str | None] | None = None
    preview: Callable[[Args], Preview | Awaitable[Preview]] | None = None
    always: Callable[[Args], Scope | None] | None = None
    undo: str | None = None
    version: str = "0"
    timeout: float | None = None

    def effects_of(self, args: Args) -> Effects:
        """The effects of one call; a function that fails counts as unknown effects."""
        if not callable(self.effects):
            return self.effects
        try:
            effects = frozenset(self.effects(deepcopy(args)))
        except Exception:
            return UNKNOWN_EFFECTS
        return effects if all(isinstance(effect, str) for effect in effects) else UNKNOWN_EFFECTS

    def conflicts_on(self, args: Args) -> str:
        """The key of a call; without one, or when the function fails, the one all others share."""
        try:
            key = self.conflict_key(deepcopy(args)) if self.conflict_key else None
        except Exception:
            key = None
        return key if isinstance(key, str) else ""

    def __post_init__(self) -> None:
        """Refuse at definition what would otherwise fail in the middle of a call.

        Raises:
            TypeError: A field of the wrong type.
            ValueError: A timeout that is no positive number of seconds.
        """
        if not callable(self.effects):
            if isinstance(self.effects, str) or not all(isinstance(e, str) for e in self.effects):
                raise TypeError("effects: a set of texts such as write:orders, or a function")
            object.__setattr__(self, "effects", frozenset(self.effects))
        if not isinstance(self.version, str):
            raise TypeError("version: a text")
        if not (self.undo is None or isinstance(self.undo, str)):
            raise TypeError("undo: a text, or None")
        if self.timeout is not None and not 0 < self.timeout < float("inf"):
            raise ValueError("timeout: a positive number of seconds")


WORST = Contract()


def is_read(effects: Effects) -> bool:
    """Whether a call with these effects only reads (``read:*`` or ``network:*``)."""
    return bool(effects) and all(e.startswith(("read:", "network:")) for e in effects)


@dataclass(frozen=True)
class CallInfo:
    """What the harness tells a running tool about its call."""

    session: str = ""
    call_id: str = ""
    attempt: int = 1
    idempotency_key: str | None = None


OUTSIDE = CallInfo()
"""What a tool sees that was called without the harness."""

current_call: ContextVar[CallInfo] = ContextVar("current_call", default=OUTSIDE)
"""Set by the harness around a call; a tool with ``idempotency="key"`` reads its key here."""


class ContractTool(StructuredTool):
    """A LangChain tool that carries its contract.

    ``result_schema`` is the JSON Schema of a result that is a JSON object; ``None``: it is text.
    """

    contract: Contract = WORST
    result_schema: dict[str, Any] | None = None

    @property
    def tool_call_schema(self) -> ArgsSchema:
        """The argument model itself, so that ``additionalProperties: false`` is not lost."""
        assert self.args_schema is not None
        return self.args_schema


def make_tool(
    function: Callable[..., Any],
    *,
    args: type[BaseModel],
    contract: Contract,
    result: type[BaseModel] | None = None,
    name: str | None = None,
) -> ContractTool:
    """Make a tool from a function (sync or async), its argument model and its contract.

    The description is the function's docstring. The model should forbid extra fields, so that
    the schema says ``additionalProperties: false``. ``result`` is the model whose JSON the
    function returns; ``None``: it returns text.
    """
    _check_parameters(args)
    is_async = inspect.iscoroutinefunction(function)
    return ContractTool(
        name=name or function.__name__,
        description=inspect.cleandoc(function.__doc__ or ""),
        args_schema=args,
        func=None if is_async else function,
        coroutine=function if is_async else None,
        contract=contract,
        result_schema=result.model_json_schema() if result else None,
    )


def _check_parameters(args: type[BaseModel]) -> None:
    for name, field in args.model_fields.items():
        if name in RESERVED:
            raise ValueError(f"{name}: LangChain keeps this name; call the parameter otherwise")
        if any(isinstance(m, InjectedToolArg) or m is InjectedToolArg for m in field.metadata):
            raise ValueError(f"{name}: an injected parameter is no argument of the model's")


RESERVED = frozenset({"config", "run_manager", "callbacks"})
"""Names that LangChain keeps for itself in a function's tool: it would pass its own value."""


def contract_of(tool: BaseTool) -> Contract:
    """The tool's contract, or the worst case when it has none."""
    contract = getattr(tool, "contract", None)
    return contract if isinstance(contract, Contract) else WORST
