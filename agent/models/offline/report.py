"""Facts out of a text by rules: what a stand-in for a reader can find without understanding it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

MOST = 40

_NUMBER = re.compile(r"(?<![\w.])\d[\d,.]*(?:\s?(?:%|million|thousand|EUR|USD))?(?!\w)")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?://[^\s<>\"']+")


def facts_of(text: str) -> list[dict[str, Any]]:
    """Names and values: the fields of JSON, or numbers behind their words, and addresses."""
    try:
        found = list(_fields(json.loads(text)))
    except (ValueError, RecursionError):
        found = list(_numbers(text))
    return [{"name": name, "value": value} for name, value in found[:MOST]]


def _fields(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, f"{name} {key}".strip())
    elif isinstance(value, list):
        for number, inner in enumerate(value, 1):
            yield from _fields(inner, f"{name} {number}".strip())
    elif isinstance(value, str | int | float | bool):
        yield name or "value", value


def _numbers(text: str) -> Iterator[tuple[str, str]]:
    for match in _NUMBER.finditer(text):
        before = _WORD.findall(text[max(match.start() - 60, 0) : match.start()])
        yield " ".join(before[-4:])[:40] or "number", match[0].rstrip(".,")
    for number, match in enumerate(_ADDRESS.finditer(text), 1):
        yield f"address {number}", match[0][:80]
