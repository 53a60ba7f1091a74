"""What the tools of the bank return, and records as people read them."""

from __future__ import annotations

from tools.service_tools import Strict
from tools.worlds.amounts import Currency, money
from tools.worlds.bank import Account, Transfer, TransferStatus


class OwnAccount(Strict):
    """An account of the user's; ``sent_today`` counts against ``daily_limit`` (days in UTC)."""

    account_id: str
    name: str
    holder: str
    balance: str
    currency: Currency
    transfer_limit: str
    daily_limit: str
    sent_today: str
    revision: int


class AccountList(Strict):
    """What ``list_accounts`` returns."""

    accounts: list[OwnAccount]


class TransferRecord(Strict):
    """The bank's record of a transfer.

    ``recipient`` holds the destination; ``ends`` is when it was settled or failed, or, of a
    pending one, when that will be known (UTC).
    """

    transfer_id: str
    source_account: str
    destination_account: str
    recipient: str
    amount: str
    currency: Currency
    status: TransferStatus
    client_transaction_id: str
    requested: str
    ends: str
    reason: str


class TransferPage(Strict):
    """What ``list_transfers`` returns, newest first; ``matched`` counts all pages."""

    transfers: list[TransferRecord]
    matched: int
    page: int
    pages: int


class Transferred(TransferRecord):
    """What ``transfer_funds`` returns; ``transaction`` is the transfer's id."""

    done: str
    transaction: str


# Rendering ---------------------------------------------------------------------------------


def own_account(account: Account) -> OwnAccount:
    return OwnAccount(
        account_id=account.id,
        name=account.name,
        holder=account.holder,
        balance=money(account.balance),
        currency=account.currency,
        transfer_limit=money(account.transfer_limit),
        daily_limit=money(account.daily_limit),
        sent_today=money(account.sent_today),
        revision=account.revision,
    )


def transfer_record(transfer: Transfer) -> TransferRecord:
    return TransferRecord(
        transfer_id=transfer.id,
        source_account=transfer.source,
        destination_account=transfer.destination,
        recipient=transfer.recipient,
        amount=money(transfer.amount),
        currency=transfer.currency,
        status=transfer.status,
        client_transaction_id=transfer.client_transaction_id,
        requested=transfer.requested_at,
        ends=transfer.ends_at,
        reason=transfer.reason,
    )


def transferred(transfer: Transfer) -> Transferred:
    return Transferred(
        done=in_words(transfer),
        transaction=transfer.id,
        **transfer_record(transfer).model_dump(),
    )


def in_words(transfer: Transfer) -> str:
    """What became of a transfer, in a sentence without its end."""
    amount = f"{money(transfer.amount)} {transfer.currency}"
    to = f"{transfer.recipient} ({transfer.destination})"
    if transfer.status == "settled":
        return f"{amount} transferred to {to}"
    if transfer.status == "pending":
        return f"{amount} on the way to {to}; whether it arrives is known at {transfer.ends_at}"
    return f"transfer {transfer.id} of {amount} to {to} failed, the money is back"
