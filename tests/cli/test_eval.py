"""``sayso eval injection``: a table, JSON, and what is said about wrong names."""

from __future__ import annotations

import json

from tests.cli.program import Invoke


def test_figures_as_a_table_and_as_json(sayso: Invoke) -> None:
    shown = sayso("eval", "injection", "--defence", "approval", "--limit", "4")
    assert shown.code == 0
    heading, row = shown.out.splitlines()[:2]
    assert heading.split()[:4] == ["SUITE", "DEFENCE", "ATTACKS", "SUCCEED"]
    assert row.split()[:4] == ["own", "approval", "3", "0"]
    assert "4 cases under" in shown.err

    told = sayso("eval", "injection", "--defence", "approval", "--limit", "2", "--json", "--cases")
    report = json.loads(told.out)
    assert report["figures"][0]["blocked"] == {"reviewer: address from strangers": 1}
    assert [case["id"].split("/")[0] for case in report["cases"]] == ["own", "own"]
    assert report["cases"][1]["blocked"] == report["figures"][0]["blocked"]


def test_wrong_names_are_wrong_usage(sayso: Invoke) -> None:
    for arguments in (["--suite", "x"], ["--defence", "x"], ["--suite", "injecagent"]):
        assert sayso("eval", "injection", *arguments).code == 2
