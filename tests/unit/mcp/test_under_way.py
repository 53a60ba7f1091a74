"""Calls under way, and what becomes of the questions that a server asks meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from mcp import types

from agent.mcp.questions import Question, Reply, UnderWay
from agent.mcp.under_way import Calls
from tools.contract import CallInfo

CALL = UnderWay(CallInfo("s-1", "c1"))
WHERE = types.ElicitRequestURLParams(message="?", url="https://x.example/", elicitationId="e")


async def test_a_reply_that_comes_with_the_end_of_its_question_is_not_sent() -> None:
    decided: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    begun, settled = asyncio.Event(), list[bool]()

    async def ask(question: Question) -> Reply:
        begun.set()
        return await decided

    calls = Calls("guide", ask, longest=3600)
    with calls.during(CALL):
        asking = asyncio.create_task(calls.asked(WHERE))
        await begun.wait()
        decided.set_result(Reply("accept", settled=settled.append))
        asking.cancel()  # the server takes it back in the same turn of the loop
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert settled == [False]


async def test_a_question_belongs_to_the_call_that_was_begun_last() -> None:
    later, asked = UnderWay(CallInfo("s-1", "c2")), list[Question]()

    async def ask(question: Question) -> Reply:
        asked.append(question)
        return Reply("accept")

    calls = Calls("guide", ask, longest=3600)
    assert (await calls.asked(WHERE)).action == "decline", "there is no call"
    with calls.during(CALL), calls.during(later):
        assert (await calls.asked(WHERE)).action == "accept"
    assert [question.call for question in asked] == [later]
