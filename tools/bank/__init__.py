"""A bank for a model: three reads, and one write, which spends.

The tools work over any ``Bank``, in this process or behind HTTP. A schema can say that an amount
is positive and an account number well formed; whose account it is, whether there is enough, and
whether the money arrived is the bank's word, and that the person wants it, theirs.
"""

from __future__ import annotations

from functools import partial

from langchain_core.tools import BaseTool

from tools.bank.arguments import AccountId, ListTransfers, Nothing, TransferFunds
from tools.bank.calls import BankCalls
from tools.bank.evidence import balance_was_seen
from tools.bank.record import BankRecord
from tools.bank.results import AccountList, OwnAccount, TransferPage, Transferred
from tools.contract import Args, Call, Contract, Effects, Undo, make_tool
from tools.worlds.bank import Bank

READ: Effects = frozenset({"read:bank"})
WRITE: Effects = frozenset({"write:bank"})


def bank_tools(bank: Bank) -> list[BaseTool]:
    """``list_accounts``, ``get_account``, ``list_transfers`` and ``transfer_funds``."""
    calls, record = BankCalls(bank), BankRecord(bank)
    contract = partial(
        Contract, open_world=False, private=True, conflict_key=_conflict_key, version="1"
    )
    reads = contract(effects=READ)
    return [
        make_tool(calls.list_accounts, args=Nothing, result=AccountList, contract=reads),
        make_tool(calls.get_account, args=AccountId, result=OwnAccount, contract=reads),
        make_tool(calls.list_transfers, args=ListTransfers, result=TransferPage, contract=reads),
        make_tool(
            calls.transfer_funds,
            args=TransferFunds,
            result=Transferred,
            contract=contract(
                effects=_transfer_effects,
                effect_families=WRITE | {"spend:???"},
                idempotency="key" if bank.honours_keys else "none",
                precondition=balance_was_seen,
                postcondition=record.verify,
                reconcile=record.find,
                check=_check,
                preview=record.preview,
                undo=Undo(
                    "Between your own accounts it can be transferred back; from anybody else only "
                    "they can send it back.",
                    record.undo,
                ),
            ),
        ),
    ]


def _conflict_key(args: Args) -> str:
    """One for all: a transfer changes two accounts, and a key names one."""
    return "bank"


def _transfer_effects(args: Args) -> Effects:
    return WRITE | {f"spend:{args['currency'].lower()}"}


def _check(args: Args) -> Call:
    return Call(
        "list_transfers",
        {
            "account_id": args["source_account"],
            "client_transaction_id": args["client_transaction_id"],
        },
    )
