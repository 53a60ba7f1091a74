"""The suites by name, and running them under defences."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from agent.errors import UsageError
from agent.evals.injection import agentdojo, injecagent, own
from agent.evals.injection.case import Plan
from agent.evals.injection.defences import Defence
from agent.evals.injection.running import Outcome, run_case

SUITES = ("own", "agentdojo", "injecagent")
HALVES = {"developed on": agentdojo.DEVELOPED_ON, "held out": agentdojo.HELD_OUT}
"""Totals that are reported apart: suites that the reviewer's rules were made on, and the others."""


def plans_of(
    suites: Sequence[str], *, parts: Sequence[str] = (), data: Path | None = None
) -> list[Plan]:
    """The cases of suites.

    Args:
        parts: AgentDojo's suites; none: all four.
        data: InjecAgent's folder of data.

    Raises:
        UsageError: An unknown suite or part, or data that is not there.
    """
    known = (*agentdojo.DEVELOPED_ON, *agentdojo.HELD_OUT)
    for name, names in (*((s, SUITES) for s in suites), *((p, known) for p in parts)):
        if name not in names:
            raise UsageError(f"{name!r} is not one of {', '.join(names)}.")
    found: list[Plan] = []
    for suite in suites:
        if suite == "own":
            found += own.plans()
        elif suite == "agentdojo":
            found += agentdojo.plans(parts or known)
        elif data is None:
            raise UsageError("--suite injecagent needs --injecagent PATH, the folder of its data.")
        else:
            found += injecagent.plans(data)
    return found


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
                yield await run_case(plan.build(), defence, home)
