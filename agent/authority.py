"""What a session may do at all: effects granted to it, and taken from it, by a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.errors import UsageError
from agent.policy.globs import EFFECT
from agent.types import Actor, Authority

if TYPE_CHECKING:
    from agent.store import Store


def check_patterns(patterns: Sequence[str]) -> None:
    """A pattern that can match nothing would deny everything, or deny nothing, in silence.

    Raises:
        UsageError: One of them is no effect.
    """
    for pattern in patterns:
        if not EFFECT.fullmatch(pattern):
            raise UsageError(
                f"{pattern!r} is no effect. An effect is a kind and what it concerns, such as "
                "write:orders or spend:usd; * stands for anything: read:*."
            )


def authority_of(store: Store, session: str) -> Authority:
    """What a session may do now."""
    return store.sessions.authority(session)


def change_authority(
    store: Store,
    session: str,
    actor: Actor,
    *,
    grant: Sequence[str] = (),
    deny: Sequence[str] = (),
    take_back: Sequence[str] = (),
) -> Authority:
    """Widen or narrow what a session may do, at once, also while another process drives it.

    Nothing that runs or a model says comes here: it is a person's own command, and an entry in
    the trail with their name.

    Args:
        grant: Patterns to grant; one that was denied is not denied any more.
        deny: Patterns to deny; a denial wins over every grant.
        take_back: Patterns that are neither granted nor denied any more.

    Raises:
        UsageError: A pattern is no effect, or nothing is known of one that is to be taken back.
        NotFound: There is no such session.
    """
    check_patterns([*grant, *deny, *take_back])
    before = authority_of(store, session)
    for pattern in take_back:
        if pattern not in (*before.granted, *before.denied):
            known = ", ".join((*before.granted, *before.denied))
            raise UsageError(
                f"{pattern!r} is neither granted nor denied, so nothing was changed. "
                f"There is: {known or 'nothing'}."
            )
    granted = [*(p for p in before.granted if p not in take_back), *grant]
    denied = [*(p for p in before.denied if p not in (*take_back, *grant)), *deny]
    after = Authority(tuple(dict.fromkeys(granted)), tuple(dict.fromkeys(denied)))
    store.sessions.set_authority(session, after, actor)
    return after
