"""A branch from an earlier turn: the talk goes back, the world does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.errors import UsageError
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import approves, stays_silent
from agent.models.scripted import ScriptedChatModel
from tests.support.sessions import application, calls, reads
from tests.support.unsure import How, Service, act
from tools.contract import Call, Undo
from tools.worlds.order_desk import OrderDesk

CANCEL: tuple[str, dict[str, Any]] = ("cancel_order", {"order_id": "A1", "expected_revision": 1})


def requested(model: ScriptedChatModel) -> str:
    """All that the model was last shown."""
    return "\n".join(str(message.content) for message in model.requests[-1])


async def test_the_model_is_told_which_writes_happened_after_the_point_it_goes_back_to(
    tmp_path: Path,
) -> None:
    steps = ["Hello.", reads("A1"), calls(CANCEL), "Cancelled.", "Still here."]
    model = ScriptedChatModel(steps)
    async with application(tmp_path, model) as app:
        async with app.new_session() as source:
            await converse(source, "hello", approves)
            await converse(source, "cancel A1", approves)
            await converse(source, "thanks", approves)
        (effect,) = app.store.ledger.list()
        made = await app.fork(source.id, 1)

        assert (made.parent, made.parent_turn, made.turn) == (source.id, 1, 1)
        model.steps = ["Hello.", "In the branch.", "And on."]
        async with app.open_session(made.id) as branched:
            assert [m.text for m in await branched.history()] == ["hello", "Hello."]
            trajectory = await converse(branched, "what now?", approves)
            shown = requested(model)
            assert trajectory.done.answer == "In the branch."
            assert f"went on in {source.id}" in shown
            assert f'Done: cancel_order(expected_revision=1, order_id="A1") [{effect.id}]' in shown
            assert "cancel A1" not in shown
            told = shown.count(effect.id)
            await converse(branched, "and then?", approves)
            assert requested(model).count(effect.id) == told
        assert app.store.trail.verify() == []
        assert len(app.store.ledger.list()) == 1


async def test_what_it_does_again_is_asked_again_and_named(tmp_path: Path) -> None:
    steps = [reads("A1"), "Read.", calls(CANCEL), "Cancelled."]
    async with application(tmp_path, steps) as app:
        async with app.new_session() as source:
            await converse(source, "look at A1", approves)
            await converse(source, "cancel it", approves)
        (effect,) = app.store.ledger.list()
        made = await app.fork(source.id, 1)
        async with app.open_session(made.id) as branched:
            trajectory = await converse(branched, "cancel it", stays_silent)
            (asked,) = trajectory.asked
            assert asked.rule == "repeats"
            assert effect.id in asked.reason
    assert OrderDesk(tmp_path / "worlds" / "orders.db").get("A1").revision == 2


async def test_a_branch_of_a_branch_knows_the_writes_of_its_whole_line(tmp_path: Path) -> None:
    """Also those of its source that came after the branch, and none of another branch."""
    refund = ("refund_order", {"order_id": "C1", "amount": "5.00", "currency": "EUR"})
    model = ScriptedChatModel(["Hello.", reads("A1"), calls(CANCEL), "Cancelled."])
    async with application(tmp_path, model) as app:
        async with app.new_session() as source:
            await converse(source, "hello", approves)
            first = await app.fork(source.id)
            await converse(source, "cancel A1", approves)
        second = await app.fork(first.id, 1)
        model.steps = ["Hello.", "Well."]
        async with app.open_session(second.id) as branched:
            await converse(branched, "well?", approves)
        assert "cancel_order" in requested(model)

        model.steps = ["Hello.", reads("C1"), calls(refund), "Refunded."]
        async with app.open_session(first.id) as sibling:
            await converse(sibling, "refund it", approves)
        third = await app.fork(source.id, 1)
        model.steps = ["Hello.", "Well."]
        async with app.open_session(third.id) as other:
            await converse(other, "well?", approves)
        assert "cancel_order" in requested(model)
        assert "refund_order" not in requested(model)


async def test_a_fork_knows_what_became_of_the_turn_it_ends_with(tmp_path: Path) -> None:
    model = ScriptedChatModel([reads("A1"), calls(CANCEL), "I did nothing.", "Oh."])
    async with application(tmp_path, model) as app:
        async with app.new_session() as source:
            await converse(source, "cancel A1", approves)
        made = await app.fork(source.id)
        async with app.open_session(made.id) as branched:
            await converse(branched, "did you?", approves)
        assert "Record of the previous turn" in requested(model)
        assert "Done: cancel_order" in requested(model)


@pytest.mark.parametrize("at", [1, 2], ids=["before the write", "after it"])
@pytest.mark.parametrize(
    ("how", "word"), [("answers", "Undone since"), ("lost after", "Undone since, or maybe not")]
)
async def test_a_fork_knows_what_was_undone_in_the_meantime(
    tmp_path: Path, how: How, word: str, at: int
) -> None:
    service = Service(plan=["answers", how])
    back = Undo("the number is taken back", lambda done: Call("act", {"n": -done.args["n"]}))
    model = ScriptedChatModel(["Hello.", act(1), "Done."])
    async with application(tmp_path, model, tools=service.tools(undo=back)) as app:
        async with app.new_session() as source:
            await converse(source, "hello", approves)
            await converse(source, "act", approves)
            (done,) = app.store.ledger.list()
            before = await app.fork(source.id, at)
            await review(source, approves, Trajectory([e async for e in source.undo(done.id)]))
        undoing = app.store.ledger.list()[0]
        assert undoing.undoes == done.id
        for made in (before, await app.fork(source.id, at)):
            model.steps = [*["Hello.", act(1), "Done."][: 1 if at == 1 else 3], "So it is."]
            async with app.open_session(made.id) as branched:
                await converse(branched, "and now?", approves)
            assert f"{word}: act(n=1) [{done.id}], by {undoing.id}" in requested(model)


async def test_a_branch_from_before_untrusted_content_has_not_read_it(tmp_path: Path) -> None:
    search = calls(("search", {"query": "bike share"}), ids=["s"])
    steps = ["Hello.", search, "Found."]
    async with application(tmp_path, steps, domains=["research"]) as app:
        async with app.new_session() as source:
            await converse(source, "hello", approves)
            await converse(source, "search", approves)
            labels = source.record.labels
        assert "untrusted" in labels
        assert (await app.fork(source.id, 1)).labels == []
        assert (await app.fork(source.id, 2)).labels == labels
        assert (await app.fork(source.id)).labels == labels


async def test_a_turn_that_is_not_there_makes_no_session(tmp_path: Path) -> None:
    async with application(tmp_path, ["Hello."]) as app:
        async with app.new_session() as source:
            await converse(source, "hello", approves)
        with pytest.raises(UsageError, match="has no turn 2"):
            await app.fork(source.id, 2)
        assert [row.id for row in app.store.sessions.list()] == [source.id]


async def test_a_branch_of_a_session_that_was_deleted_goes_on(tmp_path: Path) -> None:
    service = Service()
    model = ScriptedChatModel([act(1), "One.", "Two."])
    async with application(tmp_path, model, tools=service.tools()) as app:
        async with app.new_session() as source:
            await converse(source, "hello", approves)
        made = await app.fork(source.id)
        await app.delete(source.id)
        async with app.open_session(made.id) as branch:
            assert (await converse(branch, "and?", stays_silent)).done.answer == "Two."
