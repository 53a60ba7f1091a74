"""What a tool is: its function, its schema, what it promises beside that, the errors it may raise.

What a contract does not say is assumed at its worst: a tool without one changes the world in
an unknown way, its results are untrusted and private, and repeating it is not safe.

Nothing here needs LangChain, which takes half a second to import. ``tools.langchain_tools`` makes
a LangChain tool of a ``PlainTool``; an MCP server calls it as it is.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from tools.calling import answered, at_once

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from tools.langchain_tools import ContractTool

Args = Mapping[str, Any]
Effects = frozenset[str]
UNKNOWN_EFFECTS: Effects = frozenset({"write:unknown"})
_FAMILY = re.compile(r"[a-z_]+:[^\s\[\]]+")


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
class CallInfo:
    """What the harness tells a running tool, and its contract, about its call.

    Args:
        session: Id of the session.
        call_id: The model's id of the call.
        attempt: From 1; more after a write that did not happen, or was sent again.
        idempotency_key: The same for every attempt of a call.
        before: Of a write, ``Preview.before`` right before it was entered; empty without one.
    """

    session: str = ""
    call_id: str = ""
    attempt: int = 1
    idempotency_key: str | None = None
    before: str = ""


@dataclass(frozen=True)
class Call:
    """A call that a contract names: a read that shows a record, or a write that undoes one."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class Evidence:
    """What one tool returned in this session: the harness let it run and recorded its result.

    Args:
        tool: The tool's name.
        args: Its arguments as they ran.
        result: The result; a JSON text as its value.
        trusted: Whether its tool says that no stranger wrote it.
    """

    tool: str
    args: Args
    result: Any
    trusted: bool = False


@dataclass(frozen=True)
class Unmet:
    """Why a precondition does not hold on the evidence there is.

    Args:
        why: One sentence, such as ``"Order A1 was never read in this session."``
        read: The call that would bring the evidence.
    """

    why: str
    read: Call | None = None


@dataclass(frozen=True)
class Finding:
    """What the authoritative record says about a write.

    Args:
        happened: ``True``: the record shows it. ``False``: it did not happen and, unless the
            same key is sent again, will not happen any more. ``None``: the record cannot tell.
        summary: What was found, in a sentence for people and for the model.
        record: What was read, as plain JSON; kept as the evidence.
        transaction: The service's own id of the change.
        result: What the call would have returned, where the record holds that.
    """

    happened: bool | None
    summary: str
    record: Mapping[str, Any] = field(default_factory=dict)
    transaction: str | None = None
    result: str | None = None


@dataclass(frozen=True)
class Committed:
    """A write that happened, as its undo sees it.

    Args:
        args: Its arguments as they ran.
        result: What it returned; a JSON text as its value.
        before: ``Preview.before`` right before it was entered; empty without a preview.
    """

    args: Args
    result: Any
    before: str = ""


@dataclass(frozen=True)
class Undo:
    """How a committed call is compensated.

    Args:
        text: In words, shown before the call is approved.
        call: The compensating call; ``None``, or from a write that cannot be undone (any more):
            it has to be done by hand.
    """

    text: str
    call: Callable[[Committed], Call | None] | None = None


AnswerCheck = Callable[
    [str, Sequence[str], Sequence[Evidence]], Sequence[str] | Awaitable[Sequence[str]]
]
"""From an answer, the user's own words and the evidence to what of the answer has no support."""


@dataclass(frozen=True)
class Contract:
    """What a tool says about itself beyond its schema (see ``docs/architecture.md``).

    Args:
        effects: What a call may do (``read:orders``, ``write:files``, ``spend:usd`` …), or a
            function from the arguments to that.
        effect_families: What such a function can say, as patterns in which ``*`` and ``?`` stand
            for anything (``{"write:orders", "spend:refund-???"}``): every call has an effect of
            each, and no other. Of a call of which it says something else the effects count as
            unknown, beside all that is said.
        open_world: Results are content written by strangers: untrusted.
        private: Results are private data.
        idempotency: ``natural`` when repeating gives the same state, ``key`` when the service
            honours an idempotency key (the harness passes one), else ``none``.
        key_seconds: For how long the service remembers a key; after that a call whose outcome
            is unknown is not sent again.
        precondition: From the arguments and this session's evidence, oldest first, to why the
            call must not be proposed yet; ``None``: it holds. Words of the model are no evidence.
        postcondition: From the arguments, the call and its result to what the record says after
            the write. Only ``happened=True`` makes it committed.
        reconcile: From the arguments and the call to what the record says of a write whose
            outcome is unknown.
        check: From the arguments to the read that shows a person or the model whether the call
            happened.
        conflict_key: From the arguments to a key; writes of one key never overlap in a
            process.
        preview: From the arguments to what would change; it is made again right before the call
            runs, and another than the approved one is asked anew. So no clocks or fresh ids in it.
        always: From the arguments to the scope that an "always" answer covers; without it
            "always" is not offered.
        undo: How a committed call is compensated; ``None``: it cannot be undone.
        answers: From the answer of a turn in which the tool was called, what the user said in
            this session and the evidence to what of the answer has no support: a few words each,
            as they stand in it. Such an answer goes back to the model.
        version: Kept with each effect.
        timeout: Seconds for one call; ``None`` means the setting's default.
    """

    effects: Effects | Callable[[Args], Effects] = UNKNOWN_EFFECTS
    effect_families: Effects | None = None
    open_world: bool = True
    private: bool = True
    idempotency: Literal["none", "natural", "key"] = "none"
    key_seconds: float | None = None
    precondition: Callable[[Args, Sequence[Evidence]], Unmet | None] | None = None
    postcondition: Callable[[Args, CallInfo, Any], Finding | Awaitable[Finding]] | None = None
    reconcile: Callable[[Args, CallInfo], Finding | Awaitable[Finding]] | None = None
    check: Callable[[Args], Call | None] | None = None
    conflict_key: Callable[[Args], str | None] | None = None
    preview: Callable[[Args], Preview | Awaitable[Preview]] | None = None
    always: Callable[[Args], Scope | None] | None = None
    undo: Undo | None = None
    answers: AnswerCheck | None = None
    version: str = "0"
    timeout: float | None = None

    def effects_of(self, args: Args) -> Effects:
        """The effects of one call; unknown ones where a function does not give a set of texts."""
        declared, families = self.effects, self.effect_families
        if not callable(declared):
            return declared
        try:
            said = at_once(lambda: _as_effects(declared(deepcopy(args))), written=declared)
        except Exception:
            return UNKNOWN_EFFECTS | (families or frozenset())
        return said if families is None else _held_to(families, said)

    @property
    def reach(self) -> Effects | None:
        """What its calls touch, as far as that is known before their arguments are: effects, or
        families of them; ``None``: nothing is."""
        return self.effect_families if callable(self.effects) else self.effects

    def conflicts_on(self, args: Args) -> str:
        """The key of a call; without one, or when the function fails, the one all others share."""
        try:
            key = at_once(self.conflict_key, deepcopy(args)) if self.conflict_key else None
        except Exception:
            key = None
        return key if isinstance(key, str) else ""

    def __post_init__(self) -> None:
        """Refuse at definition what would otherwise fail in the middle of a call.

        Raises:
            TypeError: A field of the wrong type.
            ValueError: A time that is no positive number of seconds, or a family that is no
                pattern of effects of one kind.
        """
        if not callable(self.effects):
            object.__setattr__(self, "effects", _as_effects(self.effects))
        if self.effect_families is not None:
            if not callable(self.effects):
                raise TypeError("effect_families: only where effects is a function")
            object.__setattr__(self, "effect_families", _as_families(self.effect_families))
        if not isinstance(self.version, str):
            raise TypeError("version: a text")
        if not (self.undo is None or isinstance(self.undo, Undo)):
            raise TypeError("undo: an Undo, or None")
        for name in ("timeout", "key_seconds"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds < float("inf"):
                raise ValueError(f"{name}: a positive number of seconds")


def _as_effects(said: Any) -> Effects:
    """Raises ``TypeError`` for what is no set of texts; one text would be a set of letters."""
    effects = frozenset([None] if isinstance(said, str) else said)
    if not all(isinstance(effect, str) for effect in effects):
        raise TypeError("effects: a set of texts such as write:orders, or a function")
    return effects


def _as_families(said: Any) -> Effects:
    families = _as_effects(said)
    if not families or not all(_FAMILY.fullmatch(family) for family in families):
        raise ValueError(
            "effect_families: a kind and what it concerns, in which * and ? stand for anything, "
            "such as spend:refund-*"
        )
    return families


def _held_to(families: Effects, said: Effects) -> Effects:
    """What a function said of a call, and what is wrong with that: a family that has no effect in
    it, and that the effects are not known when there is one outside of all families."""
    missing = {f for f in families if not any(fnmatchcase(effect, f) for effect in said)}
    strays = any(not any(fnmatchcase(effect, f) for f in families) for effect in said)
    return said | missing | UNKNOWN_EFFECTS if missing or strays else said


WORST = Contract()


def is_read(effects: Effects) -> bool:
    """Whether a call with these effects only reads (``read:*`` or ``network:*``)."""
    return bool(effects) and all(e.startswith(("read:", "network:")) for e in effects)


OUTSIDE = CallInfo()
"""What a tool sees that was called without the harness."""

current_call: ContextVar[CallInfo] = ContextVar("current_call", default=OUTSIDE)
"""Set by the harness around a call; a tool with ``idempotency="key"`` reads its key here."""


@dataclass(frozen=True)
class PlainTool:
    """A tool as it is, whoever calls it; its description is the function's docstring.

    Args:
        function: Sync or async; its parameters are the fields of ``args``.
        args: The argument model. It should forbid extra fields, so that the schema says
            ``additionalProperties: false``.
        result: The model whose JSON the function returns; ``None``: it returns text.
        name: Empty: the function's.
    """

    function: Callable[..., Any]
    args: type[BaseModel]
    contract: Contract
    result: type[BaseModel] | None = None
    name: str = ""

    def __post_init__(self) -> None:
        """Take the function's name when there is no other."""
        if not self.name:
            object.__setattr__(self, "name", self.function.__name__)

    @property
    def description(self) -> str:
        """What the model reads."""
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def result_schema(self) -> dict[str, Any] | None:
        """The JSON Schema of a result that is a JSON object; ``None``: it is text."""
        return self.result.model_json_schema() if self.result else None

    async def call(self, arguments: Args) -> str:
        """Call it once; a sync function runs in a thread, with ``current_call`` as it is here.

        Raises:
            pydantic.ValidationError: The arguments do not fit; nothing was called.
            TypeError: What it returned has yet to be run: whether it did anything is unknown.
            Exception: Whatever the function raises.
        """
        valid = self.args.model_validate(arguments)
        values = {name: getattr(valid, name) for name in self.args.model_fields}
        if inspect.iscoroutinefunction(self.function):
            result = await self.function(**values)
        else:
            result = await asyncio.to_thread(self.function, **values)
        text: str = await answered(result)
        return text


def make_tool(
    function: Callable[..., Any],
    *,
    args: type[BaseModel],
    contract: Contract,
    result: type[BaseModel] | None = None,
    name: str = "",
) -> ContractTool:
    """A LangChain tool of a function and what ``PlainTool`` wants to know beside it.

    Raises:
        ValueError: A parameter that LangChain would fill in itself.
    """
    from tools.langchain_tools import langchain_tool

    return langchain_tool(PlainTool(function, args, contract, result, name))


RESERVED = frozenset({"config", "run_manager", "callbacks"})
"""Names that LangChain keeps for itself in a function's tool: it would pass its own value."""


def contract_of(tool: BaseTool) -> Contract:
    """The tool's contract, or the worst case when it has none."""
    contract = getattr(tool, "contract", None)
    return contract if isinstance(contract, Contract) else WORST
