"""Sessions with an MCP server: its questions, progress, log, pictures, resources and prompts."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent import inbox
from agent.application import Application, Options
from agent.artifacts import files_in
from agent.errors import InvalidDecision, LeaseLost, McpError, NotFound
from agent.events import ApprovalAsked, CallFinished, CallProgress, Done, Event
from agent.mcp.pins import Change, Pins
from agent.mcp.servers import ServerConfig, Stdio
from agent.models.scripted import call, step
from agent.session import AgentSession
from agent.store.records import ApprovalRecord
from agent.types import Attachment, Decision
from tests.support.sessions import application, session

SERVER = Path(__file__).parents[1] / "mcp" / "guide_server.py"
GUIDE = ServerConfig("guide", Stdio(sys.executable, (str(SERVER),)), trusted=True, timeout=60)
OPTIONS = Options(via="test", servers=(GUIDE,))
BOOK = step(call("guide__book", city="Lisbon"))
STAY = {"nights": 3, "room": "double", "view": True}

Answer = Callable[[ApprovalRecord], Decision | None]


async def drive(
    app: Application, opened: AgentSession, text: str, answer: Answer, **more: Any
) -> list[Event]:
    """A turn in which every write is approved and every question is answered as given."""
    seen: list[Event] = []
    events = opened.run(text, **more)
    while True:
        async for event in events:
            seen.append(event)
            if isinstance(event, ApprovalAsked) and event.approval.kind == "elicitation":
                decision = answer(event.approval)
                if decision is not None:
                    decide(app, event.approval, decision)
        waiting = [a for a in opened.pending() if a.kind == "write"]
        if not waiting:
            return seen
        for approval in waiting:
            opened.decide(approval.id, Decision("approve"))
        events = opened.resume()


def decide(app: Application, approval: ApprovalRecord, decision: Decision) -> ApprovalRecord:
    """As another process would: through the store."""
    return inbox.decide(app.store, [(approval.id, decision)], app.actor, lambda name: None)[0]


def results(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, CallFinished)]


def questions(app: Application, opened: AgentSession) -> list[ApprovalRecord]:
    return app.store.approvals.list(status=None, session=opened.id, kind="elicitation")


async def test_a_question_is_answered_while_the_call_runs(sayso_home: Path) -> None:
    async with session(sayso_home, [BOOK, "Booked."], options=OPTIONS) as (app, opened):
        said = Decision("respond", message=json.dumps(STAY))
        events = await drive(app, opened, "book it", lambda approval: said)
        assert "booked 3 nights, double, view: True" in results(events)[-1]
        (asked,) = questions(app, opened)
        assert (asked.status, asked.tool, asked.decided_by) == ("answered", "guide", "ana")
        assert asked.args["message"] == "How do you want to stay in Lisbon?"
        kinds = [(e.kind, e.data.get("kind")) for e in app.store.trail.entries(opened.id)]
        assert ("approval.asked", "elicitation") in kinds
        assert ("approval.decided", "elicitation") in kinds


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("three nights", "a JSON object is needed, with nights, room, view"),
        ('{"nights": 3}', "room is required: one of single, double."),
        ('{"nights": "3", "room": "double"}', 'nights takes a whole number. "3" does not fit.'),
        ('{"nights": 3, "room": "suite"}', "room takes one of single, double."),
        ('{"nights": 3, "room": "double", "card": 1}', "'card' is not asked for"),
    ],
)
async def test_an_answer_that_does_not_fit_changes_nothing(
    sayso_home: Path, message: str, why: str
) -> None:
    async with session(sayso_home, [BOOK, "Done."], options=OPTIONS) as (app, opened):

        def answer(approval: ApprovalRecord) -> Decision:
            with pytest.raises(InvalidDecision, match="Nothing was decided") as refused:
                decide(app, approval, Decision("respond", message=message))
            assert why in str(refused.value)
            with pytest.raises(InvalidDecision):
                decide(app, approval, Decision("approve"))
            return Decision("reject", message="no")

        events = await drive(app, opened, "book it", answer)
        assert "not booked: decline" in results(events)[-1]


async def test_a_secret_is_never_asked_for(sayso_home: Path) -> None:
    steps = [step(call("guide__sign_in")), "No."]
    async with session(sayso_home, steps, options=OPTIONS) as (app, opened):
        told: list[str] = []
        app.on_notice = told.append
        events = await drive(app, opened, "sign in", lambda approval: pytest.fail("it was asked"))
        assert len(told) == 1
        assert "sign-in: decline" in results(events)[-1]
        assert questions(app, opened) == []
        assert any("declined" in notice and "'password'" in notice for notice in app.notices)


@pytest.mark.parametrize(
    ("decision", "action"),
    [(Decision("respond", message="done"), "accept"), (Decision("reject"), "decline")],
)
async def test_an_address_is_the_persons_to_open(
    sayso_home: Path, decision: Decision, action: str
) -> None:
    steps = [step(call("guide__pay")), "So."]
    async with session(sayso_home, steps, options=OPTIONS) as (app, opened):
        events = await drive(app, opened, "pay", lambda approval: decision)
        assert f"payment: {action}" in results(events)[-1]
        (asked,) = questions(app, opened)
        url = "https://pay.example/visit?for=guide"
        assert asked.args == {"message": "Please pay there.", "url": url}


async def test_what_is_no_web_address_is_not_shown_to_be_opened(sayso_home: Path) -> None:
    steps = [step(call("guide__pay", url="file:///etc/passwd")), "So."]
    async with session(sayso_home, steps, options=OPTIONS) as (app, opened):
        events = await drive(app, opened, "pay", lambda approval: pytest.fail("it was asked"))
        assert "payment: decline" in results(events)[-1]


async def test_where_nobody_can_be_asked_the_server_learns_so(sayso_home: Path) -> None:
    headless = Options(via="test", servers=(GUIDE,), asks=False)
    async with session(sayso_home, [BOOK, "No."], options=headless) as (app, opened):
        events = await drive(app, opened, "book it", lambda approval: pytest.fail("it was asked"))
        assert "booked" not in results(events)[-1].replace("not booked", "")
        assert isinstance(events[-1], Done)


@pytest.mark.parametrize("presses", [1, 2])
async def test_a_question_ends_with_its_turn(sayso_home: Path, presses: int) -> None:
    async with session(sayso_home, [BOOK, "Done."], options=OPTIONS) as (app, opened):

        def answer(approval: ApprovalRecord) -> None:
            for _ in range(presses):  # the first one ends the question, and with it the call
                opened.request_stop()

        events = await drive(app, opened, "book it", answer)
        assert isinstance(events[-1], Done)
        assert events[-1].state == "interrupted"
        (asked,) = questions(app, opened)
        assert (asked.status, asked.comment) == ("expired", "the call that asked is over")
        with pytest.raises(Exception, match="expired"):
            decide(app, asked, Decision("respond", message=json.dumps(STAY)))


async def test_a_question_of_a_process_that_ended_expires(sayso_home: Path) -> None:
    async with session(sayso_home, [BOOK, "Done."], options=OPTIONS) as (app, opened):
        app.store.approvals.ask(
            session=opened.id,
            turn=1,
            message="",
            call="c/1",
            kind="elicitation",
            interrupt=None,
            tool="guide",
            tool_version="",
            args={"message": "?", "schema": {"type": "object", "properties": {}}},
            digest="d",
            effects=[],
            rule="",
            reason="",
            notes=[],
            preview=None,
            provenance=None,
            undo=None,
        )
        said = Decision("respond", message=json.dumps(STAY))
        await drive(app, opened, "book it", lambda approval: said)
        assert sorted(row.status for row in questions(app, opened)) == ["answered", "expired"]
        assert opened.pending() == []


@pytest.mark.parametrize("decision", [Decision("respond", message="done"), Decision("reject")])
async def test_a_decision_that_a_killed_process_did_not_send_is_recorded_and_told(
    sayso_home: Path, decision: Decision
) -> None:
    steps = [step(call("guide__pay")), "So."]
    async with session(sayso_home, steps, options=OPTIONS) as (app, opened):
        await drive(app, opened, "pay", lambda approval: Decision("respond", message="done"))
        id_, (sent,) = opened.id, questions(app, opened)
        asked = sent.model_dump(include=set(inspect.signature(app.store.approvals.ask).parameters))
        lost = app.store.approvals.ask(**{**asked, "call": "c/1"})
        decide(app, lost, decision)  # and the process is killed before it looks

    def recorded(app: Application) -> list[tuple[str, str]]:
        kinds = ("approval.sent", "approval.not_sent")
        entries = app.store.trail.entries(id_)
        return [(e.kind, e.data["approval"]) for e in entries if e.kind in kinds]

    for notices in (1, 0):  # the next one has nothing to add
        async with application(sayso_home, []) as app, app.open_session(id_):
            assert recorded(app) == [("approval.sent", sent.id), ("approval.not_sent", lost.id)]
            told = [one for one in app.notices if "did not get your answer" in one]
            assert len(told) == notices
            assert all(f"MCP server guide did not get your answer to {lost.id}" in t for t in told)
            assert app.store.trail.verify(id_) == []


async def test_progress_is_told_and_the_log_is_kept(sayso_home: Path) -> None:
    steps = [step(call("guide__survey", steps=3)), "Done."]
    async with session(sayso_home, steps, options=OPTIONS) as (app, opened):
        events = await drive(app, opened, "look around", lambda approval: None)
        progress = [e for e in events if isinstance(e, CallProgress)]
        assert [(e.done, e.total, e.text) for e in progress] == [
            (n, 3, f"place {n}") for n in (1, 2, 3)
        ]
        assert {e.tool for e in progress} == {"guide__survey"}
        logged = app.store.trail.entries(opened.id, kind="mcp.log")
        assert [(e.data["server"], e.data["level"], e.data["logger"]) for e in logged] == [
            ("guide", "info", "survey")
        ] * 3
        assert app.store.trail.verify(opened.id) == []


async def test_what_a_server_logs_has_no_secret_of_its_call_or_its_own(sayso_home: Path) -> None:
    page = call("guide__members_page", user="ann", password="hunter2hunter2")
    async with session(sayso_home, [step(page), "Done."], options=OPTIONS) as (app, opened):
        await drive(app, opened, "what is new?", lambda approval: None)
        plain, structured, own = (
            entry.data["data"] for entry in app.store.trail.entries(opened.id, kind="mcp.log")
        )
        assert "ann comes with «masked»" in plain
        assert "login" in structured
        assert '"as": "«masked»"' in own
        kept = json.dumps([*app.store.trail.export(opened.id)])
        assert "hunter2" not in kept
        assert "0kzmq7w1" not in kept


async def test_a_picture_is_kept_in_a_file_until_its_session_is_deleted(sayso_home: Path) -> None:
    steps = [step(call("guide__picture")), "A view."]
    async with session(sayso_home, steps, options=OPTIONS) as (app, opened):
        events = await drive(app, opened, "show me", lambda approval: None)
        assert "a view of the sea\n[image, image/png," in results(events)[-1]
        message = next(m for m in await opened.history() if m.type == "tool")
        (file,) = map(Path, files_in(message.artifact))
        assert file.read_bytes().startswith(b"\x89PNG")
        assert file.stat().st_mode & 0o777 == 0o600
        assert "data" not in json.dumps(message.artifact)
        id_ = opened.id
    async with session(sayso_home, [], options=OPTIONS) as (app, _):
        await app.delete(id_)
    assert not file.exists()


async def test_a_resource_goes_along_marked_and_labels_the_session(sayso_home: Path) -> None:
    steps: list[Any] = [lambda messages: step(f"I read: {messages[-1].text}")]
    async with session(sayso_home, steps, options=OPTIONS) as (app, opened):
        found = await app.servers.resources("guide")
        assert [(r.uri, r.template) for r in found] == [
            ("guide://cities", False),
            ("guide://city/{name}", True),
        ]
        assert await app.servers.read("guide", "guide://city/Porto") == "Porto is by the sea."
        text = await app.servers.read("guide", "guide://cities")
        attached = [Attachment("guide://cities of guide", text)]
        events = await drive(app, opened, "where to?", lambda approval: None, attached=attached)
        done = events[-1]
        assert isinstance(done, Done)
        assert "where to?\n\n[untrusted content from guide://cities of guide" in done.answer
        assert "99 nights.\n[end of untrusted content]" in done.answer
        assert opened.record.labels == ["private", "untrusted"]
        (human, _) = await opened.history()
        assert human.text == "where to?", "the history keeps the user's own words"


async def test_a_value_of_a_resource_is_not_the_users_word(sayso_home: Path) -> None:
    steps = [step(call("guide__book", city="Lisbon")), "Done."]
    async with session(sayso_home, steps, options=OPTIONS) as (_, opened):
        attached = [Attachment("guide://cities of guide", "Lisbon")]
        async for _ in opened.run("book the first one", attached=attached):
            pass
        (approval,) = opened.pending()
        assert approval.provenance == [
            {
                "path": "city",
                "origin": "untrusted",
                "tool": "guide://cities of guide",
                "where": "guide://cities of guide",
                "passage": "Lisbon",
                "private": True,
            }
        ]


async def test_what_cannot_be_read_says_why(sayso_home: Path) -> None:
    async with session(sayso_home, [], options=OPTIONS) as (app, _):
        with pytest.raises(NotFound, match="There is: guide"):
            await app.servers.resources("gide")
        with pytest.raises(McpError, match="guide://nowhere"):
            await app.servers.read("guide", "guide://nowhere")
        with pytest.raises(McpError, match="is no URI"):
            await app.servers.read("guide", "nowhere")
        with pytest.raises(McpError, match="needs city=…"):
            await app.servers.prompt("guide", "itinerary", ["days=3"])
        with pytest.raises(McpError, match="it takes city=…, days=…"):
            await app.servers.prompt("guide", "itinerary", ["town=Rome"])
        text = await app.servers.prompt("guide", "itinerary", ["city=Rome", "days=3"])
        assert text == "Plan 3 days in Rome, day by day."


async def test_a_session_says_that_its_servers_tools_are_others_now(sayso_home: Path) -> None:
    pins = Pins(sayso_home)
    pins.confirm(GUIDE, "ana")
    async with session(sayso_home, [], options=OPTIONS) as (app, opened):
        assert app.changes(opened.record) == []
        id_ = opened.id
    definitions = pins.definitions(GUIDE) or {}
    pins.pin(GUIDE, [{**one, "description": "New."} for one in definitions.values()], "ana")
    async with session(sayso_home, [], options=OPTIONS) as (app, _):
        (said,) = app.changes(app.store.sessions.get(id_))
        assert "The tools of the MCP server guide are not what they were" in said


async def test_servers_that_are_pinned_are_not_started_for_their_tools(sayso_home: Path) -> None:
    Pins(sayso_home).confirm(GUIDE, "ana")
    async with session(sayso_home, [], options=OPTIONS) as (app, _):
        tools = {tool.name for tool in app.tools}
        assert app.servers.servers[0].state == "ready"
    async with session(sayso_home, ["Hello."], options=OPTIONS) as (app, opened):
        assert {tool.name for tool in app.tools} == tools
        await drive(app, opened, "hello", lambda approval: None)
        assert app.servers.servers[0].state == "not reached yet"
        app.warm()
        while app.servers.servers[0].state != "ready":  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)


async def test_a_tool_that_was_held_is_not_offered_before_its_server_is_reached(
    sayso_home: Path,
) -> None:
    pins = Pins(sayso_home)
    pins.confirm(GUIDE, "ana")
    async with session(sayso_home, [], options=OPTIONS) as (app, _):
        assert "guide__book" in {tool.name for tool in app.tools}
    pins.note(GUIDE, [Change("book", "changed")])
    async with session(sayso_home, [], options=OPTIONS) as (app, _):
        assert "guide__book" not in {tool.name for tool in app.tools}
        assert app.servers.servers[0].state == "not reached yet"
        await app.servers.resources("guide")  # it is reached, and is as it was pinned
        assert "guide__book" in {tool.name for tool in app.tools}


async def approved(home: Path) -> str:
    """A session whose write was approved and has not run: its id."""
    async with session(home, [BOOK], options=OPTIONS) as (app, opened):
        async for _ in opened.run("book it"):
            pass
        (approval,) = opened.pending()
        decide(app, approval, Decision("approve"))
        return opened.id


async def refused_as_another(home: Path, id_: str, options: Options) -> None:
    """Carry the session on: the approval is for another tool, so nothing is even begun."""
    async with (
        application(home, [BOOK, "So."], options=options) as app,
        app.open_session(id_) as opened,
    ):
        events = [event async for event in opened.resume()]
        said = "has changed since this call was approved, so the call was not run"
        assert said in results(events)[-1]
        assert app.store.ledger.list(session=id_) == []


async def test_an_approval_holds_for_the_definition_that_was_shown(sayso_home: Path) -> None:
    pins = Pins(sayso_home)
    pins.confirm(GUIDE, "ana")
    id_ = await approved(sayso_home)
    definitions = pins.definitions(GUIDE) or {}
    pins.pin(GUIDE, [{**one, "description": "Other words."} for one in definitions.values()], "ana")
    await refused_as_another(sayso_home, id_, OPTIONS)


async def test_an_approval_holds_for_the_server_that_was_shown(sayso_home: Path) -> None:
    id_ = await approved(sayso_home)
    other = replace(GUIDE, transport=Stdio(sys.executable, ("-P", str(SERVER))))
    await refused_as_another(sayso_home, id_, replace(OPTIONS, servers=(other,)))


async def test_a_question_of_a_dead_process_cannot_be_answered(sayso_home: Path) -> None:
    async with session(sayso_home, [BOOK, "Done."], options=OPTIONS) as (app, opened):
        asked: list[ApprovalRecord] = []

        def answer(approval: ApprovalRecord) -> None:
            asked.append(approval)
            # As kill -9 would: the question stays, and nobody has the session.
            lease = app.store.leases.holder(opened.id)
            assert lease is not None
            app.store.leases.release(lease)
            with pytest.raises(InvalidDecision, match="would reach nobody"):
                decide(app, approval, Decision("respond", message=json.dumps(STAY)))
            opened.request_stop()
            opened.request_stop()

        with contextlib.suppress(LeaseLost):
            await drive(app, opened, "book it", answer)
        assert app.store.approvals.get(asked[0].id).status == "expired"
