"""A kept run as a page and for CI servers: whole, and harmless whatever was said in it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from agent.errors import InvalidFile, UsageError
from agent.evals.reports.ci import github_annotations, junit
from agent.evals.reports.page import page
from agent.evals.reports.plots import Line, bars, curves
from agent.evals.reports.runs import Run, changes, read_run, side_by_side
from agent.evals.tasks.record import ApprovalKept, CallKept, Failure, FiguresKept, Trial, TurnKept
from agent.evals.tasks.results import RunKept
from agent.evals.tasks.state import Differing

HOSTILE = "</summary><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[2J\u202eevil\x00"


def trial(number: int = 0, *, task: str = "cancel", passed: bool = True, **given: Any) -> Trial:
    failure = None if passed else Failure(unit="call", what="wrong arguments: get_order('A9')")
    values: dict[str, Any] = {
        "world": "retail",
        "task": task,
        "policy_in": "tools",
        "model": "m",
        "reviewer": "approve",
        "number": number,
        "seed": 7,
        "passed": passed,
        "problems": [] if passed else ["the state is another one"],
        "failure": failure,
        "reached": 4 if passed else 1,
        "goal": "g",
        "state": "s",
        "session": "s-1",
        "ended": "done",
        "turns": [TurnKept(said="Cancel A1", answer="Done.")],
        "figures": FiguresKept(
            steps=2, calls=1, writes=1, asked=1, tokens_in=3, tokens_out=4, seconds=0.5
        ),
        "story": "  user: Cancel A1",
    }
    return Trial.model_validate(values | given)


def run_of(*trials: Trial, name: str = "nightly") -> Run:
    kept = RunKept(model="m", reviewer="approve", seed=7, worlds={"retail": "digest"})
    return Run(name, kept, trials)


def hostile() -> Trial:
    approval = ApprovalKept(
        id="a-1", kind="write", status="rejected", decided_by=HOSTILE, comment=HOSTILE,
        preview={"before": HOSTILE},
    )  # fmt: skip
    call = CallKept(
        turn=1, step=1, id="c", tool=HOSTILE, args={HOSTILE: HOSTILE}, became="rejected",
        wrong=True, reason=HOSTILE, result=HOSTILE, rule=HOSTILE, approvals=[approval],
        effect={"id": HOSTILE},
    )  # fmt: skip
    return trial(
        task=HOSTILE,
        passed=False,
        failure=Failure(unit="conversation", what=HOSTILE),
        problems=[HOSTILE],
        differing=[Differing(table=HOSTILE, missing=[{HOSTILE: HOSTILE}])],
        turns=[TurnKept(said=HOSTILE, answer=HOSTILE)],
        calls=[call],
        error=HOSTILE,
        story=HOSTILE,
    )


class Tags(HTMLParser):
    """Which tags there are, and whether each that is opened is closed in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags_of(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert tags.open == []
    return tags


def test_whatever_was_said_is_text_on_the_page() -> None:
    text = page(run_of(hostile(), trial(), name=HOSTILE), run_of(trial(), name=HOSTILE))
    tags = tags_of(text)
    names = {tag for tag, _ in tags.seen}
    assert not names & {"script", "img", "iframe", "link", "a", "object", "form", "base"}
    assert not any(name.startswith("on") for _, attrs in tags.seen for name in attrs)
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", text)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 15
    assert "default-src 'none'" in text


def test_a_page_fetches_nothing() -> None:
    text = page(run_of(trial(passed=False)))
    assert not re.search(r"\b(src|href)=|url\(|@import|https?:", text)


def test_every_failed_trial_can_be_opened_and_no_other() -> None:
    trials = [trial(n, passed=n > 2) for n in range(5)] + [
        trial(n, task="refund") for n in range(5)
    ]
    text = page(run_of(*trials))
    heads = re.findall(r"<summary>(cancel, policy in the tools, trial \d)", text)
    assert heads == [f"cancel, policy in the tools, trial {n}" for n in range(3)]
    assert "There is none." not in text
    assert "<h2>Failed trials</h2>\n<p>There is none.</p>" in page(run_of(trial()))


def test_the_curves_say_each_value_with_its_interval() -> None:
    text = curves("c", ["k = 1", "k = 2"], [Line("retail", [(0.5, 0.25, 0.75), (0.25, 0.0, 0.5)])])
    tags_of(text)
    assert "retail, k = 1: 0.500 [0.250, 0.750]" in text
    places = [(float(x), float(y)) for x, y in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', text)]
    assert places[0][0] < places[1][0]
    assert places[0][1] < places[1][1]  # the smaller share stands lower


def test_bars_are_as_long_as_their_counts() -> None:
    text = bars("b", [("one", [1.0, 2.0]), ("two", [6.0, 0.0])], ["call", "chain"])
    wide = [float(value) for value in re.findall(r'width="([\d.]+)" height="16"', text)]
    assert wide[1] == pytest.approx(2 * wide[0], abs=0.2)
    assert wide[2] == pytest.approx(6 * wide[0], abs=0.6)
    assert "one, chain: 2" in text


def test_what_got_worse_is_said_beside_an_earlier_run() -> None:
    before = run_of(*[trial(n) for n in range(4)], name="monday")
    now = run_of(*[trial(n, passed=n > 0) for n in range(4)])
    [change] = changes(now, before)
    assert change.worse == ("cancel",)
    text = page(now, before, [change])
    assert "Beside monday: m" in text
    assert "worse: cancel" in text
    assert "<td>cancel</td><td>4/4</td><td>3/4</td>" in text


def test_two_runs_stand_side_by_side_task_by_task() -> None:
    before = run_of(trial(0), trial(1), trial(0, task="gone"))
    now = run_of(trial(0), trial(1, passed=False), trial(0, task="fresh"))
    rows = {row[2]: row[3:] for row in side_by_side(now, before)}
    assert rows["cancel"] == ["2/2", "1/2", "2.0", "2.0", "1.00", "1.00", "worse"]
    assert rows["gone"] == ["1/1", "none", "2.0", "none", "1.00", "none", "gone"]
    assert rows["fresh"][-1] == "new"
    assert {row[2]: row[-1] for row in side_by_side(before, now)}["cancel"] == "better"


def test_junit_has_a_case_for_each_trial() -> None:
    found = [trial(0), trial(1, passed=False), trial(2, passed=False, error="it broke"), hostile()]
    root = ElementTree.fromstring(junit(run_of(*found)))
    [suite] = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("4", "1", "2")
    cases = {case.get("name"): case for case in suite}
    assert len(cases) == 4
    failure = cases["cancel trial 1"].find("failure")
    assert failure is not None
    assert failure.get("message") == "wrong arguments: get_order('A9')"
    assert "user: Cancel A1" in (failure.text or "")
    assert cases["cancel trial 2"].find("error") is not None


def test_annotations_stay_on_their_line_and_cannot_begin_another_command() -> None:
    lines = list(github_annotations(run_of(hostile(), trial(), trial(1, passed=False))))
    assert len(lines) == 2
    assert all(re.fullmatch(r"::error title=[^:,\n]*::[^\n\r]*", line) for line in lines)
    assert lines[1] == (
        "::error title=retail%3A cancel failed 1 of 2::wrong arguments: get_order('A9')"
    )


def test_a_folder_is_read_and_what_is_wrong_with_it_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no results"):
        read_run(tmp_path)
    kept = run_of().kept
    (tmp_path / "run.json").write_text(kept.model_dump_json())
    lines = [trial(n).model_dump_json() for n in range(2)]
    (tmp_path / "trials.jsonl").write_text("\n".join(lines) + "\n")
    assert [one.number for one in read_run(tmp_path).trials] == [0, 1]
    (tmp_path / "trials.jsonl").write_text(f"{lines[0]}\n{lines[1][:40]}")
    with pytest.raises(InvalidFile, match=r"trials.jsonl:2: it cannot be read"):
        read_run(tmp_path)
    newer = json.dumps(json.loads(lines[0]) | {"version": 2})
    (tmp_path / "trials.jsonl").write_text(newer)
    with pytest.raises(InvalidFile, match=r"trials.jsonl:1: it cannot be read: version"):
        read_run(tmp_path)
