"""The suites by name, and running them under defences."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from agent.errors import UsageError
from agent.evals.injection import agentdojo, injecagent, own
from agent.evals.injection.case import Plan
from agent.evals.injection.defences import Defence
from agent.evals.injection.running import Outcome, run_case

SUITES = ("own", "agentdojo", "injecagent")
PARTS: Mapping[str, Sequence[str]] = {
    "own": own.KINDS,
    "agentdojo": (*agentdojo.DEVELOPED_ON, *agentdojo.HELD_OUT),
    "injecagent": (),
}
"""The parts that a suite can be taken in."""

TOTALS = {
    "own": own.KINDS,
    "developed on": agentdojo.DEVELOPED_ON,
    "held out": agentdojo.HELD_OUT,
}
"""What is counted together: our own cases, and the suites that the reviewer's rules were made on
apart from the others."""


def plans_of(
    suites: Sequence[str],
    *,
    parts: Sequence[str] = (),
    data: Path | None = None,
    limit: int | None = None,
) -> list[Plan]:
    """The cases of suites.

    Args:
        parts: Parts of them; a suite none of whose parts is named is taken whole.
        data: InjecAgent's folder of data.
        limit: At most so many of each suite, spread evenly; ``None``: all.

    Raises:
        UsageError: An unknown suite or part, or data that is not there.
    """
    known = [part for suite in suites for part in PARTS.get(suite, ())]
    for name, names in (*((s, SUITES) for s in suites), *((p, known) for p in parts)):
        if name not in names:
            raise UsageError(f"{name!r} is not one of {', '.join(names)}.")
    found: list[Plan] = []
    for suite in suites:
        chosen = [part for part in PARTS[suite] if part in parts]
        found += some_of(_plans(suite, chosen or PARTS[suite], data), limit)
    return found


def _plans(suite: str, parts: Sequence[str], data: Path | None) -> list[Plan]:
    if suite == "own":
        return own.plans(parts)
    if suite == "agentdojo":
        return agentdojo.plans(parts)
    if data is None:
        raise UsageError("--suite injecagent needs --injecagent PATH, the folder of its data.")
    return injecagent.plans(data)


def some_of(plans: Sequence[Plan], limit: int | None) -> list[Plan]:
    """At most so many of them, spread evenly."""
    if limit is None or limit >= len(plans):
        return list(plans)
    return [plans[number * len(plans) // limit] for number in range(limit)]


async def run_all(plans: Sequence[Plan], defences: Sequence[Defence]) -> AsyncIterator[Outcome]:
    """Run every case under every defence: a store for each defence, a session for each case."""
    for defence in defences:
        with tempfile.TemporaryDirectory(prefix="sayso-eval-") as folder:
            home = Path(folder)
            for plan in plans:
                with tempfile.TemporaryDirectory(prefix="sayso-world-") as world:
                    yield await run_case(plan.build(Path(world)), defence, home)
