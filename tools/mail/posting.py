"""From a letter to the record of what became of it: the outbox first, then the server, if any."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from tools.contract import Args
from tools.worlds.mailbox import Email, LocalMailbox, Status
from tools.worlds.mime import Letter, as_bytes
from tools.worlds.service import Refused, ServiceError, Unconfirmed
from tools.worlds.smtp import Smtp


class PostOffice:
    """Where the letters of one mailbox go.

    Args:
        sender: The plain address that they come from.
        smtp: The server that takes them; ``None``: they stay in the outbox.
    """

    def __init__(self, mailbox: LocalMailbox, sender: str, smtp: Smtp | None) -> None:
        self.mailbox, self.sender, self.smtp = mailbox, sender, smtp

    def letter(self, args: Args) -> Letter:
        """What the arguments of ``send_email`` ask for."""
        return Letter(
            sender=self.sender,
            to=tuple(args["to"]),
            cc=tuple(args.get("cc", ())),
            subject=args["subject"],
            body=args["body"],
            reply_to_id=args.get("reply_to_id"),
        )

    def send(self, letter: Letter, key: str, attempt: int) -> Email:
        """Send a letter, or leave it in the outbox; what was sent under this key is not again.

        Raises:
            ServiceError: Nothing was sent.
            Unconfirmed: It may have been.
        """
        if self.smtp is None:
            return _queued(self.mailbox.queue(letter, key))
        email = self.mailbox.prepare(letter, key, attempt)
        if email.status == "preparing":
            self._hand_over(self.smtp, letter, email)
            return self.mailbox.email(email.id)
        return email

    def _hand_over(self, smtp: Smtp, letter: Letter, email: Email) -> None:
        answers = self.mailbox.thread(email.answers)
        at = datetime.fromisoformat(email.at)
        message = as_bytes(letter, email.message_id, at, answers)
        try:
            said = smtp.hand_over(
                letter.sender, letter.recipients, message, lambda: self._begin(email)
            )
        except ServiceError as error:
            self._note(email, "refused", error)
            raise
        except Unconfirmed as error:
            self._note(email, "unknown", error)
            raise
        try:
            self.mailbox.settle(email.id, email.attempt, "sent", said)
        except (ServiceError, Unconfirmed) as error:
            raise Unconfirmed(
                f"{smtp.server} took {email.id} ({said}), which could not be recorded: {error}"
            ) from error

    def _begin(self, email: Email) -> None:
        try:
            self.mailbox.begin(email.id, email.attempt)
        except Unconfirmed as error:  # of the record; the last byte has not left
            raise Refused(f"{email.id} was not sent: {error}") from error

    def _note(self, email: Email, status: Status, error: Exception) -> None:
        """Record what the error says; if that fails, the caller is told nevertheless."""
        with suppress(ServiceError, Unconfirmed):
            self.mailbox.settle(email.id, email.attempt, status, str(error))


def _queued(email: Email) -> Email:
    """The row, if it says that the letter is in the outbox, or was sent while there was a server.

    Raises:
        Refused, Unconfirmed: It says something else.
    """
    if email.status in ("queued", "sent"):
        return email
    if email.status in ("refused", "withdrawn", "preparing"):
        raise Refused(f"{email.id} is {email.status}; nothing was sent, nor will be.")
    raise Unconfirmed(f"{email.id} was being sent: it may have been sent.")
