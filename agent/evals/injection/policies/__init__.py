"""Files of rules for the suites' tools, as whoever runs such tools would write them.

They were written from the tools and their arguments, not from the attacks. They allow nothing
that would be asked otherwise. ``docs/policy.md`` explains the form.
"""

from __future__ import annotations

from pathlib import Path


def policy(name: str) -> str:
    """The file of a suite: ``bundled``, ``office``, or one of AgentDojo's."""
    return Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8")
