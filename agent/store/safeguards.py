"""What guards the trail: masks for what must not be read in it, and the key that seals it."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from agent.canonical import canonical_json
from agent.errors import StoreError
from agent.store.masking import Masks


class TrailKey:
    """The key of ``SAYSO_TRAIL_KEY``. It is never shown, and never leaves this object."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def seal(self, session: str, seq: int, hash: str) -> str:
        """HMAC-SHA256 (hex) of the canonical JSON of ``[session, seq, hash]``: of a chain's end."""
        message = canonical_json([session, seq, hash]).encode()
        return hmac.digest(self._secret, message, "sha256").hex()

    def made(self, seal: str, session: str, seq: int, hash: str) -> bool:
        """Whether this key made a seal, and of this end."""
        expected = self.seal(session, seq, hash)
        return hmac.compare_digest(str(seal).encode(), expected.encode())  # SQLite may hold bytes


class Safeguards:
    """What every process has that writes the trail.

    Args:
        key: Seals each chain whenever it grows; without one, chains are not sealed.
        secrets: Values that are masked wherever they occur; the keys are some.
        key_before: The key that this one takes the place of; it seals nothing any more.
    """

    def __init__(
        self, key: str | None = None, secrets: Iterable[str] = (), key_before: str | None = None
    ) -> None:
        self.key = TrailKey(key) if key else None
        self.key_before = TrailKey(key_before) if key_before else None
        self.masks = Masks([*secrets, *filter(None, [key, key_before])])

    def check_seal(self, session: str, seq: int, hash: str, seal: str | None) -> None:
        """Make sure that a chain with this end and seal may grow here.

        Without its key the seal would stay that of an earlier end; with another, or after the
        end was changed, the next seal would hide that.

        Raises:
            StoreError: It is sealed, and not with the key of this process.
        """
        if seal is None or (self.key and self.key.made(seal, session, seq, hash)):
            return
        if self.key is None:
            raise StoreError(
                f"The trail of session {session} is sealed, and this process has no key for it. "
                "Nothing was changed. Set SAYSO_TRAIL_KEY to the key it was sealed with."
            )
        if self.key_before and self.key_before.made(seal, session, seq, hash):
            raise StoreError(
                f"The trail of session {session} is sealed with SAYSO_TRAIL_KEY_BEFORE still. "
                "Nothing was changed. Seal it anew first: sayso trail seal"
            )
        raise StoreError(
            f"The trail of session {session} is sealed with another key than SAYSO_TRAIL_KEY, or "
            "was changed. Nothing was changed now. If it is the right key, see what is wrong: "
            f"sayso trail verify {session}"
        )
