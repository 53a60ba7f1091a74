"""Where what was read may go: a call that would be allowed is asked about by the session's labels.

Text of strangers may have talked the model into a write, so once a session has read some, no rule
allows one unasked. Private data may leave in the arguments of a call that reaches somebody else,
a read included, so once a session has read some, such a call is asked about.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from agent.provenance import carries_out
from tools.contract import Contract, Effects, is_read


class Flow(NamedTuple):
    """Why a call is asked about. ``rules_hold``: an "always" rule may still allow it."""

    rule: str
    reason: str
    rules_hold: bool


def flow_of(contract: Contract, effects: Effects, labels: Collection[str]) -> Flow | None:
    """What a session's labels say of a call; ``None`` where they say nothing.

    Args:
        labels: ``untrusted``, ``private``: what the session has read so far.
    """
    if "untrusted" in labels and not is_read(effects):
        why = "This session has read what strangers wrote, so no rule allows a write unasked."
        return Flow("flow/untrusted", why, rules_hold=False)
    if "private" in labels and reaches_others(contract, effects):
        where = ", ".join(sorted(effects))
        why = (
            "This session has read private data, and this call would take its arguments to "
            f"somebody else ({where})."
        )
        return Flow("flow/private", why, rules_hold=True)
    return None


def reaches_others(contract: Contract, effects: Effects) -> bool:
    """Whether a call takes its arguments to somebody else.

    A server that was configured as trusted is no stranger, as long as it says that its tool
    reaches none (``openWorldHint``).
    """
    if not contract.open_world:
        effects = frozenset(e for e in effects if not e.partition(":")[2].startswith("mcp."))
    return carries_out(effects)
