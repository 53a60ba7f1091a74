"""The order desk for a model: two reads, two writes, each with its contract.

Results are compact JSON with a fixed key order; amounts are decimal strings. What the desk
refuses comes back as ``ToolFailure`` with what to do next, a locked database as
``TransientFailure``, a commit that broke half way as ``OutcomeUnknown``.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from tools.contract import (
    Args,
    Call,
    CallInfo,
    Contract,
    Effects,
    Evidence,
    Finding,
    OutcomeUnknown,
    PlainTool,
    Preview,
    ToolFailure,
    TransientFailure,
    Unmet,
    current_call,
)
from tools.worlds.amounts import Currency, minor_units, money
from tools.worlds.order_desk import (
    MAX_PAGE_SIZE,
    CommitUnknown,
    DeskBusy,
    DeskError,
    Order,
    OrderDesk,
    Page,
    Sort,
    Status,
    Transaction,
    check_cancel,
    check_refund,
)

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

READ: Effects = frozenset({"read:orders"})
WRITE: Effects = frozenset({"write:orders"})
TOOLS = ("list_orders", "get_order", "cancel_order", "refund_order")


def plain_order_tools(desk: OrderDesk) -> list[PlainTool]:
    """``list_orders``, ``get_order``, ``cancel_order`` and ``refund_order`` over one desk."""
    tools = _OrderTools(desk)
    return [
        PlainTool(
            tools.list_orders,
            args=ListOrders,
            result=OrderPage,
            contract=Contract(effects=READ, open_world=False, private=True, version="1"),
        ),
        PlainTool(
            tools.get_order,
            args=GetOrder,
            result=WholeOrder,
            contract=Contract(
                effects=READ,
                open_world=False,
                private=True,
                conflict_key=_conflict_key,
                version="1",
            ),
        ),
        PlainTool(
            tools.cancel_order,
            args=CancelOrder,
            result=Cancelled,
            contract=Contract(
                effects=WRITE,
                open_world=False,
                private=True,
                idempotency="key",
                precondition=_was_read,
                postcondition=tools.verify_cancel,
                reconcile=tools.find_cancel,
                check=_reading,
                conflict_key=_conflict_key,
                preview=tools.preview_cancel,
                undo=None,  # the desk cannot reopen an order
                version="1",
            ),
        ),
        PlainTool(
            tools.refund_order,
            args=RefundOrder,
            result=Refunded,
            contract=Contract(
                effects=_refund_effects,
                effect_families=WRITE | {"spend:refund-???"},
                open_world=False,
                private=True,
                idempotency="key",
                precondition=_was_read,
                postcondition=tools.verify_refund,
                reconcile=tools.find_refund,
                check=_reading,
                conflict_key=_conflict_key,
                preview=tools.preview_refund,
                undo=None,  # the money has left
                version="1",
            ),
        ),
    ]


def order_tools(desk: OrderDesk) -> list[BaseTool]:
    """The plain tools, as an agent has them."""
    from tools.langchain_tools import langchain_tool

    return [langchain_tool(tool) for tool in plain_order_tools(desk)]


# Arguments ---------------------------------------------------------------------------------


def _tidy_id(value: object) -> object:
    return value.strip().upper() if isinstance(value, str) else value


def _real_day(value: str) -> str:
    date.fromisoformat(value)
    return value


def _amount_text(value: object) -> object:
    """A JSON number is taken by its text; ``True`` is an ``int`` in Python and is refused."""
    return repr(value) if type(value) in (int, float) else value


def _two_decimals(value: str) -> str:
    return money(minor_units(value))


OrderId = Annotated[
    str,
    Field(
        pattern=r"^[A-Z][0-9]{1,4}$",
        description="Order id: one letter and a number.",
        examples=["A1", "B7", "C12"],
    ),
    BeforeValidator(_tidy_id),
]
Day = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), AfterValidator(_real_day)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ListOrders(_Strict):
    """Arguments of ``list_orders``."""

    status: Status | None = Field(None, description="Only orders in this status.")
    customer: str | None = Field(
        None,
        min_length=2,
        max_length=100,
        description="Only orders of this customer: name, e-mail address or a part of either.",
        examples=["Mara Lindqvist", "jonas.weber@mail.example"],
    )
    placed_from: Day | None = Field(
        None, description="First day the order was placed, YYYY-MM-DD (UTC)."
    )
    placed_to: Day | None = Field(
        None, description="Last day the order was placed, YYYY-MM-DD (UTC), included."
    )
    sort: Sort = Field(
        "placed_newest",
        description="Order of the list. By total: plain figures, currencies are not converted.",
    )
    page: int = Field(1, ge=1, le=10_000, description="Page number, from 1.")
    page_size: int = Field(20, ge=1, le=MAX_PAGE_SIZE, description="Orders a page.")
    response_format: Literal["concise", "detailed"] = Field(
        "concise",
        description="concise: id, status, customer, total, placed. "
        "detailed: whole records, as get_order returns them.",
    )


class GetOrder(_Strict):
    """Arguments of ``get_order``."""

    order_id: OrderId


class CancelOrder(_Strict):
    """Arguments of ``cancel_order``."""

    order_id: OrderId
    expected_revision: int = Field(
        ge=1, description="The order's revision as get_order returned it just now; never a guess."
    )


class RefundOrder(_Strict):
    """Arguments of ``refund_order``."""

    order_id: OrderId
    amount: Annotated[
        str,
        Field(
            pattern=r"^[0-9]{1,7}(\.[0-9]{1,2})?$",
            description="Amount to pay back in units of the currency, as a decimal string with "
            "a point; at most the order's refundable.",
            examples=["12.50", "129.00"],
        ),
        AfterValidator(_two_decimals),
        BeforeValidator(_amount_text),
    ]
    currency: Currency = Field(description="The order's own currency.")


# Results -----------------------------------------------------------------------------------


class OrderLine(_Strict):
    """One order of a concise list; ``placed`` is a day, YYYY-MM-DD."""

    id: str
    status: Status
    customer: str
    total: str
    currency: Currency
    placed: str


class OrderItem(_Strict):
    """One item of an order."""

    name: str
    quantity: int
    unit_price: str


class WholeOrder(_Strict):
    """An order's record; ``placed`` and ``updated`` are times in UTC."""

    id: str
    status: Status
    revision: int
    customer: str
    email: str
    items: list[OrderItem]
    total: str
    refunded: str
    refundable: str
    currency: Currency
    placed: str
    updated: str


class OrderPage(_Strict):
    """What ``list_orders`` returns; ``matched`` counts all pages."""

    orders: list[OrderLine | WholeOrder]
    matched: int
    page: int
    pages: int
    note: str


class Cancelled(_Strict):
    """What ``cancel_order`` returns."""

    done: str
    transaction: str
    order_id: str
    status: Status
    revision: int
    refundable: str
    currency: Currency


class Refunded(_Strict):
    """What ``refund_order`` returns; ``refunded`` is in all, ``refundable`` what is left."""

    done: str
    transaction: str
    order_id: str
    amount: str
    currency: Currency
    refunded: str
    refundable: str
    revision: int


# Contracts ---------------------------------------------------------------------------------


def _conflict_key(args: Args) -> str:
    return f"order:{_tidy_id(args['order_id'])}"


def _reading(args: Args) -> Call:
    return Call("get_order", {"order_id": _tidy_id(args["order_id"])})


def _was_read(args: Args, evidence: Sequence[Evidence]) -> Unmet | None:
    """The order's record was seen in this session, as it is after the session's own changes.

    Where the call names a revision, it is the one that was seen last. What another tool returned
    in the same shape may be from anywhere.
    """
    order_id = _tidy_id(args["order_id"])
    seen = [
        record
        for one in evidence
        if one.tool in TOOLS
        for record in _records(one.result)
        if _is_of(record, order_id)
    ]
    if not seen:
        return Unmet(f"Order {order_id} was never read in this session.", _reading(args))
    expected, last = args.get("expected_revision"), seen[-1]["revision"]
    if expected is not None and expected != last:
        return Unmet(
            f"expected_revision {expected} is not what was read: order {order_id} was last seen "
            f"at revision {last}.",
            _reading(args),
        )
    return None


def _records(result: Any) -> list[Any]:
    """The orders that a result of the desk shows."""
    if not isinstance(result, dict):
        return []
    listed = result.get("orders")
    return listed if isinstance(listed, list) else [result]


def _is_of(record: Any, order_id: Any) -> bool:
    if not isinstance(record, dict) or type(record.get("revision")) is not int:
        return False
    return order_id in (record.get("id"), record.get("order_id"))


def _refund_effects(args: Args) -> Effects:
    return WRITE | {f"spend:refund-{args['currency'].lower()}"}


# The tools ---------------------------------------------------------------------------------


class _OrderTools:
    """The functions behind the tools. Their docstrings are what the model reads."""

    def __init__(self, desk: OrderDesk) -> None:
        self._desk = desk

    def list_orders(
        self,
        status: Status | None = None,
        customer: str | None = None,
        placed_from: str | None = None,
        placed_to: str | None = None,
        sort: Sort = "placed_newest",
        page: int = 1,
        page_size: int = 20,
        response_format: Literal["concise", "detailed"] = "concise",
    ) -> str:
        """List orders by status, customer or day, sorted, a page at a time. Changes nothing.

        Use it to find orders whose ids you do not know, or to count them: "matched" counts all
        pages. For one known id use get_order. Returns JSON: orders, matched, page, pages and a
        note that says whether there is more. Amounts are decimal strings with their currency,
        times are UTC.
        """
        if placed_from and placed_to and placed_from > placed_to:
            raise ToolFailure(
                f"placed_from {placed_from} is after placed_to {placed_to}, so nothing can match. "
                "Swap them."
            )
        detailed = response_format == "detailed"
        with _desk_errors():
            found = self._desk.list(
                status=status,
                customer=customer,
                placed_from=placed_from,
                placed_to=placed_to,
                sort=sort,
                page=page,
                page_size=page_size,
                with_items=detailed,
            )
        show = _detailed if detailed else _concise
        return OrderPage(
            orders=[show(order) for order in found.orders],
            matched=found.matched,
            page=found.page,
            pages=found.pages,
            note=self._page_note(found, customer),
        ).model_dump_json()

    def get_order(self, order_id: str) -> str:
        """Look up one order by its id. Changes nothing.

        Use it whenever an order id is given, and always right before cancel_order or
        refund_order. Returns JSON: status, revision, customer, items, total, refunded,
        refundable (what a refund may pay back now), placed and updated. Amounts are decimal
        strings in "currency", times are UTC. To find orders without an id use list_orders.
        """
        with _desk_errors():
            return _detailed(self._desk.get(order_id)).model_dump_json()

    def cancel_order(self, order_id: str, expected_revision: int) -> str:
        """Cancel one pending order for good. It cannot be undone, and pays nothing back.

        Use it only when asked to cancel, after get_order showed "pending"; pass the revision
        that get_order returned. Not for shipped or delivered orders: the desk refuses those.
        To return money use refund_order afterwards. Returns JSON: done, transaction, order_id,
        status, revision, refundable, currency.
        """
        with _desk_errors():
            transaction = self._desk.cancel(order_id, expected_revision, _idempotency_key())
        return _cancel_result(transaction).model_dump_json()

    def refund_order(self, order_id: str, amount: str, currency: Currency) -> str:
        """Pay back a part or all of a delivered or cancelled order. It cannot be undone.

        Use it only when asked to refund, after get_order showed what is refundable and in which
        currency. Not for pending orders (cancel first) or shipped ones (wait for delivery).
        Returns JSON: done, transaction, order_id, amount, currency, refunded (in all),
        refundable (what is left), revision.
        """
        with _desk_errors():
            transaction = self._desk.refund(
                order_id, minor_units(amount), currency, _idempotency_key()
            )
        return _refund_result(transaction).model_dump_json()

    def verify_cancel(self, args: Args, info: CallInfo, result: Any) -> Finding:
        """Whether the order's record says that it is cancelled, by the desk's own account."""
        found = self.find_cancel(args, info)
        if found.happened is not True:
            return found
        order = self._desk.get(args["order_id"])
        record = {**found.record, "status": order.status, "revision": order.revision}
        if order.status != "cancelled":
            return Finding(None, f"Order {order.id} is {order.status}.", record)
        return replace(found, summary=f"Order {order.id} is cancelled.", record=record)

    def find_cancel(self, args: Args, info: CallInfo) -> Finding:
        """What the desk has recorded under the call's key."""
        return self._recorded(info, "cancel", args["order_id"], _cancel_result)

    def verify_refund(self, args: Args, info: CallInfo, result: Any) -> Finding:
        """Whether the desk has recorded this refund, of this amount."""
        found = self.find_refund(args, info)
        paid = found.record.get("request", {}).get("amount")
        if found.happened and paid != args["amount"]:
            return replace(found, happened=None, summary=f"The desk recorded {paid} paid back.")
        return found

    def find_refund(self, args: Args, info: CallInfo) -> Finding:
        """What the desk has recorded under the call's key."""
        return self._recorded(info, "refund", args["order_id"], _refund_result)

    def _recorded(
        self,
        info: CallInfo,
        operation: str,
        order_id: str,
        result: Callable[[Transaction], BaseModel],
    ) -> Finding:
        """Nothing under the key is certain: the desk records and changes in one transaction, and
        would recognise the key."""
        if info.idempotency_key is None:
            return Finding(None, "The call had no key that it could be found under.")
        transaction = self._desk.find_transaction(info.idempotency_key)
        if transaction is None:
            return Finding(False, f"The desk has no transaction under this key ({operation}).")
        record = {
            "transaction": transaction.id,
            "operation": transaction.operation,
            "request": transaction.request,
            "at": transaction.at,
        }
        if (transaction.operation, transaction.order_id) != (operation, order_id):
            return Finding(None, "The desk has another request under this key.", record)
        summary = f"The desk recorded it as {transaction.id} at {transaction.at}."
        shown = result(transaction).model_dump_json()
        return Finding(True, summary, record, transaction.id, shown)

    def preview_cancel(self, args: Args) -> Preview:
        """The order's record before and after cancelling; or why it would be refused."""
        revision = args["expected_revision"]
        return self._preview(
            args,
            lambda order: check_cancel(order, revision),
            lambda before, after: f"{before.status} → {after.status}",
        )

    def preview_refund(self, args: Args) -> Preview:
        """The order's record before and after the refund; or why it would be refused."""
        amount, currency = args["amount"], args["currency"]
        return self._preview(
            args,
            lambda order: check_refund(order, minor_units(amount), currency),
            lambda before, after: (
                f"{amount} {currency} back to {before.customer_name}, "
                f"refunded {money(before.refunded)} → {money(after.refunded)} "
                f"of {money(before.total)}"
            ),
        )

    def _preview(
        self,
        args: Args,
        change: Callable[[Order], Order],
        describe: Callable[[Order, Order], str],
    ) -> Preview:
        order_id = args["order_id"]
        try:
            before = self._desk.get(order_id)
        except DeskError as error:
            return Preview(f"order {order_id}: would fail. {error}")
        try:
            after = change(before)
        except DeskError as error:
            return Preview(f"order {order_id}: would fail. {error}", before=_card(before))
        texts = _card(before), _card(after)
        return Preview(f"order {order_id}: {describe(before, after)}", *texts, _diff(*texts))

    def _page_note(self, found: Page, customer: str | None) -> str:
        if found.matched == 0:
            hint = f" Check the spelling of {customer!r}." if customer else ""
            return f"No order matches. Try fewer filters.{hint}"
        if found.page > found.pages:
            return f"There is no page {found.page}; the last is page={found.pages}."
        if found.page < found.pages:
            return f"page {found.page} of {found.pages}; next: page={found.page + 1}"
        return f"page {found.page} of {found.pages}; nothing follows"


def _idempotency_key() -> str:
    """The harness's key; a call from elsewhere counts as a request of its own."""
    return current_call.get().idempotency_key or f"direct-{uuid.uuid4()}"


@contextmanager
def _desk_errors() -> Iterator[None]:
    """The desk's errors in the words of ``tools.contract``."""
    try:
        yield
    except DeskBusy as error:
        raise TransientFailure(f"{error} Try the same call again.") from error
    except DeskError as error:
        raise ToolFailure(str(error)) from error
    except CommitUnknown as error:
        raise OutcomeUnknown(str(error)) from error


# Rendering ---------------------------------------------------------------------------------


def _concise(order: Order) -> OrderLine:
    return OrderLine(
        id=order.id,
        status=order.status,
        customer=order.customer_name,
        total=money(order.total),
        currency=order.currency,
        placed=order.placed_at[:10],
    )


def _detailed(order: Order) -> WholeOrder:
    return WholeOrder(
        id=order.id,
        status=order.status,
        revision=order.revision,
        customer=order.customer_name,
        email=order.customer_email,
        items=[
            OrderItem(name=i.name, quantity=i.quantity, unit_price=money(i.unit_price))
            for i in order.items
        ],
        total=money(order.total),
        refunded=money(order.refunded),
        refundable=money(order.refundable),
        currency=order.currency,
        placed=order.placed_at,
        updated=order.updated_at,
    )


def _cancel_result(transaction: Transaction) -> Cancelled:
    result = transaction.result
    return Cancelled(
        done=f"order {transaction.order_id} cancelled",
        transaction=transaction.id,
        order_id=transaction.order_id,
        status=result["status"],
        revision=result["revision"],
        refundable=result["refundable"],
        currency=result["currency"],
    )


def _refund_result(transaction: Transaction) -> Refunded:
    result = transaction.result
    return Refunded(
        done=f"{result['amount']} {result['currency']} of order {transaction.order_id} refunded",
        transaction=transaction.id,
        order_id=transaction.order_id,
        amount=result["amount"],
        currency=result["currency"],
        refunded=result["refunded"],
        refundable=result["refundable"],
        revision=result["revision"],
    )


def _card(order: Order) -> str:
    """The record as a person reads it, a field a line."""
    items = ", ".join(f"{item.quantity} × {item.name}" for item in order.items)
    return (
        f"order: {order.id}\n"
        f"status: {order.status}\n"
        f"customer: {order.customer_name} <{order.customer_email}>\n"
        f"items: {items}\n"
        f"total: {money(order.total)} {order.currency}\n"
        f"refunded: {money(order.refunded)} {order.currency}\n"
        f"refundable: {money(order.refundable)} {order.currency}\n"
        f"placed: {order.placed_at}\n"
        f"revision: {order.revision}\n"
    )


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "before", "after", n=99
    )
    return "".join(lines)
