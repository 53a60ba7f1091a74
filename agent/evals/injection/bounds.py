"""Bounds that a run has to keep, from a file: what was reached before must not be lost unseen.

A table for each suite, part or total, and each defence, as the report names them. Each figure of
``--json`` may have its least and its most::

    ["developed on".approval]
    succeeded = [0, 13]
    useful_attacked = [295, 345]
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from agent.errors import UsageError
from agent.evals.injection.report import Figures

LARGEST = 100_000
"""Bytes of a file."""

Range = tuple[float, float]
"""The least and the most that a figure may be."""

Bounds = Mapping[str, Mapping[str, Mapping[str, Range]]]
"""By suite, defence and figure."""

_BOUNDS: TypeAdapter[Bounds] = TypeAdapter(dict[str, dict[str, dict[str, Range]]])


def read_bounds(path: Path) -> Bounds:
    """The bounds in a file.

    Raises:
        UsageError: It cannot be read, holds something else, or nothing.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is larger than {LARGEST} bytes; it was not read.")
        bounds = _BOUNDS.validate_python(tomllib.loads(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}: {where}: {first['msg']}. Nothing was run.") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}). Nothing was run.") from error
    known = Figures("", "", ()).numbers()
    names = [name for tables in bounds.values() for table in tables.values() for name in table]
    if not names:
        raise UsageError(f"{path} has no bounds in it. Nothing was run.")
    for name in names:
        if name not in known:
            there = ", ".join(known)
            raise UsageError(f"{path}: there is no figure {name!r}, but {there}. Nothing was run.")
    return bounds


def broken(bounds: Bounds, found: Sequence[Figures]) -> list[str]:
    """What a run did not keep, in words; a suite that was not run keeps nothing."""
    counted = {(one.suite, one.defence): one.numbers() for one in found}
    said: list[str] = []
    for suite, by_defence in bounds.items():
        for defence, ranges in by_defence.items():
            values = counted.get((suite, defence))
            if values is None:
                said.append(f"{suite}, {defence}: was expected, and was not run")
                continue
            said += [
                f"{suite}, {defence}: {name} is {values[name]:g}, not {least:g} to {most:g}"
                for name, (least, most) in ranges.items()
                if not least <= values[name] <= most
            ]
    return said
