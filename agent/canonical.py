"""One spelling for JSON values, and the digest that binds a decision to arguments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical_json(value: Any) -> str:
    """Serialise a JSON value so that equal values give equal text.

    Keys are sorted, there is no white space, and everything outside ASCII is escaped, so
    that any string (lone surrogates and NUL included) survives every database and encoding.

    Raises:
        ValueError: For NaN and the infinities, which JSON does not have.
        TypeError: For a value that is not JSON.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def call_digest(tool: str, args: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of tool name and canonical arguments: what a decision is bound to."""
    return hashlib.sha256(canonical_json([tool, args]).encode()).hexdigest()
