"""The tools there are, as a policy can be held against them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from tools.contract import Effects, contract_of

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


@dataclass(frozen=True)
class KnownTool:
    """A tool by what a policy can say of it.

    Args:
        effects: What a call may do; ``None``: it depends on the arguments.
        effects_of: The same of a call with these arguments.
        schema: Makes the JSON Schema of its arguments; asked for when a rule names one.
    """

    name: str
    effects: Effects | None
    effects_of: Callable[[Mapping[str, Any]], Effects] = field(repr=False)
    schema: Callable[[], Mapping[str, Any]] = field(repr=False, default=dict)
    version: str = "0"

    @classmethod
    def of(cls, tool: BaseTool) -> KnownTool:
        """As the tool's contract and its schema say."""
        contract = contract_of(tool)
        effects = None if callable(contract.effects) else contract.effects
        return cls(
            tool.name, effects, contract.effects_of, lambda: _schema_of(tool), contract.version
        )

    @cached_property
    def arguments(self) -> Mapping[str, Mapping[str, Any]] | None:
        """The schema of each argument by name; ``None`` where others may come too."""
        try:
            schema = self.schema()
        except Exception:  # a stranger's schema
            return None
        properties = schema.get("properties")
        if not isinstance(properties, dict) or schema.get("additionalProperties") not in (
            None,
            False,
        ):
            return None
        return {
            name: inner if isinstance(inner, dict) else {} for name, inner in properties.items()
        }


Catalogue = Mapping[str, KnownTool]
"""By name."""


def catalogue_of(tools: Iterable[BaseTool]) -> Catalogue:
    """The catalogue of tools."""
    return {tool.name: KnownTool.of(tool) for tool in tools}


def _schema_of(tool: BaseTool) -> Mapping[str, Any]:
    if isinstance(tool.args_schema, dict):
        return tool.args_schema
    shown = tool.tool_call_schema
    if isinstance(shown, dict):
        return shown
    assert issubclass(shown, BaseModel)
    return shown.model_json_schema()
