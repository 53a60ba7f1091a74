"""Whole benchmarks, replayed in several processes, and what is counted of them."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from agent.errors import UsageError
from agent.evals.replays import multi_turn, tau2
from agent.evals.replays.replaying import Outcome, RejectsOne, Replay, replay

SUITES: dict[str, tuple[Sequence[str], Callable[[str], Iterator[Replay]]]] = {
    "tau2": (tau2.DOMAINS, tau2.replays),
    "multi-turn": (multi_turn.CATEGORIES, multi_turn.replays),
}
"""Each with its parts, and what gives the replays of a part."""

HEADINGS = (
    *("PART", "TASKS", "FAULTY", "AS IT SHOULD BE", "CALLS", "ERRORS READ", "NOT RUN", "WRITES"),
    *("APPROVALS A TASK", "MOST"),
)


@dataclass(frozen=True)
class Part:
    """What came of the replays of one part."""

    name: str
    outcomes: tuple[Outcome, ...]

    @property
    def faulty(self) -> list[Outcome]:
        """Tasks whose right answer cannot be carried out: their own fault."""
        return [one for one in self.outcomes if one.faults]

    @property
    def wrong(self) -> list[Outcome]:
        """Others that its own judgement has something against, or whose trail does not hold."""
        return [one for one in self.outcomes if not one.faults and (one.wrong or one.broken)]

    @property
    def right(self) -> int:
        """Tasks that are as they should be."""
        return len(self.outcomes) - len(self.faulty) - len(self.wrong)

    def sum(self, figure: str) -> int:
        """A figure over all tasks."""
        return sum(getattr(one, figure) for one in self.outcomes)

    def as_row(self) -> list[str]:
        """A line of the table."""
        asked = [one.asked for one in self.outcomes]
        return [
            *(self.name, str(len(self.outcomes)), str(len(self.faulty)), str(self.right)),
            *(str(self.sum("calls")), str(self.sum("errors"))),
            *(str(sum(len(one.not_run) for one in self.outcomes)), str(self.sum("writes"))),
            *(f"{sum(asked) / max(len(asked), 1):.2f}", str(max(asked, default=0))),
        ]

    def as_json(self) -> dict[str, Any]:
        """For ``--json``: the figures, and each task that is not as it should be."""
        asked = [one.asked for one in self.outcomes]
        return {
            "part": self.name,
            "tasks": len(self.outcomes),
            "right": self.right,
            **{name: self.sum(name) for name in ("calls", "errors", "writes", "steps", "asked")},
            "not_run": sum(len(one.not_run) for one in self.outcomes),
            "most_asked": max(asked, default=0),
            "asked_of": {one.id: one.asked for one in self.outcomes},
            "faulty": {one.id: list(one.faults) for one in self.faulty},
            "wrong": {one.id: [*one.wrong, *one.not_run, *one.broken] for one in self.wrong},
        }


def parts_of(suite: str, chosen: Sequence[str]) -> Sequence[str]:
    """The parts of a suite that are wanted; all when none is named.

    Raises:
        UsageError: There is no such part.
    """
    known = SUITES[suite][0]
    if unknown := [name for name in chosen if name not in known]:
        raise UsageError(f"{unknown[0]!r} is no part of it; there are {', '.join(known)}.")
    return chosen or known


def run(
    suite: str, part: str, *, limit: int | None = None, reject: int | None = None, jobs: int = 1
) -> Part:
    """Replay one part.

    Args:
        limit: At most so many tasks, the first ones.
        reject: In every task the reviewer rejects the call of this number, from 1, that changes
            the state; a task with fewer of them is left out. Else all is approved.
        jobs: Processes.

    Raises:
        UsageError: The benchmark is not installed, or its data is not what it was.
    """
    share = partial(_share, suite, part, limit, reject, jobs)
    if jobs == 1:
        return Part(part, tuple(share(0)))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        shares = list(pool.map(share, range(jobs)))
    found = sorted(chain.from_iterable(enumerate(one) for one in shares), key=lambda pair: pair[0])
    return Part(part, tuple(outcome for _, outcome in found))


def _share(
    suite: str, part: str, limit: int | None, reject: int | None, jobs: int, number: int
) -> list[Outcome]:
    """What one process does: every so manieth task, in a store of its own."""
    replays = islice(SUITES[suite][1](part), number, limit, jobs)
    with tempfile.TemporaryDirectory(prefix="sayso-eval-") as folder:
        return asyncio.run(_replayed(replays, Path(folder), reject))


async def _replayed(replays: Iterator[Replay], home: Path, reject: int | None) -> list[Outcome]:
    found = []
    for one in replays:
        if reject is None:
            found.append(await replay(one, home))
        elif len(places := one.changing()) >= reject:
            found.append(await replay(one, home, RejectsOne(places[reject - 1])))
    return found
