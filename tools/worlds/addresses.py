"""E-mail addresses: one plain address a text, in one spelling, so that it can be compared.

What a mail program would take for more, or for another than it seems, is refused: names beside the
address (``"ann@a.example" <eve@b.example>``), lists, groups, comments, quotes and literals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from email_validator import EmailNotValidError, validate_email

MOST_SHOWN = 80


def plain_address(text: str) -> str:
    """The address in its one spelling: the host in lower case and in ASCII (IDNA, RFC 5891).

    The part before the @ keeps its case, which its host may tell apart. No name is looked up.

    Raises:
        ValueError: It is not exactly one plain address.
    """
    try:
        found = validate_email(
            text,
            check_deliverability=False,
            allow_smtputf8=False,
            allow_quoted_local=False,
            allow_domain_literal=False,
            allow_display_name=False,
            strict=True,
        )
    except EmailNotValidError as error:
        shown = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"
        raise ValueError(
            f"{shown!r} is not one plain address such as ann@example.org: {error} Give each "
            "recipient as a text of its own, without a name."
        ) from None
    assert found.ascii_email is not None  # what has no such form was refused
    return found.ascii_email


def same_mailbox(address: str) -> str:
    """The same text for addresses that reach the same person: hosts of today ignore the case."""
    return address.lower()


def distinct(addresses: Sequence[str], besides: Iterable[str] = ()) -> list[str]:
    """Each person once, as first written, and nobody of ``besides``."""
    taken, found = set(map(same_mailbox, besides)), []
    for address in addresses:
        if same_mailbox(address) not in taken:
            taken.add(same_mailbox(address))
            found.append(address)
    return found
