"""What a transfer would change, what the bank's own record says of it, and how it is reversed.

All functions take arguments that fit the schema, and any result.
"""

from __future__ import annotations

from dataclasses import replace

from tools.bank.arguments import instruction
from tools.bank.results import in_words, transfer_record, transferred
from tools.contract import Args, Call, CallInfo, Committed, Finding, Preview
from tools.service_tools import as_object, finding, preview_change
from tools.worlds.amounts import money
from tools.worlds.bank import Account, Bank, Instruction, Payee, Transfer, check_transfer
from tools.worlds.service import ServiceError


class BankRecord:
    """The record of one bank."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def preview(self, args: Args) -> Preview:
        """Who gets what, and the balances before and after; or why it would be refused."""
        wanted = instruction(args)
        try:
            source = self._bank.account(wanted.source)
            payee = self._bank.payee(wanted.destination)
            if (made := self._made(wanted)) is not None:
                return Preview(f"transfer: would not move anything. {made}")
            check_transfer(source, payee, wanted)
            target = self._bank.account(payee.id) if payee.own else None
        except ServiceError as error:
            return Preview(f"transfer: would fail. {error}")
        summary = (
            f"{money(wanted.amount)} {wanted.currency} from {source.name} to {payee.holder} "
            f"({payee.id}), balance {money(source.balance)} → "
            f"{money(source.balance - wanted.amount)}"
        )
        before = _card(source, payee, target, wanted, 0)
        return preview_change(summary, before, _card(source, payee, target, wanted, wanted.amount))

    def _made(self, wanted: Instruction) -> str | None:
        """Which transfer the bank has already made under this id of the user's, if any."""
        if not self._bank.honours_keys:
            return None
        page = self._bank.transfers(wanted.source, wanted.client_transaction_id, 1, 1)
        return next(
            (
                f"Under {wanted.client_transaction_id} the bank has made {one.id} at "
                f"{one.requested_at} already: {in_words(one)}."
                for one in page.transfers
            ),
            None,
        )

    def verify(self, args: Args, info: CallInfo, result: object) -> Finding:
        """Whether the record has the transfer that the answer names: recipient, amount, settled."""
        found, named = self.find(args, info), as_object(result).get("transaction")
        if found.happened and found.transaction != named:
            text = f"The answer names {named}, the bank's record {found.transaction}."
            return replace(found, happened=None, summary=text)
        return found

    def find(self, args: Args, info: CallInfo) -> Finding:
        """What became of the transfer, by the call's key, else by its client transaction id."""
        return finding(lambda: self._find(instruction(args), info.idempotency_key))

    def _find(self, wanted: Instruction, key: str | None) -> Finding:
        by_key = self._bank.find(key) if key and self._bank.honours_keys else None
        if by_key is not None:
            return _judged([by_key], wanted)
        page = self._bank.transfers(wanted.source, wanted.client_transaction_id, 1, 50)
        if page.transfers:
            return _judged(page.transfers, wanted)
        text = f"The bank has no transfer {wanted.client_transaction_id} of this account"
        if self._bank.remote:
            return Finding(None, f"{text} so far; the request may still be on its way.")
        return Finding(False, f"{text}.")

    def undo(self, committed: Committed) -> Call | None:
        """The transfer back, between two of the user's own accounts.

        Raises:
            ServiceError: The record cannot be read, so nobody can tell whose account it is.
        """
        args, transfer_id = committed.args, as_object(committed.result).get("transaction")
        if (
            not isinstance(transfer_id, str)
            or not self._bank.payee(args["destination_account"]).own
        ):
            return None
        back = {
            "source_account": args["destination_account"],
            "destination_account": args["source_account"],
            "amount": args["amount"],
            "currency": args["currency"],
            "client_transaction_id": f"undo-{transfer_id}",
        }
        return Call("transfer_funds", back)


def _judged(found: list[Transfer] | tuple[Transfer, ...], wanted: Instruction) -> Finding:
    """What transfers with this key, or this id of the user's, say of the one that was wanted."""
    record = {"transfers": [transfer_record(transfer).model_dump() for transfer in found]}
    same = [transfer for transfer in found if transfer.instruction == wanted]
    if not same:
        other = in_words(found[0])
        return Finding(None, f"Under this id the bank has another transfer: {other}.", record)
    words = "; ".join(f"{one.id}: {in_words(one)}" for one in same)
    happened = {one.status for one in same}
    if "settled" in happened:
        settled = next(one for one in same if one.status == "settled")
        answer = transferred(settled).model_dump_json()
        return Finding(True, f"{words}.", record, settled.id, answer)
    return Finding(None if "pending" in happened else False, f"{words}.", record, same[0].id)


def _card(
    source: Account, payee: Payee, target: Account | None, wanted: Instruction, moved: int
) -> str:
    """The accounts as a person reads them, once ``moved`` has gone from one to the other."""
    fields = {
        "from": f"{source.name} ({source.id})",
        "balance there": f"{money(source.balance - moved)} {source.currency}",
        "to": f"{payee.holder} ({payee.id})",
        "arrives": "at once" if payee.instant else "after clearing; it may come back",
        "for": wanted.client_transaction_id,
    }
    if target is not None:
        fields["balance of the destination"] = f"{money(target.balance + moved)} {target.currency}"
    return "".join(f"{name}: {value}\n" for name, value in fields.items())
