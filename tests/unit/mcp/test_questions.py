"""What a server may ask a person, and what counts as an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.mcp.questions import Question, UnderWay, answer_to, choices, unfit, value_of
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
        ("", False),
        (None, False),
    ],
)
def test_only_a_web_address_is_shown_to_be_opened(url: str | None, fits: bool) -> None:
    assert (unfit(question(url=url)) is None) == fits


def test_a_form_of_one_field_takes_its_bare_value() -> None:
    asked = question(form(days={"type": "integer", "maximum": 9})).args
    assert answer_to(asked, "3") == {"days": 3}
    assert answer_to(asked, '{"days": 3}') == {"days": 3}
    with pytest.raises(ValueError, match="10 is greater than the maximum"):
        answer_to(asked, "10")


def test_what_was_left_out_gets_its_default() -> None:
    asked = question(form(days={"type": "integer", "default": 2}, city=TEXT)).args
    assert answer_to(asked, '{"city": "Rome"}') == {"days": 2, "city": "Rome"}
    assert answer_to(asked, '{"city": "Rome", "days": 3}') == {"days": 3, "city": "Rome"}


def test_an_address_is_answered_by_anything() -> None:
    assert answer_to(question(url="https://example.org/").args, "done") is None


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "integer"}, " 7 ", 7),
        ({"type": "number"}, "7.5", 7.5),
        (TEXT, "7", "7"),
        (TEXT, "true", "true"),
        ({"type": "array", "items": {"enum": ["red", "blue"]}}, "red, blue", ["red", "blue"]),
    ],
)
def test_what_was_typed_becomes_a_value(field: dict[str, Any], typed: str, value: object) -> None:
    assert value_of(field, typed) == value


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        ({"type": "boolean"}, "perhaps"),
        ({"type": "integer"}, "7.5"),
        ({"type": "integer"}, "true"),
        ({"type": "number"}, "much"),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "1e400"),
        ({"type": "number"}, "[" * 100_000),
        ({**TEXT, "enum": ["red"]}, "blue"),
        ({**TEXT, "minLength": 3}, "ab"),
        ({"type": "array", "items": {"enum": ["red"]}}, "red, blue"),
    ],
)
def test_what_does_not_fit_is_said(field: dict[str, Any], typed: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        value_of(field, typed)


def test_choices_are_found_in_each_way_to_write_them() -> None:
    titled = [{"const": "r", "title": "Red"}, {"const": "b"}]
    assert choices({"enum": ["r", "b"]}) == ["r", "b"]
    assert choices({"oneOf": titled}) == ["r", "b"]
    assert choices({"type": "array", "items": {"anyOf": titled}}) == ["r", "b"]
    assert choices(TEXT) == []


FIELDS = st.dictionaries(
    st.text(min_size=1),
    st.sampled_from([TEXT, {"type": "integer"}, {"type": "boolean"}]),
    min_size=1,
    max_size=4,
)


VALUES = st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.none())


@given(FIELDS, st.text() | VALUES.map(json.dumps))
def test_an_answer_has_what_was_asked_for_or_is_refused(fields: dict[str, Any], text: str) -> None:
    try:
        content = answer_to(question(form(**fields)).args, text)
    except ValueError:
        return
    assert content is not None
    assert set(content) == set(fields)
