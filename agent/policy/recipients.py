"""Who a call would disclose something to, by its arguments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.utils import getaddresses
from itertools import chain, islice
from typing import Any

from agent.policy.globs import matches
from agent.policy.model import Recipients
from tools.contract import Effects

MOST = 1_000
"""Recipients of a call that are looked up."""

LONGEST = 100_000
"""Characters of one text with addresses in it."""

DEEPEST = 10
"""Lists of recipients inside each other."""

_ADDRESS = re.compile(r"[^\s@,;:<>()\"\[\]\\]+@[A-Za-z0-9.-]+")


def discloses(effects: Effects) -> bool:
    """Whether a call sends something to somebody."""
    return any(effect.startswith("disclose:") for effect in effects)


def strangers(known: Recipients, args: Mapping[str, Any]) -> list[str]:
    """Who among the recipients of a call is not on the list, as written.

    What is no single plain address counts as nobody who is known: two addresses in one text, or
    one hidden in the name of another, are each looked at, or not understood.
    """
    texts = chain.from_iterable(_texts(args.get(name)) for name in known.arguments)
    named = list(islice(texts, MOST + 1))
    if not named:
        return ["(no recipient found)"]
    if len(named) > MOST:
        return [f"(more than {MOST:,} recipients)"]
    return [text for text in named if not _is_known(text, known.allow)]


def _texts(value: Any, depth: int = DEEPEST) -> Iterator[str]:
    if depth == 0:
        yield "(something nested too deeply)"
    elif isinstance(value, str):
        if value.strip():
            yield value
    elif isinstance(value, Mapping):
        yield str(dict(value))  # not understood: on no list
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner, depth - 1)
    elif value is not None:
        yield str(value)


def _is_known(text: str, allow: tuple[str, ...]) -> bool:
    if "@" not in text:
        return any(matches(text, pattern) for pattern in allow if "@" not in pattern)
    if len(text) > LONGEST or "(" in text:  # a remark is none of a plain address, and may nest
        return False
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
