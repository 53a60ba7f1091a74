"""kill -9 at every instant of an approved write: it happened once, or not, or is in doubt.

Each case is two or three real processes over one state folder: one that dies by SIGKILL at the
named instant, then others that carry the session on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.crash_worker import POINTS

ROOT = Path(__file__).parents[2]
DOUBTFUL = {"after intended", "inside, before the effect", "inside, after the effect",
            "before committed"}  # fmt: skip
HAPPENED = {"inside, after the effect", "before committed"}


def worker(home: Path, *words: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.crash_worker", str(home), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def killed(home: Path, *words: str) -> None:
    result = worker(home, *words)
    assert result.returncode == -signal.SIGKILL, result.stderr


def report(home: Path, *words: str) -> dict[str, Any]:
    result = worker(home, *words)
    assert result.returncode == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("point", [point for point in POINTS if point not in DOUBTFUL])
def test_where_the_outcome_is_known_the_session_just_goes_on(tmp_path: Path, point: str) -> None:
    killed(tmp_path, "start", point)
    after = report(tmp_path, "resume", "never")

    assert (after["state"], after["row"]) == ("done", "done")
    assert (after["answer"], after["receipts"], after["users"]) == ("All done.", 1, 1)
    assert after["world"] == ["1"]
    assert after["effects"] == [["committed", 1]]
    assert after["doubts"] == []
    assert after["writes"] == ["approved"]
    assert after["results"] == {"act": "changed 1", "look": "saw 2"}
    assert after["trail"] == []


@pytest.mark.parametrize("point", sorted(DOUBTFUL))
def test_where_it_is_not_known_a_person_is_asked_and_nothing_runs_blindly(
    tmp_path: Path, point: str
) -> None:
    killed(tmp_path, "start", point)
    happened = point in HAPPENED
    waiting = report(tmp_path, "resume", "never")

    assert waiting["state"] == "waiting"
    assert waiting["world"] == (["1"] if happened else [])
    assert waiting["effects"] == [["in_doubt", 1]]
    assert waiting["doubts"] == ["pending"]

    settled = report(tmp_path, "resume", "never", "happened" if happened else "not-happened")
    assert settled["state"] == "done"
    assert settled["world"] == ["1"]
    assert settled["effects"] == [["committed", 1 if happened else 2]]
    assert settled["doubts"] == ["answered"]
    assert settled["writes"] == ["approved"]
    assert set(settled["results"]) == {"act", "look"}
    assert settled["trail"] == []


@pytest.mark.parametrize("second", ["inside, after the effect", "after committed"])
def test_a_second_crash_in_the_second_attempt_is_just_as_safe(tmp_path: Path, second: str) -> None:
    killed(tmp_path, "start", "after intended")
    killed(tmp_path, "resume", second, "not-happened")
    after = report(tmp_path, "resume", "never")

    assert after["world"] == ["1"]
    if second == "after committed":
        assert (after["state"], after["effects"]) == ("done", [["committed", 2]])
        return
    assert (after["state"], after["effects"]) == ("waiting", [["in_doubt", 2]])
    settled = report(tmp_path, "resume", "never", "happened")
    assert (settled["state"], settled["world"]) == ("done", ["1"])
    assert settled["doubts"] == ["answered", "answered"]


@pytest.mark.timeout(600)  # some forty sessions, each in two processes
def test_after_a_kill_behind_any_commit_the_session_goes_on_to_the_same_end(
    tmp_path: Path,
) -> None:
    result = worker(tmp_path, "every", seconds=500)
    assert result.returncode == 0, result.stderr
    ends = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(ends) > 10
    for number, after in enumerate(ends):
        assert (after["state"], after["row"]) == ("done", "done"), number
        assert (after["answer"], after["users"]) == ("All done.", 1), number
        assert after["world"] == ["1"], number
        assert [state for state, _ in after["effects"]] == ["committed"], number
        assert set(after["doubts"]) <= {"answered"}, number
        assert after["writes"] == ["approved"], number
        assert set(after["results"]) == {"act", "look"}, number
        assert after["trail"] == [], number
