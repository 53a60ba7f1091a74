"""A process that has everything imported, and forks a child for each process of a crash run.

It holds no thread, no connection and no event loop, so that a child is as good as a program that
was just started, two seconds earlier. ``Parent`` starts it and sends it one job after the other,
a JSON object a line each way.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from tests.support.crash_report import Report
from tests.support.crash_runs import Run

ROOT = Path(__file__).parents[2]

PATIENCE = 100.0
"""Seconds that one process may take; far more than any does."""

MOST_MORE = 3
"""How many processes carry a run on after the last kill, at most."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run: how each process ended (``killed``, ``lived``), and the report.

    ``instants`` is how many the last process went through.
    """

    ends: tuple[str, ...]
    report: Report
    instants: int


class Parent:
    """The process, from ``with`` to its end; nothing that it forked outlives it."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.crash_parent"],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.communicate()

    def do(self, job: str, **values: Any) -> dict[str, Any]:
        """Have a job done: a function of ``crash_jobs``; its result.

        Raises:
            AssertionError: A child failed; the text has its traceback.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"job": job, **values}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert "failed" not in answer, answer["failed"]
        return answer

    def run(self, run: Run, folder: Path, url: str, service: str) -> Outcome:
        """Let a run take place in a folder of its own."""
        folder.mkdir(parents=True, exist_ok=True)
        told = self.do("run", run=run.as_json(), folder=str(folder), url=url, service=service)
        report = Report.of_json(told["report"])
        return Outcome(tuple(told["ends"]), report, told["report"]["instants"])


# --- in the process itself -------------------------------------------------------------------


def main() -> None:
    jobs = importlib.import_module("tests.support.crash_jobs")
    assert _threads() == 1, "a fork copies one thread only"
    gc.collect()
    gc.freeze()  # what is never collected is never written to, so that children share it
    for line in sys.stdin:
        values = json.loads(line)
        try:
            answer = getattr(jobs, values.pop("job"))(**values)
        except Failed as error:
            answer = {"failed": str(error)}
        except Exception:
            answer = {"failed": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


def _threads() -> int:
    """How many this process has, those of libraries included where that is known."""
    tasks = Path("/proc/self/task")
    return len(os.listdir(tasks)) if tasks.is_dir() else threading.active_count()


class Failed(Exception):
    """A child did not do what it was forked for; the text has what it said."""


@dataclass(frozen=True)
class Child:
    """A fork that runs a function.

    Attributes:
        reached: Where it tells that it has come to the instant of its death; the end of that is
            its own end.
    """

    pid: int
    reached: int
    errors: Path

    @classmethod
    def of(cls, act: Callable[[Callable[[], None]], object], errors: Path) -> Child:
        """Fork.

        Args:
            act: Gets a function by which it tells that it has come to its instant.
            errors: The file for what it prints.
        """
        reached, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reached)
            _be(lambda: act(lambda: _tell(tell)), errors)
        os.close(tell)
        return cls(pid, reached, errors)

    def end(self, delay: float | None = None, patience: float = PATIENCE) -> str:
        """How it ended, once it has: ``lived`` or ``killed``.

        Args:
            delay: Seconds from its instant until it is killed.
            patience: Seconds until it counts as hanging.

        Raises:
            Failed: It ended in any other way, or hung.
        """
        try:
            self._attend(delay, time.monotonic() + patience)
        finally:
            os.close(self.reached)
        end = os.waitpid(self.pid, 0)[1]
        if os.WIFEXITED(end) and os.WEXITSTATUS(end) == 0:
            return "lived"
        if os.WIFSIGNALED(end) and os.WTERMSIG(end) == signal.SIGKILL:
            return "killed"
        raise Failed(f"status {end}\n{self.errors.read_text()}")

    def _attend(self, delay: float | None, deadline: float) -> None:
        while True:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.reached], [], [], left)
            if not ready:
                os.kill(self.pid, signal.SIGABRT)
                return
            if not os.read(self.reached, 1):
                return
            time.sleep(delay or 0)
            os.kill(self.pid, signal.SIGKILL)


def _tell(descriptor: int) -> None:
    with suppress(BrokenPipeError):
        os.write(descriptor, b".")


def _be(act: Callable[[], object], errors: Path) -> NoReturn:
    """Be a child: run, and leave without going back into the parent's code."""
    status = 1
    gc.disable()  # it does not live for long
    try:
        for target, path in ((0, os.devnull), (1, str(errors)), (2, str(errors))):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), target)
        act()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
