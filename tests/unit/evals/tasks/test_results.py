"""Results are kept a line a trial; what a kill left half written is named and run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.errors import InvalidFile, UsageError
from agent.evals.tasks.record import FiguresKept, Trial
from agent.evals.tasks.results import TRIALS, Results, RunKept, read_results

RUN = RunKept(model="offline", reviewer="approve", seed=0, worlds={"retail": "d1"})


def trial(number: int, passed: bool = True) -> Trial:
    return Trial(
        world="retail", task="one", policy_in="tools", model="offline", reviewer="approve",
        number=number, seed=7, passed=passed, reached=4, goal="g", state="s", session="s-1",
        ended="done", story="it went well",
        figures=FiguresKept(
            steps=1, calls=0, writes=0, asked=0, tokens_in=0, tokens_out=0, seconds=0.1
        ),
    )  # fmt: skip


def kept(folder: Path, *trials: Trial, run: RunKept = RUN) -> Results:
    results = Results(folder, run)
    for one in trials:
        results.add(one)
    results.close()
    return results


def test_what_was_kept_is_there_again(tmp_path: Path) -> None:
    kept(tmp_path, trial(0), trial(1, passed=False))
    again = kept(tmp_path, trial(2))
    assert again.cut is None
    run, trials = read_results(tmp_path)
    assert run == RUN
    assert [(one.number, one.passed) for one in trials] == [(0, True), (1, False), (2, True)]


@pytest.mark.parametrize("rest", [b'{"version": 1, "wor', b'{"version": 1}\n', b"\xff\xfe\n"])
def test_a_last_line_that_cannot_be_read_is_cut_off_and_named(tmp_path: Path, rest: bytes) -> None:
    kept(tmp_path, trial(0), trial(1))
    path = tmp_path / TRIALS
    whole = path.read_bytes()
    path.write_bytes(whole + rest)
    again = kept(tmp_path, trial(2))
    assert again.cut is not None
    assert again.cut.startswith("trials.jsonl:3: ")
    assert path.read_bytes().startswith(whole)
    assert [one.number for one in read_results(tmp_path)[1]] == [0, 1, 2]


def test_a_last_line_without_its_end_is_not_believed(tmp_path: Path) -> None:
    kept(tmp_path, trial(0), trial(1))
    path = tmp_path / TRIALS
    path.write_bytes(path.read_bytes()[:-1])
    again = Results(tmp_path, RUN)
    again.close()
    assert [key[3] for key in again.trials] == [0]
    assert again.cut == "trials.jsonl:2: it breaks off. Its trial is run again."


def test_a_broken_line_in_the_middle_stops_the_run(tmp_path: Path) -> None:
    kept(tmp_path, trial(0), trial(1))
    path = tmp_path / TRIALS
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first.replace(b'"passed":true', b'"passed":"so-so"') + second)
    with pytest.raises(InvalidFile, match=r"trials.jsonl:1: it cannot be read: passed"):
        Results(tmp_path, RUN)
    assert path.read_bytes().endswith(second)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed"),
        ({"model": "mock:gold"}, "model"),
        ({"reviewer": "reject"}, "reviewer"),
        ({"worlds": {"retail": "d2"}}, "the tasks of retail"),
        ({"worlds": {"bank": "d1"}}, "the tasks of bank"),
    ],
)
def test_results_of_another_run_are_left_alone(
    tmp_path: Path, change: dict[str, object], named: str
) -> None:
    kept(tmp_path, trial(0))
    with pytest.raises(UsageError, match=named):
        Results(tmp_path, RUN.model_copy(update=change))


def test_a_folder_without_results_is_said_to_have_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no results"):
        read_results(tmp_path)
