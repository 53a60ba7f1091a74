"""The named instants at which crash runs are killed, and the runs in which that happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.crash_runs import Kill, Run
from tests.support.crash_tools import Kind
from tests.support.crash_world import KILLS

BEFORE, MEANWHILE, AFTER = KILLS

Point = tuple[str, tuple[str | Kill, ...], dict[str, Any]]
"""A name, where the first, second … process is killed, and what else the run is."""


def points_of(kind: Kind) -> Iterator[tuple[str, Run]]:
    """Every named point of one kind of tool, as (name, run)."""
    for name, at, how in [*_EVERYWHERE, *_OF[kind]]:
        yield name, _run(kind, at, how)


def _run(kind: Kind, at: tuple[str | Kill, ...], how: dict[str, Any]) -> Run:
    """Who is killed by the service is killed as its next write goes wrong."""
    faults = tuple(one for one in at if one in KILLS)
    kills = [Kill("by the service") if one in KILLS else one for one in at]
    return Run(
        kind,
        kills=tuple(kill if isinstance(kill, Kill) else Kill(str(kill)) for kill in kills),
        faults=faults,
        **how,
    )


_ASKED: dict[str, Any] = {"looks_up": False, "honours_keys": False, "one_by_one": True}
"""Nothing but a person can settle a doubt."""

_EVERYWHERE: list[Point] = [
    ("before the question", ("before the question",), {}),
    ("while a decision is stored", ("before the decision commits",), {}),
    ("between decision and resume", ("between decision and resume",), {}),
    ("before the intent", ("before the intent",), {}),
    ("after the intent", ("after the intent",), {}),
    ("after both intents", (Kill("after the intent", 2),), {}),
    ("before the effect", (BEFORE,), {}),
    ("after the effect", (AFTER,), {}),
    ("before commit", ("before the outcome",), {}),
    ("after commit", ("after the outcome",), {}),
    ("between two writes in turn", ("after the outcome",), {"together": False}),
    ("between two writes at once", (Kill("before the outcome", 2),), {}),
    ("before the checkpoint", ("before a result is saved",), {}),
    ("after the checkpoint", ("after a result is saved",), {}),
    ("before the end", ("before the end",), {}),
]
_ONCE: list[Point] = [  # whatever carries the write
    ("after the message is taken", ("after the message",), {}),
    ("before the first checkpoint", ("before the checkpoint",), {}),
    ("after one question of two", ("after the question",), {}),
    ("after one decision of two", ("between decision and resume",), {"one_by_one": True}),
    ("before the user moves on", ("before the user moves on",), {"moves_on": True}),
    ("while what waits is superseded", ("before what waits is superseded commits",),
     {"moves_on": True}),
    ("after what waits is superseded", ("after what waits is superseded",), {"moves_on": True}),
    ("after the next message is taken", (Kill("after the message", 2),), {"moves_on": True}),
    ("after the effect, moving on", (AFTER,), {"moves_on": True}),
    ("no database for the question", (Kill("before the question commits", loses=True),), {}),
    ("no database for the decision", (Kill("before the decision commits", loses=True),), {}),
    ("no database for the intent", (Kill("before the intent commits", loses=True),), {}),
    ("no database for the outcome", (Kill("before the outcome commits", loses=True),), {}),
    ("no database for the checkpoint", (Kill("before a result is saved", loses=True),), {}),
]  # fmt: skip
_DOUBTING: list[Point] = [
    ("after a doubt is asked about", (AFTER, "after the question about a doubt"), _ASKED),
    ("while a doubt is settled", (AFTER, "before a doubt is settled commits"), _ASKED),
    ("after a doubt is settled", (AFTER, "after a doubt is settled commits"), _ASKED),
    ("twice within the tool", (BEFORE, AFTER), {**_ASKED, "together": False}),
]
_LOOKING_UP: list[Point] = [
    ("between look-up and record", (AFTER, "after the look-up"), {}),
    ("after the finding is recorded", (AFTER, "after the finding commits"), {}),
]
_NOT_FOUND: list[Point] = [
    ("after it is found not to have happened", (BEFORE, "after the finding commits"), {}),
]
_PREVIEWING: list[Point] = [
    ("while it is asked again", ("before the new question commits",), {"stranger": True}),
    ("after it is asked again", ("after the new question commits",), {"stranger": True}),
    ("expired, and asked again", ("after the question", "after the new question"),
     {"expires": True}),
    ("before the undo is asked about", ("before the question about an undo",), {}),
    ("between the undo and its approval", ("after the question about an undo",), {}),
]  # fmt: skip
_ARRIVING: list[Point] = [
    ("before the effect, which comes", (MEANWHILE,), {}),
]
_SENDING: list[Point] = [
    ("while the request is under way", ("the request is sent",), {}),
]
_SENT_AGAIN: list[Point] = [
    ("after it is sent again", (AFTER, Kill("after the intent", 2)), {"looks_up": False}),
    ("twice after the effect", (AFTER, AFTER), {"looks_up": False, "together": False}),
]

_OF: dict[Kind, list[Point]] = {
    "local": [*_ONCE, *_DOUBTING, *_LOOKING_UP, *_NOT_FOUND, *_PREVIEWING],
    "remote": [*_LOOKING_UP, *_PREVIEWING, *_ARRIVING, *_SENDING, *_SENT_AGAIN],
    "keyless": [*_DOUBTING, *_LOOKING_UP, *_PREVIEWING, *_ARRIVING, *_SENDING],
    "mcp": [*_DOUBTING, *_ARRIVING, *_SENT_AGAIN],
}
