"""Named grants: what a session is for, in one word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.errors import NotFound
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


def granted_by(profile: str | None, grant: Sequence[str], deny: Sequence[str]) -> Authority:
    """What a new session is granted: a profile's, and what is granted and denied beside it.

    Without a profile and a grant nothing is named, which stands for the default.

    Raises:
        NotFound: There is no such profile.
    """
    if profile is None:
        return Authority(tuple(grant), tuple(deny))
    if profile not in PROFILES:
        raise NotFound("profile", profile, tuple(PROFILES))
    named = PROFILES[profile]
    denied = [pattern for pattern in named.denied if pattern not in grant]
    return Authority((*named.granted, *grant), (*denied, *deny))


def authority_of_new(profile: str | None, grant: Sequence[str], deny: Sequence[str]) -> Authority:
    """What a new session may do with these options: where they grant nothing, the default.

    Raises:
        NotFound: There is no such profile.
    """
    named = granted_by(profile, grant, deny)
    return Authority(named.granted or Authority().granted, named.denied)
