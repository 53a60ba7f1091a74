"""When two calls are the same one: however it is spelled, and never when it asks for another thing.

A call that is taken for another one is held or asked about; so what asks for another amount,
recipient or item has to be told apart, and no spelling may slip through.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from pydantic import BaseModel, ConfigDict, Field, field_validator

from agent.checks.arguments import normalise
from agent.repeats import same_arguments

CART = {
    "type": "object",
    "properties": {
        "to": {"type": ["array", "string"]},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "amount": {"type": ["number", "string"]},
        "note": {"type": "string", "default": "by hand"},
        "deliver": {"$ref": "#/$defs/delivery", "default": {"days": 2}},
        "paid": {"anyOf": [{"$ref": "#/$defs/payment"}, {"type": "null"}], "default": None},
        "prices": {"type": "object", "additionalProperties": {"$ref": "#/$defs/price"}},
    },
    "required": ["lines", "amount"],
    "$defs": {
        "line": {
            "allOf": [
                {"properties": {"id": {"type": "string"}, "quantity": {"default": 1}}},
                {"properties": {"gift": {"type": "boolean", "default": False}}},
            ]
        },
        "delivery": {"properties": {"days": {"default": 2}, "slot": {"default": "any"}}},
        "payment": {"properties": {"by": {"default": "card"}, "part": {"default": 1.0}}},
        "price": {"properties": {"of": {}, "currency": {"default": "EUR"}}},
    },
}


def foreign(schema: dict[str, Any]) -> BaseTool:
    """A tool as it comes from an MCP server."""
    return StructuredTool(name="t", description="", args_schema=schema, func=lambda **_: "")


ANY = foreign({"type": "object"})
SHOP = foreign(CART)
WHOLE: dict[str, Any] = {
    "to": ["Ann", "Bo"],
    "lines": [{"id": "A1", "quantity": 1, "gift": False}, {"id": "B2", "quantity": 5}],
    "amount": 12.5,
    "note": "by hand",
    "deliver": {"days": 2, "slot": "any"},
    "paid": {"by": "card", "part": 1},
    "prices": {"A1": {"of": 5, "currency": "EUR"}},
}
SHORT: dict[str, Any] = {
    "to": ["Bo", "Ann"],
    "lines": [{"id": "B2", "quantity": "5"}, {"id": "A1"}],
    "amount": "12.50",
    "paid": {},
    "prices": {"A1": {"of": 5.0}},
}


@pytest.mark.parametrize(
    "other",
    [
        SHORT,
        WHOLE | {"deliver": {}},
        SHORT | {"deliver": {"days": "2.0"}},
        SHORT | {"lines": [{"id": " a1", "gift": False}, {"quantity": 5, "id": "b2 "}]},
    ],
    ids=["left out", "an empty object", "one of two", "in other words"],
)
def test_defaults_at_any_depth_may_be_left_out(other: dict[str, Any]) -> None:
    assert same_arguments(SHOP, WHOLE, other)
    assert same_arguments(SHOP, other, WHOLE)


@pytest.mark.parametrize(
    "change",
    [
        {"lines": [{"id": "A1"}, {"id": "B2", "quantity": 4}]},
        {"lines": [{"id": "A1"}, {"id": "B3", "quantity": 5}]},
        {"lines": [{"id": "A1", "gift": True}, {"id": "B2", "quantity": 5}]},
        {"lines": [{"id": "A1", "quantity": 5}, {"id": "B2"}]},
        {"lines": [{"id": "A1"}, {"id": "A1"}, {"id": "B2", "quantity": 5}]},
        {"lines": [{"id": "B2", "quantity": 5}]},
        {"amount": "12.51"},
        {"to": ["Ann"]},
        {"to": ["Ann", "Bob"]},
        {"note": "by post"},
        {"note": ""},
        {"deliver": {"days": 3}},
        {"paid": {"by": "cash"}},
        {"paid": None},
        {"prices": {"A1": {"of": 5, "currency": "USD"}}},
        {"prices": {"A2": {"of": 5}}},
    ],
    ids=str,
)
def test_what_asks_for_something_else_is_another_call(change: dict[str, Any]) -> None:
    assert not same_arguments(SHOP, WHOLE, SHORT | change)
    assert not same_arguments(SHOP, SHORT | change, WHOLE)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (5, 5.0, True),
        (5, "5", True),
        ("5", "5.00", True),
        (0.1, "0.10", True),
        (1e22, "10000000000000000000000", True),
        ("1E+3", 1000, True),
        (0.0, -0.0, True),
        (True, "true", True),
        (5, 5.5, False),
        (5, -5, False),
        (5, 50, False),
        (0.05, 0.5, False),
        (1, True, False),
        (0, False, False),
        (0, None, False),
        (float(2**53), 2**53 + 1, False),
        ("007", 7, False),
        ("+491", "491", False),
        ("1e3", 1000, False),
        ("5 EUR", "5 USD", False),
        ([1, {"a": 2.0}], [1.0, {"a": 2, "b": None}], True),
        ([1, 2], [2, 1], True),
        ([1, 1, 2], [1, 2, 2], False),
        ("Ann", ["Ann"], True),
        (None, [], True),
        ("ann@example.org", " Ann@Example.org\n", True),
        ("Zo\u00e9", "Zoe\u0301", True),
        ("A1", "A\u200b1", True),
        ("Ann  Ekman", "Ann\u00a0Ekman", True),
        ("notes/a.txt", "./notes//a.txt", True),
        ("notes/a.txt", "notes/b.txt", False),
        ("5\u00b2", "52", False),
        ("Ann", "Anna", False),
        ("if x:\n  y", "if x:\r\n  y\n", True),
        ("if x:\n  y", "if x:\n    y", False),
        ("x = Foo()\ny", "x = foo()\ny", False),
        ("Zo\u00e9:\nx", "Zoe\u0301:\nx", True),
        ("2026-12-01T10:00:00Z", "2026-12-01 11:00+01:00", True),
        ("2026-12-01T10:00:00Z", "2026-12-01T10:00:00+01:00", False),
        ("2026-12-01T10:00:00Z", "2026-12-01T10:00:00", False),
        ("2026-12-01T99:00:00Z", "2026-12-01t99:00:00z", True),
        ("2026-12-01T10:00:00Z", "2026-12-01t10:00:00z", True),
    ],
)
def test_whether_a_value_is_the_same_in_another_spelling(one: Any, other: Any, same: bool) -> None:
    for a, b in ((one, other), (other, one)):
        assert same_arguments(ANY, {"v": a}, {"v": b}) is same
        assert same_arguments(ANY, {"v": [{"w": a}, 1]}, {"v": [{"w": b}, 1]}) is same


# --- any arguments, any spelling ---------------------------------------------------------------

_WORDS = st.text(st.sampled_from("abcdefgé 1."), min_size=1, max_size=6).map(lambda w: f"x{w}x")
_NUMBERS = st.integers(-999, 999) | st.decimals(-99, 99, places=2).map(float)
_LEAVES = _WORDS | _NUMBERS | st.booleans()
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, min_size=2, max_size=4)
        | st.dictionaries(st.sampled_from("pqrs"), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)
_ARGUMENTS = st.dictionaries(st.sampled_from("uvw"), _VALUES, min_size=1)


def respelled(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """The same value as another model might write it."""
    match value:
        case dict():
            pairs = draw(st.permutations([*value.items()]))
            extra = draw(st.sampled_from([{}, {"z": None}, {"z": ""}, {"z": []}, {"z": {}}]))
            return {key: respelled(inner, draw) for key, inner in pairs} | extra
        case list():
            return [respelled(inner, draw) for inner in draw(st.permutations(value))]
        case bool():
            return value
        case int() | float():
            text = str(Decimal(repr(value)))
            longer = f"{text}0" if "." in text else f"{text}.0"
            return draw(st.sampled_from([value, float(value), text, longer]))
        case _:
            spelled: Any = draw(
                st.sampled_from(
                    [str.upper, lambda text: f" {text}\n", lambda text: text.replace(" ", "  ")]
                )
            )
            form: Any = draw(st.sampled_from(["NFC", "NFD"]))
            return unicodedata.normalize(form, spelled(value))


def changed(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> Any:
    """The same value but for one thing: a number, a word, an item more or less."""
    match value:
        case dict():
            key = draw(st.sampled_from(sorted(value)))
            return value | {key: changed(value[key], draw)}
        case list():
            at = draw(st.integers(0, len(value) - 1))
            more = [*value, value[at]]
            less = [*value[:at], *value[at + 1 :]]
            inside = [*value[:at], changed(value[at], draw), *value[at + 1 :]]
            return draw(st.sampled_from([more, less, inside]))
        case bool():
            return not value
        case int() | float():
            return draw(st.sampled_from([value + 1, value - 1, value + 0.01, value * 10 + 1]))
        case _:
            return draw(st.sampled_from([f"{value}1", f"y{value}", f"{value[:-1]}q"]))


@given(_ARGUMENTS, st.data())
def test_any_call_in_another_spelling_is_the_same(
    args: dict[str, Any], data: st.DataObject
) -> None:
    other = respelled(args, data.draw)
    assert same_arguments(ANY, args, other)
    assert same_arguments(ANY, other, args)


@given(_ARGUMENTS, st.data())
def test_any_call_in_which_one_thing_differs_is_another_however_it_is_spelled(
    args: dict[str, Any], data: st.DataObject
) -> None:
    other = respelled(changed(args, data.draw), data.draw)
    assert not same_arguments(ANY, args, other)
    assert not same_arguments(ANY, other, args)


_TREES = st.recursive(
    st.fixed_dictionaries({"default": _LEAVES}),
    lambda inner: st.dictionaries(st.sampled_from("pqr"), inner, min_size=1, max_size=3).map(
        lambda properties: {"properties": properties}
    ),
    max_leaves=6,
)
_WRAPPINGS: list[Callable[[Any], Any]] = [
    lambda schema: schema,
    lambda schema: {"allOf": [{"description": "x"}, schema]},
    lambda schema: {"anyOf": [schema, {"type": "null"}]},
    lambda schema: {"oneOf": [{"type": "null"}, schema]},
]


@given(st.dictionaries(st.sampled_from("uvw"), _TREES, min_size=1), st.data())
def test_whatever_has_a_default_may_be_left_out_at_any_depth(
    properties: dict[str, Any], data: st.DataObject
) -> None:
    defs: dict[str, Any] = {}

    def wrapped(schema: Any) -> Any:
        if "properties" in schema:
            schema = {"properties": {key: wrapped(s) for key, s in schema["properties"].items()}}
        schema = data.draw(st.sampled_from(_WRAPPINGS))(schema)
        if not data.draw(st.booleans()):
            return schema
        defs[f"a/b ~{len(defs)}"] = schema
        return {"$ref": f"#/$defs/a~1b%20~0{len(defs) - 1}"}

    def written_out(schema: Any) -> Any:
        inner = schema.get("properties")
        if inner is None:
            return schema["default"]
        return {key: written_out(part) for key, part in inner.items()}

    def partly(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            key: partly(inner)
            for key, inner in value.items()
            if isinstance(inner, dict) or data.draw(st.booleans())
        }

    tree = {"properties": properties}
    tool = foreign(wrapped(tree) | {"$defs": defs})
    whole = written_out(tree)
    assert same_arguments(tool, whole, partly(whole))
    assert not same_arguments(tool, whole, changed(whole, data.draw))


def test_the_nearest_of_several_defaults_counts() -> None:
    inner = {"$ref": "#/$defs/n", "default": 1}
    tool = foreign({"properties": {"n": inner}, "$defs": {"n": {"default": 2}}})
    assert same_arguments(tool, {}, {"n": 1})
    assert not same_arguments(tool, {}, {"n": 2})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"properties": {key: {"$ref": "#", "default": {}} for key in "abcd"}},
        {"properties": {"a": {"$ref": "#/nowhere"}, "b": {"$ref": "https://example.org/x"}}},
        {"properties": 7, "items": [], "allOf": "x", "anyOf": [3], "additionalProperties": True},
    ],
    ids=["to itself", "to itself twice", "without end", "nowhere", "no schema at all"],
)
def test_a_schema_that_leads_nowhere_is_followed_some_way_only(schema: dict[str, Any]) -> None:
    tool = foreign(schema)
    assert same_arguments(tool, {"a": {"b": 1}}, {"a": {"b": "1.0"}})
    assert not same_arguments(tool, {"a": {"b": 1}}, {"a": {"b": 2}})


# --- tools of this process ---------------------------------------------------------------------


class Line(BaseModel):
    id: str
    quantity: int = 1


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    amount: Decimal
    lines: list[Line] = []
    to: list[str] = Field(default=["Ann"])


class Injected(Order):
    model_config = ConfigDict(extra="ignore")

    where: Annotated[str, InjectedToolArg]


def own(schema: type[BaseModel]) -> BaseTool:
    return StructuredTool(name="t", description="", args_schema=schema, func=lambda **_: "")


@pytest.mark.parametrize("schema", [Order, Injected])
def test_a_models_defaults_and_decimals_make_no_difference(schema: type[BaseModel]) -> None:
    tool = own(schema)
    one = {"amount": "1000", "lines": [{"id": "A1", "quantity": 1}, {"id": "B2"}]}
    other = {"amount": "1E+3", "lines": [{"id": "B2"}, {"id": "A1"}], "to": "Ann"}
    assert same_arguments(tool, one, other | {"to": ["Ann"]})
    assert same_arguments(tool, normalise(tool, one).args, other | {"to": ["ann"]})
    for change in ({"amount": "1001"}, {"lines": [{"id": "A1"}]}, {"to": ["Bo"]}, {"to": []}):
        assert not same_arguments(tool, one, deepcopy(other) | {"to": ["Ann"]} | change)


def test_arguments_that_the_tool_does_not_take_any_more_are_compared_as_they_are() -> None:
    class Picky(BaseModel):
        amount: float

        @field_validator("amount")
        @classmethod
        def never(cls, value: float) -> float:
            raise KeyError("broken")

    assert same_arguments(own(Picky), {"amount": 5, "old": 1}, {"amount": "5.0", "old": 1})
    assert not same_arguments(own(Picky), {"amount": 5, "old": 1}, {"amount": 6, "old": 1})
