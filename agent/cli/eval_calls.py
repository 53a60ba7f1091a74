"""``sayso eval calls``: whether a model's single calls are the ones that were wanted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent.cli.output import answer, answer_json, answer_table, only_answers, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agent.evals.calls.bfcl import Compared
    from agent.evals.calls.cases import Case
    from agent.evals.calls.report import Figures
    from agent.evals.calls.scoring import Reply


def calls(
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="offline, provider:model or mock:NAME; repeat it. Default: the mocks, offline.",
        ),
    ] = None,
    cases: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Cases of your own, in YAML.")
    ] = None,
    suite: Annotated[
        str, typer.Option(metavar="NAME", help="own, or bfcl: its scorer beside ours.")
    ] = "own",
    strict: Annotated[bool, typer.Option("--strict", help="Texts letter by letter.")] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the mocks.")] = 0,
    at_least: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Exit code 1 when a model has less."),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Name each failed case.")] = False,
    as_json_: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Score single replies: the right function, with the right arguments, or rightly none."""
    from agent.errors import UsageError

    if suite == "bfcl":
        _compare(as_json_)
        return
    if suite != "own":
        raise UsageError(f"{suite!r} is no suite of calls; there are own and bfcl.")
    from agent.evals.calls.cases import bundled_cases, read_cases
    from agent.evals.calls.report import HEADINGS, figures
    from agent.evals.calls.scoring import score

    chosen = read_cases(cases) if cases is not None else bundled_cases()
    found = []
    with only_answers():
        for name, replies in _replies(model or [], chosen, seed):
            pairs = zip(chosen, replies, strict=True)
            scores = [score(case, reply, strict=strict) for case, reply in pairs]
            found.append(figures(name, chosen, replies, scores))
    if as_json_:
        answer_json({"strict": strict, "models": [one.as_json(scores=failed) for one in found]})
    else:
        answer_table(HEADINGS, [one.as_row() for one in found])
        for one in found:
            _answer_failures(one, each=failed)
    if at_least is not None and (few := [one for one in found if one.accuracy < at_least]):
        for one in few:
            say(f"{one.model} has {one.accuracy:.4f} right, less than {at_least:g}.")
        raise typer.Exit(1)


def _replies(
    names: Sequence[str], cases: Sequence[Case], seed: int
) -> Sequence[tuple[str, list[Reply]]]:
    import asyncio

    from agent.errors import NotFound
    from agent.evals.calls.mocks import mocks

    known = mocks(seed)
    found = []
    for name in names or [*known, "offline"]:
        if name in known:
            found.append((name, [known[name](case) for case in cases]))
        elif name.startswith("mock:"):
            raise NotFound("bundled model", name, [*known])
        else:
            say(f"{len(cases)} requests to {name}")
            found.append((name, asyncio.run(_asked(name, cases))))
    return found


async def _asked(name: str, cases: Sequence[Case]) -> list[Reply]:
    from agent.config import load_settings
    from agent.evals.calls.asking import ask
    from agent.models import configured_chat_model

    model = configured_chat_model(load_settings(model=name))
    return [await ask(model, case) for case in cases]


def _answer_failures(one: Figures, *, each: bool) -> None:
    if one.failures:
        counts = ", ".join(f"{name} ({times})" for name, times in one.failures.items())
        answer(f"{one.model}: {counts}")
    for score in one.scores if each else ():
        if score.failure is not None:
            answer(f"  {score.case}: {score.failure}: {'; '.join(score.problems)}")


def _compare(as_json_: bool) -> None:
    from agent.evals.calls.bfcl import compare, entries, official_scorer

    with only_answers():
        found = entries()
        say(f"{len(found)} cases of BFCL, each as it is and changed in every way that it can be")
        compared = compare(found, official_scorer())
    if as_json_:
        answer_json({"cases": len(found), "changes": [_as_json(one) for one in compared]})
        return
    rows = [
        [
            one.kind,
            str(one.right),
            str(one.wrong),
            str(len(one.ours_only)),
            str(len(one.theirs_only)),
        ]
        for one in compared
    ]
    answer_table(("CHANGED", "BOTH RIGHT", "BOTH WRONG", "ONLY OURS", "ONLY THEIRS"), rows)


def _as_json(one: Compared) -> dict[str, Any]:
    return {
        "change": one.kind,
        "both_right": one.right,
        "both_wrong": one.wrong,
        "only_ours": list(one.ours_only),
        "only_theirs": list(one.theirs_only),
    }
