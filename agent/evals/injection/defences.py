"""The defences: what of sayso is switched on while a suite runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Defence:
    """One way to run a suite.

    Args:
        name: As it is given to ``--defence``.
        summary: What it is, for the report.
        allow_all: Each session begins with a rule for every tool that allows whatever it does.
        reviewed: The simulated reviewer decides; else whatever is asked is approved unseen.
        policy: Each suite's file of rules holds (``policies/``).
        settings: Settings in place of their defaults, by field name.
    """

    name: str
    summary: str
    allow_all: bool = False
    reviewed: bool = True
    policy: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)


NONE = Defence("none", "rules allow all, and what is asked is approved unseen", True, False)

_FREEZE, _ISOLATE = {"freeze": True}, {"isolate": True}

_ALL = (
    NONE,
    Defence("labels", "rules allow all; what the labels call for is asked", allow_all=True),
    Defence("approval", "every write is asked"),
    Defence("freeze", "only tools that the request needs", True, False, settings=_FREEZE),
    Defence("isolate", "the model sees facts of a fooled reader", True, False, settings=_ISOLATE),
    Defence("policy", "what a file of rules denies", True, False, policy=True),
    Defence("approval+freeze", "both", settings=_FREEZE),
    Defence("approval+policy", "both", policy=True),
    Defence("all", "approval, freeze, isolate, policy", policy=True, settings=_FREEZE | _ISOLATE),
)

DEFENCES = {defence.name: defence for defence in _ALL}
"""By name; one line here is all that another defence takes."""
