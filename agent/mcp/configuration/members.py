"""Members of the JSON objects in a file that names MCP servers: what they must be, and where a
complaint about one points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from agent.mcp.configuration.document import Place, kind_of


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
        unexpected((*at, key), words, kind_of(said[key]))
    return said[key]


def unexpected(at: Place, words: str, got: str) -> NoReturn:
    """Give the server up: the member there was to be ``words``, and is what ``got`` says."""
    fail(at, f"expected {dotted(at)} to be {words}, got {got}")


def dotted(at: Place) -> str:
    """A place in an entry as people write it: ``sayso.tools.get.timeout``."""
    return ".".join(key[:100] for key in at)


def known_keys(at: Place, said: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse members that are not known.

    They are not ignored: one that is not known may change what the writer of the file expects.

    Raises:
        FaultError: There is one.
    """
    for key in said:
        if key not in known:
            fail((*at, key), f"unknown key {dotted((*at, key))!r}; known are {', '.join(known)}")


def is_ours(variable: str) -> bool:
    """Whether an environment variable is a setting of this program: no server ever gets one."""
    return variable.upper().startswith("SAYSO_")
