"""Undoing a write is a write: proposed by a person, approved as any other, and only once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from agent.application import Application
from agent.errors import CannotUndo, NotFound, UsageError
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Edits, Rejects, Reviewer, Settles, approves, stays_silent
from agent.events import Done
from agent.models.offline import OfflineChatModel
from agent.models.scripted import ScriptedChatModel
from agent.session import AgentSession, CallsWait
from agent.store.records import ApprovalRecord, EffectRecord
from agent.types import Decision
from tests.support.sessions import application, calls, reads, session
from tests.support.unsure import Number, Service, act
from tools.contract import Call, Committed, Contract, Evidence, Scope, Undo, Unmet, make_tool

TOKEN = "ghp_" + "a1B2" * 9


def workspace(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text)
    return folder


def write(path: str, content: str, id: str | None = None) -> Any:
    return calls(("write_file", {"path": path, "content": content}), ids=[id])


async def undo(opened: AgentSession, effect: str, reviewer: Reviewer) -> Trajectory:
    """Order it, and let the reviewer decide."""
    trajectory = Trajectory([event async for event in opened.undo(effect)])
    return await review(opened, reviewer, trajectory)


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


def last_effect(app: Application) -> EffectRecord:
    return app.store.ledger.list()[0]


# --- files -----------------------------------------------------------------------------------


async def test_what_a_file_was_is_written_back_after_a_person_has_seen_the_difference(
    tmp_path: Path,
) -> None:
    folder = workspace(tmp_path, todo="buy milk\n")
    model = ScriptedChatModel([write("todo.md", "buy bread\n"), "Written.", "Never asked", "Back."])
    async with session(tmp_path / "h", model, domains=["files"], workspace=folder) as (app, opened):
        await converse(opened, "write it", approves)
        written = last_effect(app)
        requests = len(model.requests)
        ordered = Trajectory([event async for event in opened.undo(written.id)])

        assert len(model.requests) == requests  # nobody asked the model about it
        assert ordered.done.state == "waiting"
        assert (folder / "todo.md").read_text() == "buy bread\n"
        (asked,) = opened.pending()
        assert (asked.undoes, asked.rule) == (written.id, "undo")
        assert asked.args == {"path": "todo.md", "content": "buy milk\n"}
        assert asked.reason.startswith(f"It undoes {written.id}, write_file(")
        assert asked.preview is not None
        assert "-buy bread\n+buy milk" in asked.preview["diff"]

        done = await review(opened, approves)
        assert done.done.answer.endswith(" is undone.")
        assert (folder / "todo.md").read_text() == "buy milk\n"
        back = last_effect(app)
        assert (back.state, back.undoes, back.approval) == ("committed", written.id, asked.id)
        trail = {
            entry.kind: entry.data["undoes"]
            for entry in app.store.trail.entries(opened.id)
            if entry.kind in ("approval.asked", "effect.intended")
        }
        assert trail == {"approval.asked": written.id, "effect.intended": written.id}
        assert opened.receipt().done[0].startswith("write_file(")
        assert app.store.trail.verify() == []
        assert (await opened.history())[-4].text.startswith(f"Undo {written.id}, write_file(")


async def test_an_edit_is_turned_back_and_forth(tmp_path: Path) -> None:
    folder = workspace(tmp_path, todo="buy milk\ncall Ann\n")
    edit = ("edit_file", {"path": "todo.md", "old_text": "milk", "new_text": "bread"})
    steps = [calls(edit), "Edited.", "", "Back.", "", "Forth.", "", "And back."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (app, opened):
        await converse(opened, "edit it", approves)
        first = last_effect(app)
        await undo(opened, first.id, approves)
        assert (folder / "todo.md").read_text() == "buy milk\ncall Ann\n"

        second = last_effect(app)
        await undo(opened, second.id, approves)
        assert (folder / "todo.md").read_text() == "buy bread\ncall Ann\n"
        third = last_effect(app)
        assert (second.undoes, third.undoes) == (first.id, second.id)
        with pytest.raises(CannotUndo, match=f"{second.id} undoes it already") as refused:
            await anext(opened.undo(first.id))
        assert f"undo {third.id}" in str(refused.value)

        await review(opened, approves, Trajectory([event async for event in opened.undo()]))
        assert last_effect(app).undoes == third.id
        assert (folder / "todo.md").read_text() == "buy milk\ncall Ann\n"
        with pytest.raises(UsageError, match="nothing to undo"):
            await anext(opened.undo())


async def test_what_somebody_has_changed_since_is_seen_before_it_is_overwritten(
    tmp_path: Path,
) -> None:
    folder = workspace(tmp_path, todo="buy milk\n")
    steps = [write("todo.md", "buy bread\n"), "Written.", "", "Back."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (app, opened):
        await converse(opened, "write it", approves)
        (folder / "todo.md").write_text("sell the car\n")
        await undo(opened, last_effect(app).id, stays_silent)
        (asked,) = opened.pending()
        assert asked.preview is not None
        assert "-sell the car" in asked.preview["diff"]

        opened.decide(asked.id, Decision("approve"))
        (folder / "todo.md").write_text("sell the house\n")
        assert (await resumed(opened)).done.state == "waiting"
        assert (folder / "todo.md").read_text() == "sell the house\n"
        (again,) = opened.pending()
        assert (again.attempt, again.undoes) == (2, asked.undoes)


async def test_a_file_that_was_new_is_removed_by_hand(tmp_path: Path) -> None:
    folder = workspace(tmp_path)
    steps = [write("todo.md", "buy bread\n"), "Written."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (app, opened):
        await converse(opened, "write it", approves)
        before = await opened.history()
        with pytest.raises(CannotUndo, match="by hand"):
            await anext(opened.undo(last_effect(app).id))
        assert await opened.history() == before
        assert opened.record.state == "done"


async def test_what_a_write_replaced_is_known_where_an_edit_sent_it_elsewhere(
    tmp_path: Path,
) -> None:
    folder = workspace(tmp_path, todo="buy milk\n", other="call Ann\n")
    steps = [write("todo.md", "buy bread\n"), "Written.", "", "Back."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (app, opened):
        await converse(opened, "write it", Edits({"path": "other.md"}))
        assert (folder / "other.md").read_text() == "buy bread\n"
        await undo(opened, last_effect(app).id, approves)
        assert (folder / "other.md").read_text() == "call Ann\n"
        assert (folder / "todo.md").read_text() == "buy milk\n"


async def test_and_where_a_rule_let_it_run_unasked(tmp_path: Path) -> None:
    folder = workspace(tmp_path, one="1\n", two="2\n")
    steps = [write("one.md", "x\n"), write("two.md", "x\n"), "Written.", "", "Back."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (app, opened):
        await converse(opened, "write them", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        await resumed(opened)
        assert (folder / "two.md").read_text() == "x\n"
        await undo(opened, last_effect(app).id, approves)
        assert (folder / "two.md").read_text() == "2\n"


async def test_the_offline_model_says_what_was_done_and_does_no_more(tmp_path: Path) -> None:
    folder = workspace(tmp_path, todo="buy milk\n")
    async with session(tmp_path / "h", OfflineChatModel(), domains=["files"], workspace=folder) as (
        app,
        opened,
    ):
        await converse(opened, "replace milk with bread in todo.md", approves)
        written = last_effect(app)
        done = await undo(opened, written.id, approves)
        assert (folder / "todo.md").read_text() == "buy milk\n"
        assert [tool for tool, _ in done.calls] == ["edit_file"]
        assert done.done.state == "done"
        assert done.done.answer.endswith(" is undone.")


# --- orders ----------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False])
async def test_what_can_only_be_undone_by_hand_says_so_before_it_is_approved(
    tmp_path: Path, there: bool
) -> None:
    folder = workspace(tmp_path, **({"todo": "buy milk\n"} if there else {}))
    steps = [write("todo.md", "buy bread\n"), "Written."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (_, opened):
        await converse(opened, "write it", stays_silent)
        (asked,) = opened.pending()
        assert asked.undo is not None
        assert asked.undo.startswith("by hand: ") is not there


async def test_what_has_no_undo_says_so_before_it_is_approved_and_after(tmp_path: Path) -> None:
    cancel = ("cancel_order", {"order_id": "A1", "expected_revision": 1})
    async with session(tmp_path, [reads("A1"), calls(cancel), "Done."]) as (app, opened):
        trajectory = await converse(opened, "cancel A1", approves)
        assert [row.undo for row in trajectory.asked] == [None]
        effect = last_effect(app)
        with pytest.raises(CannotUndo, match="cancel_order has nothing that would undo it"):
            await anext(opened.undo(effect.id))


# --- a service whose numbers can be taken back ------------------------------------------------


def back(write: Committed) -> Call | None:
    return Call("act", {"n": -write.args["n"]})


def undoable(service: Service, **contract: Any) -> list[Any]:
    return service.tools(**{"undo": Undo("takes the number back", back)} | contract)


async def test_an_order_is_a_turn_of_its_own_that_goes_on_in_another_process(
    tmp_path: Path,
) -> None:
    service = Service()
    steps = [act(1), "Done.", "", "Taken back."]
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        session_id = opened.id
        await converse(opened, "go", approves)
        effect = last_effect(app)
        await undo(opened, effect.id, stays_silent)
    async with (
        application(tmp_path, steps, tools=undoable(service)) as app,
        app.open_session(session_id) as opened,
    ):
        assert app.store.sessions.get(session_id).turn == 2
        done = await review(opened, approves)
        assert done.done.answer.endswith(" is undone.")
        assert service.numbers == [1, -1]
        assert last_effect(app).undoes == effect.id


async def test_an_edited_undo_is_one_still(tmp_path: Path) -> None:
    service = Service()
    steps = [act(5), "Done.", "", "Taken back."]
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        await converse(opened, "go", approves)
        effect = last_effect(app)
        await undo(opened, effect.id, Edits({"n": -4}))
        assert service.numbers == [5, -4]
        with pytest.raises(CannotUndo, match=r"undoes it already \(committed\), as a person has"):
            await anext(opened.undo(effect.id))


async def test_a_second_undo_is_refused_while_the_first_waits_and_after_it_happened(
    tmp_path: Path,
) -> None:
    service = Service()
    steps = [act(1), "Done.", "", "Taken back."]
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        await converse(opened, "go", approves)
        effect = last_effect(app)
        await undo(opened, effect.id, stays_silent)
        with pytest.raises(CallsWait):
            await anext(opened.undo(effect.id))
        assert len(opened.pending()) == 1
        await review(opened, approves)
        with pytest.raises(CannotUndo, match=r"undoes it already \(committed\)"):
            await anext(opened.undo(effect.id))
        assert service.numbers == [1, -1]


@pytest.mark.parametrize("how", ["rejected", "failed", "not happened", "expired"])
async def test_an_undo_that_came_to_nothing_may_be_ordered_again(tmp_path: Path, how: str) -> None:
    plans: dict[str, Any] = {
        "failed": ["answers", "busy"],
        "not happened": ["answers", "lost before"],
    }
    service = Service(plan=plans.get(how, ()))
    steps = [act(1), "Done.", "", "It did not work.", "", "Taken back."]
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        await converse(opened, "go", approves)
        effect = last_effect(app)
        await undo(opened, effect.id, Rejects("no") if how == "rejected" else stays_silent)
        if how == "expired":
            app.store.approvals.expire(opened.pending()[0].id, "nobody decided in time")
            await resumed(opened)
        elif how != "rejected":
            await review(opened, approves)
        if how == "not happened":
            with pytest.raises(CannotUndo, match=r"undoes it already \(in_doubt\)"):
                await anext(opened.undo(effect.id))
            settles = Settles(happened=False)(opened.pending()[0])
            assert settles is not None
            opened.decide(opened.pending()[0].id, settles)
        assert service.numbers == [1]

        await undo(opened, effect.id, approves)
        assert service.numbers == [1, -1]
        assert last_effect(app).undoes == effect.id


async def test_what_the_record_found_is_undone_from_what_it_would_have_returned(
    tmp_path: Path,
) -> None:
    service = Service(plan=["lost after"])
    from_result = Undo("takes it back", lambda write: Call("act", {"n": -write.result["n"]}))
    tools = service.tools(undo=from_result, reconcile=service.find)
    async with session(tmp_path, [act(1), "Done.", "", "Back."], tools=tools) as (app, opened):
        await converse(opened, "go", approves)
        await undo(opened, last_effect(app).id, approves)
        assert service.numbers == [1, -1]


async def test_an_undo_that_was_begun_elsewhere_meanwhile_does_not_run(tmp_path: Path) -> None:
    service = Service()
    steps = [act(1), "Done.", "", "It was undone already."]
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        await converse(opened, "go", approves)
        effect = last_effect(app)
        await undo(opened, effect.id, stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        async with app.new_session() as other:
            elsewhere = app.store.ledger.begin(
                session=other.id, epoch=other._lease.current.epoch, turn=1, message="m",
                call="c", tool="act", tool_version="0", args={"n": -1}, digest="d",
                approval="a-1", rule=None, idempotency_key="k", undoes=effect.id,
            ).effect  # fmt: skip
            done = await resumed(opened)
        (call,) = done.results
        assert f"{effect.id} may have been undone by {elsewhere.id}" in done.results[call]
        assert service.numbers == [1]
        assert [row.id for row in app.store.ledger.list(session=opened.id)] == [effect.id]


async def test_another_sessions_write_is_undone_there(tmp_path: Path) -> None:
    service = Service()
    async with (
        application(tmp_path, [act(1), "Done."], tools=undoable(service)) as app,
        app.new_session() as first,
        app.new_session() as second,
    ):
        await converse(first, "go", approves)
        effect = last_effect(app)
        with pytest.raises(NotFound, match=first.id):
            await anext(second.undo(effect.id))
        with pytest.raises(NotFound):
            await anext(second.undo("e-nobody"))
        assert await second.history() == []


# --- who may order it, and who may allow it ---------------------------------------------------


async def test_an_always_rule_does_not_let_an_undo_run_unasked(tmp_path: Path) -> None:
    service = Service()
    tools = undoable(service, always=lambda args: Scope("any number", {}))
    steps = [act(1), "Done.", "", "Taken back.", act(2), "Done."]
    async with session(tmp_path, steps, tools=tools) as (app, opened):
        await converse(opened, "go", stays_silent)
        opened.allow_always(opened.pending()[0].id)
        await resumed(opened)
        ordered = await undo(opened, last_effect(app).id, stays_silent)
        assert ordered.done.state == "waiting"
        assert service.numbers == [1]
        await review(opened, approves)
        assert service.numbers == [1, -1]
        assert last_effect(app).rule is None
        await converse(opened, "two", stays_silent)
        assert service.numbers == [1, -1, 2]  # the rule itself still holds


async def test_an_undo_outside_the_authority_is_denied_and_nobody_is_asked(
    tmp_path: Path,
) -> None:
    service, ran = Service(), list[int]()

    def launch(n: int) -> str:
        """Launch."""
        ran.append(n)
        return "launched"

    rockets = Contract(effects=frozenset({"launch:rockets"}))
    tools = [
        *service.tools(undo=Undo("launches", lambda write: Call("launch", {"n": 1}))),
        make_tool(launch, args=Number, contract=rockets),
    ]
    async with session(tmp_path, [act(1), "Done."], tools=tools) as (app, opened):
        await converse(opened, "go", approves)
        denied = await undo(opened, last_effect(app).id, approves)
        assert denied.asked == []
        assert denied.done.answer == f"{last_effect(app).id} is not undone."
        assert ran == []
        assert app.store.trail.entries(opened.id, kind="call.denied")
        assert denied.done.exit == 5
        assert "launch:rockets" in opened.receipt().not_done[0]


def looked(args: Any, evidence: Sequence[Evidence]) -> Unmet | None:
    """A negative number needs a look at it."""
    seen = any(one.tool == "look" and one.args == args for one in evidence)
    return None if seen or args["n"] > 0 else Unmet("Nobody looked.", Call("look", args))


async def test_what_has_to_be_read_before_an_undo_is_read_and_no_model_is_asked(
    tmp_path: Path,
) -> None:
    service, model = Service(), ScriptedChatModel([act(1), "Done."])
    tools = undoable(service, precondition=looked)
    async with session(tmp_path, model, tools=tools) as (app, opened):
        await converse(opened, "go", approves)
        effect, requests = last_effect(app), len(model.requests)
        done = await undo(opened, effect.id, approves)
        assert done.calls == [("look", {"n": -1}), ("act", {"n": -1})]
        (asked,) = done.asked
        assert (asked.undoes, asked.rule) == (effect.id, "undo")
        assert service.numbers == [1, -1]
        assert last_effect(app).undoes == effect.id
        assert done.done.answer == f"{effect.id} is undone."
        assert len(model.requests) == requests


NOT_PROPOSED: dict[str, tuple[dict[str, Any], str]] = {
    "what it needs is nowhere": ({"precondition": lambda *_: Unmet("It is Sunday.")}, "Sunday"),
    "reading did not help": (
        {"precondition": lambda args, _: Unmet("Still.", Call("look", args))},
        "Still.",
    ),
    "its read is not loaded": (
        {"precondition": lambda args, _: Unmet("Hm.", Call("gone", args))},
        "Hm.",
    ),
    "its arguments do not fit": (
        {"undo": Undo("turns it", lambda write: Call("act", {"n": "one"}))},
        "got 'one'",
    ),
}


@pytest.mark.parametrize(("contract", "why"), NOT_PROPOSED.values(), ids=NOT_PROPOSED)
async def test_an_undo_that_may_not_be_proposed_says_why_and_asks_nobody(
    tmp_path: Path, contract: dict[str, Any], why: str
) -> None:
    service, model = Service(), ScriptedChatModel([act(1), "Done."])
    holds = contract.pop("precondition", None)
    if holds is not None:
        contract["precondition"] = lambda args, seen: holds(args, seen) if args["n"] < 0 else None
    async with session(tmp_path, model, tools=undoable(service, **contract)) as (app, opened):
        await converse(opened, "go", approves)
        effect, requests = last_effect(app), len(model.requests)
        refused = await undo(opened, effect.id, approves)
        assert (refused.asked, refused.done.exit) == ([], 5)
        assert refused.done.answer == f"{effect.id} is not undone."
        (line,) = opened.receipt().not_done
        assert why in line
        assert len(model.requests) == requests
        assert service.numbers == [1]
        assert app.store.ledger.undone_by(effect.id) is None


async def test_an_undo_that_was_edited_is_not_called_done(tmp_path: Path) -> None:
    service = Service()
    async with session(tmp_path, [act(1), "Done."], tools=undoable(service)) as (app, opened):
        await converse(opened, "go", approves)
        effect = last_effect(app)
        done = await undo(opened, effect.id, Edits({"n": -7}))
        assert service.numbers == [1, -7]
        assert done.done.answer.startswith(
            f"Another call ran than the one that was proposed to undo {effect.id}: act(n=-7)."
        )


@pytest.mark.parametrize("happened", [True, False])
async def test_what_is_known_of_an_undo_is_said_and_no_more(tmp_path: Path, happened: bool) -> None:
    service = Service(plan=["answers", "lost after" if happened else "lost before"])
    async with session(tmp_path, [act(1), "Done."], tools=undoable(service)) as (app, opened):
        await converse(opened, "go", approves)
        effect = last_effect(app)
        lost = await undo(opened, effect.id, approves)
        assert lost.done.answer.startswith(f"It is not known whether {effect.id} is undone.")


@pytest.mark.parametrize("happened", [True, False])
async def test_an_undo_that_a_person_has_settled_is_told_as_they_said(
    tmp_path: Path, happened: bool
) -> None:
    service = Service()
    async with session(tmp_path, [act(1), "Done."], tools=undoable(service)) as (app, opened):
        await converse(opened, "go", approves)
        effect = last_effect(app)
        await undo(opened, effect.id, stays_silent)
        (asked,) = opened.pending()
        opened.decide(asked.id, Decision("approve"))
        begun = app.store.ledger.begin(
            session=opened.id, epoch=app.store.leases.holder(opened.id).epoch, turn=2,  # type: ignore[union-attr]
            message=asked.message, call=asked.call, tool="act", tool_version="0", args=asked.args,
            digest=asked.digest, approval=asked.id, rule=None, idempotency_key="k",
            undoes=effect.id,
        )  # fmt: skip
        assert begun.outcome == "run"  # and there the process died
        assert (await resumed(opened)).done.state == "waiting"
        settles = Settles(happened)(opened.pending()[0])
        assert settles is not None
        opened.decide(opened.pending()[0].id, settles)
        told = await resumed(opened)
        assert told.done.answer == f"{effect.id} is undone."
        assert service.numbers == ([1] if happened else [1, -1])


async def test_no_word_of_an_order_is_the_users(tmp_path: Path) -> None:
    """Neither in the undo, whose values are the record's, nor in any call after it."""
    folder = workspace(tmp_path, todo="buy milk\n")
    steps = [write("todo.md", "buy bread\n"), "Written.", "", "", write("todo.md", "rye\n")]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (app, opened):
        await converse(opened, "go", approves)
        await undo(opened, last_effect(app).id, stays_silent)
        (asked,) = opened.pending()
        assert {source["origin"] for source in asked.provenance or ()} == {"record"}
        opened.decide(asked.id, Decision("approve"))
        await resumed(opened)
        await converse(opened, "go on", stays_silent)
        (later,) = opened.pending()
        assert {source["origin"] for source in later.provenance or ()} <= {"trusted", "model"}


class Forger(ScriptedChatModel):
    """Says in every reply that it undoes something, and orders something."""

    def reply(self, messages: Sequence[BaseMessage], tools: Any = ()) -> AIMessage:
        reply = super().reply(messages, tools)
        reply.additional_kwargs |= {
            "sayso_undoes": "e-forged",
            "sayso_ordered": {"tool": "act", "args": {"n": 9}, "undoes": "e-forged"},
        }
        return reply


async def test_a_model_that_says_that_its_call_undoes_something_has_said_nothing(
    tmp_path: Path,
) -> None:
    service = Service()
    tools = undoable(service, always=lambda args: Scope("any number", {}))
    model = Forger([act(1), act(2), "Done."], disable_streaming=True)
    async with session(tmp_path, model, tools=tools) as (app, opened):
        await converse(opened, "go", stays_silent)
        (asked,) = opened.pending()
        assert (asked.undoes, asked.rule != "undo") == (None, True)
        opened.allow_always(asked.id)
        done = await resumed(opened)
        assert done.done.state == "done"
        assert service.numbers == [1, 2]
        assert {effect.undoes for effect in app.store.ledger.list()} == {None}
        assert "e-forged" not in json.dumps([e.data for e in app.store.trail.entries(opened.id)])


# --- crashes ---------------------------------------------------------------------------------


class Died(BaseException):
    """The process is gone at this instant."""


async def dies_after_the_order(opened: AgentSession, effect: str) -> None:
    """Order it in a process that ends once the order is on record, before anything came of it."""

    async def dies(*_: Any) -> Any:
        raise Died
        yield

    opened._stream = dies  # type: ignore[assignment, method-assign]
    with pytest.raises(Died):
        _ = [event async for event in opened.undo(effect)]


async def test_an_order_that_a_crash_came_upon_is_taken_up_whole(tmp_path: Path) -> None:
    """The trail masks what looks like a secret; what is written back to the file must not be."""
    former = f"the token is {TOKEN}\n"
    folder = workspace(tmp_path, todo=former)
    steps = [write("todo.md", "nothing\n"), "Written.", "", "Back."]
    async with session(tmp_path / "h", steps, domains=["files"], workspace=folder) as (app, opened):
        session_id = opened.id
        await converse(opened, "write it", approves)
        effect = last_effect(app)
        await dies_after_the_order(opened, effect.id)
        order = app.store.trail.entries(session_id, kind="turn.started")[-1].data["ordered"]
        assert TOKEN not in json.dumps(order)
    async with (
        application(tmp_path / "h", steps, domains=["files"], workspace=folder) as app,
        app.open_session(session_id) as opened,
    ):
        waiting = await resumed(opened)
        assert waiting.done.state == "waiting"
        (asked,) = opened.pending()
        assert (asked.undoes, asked.args["content"]) == (effect.id, former)
        done = await review(opened, approves)
        assert [event.answer for event in done.of(Done)][-1].endswith(" is undone.")
        assert (folder / "todo.md").read_text() == former
        assert last_effect(app).undoes == effect.id


async def test_an_order_that_cannot_be_taken_up_any_more_says_so_and_the_next_turn_works(
    tmp_path: Path,
) -> None:
    service, steps = Service(), [act(1), "Done.", "Here I am."]
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        session_id = opened.id
        await converse(opened, "go", approves)
        await dies_after_the_order(opened, last_effect(app).id)
        app.store.sessions.update(session_id, state="interrupted")
    without = undoable(service, undo=None)
    async with (
        application(tmp_path, steps, tools=without) as app,
        app.open_session(session_id) as opened,
    ):
        with pytest.raises(CannotUndo, match="nothing that would undo it"):
            await resumed(opened)
        assert app.store.sessions.get(session_id).state == "interrupted"
        again = await converse(opened, "are you there?", approves)
        assert again.done.answer == "Here I am."
        assert service.numbers == [1]


async def test_a_crash_while_the_undo_waits_loses_nothing(tmp_path: Path) -> None:
    service, steps = Service(), [act(1), "Done.", "", "Taken back."]
    asked: list[ApprovalRecord] = []
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        session_id = opened.id
        await converse(opened, "go", approves)
        await undo(opened, last_effect(app).id, stays_silent)
        asked += opened.pending()
        app.store.sessions.update(session_id, state="running")  # as a killed process leaves it
    async with (
        application(tmp_path, steps, tools=undoable(service)) as app,
        app.open_session(session_id) as opened,
    ):
        assert (await resumed(opened)).done.state == "waiting"
        assert opened.pending() == asked
        await review(opened, approves)
        assert service.numbers == [1, -1]


@pytest.mark.parametrize("comment", ["keep it", ""])
async def test_a_rejected_undo_ends_its_turn_and_says_that_it_is_not_undone(
    tmp_path: Path, comment: str
) -> None:
    service = Service()
    steps = [act(1), "Done.", "", "Nobody asks the model."]
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        await converse(opened, "act", approves)
        effect = last_effect(app)
        _ = [event async for event in opened.undo(effect.id)]
        after = await review(opened, Rejects(comment))
        assert after.done.answer.startswith(f"{effect.id} is not undone. ")
        assert comment in after.done.answer
        assert last_effect(app).id == effect.id


async def test_the_last_write_is_not_passed_over_while_its_undo_is_in_doubt(tmp_path: Path) -> None:
    service = Service(plan=["answers", "answers", "lost before"])
    steps = [act(1), "One.", act(2), "Two.", "", "Hm."]
    async with session(tmp_path, steps, tools=undoable(service)) as (app, opened):
        await converse(opened, "go", approves)
        await converse(opened, "go on", approves)
        second = last_effect(app)
        await undo(opened, second.id, approves)
        (doubt,) = app.store.ledger.open_doubts(opened.id)
        with pytest.raises(CannotUndo, match=f"may be undone by {doubt.id}") as refused:
            await anext(opened.undo())
        assert second.id in str(refused.value)
