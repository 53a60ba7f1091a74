"""What a server answers to a call: text for the model, and the rest as the message's artifact.

Results are read from the JSON that came. The SDK's types would refuse a whole result for one
block that they do not know, although the call has happened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mcp import types

from agent.mcp.definitions import size_of
from agent.schemas import UnusableSchema, check

MAX_CHECKED = 200_000
"""Characters of structured content; more is neither checked nor kept."""

MAX_BLOCKS = 1_000
"""How many pieces of content of one result are read."""

_SHOWN = 200
_BASE64 = re.compile(r"[A-Za-z0-9+/]*+={0,2}")
_UNCHECKED = "[its structured content cannot be checked, and is not kept: {}]"


class UnreadableResult(Exception):
    """What came is no result of a call."""


@dataclass(frozen=True)
class Outcome:
    """A result that was read.

    Args:
        text: What the model reads: every text, a line for everything else, never nothing.
        failed: The server says that the call failed.
        outcome: The ``sayso/outcome`` of its ``_meta``: ``transient``, ``unknown`` or nothing.
        structured: Its structured content.
        content: The blocks that are more than text (images, audio, links, resources), as sent.
        mismatch: Why its structured content cannot be relied on: it does not fit the tool's own
            output schema, or says something else than the text.
    """

    text: str
    failed: bool
    outcome: str | None
    structured: Any
    content: tuple[dict[str, Any], ...]
    mismatch: str | None

    @property
    def artifact(self) -> dict[str, Any] | None:
        """What is kept beside the text: ``structured_content`` and ``content``, if there is any."""
        kept: dict[str, Any] = {}
        if self.structured is not None and self.mismatch is None:
            kept["structured_content"] = self.structured
        if self.content:
            kept["content"] = list(self.content)
        return kept or None


def read_result(result: types.Result, output_schema: Mapping[str, Any] | None, key: str) -> Outcome:
    """Read the result of a call.

    Args:
        output_schema: The tool's own, if it has one.
        key: Of the ``_meta`` member that says what became of the call.

    Raises:
        UnreadableResult: It is none.
    """
    members = result.model_extra or {}
    blocks, structured = members.get("content", []), members.get("structuredContent")
    failed = members.get("isError", False)
    if not isinstance(blocks, list) or not isinstance(failed, bool):
        raise UnreadableResult("its content is no list, or isError is neither true nor false")
    left_out = len(blocks) - MAX_BLOCKS
    blocks = blocks[:MAX_BLOCKS]
    lines = [line for block in blocks for line in _lines(block)]
    if left_out > 0:
        lines.append(f"[{left_out} more pieces of content are left out]")
    if structured is not None and (not lines or failed):
        said = json.dumps(structured, ensure_ascii=False)
        if said not in lines:  # of an error, it may be all that says what to do
            lines.append(said)
    mismatch = None
    if not failed:
        try:
            mismatch = _mismatch(structured, output_schema, lines)
        except UnusableSchema as error:
            structured = None
            lines.append(_UNCHECKED.format(error))
    text = "\n".join(lines) or "(the server returned nothing)"
    outcome = (result.meta or {}).get(key)
    return Outcome(
        text=text,
        failed=failed,
        outcome=outcome if isinstance(outcome, str) else None,
        structured=structured,
        content=tuple(b for b in blocks if isinstance(b, dict) and b.get("type") != "text"),
        mismatch=mismatch,
    )


def _lines(block: Any) -> Iterator[str]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield text
        case {"type": "image" | "audio" as kind, "data": str(data), **more}:
            yield f"[{kind}, {_brief(more.get('mimeType'))}, {_size(data)}; kept, not shown]"
        case {"type": "resource_link", "uri": str(uri), **more}:
            yield f"[link to {_brief(uri)}: {_brief(more.get('name'))}]"
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            yield f"[resource {_brief(uri)}]\n{text}"
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data), **more}}:
            kind = _brief(more.get("mimeType"))
            yield f"[resource {_brief(uri)}, {kind}, {_size(data)}; kept, not shown]"
        case {"type": str(kind)}:
            yield f"[content of kind {_brief(kind)}; it cannot be shown]"
        case _:
            yield "[content of no kind; it cannot be shown]"


def _brief(value: Any) -> str:
    text = value if isinstance(value, str) else "of no known kind"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _size(data: str) -> str:
    """How many bytes base64 stands for; it is not decoded for that, since it may be large."""
    if len(data) % 4 or not _BASE64.fullmatch(data):
        return "damaged"
    return f"{len(data) * 3 // 4 - data.count('=')} bytes"


def _mismatch(structured: Any, schema: Mapping[str, Any] | None, lines: list[str]) -> str | None:
    """Why structured content cannot be relied on.

    Raises:
        UnusableSchema: That cannot be said.
    """
    if structured is None:
        return None if schema is None else "it has an output schema and sent no structured content"
    if not isinstance(structured, dict):
        return "it is no object"
    if size_of(structured, MAX_CHECKED) > MAX_CHECKED:
        raise UnusableSchema(f"it has more than {MAX_CHECKED} characters")
    for problem in check(schema, structured).problems if schema is not None else ():
        place = ".".join(map(str, problem.absolute_path)) or "result"
        return f"{place}: {problem.message[:_SHOWN]}"
    return _contradiction(structured, lines)


def _contradiction(structured: Mapping[str, Any], lines: list[str]) -> str | None:
    """Where a text that is a JSON object too has another value under the same name."""
    if len(lines) != 1 or not lines[0].startswith("{") or len(lines[0]) > 10 * MAX_CHECKED:
        return None
    try:
        said = json.loads(lines[0])
    except (ValueError, RecursionError):
        return None
    for name, value in structured.items():
        if name in said and said[name] != value:
            first, second = (json.dumps(one)[:_SHOWN] for one in (said[name], value))
            return f"{name}: its text says {first}, its structured content {second}"
    return None
