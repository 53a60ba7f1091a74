"""One database: sessions, approvals, rules, the ledger of writes, the trail and the leases.

The names below come when they are first asked for: whoever needs the records alone does not
load SQLAlchemy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.store.ledger import Begun
    from agent.store.owner import Owner
    from agent.store.store import Store
    from agent.store.trail import Problem

__all__ = ["Begun", "Owner", "Problem", "Store"]

_HOMES = {"Begun": "ledger", "Owner": "owner", "Problem": "trail", "Store": "store"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found  # so that the next look-up does not come here
    return found
