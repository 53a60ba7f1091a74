"""``sayso eval tasks``: whether an agent can be relied on, task by task, trial after trial."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.output import answer, answer_json, answer_table, only_answers, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.evals.tasks.diagnosis import Change, Diagnosis
    from agent.evals.tasks.record import Trial
    from agent.evals.tasks.trials import Plan


def tasks(
    world: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="retail (the default), grocery, bank, mail, courses, all, or a file; repeat it.",
        ),
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only this task; repeat it.")
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="offline, provider:model, mock:gold, or mock:careless?skip_check=0.2&typo=0.1.",
        ),
    ] = "offline",
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Of each task.")] = 1,
    seed: Annotated[int, typer.Option(metavar="N", help="Of what is left to chance.")] = 0,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Processes side by side. Default: one a core."),
    ] = None,
    policy_in: Annotated[
        str, typer.Option(metavar="WHERE", help="What holds the policy: prompt, tools or both.")
    ] = "tools",
    reviewer: Annotated[
        str, typer.Option(metavar="NAME", help="approve, reject, goal, tired or absent.")
    ] = "approve",
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep each trial there, and go on where it stopped."),
    ] = None,
    at_least: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Exit code 1 when a world has less."),
    ] = None,
    failed: Annotated[
        bool, typer.Option("--failed", help="Tell each failed trial as a story.")
    ] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Try tasks over worlds again and again; the final state of the world decides."""
    from agent.evals.processes import cores
    from agent.evals.tasks.diagnosis import diagnosed

    plan = _plan(world or ["retail"], task or [], trials, seed, policy_in, model, reviewer)
    with only_answers():
        found = diagnosed(_trials(plan, jobs or cores(), results))
    changes = _changes(found)
    if as_json_:
        _answer_json(plan, found, changes)
    else:
        _answer(found, changes, stories=failed)
    lost = [one for one in found if at_least is not None and one.rate < at_least]
    for one in lost:
        say(
            f"{one.world}, policy in the {one.policy_in}: {one.rate:.4f} of the trials passed, "
            f"less than {at_least:g}."
        )
    if lost:
        raise typer.Exit(1)


def _plan(
    worlds: Sequence[str],
    named: Sequence[str],
    trials: int,
    seed: int,
    policy_in: str,
    model: str,
    reviewer: str,
) -> Plan:
    from agent.errors import NotFound, UsageError
    from agent.evals.tasks.running import Agent, check_agent, holders
    from agent.evals.tasks.task import bundled_worlds, read_world
    from agent.evals.tasks.trials import Plan

    agent = Agent(model, reviewer)
    check_agent(agent)
    names = bundled_worlds() if "all" in worlds else worlds
    files = tuple(read_world(name) for name in dict.fromkeys(names))
    if len({file.name for file in files}) < len(files):
        raise UsageError("Two of the files are about a world of the same name.")
    known = [task for file in files for task in file.tasks]
    for task in named:
        if task not in known:
            raise NotFound("task", task, known)
    return Plan(files, holders(policy_in), trials, seed, agent, tuple(named))


def _trials(plan: Plan, jobs: int, folder: Path | None) -> list[Trial]:
    from agent.evals.tasks.results import Results, RunKept
    from agent.evals.tasks.trials import find_goals, run_trials, workers

    run = RunKept(
        model=plan.agent.model,
        reviewer=plan.agent.reviewer,
        seed=plan.seed,
        worlds={file.name: file.digest for file in plan.files},
    )
    kept = Results(folder, run) if folder is not None else None
    if kept is not None and kept.cut is not None:
        say(kept.cut)
    wanted = {job.key for job in plan.jobs}
    there = [trial for trial in (kept.trials if kept else {}).values() if trial.key in wanted]
    if there:
        say(f"{len(there)} of {len(wanted)} trials are there already.")
    count = sum(len(plan.tasks_of(file)) for file in plan.files)
    with closing(kept) if kept is not None else nullcontext(), workers(jobs) as found:
        with _progress("right calls", count) as advance:
            goals = find_goals(plan, found, advance)
        with _progress("trials", len(wanted) - len(there)) as advance:
            for trial in run_trials(plan, goals, [one.key for one in there], found):
                if kept is not None:
                    kept.add(trial)
                there.append(trial)
                advance(1)
    order = {key: number for number, key in enumerate(job.key for job in plan.jobs)}
    return sorted(there, key=lambda trial: order[trial.key])


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, on a terminal."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        line = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(line, steps)


def _changes(found: Sequence[Diagnosis]) -> list[Change]:
    """Of each world whose policy was in the prompt and in the tools, what the move brought."""
    from agent.evals.tasks.diagnosis import compared

    by_place = {(one.world, one.policy_in): one for one in found}
    return [
        compared(by_place[world, "prompt"], one, f"{world}, the policy moved into the tools")
        for (world, place), one in by_place.items()
        if place == "tools" and (world, "prompt") in by_place
    ]


def _answer(found: Sequence[Diagnosis], changes: Sequence[Change], *, stories: bool) -> None:
    from agent.evals.tasks import report

    tables = (
        (report.HEADINGS, list(report.reliability_rows(found))),
        (report.STAGE_HEADINGS, list(report.stage_rows(found))),
        (report.TASK_HEADINGS, list(report.task_rows(found))),
        (report.FAILURE_HEADINGS, list(report.failure_rows(found))),
    )
    for number, (headings, rows) in enumerate(tables):
        if rows:
            if number:
                answer("")
            answer_table(headings, rows)
    for change in changes:
        answer("")
        answer(report.in_words(change))
    for trial in [trial for one in found for trial in one.failed] if stories else []:
        answer("")
        answer(f"{trial.task}, policy in the {trial.policy_in}, trial {trial.number}:")
        answer(trial.story)
        for problem in trial.problems:
            answer(f"  {problem}")


def _answer_json(plan: Plan, found: Sequence[Diagnosis], changes: Sequence[Change]) -> None:
    from agent.evals.tasks.report import as_json

    head = {
        "model": plan.agent.model,
        "reviewer": plan.agent.reviewer,
        "seed": plan.seed,
        "trials": plan.trials,
    }
    answer_json({**head, **as_json(found, changes)})
