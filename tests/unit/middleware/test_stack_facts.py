"""Facts about LangChain and LangGraph that the design rests on; they may change under us."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessageChunk, HumanMessage
from langchain_core.tools import tool
from pydantic import BaseModel

from agent.checkpoints import strict_serialiser
from agent.evals.driving import converse
from agent.evals.reviewers import approves, stays_silent
from agent.graph import build_agent
from agent.models.scripted import ScriptedChatModel
from tests.support.sessions import calls, session
from tools.contract import Contract, make_tool


@tool
async def act(n: int) -> str:
    """Act."""
    return f"acted on {n}"


def contents(home: Path) -> list[bytes]:
    """The database's files as they lie on disk."""
    found = [path.read_bytes() for path in home.glob("sayso.db*")]
    assert found
    return found


def nodes(graph: Any) -> set[str]:
    return set(graph.nodes) - {"__start__"}


def test_our_graph_has_a_model_and_its_tools_and_no_node_more() -> None:
    """Every node costs a checkpoint a step; the stock human-in-the-loop adds an empty one."""
    model = ScriptedChatModel([])
    stock = create_agent(
        model,
        [act],
        middleware=[HumanInTheLoopMiddleware({"act": True}, interrupt_mode="per_call")],
    )

    assert nodes(build_agent(model, [act], "")) == {"model", "tools"}
    assert nodes(stock) == {"model", "tools", "HumanInTheLoopMiddleware.after_model"}


def test_streamed_arguments_that_are_cut_off_are_completed_into_valid_ones() -> None:
    """Why models that we build never hand on what was merged from a stream unchecked."""
    chunk = AIMessageChunk(
        "",
        tool_call_chunks=[
            {"name": "pay", "args": '{"amount": 12', "id": "1", "index": 0,
             "type": "tool_call_chunk"}
        ],
    )  # fmt: skip

    assert chunk.tool_calls[0]["args"] == {"amount": 12}


async def test_only_langchains_own_question_publishes_a_schema_for_its_answer(
    tmp_path: Path,
) -> None:
    """By this an interrupt of its is told from a pause of ours (``agent.approvals``)."""
    async with session(tmp_path, [calls(("act", {"n": 1})), "Done."], tools=[act]) as (_, opened):
        await converse(opened, "act", stays_silent)
        snapshot = await opened._snapshot()
        (interrupt,) = [i for task in snapshot.tasks for i in task.interrupts]

        assert interrupt.response_schema is not None
        assert interrupt.value["type"] == "tool_approval"


async def test_verdicts_are_in_the_state_and_neither_in_its_input_nor_in_its_output() -> None:
    graph = build_agent(ScriptedChatModel([calls(("act", {"n": 1})), "Done."]), [act], "")

    assert "verdicts" not in graph.get_input_jsonschema()["properties"]
    assert "verdicts" not in graph.get_output_jsonschema()["properties"]
    result = await graph.ainvoke({"messages": [HumanMessage("go")]})
    assert "verdicts" not in result


class Stranger(BaseModel):
    secret: str


@pytest.mark.parametrize("value", [Stranger(secret="x"), {"inner": Stranger(secret="x")}])
def test_a_checkpoint_never_brings_back_a_class_that_langgraph_does_not_know(value: Any) -> None:
    serialiser = strict_serialiser()
    loaded = serialiser.loads_typed(serialiser.dumps_typed(value))

    assert not isinstance(loaded, Stranger)
    assert not (isinstance(loaded, dict) and isinstance(loaded.get("inner"), Stranger))


async def test_what_is_in_the_context_reaches_neither_checkpoints_nor_their_metadata(
    tmp_path: Path,
) -> None:
    class Number(BaseModel):
        n: int

    def look(n: int) -> str:
        """Look."""
        return "seen"

    reads = Contract(effects=frozenset({"read:n"}), open_world=False)
    tools = [make_tool(look, args=Number, contract=reads)]
    async with session(tmp_path, [calls(("look", {"n": 1})), "Done."], tools=tools) as (
        _,
        opened,
    ):
        opened._context.secret = "sk-very-secret"  # type: ignore[attr-defined]
        await converse(opened, "look", approves)

    assert not [data for data in contents(tmp_path) if b"sk-very-secret" in data]


async def test_messages_are_kept_as_deltas_so_a_long_session_stays_small(tmp_path: Path) -> None:
    class Number(BaseModel):
        n: int

    def look(n: int) -> str:
        """Look."""
        return "x" * 2000

    reads = Contract(effects=frozenset({"read:n"}), open_world=False)
    tools = [make_tool(look, args=Number, contract=reads)]
    steps = [*(calls(("look", {"n": n})) for n in range(60)), "Done."]
    async with session(tmp_path, steps, tools=tools, max_steps=100) as (_, opened):
        await converse(opened, "look", approves)
        assert len(await opened.history()) == 122

    assert sum(map(len, contents(tmp_path))) < 3_000_000
