"""The same call once more: which earlier write it would repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from langchain_core.tools import BaseTool
from pydantic import BaseModel, ValidationError

import prompts
from agent.evidence import check_text
from tools.contract import contract_of

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.records import EffectRecord


def held(
    store: Store, sessions: Iterable[str], tool: BaseTool, args: Mapping[str, Any]
) -> str | None:
    """Why a call is not run that a write in doubt may have done already; in words for the model.

    Args:
        sessions: The session of the call, and those that it was forked from.
    """
    may_have = (effect for session in sessions for effect in store.ledger.open_writes(session))
    doubt = _first(may_have, tool, args)
    if doubt is None:
        return None
    return prompts.message("held", effect=doubt.id, check=check_text(contract_of(tool), args))


def committed_before(
    store: Store, sessions: Iterable[str], tool: BaseTool, args: Mapping[str, Any]
) -> EffectRecord | None:
    """The same call among the writes of these sessions that happened."""
    found = (
        effect
        for session in sessions
        for effect in store.ledger.list(session=session, state="committed", limit=None)
    )
    return _first(found, tool, args)


def same_arguments(tool: BaseTool, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a tool would do the same with both, however they are spelled.

    Defaults may be written out or not, a whole number with or without its point. Where that
    says too much, a call is held or asked about that need not be: the safe side.
    """
    return bool(_whole(tool, one) == _whole(tool, other))


def _first(
    effects: Iterable[EffectRecord], tool: BaseTool, args: Mapping[str, Any]
) -> EffectRecord | None:
    of_tool = (effect for effect in effects if effect.tool == tool.name)
    return next((effect for effect in of_tool if same_arguments(tool, effect.args, args)), None)


def _whole(tool: BaseTool, args: Mapping[str, Any]) -> Any:
    schema = tool.args_schema
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        with suppress(ValidationError):  # of a write that was begun under another schema
            args = schema.model_validate(dict(args)).model_dump(mode="json", by_alias=True)
    return _plain(args)


def _plain(value: Any) -> Any:
    match value:
        case bool():
            return str(value)  # True is no 1 here
        case float() if value.is_integer():
            return int(value)
        case list() | tuple():
            return [_plain(item) for item in value]
        case Mapping():
            return {key: _plain(item) for key, item in value.items() if item is not None}
    return value
