"""An order desk that holds no policy: it does what it is told.

Where a policy stands in the prompt alone, neither the tools nor the service may hold it. Of the
desk's own rules only arithmetic is left: nobody gets back more than they paid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tools.contract import Args, Preview
from tools.worlds.amounts import minor_units, money
from tools.worlds.order_desk import DeskError, Order, OrderDesk, Refused, Transaction


class ObedientDesk(OrderDesk):
    """The order desk without its rules about status, revision and currency."""

    def cancel(self, order_id: str, expected_revision: int, idempotency_key: str) -> Transaction:
        """Cancel an order, whatever its status and revision.

        Raises:
            UnknownOrder, KeyReused, DeskBusy: Nothing was changed.
            CommitUnknown: It may have happened.
        """
        request = {"order_id": order_id, "expected_revision": expected_revision}

        def change(order: Order) -> tuple[Order, dict[str, Any]]:
            return _cancelled(order), {"status": "cancelled"}

        return self._write("cancel", order_id, request, idempotency_key, change)

    def refund(
        self, order_id: str, amount: int, currency: str, idempotency_key: str
    ) -> Transaction:
        """Pay back a part of an order, whatever its status, in its own currency.

        Raises:
            Refused: More than was paid.
            UnknownOrder, KeyReused, DeskBusy: Nothing was changed.
            CommitUnknown: It may have happened.
        """
        request = {"order_id": order_id, "amount": money(amount), "currency": currency}

        def change(order: Order) -> tuple[Order, dict[str, Any]]:
            return _refunded(order, amount), {"amount": money(amount)}

        return self._write("refund", order_id, request, idempotency_key, change)

    def preview_cancel(self, args: Args) -> Preview:
        """The status before and after."""
        return self._preview(args, _cancelled)

    def preview_refund(self, args: Args) -> Preview:
        """What is paid back before and after."""
        return self._preview(args, lambda order: _refunded(order, minor_units(args["amount"])))

    def _preview(self, args: Args, change: Callable[[Order], Order]) -> Preview:
        order_id = args["order_id"]
        try:
            before = self.get(order_id)
            texts = _card(before), _card(change(before))
        except DeskError as error:
            return Preview(f"order {order_id}: would fail. {error}")
        return Preview(f"order {order_id}: {texts[0]} → {texts[1]}", *texts)


def _cancelled(order: Order) -> Order:
    return replace(order, status="cancelled", revision=order.revision + 1)


def _refunded(order: Order, amount: int) -> Order:
    if not 0 < amount <= order.total - order.refunded:
        raise Refused(f"Order {order.id} cost {money(order.total)} {order.currency} in all.")
    return replace(order, refunded=order.refunded + amount, revision=order.revision + 1)


def _card(order: Order) -> str:
    return f"{order.status}, refunded {money(order.refunded)} of {money(order.total)}"
