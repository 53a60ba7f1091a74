"""What a write came to while the database could not be had: kept, and recorded first."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent.errors import NotFound, StoreError
from agent.middleware.under_way import WritesUnderWay


def damaged() -> None:
    raise StoreError("The row of session s-b is damaged. Nothing was changed.")


def recorder(recorded: list[str], what: str) -> Callable[[], None]:
    return lambda: recorded.append(what)


def test_what_is_kept_of_a_damaged_row_stops_no_other_session() -> None:
    writes, recorded = WritesUnderWay(), list[str]()
    writes.keep("s-b", "e-1", 1, damaged)
    writes.keep("s-a", "e-2", 1, recorder(recorded, "e-2"))
    writes.record_kept(["s-a"])
    assert recorded == ["e-2"]
    with pytest.raises(StoreError, match="damaged"):
        writes.record_kept(["s-c", "s-b"])  # a fork of it waits too


def test_it_is_recorded_once_when_it_can_be() -> None:
    writes, recorded = WritesUnderWay(), list[str]()
    answers = iter([damaged, recorder(recorded, "e-1")])
    writes.keep("s-b", "e-1", 1, lambda: next(answers)())
    with pytest.raises(StoreError):
        writes.record_kept(["s-b"])
    writes.record_kept(["s-b"])
    writes.record_kept(["s-b"])
    assert recorded == ["e-1"]


def test_of_a_session_that_was_deleted_nothing_is_left() -> None:
    def gone() -> None:
        raise NotFound("effect", "e-1")

    writes = WritesUnderWay()
    writes.keep("s-b", "e-1", 1, gone)
    writes.record_kept(["s-b"])
    writes.record_kept(["s-b"])


def test_what_cannot_be_recorded_at_the_end_is_named(caplog: pytest.LogCaptureFixture) -> None:
    writes = WritesUnderWay()
    writes.keep("s-b", "e-1", 1, damaged)
    writes.close()
    assert "what e-1 came to was not recorded" in caplog.text
