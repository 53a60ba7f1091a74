"""Rules by the tools they name, so that a decision looks at few of many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from agent.policy.globs import is_literal, matches

T = TypeVar("T")

_KEPT = 1_024


class RuleIndex(Generic[T]):
    """Items found by a name that one of their patterns stands for.

    A literal pattern is looked up; each distinct other pattern is tried once a name, and what was
    found for a name is kept, so that only the first call of a tool pays for it.
    """

    def __init__(self, items: Iterable[tuple[Iterable[str], T]]) -> None:
        self._literal: dict[str, list[tuple[int, T]]] = {}
        self._patterns: dict[str, list[tuple[int, T]]] = {}
        self._found: dict[str, tuple[T, ...]] = {}
        for position, (patterns, item) in enumerate(items):
            for pattern in patterns:
                kind = self._literal if is_literal(pattern) else self._patterns
                kind.setdefault(pattern, []).append((position, item))

    def about(self, name: str) -> tuple[T, ...]:
        """The items for a name, each once, in their order."""
        if name not in self._found:
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[name] = self._look(name)
        return self._found[name]

    def _look(self, name: str) -> tuple[T, ...]:
        found = dict(self._literal.get(name, ()))
        for pattern, items in self._patterns.items():
            if matches(name, pattern):
                found.update(items)
        return tuple(found[position] for position in sorted(found))
