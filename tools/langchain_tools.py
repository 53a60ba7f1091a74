"""A plain tool as LangChain has it, with its contract."""

from __future__ import annotations

import inspect
from typing import Any

from langchain_core.tools import InjectedToolArg, StructuredTool
from langchain_core.tools.base import ArgsSchema
from pydantic import BaseModel

from tools.contract import RESERVED, WORST, Contract, PlainTool


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


def langchain_tool(plain: PlainTool) -> ContractTool:
    """The tool for an agent.

    Raises:
        ValueError: A parameter that LangChain would fill in itself.
    """
    _check_parameters(plain.args)
    is_async = inspect.iscoroutinefunction(plain.function)
    return ContractTool(
        name=plain.name,
        description=plain.description,
        args_schema=plain.args,
        func=None if is_async else plain.function,
        coroutine=plain.function if is_async else None,
        contract=plain.contract,
        result_schema=plain.result_schema,
    )


def _check_parameters(args: type[BaseModel]) -> None:
    for name, field in args.model_fields.items():
        if name in RESERVED:
            raise ValueError(f"{name}: LangChain keeps this name; call the parameter otherwise")
        if any(isinstance(m, InjectedToolArg) or m is InjectedToolArg for m in field.metadata):
            raise ValueError(f"{name}: an injected parameter is no argument of the model's")
