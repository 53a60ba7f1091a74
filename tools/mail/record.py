"""What the mail tools would change, what the outbox says of it, and how it is taken back.

All functions take arguments that fit the schema, and any result.
"""

from __future__ import annotations

from collections.abc import Sequence

from tools.contract import Args, Call, CallInfo, Committed, Evidence, Finding, Preview, Unmet
from tools.mail.posting import PostOffice
from tools.mail.results import changed, head, in_words
from tools.service_tools import as_object, finding
from tools.worlds.mailbox import Email, check_withdraw
from tools.worlds.mime import Letter
from tools.worlds.service import ServiceError


def answered_was_read(args: Args, evidence: Sequence[Evidence]) -> Unmet | None:
    """The e-mail that is answered was read in this session."""
    wanted = args.get("reply_to_id")
    if wanted is None or any(
        one.tool == "read_email" and as_object(one.result).get("id") == wanted for one in evidence
    ):
        return None
    read = Call("read_email", {"id": wanted})
    return Unmet(f"E-mail {wanted} was not read in this session.", read)


class MailRecord:
    """The record of one mailbox."""

    def __init__(self, office: PostOffice) -> None:
        self._office, self._mailbox = office, office.mailbox

    # Sending -------------------------------------------------------------------------------

    def preview(self, args: Args) -> Preview:
        """The letter as it would be sent; or why it would be refused."""
        letter = self._office.letter(args)
        try:
            answered = self._mailbox.email(letter.reply_to_id) if letter.reply_to_id else None
        except ServiceError as error:
            return Preview(f"e-mail: would fail. {error}")
        smtp = self._office.smtp
        fate = (
            f"is handed over to {smtp.server} at once, and cannot be called back"
            if smtp
            else "stays in the outbox, since no mail server is set; nobody gets it"
        )
        summary = f"e-mail to {', '.join(letter.recipients)}; it {fate}"
        return Preview(summary, after=_as_text(letter, answered))

    def verify(self, args: Args, info: CallInfo, result: object) -> Finding:
        """Whether the outbox has this letter, under this call's key, as sent or queued."""
        found = self.find(args, info)
        return found if found.happened else Finding(None, found.summary, found.record)

    def find(self, args: Args, info: CallInfo) -> Finding:
        """What became of the letter, by the call's key.

        An attempt whose last byte has not left is given up, so that it is certain.
        """
        return finding(lambda: self._find(self._office.letter(args), info))

    def _find(self, letter: Letter, info: CallInfo) -> Finding:
        if info.idempotency_key is None:
            return Finding(None, "The call had no key that the outbox could be asked about.")
        email = self._mailbox.find(info.idempotency_key)
        if email is None:
            return Finding(False, "The outbox has nothing under this call's key.")
        if email.letter != letter:
            return Finding(None, f"Under this key the outbox has another letter, {email.id}.")
        if email.status == "preparing" and self._mailbox.give_up(email.id, email.attempt):
            return Finding(False, f"{email.id} was being prepared, and is given up: not sent.")
        return _judged(self._mailbox.find(info.idempotency_key) or email)

    def undo(self, committed: Committed) -> Call | None:
        """Withdraw it, as long as it is in the outbox.

        Raises:
            ServiceError: The result names no e-mail, or the record cannot be read.
        """
        email_id = as_object(committed.result).get("id")
        if not isinstance(email_id, str):
            raise ServiceError("The result names no e-mail.")
        if self._mailbox.email(email_id).status != "queued":
            return None
        return Call("withdraw_email", {"id": email_id})

    # Withdrawing ---------------------------------------------------------------------------

    def preview_withdraw(self, args: Args) -> Preview:
        """The letter that would leave the outbox; or why it would be refused."""
        try:
            email = self._mailbox.email(args["id"])
            check_withdraw(email)
        except ServiceError as error:
            return Preview(f"withdraw {args['id']}: would fail. {error}")
        to = ", ".join((*email.to, *email.cc))
        summary = f"e-mail {email.id} to {to} is taken out of the outbox and never sent"
        return Preview(summary, before=_as_text(email.letter, None))

    def find_withdraw(self, args: Args, info: CallInfo, result: object = None) -> Finding:
        """Whether it was withdrawn under the call's key."""
        return finding(lambda: self._find_withdraw(args["id"], info.idempotency_key))

    def _find_withdraw(self, email_id: str, key: str | None) -> Finding:
        if key is None:
            return Finding(None, "The call had no key that the outbox could be asked about.")
        email = self._mailbox.withdrawn(key)
        if email is None or email.id != email_id:
            return Finding(False, f"{email_id} was not withdrawn under this call's key.")
        return _found(True, email)


def _judged(email: Email) -> Finding:
    match email.status:
        case "sent" | "queued" | "withdrawn":  # what was withdrawn had been put there
            return _found(True, email)
        case "refused":
            return _found(False, email)
        case _:
            found = _found(None, email)
            note = (
                f"{found.summary.rstrip('.')}. Ask a recipient, or whoever runs the mail server, "
                f"about Message-ID {email.message_id}."
            )
            return Finding(None, note, found.record)


def _found(happened: bool | None, email: Email) -> Finding:
    record = {**head(email).model_dump(), "message_id": email.message_id, "server": email.said}
    text = in_words(email)
    summary = f"{text[0].upper()}{text[1:].rstrip('.')}."
    if not happened:
        return Finding(happened, summary, record)
    return Finding(True, summary, record, email.id, changed(email).model_dump_json())


def _as_text(letter: Letter, answered: Email | None) -> str:
    """The letter as its recipients would read it, its head first."""
    fields = {"From": letter.sender, "To": ", ".join(letter.to), "Cc": ", ".join(letter.cc)}
    if answered is not None:
        fields["In reply to"] = f"{answered.id}, {answered.subject!r} from {answered.sender}"
    fields["Subject"] = letter.subject
    heads = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    return f"{heads}\n{letter.body}"
