"""What the tools answered so far: each call with its outcome, and values looked up in results."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agent.models.offline import words

Outcome = Literal["ok", "error", "rejected", "unknown", "not_run"]
Record = Mapping[str, Any]

_WRAPPER = re.compile(
    r"^\s*\[[^\]\n]*(?:untrusted|external)[^\]\n]*\]\s*$\n?|^\s*\[end of [^\]\n]*\]\s*$\n?",
    re.M | re.I,
)
_EDITED = re.compile(
    r"\s*\[?(?:Note: )?a person (?:changed|edited) (?:this call|the arguments)[^\n]*?"
    r"(?:what ran is (?P<ran>\w+)\((?P<args>\{.*?\})\)\.[^\n]*|\]|$)",
    re.I | re.M,
)
_OUTCOMES: list[tuple[Outcome, re.Pattern[str]]] = [
    ("ok", re.compile(r"says that it happened|the call ran, but", re.I)),
    (
        "unknown",
        re.compile(
            r"outcome .{0,40}\bunknown|unknown outcome|may have happened|\bin[ _]doubt\b|"
            r"not known whether",
            re.I,
        ),
    ),
    (
        "rejected",
        re.compile(
            r"\breject(?:ed|s)\b|\bdeclined\b|\bnot allowed\b|\bdenied\b|\bdisapproved\b", re.I
        ),
    ),
    (
        "not_run",
        re.compile(
            r"\bsuperseded\b|moved on|nobody decided|\bnot (?:been )?run\b.{0,40}\b(?:moved|"
            r"revoked|decided)|revoked since|\bcancelled before\b",
            re.I,
        ),
    ),
]
_SPEAKS_LIKE_HARNESS = re.compile(
    r"(?:this call was not run|a person rejected|user rejected|the outcome of this call|"
    r"not allowed:|"
    r"error\b|the call failed|nobody decided)",
    re.I,
)
_REASON = re.compile(
    r"\breason:\s*(.+?)(?:\s+(?:The call was not run|Do not )[^\n]*)?$", re.I | re.S
)
_PREFIX = re.compile(r"^(?:(?:error|the call failed(?: and nothing changed)?)\s*[:,]\s*)+", re.I)


@dataclass(frozen=True)
class Observation:
    """One call and what came of it.

    ``args`` are those that ran, ``mark`` ties it to what the model meant, which differs when a
    person edited the arguments; ``at`` is
    the index of the result in the history; ``data`` the parsed result, or ``None`` for text.
    """

    tool: str
    args: Mapping[str, Any]
    mark: str
    at: int
    outcome: Outcome
    text: str
    data: Any
    edited: bool = False

    @property
    def reason(self) -> str:
        """Why it was rejected or failed, in the words of the result."""
        m = _REASON.search(self.text)
        reason = (m[1] if m else _PREFIX.sub("", self.text)).strip()
        if m:
            reason = reason.strip('“”"')
        return re.sub(r"\s+Do not (?:propose|try|repeat) it\b.*$", "", reason, flags=re.S)


def mark_of(tool: str, target: object) -> str:
    """A short stable name for "this tool on this thing"; part of the tool call id."""
    return hashlib.sha256(f"{tool}\0{target}".encode()).hexdigest()[:8]


def observe(messages: Sequence[BaseMessage], start: int) -> list[Observation]:
    """All answered calls from message ``start`` on. Results belong to the nearest call before."""
    open_calls: dict[str, Any] = {}
    seen: list[Observation] = []
    for index, message in enumerate(messages[start:], start):
        if isinstance(message, AIMessage):
            open_calls = {c["id"] or "": c for c in message.tool_calls}
        elif isinstance(message, ToolMessage) and (
            call := open_calls.pop(message.tool_call_id, None)
        ):
            seen.append(_observation(call, message, index))
    return seen


def _observation(call: Any, message: ToolMessage, index: int) -> Observation:
    text = _WRAPPER.sub("", message.text).strip()
    edit = _EDITED.search(text)
    text = _EDITED.sub("", text).strip() if edit else text
    ran = _parse(edit["args"]) if edit and edit["args"] else None
    args = ran if isinstance(ran, dict) else call["args"]
    data = _parse(text)
    outcome = _outcome(text, data, message.status == "error")
    mark = (call["id"] or "").rpartition("_")[2]
    return Observation(call["name"], args, mark, index, outcome, text, data, edit is not None)


def _parse(text: str) -> Any:
    if text[:1] not in "{[":
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    return value


def _outcome(text: str, data: Any, failed: bool) -> Outcome:
    if isinstance(data, dict) and (data.get("error") or data.get("ok") is False) and not failed:
        return "error"
    if not failed and (data is not None or not _SPEAKS_LIKE_HARNESS.match(text)):
        return "ok"
    return next((name for name, pattern in _OUTCOMES if pattern.search(text)), "error")


def records(data: Any) -> list[Record]:
    """The records of a result: the items of its first list of objects, or the object itself."""
    if isinstance(data, list):
        return [d for d in data if isinstance(d, dict)]
    if isinstance(data, dict):
        for value in data.values():
            if isinstance(value, list) and value and all(isinstance(v, dict) for v in value):
                # An object with its own id is one record that happens to hold a list.
                return [data] if record_id(data) else value
        lists = [v for v in data.values() if isinstance(v, list)]
        inner: list[Record] = [v for v in data.values() if isinstance(v, dict)]
        if lists and not record_id(data):
            return []
        if len(data) == 1 and inner:
            return inner
        return [data]
    return []


def record_id(record: Record) -> str | None:
    """The value that names the record: the key ``id``, or one that ends in an id word."""
    id_concept = words.concepts_of("id")
    for key, value in record.items():
        own = words.tokens(key)
        if (
            isinstance(value, str | int)
            and own
            and own[-1] in ("id", "ref", "number", "code", "key")
        ):
            return str(value)
    for key, value in record.items():
        own = words.tokens(key)
        if isinstance(value, str) and own and words.concepts_of(own[-1]) & id_concept:
            return value
    return None


def fields(record: Record, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """All plain values of a record with their keys; nested keys are joined by dots."""
    for key, value in record.items():
        if isinstance(value, dict):
            yield from fields(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            yield f"{prefix}{key}", value


def find_field(record: Record, meaning: frozenset[str]) -> tuple[str, Any] | None:
    """The field whose key means one of the given concepts, the closest first."""
    best: tuple[int, str, Any] | None = None
    for key, value in fields(record):
        own = frozenset(c for t in words.tokens(key) for c in words.concepts_of(t))
        overlap = len(own & meaning)
        # Of "amount" and "refunded_amount", the one that says nothing else is meant.
        score = overlap * 4 - len(words.tokens(key))
        if overlap and (best is None or score > best[0]):
            best = (score, key, value)
    return (best[1], best[2]) if best else None
