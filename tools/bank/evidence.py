"""What must have been seen in a session before a transfer is proposed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.contract import Args, Call, Evidence, Unmet
from tools.service_tools import as_object
from tools.worlds.amounts import minor_units


def balance_was_seen(args: Args, evidence: Sequence[Evidence]) -> Unmet | None:
    """The source account was read since this session last moved its money, and has the amount.

    The arguments fit the schema; the evidence may be anything.
    """
    source, amount, currency = args["source_account"], args["amount"], args["currency"]
    read = Call("get_account", {"account_id": source})
    account = _account_seen(source, evidence)
    if account is None:
        return Unmet(f"Account {source} was not read since its money last moved.", read)
    balance, seen_currency = account.get("balance"), account.get("currency")
    if seen_currency != currency:
        return Unmet(f"Account {source} is in {seen_currency}, not in {currency}.")
    if _minor(balance) < minor_units(amount):
        return Unmet(
            f"Account {source} had {balance} {currency} as far as was seen; {amount} is more.",
            read,
        )
    return None


def _account_seen(account_id: str, evidence: Sequence[Evidence]) -> Mapping[str, Any] | None:
    """The account as a result showed it last; ``None`` when none did since money left it.

    Money that this session paid in, and that arrived, is there; what was before, is not known.
    """
    seen: Mapping[str, Any] | None = None
    for one in evidence:
        result = as_object(one.result)
        if one.tool == "get_account":
            shown = [result]
        elif one.tool == "list_accounts" and isinstance(result.get("accounts"), list):
            shown = [account for account in result["accounts"] if isinstance(account, Mapping)]
        elif one.tool == "transfer_funds":
            shown, seen = [_paid_in(result)], None if account_id in _moved(one) else seen
        else:
            continue
        seen = next((account for account in shown if account.get("account_id") == account_id), seen)
    return seen


def _moved(transfer: Evidence) -> tuple[object, object]:
    """The two accounts that a transfer changed."""
    return transfer.args.get("source_account"), transfer.args.get("destination_account")


def _paid_in(transfer: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the result of a transfer shows of the destination, where the money has arrived."""
    if transfer.get("status") != "settled":
        return {}
    return {
        "account_id": transfer.get("destination_account"),
        "balance": transfer.get("amount"),
        "currency": transfer.get("currency"),
    }


def _minor(balance: object) -> int:
    """A balance as it was shown, in minor units; what is none covers nothing."""
    try:
        return minor_units(str(balance))
    except ValueError:
        return -1
