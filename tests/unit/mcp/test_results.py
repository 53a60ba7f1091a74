"""What a call's result becomes: text for the model, and what is kept beside it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from agent.mcp.results import Outcome, UnreadableResult, read_result

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def read(schema: dict[str, Any] | None = None, **members: Any) -> Outcome:
    return read_result(types.Result.model_validate(members), schema, "key")


def said(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ({"type": "text", "text": "a"}, "a"),
        (
            {"type": "image", "data": base64.b64encode(b"12345").decode(), "mimeType": "image/png"},
            "[image, image/png, 5 bytes; kept, not shown]",
        ),
        ({"type": "audio", "data": "!", "x": 1}, "[audio, of no known kind, damaged; kept, not"),
        ({"type": "audio", "data": " " * 100_000 + "!"}, "damaged"),
        ({"type": "resource_link", "uri": "a:b", "name": "n"}, "[link to a:b: n]"),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "t"}}, "[resource a:b]\nt"),
        ({"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}}, "3 bytes; kept"),
        ({"type": "resource", "resource": {"uri": 5}}, "[content of kind resource; it cannot"),
        ({"type": "video"}, "[content of kind video; it cannot be shown]"),
        ({"type": 5}, "[content of no kind; it cannot be shown]"),
        ("text", "[content of no kind; it cannot be shown]"),
    ],
)
def test_every_block_has_a_line(block: Any, line: str) -> None:
    outcome = read(content=[block])
    assert line in outcome.text
    kept = [block] if isinstance(block, dict) and block["type"] != "text" else None
    assert outcome.artifact == ({"content": kept} if kept else None)


@given(st.binary(max_size=50))
def test_the_size_of_base64_is_that_of_what_it_stands_for(data: bytes) -> None:
    block = {"type": "image", "data": base64.b64encode(data).decode(), "mimeType": "x"}
    assert f", {len(data)} bytes;" in read(content=[block]).text


def test_a_single_text_is_not_copied() -> None:
    text = "x" * 1_000
    assert read(content=said(text)).text is text


def test_nothing_is_said_to_be_nothing() -> None:
    assert read().text == read(content=[]).text == "(the server returned nothing)"


def test_structured_content_is_text_where_there_is_none() -> None:
    assert read(structuredContent={"n": 1}).text == '{"n": 1}'
    assert read(content=said("one"), structuredContent={"n": 1}).text == "one"
    failed = read(content=said("no"), structuredContent={"why": "full"}, isError=True)
    assert failed.text == 'no\n{"why": "full"}'
    assert failed.failed


@pytest.mark.parametrize(
    ("schema", "members", "words"),
    [
        (NUMBER, {"structuredContent": {"n": "x"}}, "n: 'x' is not of type 'integer'"),
        (NUMBER, {"structuredContent": {}}, "result: 'n' is a required property"),
        (NUMBER, {"content": said("1")}, "sent no structured content"),
        (None, {"structuredContent": [1]}, "it is no object"),
        (
            None,
            {"content": said('{"n": 1, "m": 2}'), "structuredContent": {"n": 2}},
            "n: its text says 1, its structured content 2",
        ),
    ],
)
def test_what_cannot_be_relied_on_is_not_kept(
    schema: dict[str, Any] | None, members: dict[str, Any], words: str
) -> None:
    outcome = read(schema, **members)
    assert outcome.mismatch is not None
    assert words in outcome.mismatch
    assert outcome.artifact is None


@pytest.mark.parametrize(
    "texts",
    [['{"n": 1, "more": 2}'], ["{}"], ["n is 1"], ['{"n": 2}', "two texts"], ["{n: 2}"], ["[2]"]],
)
def test_a_text_that_says_less_or_more_contradicts_nothing(texts: list[str]) -> None:
    outcome = read(NUMBER, content=said(*texts), structuredContent={"n": 1})
    assert outcome.mismatch is None
    assert outcome.artifact == {"structured_content": {"n": 1}}


def test_what_is_too_large_to_check_is_neither_refused_nor_kept() -> None:
    outcome = read(NUMBER, content=said("one"), structuredContent={"n": "x" * 200_001})
    assert outcome.mismatch is None
    assert outcome.artifact is None
    first, second = outcome.text.splitlines()
    assert first == "one"
    assert "cannot be checked, and is not kept: it has more than 200000 characters" in second


@pytest.mark.parametrize("members", [{"content": "x"}, {"content": {}}, {"isError": "false"}])
def test_what_is_no_result_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(UnreadableResult):
        read(**members)


@given(
    st.dictionaries(
        st.sampled_from(["content", "structuredContent", "isError", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["type", "text", "data", "uri"]), inner, max_size=3
                )
            ),
        ),
    )
)
def test_any_json_is_a_result_or_none(members: dict[str, Any]) -> None:
    try:
        outcome = read(NUMBER, **members)
    except UnreadableResult:
        return
    assert outcome.text
    json.dumps(outcome.artifact)


def test_the_outcome_is_a_text_or_nothing() -> None:
    assert read(_meta={"key": "unknown"}).outcome == "unknown"
    assert read(_meta={"key": 5}).outcome is None


def test_the_pieces_of_a_result_are_bounded() -> None:
    outcome = read(content=said(*map(str, range(1_500))))
    assert outcome.text.endswith("\n999\n[500 more pieces of content are left out]")
