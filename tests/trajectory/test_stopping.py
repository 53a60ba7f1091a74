"""Ctrl-C at every moment: the session opens again, its history is valid, no write is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from pydantic import BaseModel

from agent.evals.driving import Trajectory, converse
from agent.evals.reviewers import Settles, approves, stays_silent
from agent.events import Event
from agent.middleware import writes
from agent.models.scripted import ScriptedChatModel
from agent.session import AgentSession
from agent.types import Decision
from tests.support.sessions import application, calls, session
from tools.contract import Contract, make_tool


class Number(BaseModel):
    n: int


class Gate:
    """A point at which something has begun and waits to be let on."""

    def __init__(self) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await self.open.wait()


def tool(gate: Gate, effect: str, ran: list[str]) -> Any:
    async def act(n: int) -> str:
        """Act."""
        ran.append("begun")
        await gate()
        ran.append("ended")
        return f"acted on {n}"

    contract = Contract(effects=frozenset({effect}), open_world=False)
    return make_tool(act, args=Number, contract=contract)


@asynccontextmanager
async def running(events: AsyncIterator[Event]) -> AsyncIterator[asyncio.Task[Trajectory]]:
    async def collect() -> Trajectory:
        return Trajectory([event async for event in events])

    task = asyncio.create_task(collect())
    yield task
    await task


def answered(messages: list[Any]) -> bool:
    asked = {c["id"] for m in messages if isinstance(m, AIMessage) for c in m.tool_calls}
    return asked == {m.tool_call_id for m in messages if isinstance(m, ToolMessage)}


async def test_a_stop_while_the_model_speaks_is_immediate_and_the_next_turn_works(
    tmp_path: Path,
) -> None:
    gate = Gate()

    class Slow(ScriptedChatModel):
        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk
                if len(messages) == 2:
                    await gate()

    model = Slow(["Once upon a time", "The end."])
    async with session(tmp_path, model) as (app, opened):
        async with running(opened.run("tell me a story")) as turn:
            await gate.reached.wait()
            assert opened.request_stop() == "Stopping now."
        assert turn.result().done.state == "interrupted"
        assert turn.result().done.exit == 130
        assert app.store.sessions.get(opened.id).state == "interrupted"

        again = await converse(opened, "shorter", approves)
        assert again.done.answer == "Once upon a time"
        assert [m.type for m in await opened.history()] == ["human", "human", "ai"]


async def test_a_stop_while_the_model_thinks_about_results_is_immediate_too(
    tmp_path: Path,
) -> None:
    thinks, ran = Gate(), list[str]()

    class Slow(ScriptedChatModel):
        async def _astream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
            if messages[-1].type == "tool":
                await thinks()
            async for chunk in super()._astream(messages, *args, **kwargs):
                yield chunk

    ready = Gate()
    ready.open.set()
    model = Slow([calls(("act", {"n": 1})), "Done."])
    async with session(tmp_path, model, tools=[tool(ready, "read:n", ran)]) as (_, opened):
        async with running(opened.run("act")) as turn:
            await thinks.reached.wait()
            assert opened.request_stop() == "Stopping now."
        assert turn.result().done.state == "interrupted"
        assert ran == ["begun", "ended"]

        thinks.open.set()
        resumed = Trajectory([event async for event in opened.resume()])
        assert resumed.done.answer == "Done."


async def test_a_stop_before_the_first_step_ends_the_turn_and_the_message_is_not_lost(
    tmp_path: Path,
) -> None:
    async with session(tmp_path, ["Hello."]) as (_, opened):
        loop = asyncio.get_running_loop()
        async with running(opened.run("hello there")) as turn:
            loop.call_soon(opened.request_stop)
        assert turn.result().done.state == "interrupted"
        assert await opened.history() == []

        resumed = Trajectory([event async for event in opened.resume()])
        assert (resumed.done.state, resumed.done.answer) == ("done", "Hello.")
        assert [m.text for m in await opened.history()] == ["hello there", "Hello."]


async def test_a_stop_while_an_approved_call_runs_waits_for_it(tmp_path: Path) -> None:
    gate, ran = Gate(), list[str]()
    steps = [calls(("act", {"n": 1}), ids=["a"]), "Done."]
    async with session(tmp_path, steps, tools=[tool(gate, "write:n", ran)]) as (app, opened):
        await converse(opened, "act", stays_silent)
        async with running(await _approved(opened)) as turn:
            await gate.reached.wait()
            assert "as soon as" in opened.request_stop()
            gate.open.set()
        assert turn.result().done.state == "interrupted"
        assert [effect.state for effect in app.store.ledger.list()] == ["committed"]


async def test_a_stop_while_a_tool_runs_waits_for_it_and_ends_before_the_next_model_call(
    tmp_path: Path,
) -> None:
    gate, ran = Gate(), list[str]()
    steps = [calls(("act", {"n": 1})), "Done."]
    async with session(tmp_path, steps, tools=[tool(gate, "read:n", ran)]) as (_, opened):
        async with running(opened.run("act")) as turn:
            await gate.reached.wait()
            assert "as soon as" in opened.request_stop()
            gate.open.set()
        assert turn.result().done.state == "interrupted"
        assert ran == ["begun", "ended"]
        assert answered(await opened.history())

        resumed = Trajectory([event async for event in opened.resume()])
        assert resumed.done.answer == "Done."


async def test_a_second_stop_ends_a_read_at_once_and_a_new_message_finds_a_valid_history(
    tmp_path: Path,
) -> None:
    gate, ran = Gate(), list[str]()
    steps = [calls(("act", {"n": 1})), "Something else."]
    async with session(tmp_path, steps, tools=[tool(gate, "read:n", ran)]) as (_, opened):
        async with running(opened.run("act")) as turn:
            await gate.reached.wait()
            opened.request_stop()
            assert opened.request_stop() == "Stopping now."
        assert turn.result().done.state == "interrupted"
        assert ran == ["begun"]

        other = await converse(opened, "never mind", approves)
        assert other.done.answer == "Something else."
        assert answered(await opened.history())


async def _approved(opened: AgentSession) -> AsyncIterator[Event]:
    opened.decide(opened.pending()[0].id, Decision("approve"))
    return opened.resume()


async def test_a_hard_stop_gives_a_write_its_moment_and_its_outcome_is_recorded(
    tmp_path: Path,
) -> None:
    gate, ran = Gate(), list[str]()
    steps = [calls(("act", {"n": 1}), ids=["a"]), "Done."]
    async with session(tmp_path, steps, tools=[tool(gate, "write:n", ran)]) as (app, opened):
        await converse(opened, "act", stays_silent)
        async with running(await _approved(opened)) as turn:
            await gate.reached.wait()
            opened.request_stop()
            opened.request_stop()
            gate.open.set()
        assert turn.result().done.state == "interrupted"
        assert app.store.ledger.list()[0].state == "committed"

        resumed = Trajectory([event async for event in opened.resume()])
        assert resumed.results["a"] == "acted on 1"
        assert ran == ["begun", "ended"]


async def test_a_write_that_does_not_end_in_its_moment_is_in_doubt_and_never_repeated(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(writes, "GRACE", 0.01)
    gate, ran = Gate(), list[str]()
    steps = [calls(("act", {"n": 1}), ids=["a"]), "Done."]
    tools = [tool(gate, "write:n", ran)]
    async with session(tmp_path, steps, tools=tools) as (app, opened):
        session_id = opened.id
        await converse(opened, "act", stays_silent)
        async with running(await _approved(opened)) as turn:
            await gate.reached.wait()
            opened.request_stop()
            opened.request_stop()
        assert turn.result().done.state == "interrupted"
        assert app.store.ledger.list()[0].state == "in_doubt"

    async with (
        application(tmp_path, steps, tools=tools) as app,
        app.open_session(session_id) as opened,
    ):
        waiting = Trajectory([event async for event in opened.resume()])
        assert waiting.done.state == "waiting"
        assert [a.kind for a in opened.pending()] == ["in_doubt"]
        settled = Settles(happened=True)(opened.pending()[0])
        assert settled is not None
        opened.decide(opened.pending()[0].id, settled)
        done = Trajectory([event async for event in opened.resume()])
        assert done.done.state == "done"
        assert ran == ["begun"]


async def test_what_a_thread_still_does_after_a_hard_stop_is_evidence(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(writes, "GRACE", 0.01)
    entered, goes_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def act(n: int) -> str:
        """Act."""
        loop.call_soon_threadsafe(entered.set)
        goes_on.wait()
        return f"acted on {n}"

    contract = Contract(effects=frozenset({"write:n"}), open_world=False)
    steps = [calls(("act", {"n": 1}), ids=["a"]), "Done."]
    tools = [make_tool(act, args=Number, contract=contract)]
    async with session(tmp_path, steps, tools=tools) as (app, opened):
        await converse(opened, "act", stays_silent)
        async with running(await _approved(opened)) as turn:
            await entered.wait()
            opened.request_stop()
            opened.request_stop()
        assert turn.result().done.state == "interrupted"
        (effect,) = app.store.ledger.list()
        assert effect.state == "in_doubt"

        recorded, finish = asyncio.Event(), app.store.ledger.finish

        def noticed(*args: Any, **kwargs: Any) -> Any:
            recorded.set()
            return finish(*args, **kwargs)

        monkeypatch.setattr(app.store.ledger, "finish", noticed)
        goes_on.set()
        await asyncio.wait_for(recorded.wait(), 30)
        assert app.store.ledger.get(effect.id).state == "committed"
        resumed = Trajectory([event async for event in opened.resume()])
        assert resumed.results["a"] == "acted on 1"


async def test_a_reader_that_goes_away_leaves_the_session_in_order(tmp_path: Path) -> None:
    gate, ran = Gate(), list[str]()
    steps = [calls(("act", {"n": 1})), "Done."]
    async with session(tmp_path, steps, tools=[tool(gate, "read:n", ran)]) as (app, opened):
        events = opened.run("act")
        await anext(events)
        await events.aclose()

        assert app.store.sessions.get(opened.id).state == "interrupted"
        gate.open.set()
        resumed = Trajectory([event async for event in opened.resume()])
        assert resumed.done.answer == "Done."


async def test_a_stop_when_nothing_runs_says_so(tmp_path: Path) -> None:
    async with session(tmp_path, ["Hello."]) as (_, opened):
        assert opened.request_stop() == "Nothing is running."
        await converse(opened, "hello", approves)
        assert opened.request_stop() == "Nothing is running."


async def test_many_sessions_at_once_share_one_database_without_losing_anything(
    tmp_path: Path,
) -> None:
    steps = [calls(("act", {"n": 1}), ("act", {"n": 2})), "Done."]
    gate, ran = Gate(), list[str]()
    gate.open.set()
    async with application(tmp_path, steps, tools=[tool(gate, "write:n", ran)]) as app:

        async def one() -> str:
            async with app.new_session() as opened:
                return (await converse(opened, "act", approves)).done.state

        states = await asyncio.gather(*(one() for _ in range(25)))
        assert states == ["done"] * 25
        assert ran.count("ended") == 50
        effects = app.store.ledger.list(limit=100)
        assert [effect.state for effect in effects] == ["committed"] * 50
        assert app.store.trail.verify() == []


async def test_labels_of_what_was_read_before_a_crash_are_not_lost(tmp_path: Path) -> None:
    gate, ran = Gate(), list[str]()
    gate.open.set()
    down = iter([True, False])

    def flaky(messages: Any) -> str:
        if next(down):
            raise ConnectionError("down")
        return "Done."

    steps = [calls(("act", {"n": 1})), flaky]
    async with session(tmp_path, steps, tools=[tool(gate, "read:n", ran)]) as (app, opened):
        await converse(opened, "read", approves)
        app.store.sessions.update(opened.id, labels=[])  # as a killed process leaves it
        opened._seen = None
        _ = [event async for event in opened.resume()]

        assert app.store.sessions.get(opened.id).labels == ["private"]


async def test_after_the_first_stop_no_write_begins_that_had_not(tmp_path: Path) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()
    ran: list[int] = []

    async def act(n: int) -> str:
        """Change something."""
        ran.append(n)
        entered.set()
        await go_on.wait()
        return "changed"

    class Number(BaseModel):
        n: int

    contract = Contract(effects=frozenset({"write:n"}), conflict_key=lambda args: "n")
    steps = [calls(("act", {"n": 1}), ("act", {"n": 2})), "Done."]
    tools = [make_tool(act, args=Number, contract=contract)]
    async with session(tmp_path, steps, tools=tools) as (app, opened):
        await converse(opened, "go", stays_silent)
        for asked in opened.pending():
            opened.decide(asked.id, Decision("approve"))

        async def resumed() -> Trajectory:
            return Trajectory([event async for event in opened.resume()])

        driving = asyncio.create_task(resumed())
        await entered.wait()
        assert "as soon as the running calls have ended" in opened.request_stop()
        go_on.set()
        stopped = await driving
        assert (stopped.done.state, len(ran)) == ("interrupted", 1)
        assert len(app.store.ledger.list()) == 1
        assert (await resumed()).done.answer == "Done."
        assert sorted(ran) == [1, 2]
