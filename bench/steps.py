"""What one step costs: sayso beside the same agent without it, interleaved in one run.

A step is one model call (scripted, no time of its own) and one tool call with a 2 kB result.
Every variant runs 100 steps in a process of its own; the variants take turns, round after round,
so that a slow moment of the machine hits them all. Times are medians over the rounds of the mean
step around step 10 and step 100.

    python -m bench.steps [--rounds 5] [--steps 100] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

VARIANTS = (
    "bare",
    "saver",
    "saver+delta",
    "hitl+delta",
    "sayso-read",
    "sayso-allowed",
    "sayso-approved",
)
RESULT = "x" * 2000


# --- one variant, in this process ------------------------------------------------------------


def measure(variant: str, steps: int) -> dict[str, Any]:
    """Run one variant and report ms a step at 10 and at the end, database size and peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        stamps: list[float] = []
        run = _sayso if variant.startswith("sayso") else _langchain
        checkpoints = asyncio.run(run(variant, steps, home, stamps))
        size = sum(path.stat().st_size for path in home.glob("*.db*"))
    durations = [1000 * (b - a) for a, b in zip(stamps, stamps[1:], strict=False)]
    return {
        "variant": variant,
        "at_10": statistics.mean(durations[5:14]),
        "at_end": statistics.mean(durations[-10:]),
        "checkpoints_a_step": checkpoints / steps,
        "database_mb": size / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _model(steps: int, tool: str, stamps: list[float]) -> Any:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Stepping(BaseChatModel):
        """Calls one tool so many times, then answers; notes when it was asked."""

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        @property
        def _llm_type(self) -> str:
            return "stepping"

        def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            stamps.append(time.perf_counter())
            done = sum(message.type == "ai" for message in messages)
            call = {"name": tool, "args": {"number": done}, "id": f"call-{done}"}
            reply = AIMessage("", tool_calls=[call]) if done < steps else AIMessage("done")
            return ChatResult(generations=[ChatGeneration(message=reply)])

    return Stepping()


async def _langchain(variant: str, steps: int, home: Path, stamps: list[float]) -> int:
    import aiosqlite
    from langchain.agents import create_agent
    from langchain.agents.middleware import HumanInTheLoopMiddleware
    from langchain_core.tools import tool
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.types import Command

    from agent.middleware.state import SaysoState

    @tool
    async def act(number: int) -> str:
        """Act."""
        return RESULT

    middleware: list[Any] = []
    if variant == "hitl+delta":
        middleware.append(
            HumanInTheLoopMiddleware(interrupt_on={"act": True}, interrupt_mode="per_call")
        )
    schema = {"state_schema": SaysoState} if variant.endswith("delta") else {}
    model = _model(steps, "act", stamps)
    config: Any = {"configurable": {"thread_id": "bench"}}
    start = {"messages": [{"role": "user", "content": "go"}]}
    if variant == "bare":
        await create_agent(model, [act], **schema).ainvoke(start, config)
        return 0
    async with aiosqlite.connect(home / "sayso.db") as connection:
        await connection.execute("PRAGMA synchronous=FULL")
        saver = AsyncSqliteSaver(connection)
        graph = create_agent(model, [act], middleware=middleware, checkpointer=saver, **schema)
        result = await graph.ainvoke(start, config, durability="sync")
        while pending := result.get("__interrupt__"):
            answers = {interrupt.id: {"type": "approve"} for interrupt in pending}
            result = await graph.ainvoke(Command(resume=answers), config, durability="sync")
        async with connection.execute("SELECT count(*) FROM checkpoints") as rows:
            return int((await rows.fetchone())[0])


async def _sayso(variant: str, steps: int, home: Path, stamps: list[float]) -> int:
    from pydantic import BaseModel

    from agent.application import Application
    from agent.config import load_settings
    from agent.evals.driving import converse
    from agent.evals.reviewers import approves
    from tools.contract import Contract, Scope, make_tool

    class Args(BaseModel):
        number: int

    async def act(number: int) -> str:
        """Act."""
        return RESULT

    effect = "read:bench" if variant == "sayso-read" else "write:bench"
    contract = Contract(
        effects=frozenset({effect}),
        open_world=False,
        private=False,
        always=lambda args: Scope("act", {}),
    )
    tool = make_tool(act, args=Args, contract=contract)
    model = _model(steps, "act", stamps)
    settings = load_settings(
        environ={}, home=home, model="bench:stepping", tools=("research",), max_steps=steps + 2
    )
    models = {"bench:stepping": model}
    async with (
        Application.open(settings, models=models, tools=[tool]) as app,
        app.new_session() as session,
    ):
        if variant == "sayso-allowed":
            app.store.rules.add(session.id, "act", "act", {}, app.actor)
        trajectory = await converse(session, "go", approves, rounds=steps + 2)
        assert trajectory.done.state == "done", trajectory.done
        rows = app.saver.conn.execute("SELECT count(*) FROM checkpoints")  # type: ignore[attr-defined]
        return int(rows.fetchone()[0])


# --- all of them, taking turns ---------------------------------------------------------------


def compare(rounds: int, steps: int) -> dict[str, dict[str, float]]:
    """Every variant in turn, so many times; the median of each figure."""
    runs: dict[str, list[dict[str, Any]]] = {variant: [] for variant in VARIANTS}
    for _ in range(rounds):
        for variant in VARIANTS:
            command = [sys.executable, "-m", "bench.steps", "--variant", variant]
            output = subprocess.run(
                [*command, "--steps", str(steps)], check=True, capture_output=True, text=True
            ).stdout
            runs[variant].append(json.loads(output.splitlines()[-1]))
    return {
        variant: {
            key: statistics.median(run[key] for run in found)
            for key in found[0]
            if key != "variant"
        }
        for variant, found in runs.items()
    }


def report(figures: dict[str, dict[str, float]]) -> str:
    """The figures as a table, with the ratios that are bounded."""
    lines = [f"{'':16}{'ms at 10':>10}{'ms at end':>10}{'checkp./step':>14}{'MB':>8}{'peak MB':>9}"]
    for variant, row in figures.items():
        lines.append(
            f"{variant:16}{row['at_10']:>10.1f}{row['at_end']:>10.1f}"
            f"{row['checkpoints_a_step']:>14.2f}{row['database_mb']:>8.1f}{row['peak_mb']:>9.0f}"
        )
    lines += [
        "",
        *(f"{name:58}{value:>6.2f}  (at most {bound})" for name, value, bound in ratios(figures)),
    ]
    return "\n".join(lines)


def ratios(figures: dict[str, dict[str, float]]) -> list[tuple[str, float, float]]:
    """What is promised, as (name, measured, bound)."""
    base, hitl, read = figures["saver+delta"], figures["hitl+delta"], figures["sayso-read"]
    allowed, approved = figures["sayso-allowed"], figures["sayso-approved"]
    return [
        ("checkpoints a step more than saver+delta, read",
         read["checkpoints_a_step"] - base["checkpoints_a_step"], 0.1),
        ("read step / saver+delta, at 10", read["at_10"] / base["at_10"], 1.3),
        ("read step / saver+delta, at the end", read["at_end"] / base["at_end"], 1.3),
        ("allowed write / saver+delta, at 10", allowed["at_10"] / base["at_10"], 1.4),
        ("allowed write / saver+delta, at the end", allowed["at_end"] / base["at_end"], 1.4),
        ("approved write / hitl+delta, at 10", approved["at_10"] / hitl["at_10"], 1.0),
        ("approved write / hitl+delta, at the end", approved["at_end"] / hitl["at_end"], 1.0),
        ("read step at the end / saver without delta", read["at_end"] / figures["saver"]["at_end"], 1.0),
        ("read step, at the end / at 10", read["at_end"] / read["at_10"], 1.3),
        ("database after all read steps, MB", read["database_mb"], 3.0),
        ("peak memory, read / saver+delta", read["peak_mb"] / base["peak_mb"], 1.25),
    ]  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--variant", choices=VARIANTS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options.variant, options.steps)))
        return
    figures = compare(options.rounds, options.steps)
    print(json.dumps(figures, indent=2) if options.json else report(figures))


if __name__ == "__main__":
    main()
