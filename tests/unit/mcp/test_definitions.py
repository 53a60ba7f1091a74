"""What a server lists: followed to its end, within bounds, and sorted."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import types

from agent.mcp.definitions import (
    MAX_CHARACTERS,
    ListingError,
    list_all,
    look_at,
    same_definition,
    size_of,
)


def tool(name: Any = "t", **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


async def listed(*pages: dict[str, Any]) -> list[Any]:
    asked = iter(pages)
    cursors: list[str | None] = []

    async def fetch(cursor: str | None) -> types.Result:
        cursors.append(cursor)
        return types.Result.model_validate(next(asked))

    items = await list_all(fetch, "tools")
    assert cursors == [None, *(page.get("nextCursor") for page in pages[:-1])]
    return items


async def test_a_list_is_followed_to_its_end() -> None:
    pages = [{"tools": [1], "nextCursor": "b"}, {"tools": [], "nextCursor": "c"}, {"tools": [2, 3]}]
    assert await listed(*pages) == [1, 2, 3]
    assert await listed({"tools": [1], "nextCursor": ""}) == [1]
    assert await listed({"tools": [1], "nextCursor": None}) == [1]


@pytest.mark.parametrize(
    ("pages", "words"),
    [
        ([{}], "has no list of tools"),
        ([{"tools": [], "nextCursor": "a"}, {"tools": [], "nextCursor": "a"}], "in a circle"),
        ([{"tools": [], "nextCursor": 1}], "a cursor that is no text"),
        ([{"tools": [], "nextCursor": str(i)} for i in range(101)], "has no end"),
        ([{"tools": [{}] * 1001}], "more than 1000 tools"),
        ([{"tools": ["x" * 600_000], "nextCursor": "a"}, {"tools": ["x" * 600_000]}], "characters"),
    ],
)
async def test_a_list_that_cannot_be_followed(pages: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(ListingError, match=words):
        await listed(*pages)


def test_one_tool_that_does_not_fit_costs_no_other() -> None:
    good = tool("good", annotations={"readOnlyHint": "yes"}, x=1)
    broken = [
        5,
        None,
        {},
        tool(5),
        tool(""),
        tool("x" * 501),
        tool("a", inputSchema=None),
        tool("b", inputSchema={"type": "array"}),
        tool("c", outputSchema={"type": 1}),
        tool("d", annotations=5),
        tool("e", description={}),
        tool("f", x=float("inf")),
        tool("twin"),
        tool("twin", description="other"),
    ]
    listing = look_at([*broken, good])
    assert listing.tools == {"good": good}
    assert listing.tools["good"] is good, "as it came"
    assert listing.faults.keys() == {
        *("(without a name)", "", f"{'x' * 100}…", "a", "b", "c", "d", "e", "f", "twin")
    }


def test_all_together_have_a_size() -> None:
    euro = tool("e", description="€" * (MAX_CHARACTERS // 6 + 1))
    with pytest.raises(ListingError, match="1000000 characters"):
        look_at([euro])
    with pytest.raises(ListingError, match="20000 parts"):
        look_at([tool(x=[{}] * 20_000)])


def test_the_same_definition_is_the_same_json() -> None:
    one = tool(annotations={"readOnlyHint": True})
    assert same_definition(tool(annotations={"readOnlyHint": True}), one)
    assert not same_definition(tool(annotations={"readOnlyHint": 1}), one)
    assert not same_definition(None, one)


def test_size_is_counted_only_as_far_as_needed() -> None:
    assert size_of({"ab": ["c", 1, None]}, 100) == 7
    assert size_of(["x" * 50] * 1_000, 100) <= 200
