"""Named grants: what a session is for, in one word."""

from __future__ import annotations

from collections.abc import Mapping

from agent.types import Authority

PROFILES: Mapping[str, Authority] = {
    "read-only": Authority(granted=("read:*",)),
    "desk": Authority(
        granted=(
            "read:*",
            "write:orders",
            "write:files",
            "write:mail",
            "spend:refund-*",
            "disclose:email*",
        ),
    ),
    "research": Authority(
        granted=("read:corpus", "read:math", "read:files", "network:*", "write:files"),
        denied=("spend:*", "disclose:*"),
    ),
}
"""``read-only`` reaches nothing outside, since a request carries its address out; ``desk`` is for
serving customers; ``research`` reads sources, the web among them, and writes files."""
