"""A run as one page: figures, plots, and every failed trajectory to open. It runs no script and
fetches nothing, and what models and tools said in it is text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from agent.canonical import canonical_json
from agent.evals.reports.plots import Line, bars, curves
from agent.evals.reports.runs import BESIDE, Run, side_by_side
from agent.evals.stages import STAGES
from agent.evals.tasks.diagnosis import UNITS, Change, Diagnosis
from agent.evals.tasks.record import CallKept, Trial
from agent.evals.tasks.report import (
    FAILURE_HEADINGS,
    HEADINGS,
    STAGE_HEADINGS,
    TASK_HEADINGS,
    failure_rows,
    in_words,
    reliability_rows,
    stage_rows,
    task_rows,
)
from agent.safe_text import plain, shorten

LONGEST = 20_000
"""Characters of one result, one answer or one preview that a page shows."""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(run: Run, against: Run | None = None, changes: Sequence[Change] = ()) -> str:
    """The page of a run, beside an earlier one where there is one."""
    found = run.diagnoses
    body = [
        f"<h1>{_text(run.title)}</h1>",
        f'<p class="soft">{_text(run.about)}</p>',
        *(_beside(run, against, changes) if against is not None else ()),
        '<div class="plots">',
        _figure("pass^k and pass@k", _reliability(found)),
        _figure("Failures by task", _failures(found)),
        _figure("Prompts to the reviewer, a trial", _asked(found)),
        "</div>",
        _section("How reliable", HEADINGS, reliability_rows(found)),
        _section("Where tasks are lost", STAGE_HEADINGS, stage_rows(found)),
        _section("Each task", TASK_HEADINGS, task_rows(found)),
        _section("Failures", FAILURE_HEADINGS, failure_rows(found)),
        "<h2>Failed trials</h2>",
        *(_trial(trial) for one in found for trial in one.failed),
    ]
    if not any(one.failed for one in found):
        body.append("<p>There is none.</p>")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(run.title)}</title><style>{_style()}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body></html>\n"
    )


def _style() -> str:
    return (files(__package__) / "page.css").read_text(encoding="utf-8")


def _text(value: object) -> str:
    """Anything as text of the page: signs that show as nothing, or as others, are spelled out."""
    return escape(plain(shorten(str(value), LONGEST)))


def _figure(caption: str, plot: str) -> str:
    return f"<figure><figcaption>{_text(caption)}</figcaption>{plot}</figure>"


def _section(title: str, headings: Sequence[str], rows: Iterator[list[str]]) -> str:
    table = _table(headings, rows)
    return f"<h2>{_text(title)}</h2>{table}" if table else ""


def _table(headings: Sequence[str], rows: Iterator[list[str]]) -> str:
    lines = ["".join(f"<td>{_text(cell)}</td>" for cell in row) for row in rows]
    if not lines:
        return ""
    head = "".join(f"<th>{_text(heading)}</th>" for heading in headings)
    cells = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _beside(run: Run, against: Run, changes: Sequence[Change]) -> Iterator[str]:
    yield f"<h2>Beside {_text(against.title)}</h2>"
    yield f'<p class="soft">{_text(against.about)}</p><ul>'
    for change in changes:
        yield f"<li>{_text(in_words(change))}</li>"
    yield "</ul>"
    yield _table(BESIDE, side_by_side(run, against))
    if not changes:
        yield "<p>The two have no world in common.</p>"


# --- plots --------------------------------------------------------------------------------------


def _reliability(found: Sequence[Diagnosis]) -> str:
    lines, ks = [], sorted({k for one in found for k in one.ks})
    for one in found:
        figures = one.reliability()
        if list(figures) == ks:
            for name, which in (("pass^k", 0), ("pass@k", 1)):
                values = [
                    (e.value, e.low, e.high) for e in (pair[which] for pair in figures.values())
                ]
                lines.append(Line(f"{_name(one)}, {name}", values))
    return curves("pass^k and pass@k", [f"k = {k}" for k in ks], lines)


def _failures(found: Sequence[Diagnosis]) -> str:
    rows = []
    for one in found:
        for task, trials in one.by_task.items():
            units = [trial.failure.unit for trial in trials if trial.failure is not None]
            if units:
                rows.append((_task(one, task, found), [float(units.count(unit)) for unit in UNITS]))
    return bars("Failures by task and unit", rows, UNITS) if rows else "<p>There is none.</p>"


def _asked(found: Sequence[Diagnosis]) -> str:
    rows = [
        (_task(one, task, found), [sum(t.figures.asked for t in trials) / len(trials)])
        for one in found
        for task, trials in one.by_task.items()
    ]
    return bars("Prompts to the reviewer", rows, ["prompts"])


def _name(one: Diagnosis) -> str:
    return f"{one.world}, {one.policy_in}"


def _task(one: Diagnosis, task: str, found: Sequence[Diagnosis]) -> str:
    return task if len(found) == 1 else f"{task} ({one.policy_in})"


# --- trajectories -------------------------------------------------------------------------------


def _trial(trial: Trial) -> str:
    unit = trial.failure.unit if trial.failure else "failed"
    what = trial.failure.what if trial.failure else "; ".join(trial.problems)
    head = f"{trial.task}, policy in the {trial.policy_in}, trial {trial.number}: {unit}: {what}"
    stage = "none of them" if trial.reached == 0 else f"“{STAGES[trial.reached - 1]}”"
    problems = "".join(f"<li>{_text(problem)}</li>" for problem in trial.problems)
    rows = "".join(
        f"<li>{_text(d.table)}: {sign} {_text(canonical_json(row))}</li>"
        for d in trial.differing
        for sign, some in (("missing", d.missing), ("beyond the goal", d.extra))
        for row in some
    )
    said = "".join(
        f"<p><b>user:</b> {_text(turn.said)}</p>"
        + "".join(_call(call) for call in trial.calls if call.turn == number)
        + (f"<p><b>agent:</b> {_text(turn.answer)}</p>" if turn.answer else "")
        for number, turn in enumerate(trial.turns, 1)
    )
    about = f"{trial.session} is {trial.ended}, seed {trial.seed}; it got through {stage}."
    if trial.error:
        about += f" {trial.error}"
    return (
        f"<details><summary>{_text(head)}</summary>"
        f'<p class="soft">{_text(about)}</p><ul>{problems}{rows}</ul>{said}'
        f"<details><summary>as a story</summary><pre>{_text(trial.story)}</pre></details></details>"
    )


def _call(call: CallKept) -> str:
    lines = [f"{call.became}{f', rule {call.rule}' if call.rule else ''}"]
    lines += [call.reason] if call.reason else []
    for one in call.approvals:
        who = f" by {one.decided_by}" if one.decided_by else ""
        lines.append(f"approval {one.id}: {one.status}{who}. {one.comment or ''}".rstrip())
        lines += [f"preview: {canonical_json(one.preview)}"] if one.preview else []
        if one.decided_args is not None and one.decided_args != call.args:
            lines.append(f"ran with {canonical_json(one.decided_args)}")
    if call.effect is not None:
        lines.append(f"ledger: {canonical_json(call.effect)}")
    result = f"<pre>{_text(call.result)}</pre>" if call.result is not None else ""
    mark = ' class="wrong"' if call.wrong else ""
    head = f"{call.step}. {call.tool}({canonical_json(call.args)})"
    return (
        f"<details{mark}><summary>{_text(head)} <span class='soft'>{_text(call.became)}</span>"
        f"</summary>{''.join(f'<p>{_text(line)}</p>' for line in lines)}{result}</details>"
    )
