"""From the effects of a call to a verdict: authority first, then reads, then session rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from agent.policy.scopes import covers
from agent.store.records import EffectRecord, RuleRecord
from agent.types import Authority, Behavior
from tools.contract import Effects, is_read


def evaluate(
    tool: str,
    args: Mapping[str, Any],
    effects: Effects,
    authority: Authority,
    rules: Sequence[RuleRecord] = (),
    earlier: EffectRecord | None = None,
) -> tuple[Behavior, str, str]:
    """Decide about one call whose arguments fit its schema.

    Args:
        effects: What this call may do, from the tool's contract.
        authority: What this session was granted.
        rules: The session's "always" rules that are still in force.
        earlier: The same call, committed in a session this one was forked from.

    Returns:
        The behaviour, the rule that gave it and the reason in words.
    """
    if beyond := sorted(outside(effects, authority)):
        return (
            "deny",
            "authority",
            (f"{tool} would need {', '.join(beyond)}, which this session was not granted."),
        )
    if is_read(effects):
        return "allow", "reads", "It only reads."
    if earlier is not None:
        return (
            "ask",
            "repeats",
            (
                f"The same call was already committed in {earlier.session} as {earlier.id} "
                f"({earlier.ended_at})."
            ),
        )
    for rule in rules:
        if rule.tool == tool and covers(rule.scope_args, args):
            return "allow", rule.id, f"{rule.created_by} allowed for this session: {rule.scope}."
    return "ask", "writes", f"It would change something ({', '.join(sorted(effects))})."


def outside(effects: Effects, authority: Authority) -> set[str]:
    """The effects that are not granted, or denied (denial wins)."""
    return {
        effect
        for effect in effects
        if not _matches(effect, authority.granted) or _matches(effect, authority.denied)
    }


def _matches(effect: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(effect, pattern) for pattern in patterns)
