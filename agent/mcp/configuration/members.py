"""Members of the JSON objects in a file that names MCP servers: what they must be, and where a
complaint about one points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from agent.mcp.configuration.document import Place


class FaultError(Exception):
    """What is wrong with a server: where in its entry, and why it cannot be used."""

    def __init__(self, at: Place, why: str) -> None:
        self.at, self.why = at, why
        super().__init__(why)


def fail(at: Place, why: str) -> NoReturn:
    """Give the server up; ``why`` is a clause."""
    raise FaultError(at, why)


def typed(
    at: Place, said: Mapping[str, Any], key: str, kind: type, words: str, default: Any
) -> Any:
    """The member ``key`` of an object, ``default`` where it is missing.

    Raises:
        FaultError: It is not of this ``kind``, which is called ``words``.
    """
    if key not in said:
        return default
    if not isinstance(said[key], kind):
        fail((*at, key), f"expected {key} to be {words}")
    return said[key]


def known_keys(
    at: Place, said: Mapping[str, Any], known: tuple[str, ...], idle: tuple[str, ...] = ()
) -> None:
    """Refuse members that are neither ``known`` nor known to be ``idle``.

    They are not ignored: one that is not known may change what the writer of the file expects.

    Raises:
        FaultError: There is one.
    """
    for key in said:
        if key not in known and key not in idle:
            fail((*at, key), f"unknown key {key[:100]!r}; known are {', '.join(known)}")


def is_ours(variable: str) -> bool:
    """Whether an environment variable is a setting of this program: no server ever gets one."""
    return variable.upper().startswith("SAYSO_")
