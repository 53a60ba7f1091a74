"""A letter as bytes: what arrives is what was meant, and nothing in it ends the message early."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tools.mail.arguments import LONGEST_BODY, LONGEST_SUBJECT, SendEmail
from tools.worlds.mime import Letter, as_bytes, message_id, one_line, plain_text

AT = datetime(2026, 12, 1, 10, tzinfo=UTC)
LETTER = Letter("me@a.example", ("ann@b.example",), (), "Hello", "See you.\n")
CONTROLS = [chr(n) for n in (*range(9), 11, 12, 13, *range(14, 32), *range(0x7F, 0xA0))]
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=400)


def parsed(data: bytes) -> EmailMessage:
    return BytesParser(policy=default).parsebytes(data)  # type: ignore[arg-type,return-value]


def written(letter: Letter) -> bytes:
    return as_bytes(letter, message_id("k", letter.sender), AT)


def test_the_head_of_a_letter() -> None:
    letter = Letter(
        "me@a.example", ("ann@b.example", "bo@c.example"), ("cy@d.example",), "Hello", "Hi.\n"
    )
    data = as_bytes(letter, "<1@a.example>", AT, ("<first@b.example>", "<last@b.example>"))
    message = parsed(data)
    assert {name: str(value) for name, value in message.items()} == {
        "From": "me@a.example",
        "To": "ann@b.example, bo@c.example",
        "Cc": "cy@d.example",
        "Subject": "Hello",
        "Date": "Tue, 01 Dec 2026 10:00:00 +0000",
        "Message-ID": "<1@a.example>",
        "In-Reply-To": "<last@b.example>",
        "References": "<first@b.example> <last@b.example>",
        "Content-Type": 'text/plain; charset="utf-8"',
        "Content-Transfer-Encoding": "7bit",
        "MIME-Version": "1.0",
    }
    assert as_bytes(letter, "<1@a.example>", AT, ("<first@b.example>", "<last@b.example>")) == data


@given(ANY, ANY)
def test_what_is_written_is_what_is_read(subject: str, body: str) -> None:
    """Over everything that the arguments let through, line breaks of any kind included."""
    try:
        args = SendEmail(to=["ann@b.example"], subject=subject, body=body)
    except ValidationError:
        return
    data = written(Letter("me@a.example", ("ann@b.example",), (), args.subject, args.body))
    assert re.search(rb"(?<!\r)\n|\r(?!\n)|[\x80-\xff]|\x00", data) is None
    assert all(len(line) <= 998 for line in data.split(b"\r\n"))
    message = parsed(data)
    assert set(message.keys()) == {
        *("From", "To", "Subject", "Date", "Message-ID", "Content-Type"),
        *("Content-Transfer-Encoding", "MIME-Version"),
    }
    assert str(message["Subject"]).split() == args.subject.split()
    read = message.get_content().replace("\r\n", "\n")
    assert read.rstrip("\n") == args.body.rstrip("\n")


@pytest.mark.parametrize("char", [*CONTROLS, "\n", "\r\n", "\t", "\x1c", "\u2028", "\u2029"])
def test_a_subject_is_one_line(char: str) -> None:
    for text in (f"Hello{char}Bcc: eve@b.example", f"{char}Hello", f"Hello{char}"):
        with pytest.raises(ValueError, match=f"U\\+{ord(char[0]):04X}"):
            one_line(text)
        with pytest.raises(ValidationError):
            SendEmail(to=["ann@b.example"], subject=text, body="Hi")


def test_half_a_character_is_none() -> None:
    for check in (one_line, plain_text):
        with pytest.raises(ValueError, match=r"U\+D800"):
            check("a\ud800")


@pytest.mark.parametrize("char", CONTROLS)
def test_a_body_has_no_control_characters_but_tabs_and_line_breaks(char: str) -> None:
    with pytest.raises(ValueError, match=f"character 3 is U\\+{ord(char):04X}"):
        plain_text(f"ab{char}c")
    assert plain_text("a\tb\r\nc\n") == "a\tb\nc\n"


@pytest.mark.parametrize(
    ("subject", "body"),
    [("", "Hi"), ("Hi", ""), ("x" * (LONGEST_SUBJECT + 1), "Hi"), ("Hi", "x" * (LONGEST_BODY + 1))],
)
def test_subject_and_body_are_there_and_bounded(subject: str, body: str) -> None:
    with pytest.raises(ValidationError):
        SendEmail(to=["ann@b.example"], subject=subject, body=body)


def test_the_id_of_a_message_is_that_of_its_request() -> None:
    first = message_id("sayso-1", "me@a.example")
    assert re.fullmatch(r"<[0-9a-f]{32}\.sayso@a\.example>", first)
    assert message_id("sayso-1", "me@a.example") == first
    assert message_id("sayso-2", "me@a.example") != first
    assert message_id("sayso-1\r\nBcc: x", "me@a.example").isprintable()
