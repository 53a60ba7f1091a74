"""The scripted model: its steps, ids, faults and streams."""

from __future__ import annotations

from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from agent.models import ending
from agent.models.scripted import ScriptedChatModel, ScriptEnded, call, malformed, step

HELLO = [HumanMessage("hello")]


@tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


async def both_ways(model: ScriptedChatModel, history: list[Any]) -> AIMessage:
    """The reply, after checking that streaming gives the same one."""
    whole = await model.ainvoke(history)
    pieces = [c async for c in model.astream(history)]
    added = pieces[0]
    for piece in pieces[1:]:
        added += piece
    assert isinstance(added, AIMessageChunk)
    assert (added.text, added.tool_calls) == (whole.text, whole.tool_calls)
    assert added.invalid_tool_calls == whole.invalid_tool_calls
    assert added.usage_metadata == whole.usage_metadata
    assert added.response_metadata["finish_reason"] == whole.response_metadata["finish_reason"]
    assert model.invoke(history).tool_calls == whole.tool_calls
    return whole


async def test_step_follows_from_the_history_alone() -> None:
    script = ["one", step("two", call("double", number=2), usage=(7, 3)), "three"]
    history: list[Any] = list(HELLO)
    for expected in ("one", "two", "three"):
        # A new instance each time, as after a restart.
        reply = await both_ways(ScriptedChatModel(script), history)
        assert reply.text == expected
        history += [reply, HumanMessage("go on")]
    assert history[3].usage_metadata["total_tokens"] == 10
    with pytest.raises(ScriptEnded, match="3 steps"):
        await ScriptedChatModel(script).ainvoke(history)


async def test_text_streams_in_pieces() -> None:
    chunks = [c.text async for c in ScriptedChatModel(["a few words"]).astream(HELLO)]
    assert [c for c in chunks if c] == ["a", " few", " words"]


@pytest.mark.parametrize(
    ("reuse", "ids"), [(True, ["call_0", "call_0"]), (False, ["call_0_0", "call_1_0"])]
)
async def test_ids_repeat_across_turns_only_when_asked(reuse: bool, ids: list[str]) -> None:
    model = ScriptedChatModel([step(call("double", number=n)) for n in (1, 2)], reuse_ids=reuse)
    first = await both_ways(model, HELLO)
    second = await both_ways(model, [*HELLO, first, *HELLO])
    assert [r.tool_calls[0]["id"] for r in (first, second)] == ids


@pytest.mark.parametrize("arguments", ['{"number": 1', "[1]", "nonsense"])
async def test_malformed_arguments_stay_invalid_and_raw(arguments: str) -> None:
    """Asked for a whole reply; what is added up from a stream by hand is LangChain's version."""
    model = ScriptedChatModel(
        [step("Here:", call("double", number=1), malformed("double", arguments))]
    )
    reply = await model.ainvoke(HELLO)
    assert [c["args"] for c in reply.tool_calls] == [{"number": 1}]
    assert [c["args"] for c in reply.invalid_tool_calls] == [arguments]


async def test_a_reply_can_be_cut_off() -> None:
    model = ScriptedChatModel([step("I wan", finish_reason="length")])
    assert ending(await both_ways(model, HELLO)) == "cut_off"


async def test_errors_are_raised_and_the_same_step_comes_again() -> None:
    model = ScriptedChatModel([ConnectionError("down"), "never reached"])
    for _ in range(2):
        with pytest.raises(ConnectionError, match="down"):
            await model.ainvoke(HELLO)
        with pytest.raises(ConnectionError, match="down"):
            [c async for c in model.astream(HELLO)]


async def test_a_function_decides_from_the_history() -> None:
    model = ScriptedChatModel([lambda messages: step(f"{len(messages)}: {messages[-1].text}")])
    assert (await both_ways(model, HELLO)).text == "1: hello"


async def test_a_function_can_raise_by_returning_an_error() -> None:
    replies: list[Any] = [ConnectionError("down"), "up again"]
    model = ScriptedChatModel([lambda messages: replies.pop(0)])
    with pytest.raises(ConnectionError):
        await model.ainvoke(HELLO)
    assert (await model.ainvoke(HELLO)).text == "up again"


async def test_drives_an_agent_and_goes_on_in_another_instance() -> None:
    script = [step(call("double", number=21)), lambda m: f"It is {m[-1].text}.", "Bye."]
    saver, config = InMemorySaver(), {"configurable": {"thread_id": "t"}}
    first = create_agent(ScriptedChatModel(script), [double], checkpointer=saver)
    result = await first.ainvoke({"messages": HELLO}, config)
    assert result["messages"][-1].text == "It is 42."
    assert isinstance(result["messages"][-2], ToolMessage)
    second = create_agent(ScriptedChatModel(script), [double], checkpointer=saver)
    result = await second.ainvoke({"messages": [HumanMessage("bye")]}, config)
    assert result["messages"][-1].text == "Bye."


async def test_requests_are_kept_for_assertions() -> None:
    model = ScriptedChatModel(["hi"])
    await model.bind_tools([double]).ainvoke(HELLO)
    assert [m.text for m in model.requests[0]] == ["hello"]
