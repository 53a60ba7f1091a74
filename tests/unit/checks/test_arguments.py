"""``normalise``: one spelling of arguments, whatever schema the tool brings."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool, tool
from pydantic import BaseModel, ConfigDict, Field, create_model, field_validator

from agent.canonical import call_digest, canonical_json
from agent.checks.arguments import ArgumentsError, normalise
from tools.contract import Contract, make_tool


class Refund(BaseModel):
    model_config = ConfigDict(extra="forbid")

    order_id: str = Field(pattern=r"^[A-Z]\d+$")
    amount: Decimal = Field(gt=0)
    currency: Literal["EUR", "USD"] = "EUR"
    copies: int = 1
    note: str | None = None

    @field_validator("order_id")
    @classmethod
    def not_the_demo(cls, value: str) -> str:
        if value == "Z0":
            raise ValueError("Z0 is only for demonstrations")
        return value


def refund(**args: Any) -> str:
    """Refund."""
    return canonical_json({key: str(value) for key, value in args.items()})


REFUND = make_tool(refund, args=Refund, contract=Contract())


class Remote(BaseTool):
    """Like a tool that came over MCP: a body of its own behind a JSON schema."""

    name: str = "remote"
    description: str = "A tool that came over MCP."

    def _run(self, **args: Any) -> str:
        return canonical_json(args)


REMOTE = Remote(
    args_schema={
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "count": {"type": "integer"},
            "format": {"enum": ["short", "long"], "default": "short"},
            "config": {"type": "object"},
        },
        "required": ["order_id"],
    }
)


def problems(bound: Any, args: dict[str, Any]) -> str:
    with pytest.raises(ArgumentsError) as caught:
        normalise(bound, args)
    return "\n".join(caught.value.problems)


def test_defaults_are_filled_in_but_absent_nulls_stay_away() -> None:
    assert normalise(REFUND, {"order_id": "A1", "amount": "5"}).args == {
        "order_id": "A1",
        "amount": "5",
        "currency": "EUR",
        "copies": 1,
    }


def test_a_repair_is_noted_with_both_values() -> None:
    result = normalise(REFUND, {"order_id": "A1", "amount": "5", "copies": "7"})

    assert result.args["copies"] == 7
    assert result.notes == ("copies: '7' → 7",)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "order_id: missing, and it is required"),
        ({"order": "A1", "amount": 1}, "order: the tool has no such argument; did you mean"),
        ({"order_id": "A1", "amount": 1, "colour": "red"}, "colour: the tool has no such argument"),
        ({"order_id": "A1", "amount": 0}, "amount: Input should be greater than 0"),
        ({"order_id": "A1", "amount": 1, "currency": "BTC"}, "currency: Input should be 'EUR'"),
        ({"order_id": "Z0", "amount": 1}, "only for demonstrations"),
        ({"order_id": "A1", "amount": float("nan")}, "nan is no JSON number"),
        ({"order_id": "A1", "amount": 1, "copies": 2**63}, "beyond 64 bits"),
        ({"order_id": "A1", "amount": 1, "note": "\ud800"}, "half a surrogate pair"),
        ({"order_id": "A1", "amount": 1, "copies": "many"}, "got 'many'"),
    ],
)
def test_what_does_not_fit_is_said_with_the_name_and_the_value(
    args: dict[str, Any], said: str
) -> None:
    assert said in problems(REFUND, args)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({}, "missing 'order_id'"),
        ({"order_id": "A1", "count": "7"}, "count: should be integer, got '7'"),
        ({"order_id": "A1", "format": "huge"}, "format: 'huge' is not one of"),
        ({"order_id": "A1", "counts": 7}, "counts: the tool has no such argument; did you mean"),
    ],
)
def test_a_schema_that_came_over_mcp_is_enforced_in_full(args: dict[str, Any], said: str) -> None:
    assert said in problems(REMOTE, args)


class Login(BaseModel, extra="forbid", str_strip_whitespace=True):
    user: str
    password: str = Field(max_length=16)
    setup: dict[str, dict[str, int]] = {}
    pin: int = 0

    @field_validator("password")
    @classmethod
    def strong(cls, value: str) -> str:
        if value.isalnum():
            raise ValueError(f"{value!r} is too weak, {value[:9]}…")
        return value


LOGIN = make_tool(refund, args=Login, contract=Contract(), name="login")
SECRET = "hunter2hunter2"
REMOTE_LOGIN = Remote(
    args_schema={
        "type": "object",
        "properties": {
            "password": {"type": "string", "maxLength": 9, "enum": ["a"], "pattern": "^x"},
            "login": {"anyOf": [{"required": ["user"]}, {"type": "null"}]},
            "secrets": {"type": "array", "items": {"type": "integer"}},
        },
    }
)


@pytest.mark.parametrize(
    ("bound", "args", "said"),
    [
        (LOGIN, {"user": "u", "password": SECRET * 2}, "password: String should have at most 16"),
        (LOGIN, {"user": "u", "password": SECRET}, "password: Value error, '«masked»' is too weak"),
        (LOGIN, {"user": "u", "password": [SECRET]}, "password: Input should be a valid string"),
        (LOGIN, {"user": {"password": SECRET}, "password": "a-b"}, "got {'password': '«masked»'}"),
        (LOGIN, {"user": "u", "password": "a-b", "setup": {"token": SECRET}}, "setup.token: "),
        (LOGIN, {"user": "u", "password": "a-b", "pin": "48291x"}, "pin: Input should be"),
        (REMOTE_LOGIN, {"password": SECRET}, "password: the value is too long"),
        (REMOTE_LOGIN, {"password": SECRET}, "password: the value is not one of ['a']"),
        (REMOTE_LOGIN, {"password": 48291000}, "password: should be string"),
        (REMOTE_LOGIN, {"login": {"token": SECRET}}, "login: {'token': '«masked»'} is not valid"),
        (REMOTE_LOGIN, {"secrets": [SECRET]}, "secrets.0: should be integer"),
    ],
)
def test_an_error_does_not_quote_a_secret(bound: Any, args: dict[str, Any], said: str) -> None:
    """It is kept, and the model knows what it has sent."""
    text = problems(bound, args)
    assert said in text
    assert "hunter2" not in text
    assert "48291" not in text


def test_a_note_names_an_argument_so_that_it_is_told_from_its_value() -> None:
    name = "x\ny: 1 → 2"
    model = create_model("Odd", field=(int, Field(alias=name)))
    odd = make_tool(refund, args=model, contract=Contract(), name="odd")
    assert normalise(odd, {name: "5"}).notes == (r""" "x\ny: 1 → 2": '5' → 5 """.strip(),)
    assert problems(odd, {name: "five"}).startswith(r'"x\ny: 1 → 2": Input should be a valid int')


def test_arguments_of_any_name_pass_unchanged_to_a_remote_tool() -> None:
    args = {"order_id": "A1", "config": {"runtime": [1, 2.5, None]}}

    assert normalise(REMOTE, args).args == {**args, "format": "short"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "https://example.invalid/schema"}}},
        {"type": "no such type"},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
    ],
)
def test_a_schema_that_cannot_be_used_makes_the_tool_uncallable_not_unchecked(
    schema: dict[str, Any],
) -> None:
    broken = StructuredTool(name="broken", description=".", func=refund, args_schema=schema)

    assert "it cannot be called" in problems(broken, {"a": "x"})


def remote(**properties: Any) -> Remote:
    return Remote(args_schema={"type": "object", "properties": properties})


def test_patterns_take_linear_time() -> None:
    bound = remote(a={"type": "string", "pattern": "^(a+)+$"})

    assert normalise(bound, {"a": "a" * 9_000}).args == {"a": "a" * 9_000}
    assert "a: 'aaa" in problems(bound, {"a": "a" * 9_000 + "b"})
    assert "does not match '^(a+)+$'" in problems(bound, {"a": "a\n"}), "as in ECMAScript"


def test_a_pattern_that_cannot_be_matched_here_is_said_to_be_unchecked() -> None:
    bound = remote(a={"type": "string", "pattern": "^(?!b)"}, n={"type": "integer"})

    once = normalise(bound, {"a": "b"})

    assert once.args == {"a": "b"}
    assert once.notes == ("the pattern '^(?!b)' is not checked here, but by the server",)
    assert "n: should be integer" in problems(bound, {"a": "b", "n": "x"})


def test_a_schema_that_takes_too_long_makes_the_tool_uncallable() -> None:
    choices = {f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(40)}
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/d0"}},
        "$defs": {**choices, "d40": {"type": "integer"}},
    }

    assert "it cannot be called" in problems(Remote(args_schema=schema), {"a": "x"})


def test_a_schema_is_read_in_the_dialect_that_it_names() -> None:
    pair = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": pair},
    }

    assert normalise(Remote(args_schema=schema), {"pair": ["a", 1]}).args == {"pair": ["a", 1]}
    assert "pair.1: should be integer" in problems(Remote(args_schema=schema), {"pair": ["a", "b"]})


def test_injected_parameters_cannot_be_sent_by_a_model() -> None:
    @tool
    def save(text: str, user: Annotated[str, InjectedToolArg]) -> str:
        """Save."""
        return text + user

    assert normalise(save, {"text": "hi"}).args == {"text": "hi"}
    assert "user: the tool has no such argument" in problems(save, {"text": "hi", "user": "root"})


class Counts(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def one_more(cls, value: int) -> int:
        return value + 1


class Tampered(BaseModel):
    n: int
    user: Annotated[str, InjectedToolArg] = "nobody"

    @field_validator("n")
    @classmethod
    def hundredfold(cls, value: int) -> int:
        return value * 100


def take(n: int, user: str = "nobody") -> str:
    """Take."""
    return str(n)


@pytest.mark.parametrize(
    ("model", "said"),
    [(Counts, "changes its arguments each time"), (Tampered, "beside injected parameters")],
)
def test_a_tool_whose_checks_leave_open_what_would_run_cannot_be_called(
    model: type[BaseModel], said: str
) -> None:
    tool = StructuredTool(name="take", description=".", func=take, args_schema=model)

    assert said in problems(tool, {"n": 1})


def test_a_name_that_langchain_keeps_for_itself_is_refused_where_it_would_be_replaced() -> None:
    schema = {"type": "object", "properties": {"config": {"type": "string"}}}
    tool = StructuredTool(name="take", description=".", func=take, args_schema=schema)

    assert "config: cannot be passed on" in problems(tool, {"config": "staging"})


def test_nothing_in_the_arguments_can_be_nested_without_end() -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]

    assert "nested too deeply" in problems(REMOTE, {"order_id": "A1", "config": {"a": deep}})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(["order_id", "amount", "currency", "copies", "note", "config", "x"])


@given(st.dictionaries(names, json_values | st.sampled_from(["A1", "5", 5, "EUR", 2]), max_size=5))
def test_any_json_is_refused_in_words_or_normalised_once_and_for_all(args: dict[str, Any]) -> None:
    for bound in (REFUND, REMOTE):
        try:
            once = normalise(bound, args)
        except ArgumentsError:
            continue
        again = normalise(bound, once.args)
        assert again.args == once.args
        assert again.notes == ()
        assert call_digest("t", again.args) == call_digest("t", once.args)
