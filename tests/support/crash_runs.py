"""What a crash run is: plain data, so that it can be sent to another process and repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from random import Random
from typing import Any

from tests.support.crash_tools import Kind
from tests.support.crash_world import ANSWERS, LATE

AGAIN = 0.3
"""How likely a process that carries a killed session on does not live, either."""

AFTERWARDS = 0.004
"""Seconds, at most, from an event to a kill from outside: what lies between two events."""


SOON = 0.5
"""Seconds until a request is given up. Whoever answers too late waits for that, not for a time."""


@dataclass(frozen=True)
class Kill:
    """When a process is killed.

    Args:
        at: The instant, as ``crash_instants`` names it; empty: any.
        nth: It is the n-th of this name.
        delay: ``None``: it kills itself there. Else it is killed from outside so much later.
        loses: It is not killed, but loses its database: its connections are cut, or no file can
            grow any more.
    """

    at: str = ""
    nth: int = 1
    delay: float | None = None
    loses: bool = False


@dataclass(frozen=True)
class Run:
    """One session, from its first message to its end, however many processes that takes.

    Args:
        kills: When the first, second … process is killed; those after them live.
        faults: How the first, second … write goes wrong at the service.
        looks_up: The contract can look an outcome up in the service's record.
        together: Writes of one step may be under way at the same time.
        honours_keys: Of the MCP server.
        knows: The reviewer finds out what happened; else a doubt stays one.
        one_by_one: The reviewer answers one question at a time.
        stranger: Somebody else changes what a call was approved on, before it runs.
        expires: What the first process asks may not be answered any more at once.
        moves_on: While calls wait, the user approves the first one and says something else; what
            was not decided then never runs.
        patience: Seconds until the client gives a request up.
        tool_timeout: Seconds until the harness gives a call up.
    """

    kind: Kind
    kills: tuple[Kill, ...] = ()
    faults: tuple[str, ...] = ()
    looks_up: bool = True
    together: bool = True
    honours_keys: bool = True
    knows: bool = True
    one_by_one: bool = False
    stranger: bool = False
    expires: bool = False
    moves_on: bool = False
    patience: float = 30.0
    tool_timeout: float = 60.0

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Run:
        kills = tuple(Kill(**kill) for kill in values["kills"])
        return cls(**{**values, "kills": kills, "faults": tuple(values["faults"])})


def random_run(kind: Kind, seed: int, events: int) -> Run:
    """A run whose processes are killed at random instants; some services are unreliable, too.

    Args:
        events: How many there are in a run that nobody kills.
    """
    chance = Random(f"{kind} {seed}")

    def kill(most: int) -> Kill:
        delay = chance.choice((None, chance.uniform(0, AFTERWARDS)))
        loses = chance.random() < 0.2
        return Kill(nth=chance.randint(1, most), delay=None if loses else delay, loses=loses)

    kills = [kill(events)]
    while chance.random() < AGAIN:
        kills.append(kill(events // 2))
    fault = chance.choice(ANSWERS) if kind != "local" and chance.random() < 0.3 else ""
    return Run(
        kind,
        kills=tuple(kills),
        faults=("",) * chance.randint(0, 2) + (fault,) if fault else (),
        patience=SOON if fault and (kind == "mcp" or fault in LATE) else 30.0,
        looks_up=chance.random() < 0.5,
        together=chance.random() < 0.5,
        honours_keys=chance.random() < 0.7,
        knows=kind not in ("keyless", "mcp") or chance.random() < 0.8,
        one_by_one=chance.random() < 0.5,
        stranger=chance.random() < 0.3,
        expires=chance.random() < 0.2,
        moves_on=chance.random() < 0.2,
    )
