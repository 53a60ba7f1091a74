"""The whole agent over the real ``langchain-openai`` path, against a server on a socket.

The server is as strict about histories as OpenAI is, and the ``model_server`` fixture fails a
test in which it refused one: so every test here also proves that what was sent was valid.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

import prompts
from agent.application import Application, Options
from agent.evals.driving import Trajectory, converse, review
from agent.evals.reviewers import Edits, Rejects, When, approves, stays_silent
from agent.events import MessageDelta
from agent.models import build_chat_model
from agent.session import AgentSession
from agent.types import Decision
from tests.support.openai_server import (
    Broken,
    Call,
    Ending,
    Hang,
    HttpError,
    ModelServer,
    Reply,
    Request,
)
from tests.support.sessions import application
from tools.contract import Contract, make_tool

KEY = "sk-live-0123456789abcdefWXYZ"
MODEL = "openai:test-model"


class Number(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n: int


def tools(ran: list[int]) -> list[Any]:
    async def act(n: int) -> str:
        """Change a number."""
        ran.append(n)
        return f"changed {n}"

    async def look(n: int) -> str:
        """Look at a number."""
        return f"n is {n}"

    writes = Contract(effects=frozenset({"write:n"}), open_world=False, private=False)
    reads = Contract(effects=frozenset({"read:n"}), open_world=False, private=False)
    return [
        make_tool(act, args=Number, contract=writes),
        make_tool(look, args=Number, contract=reads),
    ]


class Wire:
    """Opens applications whose model is the server, streamed or not."""

    def __init__(self, home: Path, server: ModelServer, streamed: bool) -> None:
        self.home, self.server, self.ran = home, server, list[int]()
        self._streamed = streamed

    @asynccontextmanager
    async def app(self, **settings: Any) -> AsyncIterator[Application]:
        values = {"model_retries": 0, **settings, "model": MODEL}
        values |= {"openai_api_key": SecretStr(KEY), "openai_base_url": self.server.url}
        options = Options(via="test")
        async with application(
            self.home, [], tools=tools(self.ran), options=options, **values
        ) as app:
            if not self._streamed:
                model: Any = build_chat_model(
                    MODEL,
                    openai_api_key=app.settings.openai_api_key,
                    openai_base_url=self.server.url,
                    timeout=app.settings.model_timeout,
                    retries=app.settings.model_retries,
                )
                model.disable_streaming, model.streaming = True, False
                app.models[MODEL] = model
            yield app

    @asynccontextmanager
    async def session(self, **settings: Any) -> AsyncIterator[tuple[Application, AgentSession]]:
        async with self.app(**settings) as app, app.new_session() as opened:
            yield app, opened

    @property
    def last(self) -> Request:
        return self.server.requests[-1]

    def results(self, request: Request | None = None) -> list[str]:
        """What the model was told about its calls, in order."""
        messages = (request or self.last).messages
        return [message["content"] for message in messages if message["role"] == "tool"]


@pytest.fixture(params=[True, False], ids=["streamed", "whole"])
def wire(request: pytest.FixtureRequest, tmp_path: Path, model_server: ModelServer) -> Wire:
    """The agent over the wire, once with streaming and once without."""
    return Wire(tmp_path / "home", model_server, request.param)


@pytest.fixture
def streamed(tmp_path: Path, model_server: ModelServer) -> Wire:
    """The agent over the wire as it comes: streaming."""
    return Wire(tmp_path / "home", model_server, streamed=True)


def acts(*numbers: int, **reply: Any) -> Reply:
    """A reply that proposes a write for each number."""
    return Reply(tool_calls=tuple(Call("act", {"n": n}) for n in numbers), **reply)


async def resumed(opened: AgentSession) -> Trajectory:
    return Trajectory([event async for event in opened.resume()])


# --- what is sent ----------------------------------------------------------------------------


async def test_the_prompt_comes_first_and_every_tool_goes_with_a_closed_schema(wire: Wire) -> None:
    wire.server.script(Reply("Hello."))
    async with wire.session() as (_, opened):
        trajectory = await converse(opened, "hello", approves)

        assert trajectory.done.answer == "Hello."
        (request,) = wire.server.requests
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.body.get("stream", False) == (trajectory.of(MessageDelta) != [])
        assert request.messages == [
            {"role": "system", "content": prompts.system_prompt(["orders"])},
            {"role": "user", "content": "hello"},
        ]
        orders = ["list_orders", "get_order", "cancel_order", "refund_order"]
        assert request.tools == [*orders, "act", "look"]
        for tool in request.body["tools"]:
            function = tool["function"]
            assert function["description"]
            assert function["parameters"]["additionalProperties"] is False
            assert set(function["parameters"].get("required", ())) <= set(
                function["parameters"]["properties"]
            )


async def test_reads_and_writes_of_one_reply_are_answered_under_their_own_ids(wire: Wire) -> None:
    both = Reply(
        "I look and act.", tool_calls=(Call("look", {"n": 1}, "r"), Call("act", {"n": 2}, "w"))
    )
    wire.server.script(both, Reply("Done."))
    async with wire.session() as (app, opened):
        trajectory = await converse(opened, "go", approves)

        assert wire.ran == [2]
        assert trajectory.done.answer == "Done."
        sent = wire.last.messages[-3:]
        assert sent[0]["content"] == "I look and act."
        assert {m["tool_call_id"]: m["content"] for m in sent[1:]} == {
            "r": "n is 1",
            "w": "changed 2",
        }
        assert app.store.sessions.get(opened.id).tokens == {"input": 22, "output": 14}


async def test_one_is_approved_one_edited_one_rejected_and_the_model_is_told_each(
    wire: Wire,
) -> None:
    wire.server.script(acts(1, 2, 3), Reply("I see."))
    reviewer = When(
        lambda approval: approval.args["n"] == 1,
        approves,
        When(lambda approval: approval.args["n"] == 2, Edits({"n": 20}), Rejects("three is odd")),
    )
    async with wire.session() as (app, opened):
        trajectory = await converse(opened, "go", reviewer)

        assert sorted(wire.ran) == [1, 20]
        assert trajectory.done.exit == 5
        one, two, three = wire.results()
        assert one == "changed 1"
        assert 'what ran is act({"n":20})' in two
        assert two.endswith("changed 20")
        assert "three is odd" in three
        # The history keeps what the model itself asked for.
        (asked,) = [m for m in wire.last.messages if m.get("tool_calls")]
        assert [json.loads(c["function"]["arguments"])["n"] for c in asked["tool_calls"]] == [
            1, 2, 3,
        ]  # fmt: skip
        assert len(app.store.ledger.list()) == 2


# --- replies that are wrong ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(tool_calls=(Call("act", '{"n": 12'),)), "not valid JSON"),
        (Reply(tool_calls=(Call("act", "n=1"),)), "not valid JSON"),
        (Reply(tool_calls=(Call("act", '{"n": NaN}'),)), "not valid JSON"),
        (Reply(tool_calls=(Call("atc", {"n": 1}),)), "Did you mean 'act'?"),
        (Reply(tool_calls=(Call("delete everything!", {"n": 1}),)), "no tool named"),
        (Reply(tool_calls=(Call("", {"n": 1}),)), "no tool named"),
        (Reply(tool_calls=(Call("act", {}),)), "n: missing"),
        (Reply(tool_calls=(Call("act", {"n": 1, "m": 1}),)), "no such argument"),
        (acts(1, finish_reason="length"), "cut off"),
        (Reply(tool_calls=(Call("act", '{"n": 12'),), finish_reason="length"), "cut off"),
    ],
    ids=[
        "cut JSON",
        "no JSON",
        "NaN",
        "misspelt tool",
        "impossible name",
        "no name",
        "missing argument",
        "extra argument",
        "cut off after a whole call",
        "cut off within a call",
    ],
)
async def test_a_wrong_call_goes_back_in_words_and_the_history_stays_valid(
    wire: Wire, reply: Reply, said: str
) -> None:
    wire.server.script(reply, acts(2), Reply("Done."))
    async with wire.session() as (_, opened):
        trajectory = await converse(opened, "go", approves)

        assert said in wire.results(wire.server.requests[1])[0]
        assert [approval.args for approval in trajectory.asked] == [{"n": 2}]
        assert wire.ran == [2]
        assert trajectory.done.answer == "Done."


@pytest.mark.parametrize("arguments", ["[1]", '"text"', "7", "null"])
async def test_arguments_that_are_json_and_no_object_go_back_in_words(
    streamed: Wire, arguments: str
) -> None:
    streamed.server.script(Reply(tool_calls=(Call("act", arguments),)), acts(2), Reply("Done."))
    async with streamed.session() as (_, opened):
        trajectory = await converse(opened, "go", approves)

        said = streamed.results(streamed.server.requests[1])[0]
        assert "not valid JSON" in said
        assert f"You sent: {arguments}." in said
        assert streamed.ran == [2]
        assert trajectory.done.answer == "Done."


@pytest.mark.parametrize(
    "ids",
    [("same", "same"), ("", ""), ("", "same")],
    ids=["duplicate", "empty", "one empty"],
)
async def test_ids_that_no_provider_would_take_back_are_replaced(
    wire: Wire, ids: tuple[str, str]
) -> None:
    pair = tuple(Call("act", {"n": n}, id_) for n, id_ in enumerate(ids, start=1))
    wire.server.script(Reply(tool_calls=pair), Reply("Done."))
    async with wire.session() as (_, opened):
        trajectory = await converse(opened, "go", approves)

        assert sorted(wire.ran) == [1, 2]
        assert sorted(wire.results()) == ["changed 1", "changed 2"]
        assert trajectory.done.answer == "Done."


async def test_a_gateway_that_gives_the_same_ids_to_everything_confuses_nothing(
    wire: Wire,
) -> None:
    def same(n: int) -> Reply:
        return Reply(tool_calls=(Call("act", {"n": n}, "call_1"),), id="chatcmpl-1")

    wire.server.script(
        same(1), same(2), Reply("One.", id="chatcmpl-1"), same(3), Reply("Two.", id="chatcmpl-1")
    )
    async with wire.session() as (app, opened):
        await converse(opened, "go", approves)
        again = await converse(
            opened, "again", When(lambda approval: approval.args == {"n": 3}, Rejects("enough"))
        )

        assert wire.ran == [1, 2]
        assert again.done.answer == "Two."
        assert [m["content"] for m in wire.last.messages if m["role"] == "tool"][:2] == [
            "changed 1",
            "changed 2",
        ]
        assert "enough" in wire.results()[-1]
        keys = {effect.idempotency_key for effect in app.store.ledger.list()}
        assert len(keys) == 2


@pytest.mark.parametrize("reply", [Reply(""), Reply("", finish_reason="length")])
async def test_an_empty_reply_is_asked_for_once_more_and_then_fails_in_words(
    wire: Wire, reply: Reply
) -> None:
    wire.server.script(reply, Reply("Here."), reply, reply, Reply("Back."))
    async with wire.session() as (_, opened):
        assert (await converse(opened, "hello", approves)).done.answer == "Here."
        failed = await converse(opened, "hello?", approves)
        assert (failed.done.state, failed.done.exit) == ("failed", 1)
        assert 'say "continue"' in (failed.done.error or "")
        assert (await converse(opened, "continue", approves)).done.answer == "Back."


# --- moving on -------------------------------------------------------------------------------


async def test_moving_on_from_what_waits_leaves_a_history_that_is_sent_whole(wire: Wire) -> None:
    asks = Reply(tool_calls=(Call("look", {"n": 1}), Call("act", {"n": 2}), Call("act", {"n": 3})))
    wire.server.script(asks, Reply("All right."))
    async with wire.session() as (_, opened):
        await converse(opened, "go", stays_silent)
        opened.decide(opened.pending()[0].id, Decision("approve"))
        moved = Trajectory([e async for e in opened.run("never mind", supersede=True)])

        assert moved.done.answer == "All right."
        assert wire.ran == [2]
        looked, approved, dropped = wire.results()
        assert (looked, approved) == ("n is 1", "changed 2")
        assert "not run" in dropped
        assert wire.last.messages[-1]["content"].endswith("never mind")
        assert "Done: act(n=2)" in wire.last.messages[-1]["content"]


async def test_a_fork_of_a_session_that_waits_talks_to_the_model_at_once(wire: Wire) -> None:
    wire.server.script(acts(1), Reply("In the fork."), Reply("In the source."))
    async with wire.app() as app:
        async with app.new_session() as source:
            await converse(source, "go", stays_silent)
            record = await app.fork(source.id)
        async with app.open_session(record.id) as fork:
            assert (await converse(fork, "and here?", approves)).done.answer == "In the fork."
            assert source.id in wire.results()[0]
        async with app.open_session(source.id) as source:
            decided = await review(source, approves)
            assert decided.done.answer == "In the source."
    assert wire.ran == [1]


async def test_after_a_cancel_the_next_message_is_answered(wire: Wire) -> None:
    wire.server.script(acts(1), Reply("Still here."))
    async with wire.session() as (app, opened):
        await converse(opened, "go", stays_silent)
        await opened.cancel()
        assert app.store.sessions.get(opened.id).state == "cancelled"

        again = await converse(opened, "hello?", approves)
        assert again.done.answer == "Still here."
        assert "not run" in wire.results()[0]
        assert wire.ran == []


async def test_a_session_that_waits_is_carried_on_by_another_process(wire: Wire) -> None:
    wire.server.script(acts(1), Reply("Done."))
    async with wire.session() as (_, opened):
        session_id = opened.id
        await converse(opened, "go", stays_silent)
    async with wire.app() as app, app.open_session(session_id) as opened:
        decided = await review(opened, approves)
        assert decided.done.answer == "Done."
    assert wire.ran == [1]
    assert wire.results() == ["changed 1"]


# --- the provider fails ----------------------------------------------------------------------

FAILURES: dict[str, Any] = {
    "500": HttpError(500),
    "429": HttpError(429, "Rate limit reached."),
    "reset": Broken(Reply("Half a"), then="reset"),
    "not JSON": HttpError(502, {"detail": "bad gateway"}),
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
async def test_an_outage_after_an_approved_write_costs_nothing_but_the_answer(
    wire: Wire, failure: Any
) -> None:
    wire.server.script(acts(1), failure, Reply("You changed 1."))
    async with wire.session() as (app, opened):
        failed = await converse(opened, "go", approves)
        assert (failed.done.state, failed.done.exit) == ("failed", 1)
        assert "the turn can be repeated" in (failed.done.error or "")
        assert opened.receipt().done

        after = await converse(opened, "what happened?", approves)
        assert (after.done.state, after.done.answer) == ("done", "You changed 1.")
        assert wire.results() == ["changed 1"]
        assert wire.ran == [1]
        assert len(app.store.ledger.list()) == 1


async def test_what_passes_is_tried_again_and_nobody_notices(wire: Wire) -> None:
    busy = HttpError(429, "Slow down.", {"retry-after-ms": "1"})
    down = HttpError(503, "Down.", {"retry-after-ms": "1"})
    wire.server.script(busy, acts(1), down, Reply("Done."))
    async with wire.session(model_retries=2) as (_, opened):
        trajectory = await converse(opened, "go", approves)

        assert (trajectory.done.state, trajectory.done.answer) == ("done", "Done.")
        assert wire.ran == [1]
        assert len(wire.server.requests) == 4


async def test_when_it_gives_up_it_says_what_to_do_and_the_session_goes_on(wire: Wire) -> None:
    down = HttpError(500, "The engine is on fire.", {"retry-after-ms": "1"})
    wire.server.script(down, down, down, Reply("Back."))
    async with wire.session(model_retries=2) as (app, opened):
        failed = await converse(opened, "hello", approves)
        error = failed.done.error or ""
        assert "HTTP 500" in error
        assert "The engine is on fire." in error
        assert "repeat" in error
        assert "--model" in error
        assert app.store.sessions.get(opened.id).state == "failed"
        assert [m.type for m in await opened.history()] == ["human"]

        assert (await resumed(opened)).done.answer == "Back."
        assert [m["role"] for m in wire.last.messages] == ["system", "user"]


@pytest.mark.parametrize("ending", ["reset", "close", "end", "error", "garbage"])
@pytest.mark.parametrize("after", [2, 4, 7])
async def test_half_a_call_of_a_broken_stream_is_never_acted_on(
    streamed: Wire, ending: Ending, after: int
) -> None:
    whole = Reply("I act.", tool_calls=(Call("act", {"n": 1250}),), chunk_size=3)
    streamed.server.script(Broken(whole, after, ending), Reply("Nothing was changed."))
    async with streamed.session() as (app, opened):
        broken = await converse(opened, "change 1250", approves)
        assert broken.done.state == "failed"
        assert broken.asked == []
        assert [m.type for m in await opened.history()] == ["human"]

        assert (await resumed(opened)).done.answer == "Nothing was changed."
        assert app.store.ledger.list() == []
        assert streamed.ran == []


@pytest.mark.parametrize("step", [Hang(), Broken(acts(1), 2, "hang"), Broken(acts(1), 2, "alive")])
async def test_a_provider_that_stops_speaking_is_given_up_with_a_word_about_the_setting(
    streamed: Wire, step: Any
) -> None:
    streamed.server.script(step, Reply("Back."))
    async with streamed.session(model_timeout=0.3) as (_, opened):
        failed = await converse(opened, "hello", approves)
        assert failed.done.state == "failed"
        assert "SAYSO_MODEL_TIMEOUT" in (failed.done.error or "")
        assert streamed.ran == []
    async with streamed.app() as app, app.open_session(opened.id) as again:
        assert (await resumed(again)).done.answer == "Back."


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


async def test_a_refused_key_is_named_as_such_and_never_shown_or_kept(
    wire: Wire, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    wire.server.script(
        acts(1), HttpError(401, f"Incorrect API key provided: {KEY}. Find yours at example.com.")
    )
    async with wire.session() as (app, opened):
        failed = await converse(opened, "go", approves)
        error = failed.done.error or ""
        assert "refused the key" in error
        assert "OPENAI_API_KEY" in error
        texts = [
            *map(repr, failed.events),
            *map(repr, app.store.trail.entries()),
            *map(repr, await opened.history()),
            repr(app.store.sessions.get(opened.id)),
            repr(app.settings),
            repr(opened._context),
        ]
        assert not any(KEY in text for text in texts)
        assert wire.ran == [1]
    kept = everything_in(wire.home)
    assert b"go" in kept
    assert KEY.encode() not in kept
    out, err = capfd.readouterr()
    logged = "\n".join(r.getMessage() for r in caplog.records if r.name.startswith("sayso"))
    assert KEY not in out + err + logged


# --- a script of requests, as a provider would see them --------------------------------------


async def test_over_many_turns_the_beginning_of_what_is_sent_stays_the_same(wire: Wire) -> None:
    """A provider caches by prefix: what was sent once is sent again unchanged."""
    wire.server.script(acts(1), Reply("One."), acts(2), Reply("Two."), Reply("Three."))
    async with wire.session() as (_, opened):
        for text in ("first", "second", "third"):
            await converse(opened, text, approves)

    sent = [request.messages for request in wire.server.requests]
    for before, after in pairwise(sent):
        assert after[: len(before)] == before
    offered = [request.body["tools"] for request in wire.server.requests]
    assert all(tools == offered[0] for tools in offered)
