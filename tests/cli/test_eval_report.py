"""``sayso eval report``: pages, CI files and thresholds over runs that were kept."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

from tests.cli.program import Invoke
from tests.unit.evals.reports.test_reports import run_of, trial


def keep(folder: Path, failed: int) -> str:
    folder.mkdir()
    (folder / "run.json").write_text(run_of().kept.model_dump_json())
    lines = [trial(n, passed=n >= failed).model_dump_json() for n in range(4)]
    (folder / "trials.jsonl").write_text("\n".join(lines) + "\n")
    return str(folder)


def test_a_run_is_told_written_as_a_page_and_for_ci(sayso: Invoke, tmp_path: Path) -> None:
    now, page, xml = keep(tmp_path / "now", 2), tmp_path / "run.html", tmp_path / "run.xml"
    shown = sayso("eval", "report", now, "--html", str(page), "--junit", str(xml))
    assert shown.code == 0
    assert "4 trials, 2 failed" in shown.out
    assert "0.500" in shown.out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert ElementTree.parse(xml).getroot()[0].get("failures") == "2"
    annotated = sayso("eval", "report", now, "--github")
    assert annotated.out.startswith("::error title=retail%3A cancel failed 2 of 4::")


def test_thresholds_are_exit_codes(sayso: Invoke, tmp_path: Path) -> None:
    now, before = keep(tmp_path / "now", 2), keep(tmp_path / "before", 1)
    assert sayso("eval", "report", now, "--at-least", "0.5").code == 0
    low = sayso("eval", "report", now, "--at-least", "0.6")
    assert low.code == 1
    assert "0.5000 of the trials passed, less than 0.6" in low.err
    worse = sayso("eval", "report", now, "--against", before, "--no-worse")
    assert worse.code == 1
    assert "worse than before: cancel." in worse.err
    assert sayso("eval", "report", before, "--against", now, "--no-worse").code == 0
    told = json.loads(sayso("eval", "report", now, "--against", before, "--json").out)
    assert told["changes"][0]["worse"] == ["cancel"]
    assert told["run"]["model"] == "m"


def test_wrong_usage_is_named(sayso: Invoke, tmp_path: Path) -> None:
    now = keep(tmp_path / "now", 0)
    for arguments, said in (
        ([str(tmp_path / "none")], "holds no results"),
        ([now, "--no-worse"], "--against DIR"),
        ([now, "--html", str(tmp_path / "no" / "x.html")], "cannot be written"),
    ):
        found = sayso("eval", "report", *arguments)
        assert found.code == 2
        assert said in found.err
