"""What was granted: effects by patterns, and what of a call's effects lies outside."""

from __future__ import annotations

from agent.policy.globs import any_matches
from agent.types import Authority
from tools.contract import Effects


def outside(effects: Effects, authority: Authority) -> set[str]:
    """The effects that are not granted, or denied (denial wins)."""
    return {
        effect
        for effect in effects
        if not any_matches(effect, authority.granted) or any_matches(effect, authority.denied)
    }
