"""``sayso eval tau2``, ``sayso eval multi-turn``: right answers of others' benchmarks, replayed."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.cli.output import answer, answer_json, answer_table, only_answers, say

Limit = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="At most so many tasks of a part.")
]
Reject = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Reject the Nth call that changes something."),
]
Jobs = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Processes. Default: one a core.")
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


def tau2(
    domain: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="retail, airline or telecom; repeat it. Default: all."),
    ] = None,
    limit: Limit = None,
    reject: Reject = None,
    jobs: Jobs = None,
    as_json_: AsJson = False,
) -> None:
    """Replay τ²-bench's right answers through the gate; its own hash says whether they arrive."""
    _replay("tau2", domain or [], limit, reject, jobs, as_json_)


def multi_turn(
    category: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="base, miss_func, miss_param or long_context; repeat it."
        ),
    ] = None,
    limit: Limit = None,
    jobs: Jobs = None,
    as_json_: AsJson = False,
) -> None:
    """Replay BFCL's multi-turn runs through the gate; its own checker judges every turn."""
    _replay("multi-turn", category or [], limit, None, jobs, as_json_)


def _replay(
    suite: str,
    chosen: list[str],
    limit: int | None,
    reject: int | None,
    jobs: int | None,
    as_json_: bool,
) -> None:
    from agent.evals.processes import cores
    from agent.evals.replays.suites import HEADINGS, parts_of, run

    found = []
    with only_answers():
        for name in parts_of(suite, chosen):
            say(f"{name} …")
            found.append(run(suite, name, limit=limit, reject=reject, jobs=jobs or cores()))
    if as_json_:
        answer_json({"rejected": reject, "parts": [part.as_json() for part in found]})
    else:
        answer_table(HEADINGS, [part.as_row() for part in found])
        for part in found:
            told = part.as_json()
            for task, what in told["faulty"].items():
                answer(f"{task}, its own fault: {'; '.join(what)}")
            for task, what in told["wrong"].items() if reject is None else ():
                answer(f"{task}: {'; '.join(what)}")
    if reject is None and any(part.wrong for part in found):
        raise typer.Exit(1)
