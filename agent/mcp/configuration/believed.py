"""The ``sayso`` key of a server: how far it is believed, and what a person says of its tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from agent.mcp.configuration.document import Place, kind_of
from agent.mcp.configuration.members import dotted, fail, known_keys, typed, unexpected
from agent.mcp.servers import DEFAULT_TIMEOUT, Claims, Idempotency

MAX_TIMEOUT = 3600
"""Seconds that a call may be given."""

_AT: Place = ("sayso",)
_KEYS = ("trusted", "timeout", "insecure", "tools")
_CLAIMS = ("effects", "open_world", "private", "idempotency", "timeout")
_EFFECT = re.compile(r"[a-z]+:[A-Za-z0-9_.-]+")
_FLAG = "true or false"


@dataclass(frozen=True)
class Believed:
    """What the ``sayso`` key says; see :mod:`agent.mcp.configuration.parse`."""

    trusted: bool = False
    timeout: float = DEFAULT_TIMEOUT
    insecure: bool = False
    claims: Mapping[str, Claims] = field(default_factory=dict)

    def details(self) -> Iterator[str]:
        """What a person who confirms the server should know, in clauses."""
        if self.trusted:
            yield "what it claims of its tools (that they only read) is believed"
        if self.timeout != DEFAULT_TIMEOUT:
            yield f"a call may take {self.timeout:g} seconds"
        for tool, claims in self.claims.items():
            yield f"{tool}: {'; '.join(_in_words(claims))}"


def read_believed(entry: Mapping[str, Any]) -> Believed:
    """What is said of one server and its tools.

    Raises:
        FaultError: Something cannot be read.
    """
    said = typed((), entry, "sayso", dict, "an object", {})
    known_keys(_AT, said, _KEYS)
    tools = typed(_AT, said, "tools", dict, "an object", {})
    return Believed(
        trusted=typed(_AT, said, "trusted", bool, _FLAG, False),
        timeout=_seconds(_AT, said) or DEFAULT_TIMEOUT,
        insecure=typed(_AT, said, "insecure", bool, _FLAG, False),
        claims={tool: _claims((*_AT, "tools", tool), tools[tool]) for tool in tools},
    )


def _claims(at: Place, said: Any) -> Claims:
    if not isinstance(said, dict) or not said:
        got = "an empty one" if said == {} else kind_of(said)
        unexpected(at, f"an object with some of {', '.join(_CLAIMS)}", got)
    known_keys(at, said, _CLAIMS)
    idempotency = said.get("idempotency")
    if "idempotency" in said and idempotency not in get_args(Idempotency):
        got = repr(idempotency[:100]) if isinstance(idempotency, str) else kind_of(idempotency)
        unexpected((*at, "idempotency"), f"one of {', '.join(get_args(Idempotency))}", got)
    return Claims(
        effects=_effects((*at, "effects"), said["effects"]) if "effects" in said else None,
        open_world=typed(at, said, "open_world", bool, _FLAG, None),
        private=typed(at, said, "private", bool, _FLAG, None),
        idempotency=idempotency,
        timeout=_seconds(at, said),
    )


def _effects(at: Place, value: Any) -> frozenset[str]:
    if not isinstance(value, list) or not value:
        got = "an empty one" if value == [] else kind_of(value)
        unexpected(at, 'a list of effects, such as ["read:calendar"]', got)
    for effect in value:
        if not isinstance(effect, str) or not _EFFECT.fullmatch(effect):
            said = f"{dotted(at)} has {str(effect)[:100]!r}, which is not an effect"
            fail(at, f"{said}; one looks like write:calendar")
    return frozenset(value)


def _seconds(at: Place, said: Mapping[str, Any]) -> float | None:
    if "timeout" not in said:
        return None
    value = said["timeout"]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value <= MAX_TIMEOUT
    ):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        got = f"{value}"[:40] if number else kind_of(value)
        unexpected((*at, "timeout"), f"seconds, above 0 and up to {MAX_TIMEOUT}", got)
    return float(value)


def _in_words(claims: Claims) -> Iterator[str]:
    """What is said of a tool, in clauses."""
    if claims.effects is not None:
        yield f"counts as {', '.join(sorted(claims.effects))}"
    if claims.open_world is not None:
        yield f"its results are {'text of strangers' if claims.open_world else 'believed'}"
    if claims.private is not None:
        yield f"its results are {'private' if claims.private else 'not private'}"
    if claims.idempotency is not None:
        yield f"repeating it: {claims.idempotency}"
    if claims.timeout is not None:
        yield f"a call may take {claims.timeout:g} seconds"
