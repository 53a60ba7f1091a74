"""A letter as it travels: headers and text of a message (RFC 5322, MIME), always the same bytes."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime

_POLICY = SMTP.clone(cte_type="7bit")  # what every server takes, without an extension
_ONE_LINE = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Categories of characters that end a line, control a terminal, or are none."""


@dataclass(frozen=True)
class Letter:
    """What is to be sent. Addresses are plain (``addresses``), the subject is one line.

    Args:
        reply_to_id: The mailbox's id of the e-mail that it answers.
    """

    sender: str
    to: tuple[str, ...]
    cc: tuple[str, ...]
    subject: str
    body: str
    reply_to_id: str | None = None

    @property
    def recipients(self) -> tuple[str, ...]:
        return (*self.to, *self.cc)


def one_line(text: str) -> str:
    """The text, if it can be a header.

    Raises:
        ValueError: It holds a line break, a control character or half of one.
    """
    for place, char in enumerate(text):
        if unicodedata.category(char) in _ONE_LINE:
            raise ValueError(
                f"one line without line breaks and control characters; character {place + 1} is "
                f"U+{ord(char):04X}"
            )
    return text


def plain_text(text: str) -> str:
    """The text with ``\\n`` between its lines, if it can be a body.

    Raises:
        ValueError: It holds a control character other than tab and line break.
    """
    text = text.replace("\r\n", "\n")
    for place, char in enumerate(text):
        if char not in "\n\t" and unicodedata.category(char) in ("Cc", "Cs"):
            raise ValueError(
                f"text without control characters; character {place + 1} is U+{ord(char):04X}"
            )
    return text


def message_id(key: str, sender: str) -> str:
    """The Message-ID of the request with this idempotency key: the same for each attempt."""
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"<{digest}.sayso@{sender.rpartition('@')[2]}>"


def as_bytes(letter: Letter, message_id: str, at: datetime, answers: tuple[str, ...] = ()) -> bytes:
    """The message with CRLF between its lines, 7 bits a byte.

    Args:
        answers: Message-IDs of the e-mail that it answers and of those before it, oldest first.
    """
    message = EmailMessage(policy=_POLICY)
    message["From"] = letter.sender
    message["To"] = ", ".join(letter.to)
    if letter.cc:
        message["Cc"] = ", ".join(letter.cc)
    message["Subject"] = letter.subject
    message["Date"] = format_datetime(at)
    message["Message-ID"] = message_id
    if answers:
        message["In-Reply-To"] = answers[-1]
        message["References"] = " ".join(answers)
    message.set_content(letter.body, charset="utf-8")
    return message.as_bytes()
