"""The functions behind the tools of the bank. Their docstrings are what the model reads."""

from __future__ import annotations

from tools.bank.arguments import instruction
from tools.bank.results import (
    AccountList,
    TransferPage,
    in_words,
    own_account,
    transfer_record,
    transferred,
)
from tools.contract import ToolFailure
from tools.service_tools import idempotency_key, service_errors
from tools.worlds.amounts import Currency
from tools.worlds.bank import Bank


class BankCalls:
    """The calls over one bank."""

    def __init__(self, bank: Bank) -> None:
        self._bank = bank

    def list_accounts(self) -> str:
        """List the user's own accounts with their balances. Changes nothing.

        Use it to find the account that is meant by a name, such as Savings. Returns JSON:
        accounts (account_id, name, holder, balance, currency, limits, sent_today, revision).
        """
        with service_errors():
            accounts = self._bank.accounts()
        return AccountList(accounts=list(map(own_account, accounts))).model_dump_json()

    def get_account(self, account_id: str) -> str:
        """Look up one of the user's own accounts: balance, currency and limits. Changes nothing.

        Use it right before transfer_funds, and again after one. Returns JSON: account_id, name,
        holder, balance, currency, transfer_limit, daily_limit, sent_today, revision.
        """
        with service_errors():
            return own_account(self._bank.account(account_id)).model_dump_json()

    def list_transfers(
        self, account_id: str, client_transaction_id: str | None = None, page: int = 1
    ) -> str:
        """List transfers from and to one of the user's accounts, newest first. Changes nothing.

        Use it to see what became of a transfer, or to find a recipient's account number. Returns
        JSON: transfers (transfer_id, source_account, destination_account, recipient, amount,
        status, client_transaction_id, requested, ends, reason), matched, page, pages, 20 a page.
        """
        with service_errors():
            found = self._bank.transfers(account_id, client_transaction_id, page, 20)
        return TransferPage(
            transfers=list(map(transfer_record, found.transfers)),
            matched=found.matched,
            page=found.page,
            pages=found.pages,
        ).model_dump_json()

    def transfer_funds(
        self,
        source_account: str,
        destination_account: str,
        amount: str,
        currency: Currency,
        client_transaction_id: str,
    ) -> str:
        """Transfer money from one of the user's accounts to another account.

        Use it only when the user asked for this transfer, with the recipient and the amount they
        gave, after get_account showed the balance. Returns JSON: done, transaction, recipient,
        amount, status (settled; or pending, then it is not certain yet), ends. Money that went to
        somebody else cannot be called back.
        """
        wanted = instruction(
            {
                "source_account": source_account,
                "destination_account": destination_account,
                "amount": amount,
                "currency": currency,
                "client_transaction_id": client_transaction_id,
            }
        )
        with service_errors():
            made = self._bank.transfer(wanted, idempotency_key())
        if made.status == "failed":
            raise ToolFailure(f"{in_words(made).capitalize()}. {made.reason}")
        return transferred(made).model_dump_json()
