"""The bank over HTTP: the service, and ``Bank`` as a caller of it."""

from __future__ import annotations

from pydantic import TypeAdapter
from starlette.types import ASGIApp

from tools.worlds.bank import Account, Bank, Instruction, Payee, Transfer, Transfers
from tools.worlds.http_client import HttpService
from tools.worlds.http_service import Arguments, ByKey, Id, Operation, Page, PageSize, http_service


class _Nothing(Arguments):
    pass


class _AccountId(Arguments):
    account_id: Id


class _Transfers(Arguments):
    account_id: Id
    client_transaction_id: Id | None = None
    page: Page
    page_size: PageSize


class _Transfer(Arguments):
    wanted: Instruction


ACCOUNT = Operation("account", _AccountId, TypeAdapter(Account))
ACCOUNTS: Operation[tuple[Account, ...]] = Operation(
    "accounts", _Nothing, TypeAdapter(tuple[Account, ...])
)
PAYEE = Operation("payee", _AccountId, TypeAdapter(Payee))
TRANSFERS = Operation("transfers", _Transfers, TypeAdapter(Transfers))
FIND: Operation[Transfer | None] = Operation("find", ByKey, TypeAdapter(Transfer | None))
TRANSFER = Operation("transfer", _Transfer, TypeAdapter(Transfer), writes=True)


def bank_service(bank: Bank, token: str) -> ASGIApp:
    """The bank over HTTP, for a caller that knows ``token``: its customer."""
    operations = (ACCOUNT, ACCOUNTS, PAYEE, TRANSFERS, FIND, TRANSFER)
    return http_service(bank, operations, token, honours_keys=bank.honours_keys)


class HttpBank:
    """A bank behind HTTP.

    Args:
        url: Where it is.
        token: The customer's bearer token.
        honours_keys: Whether it counts a request once a key, and once a client transaction id.
        timeout: Seconds for a connection, and as many for the answer.
    """

    remote = True

    def __init__(
        self, url: str, token: str, *, honours_keys: bool = True, timeout: float = 10.0
    ) -> None:
        self.honours_keys = honours_keys
        self._http = HttpService(
            url, token, name="bank", honours_keys=honours_keys, timeout=timeout
        )

    def account(self, account_id: str) -> Account:
        return self._http.read(ACCOUNT, account_id=account_id)

    def accounts(self) -> tuple[Account, ...]:
        return self._http.read(ACCOUNTS)

    def payee(self, account_id: str) -> Payee:
        return self._http.read(PAYEE, account_id=account_id)

    def transfers(
        self,
        account_id: str,
        client_transaction_id: str | None = None,
        page: int = 1,
        page_size: int = 20,
    ) -> Transfers:
        return self._http.read(
            TRANSFERS,
            account_id=account_id,
            client_transaction_id=client_transaction_id,
            page=page,
            page_size=page_size,
        )

    def find(self, key: str) -> Transfer | None:
        return self._http.read(FIND, key=key)

    def transfer(self, wanted: Instruction, key: str) -> Transfer:
        return self._http.write(TRANSFER, key, wanted=wanted)
