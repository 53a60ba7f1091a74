"""What a reviewer is offered beside yes and no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from agent.approvals import scope_of
from agent.store.records import ApprovalRecord
from tools.contract import Contract, Scope, make_tool


class Note(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str
    tag: str | None = None


def note(path: str, tag: str | None = None) -> str:
    """Write a note."""
    raise AssertionError("nothing runs here")


def offered(always: Callable[[Any], Any]) -> Scope | None:
    """What is offered for a note at ``docs/a`` by a tool with this scope."""
    approval = ApprovalRecord.model_construct(
        tool="note", kind="write", remember=True, args={"path": "docs/a", "tag": None}
    )
    return scope_of(
        approval, {"note": make_tool(note, args=Note, contract=Contract(always=always))}
    )


@pytest.mark.parametrize(
    "args",
    [
        {},
        {"path": {"under": "docs"}},
        {"path": {"equals": "docs/a"}, "tag": {"equals": None}},
    ],
)
def test_a_scope_that_covers_the_call_is_offered(args: dict[str, Any]) -> None:
    scope = Scope("notes", args)
    assert offered(lambda given: scope) == scope


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "notes",
        Scope(5, {}),  # type: ignore[arg-type]
        Scope("notes", None),  # type: ignore[arg-type]
        Scope("notes", {"path": "docs"}),  # type: ignore[dict-item]
        Scope("below docs", {"path": {"starts_with": "docs"}}),
        Scope("below docs", {"path": {"under": "docs", "but": "docs/b"}}),
        Scope("below docs", {"folder": {"under": "docs"}}),
        Scope("notes without a colour", {"colour": {"equals": None}}),
        Scope("elsewhere", {"path": {"under": "src"}}),
    ],
)
def test_a_scope_that_means_nothing_or_something_else_is_not_offered(wrong: Any) -> None:
    assert offered(lambda given: wrong) is None
