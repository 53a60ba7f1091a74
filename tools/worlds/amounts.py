"""Amounts of money: integer minor units inside, decimal strings outside, never a float."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo

Currency = Literal["EUR", "USD", "GBP"]

MINOR_UNITS = 100  # of every currency in use: cents and pence


def money(minor: int) -> str:
    """Minor units as a decimal string: ``12900`` → ``"129.00"``."""
    return f"{minor // MINOR_UNITS}.{minor % MINOR_UNITS:02d}"


def minor_units(amount: str) -> int:
    """A decimal string with at most two decimals as minor units: ``"12.5"`` → ``1250``.

    Raises:
        ValueError: For anything else.
    """
    match = re.fullmatch(r"([0-9]{1,9})(?:\.([0-9]{1,2}))?", amount)
    if match is None:
        raise ValueError(f"{amount!r} is not an amount such as 12.50")
    return int(match[1]) * MINOR_UNITS + int((match[2] or "").ljust(2, "0"))


def _from_outside(value: object, info: ValidationInfo) -> object:
    """A JSON number is refused: nobody could say whether 12 means 12.00 or 0.12."""
    if isinstance(value, str):
        return minor_units(value)
    if info.mode == "json":
        raise ValueError("an amount is a decimal string")
    return value


Minor = Annotated[
    int, BeforeValidator(_from_outside), PlainSerializer(money, return_type=str, when_used="json")
]
"""Minor units; in JSON a decimal string."""
