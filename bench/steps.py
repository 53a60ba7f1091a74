"""What one step costs: sayso beside the same agent without it, interleaved in one run.

A step is one model call (scripted, no time of its own) and one tool call with a 2 kB result.
Every variant runs 100 steps in a process of its own; the variants take turns, round after round,
each time beginning with another one, so that a slow moment of the machine hits them all. A time
is the median step around step 10, and of the last ten; a ratio is the median over the rounds of
the ratios within a round. Beside the clock stands the processor time of the whole process, which
says what a step does where the disk or other programs make the clock say something else.

``sayso`` runs on a database that is there already, as it is at every start but the first.

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
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.figures import Figure, as_json, middle, ratio, table

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


def measure(variant: str, steps: int, home: Path) -> dict[str, float]:
    """Run one variant in an empty folder, or one that ``prepare`` has seen.

    Returns:
        Milliseconds a step at 10 and at the end, by the clock and of processor time; checkpoints
        a step; megabytes of the database and of memory at its highest.
    """
    stamps = _Stamps()
    run = _sayso if variant.startswith("sayso") else _langchain
    checkpoints = asyncio.run(run(variant, steps, home, stamps))
    size = sum(path.stat().st_size for path in home.glob("*.db*"))
    return {
        "at_10": _around_10(stamps.clock),
        "at_end": statistics.median(stamps.clock[-10:]),
        "cpu_at_10": _around_10(stamps.processor),
        "cpu_at_end": statistics.median(stamps.processor[-10:]),
        "checkpoints_a_step": checkpoints / steps,
        "database_mb": size / 1e6,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _MAXRSS_A_MB,
    }


_MAXRSS_A_MB = 1024 * 1024 if sys.platform == "darwin" else 1024


def prepare(home: Path) -> None:
    """Make the database, in a process of its own: the migrations are no part of a session."""
    code = "import sys; from agent.store import Store; Store.open(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", code, f"sqlite:///{home}/sayso.db"], check=True)


def _around_10(durations: list[float]) -> float:
    return statistics.median(durations[5:15] or durations)


class _Stamps:
    """When the model was asked, which is where one step ends and the next begins."""

    def __init__(self) -> None:
        self._at: list[tuple[float, float]] = []

    def add(self) -> None:
        """A step begins now."""
        self._at.append((time.perf_counter(), time.process_time()))

    @property
    def clock(self) -> list[float]:
        """Milliseconds of each step by the clock."""
        return [1000 * (after[0] - before[0]) for before, after in pairwise(self._at)]

    @property
    def processor(self) -> list[float]:
        """Milliseconds of processor time of each step."""
        return [1000 * (after[1] - before[1]) for before, after in pairwise(self._at)]


def _model(steps: int, tool: str, stamps: _Stamps) -> Any:
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
            stamps.add()
            done = sum(message.type == "ai" for message in messages)
            call = {"name": tool, "args": {"number": done}, "id": f"call-{done}"}
            reply = AIMessage("", tool_calls=[call]) if done < steps else AIMessage("done")
            return ChatResult(generations=[ChatGeneration(message=reply)])

    return Stepping()


async def _langchain(variant: str, steps: int, home: Path, stamps: _Stamps) -> int:
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
    schema: Any = {"state_schema": SaysoState} if variant.endswith("delta") else {}
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
            [(count,)] = await rows.fetchall()
            return int(count)


async def _sayso(variant: str, steps: int, home: Path, stamps: _Stamps) -> int:
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
        [(count,)] = rows.fetchall()
        return int(count)


# --- all of them, taking turns ---------------------------------------------------------------

Round = dict[str, dict[str, float]]
"""What every variant measured in one round."""


def compare(rounds: int, steps: int) -> list[Round]:
    """Every variant in turn, so many times."""
    found: list[Round] = []
    for number in range(rounds):
        shift = number % len(VARIANTS)
        order = VARIANTS[shift:] + VARIANTS[:shift]
        found.append({variant: _apart(variant, steps) for variant in order})
    return found


def _apart(variant: str, steps: int) -> dict[str, float]:
    """``measure`` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir(mode=0o700)
        if variant.startswith("sayso"):
            prepare(home)
        command = [sys.executable, "-m", "bench.steps", "--variant", variant]
        output = subprocess.run(
            [*command, "--steps", str(steps), "--home", str(home)],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    result: dict[str, float] = json.loads(output.splitlines()[-1])
    return result


def report(rounds: list[Round]) -> str:
    """What each variant takes, and what is promised."""
    heading = f"{'':16}{'ms at 10':>9}{'at end':>8}{'cpu at 10':>11}{'at end':>8}"
    lines = [f"{heading}{'checkpoints':>13}{'MB':>6}{'peak MB':>9}"]
    for variant in VARIANTS:
        of = {key: middle(_of(rounds, variant), key) for key in rounds[0][variant]}
        lines.append(
            f"{variant:16}{of['at_10']:>9.1f}{of['at_end']:>8.1f}"
            f"{of['cpu_at_10']:>11.1f}{of['cpu_at_end']:>8.1f}"
            f"{of['checkpoints_a_step']:>13.2f}{of['database_mb']:>6.1f}{of['peak_mb']:>9.0f}"
        )
    lines += ["", table("Promised (a step, by the clock)", figures(rounds))]
    lines += ["", table("The same by processor time", figures(rounds, "cpu_", sizes=False))]
    return "\n".join(lines)


def figures(rounds: list[Round], time_of: str = "", *, sizes: bool = True) -> list[Figure]:
    """What is promised. ``time_of`` is the prefix of the times to compare."""
    at_10, at_end = f"{time_of}at_10", f"{time_of}at_end"

    def times(one: str, other: str, key: str, bound: float) -> Figure:
        flat = [{one: found[one][key], other: found[other][key]} for found in rounds]
        place = "at 10" if key.endswith("10") else "at the end"
        return Figure(f"{one} / {other}, {place}", ratio(flat, one, other), "×", bound)

    read = _of(rounds, "sayso-read")
    promised = [
        *(times("sayso-read", "saver+delta", key, 1.3) for key in (at_10, at_end)),
        *(times("sayso-allowed", "saver+delta", key, 1.4) for key in (at_10, at_end)),
        *(times("sayso-approved", "hitl+delta", key, 1.0) for key in (at_10, at_end)),
        times("sayso-read", "saver", at_end, 1.0),
        Figure("sayso-read, at the end / at 10", ratio(read, at_end, at_10), "×", 1.3),
    ]
    if sizes:
        base = _of(rounds, "saver+delta")
        more = middle(read, "checkpoints_a_step") - middle(base, "checkpoints_a_step")
        promised += [
            Figure("checkpoints a step more than saver+delta", more, "", 0.1),
            Figure("database after all read steps", middle(read, "database_mb"), "MB", 3.0),
            _memory(rounds),
        ]
    return promised


def _memory(rounds: list[Round]) -> Figure:
    """How much more memory a session takes at its highest."""
    flat = [{name: found[name]["peak_mb"] for name in VARIANTS} for found in rounds]
    peak = ratio(flat, "sayso-read", "saver+delta")
    return Figure("peak memory, sayso-read / saver+delta", peak, "×", 1.25)


def _of(rounds: list[Round], variant: str) -> list[dict[str, float]]:
    return [found[variant] for found in rounds]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options.variant, options.steps, options.home)))
        return
    rounds = compare(options.rounds, options.steps)
    if options.json:
        print(json.dumps({"rounds": rounds, "figures": as_json(figures(rounds))}, indent=2))
    else:
        print(report(rounds))


if __name__ == "__main__":
    main()
