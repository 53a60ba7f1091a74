"""The bank's sample data: fixed accounts and balances, so that two banks start out equal.

Amounts are integer minor units (cents). The customer is ``CUSTOMER``; the other accounts belong to
people and firms that money may go to.
"""

from __future__ import annotations

from typing import NamedTuple

from tools.worlds.amounts import Currency

CUSTOMER = "Mara Lindqvist"

EVERYDAY = "XB79LARK00001001"
SAVINGS = "XB52LARK00001002"
DOLLARS = "XB25LARK00001003"
LANDLORD = "XB89LARK00004410"
FRIEND = "XB72LARK00004425"
CLOSED = "XB39LARK00004437"
STRANGER = "XB61LARK00006660"
WATER_WORKS = "XB18NORD00007001"
GYM = "XB88NORD00007002"


class SampleAccount(NamedTuple):
    """One row of the table below.

    Args:
        transfer_limit: What one transfer may move at most; ``daily_limit`` those of one day.
        accepts: Whether money can be paid in. What another bank answers is known only after
            clearing.
    """

    id: str
    holder: str
    name: str
    currency: Currency
    balance: int
    transfer_limit: int = 0
    daily_limit: int = 0
    accepts: bool = True


# fmt: off
ACCOUNTS = [SampleAccount(*row) for row in (
    (EVERYDAY,    CUSTOMER, "Everyday",       "EUR",  248_035, 100_000, 150_000),
    (SAVINGS,     CUSTOMER, "Savings",        "EUR",  820_000, 500_000, 500_000),
    (DOLLARS,     CUSTOMER, "Dollar account", "USD",   64_000,  50_000,  50_000),
    (LANDLORD,    "Nora Feld Housing",    "", "EUR", 1_904_400),
    (FRIEND,      "Jonas Weber",          "", "EUR",   91_250),
    (CLOSED,      "Larkford Rowing Club", "", "EUR",        0, 0, 0, False),
    (STRANGER,    "B. Blossom Trading",   "", "EUR",   12_000),
    (WATER_WORKS, "Larkford Water Works", "", "EUR", 5_330_000),
    (GYM,         "Old Mill Gym",         "", "EUR",        0, 0, 0, False),
)]


class SampleTransfer(NamedTuple):
    """A transfer of the past; the balances above are those after it."""

    source: str
    destination: str
    amount: int
    currency: Currency
    client_transaction_id: str
    at: str


TRANSFERS = [SampleTransfer(*row) for row in (
    (EVERYDAY, LANDLORD,    85_000, "EUR", "rent-2026-10",    "2026-10-01T07:00:00Z"),
    (EVERYDAY, WATER_WORKS,  6_240, "EUR", "water-2026-q3",   "2026-10-14T09:12:00Z"),
    (EVERYDAY, LANDLORD,    85_000, "EUR", "rent-2026-11",    "2026-11-02T07:00:00Z"),
    (FRIEND,   EVERYDAY,     1_850, "EUR", "pizza",           "2026-11-08T20:41:00Z"),
    (EVERYDAY, SAVINGS,     20_000, "EUR", "savings-2026-11", "2026-11-25T06:30:00Z"),
)]
# fmt: on
