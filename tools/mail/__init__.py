"""A mailbox for a model: two reads of what strangers wrote, and a write that tells somebody.

An e-mail goes to the person that its address names and to nobody else, so each address is an
effect of its own: ``disclose:email.ann@example.org``. It can be granted or denied by a pattern,
``disclose:email.*@example.org``.

``send_email`` puts the letter into the outbox. Without a server it stays there, and can be
withdrawn; with one it is handed over by SMTP, which knows no idempotency keys: what became of it
is in the outbox's record, or a person has to find out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from tools.contract import Args, Call, Contract, Effects, PlainTool, Scope, Undo
from tools.mail.arguments import ListEmails, ReadEmail, SendEmail, WithdrawEmail
from tools.mail.calls import MailCalls
from tools.mail.posting import PostOffice
from tools.mail.record import MailRecord, answered_was_read
from tools.mail.results import EmailPage, EmailText, SentEmail
from tools.worlds.addresses import plain_address, same_mailbox
from tools.worlds.mailbox import LocalMailbox
from tools.worlds.smtp import Smtp

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

READ: Effects = frozenset({"read:mail"})
WRITE: Effects = frozenset({"write:mail"})
DISCLOSE = "disclose:email"
ANYBODY = f"{DISCLOSE}.*"
"""The effect of a call whose recipients cannot be told: it takes who may write to anybody."""


def plain_mail_tools(
    mailbox: LocalMailbox, sender: str, smtp: Smtp | None = None
) -> list[PlainTool]:
    """``list_emails``, ``read_email``, ``send_email`` and ``withdraw_email``.

    Args:
        sender: The plain address that e-mails come from.
        smtp: The server that sends them; ``None``: they stay in the outbox.
    """
    office = PostOffice(mailbox, sender, smtp)
    calls, record = MailCalls(office), MailRecord(office)
    reads = Contract(effects=READ, open_world=True, private=True, version="1")
    writes = partial(
        Contract,
        open_world=False,
        private=True,
        check=_check,
        conflict_key=_conflict_key,
        version="1",
    )
    return [
        PlainTool(calls.list_emails, args=ListEmails, result=EmailPage, contract=reads),
        PlainTool(calls.read_email, args=ReadEmail, result=EmailText, contract=reads),
        PlainTool(
            calls.send_email,
            args=SendEmail,
            result=SentEmail,
            contract=writes(
                effects=_send_effects,
                effect_families=WRITE | {DISCLOSE, ANYBODY},
                idempotency="none" if smtp else "key",
                precondition=answered_was_read,
                preview=record.preview,
                postcondition=record.verify,
                reconcile=record.find,
                always=_same_recipients,
                undo=None
                if smtp
                else Undo("As long as it is in the outbox it can be withdrawn.", record.undo),
            ),
        ),
        PlainTool(
            calls.withdraw_email,
            args=WithdrawEmail,
            result=SentEmail,
            contract=writes(
                effects=WRITE,
                idempotency="key",
                preview=record.preview_withdraw,
                postcondition=record.find_withdraw,
                reconcile=record.find_withdraw,
                undo=Undo("It can be sent again with send_email."),
            ),
        ),
    ]


def mail_tools(mailbox: LocalMailbox, sender: str, smtp: Smtp | None = None) -> list[BaseTool]:
    """The plain tools as an agent has them."""
    from tools.langchain_tools import langchain_tool

    return [langchain_tool(tool) for tool in plain_mail_tools(mailbox, sender, smtp)]


def _send_effects(args: Args) -> Effects:
    """Whom it tells; of arguments that do not fit, anybody."""
    try:
        addresses = [plain_address(address) for address in (*args["to"], *args.get("cc", ()))]
    except (KeyError, TypeError, AttributeError, ValueError):
        addresses = []
    told = {f"{DISCLOSE}.{same_mailbox(address)}" for address in addresses} or {ANYBODY}
    return WRITE | {DISCLOSE} | told


def _same_recipients(args: Args) -> Scope:
    names: dict[str, Any] = {"to": args["to"], "cc": args.get("cc", [])}
    shown = ", ".join((*names["to"], *names["cc"]))
    return Scope(
        f"any e-mail to exactly {shown}",
        {name: {"equals": list(addresses)} for name, addresses in names.items()},
    )


def _check(args: Args) -> Call:
    return Call("list_emails", {"folder": "outbox"})


def _conflict_key(args: Args) -> str:
    """One for all: they share the outbox."""
    return "mail outbox"
