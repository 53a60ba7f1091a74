"""Who a call would disclose something to, by its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.utils import getaddresses
from typing import Any

from agent.policy.globs import matches
from agent.policy.model import Recipients
from tools.contract import Effects

_ADDRESS = re.compile(r"[^\s@,;:<>()\"\[\]\\]+@[A-Za-z0-9.-]+")


def discloses(effects: Effects) -> bool:
    """Whether a call sends something to somebody."""
    return any(effect.startswith("disclose:") for effect in effects)


def strangers(known: Recipients, args: Mapping[str, Any]) -> list[str]:
    """Who among the recipients of a call is not on the list, as written.

    What is no single plain address counts as nobody who is known: two addresses in one text, or
    one hidden in the name of another, are each looked at, or not understood.
    """
    named = [text for name in known.arguments for text in _texts(args.get(name))]
    if not named:
        return ["(no recipient found)"]
    return [text for text in named if not _is_known(text, known.allow)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, Mapping):
        yield str(dict(value))  # not understood: on no list
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif value is not None:
        yield str(value)


def _is_known(text: str, allow: tuple[str, ...]) -> bool:
    if "@" not in text:
        return any(matches(text, pattern) for pattern in allow if "@" not in pattern)
    addresses = [address for _, address in getaddresses([text])]
    return bool(addresses) and all(_is_known_address(address, allow) for address in addresses)


def _is_known_address(address: str, allow: tuple[str, ...]) -> bool:
    if not _ADDRESS.fullmatch(address):
        return False
    local, _, domain = address.rpartition("@")
    spelled = f"{local}@{domain.lower()}"
    return any(matches(spelled, _lowered(pattern)) for pattern in allow if "@" in pattern)


def _lowered(pattern: str) -> str:
    local, _, domain = pattern.rpartition("@")
    return f"{local}@{domain.lower()}"
