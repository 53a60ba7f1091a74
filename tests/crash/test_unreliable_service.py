"""A service that answers too late, twice, for another call, or not at all.

The first write of a run goes wrong. A service that honours keys is asked again with the same key,
its record is looked at, or a person is asked; nothing is done twice, and nothing is claimed that
is not known.
"""

from __future__ import annotations

import pytest

from tests.crash.conftest import Play
from tests.support.crash_report import Report
from tests.support.crash_runs import SOON, Run
from tests.support.crash_tools import Kind
from tests.support.crash_world import ANSWERS, LATE, WITHOUT_EFFECT

HARMLESS = ("answers twice",)

WITH_KEYS = [("remote", True), ("remote", False), ("mcp", False)]
WITHOUT_KEYS = [("keyless", True), ("keyless", False), ("mcp", False)]
"""Kinds of service, and whether the contract knows how to look into its record."""

pytestmark = pytest.mark.parametrize("database", ["sqlite"])


def faults(fault: str) -> tuple[str, ...]:
    """What goes wrong, one write after the other."""
    first = () if fault != "refuses a reused key" else ("drops it after the effect",)
    return (*first, fault)


def check(report: Report) -> None:
    assert report.problems == ()
    assert (report.doubled, report.lost, report.unapproved) == (0, 0, 0)
    assert (report.ended, report.in_doubt) == (1, 0)
    assert report.done + report.failed == report.wanted


@pytest.mark.parametrize("fault", ANSWERS)
@pytest.mark.parametrize(("tool", "looks_up"), WITH_KEYS)
def test_a_service_that_honours_keys(tool: Kind, fault: str, looks_up: bool, play: Play) -> None:
    patience = SOON if fault in LATE or tool == "mcp" else 30
    report = play(Run(tool, faults=faults(fault), looks_up=looks_up, patience=patience)).report
    check(report)
    assert report.done == report.wanted
    if fault not in HARMLESS:
        assert report.by_record or report.resent
    if patience != SOON:
        assert report.asked == 0


@pytest.mark.parametrize("fault", [fault for fault in ANSWERS if "key" not in fault])
@pytest.mark.parametrize(("tool", "looks_up"), WITHOUT_KEYS)
def test_a_service_without_keys(tool: Kind, fault: str, looks_up: bool, play: Play) -> None:
    patience = SOON if fault in LATE or tool == "mcp" else 30
    run = Run(tool, faults=(fault,), looks_up=looks_up, honours_keys=False, patience=patience)
    report = play(run).report
    check(report)
    assert report.resent == 0
    assert report.done == report.wanted - (fault in WITHOUT_EFFECT)
    if fault not in HARMLESS:
        assert report.by_record or report.asked
    if patience != SOON and looks_up:
        assert report.asked == (fault in WITHOUT_EFFECT)


@pytest.mark.parametrize(("tool", "looks_up"), [*WITH_KEYS[:2], *WITHOUT_KEYS[:2]])
@pytest.mark.parametrize("fault", LATE)
def test_the_harness_gives_up_before_the_client(
    tool: Kind, fault: str, looks_up: bool, play: Play
) -> None:
    """The body goes on meanwhile; what it learns too late is still evidence.

    The undo may have to overlap with it, and is not begun then.
    """
    report = play(Run(tool, faults=(fault,), looks_up=looks_up, tool_timeout=SOON)).report
    check(report)
    assert report.wanted - report.done in (0, 1)
