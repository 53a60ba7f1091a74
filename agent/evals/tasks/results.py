"""The results of a run in a folder: ``run.json``, what was run; ``trials.jsonl``, a line a trial.

A line is written when its trial has ended, whole and to the disk, so a run that was killed goes on
where it was. A last line that cannot be read is cut off, named, and its trial is run again. One
that cannot be read elsewhere comes of no kill, and stops the run.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.errors import InvalidFile, UsageError
from agent.evals.tasks.record import Trial

RUN, TRIALS = "run.json", "trials.jsonl"


class RunKept(BaseModel):
    """What the trials of a folder are trials of.

    Args:
        worlds: The digest of each world's tasks, policy and rules, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1] = 1
    model: str
    reviewer: str
    seed: int
    worlds: dict[str, str]


class Results:
    """A folder of results, opened to be added to.

    Args:
        folder: Made when it is not there.
        run: What is to be run; a folder that has results of another run is refused.

    Raises:
        UsageError: It holds another run, or cannot be written.
        InvalidFile: A line other than the last cannot be read.
    """

    def __init__(self, folder: Path, run: RunKept) -> None:
        self._path = folder / TRIALS
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _check_run(folder / RUN, run)
            self.trials, self.cut = _read(self._path)
            self._file = self._path.open("ab")
        except OSError as error:
            raise UsageError(f"The results cannot be kept in {folder}: {error}") from None

    def add(self, trial: Trial) -> None:
        """Keep a trial."""
        self._file.write(trial.model_dump_json().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.trials[trial.key] = trial

    def close(self) -> None:
        """Nothing more comes."""
        self._file.close()


def read_results(folder: Path) -> tuple[RunKept, list[Trial]]:
    """A folder of results, to be looked at.

    Raises:
        UsageError: There are none.
        InvalidFile: One cannot be read.
    """
    try:
        run = RunKept.model_validate_json((folder / RUN).read_bytes())
        lines = (folder / TRIALS).read_bytes().splitlines()
    except (OSError, ValidationError) as error:
        raise UsageError(f"{folder} holds no results that can be read: {error}") from None
    return run, [_trial(line, number) for number, line in enumerate(lines, 1)]


def _check_run(path: Path, run: RunKept) -> None:
    if not path.exists():
        path.write_text(run.model_dump_json(indent=1) + "\n", encoding="utf-8")
        return
    try:
        there = RunKept.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise InvalidFile([f"{path}:1: it cannot be read: {first['msg']}"]) from None
    other = [f"{n} ({_short(a)}, now {_short(b)})" for n, a, b in _differences(there, run)]
    if other:
        raise UsageError(
            f"{path.parent} has results of another run: {', '.join(other)}. Nothing was run. "
            "Choose another folder with --results."
        )


def _differences(there: RunKept, run: RunKept) -> list[tuple[str, object, object]]:
    names = ("version", "model", "reviewer", "seed")
    found = [(n, getattr(there, n), getattr(run, n)) for n in names]
    worlds: Mapping[str, str] = {**there.worlds, **run.worlds}
    found += [
        (f"the tasks of {name}", there.worlds.get(name, "none"), run.worlds.get(name, "none"))
        for name in worlds
    ]
    return [one for one in found if one[1] != one[2]]


def _short(value: object) -> str:
    return str(value)[:12]


def _read(path: Path) -> tuple[dict[tuple[str, str, str, int], Trial], str | None]:
    """The trials that are there; what is not whole at the end is cut off, and told."""
    if not path.exists():
        return {}, None
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    found: dict[tuple[str, str, str, int], Trial] = {}
    for number, line in enumerate(lines, 1):
        try:
            if not line.endswith(b"\n"):
                raise InvalidFile([f"{path.name}:{number}: it breaks off"])
            trial = _trial(line, number)
        except InvalidFile as error:
            if number < len(lines):
                raise
            os.truncate(path, len(data) - len(line))
            return found, f"{error.faults[0]}. Its trial is run again."
        found[trial.key] = trial
    return found, None


def _trial(line: bytes, number: int) -> Trial:
    try:
        return Trial.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidFile(
            [f"{TRIALS}:{number}: it cannot be read: {where}: {first['msg']}"]
        ) from None
