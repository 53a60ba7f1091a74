"""What the mail tools return, and e-mails as people read them."""

from __future__ import annotations

from tools.service_tools import Strict
from tools.worlds.mailbox import Email, Status


class EmailHead(Strict):
    """An e-mail without its text; ``in_reply_to`` is the id of the one that it answers."""

    id: str
    folder: str
    date: str
    sender: str
    to: list[str]
    cc: list[str]
    subject: str
    in_reply_to: str | None
    status: Status


class EmailPage(Strict):
    """What ``list_emails`` returns, newest first; ``matched`` counts all that fit."""

    emails: list[EmailHead]
    matched: int
    offset: int


class EmailText(EmailHead):
    """What ``read_email`` returns: the text from ``offset`` on, as far as ``next_offset``."""

    body: str
    offset: int
    characters: int
    next_offset: int | None
    note: str


class SentEmail(Strict):
    """What ``send_email`` and ``withdraw_email`` return; ``transaction`` is the e-mail's id."""

    done: str
    transaction: str
    id: str
    status: Status
    to: list[str]
    cc: list[str]
    subject: str


# Rendering ---------------------------------------------------------------------------------


def head(email: Email) -> EmailHead:
    return EmailHead(
        id=email.id,
        folder=email.folder,
        date=email.at,
        sender=email.sender,
        to=list(email.to),
        cc=list(email.cc),
        subject=email.subject,
        in_reply_to=email.answers,
        status=email.status,
    )


def changed(email: Email) -> SentEmail:
    return SentEmail(
        done=in_words(email),
        transaction=email.id,
        id=email.id,
        status=email.status,
        to=list(email.to),
        cc=list(email.cc),
        subject=email.subject,
    )


def in_words(email: Email) -> str:
    """What became of an e-mail that was to be sent, in a sentence without its end."""
    name = f"e-mail {email.id} to {', '.join((*email.to, *email.cc))}"
    match email.status:
        case "queued":
            return f"{name} put into the outbox, where it stays: no server is set to send it"
        case "sent":
            return f"{name} sent: the mail server took it ({email.said})"
        case "refused":
            return f"{name} not sent. {email.said}"
        case "withdrawn":
            return f"{name} withdrawn from the outbox"
        case "preparing" | "sending":
            return f"{name} was being sent when that was interrupted"
        case _:
            return f"{name}: whether it was sent is unknown. {email.said}"
