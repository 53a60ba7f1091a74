"""Schemas of strangers: right answers for honest ones, an end for the others."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from agent import schemas
from agent.schemas import UnusableSchema, check, depth_exceeds, fault_of

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def problems(schema: dict[str, Any], value: Any) -> list[str]:
    return [problem.message for problem in check(schema, value).problems]


def a(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "", "x", "xy"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "ab"]), inner, max_size=3)
    ),
    max_leaves=6,
)
TYPES = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])
SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries({}, optional={"type": TYPES, "const": VALUES, "maxLength": st.just(1)}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "^b$"]), inner, max_size=2),
            "additionalProperties": inner,
            "required": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
            "items": inner,
            "uniqueItems": st.booleans(),
            "contains": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "pattern": st.sampled_from(["x", "^x$", "x.*"]),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
        },
    ),
    max_leaves=6,
)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_the_answer_is_that_of_the_library(schema: dict[str, Any], value: Any) -> None:
    assert (not problems(schema, value)) is Draft202012Validator(schema).is_valid(value)


def test_a_schema_is_read_in_its_own_dialect() -> None:
    pair = {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}
    assert problems({"$schema": DRAFT_7, **a(pair)}, {"a": ["x", "y"]})
    assert fault_of(a(pair)) is not None, "2020-12 has no such items"
    assert fault_of({"$schema": "https://example.invalid/own", **a({})}) is None


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (a({"type": "no such type"}), "'no such type' is not valid"),
        (a({"$ref": "https://example.invalid/x"}), "refers to nothing in it; nothing is fetched"),
        (a({"$ref": "#/$defs/none"}), "'/$defs/none' refers to nothing"),
        (a({"$dynamicRef": "file:///etc/passwd"}), "refers to nothing"),
        (a({"$schema": DRAFT_7}), "it changes its dialect inside"),
        ({"patternProperties": {}, "allOf": [{"unevaluatedProperties": False}]}, "beside"),
        ({"anyOf": [{}] * 2_000}, "it has more than 2000 parts"),
        ([], "it is no object"),
        ({"items": 5}, "5 is not of type"),
    ],
)
def test_what_cannot_be_used_says_why(schema: Any, words: str) -> None:
    fault = fault_of(schema)
    assert fault is not None
    assert words in fault
    with pytest.raises(UnusableSchema):
        check(schema, {"a": 1})


@given(st.recursive(VALUES | TYPES, lambda inner: st.dictionaries(TYPES, inner)))
def test_any_json_is_a_schema_or_a_fault(schema: Any) -> None:
    fault = fault_of(schema)
    assert fault is None or fault.strip()


def test_a_schema_may_refer_to_itself() -> None:
    tree = {
        "$ref": "#/$defs/n",
        "$defs": {"n": a({"type": "array", "items": {"$ref": "#/$defs/n"}})},
    }
    assert problems(tree, {"a": [{"a": []}]}) == []
    assert problems(tree, {"a": [{"a": 1}]}) == ["1 is not of type 'array'"]


EXPONENTIAL = {
    "$defs": {
        **{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(60)},
        "d60": {"type": "integer"},
    },
    **a({"$ref": "#/$defs/d0"}),
}


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (EXPONENTIAL, "x", "too much work"),
        (a({"anyOf": [{"type": "integer"}] * 1_900}), "x" * 100, None),
        (a({"items": {"anyOf": [{"type": "integer"}] * 1_900}}), ["x"] * 1_000, "too much work"),
        (a({"$ref": "#/properties/a"}), "x", "without end"),
        (a({"uniqueItems": True}), [{"x": i} for i in range(50_000)], "too much work"),
        (a({"enum": list(range(100_000))}), "x", None),
        (a({"items": {"enum": list(range(100_000))}}), ["x"] * 1_000, "too much work"),
        (a({"items": {"not": {}}}), ["x" * 100_000] * 1_000, None),
        (a({"pattern": "("}), "x", "'(' is no regular expression"),
        ({"patternProperties": {rf"\w{{{100 + i}}}": {} for i in range(300)}}, "x", "much work"),
    ],
)
def test_every_check_ends(schema: dict[str, Any], value: Any, words: str | None) -> None:
    if words is None:
        assert len(problems(schema, {"a": value})) <= schemas.MAX_PROBLEMS
    else:
        with pytest.raises(UnusableSchema, match=words.replace("(", r"\(")):
            check(schema, {"a": value})


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("^a+$", "aa", True),
        ("^a$", "a\n", False),
        (r"^\p{L}+$", "é", True),
        ("^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$", "x", False),
        ("^(a+)+$", "a" * 9_000 + "b", False),
        (r"^(\w+\s?)*$", "a" * 9_000 + "!", False),
        # Not checked here, so that nothing is refused that fits.
        ("^(?=b)", "a", None),
        (r"^(a)\1$", "x", None),
        ("[a-z&&[^a]]", "1", None),
        ("[+--]", "1", None),
        (r"(\w{100}){1000}", "1", None),
        ("^a$", "x" * 10_001, None),
    ],
)
def test_patterns_are_matched_in_linear_time_or_not_at_all(
    pattern: str, text: str, fits: bool | None
) -> None:
    checked = check(a({"type": "string", "pattern": pattern}), {"a": text})
    assert (not checked.problems) is (fits is not False)
    assert bool(checked.unchecked) is (fits is None)
    keys = check({"patternProperties": {pattern: False}, "additionalProperties": False}, {text: 1})
    assert bool(keys.problems) is (fits is not None)


@given(VALUES)
def test_depth_is_counted(value: Any) -> None:
    def depth(inner: Any) -> int:
        if isinstance(inner, dict):
            inner = list(inner.values())
        return 1 + max(map(depth, inner), default=0) if isinstance(inner, list) else 1

    assert depth_exceeds(value, depth(value)) is False
    assert depth_exceeds(value, depth(value) - 1) is True
