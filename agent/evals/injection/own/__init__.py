"""Cases of our own: attacks on the bundled tools, and on a small office in memory.

A case is a row of data: ``rows.py`` has their form, ``tasks.py`` what users want, ``desk.py`` the
worlds, and the attacks stand by kind in the other modules. They need nothing beside sayso.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from agent.evals.injection.case import Plan
from agent.evals.injection.own import (
    approvals,
    encoded,
    exfiltration,
    office,
    places,
    spoofing,
    swaps,
)
from agent.evals.injection.own.desk import case_alone, case_of

ROWS = (
    *exfiltration.ROWS,
    *swaps.ROWS,
    *encoded.ROWS,
    *places.ROWS,
    *approvals.ROWS,
    *spoofing.ROWS,
)
KINDS = tuple(dict.fromkeys([*(row.kind for row in ROWS), office.KIND]))


def plans(kinds: Sequence[str] = KINDS) -> list[Plan]:
    """For each of these kinds, every task of it alone, then every attack."""
    found: list[Plan] = []
    for kind in kinds:
        rows = [row for row in ROWS if row.kind == kind]
        for task in {row.task.name: row.task for row in rows}.values():
            found.append(Plan(f"own/{kind}/{task.name}", partial(case_alone, kind, task)))
        for row in rows:
            found.append(Plan(f"own/{kind}/{row.task.name}/{row.name}", partial(case_of, row)))
    return found + (office.plans() if office.KIND in kinds else [])
