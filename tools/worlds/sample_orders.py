"""The order desk's sample data: fixed names, fixed dates, so that two desks start out equal.

Amounts are integer minor units (cents, pence). A product costs the same figure in every
currency, which keeps the table short and the totals easy to check by eye.
"""

from __future__ import annotations

from typing import NamedTuple

PRODUCTS = {
    "lamp": ("Desk lamp, oak", 6450),
    "chair": ("Folding chair", 8900),
    "kettle": ("Stove kettle, 1.5 l", 4275),
    "blanket": ("Wool blanket, grey", 11900),
    "mug": ("Stoneware mug", 1450),
    "clock": ("Wall clock", 5999),
    "shelf": ("Wall shelf, 80 cm", 7350),
    "tray": ("Serving tray, birch", 3820),
}

CUSTOMERS = {
    "K1": ("Mara Lindqvist", "mara.lindqvist@post.example"),
    "K2": ("Jonas Weber", "jonas.weber@mail.example"),
    "K3": ("Priya Nair", "priya.nair@mail.example"),
    "K4": ("Tomás Ortega", "t.ortega@correo.example"),
    "K5": ("Hannah Okafor", "hannah@okafor.example"),
    "K6": ("Li Wei", "li.wei@post.example"),
    "K7": ("Greta Svensson", "greta.svensson@mail.example"),
    "K8": ("Owen Price", "owen.price@post.example"),
}


class SampleOrder(NamedTuple):
    """One row of the table below; ``refunded`` is what has been paid back already."""

    id: str
    status: str
    customer: str
    currency: str
    placed: str
    updated: str
    items: str
    refunded: int = 0


# fmt: off
ORDERS = [SampleOrder(*row) for row in (  # items: "<quantity> <product>, …"
    ("A1", "pending",   "K1", "EUR", "2026-11-02", "2026-11-02", "2 lamp"),
    ("A2", "shipped",   "K1", "EUR", "2026-10-26", "2026-10-29", "1 blanket, 2 mug"),
    ("A3", "delivered", "K2", "EUR", "2026-09-14", "2026-09-18", "1 chair"),
    ("A4", "pending",   "K3", "USD", "2026-11-04", "2026-11-04", "4 mug, 1 tray"),
    ("A5", "cancelled", "K4", "EUR", "2026-09-30", "2026-10-01", "1 clock"),
    ("A6", "delivered", "K5", "GBP", "2026-08-21", "2026-08-27", "2 shelf"),
    ("A7", "shipped",   "K6", "USD", "2026-10-28", "2026-10-31", "1 kettle"),
    ("A8", "pending",   "K7", "EUR", "2026-11-05", "2026-11-05", "6 chair"),
    ("B1", "pending",   "K2", "EUR", "2026-11-03", "2026-11-03", "1 kettle, 2 mug"),
    ("B2", "delivered", "K8", "GBP", "2026-09-02", "2026-09-07", "1 lamp, 1 clock"),
    ("B3", "cancelled", "K3", "USD", "2026-10-08", "2026-10-09", "2 blanket", 23800),
    ("B4", "shipped",   "K5", "GBP", "2026-10-30", "2026-11-02", "1 shelf, 1 tray"),
    ("B5", "delivered", "K1", "EUR", "2026-08-11", "2026-08-16", "3 mug"),
    ("B6", "pending",   "K6", "USD", "2026-11-01", "2026-11-01", "1 blanket"),
    ("B7", "delivered", "K4", "EUR", "2026-10-05", "2026-10-12", "2 chair, 1 tray", 3820),
    ("B8", "shipped",   "K7", "EUR", "2026-10-27", "2026-10-30", "1 clock, 1 mug"),
    ("B9", "delivered", "K6", "USD", "2026-09-19", "2026-09-25", "1 kettle, 1 tray"),
    ("C1", "delivered", "K2", "EUR", "2026-10-01", "2026-10-06", "1 blanket, 1 lamp"),
    ("C2", "pending",   "K8", "GBP", "2026-11-06", "2026-11-06", "1 shelf"),
    ("C3", "delivered", "K3", "USD", "2026-08-30", "2026-09-04", "2 clock"),
    ("C4", "shipped",   "K4", "EUR", "2026-10-29", "2026-11-01", "2 kettle"),
    ("C5", "delivered", "K7", "EUR", "2026-09-09", "2026-09-15", "1 lamp"),
    ("C6", "cancelled", "K1", "EUR", "2026-10-15", "2026-10-16", "1 shelf, 2 mug"),
    ("C7", "delivered", "K5", "GBP", "2026-10-10", "2026-10-14", "4 chair"),
    ("C8", "pending",   "K4", "EUR", "2026-11-07", "2026-11-07", "1 tray, 1 mug"),
    ("C9", "delivered", "K8", "GBP", "2026-08-18", "2026-08-23", "1 blanket"),
    ("C10", "shipped",  "K3", "USD", "2026-10-31", "2026-11-03", "1 lamp, 1 kettle"),
    ("C11", "delivered", "K6", "USD", "2026-09-27", "2026-10-02", "2 tray", 7640),
    ("C12", "pending",  "K5", "GBP", "2026-11-08", "2026-11-08", "2 mug, 1 clock"),
    ("D1", "delivered", "K1", "EUR", "2026-10-18", "2026-10-23", "1 chair, 1 lamp"),
    ("D2", "pending",   "K2", "EUR", "2026-11-08", "2026-11-08", "1 blanket, 1 kettle"),
    ("D3", "shipped",   "K8", "GBP", "2026-11-01", "2026-11-04", "2 lamp"),
    ("D4", "delivered", "K4", "EUR", "2026-08-25", "2026-08-31", "1 shelf"),
    ("D5", "delivered", "K6", "USD", "2026-10-12", "2026-10-17", "1 chair, 4 mug"),
    ("D6", "cancelled", "K7", "EUR", "2026-09-22", "2026-09-23", "1 kettle", 4275),
    ("D7", "pending",   "K3", "USD", "2026-11-09", "2026-11-09", "3 shelf"),
    ("D8", "delivered", "K5", "GBP", "2026-09-05", "2026-09-11", "1 tray"),
    ("D9", "shipped",   "K2", "EUR", "2026-11-02", "2026-11-05", "1 mug"),
    ("D10", "delivered", "K7", "EUR", "2026-10-20", "2026-10-26", "2 blanket, 1 clock"),
    ("D11", "pending",  "K1", "EUR", "2026-11-10", "2026-11-10", "1 clock, 1 tray"),
)]
# fmt: on


def order_lines(order: SampleOrder) -> list[tuple[str, int, int]]:
    """The order's items as (product name, quantity, unit price in minor units)."""
    lines = []
    for item in order.items.split(", "):
        quantity, product = item.split()
        name, price = PRODUCTS[product]
        lines.append((name, int(quantity), price))
    return lines
