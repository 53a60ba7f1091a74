"""Calls as models write them: read without running anything, or named as what cannot be read."""

from __future__ import annotations

import string
from contextlib import suppress
from keyword import iskeyword
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.evals.calls.parsing import DEEPEST, LONGEST, Called, FormatError, calls_in, rendered

ADD = Called("add", {"a": 2, "b": 3})


@pytest.mark.parametrize(
    "text",
    [
        "add(a=2, b=3)",
        "  [add(a=2,b=3)]\n",
        "(add(a=2, b=3))",
        "```python\nadd(a=2, b=3)\n```",
        "```\n[add(a=+2, b=3)]\n```",
        '{"name": "add", "arguments": {"a": 2, "b": 3}}',
        '[{"name": "add", "arguments": "{\\"a\\": 2, \\"b\\": 3}"}]',
        '{"function": {"name": "add", "arguments": "{\\"a\\": 2, \\"b\\": 3}"}, "id": "1"}',
        '{"role": "assistant", "tool_calls": [{"type": "function", "function": {"name": "add",'
        ' "arguments": {"a": 2, "b": 3}}}]}',
        '{"role": "assistant", "content": [{"type": "text", "text": "I add."},'
        ' {"type": "tool_use", "name": "add", "input": {"a": 2, "b": 3}}]}',
        '<tool_call>{"name": "add", "arguments": {"a": 2, "b": 3}}</tool_call>',
        '```json\n{"name": "add", "parameters": {"a": 2, "b": 3}}\n```',
    ],
)
def test_one_call_in_every_form(text: str) -> None:
    assert calls_in(text) == [ADD]


@pytest.mark.parametrize(
    "text",
    [
        "[add(a=1, b=1), mult(a=2, b=2)]",
        "add(a=1, b=1)\nmult(a=2, b=2)",
        "add(a=1, b=1); mult(a=2, b=2)",
        "add(a=1, b=1), mult(a=2, b=2)",
        '[{"name": "add", "arguments": {"a": 1, "b": 1}},'
        ' {"name": "mult", "arguments": {"a": 2, "b": 2}}]',
        '<tool_call>{"name": "add", "args": {"a": 1, "b": 1}}</tool_call>\n'
        '<tool_call>{"name": "mult", "args": {"a": 2, "b": 2}}</tool_call>',
    ],
)
def test_several_calls_keep_their_order(text: str) -> None:
    assert calls_in(text) == [Called("add", {"a": 1, "b": 1}), Called("mult", {"a": 2, "b": 2})]


@pytest.mark.parametrize(
    ("text", "args"),
    [
        (
            "f(x=-1.5, y=[1, (2, 3)], z={'a': None})",
            {"x": -1.5, "y": [1, [2, 3]], "z": {"a": None}},
        ),
        ("f(x=true, y=false, z=null)", {"x": True, "y": False, "z": None}),
        ("f(x=\"it's\", y='\"')", {"x": "it's", "y": '"'}),
        ("f()", {}),
        ('{"name": "f"}', {}),
        ('{"name": "f", "arguments": ""}', {}),
        ('{"name": "f", "arguments": null}', {}),
    ],
)
def test_values_of_every_kind(text: str, args: dict[str, Any]) -> None:
    assert calls_in(text) == [Called("f", args)]


def test_a_dotted_name_and_values_without_names() -> None:
    assert calls_in("math.hypot(3, y=4)") == [Called("math.hypot", {"y": 4}, (3,))]


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "  ", "Which order do you mean?", "None of these fits.", "Sure (I think so)."),
        *("[1] says no", "(lambda: 1)()", '[["add"]]', "add", "add (2 and 3)"),
    ],
)
def test_prose_has_no_calls(text: str) -> None:
    assert calls_in(text, ["add"]) == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("add(a=2, b=", "cannot|no call"),
        ("add(a=2, b=3", "never closed|no call"),
        ("add(**values)", r"\*\*"),
        ("add(a=other(1))", "no literal"),
        ("add(a=1 + 1, b=3)", "no literal"),
        ("add(a=b'x')", "no literal"),
        ("add(a=-True)", "no literal"),
        ("add(a=__import__('os').system('true'))", "no literal"),
        ("add(a={1: 2})", "texts"),
        ("add(a=1) if x(b=1) else 2", "nothing else"),
        ("x(1); import os", "nothing else"),
        ("[add(a=1, b=2), 3]", "nothing else"),
        ("add(a=1, a=2)", "repeated"),
        ('{"name": "add", "arguments": {"a": 1', "no JSON"),
        ('{"name": "add", "arguments": [1, 2]}', "an object"),
        ('{"name": "add", "arguments": {"a": 1, "a": 2}}', "twice"),
        ('{"name": "add", "arguments": {"a": NaN}}', "NaN"),
        ('{"arguments": {"a": 1}}', "a name"),
        ("I would call add(a=2, b=3) here.", "within other words"),
        ("add(a=" + "[" * 5_000 + "]" * 5_000 + ")", None),
        ("add(a=" + "[" * (DEEPEST + 5) + "]" * (DEEPEST + 5) + ")", "too deeply"),
        ('{"name": "add", "arguments": {"a": ' + "[" * 60 + "]" * 60 + "}}", "too deeply"),
        ('{"name": "add", "arguments": {"a": ' + "[" * 9_000 + "]" * 9_000 + "}}", None),
        ("add(a=" + "-" * 20_000 + "1)", None),
        ("add(a=" + "9" * 10_000 + ")", None),
        ("x" * (LONGEST + 1), "longer"),
    ],
)
def test_what_cannot_be_read_is_named(text: str, why: str | None) -> None:
    with pytest.raises(FormatError, match=why):
        calls_in(text, ["add"])


NAMES = st.text(string.ascii_lowercase + "_", min_size=1, max_size=8).filter(
    lambda name: not iskeyword(name)
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
CALLS = st.builds(
    Called,
    st.lists(NAMES, min_size=1, max_size=3).map(".".join),
    st.dictionaries(NAMES, VALUES, max_size=4),
    st.lists(VALUES, max_size=2).map(tuple),
)


@given(st.lists(CALLS, min_size=1, max_size=4))
def test_what_is_rendered_is_read_back(calls: list[Called]) -> None:
    assert calls_in(rendered(calls)) == calls


@given(st.text(max_size=60) | st.text("[](){}f=,'\"1 -:\n`", max_size=30))
def test_whatever_is_said_is_calls_or_prose_or_named(text: str) -> None:
    with suppress(FormatError):
        assert all(call.name for call in calls_in(text, ["f"]))
