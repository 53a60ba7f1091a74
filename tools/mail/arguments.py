"""The arguments of the mail tools."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from tools.service_tools import Strict
from tools.worlds.addresses import distinct, plain_address
from tools.worlds.mailbox import Folder
from tools.worlds.mime import one_line, plain_text

MOST_RECIPIENTS = 20
"""To and cc together."""

LONGEST_SUBJECT, LONGEST_BODY = 200, 20_000
"""Characters."""

Address = Annotated[str, Field(min_length=3, max_length=254), AfterValidator(plain_address)]
EmailId = Annotated[str, Field(pattern=r"^M[0-9]{1,9}$", examples=["M105"])]


class ListEmails(Strict):
    """Arguments of ``list_emails``."""

    folder: Folder | None = Field(None, description="Only this folder; left out: all of them.")
    text: str = Field(
        "",
        max_length=200,
        description="Only e-mails in which each of these words occurs: in an address, the subject "
        "or the text.",
    )
    offset: int = Field(0, ge=0, le=1_000_000, description="E-mails to leave out, to read on.")
    count: int = Field(20, ge=1, le=50, description="How many e-mails at most.")


class ReadEmail(Strict):
    """Arguments of ``read_email``."""

    id: Annotated[EmailId, Field(description="Id of the e-mail, from list_emails.")]
    offset: int = Field(
        0, ge=0, le=10_000_000, description="Characters of the text to leave out, to read on."
    )


class SendEmail(Strict):
    """Arguments of ``send_email``; nobody is in it twice."""

    to: list[Address] = Field(
        min_length=1,
        max_length=MOST_RECIPIENTS,
        description="Recipients, each as one e-mail address without a name, copied from the user "
        "or from an e-mail.",
        examples=[["ann@example.org"]],
    )
    subject: Annotated[
        str,
        Field(min_length=1, max_length=LONGEST_SUBJECT, description="The subject, on one line."),
        AfterValidator(one_line),
    ]
    body: Annotated[
        str,
        Field(min_length=1, max_length=LONGEST_BODY, description="The whole text, as plain text."),
        AfterValidator(plain_text),
    ]
    cc: list[Address] = Field(
        [],
        max_length=MOST_RECIPIENTS,
        description="Who gets a copy, as for to; everybody can see them.",
    )
    reply_to_id: EmailId | None = Field(
        None, description="Id of the e-mail that this one answers, once it was read."
    )

    @model_validator(mode="after")
    def _nobody_twice(self) -> Self:
        to = distinct(self.to)
        cc = distinct(self.cc, besides=to)
        if len(to) + len(cc) > MOST_RECIPIENTS:
            raise ValueError(f"At most {MOST_RECIPIENTS} recipients, to and cc together.")
        self.to, self.cc = to, cc
        return self


class WithdrawEmail(Strict):
    """Arguments of ``withdraw_email``."""

    id: Annotated[EmailId, Field(description="Id of the e-mail in the outbox.")]
