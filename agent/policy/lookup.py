"""What a condition looks at: the values of one call, and the work that looking may take."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from agent.policy.language import Reference

LARGEST_OF_A_DECISION = 10_000_000
"""Units of work of all conditions that are looked at for one call."""


class NotChecked(Exception):
    """A condition could not be evaluated on this call; the message says why."""


class Missing(NotChecked):
    """The call does not have a field that it names; another call may."""


class Facts:
    """The values that conditions look at, of one call; converted once for all of them.

    Args:
        values: By root.
        unusable: Why a field must not be compared, by root or root and keys.
        unbounded: For small samples: work is not counted.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        unusable: Mapping[tuple[str, ...], str] | None = None,
        *,
        unbounded: bool = False,
    ) -> None:
        self.values = values
        self._unusable = dict(unusable or {})
        self._sizes: dict[tuple[str, ...], int] = {}
        self._context: Any = None
        self._left: float = math.inf if unbounded else LARGEST_OF_A_DECISION

    @property
    def context(self) -> Any:
        """The values as the library takes them."""
        if self._context is None:
            import cel

            try:
                self._context = cel.Context(variables=dict(self.values))
            except Exception as error:
                raise NotChecked(f"its values cannot be compared ({in_words(error)})") from None
        return self._context

    def check(self, found: Reference) -> None:
        """Whether a field may be compared at all.

        Raises:
            NotChecked: Why not.
        """
        if not self._unusable:
            return
        for name, why in self._unusable.items():
            mine = (found.root, *map(str, found.keys))
            if name == mine[: len(name)] or mine == name[: len(mine)]:
                raise NotChecked(f"{'.'.join(name)} {why}")

    def spend(self, units: int) -> None:
        """Count work.

        Raises:
            NotChecked: The decision has had its share.
        """
        if units > self._left:
            raise NotChecked("the conditions before it took too much work on this call")
        self._left -= units

    def size(self, found: Reference) -> int:
        """Values in a field, each 64 characters of a text counting as one."""
        key = (found.root, *(str(k) for k in found.keys[:1]))
        if key not in self._sizes:
            self._sizes[key] = _size(self._top(found))
        return self._sizes[key]

    def elements(self, found: Reference) -> int:
        """How many elements a loop over a field goes through, at most."""
        value = self.value(found)
        return len(value) if isinstance(value, Mapping | list | tuple) else 1

    def value(self, found: Reference) -> Any:
        """The value of a field; ``None`` where there is none."""
        value: Any = self.values.get(found.root)
        for key in found.keys:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def has(self, found: Reference) -> bool:
        """Whether there is such a field."""
        value: Any = self.values.get(found.root)
        for key in found.keys:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def _top(self, found: Reference) -> Any:
        value = self.values.get(found.root)
        if found.keys and isinstance(value, Mapping):
            return value.get(str(found.keys[0]))
        return value


def _size(value: Any) -> int:
    total, open_values = 0, [value]
    while open_values:
        inner = open_values.pop()
        total += 1
        if isinstance(inner, str):
            total += len(inner) // 64
        elif isinstance(inner, Mapping):
            open_values += [*inner.keys(), *inner.values()]
        elif isinstance(inner, list | tuple):
            open_values += inner
    return total


def in_words(error: Exception) -> str:
    """What the library says of a value, for a person."""
    said = str(error)
    if "No such overload" in said or "Unexpected type" in said:
        return "a value is of another type than it is compared with"
    if found := re.search(r"Undefined variable or function: '(\w+)'", said):
        return f"{found[1]} cannot be asked of a value of this type"
    return said.splitlines()[0] if said else type(error).__name__
