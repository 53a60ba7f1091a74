"""``sayso eval report``: a run that was kept, as a page, for a CI server, beside an earlier one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.output import answer, answer_json, answer_table, say

if TYPE_CHECKING:
    from agent.evals.reports.runs import Run
    from agent.evals.tasks.diagnosis import Change


def report(
    results: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of `sayso eval tasks --results`.")
    ],
    against: Annotated[
        Path | None, typer.Option(metavar="DIR", help="An earlier run, to say what got worse.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that stands by itself.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit's XML.")] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Annotations for the log of a GitHub workflow.")
    ] = False,
    at_least: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Exit code 1 when a world has less."),
    ] = None,
    no_worse: Annotated[
        bool, typer.Option("--no-worse", help="Exit code 1 when a task got worse.")
    ] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Report on trials that were kept, without running any."""
    from agent.errors import UsageError
    from agent.evals.reports.ci import github_annotations
    from agent.evals.reports.ci import junit as as_junit
    from agent.evals.reports.page import page
    from agent.evals.reports.runs import changes, read_run
    from agent.evals.tasks.report import as_json

    if no_worse and against is None:
        raise UsageError("--no-worse needs an earlier run: --against DIR")
    run = read_run(results)
    earlier = read_run(against) if against is not None else None
    found = changes(run, earlier) if earlier is not None else []
    if html is not None:
        _write(html, page(run, earlier, found))
    if junit is not None:
        _write(junit, as_junit(run))
    if as_json_:
        answer_json({"run": run.kept.model_dump(), **as_json(run.diagnoses, found)})
    elif github:
        for line in github_annotations(run):
            answer(line)
    else:
        _answer(run, earlier, found)
    if _lost(run, found, at_least, no_worse):
        raise typer.Exit(1)


def _write(path: Path, text: str) -> None:
    from agent.errors import UsageError

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None
    say(f"Written: {path}")


def _answer(run: Run, earlier: Run | None, found: list[Change]) -> None:
    from agent.evals.reports.runs import BESIDE, side_by_side
    from agent.evals.tasks import report as tables

    answer(run.about)
    for headings, rows in (
        (tables.HEADINGS, list(tables.reliability_rows(run.diagnoses))),
        (tables.STAGE_HEADINGS, list(tables.stage_rows(run.diagnoses))),
        (tables.FAILURE_HEADINGS, list(tables.failure_rows(run.diagnoses))),
        (BESIDE, list(side_by_side(run, earlier)) if earlier is not None else []),
    ):
        if rows:
            answer("")
            answer_table(headings, rows)
    for change in found:
        answer("")
        answer(tables.in_words(change))


def _lost(run: Run, found: list[Change], at_least: float | None, no_worse: bool) -> bool:
    lost = False
    for one in run.diagnoses:
        if at_least is not None and one.rate < at_least:
            lost = True
            say(
                f"{one.world}, policy in the {one.policy_in}: {one.rate:.4f} of the trials passed, "
                f"less than {at_least:g}."
            )
    for change in found if no_worse else []:
        if change.worse:
            lost = True
            say(f"{change.name}: worse than before: {', '.join(change.worse)}.")
    return lost
