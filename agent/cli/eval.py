"""``sayso eval``: the suites that say how well what sayso promises is kept."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.eval_calls import calls
from agent.cli.eval_replays import multi_turn, tau2
from agent.cli.eval_report import report
from agent.cli.eval_tasks import tasks
from agent.cli.help import PlainCommand, PlainGroup
from agent.cli.output import answer, answer_json, answer_table, only_answers, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.evals.injection.case import Plan
    from agent.evals.injection.defences import Defence
    from agent.evals.injection.report import Figures
    from agent.evals.injection.running import Outcome

app = typer.Typer(
    cls=PlainGroup,
    help="Suites that measure what is promised; no key and no network is needed.",
    no_args_is_help=True,
)


@app.callback()
def _group() -> None:
    """Suites that measure what is promised; no key and no network is needed."""


app.command("calls", cls=PlainCommand)(calls)
app.command("tasks", cls=PlainCommand)(tasks)
app.command("report", cls=PlainCommand)(report)
app.command("tau2", cls=PlainCommand)(tau2)
app.command("multi-turn", cls=PlainCommand)(multi_turn)


@app.command("injection", cls=PlainCommand)
def injection(
    suite: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="own (the default), agentdojo or injecagent; repeat it."),
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A part of a suite, as the table names it; repeat it."),
    ] = None,
    injecagent: Annotated[
        Path | None, typer.Option(metavar="PATH", help="The folder of InjecAgent's data.")
    ] = None,
    defence: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="none, labels, approval …; repeat it. Default: all."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="At most so many cases of a suite, spread evenly."),
    ] = None,
    expect: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Bounds to be kept, in TOML.")
    ] = None,
    cases: Annotated[bool, typer.Option("--cases", help="With --json: each case too.")] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What a model that obeys every planted instruction still cannot do.

    Exit code 1: a write ran by no rule and no decision, or a bound of --expect was not kept.
    """
    import asyncio
    from dataclasses import asdict

    from agent.evals.injection.bounds import broken, read_bounds
    from agent.evals.injection.report import HEADINGS, figures
    from agent.evals.injection.suites import TOTALS, plans_of

    chosen, bounds = _defences(defence or []), read_bounds(expect) if expect else {}
    with only_answers():
        plans = plans_of(suite or ["own"], parts=part or [], data=injecagent, limit=limit)
        outcomes = asyncio.run(_run(plans, chosen))
    found = figures(outcomes, TOTALS)
    if as_json_:
        report = {"figures": [one.as_json() for one in found]}
        answer_json(report | ({"cases": [asdict(one) for one in outcomes]} if cases else {}))
    else:
        answer_table(HEADINGS, [one.as_row() for one in found])
        _answer_blocks(found)
    lost = broken(bounds, found)
    for what in lost:
        say(what)
    if lost or any(one.unruled for one in outcomes):
        raise typer.Exit(1)


def _defences(names: Sequence[str]) -> list[Defence]:
    from agent.errors import UsageError
    from agent.evals.injection.defences import DEFENCES

    for name in names:
        if name not in DEFENCES:
            raise UsageError(f"{name!r} is no defence; there are {', '.join(DEFENCES)}.")
    return [DEFENCES[name] for name in names or DEFENCES]


async def _run(plans: Sequence[Plan], defences: Sequence[Defence]) -> list[Outcome]:
    from agent.evals.injection.suites import run_all

    outcomes = []
    for defence in defences:
        say(f"{len(plans)} cases under “{defence.name}”: {defence.summary}")
        outcomes += [outcome async for outcome in run_all(plans, [defence])]
    return outcomes


def _answer_blocks(found: Sequence[Figures]) -> None:
    """What blocked the attackers' calls, and what must never be."""
    for one in found:
        values = one.as_json()
        if values["blocked"]:
            rules = ", ".join(f"{rule} ({times})" for rule, times in values["blocked"].items())
            answer(f"{one.suite}, {one.defence}: blocked by {rules}")
        for what in values["unruled"]:
            answer(f"{one.suite}, {one.defence}: {what}")
