"""What a session may do at all: only a person changes it, at once, and the trail keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.application import Options
from agent.evals.driving import converse, review
from agent.evals.reviewers import approves, stays_silent
from agent.events import CallJudged
from agent.types import Decision
from tests.support.sessions import calls, reads, session

CANCEL = ("cancel_order", {"order_id": "A1", "expected_revision": 1})
READS_ONLY = Options(granted=("read:*",), via="test")


async def test_a_call_outside_is_denied_and_nobody_is_asked_until_a_person_widens_it(
    tmp_path: Path,
) -> None:
    steps = [reads("A1"), calls(CANCEL), "I may not.", calls(CANCEL, ids=["again"]), "Done."]
    async with session(tmp_path, steps, options=READS_ONLY) as (app, opened):
        first = await converse(opened, "Cancel A1", approves)
        assert first.asked == []
        (denied,) = app.store.trail.entries(opened.id, kind="call.denied")
        assert denied.data["rule"] == "authority"

        found = opened.change_authority(grant=["write:orders"])
        assert found.granted == ("read:*", "write:orders")
        (change,) = app.store.trail.entries(opened.id, kind="session.authority")
        assert change.data["granted"] == {"from": ["read:*"], "to": ["read:*", "write:orders"]}
        assert change.data["by"]["name"] == "ana"

        again = await converse(opened, "Now?", approves)
        assert [approval.tool for approval in again.asked] == ["cancel_order"]
        assert opened.receipt().done


async def test_what_is_denied_in_the_meantime_does_not_run_though_it_was_approved(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, [reads("A1"), calls(CANCEL), "Oh."]) as (app, opened):
        await converse(opened, "Cancel A1", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        opened.change_authority(deny=["write:orders"])
        trajectory = await review(opened, approves)
        events = [event async for event in opened.resume()]

        assert trajectory.asked == []
        assert app.store.ledger.list() == []
        assert "was not granted" in str(events)
        assert not opened.receipt().done
        assert not opened.receipt().waiting
        assert "was not granted" in opened.receipt().not_done[0]
        (denied,) = app.store.trail.entries(opened.id, kind="call.denied")
        assert (denied.data["rule"], denied.data["tool"]) == ("authority", "cancel_order")


async def test_a_denial_from_another_process_holds_in_the_one_that_drives(tmp_path: Path) -> None:
    def narrowed(messages: Any) -> Any:
        app.store.sessions.set_authority(
            opened.id, type(opened.authority)(("read:*",), ()), app.actor
        )
        return calls(CANCEL)

    async with session(tmp_path, [reads("A1"), narrowed, "I may not."]) as (app, opened):
        trajectory = await converse(opened, "Cancel A1", approves)

        assert trajectory.asked == []
        judged = [event.verdict["rule"] for event in trajectory.of(CallJudged)]
        assert judged == ["reads", "authority"]


async def test_a_denial_wins_and_a_grant_lifts_the_same_denial(tmp_path: Path) -> None:
    async with session(tmp_path, []) as (_, opened):
        opened.change_authority(deny=["write:orders"])
        assert opened.authority.denied == ("write:orders",)
        opened.change_authority(grant=["write:*"])
        assert opened.authority.denied == ("write:orders",), "it is another pattern"
        opened.change_authority(grant=["write:orders"])
        assert opened.authority.denied == ()
        found = opened.change_authority(take_back=["write:orders", "spend:refund-*"])
        assert not {"write:orders", "spend:refund-*"} & {*found.granted, *found.denied}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"grant": ["orders"]}, "'orders' is no effect"),
        ({"deny": ["write: x"]}, "is no effect"),
        ({"take_back": ["spend:usd"]}, "neither granted nor denied, so nothing was changed"),
        ({"grant": ["spend:eur"], "take_back": ["spend:usd"]}, "nothing was changed"),
    ],
)
async def test_what_makes_no_sense_changes_nothing(
    tmp_path: Path, change: dict[str, list[str]], why: str
) -> None:
    async with session(tmp_path, []) as (app, opened):
        before = opened.authority
        with pytest.raises(Exception, match=why):
            opened.change_authority(**change)  # type: ignore[arg-type]
        assert opened.authority == before
        assert app.store.trail.entries(opened.id, kind="session.authority") == []


async def test_a_change_to_what_it_is_already_is_none(tmp_path: Path) -> None:
    async with session(tmp_path, []) as (app, opened):
        opened.change_authority(grant=["read:*"])
        assert app.store.trail.entries(opened.id, kind="session.authority") == []


async def test_a_fork_has_the_authority_that_its_session_has_by_then(tmp_path: Path) -> None:
    async with session(tmp_path, ["Hello."]) as (app, opened):
        await converse(opened, "hello", approves)
        opened.change_authority(deny=["write:*"])
        fork = await app.fork(opened.id)
        assert fork.denied == ["write:*"]
