"""Contracts refuse at definition what would otherwise fail in the middle of a call."""

from __future__ import annotations

import threading
from typing import Annotated, Any

import pytest
from langchain_core.tools import InjectedToolArg
from pydantic import BaseModel, ConfigDict, ValidationError

from tools.contract import (
    UNKNOWN_EFFECTS,
    WORST,
    CallInfo,
    Contract,
    PlainTool,
    contract_of,
    current_call,
    is_read,
    make_tool,
)


@pytest.mark.parametrize(
    "fields",
    [
        {"effects": "write:orders"},
        {"effects": frozenset({1})},
        {"version": None},
        {"undo": 5},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"effect_families": frozenset({"write:unknown"})},
        {"effects": lambda args: frozenset(), "effect_families": frozenset()},
        {"effects": lambda args: frozenset(), "effect_families": frozenset({"*"})},
        {"effects": lambda args: frozenset(), "effect_families": frozenset({"spend:[ab]"})},
        {"effects": lambda args: frozenset(), "effect_families": "spend:*"},
    ],
)
def test_a_field_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        Contract(**fields)


@pytest.mark.parametrize(
    "wrong", [lambda args: 1 / 0, lambda args: 5, lambda args: {1}, lambda args: "read:x"]
)
def test_effects_that_cannot_be_told_are_unknown_and_so_a_write(wrong: Any) -> None:
    effects = Contract(effects=wrong).effects_of({})

    assert effects == UNKNOWN_EFFECTS
    assert not is_read(effects)


FAMILIES = frozenset({"write:bank", "spend:???"})


@pytest.mark.parametrize(
    ("said", "counts_as"),
    [
        ({"write:bank", "spend:eur"}, {"write:bank", "spend:eur"}),
        ({"write:bank", "spend:eur", "spend:usd"}, {"write:bank", "spend:eur", "spend:usd"}),
        ({"spend:eur"}, {"spend:eur", "write:bank"} | UNKNOWN_EFFECTS),
        ({"write:bank"}, {"write:bank", "spend:???"} | UNKNOWN_EFFECTS),
        ({"read:bank"}, {"read:bank"} | FAMILIES | UNKNOWN_EFFECTS),
        ({"write:bank", "spend:eur", "disclose:email"},
         {"write:bank", "spend:eur", "disclose:email"} | UNKNOWN_EFFECTS),
        (set(), FAMILIES | UNKNOWN_EFFECTS),
        ({5}, FAMILIES | UNKNOWN_EFFECTS),
    ],
)  # fmt: skip
def test_what_a_contract_claims_of_its_effects_is_held_against_each_call(
    said: set[Any], counts_as: set[str]
) -> None:
    contract = Contract(effects=lambda args: said, effect_families=FAMILIES)  # type: ignore[arg-type,return-value]

    assert contract.effects_of({}) == counts_as
    assert contract.reach == FAMILIES


def test_what_is_not_said_is_assumed_at_its_worst() -> None:
    assert contract_of(object()) is WORST  # type: ignore[arg-type]
    assert (WORST.open_world, WORST.private, WORST.idempotency) == (True, True, "none")
    assert not is_read(WORST.effects_of({}))
    assert not is_read(frozenset())


@pytest.mark.parametrize("key", [lambda args: 1 / 0, lambda args: 5, lambda args: None, None])
def test_a_call_without_a_usable_conflict_key_shares_the_common_one(key: Any) -> None:
    assert Contract(conflict_key=key).conflicts_on({}) == ""


def test_a_contracts_functions_cannot_change_the_arguments_they_are_shown() -> None:
    def tamper(args: Any) -> Any:
        args["ids"].append("X")
        args["n"] = 13
        return frozenset({"write:x"})

    args = {"n": 1, "ids": ["A"]}
    Contract(effects=tamper).effects_of(args)
    Contract(conflict_key=tamper).conflicts_on(args)

    assert args == {"n": 1, "ids": ["A"]}


class Kept(BaseModel):
    config: str


class Injected(BaseModel):
    user: Annotated[str, InjectedToolArg]


@pytest.mark.parametrize("args", [Kept, Injected])
def test_parameters_that_would_not_be_the_models_are_refused(args: type[BaseModel]) -> None:
    def act(**_: Any) -> str:
        """Act."""
        return ""

    with pytest.raises(ValueError, match=r"config|user"):
        make_tool(act, args=args, contract=WORST)


# With LangChain and without ---------------------------------------------------------------------


class Pair(BaseModel):
    model_config = ConfigDict(extra="forbid")

    first: int
    second: int = 2


def blocking(first: int, second: int) -> str:
    """Say what came, from a thread."""
    return f"{first} {second} {current_call.get().idempotency_key} {threading.get_ident()}"


async def waiting(first: int, second: int) -> str:
    """Say what came, from the loop."""
    return f"{first} {second} {current_call.get().idempotency_key} {threading.get_ident()}"


@pytest.mark.parametrize("function", [blocking, waiting])
async def test_a_plain_tool_does_what_its_langchain_tool_does(function: Any) -> None:
    plain = PlainTool(function, args=Pair, contract=WORST, result=Pair)
    tool = make_tool(function, args=Pair, contract=WORST, result=Pair)
    assert (plain.name, plain.description) == (tool.name, tool.description)
    assert (plain.args, plain.result_schema) == (tool.args_schema, tool.result_schema)
    assert contract_of(tool) is plain.contract
    token = current_call.set(CallInfo(idempotency_key="k"))
    for arguments, values in (({"first": "1"}, "1 2 k"), ({"first": 1, "second": 5}, "1 5 k")):
        for said in (await plain.call(arguments), await tool.ainvoke(arguments)):
            told, _, thread = said.rpartition(" ")
            assert told == values
            assert (int(thread) == threading.get_ident()) == (function is waiting)
    current_call.reset(token)
    for arguments in ({}, {"first": "x"}, {"first": 1, "third": 3}):
        for call in (plain.call, tool.ainvoke):
            with pytest.raises(ValidationError):
                await call(arguments)


async def test_a_plain_tool_awaits_what_a_decorator_hides_and_refuses_what_is_no_result() -> None:
    def hidden(first: int, second: int) -> Any:
        return waiting(first, second)

    def lazy(first: int, second: int) -> Any:
        return map(str, (first, second))

    assert (await PlainTool(hidden, args=Pair, contract=WORST).call({"first": 1})).startswith("1 2")
    with pytest.raises(TypeError, match="map"):
        await PlainTool(lazy, args=Pair, contract=WORST).call({"first": 1})
