"""kill -9 at any instant of a session: every write happened once, or not, or is in doubt.

A run is a session with two approved writes, one of them edited, one that is rejected, and an undo.
Its process is killed; others carry it on, with a person who approves and who settles doubts by a
look at the world; sometimes these are killed as well. Then the world, the ledger, the approvals,
the trail and the history are held against each other (``crash_report``).
"""

from __future__ import annotations

from tests.crash.conftest import Play
from tests.support.crash_parent import Outcome
from tests.support.crash_runs import Run, random_run
from tests.support.crash_tools import Kind
from tests.support.crash_world import KILLS

WANTED = {"local": 3, "remote": 3, "keyless": 3, "mcp": 2}
"""Approved writes of a whole run; those of MCP servers have no undo."""

INSTANTS = {"local": 190, "remote": 190, "keyless": 190, "mcp": 123}
"""About as many has a run that nobody kills; ``test_nobody_is_killed`` compares."""


def check(outcome: Outcome, run: Run, again: str) -> None:
    """Nothing doubled, lost or unapproved; and who knows what happened brings it to its end."""
    report = outcome.report
    told = f'{run}\n{outcome}\nagain: make crash ARGS="--tool {run.kind} {again}"'
    assert report.problems == (), told
    assert (report.doubled, report.lost, report.unapproved) == (0, 0, 0), told
    if not run.knows:
        assert report.ended or report.in_doubt, told
        return
    assert (report.ended, report.in_doubt) == (1, 0), told
    assert report.wanted == report.done + report.failed, told
    if not set(run.faults) - set(KILLS):
        assert (report.wanted, report.failed) == (WANTED[run.kind] - run.moves_on, 0), told


def test_nobody_is_killed(tool: Kind, database: str, play: Play) -> None:
    run = Run(tool)
    outcome = play(run)
    check(outcome, run, f"--database {database} -k nobody")
    assert outcome.ends == ("lived",)
    assert 0.9 < outcome.instants / INSTANTS[tool] < 1.1
    assert (outcome.report.by_record, outcome.report.resent, outcome.report.asked) == (0, 0, 0)


def test_a_kill_at_a_named_point(tool: Kind, database: str, point: Run, play: Play) -> None:
    outcome = play(point)
    check(outcome, point, f"--database {database} -k point")
    ends = tuple("lived" if kill.loses else "killed" for kill in point.kills)
    assert outcome.ends[: len(ends)] == ends
    if point.faults:  # it was killed within the tool
        assert outcome.report.by_record or outcome.report.resent or outcome.report.asked


def test_random_kills(tool: Kind, database: str, seed: int, play: Play) -> None:
    run = random_run(tool, seed, INSTANTS[tool])
    check(play(run), run, f"--database {database} --seed {seed} --kills 1 -k random")
