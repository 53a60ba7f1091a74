"""What the tools of the bank take."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from tools.contract import Args
from tools.service_tools import AmountText, Strict
from tools.worlds.amounts import Currency, minor_units
from tools.worlds.bank import Instruction


def _tidy_id(value: object) -> object:
    return "".join(value.split()).upper() if isinstance(value, str) else value


def _checked(account_id: str) -> str:
    """An account number whose two check digits are right (ISO 7064 MOD 97-10, as in an IBAN)."""
    digits = "".join(str(int(char, 36)) for char in account_id[4:] + account_id[:4])
    if int(digits) % 97 != 1:
        raise ValueError("the check digits are wrong: a character was mistyped or swapped")
    return account_id


AccountIdText = Annotated[
    str,
    Field(
        pattern=r"^[A-Z]{2}[0-9]{2}[A-Z0-9]{8,30}$",
        description="Account number, in the form of an IBAN.",
        examples=["XB79LARK00001001"],
    ),
    AfterValidator(_checked),
    BeforeValidator(_tidy_id),
]
ClientId = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{2,63}$",
        examples=["rent-2026-12"],
    ),
]


class Nothing(Strict):
    """No arguments."""


class AccountId(Strict):
    """Arguments of ``get_account``."""

    account_id: AccountIdText


class ListTransfers(Strict):
    """Arguments of ``list_transfers``."""

    account_id: AccountIdText
    client_transaction_id: ClientId | None = Field(
        None, description="Only the transfers with this id of the user's."
    )
    page: int = Field(1, ge=1, le=1_000, description="Page number, from 1.")


class TransferFunds(Strict):
    """Arguments of ``transfer_funds``."""

    source_account: Annotated[
        AccountIdText, Field(description="The user's account that the money leaves.")
    ]
    destination_account: Annotated[
        AccountIdText,
        Field(description="The account it goes to, as the user or the bank gave it."),
    ]
    amount: Annotated[
        AmountText,
        Field(description="How much, in units of the currency, as a decimal string with a point."),
    ]
    currency: Currency = Field(description="The currency of both accounts.")
    client_transaction_id: Annotated[
        ClientId,
        Field(
            description="A name for this one transfer, such as what it is for and when. The bank "
            "makes one transfer a name: use a new one for each, and the same one to ask again."
        ),
    ]


def instruction(args: Args) -> Instruction:
    """What the arguments of ``transfer_funds`` ask the bank for."""
    return Instruction(
        source=args["source_account"],
        destination=args["destination_account"],
        amount=minor_units(args["amount"]),
        currency=args["currency"],
        client_transaction_id=args["client_transaction_id"],
    )
