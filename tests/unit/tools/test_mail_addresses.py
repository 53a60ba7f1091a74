"""What counts as one e-mail address, and in which spelling."""

from __future__ import annotations

from email.utils import getaddresses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tools.mail.arguments import MOST_RECIPIENTS, SendEmail
from tools.worlds.addresses import distinct, plain_address, same_mailbox

LOCAL = st.from_regex(r"\A[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,12}(\.[A-Za-z0-9+-]{1,8})?\Z")
HOST = st.from_regex(r"\A[A-Za-z][A-Za-z0-9]{0,10}(\.[a-z][a-z0-9]{0,8})?\.(example|org|COM)\Z")
ADDRESS = st.builds("{}@{}".format, LOCAL, HOST)
SPECIAL = st.sampled_from([*'<>()[]",;:@\\ \t\r\n\x00\x7f', "\u200b", "\u202e", "é", "а", "＠"])


@given(LOCAL, HOST)
def test_a_plain_address_keeps_its_name_and_has_its_host_in_lower_case(
    local: str, host: str
) -> None:
    assert plain_address(f"{local}@{host}") == f"{local}@{host.lower()}"


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("Ann.O'Neil+x@Sub.Example.COM", "Ann.O'Neil+x@sub.example.com"),
        ("ann@münchen.example", "ann@xn--mnchen-3ya.example"),
        ("ann@MÜNCHEN.example", "ann@xn--mnchen-3ya.example"),
        ("ann@xn--mnchen-3ya.example", "ann@xn--mnchen-3ya.example"),
        ("ann@аcme.example", "ann@xn--cme-5cd.example"),  # the first letter is Cyrillic
        ("ann@ａcme.example", "ann@acme.example"),
    ],
)
def test_a_host_has_one_spelling_in_which_look_alikes_differ(given: str, plain: str) -> None:
    assert plain_address(given) == plain


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ann",
        "ann@",
        "@a.example",
        "ann@localhost",
        "ann@[127.0.0.1]",
        " ann@a.example",
        "ann@a.example ",
        "ann@a.example.",
        "<ann@a.example>",
        "Ann <ann@a.example>",
        '"ann@a.example" <eve@b.example>',
        "ann@a.example <eve@b.example>",
        "ann@a.example, eve@b.example",
        "ann@a.example;eve@b.example",
        "friends: ann@a.example, eve@b.example;",
        "ann(boss)@a.example",
        "ann@a.example (eve@b.example)",
        "ann@(hi)a.example",
        '"ann b"@a.example',
        "ann@b@a.example",
        "@a.example,@b.example:ann@c.example",
        "ann@a.example\r\nBcc: eve@b.example",
        "ann@a.example\nRCPT TO:<eve@b.example>",
        "ann\r\n@a.example",
        "ann\x00@a.example",
        "ann@a.exa\u200bmple",
        "ánn@a.example",
        "ann＠a.example",
        "ann..b@a.example",
        f"{'a' * 65}@a.example",
        f"ann@{'a' * 64}.example",
    ],
)
def test_what_is_not_one_plain_address_is_refused_and_the_reason_teaches(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not one plain address such as ann@example\.org") as e:
        plain_address(text)
    assert "\n" not in str(e.value)
    assert "\r" not in str(e.value)


@given(st.text(max_size=60) | st.builds("{}{}{}".format, ADDRESS, SPECIAL, ADDRESS))
def test_what_is_taken_is_read_as_the_same_single_address_by_mail_programs(text: str) -> None:
    try:
        plain = plain_address(text)
    except ValueError:
        return
    assert getaddresses([plain]) == [("", plain)]
    assert plain_address(plain) == plain
    assert plain.isascii()
    assert plain.isprintable()
    assert plain.count("@") == 1
    assert not set(plain) & set(' <>()[]",;:\\')


@given(st.lists(ADDRESS, max_size=6), st.lists(ADDRESS, max_size=6), st.booleans())
def test_everybody_is_there_once(to: list[str], cc: list[str], doubled: bool) -> None:
    given = [*to, *(address.upper() for address in to)] if doubled else to
    kept = distinct(given)
    assert [same_mailbox(a) for a in kept] == list(dict.fromkeys(map(same_mailbox, given)))
    assert set(kept) <= set(given)
    copies = distinct(cc, besides=kept)
    assert {*map(same_mailbox, kept)} & {*map(same_mailbox, copies)} == set()
    assert {*map(same_mailbox, [*kept, *copies])} == {*map(same_mailbox, [*to, *cc])}


@given(st.lists(ADDRESS, min_size=1, max_size=6), st.lists(ADDRESS, max_size=6))
def test_arguments_come_out_of_a_second_reading_as_of_the_first(
    to: list[str], cc: list[str]
) -> None:
    once = SendEmail(to=to, subject="Hi", body="Hi\r\nyou", cc=cc).model_dump()
    assert SendEmail.model_validate(once).model_dump() == once
    assert once["body"] == "Hi\nyou"


def test_the_number_of_recipients_is_bounded_over_to_and_cc() -> None:
    people = [f"p{n}@a.example" for n in range(MOST_RECIPIENTS)]
    assert len(SendEmail(to=people, cc=people, subject="Hi", body="Hi").to) == MOST_RECIPIENTS
    with pytest.raises(ValidationError, match=f"At most {MOST_RECIPIENTS} recipients"):
        SendEmail(to=people, cc=["q@a.example"], subject="Hi", body="Hi")
    with pytest.raises(ValidationError):
        SendEmail(to=[*people, "q@a.example"], subject="Hi", body="Hi")
    with pytest.raises(ValidationError):
        SendEmail(to=[], subject="Hi", body="Hi")
