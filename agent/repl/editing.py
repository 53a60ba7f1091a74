"""Arguments as a person edited them: text, to be read without guessing."""

from __future__ import annotations

import json
from typing import Any

from agent.safe_text import exact_json


class ArgumentsError(ValueError):
    """Edited text that is not a JSON object; the message says where it fails."""


def parse_arguments(text: str) -> dict[str, Any]:
    """Read edited arguments: one JSON object, each key once, numbers that JSON has.

    Raises:
        ArgumentsError: With the line and column, or the key that stands twice.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        for key in keys:
            if keys.count(key) > 1:
                raise ArgumentsError(f"{exact_json(key, indent=None)} stands there twice.")
        return dict(pairs)

    def no_constant(name: str) -> Any:
        raise ArgumentsError(f"{name} is no JSON number.")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise ArgumentsError(
            f"Not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}."
        ) from error
    except RecursionError as error:
        raise ArgumentsError("Nested too deeply.") from error
    if not isinstance(value, dict):
        raise ArgumentsError("The arguments are one JSON object: {…}.")
    return value
