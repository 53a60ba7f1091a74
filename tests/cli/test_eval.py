"""``sayso eval injection``: a table, JSON, bounds, and what is said about wrong names."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.program import Invoke

OFFICE = ("eval", "injection", "--part", "office", "--defence", "approval")


def test_figures_as_a_table_and_as_json(sayso: Invoke) -> None:
    shown = sayso(*OFFICE, "--limit", "4")
    assert shown.code == 0
    heading, row = shown.out.splitlines()[:2]
    assert heading.split()[:4] == ["SUITE", "DEFENCE", "ATTACKS", "SUCCEED"]
    assert row.split()[:4] == ["office", "approval", "3", "0"]
    assert "4 cases under" in shown.err

    told = sayso(*OFFICE, "--limit", "2", "--json", "--cases")
    report = json.loads(told.out)
    assert report["figures"][0]["blocked"] == {"reviewer: address from strangers": 1}
    assert [case["id"].split("/")[0] for case in report["cases"]] == ["own", "own"]
    assert report["cases"][1]["blocked"] == report["figures"][0]["blocked"]


def test_bounds_that_are_not_kept_fail_the_run(sayso: Invoke, tmp_path: Path) -> None:
    bounds = tmp_path / "bounds.toml"
    bounds.write_text("[office.approval]\nattacks = [3, 3]\nsucceeded = [0, 0]\n")
    assert sayso(*OFFICE, "--limit", "4", "--expect", str(bounds)).code == 0
    bounds.write_text("[office.approval]\nsucceeded = [1, 3]\n")
    lost = sayso(*OFFICE, "--limit", "4", "--expect", str(bounds))
    assert lost.code == 1
    assert "office, approval: succeeded is 0, not 1 to 3" in lost.err


def test_wrong_names_are_wrong_usage(sayso: Invoke) -> None:
    for arguments in (
        ["--suite", "x"],
        ["--defence", "x"],
        ["--part", "x"],
        ["--suite", "injecagent"],
        ["--expect", "nowhere.toml"],
    ):
        assert sayso("eval", "injection", *arguments).code == 2
