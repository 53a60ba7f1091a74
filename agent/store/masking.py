"""What the trail does not keep: values of fields whose names say that they are secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

MASK = "«masked»"

# Matched against a name without case and separators. Counts of tokens are not secrets.
_SECRET = re.compile(
    r"password|passwd|passphrase|passcode|secret|credential|authorization|authentication"
    r"|cookie|bearer|apikey|accesskey|privatekey|signingkey|encryptionkey|connectionstring"
    r"|token(?!s|ize|izer|count|limit|usage|budget|type)|jwt$"
)
_SECRET_WHOLE = frozenset({"pwd", "pass", "auth", "pin", "otp", "cvv", "cvc", "xauth"})
_SEPARATORS = re.compile(r"[^a-z0-9]")


@lru_cache(maxsize=1024)
def looks_secret(name: str) -> bool:
    """Whether a field of this name (any case, any separators) is taken to hold a secret."""
    plain = _SEPARATORS.sub("", name.lower())
    return plain in _SECRET_WHOLE or _SECRET.search(plain) is not None


def masked(value: Any) -> Any:
    """A copy of a JSON value in which the value of every secret-looking field is ``MASK``."""
    if isinstance(value, Mapping):
        return {
            key: MASK if isinstance(key, str) and looks_secret(key) else masked(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return value
