"""A server's question, from the wire to the record: the record says what the server was sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agent import inbox
from agent.elicitation import Elicitor
from agent.store import Store
from agent.store.records import ApprovalRecord
from agent.types import Actor, Decision
from tests.mcp.conftest import Hosted, Hosting, Serve, Signals
from tools.contract import CallInfo, current_call

ANA = Actor("ana", 1000, "box", "test")
FORM = {"type": "object", "properties": {"city": {"type": "string"}}}
QUESTION = {
    "jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
    "params": {"message": "Where to?", "requestedSchema": FORM},
}  # fmt: skip
TAKE_BACK = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}}
GOOD = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"fine"}]}}'


@dataclass
class Desk:
    """A store with a session whose lease is held."""

    store: Store
    session: str

    def questions(self) -> list[ApprovalRecord]:
        return self.store.approvals.list(status=None, session=self.session)

    async def asked(self) -> ApprovalRecord:
        await self.recorded("approval.asked")
        return self.questions()[0]

    async def recorded(self, kind: str) -> None:
        """Until the trail has such an entry."""
        while kind not in self.kinds():  # noqa: ASYNC110 - the store tells nobody
            await asyncio.sleep(0.01)

    def answer(self, approval: ApprovalRecord) -> None:
        said = Decision("respond", message='{"city": "Rome"}')
        inbox.decide(self.store, [(approval.id, said)], ANA, lambda name: None)

    def kinds(self) -> list[str]:
        return [entry.kind for entry in self.store.trail.entries(self.session)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    store = Store.open(f"sqlite:///{tmp_path / 'sayso.db'}", home=tmp_path)
    session = store.sessions.create(
        model="m", tools=[], workspace=None, granted=[], denied=[], actor=ANA
    ).id
    store.leases.acquire(session, store.owner(), ttl=600)
    yield Desk(store, session)
    store.close()


@asynccontextmanager
async def asking(
    serve: Serve, hosting: Hosting, desk: Desk, poll: float
) -> AsyncIterator[tuple[Hosted, asyncio.Task[Any], ApprovalRecord]]:
    """A call during which the server has asked, and looks for the answer every ``poll`` s."""
    told: list[str] = []
    async with hosting(await serve("stdio"), ask=Elicitor(desk.store, told.append, poll)) as hosted:
        hosted.told = told
        token = current_call.set(CallInfo(desk.session, "c1"))
        call = asyncio.create_task(hosted.tool("raw").ainvoke({"lines": [json.dumps(QUESTION)]}))
        current_call.reset(token)
        yield hosted, call, await desk.asked()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def test_an_answer_that_was_sent_is_recorded_as_sent(
    serve: Serve, hosting: Hosting, desk: Desk, signals: Signals
) -> None:
    async with asking(serve, hosting, desk, 0.01) as (hosted, _, question):
        desk.answer(question)
        answer = (await signals.next("answered"))["answer"]
        assert answer == {"result": {"action": "accept", "content": {"city": "Rome"}}}
        await desk.recorded("approval.sent")
        assert hosted.told == []
    assert desk.kinds().count("approval.decided") == desk.kinds().count("approval.sent") == 1
    assert "approval.not_sent" not in desk.kinds()
    assert desk.store.trail.verify(desk.session) == []


async def the_call_ends(hosted: Hosted, call: asyncio.Task[Any], signals: Signals) -> None:
    call.cancel()
    assert (await signals.next("answered"))["answer"] == {"result": {"action": "cancel"}}


async def the_server_takes_it_back(
    hosted: Hosted, call: asyncio.Task[Any], signals: Signals
) -> None:
    assert await hosted.outcome("raw", lines=[json.dumps(TAKE_BACK), GOOD]) == "fine"
    assert "error" in (await signals.next("answered"))["answer"]


async def the_server_dies(hosted: Hosted, call: asyncio.Task[Any], signals: Signals) -> None:
    await hosted.outcome("raw", lines=[], then="die")


async def the_host_closes(hosted: Hosted, call: asyncio.Task[Any], signals: Signals) -> None:
    await hosted.host.server("rough").connection.close()


@pytest.mark.parametrize(
    "how", [the_call_ends, the_server_takes_it_back, the_server_dies, the_host_closes]
)
async def test_an_answer_that_came_too_late_is_recorded_as_not_sent(
    serve: Serve,
    hosting: Hosting,
    desk: Desk,
    signals: Signals,
    how: Callable[[Hosted, asyncio.Task[Any], Signals], Awaitable[None]],
) -> None:
    """It is answered and the call is over before the next look into the store."""
    async with asking(serve, hosting, desk, 3600) as (hosted, call, question):
        desk.answer(question)
        await how(hosted, call, signals)
        await desk.recorded("approval.not_sent")
        (sentence,) = hosted.told
        assert f"MCP server rough did not get your answer to {question.id}: the call" in sentence
    (asked,) = desk.questions()
    assert asked.status == "answered", "that is what the person did"
    assert "approval.sent" not in desk.kinds()
    assert desk.store.trail.verify(desk.session) == []


async def test_a_question_that_nobody_answered_expires_without_more(
    serve: Serve, hosting: Hosting, desk: Desk, signals: Signals
) -> None:
    async with asking(serve, hosting, desk, 3600) as (hosted, call, _):
        await the_call_ends(hosted, call, signals)
        await desk.recorded("approval.decided")
        assert desk.questions()[0].status == "expired"
        assert hosted.told == []
    assert not {"approval.sent", "approval.not_sent"} & set(desk.kinds())
