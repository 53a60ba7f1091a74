"""What a server lists as its tools: read page by page, as it is written, and looked at hard.

A definition is kept as the JSON that came: the SDK's own types read ``"readOnlyHint": "yes"`` as
true, and one tool that does not fit them would cost all the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp import types
from pydantic import ValidationError

from agent.canonical import canonical_json
from agent.mcp.pins import compare
from agent.schemas import count_parts, fault_of

Definition = Mapping[str, Any]

MAX_PAGES = 100
MAX_ITEMS = 1_000
MAX_CHARACTERS = 1_000_000
"""Of all definitions of a server as JSON: each is pinned, compared and shown to a model."""

MAX_PARTS = 20_000
"""How many objects all definitions of a server may have."""

MAX_NAME = 500
_SHOWN = 100
_TOO_LARGE = f"its {{}} take more than {MAX_CHARACTERS} characters to define"


class ListingError(Exception):
    """The server's list cannot be used at all; the message says why."""


@dataclass(frozen=True)
class Listing:
    """The tools of a server that can be offered, by name, and why others cannot."""

    tools: Mapping[str, Definition]
    faults: Mapping[str, str]


async def list_all(
    fetch: Callable[[str | None], Awaitable[types.Result]], member: str
) -> list[Any]:
    """All items of a paged list, as JSON.

    Args:
        fetch: Gives the page behind a cursor; the first one for ``None``.
        member: Where a page has its items, such as ``tools``.

    Raises:
        ListingError: It has no end, is too large, or a page has no such member.
    """
    items: list[Any] = []
    cursor, seen, size = None, set[str](), 0
    for _ in range(MAX_PAGES):
        page = (await fetch(cursor)).model_extra or {}
        found, cursor = page.get(member), page.get("nextCursor")
        if not isinstance(found, list):
            raise ListingError(f"its list of {member} has no list of {member}")
        items += found
        size += size_of(found, MAX_CHARACTERS)
        if len(items) > MAX_ITEMS:
            raise ListingError(f"it lists more than {MAX_ITEMS} {member}")
        if size > MAX_CHARACTERS:
            raise ListingError(_TOO_LARGE.format(member))
        if not cursor:
            return items
        if not isinstance(cursor, str):
            raise ListingError(f"its list of {member} has a cursor that is no text")
        if cursor in seen:
            raise ListingError(f"its list of {member} goes in a circle")
        seen.add(cursor)
    raise ListingError(f"its list of {member} has no end (stopped after {MAX_PAGES} pages)")


def look_at(listed: Sequence[Any]) -> Listing:
    """Sort what was listed into what can be offered and what cannot.

    Takes seconds at worst; the server decides on that.

    Raises:
        ListingError: All of it together is too large.
    """
    if count_parts(listed, MAX_PARTS) > MAX_PARTS:
        raise ListingError(f"its tools have more than {MAX_PARTS} parts")
    if sum(map(_written, listed)) > MAX_CHARACTERS:
        raise ListingError(_TOO_LARGE.format("tools"))
    counted = Counter(_name_of(one) for one in listed)
    tools: dict[str, Definition] = {}
    faults: dict[str, str] = {}
    for definition in listed:
        name = _name_of(definition)
        fault = "it is listed twice" if counted[name] > 1 else _fault(definition)
        if fault:
            faults[name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"] = fault
        else:
            tools[name] = definition
    return Listing(tools, faults)


def same_definition(listed: Definition | None, known: Definition) -> bool:
    """Whether two definitions are the same JSON; Python's own ``==`` takes 1 for true."""
    return listed is known or (listed == known and not compare({"": known}, {"": listed}))


def _name_of(definition: Any) -> str:
    name = definition.get("name") if isinstance(definition, dict) else None
    return name if isinstance(name, str) else "(without a name)"


def _fault(definition: Any) -> str | None:
    """Why a tool cannot be offered."""
    try:
        tool = types.Tool.model_validate(definition)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return f"its definition is wrong at {'.'.join(map(str, first['loc']))}: {first['msg']}"
    if not _written(definition):
        return "its definition has a number that JSON does not have"
    if not 0 < len(tool.name) <= MAX_NAME:
        return f"its name has {len(tool.name)} characters"
    for title in ("inputSchema", "outputSchema"):
        schema = definition.get(title)
        if schema is not None and (fault := fault_of(schema)):
            return f"its {title} cannot be used: {fault}"
    if definition["inputSchema"].get("type") != "object":
        return "its inputSchema is not that of an object"
    execution = definition.get("execution")
    if isinstance(execution, dict) and execution.get("taskSupport") == "required":
        return "it can only be run as a task, which this host does not do"
    return None


def _written(definition: Any) -> int:
    """How many characters a definition takes as JSON; 0 when it cannot be written."""
    try:
        return len(canonical_json(definition))
    except ValueError:
        return 0


def size_of(value: Any, most: int) -> int:
    """How many characters a JSON value has at least, counted only just beyond ``most``."""
    size, waiting = 0, [value]
    while waiting and size <= most:
        inner = waiting.pop()
        size += len(inner) if isinstance(inner, str) else 1
        if isinstance(inner, dict):
            waiting += [*inner.keys(), *inner.values()]
        elif isinstance(inner, list):
            waiting += inner
    return size
