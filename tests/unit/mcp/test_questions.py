"""What a server may ask a person."""

from __future__ import annotations

from typing import Any

import pytest

from agent.mcp.questions import MAX_QUESTION, Question, UnderWay, unfit
from tools.contract import CallInfo

CALL = UnderWay(CallInfo(session="s-1", call_id="c"))
TEXT = {"type": "string"}


def form(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(fields)}


def question(schema: Any = None, url: str | None = None) -> Question:
    return Question("guide", CALL, "Well?", schema, url)


@pytest.mark.parametrize(
    "fields",
    [
        {"password": TEXT},
        {"user": TEXT, "pass_phrase": {**TEXT, "title": "Passphrase"}},
        {"a": {**TEXT, "description": "Your API key"}},
        {"a": {**TEXT, "format": "password"}},
        {"a": {**TEXT, "title": "Credit-card number"}},
        {"accessToken": TEXT},
        {"otp": TEXT},
        {"apiKey": TEXT},
        {"PIN": TEXT},
        {"user_pin": TEXT},
        {"a": {**TEXT, "title": "CVC2 of your card"}},
        {"p\u0430ssword": TEXT},
        {"pass\u200bword": TEXT},
        {"pass\u00adword": TEXT},
        {"\uff50\uff41\uff53\uff53word": TEXT},
        {"pass_word": TEXT},
        {"passwd": TEXT},
        {"pwd": TEXT},
        {"userPin": TEXT},
        {"pincode": TEXT},
        {"security_code": TEXT},
        {"oneTimeCode": TEXT},
        {"access_key": TEXT},
        {"a": {**TEXT, "description": "Not optional: enter your bank password"}},
        {"a": {**TEXT, "description": "No spaces, then your password"}},
    ],
)
def test_a_form_that_asks_for_a_secret_is_declined(fields: dict[str, Any]) -> None:
    why = unfit(question(form(**fields)))
    assert why is not None
    assert "secret" in why or "look like others" in why


def test_a_message_that_asks_for_a_secret_is_declined() -> None:
    asked = Question("guide", CALL, "Enter your password below.", form(a=TEXT))
    assert "secret" in (unfit(asked) or "")
    assert "secret" in (unfit(question({**form(a=TEXT), "title": "Password"})) or "")


@pytest.mark.parametrize(
    "fields",
    [
        {"city": TEXT},
        {"spinach": TEXT},
        {"about": {**TEXT, "description": "How we find you (do not give us your PIN, please)."}},
        {"note": {**TEXT, "description": "Never a password; a word for your friends."}},
        {"days": {"type": "integer", "minimum": 1}},
        {"colours": {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}},
    ],
)
def test_a_plain_form_can_be_asked(fields: dict[str, Any]) -> None:
    assert unfit(question(form(**fields))) is None


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"properties": {}},
        {"properties": []},
        form(nested={"type": "object", "properties": {"a": TEXT}}),
        form(a="string"),
        form(several={"type": "array", "items": TEXT}),
        form(**{f"f{number}": TEXT for number in range(21)}),
        {**form(a=TEXT), "required": "a"},
    ],
)
def test_a_form_that_is_none_is_declined(schema: dict[str, Any]) -> None:
    assert unfit(question(schema))


@pytest.mark.parametrize(
    "schema",
    [
        form(a={"type": "string", "enum": ["x" * MAX_QUESTION]}),
        form(a={"type": "integer", "enum": [1] * MAX_QUESTION}),
        form(a={"type": "string", "enum": [""] * MAX_QUESTION}),
        form(a={"type": "integer", "enum": [10 ** (MAX_QUESTION * 2)]}),
        form(**{"x" * MAX_QUESTION: TEXT}),
    ],
)
def test_what_is_too_long_to_be_read_is_declined_unread(schema: dict[str, Any]) -> None:
    asked = Question("guide", CALL, "Your password?", schema)
    assert unfit(asked) == "it is longer than 50,000 characters"


def test_a_long_message_and_a_long_form_count_together() -> None:
    half = MAX_QUESTION // 2
    for message, text in ((half, half), (MAX_QUESTION + 1, 0)):
        asked = Question("g", CALL, "m" * message, form(a={**TEXT, "title": "t" * text}))
        assert "longer than" in (unfit(asked) or "")
    fits = Question("g", CALL, "m" * half, form(a={**TEXT, "title": "t" * (half - 500)}))
    assert unfit(fits) is None
    assert "longer than" in (unfit(question(url="https://x/" + "y" * MAX_QUESTION)) or "")


@pytest.mark.parametrize(
    ("url", "fits"),
    [
        ("https://example.org/pay?x=1", True),
        ("http://127.0.0.1:8000/", True),
        ("javascript:alert(1)", False),
        ("file:///etc/passwd", False),
        ("https://example.org/\nhttps://other", False),
        ("https://example.org/\n", False),
        ("https://good.example@evil.example/", False),
        ("https://example.org/@me", True),
        ("https://xn--bcher-kva.example:8443/?a=[1]#%2F", True),
        ("https://[2001:db8::1]:443/", True),
        ("https://[bank.example/", False),
        ("https://[bank.example]/", False),
        ("https://[::1%25eth0]/", False),
        ("https://bank.example\\@evil.example/", False),
        ("https://bank.example\\.evil.example/", False),
        ("https://bank.example:443:x/", False),
        ("https://bank.example:/", False),
        ("https://bank.example:0/", False),
        ("https://bank.example:65536/", False),
        ("https://bank%2eexample/", False),
        ("https://b\u0430nk.example/", False),
        ("https://bank.example/\u202e", False),
        ("https://bank..example/", False),
        ("https:///bank.example/", False),
        ("", False),
        (None, False),
    ],
)
def test_only_a_web_address_is_shown_to_be_opened(url: str | None, fits: bool) -> None:
    assert (unfit(question(url=url)) is None) == fits
