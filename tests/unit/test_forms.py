"""What a field of a server's form takes, in words, and what fits it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.forms import LEFT_OUT, Choice, Field, answer_to, choices, fields_of

TEXT = {"type": "string"}
TITLED = [{"const": "s", "title": "Sea view"}, {"const": "y", "title": "Back yard, ground floor"}]
LEGACY = {**TEXT, "enum": ["s", "d"], "enumNames": ["Single", "Double"]}
SEVERAL = {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1, "maxItems": 1}
COLOURS = {"type": "array", "items": {**TEXT, "enum": ["red", "blue"]}}
LONG = "text of 2 to 4 characters"


def field(schema: dict[str, Any], *, required: bool = True) -> Field:
    return Field("a", schema, required)


def form(**fields: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    return {"message": "Well?", "schema": schema}


@pytest.mark.parametrize(
    ("format_", "typed"),
    [
        ("email", "ana@example.org"),
        ("email", "ana.maria+list@mail.example"),
        ("email", "ana@localhost"),
        ("uri", "https://example.org/a?b=c#d"),
        ("uri", "https://user@example.org:8080/%C3%A4"),
        ("uri", "http://[::1]/"),
        ("uri", "urn:isbn:0451450523"),
        ("uri", "mailto:ana@example.org"),
        ("date", "2028-02-29"),
        ("date-time", "2026-01-31T14:30:00Z"),
        ("date-time", "2026-01-31t14:30:00.125+05:30"),
        ("date-time", "2016-12-31T23:59:60Z"),
        ("hostname", "no format of the protocol's: not checked"),
    ],
)
def test_what_has_the_format_is_taken_as_it_is(format_: str, typed: str) -> None:
    assert field({**TEXT, "format": format_}).value(typed) == typed


@pytest.mark.parametrize(
    ("format_", "typed", "wanted"),
    [
        ("email", "ana", "an e-mail address, such as ana@example.org"),
        ("email", "ana@", "an e-mail address"),
        ("email", "ana maria@example.org", "an e-mail address"),
        ("email", "ana@-example.org", "an e-mail address"),
        ("email", "ana@example..org", "an e-mail address"),
        ("email", "a@b@example.org", "an e-mail address"),
        ("uri", "example.org/page", "a whole address, such as https://example.org/page"),
        ("uri", "https://", "a whole address"),
        ("uri", "https:example.org", "a whole address"),
        ("uri", "https://example.org/a b", "a whole address"),
        ("uri", "https://example.org/50%", "a whole address"),
        ("uri", "https://example.org/ä", "what is not ASCII is written as %XX"),
        ("date", "31.1.2026", "a date, such as 2026-01-31"),
        ("date", "2026-02-29", "a date"),
        ("date", "20260131", "a date"),
        ("date", "2026-W05-6", "a date"),
        ("date", "2026-01-31T14:30:00Z", "a date"),
        ("date-time", "2026-01-31", "such as 2026-01-31T14:30:00Z"),
        ("date-time", "2026-01-31T14:30:00", "a time with its offset"),
        ("date-time", "2026-01-31 14:30:00Z", "a time with its offset"),
        ("date-time", "2026-01-31T24:00:00Z", "a time with its offset"),
        ("date-time", "2026-02-30T14:30:00Z", "a time with its offset"),
        ("date-time", "2026-01-31T14:30:00+0100", "a time with its offset"),
    ],
)
def test_what_has_not_the_format_is_refused_with_what_would_fit(
    format_: str, typed: str, wanted: str
) -> None:
    schema = {**TEXT, "format": format_}
    with pytest.raises(ValueError, match="a takes") as refused:
        field(schema).value(typed)
    assert wanted in str(refused.value)
    with pytest.raises(ValueError, match="a takes"):
        answer_to(form(a=schema), json.dumps({"a": typed}))


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "integer"}, " 7 ", 7),
        ({"type": "integer"}, "-007", -7),
        ({"type": "number"}, "7.5", 7.5),
        ({"type": "number"}, "7", 7),
        (TEXT, "7", "7"),
        (TEXT, "true", "true"),
        (LEGACY, "d", "d"),
        (LEGACY, "double", "d"),
        ({**TEXT, "oneOf": TITLED}, "Sea view", "s"),
        (COLOURS, "red, blue, red", ["red", "blue"]),
        (COLOURS, "", []),
        (SEVERAL, "back yard, ground floor", ["y"]),
        ({**TEXT, "minLength": 2, "maxLength": 2}, "日本", "日本"),
        ({**TEXT, "maxLength": 2}, "😀😀", "😀😀"),
    ],
)
def test_what_was_typed_becomes_a_value(schema: dict[str, Any], typed: str, value: object) -> None:
    assert field(schema).value(typed) == value


@pytest.mark.parametrize(
    ("schema", "typed", "says"),
    [
        ({"type": "boolean"}, "perhaps", 'a takes yes or no. "perhaps" does not fit.'),
        ({"type": "integer"}, "7.5", "a takes a whole number. 7.5 does not fit."),
        ({"type": "integer"}, "true", 'a takes a whole number. "true" does not fit.'),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "10", "a whole number from 1 to 9. 10"),
        ({"type": "number"}, "much", "a takes a number."),
        ({"type": "number"}, "NaN", "a takes a number."),
        ({"type": "number"}, "1e400", "a takes a number."),
        ({"type": "number"}, "[" * 100_000, "a takes a number."),
        ({"type": "number", "minimum": 0.5}, "0", "a number of at least 0.5. 0 does not fit."),
        ({"type": "number", "exclusiveMaximum": 3}, "3", "a number below 3. 3 does not fit."),
        ({"type": "integer", "multipleOf": 5}, "7", "7 is not a multiple of 5"),
        (LEGACY, "x", 'one of s “Single”, d “Double”. "x" does not fit.'),
        ({**TEXT, "enum": ["red"]}, "blue", 'a takes one of red. "blue" does not fit.'),
        ({**TEXT, "minLength": 2, "maxLength": 4}, "a", f'{LONG}. "a" has 1.'),
        ({**TEXT, "minLength": 2, "maxLength": 4}, "äöüßé", f'{LONG}. "äöüßé" has 5.'),
        ({**TEXT, "pattern": "^[a-z]+$"}, "A1", 'text matching ^[a-z]+$. "A1" does not fit.'),
        (COLOURS, "red, green", 'any number of red, blue; with commas between. ["red", "green"]'),
        (SEVERAL, "", "Back yard, ground floor”; with commas between. There are 0."),
        (SEVERAL, "s, y", "a takes 1 of s “Sea view”"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(
    schema: dict[str, Any], typed: str, says: str
) -> None:
    with pytest.raises(ValueError, match="a takes") as refused:
        field(schema).value(typed)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("schema", "required", "value"),
    [
        ({"type": "integer", "default": 2}, True, 2),
        ({**COLOURS, "default": ["blue"]}, False, ["blue"]),
        ({"type": "boolean", "default": False}, True, False),
        (TEXT, False, LEFT_OUT),
        (COLOURS, False, LEFT_OUT),
        (COLOURS, True, []),
        ({"type": "integer", "default": "two"}, False, LEFT_OUT),
        ({**TEXT, "format": "date", "default": "soon"}, False, LEFT_OUT),
    ],
)
def test_an_empty_line_takes_a_default_that_fits_or_leaves_out(
    schema: dict[str, Any], required: bool, value: object
) -> None:
    assert field(schema, required=required).entered("  ") == value


@pytest.mark.parametrize("schema", [TEXT, {"type": "integer"}, {"type": "number", "default": "x"}])
def test_a_required_field_is_not_left_empty(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="a is required: "):
        field(schema).entered("")


def test_a_field_is_described_with_what_it_takes_and_its_default() -> None:
    nights = {"type": "integer", "minimum": 1, "maximum": 30, "default": 2, "title": "Nights"}
    shown = Field("nights", {**nights, "description": "How long"}, True).described()
    assert shown == "nights (a whole number from 1 to 30; default 2): How long"
    assert field(LEGACY).described() == "a (one of s “Single”, d “Double”; required)"
    assert field({"type": "boolean", "default": True}).described() == "a (yes or no; default yes)"
    wish = Field("wish", {**TEXT, "title": "Your wish", "description": "Any"}, False).described()
    assert wish == "wish (text; optional): Your wish · Any"


def test_another_default_stands_in_for_the_servers() -> None:
    nights = field({"type": "integer", "default": 2})
    assert nights.with_default(5).entered("") == 5
    assert Field("a", nights.schema, False).with_default(LEFT_OUT).entered("") is LEFT_OUT


def test_choices_are_found_in_each_way_to_write_them() -> None:
    assert choices({**TEXT, "enum": ["r", "b"]}) == [Choice("r"), Choice("b")]
    assert choices(LEGACY) == [Choice("s", "Single"), Choice("d", "Double")]
    assert choices({"enum": ["r", "b"], "enumNames": ["Red"]}) == [Choice("r"), Choice("b")]
    assert choices({"oneOf": [{"const": "r", "title": "Red"}, {"const": "b"}]}) == [
        Choice("r", "Red"),
        Choice("b"),
    ]
    assert [choice.title for choice in choices(SEVERAL)] == ["Sea view", "Back yard, ground floor"]
    assert choices(TEXT) == choices({**TEXT, "items": True}) == []


def test_a_title_that_two_choices_have_stands_for_neither() -> None:
    twins = [{"const": "a", "title": "Same"}, {"const": "b", "title": "same"}]
    with pytest.raises(ValueError, match="does not fit"):
        field({**TEXT, "oneOf": twins}).value("Same")


# --- the whole answer --------------------------------------------------------------------------


def test_a_form_of_one_field_takes_its_bare_value() -> None:
    asked = form(days={"type": "integer", "maximum": 9})
    assert answer_to(asked, "3") == {"days": 3}
    assert answer_to(asked, '{"days": 3}') == {"days": 3}
    with pytest.raises(ValueError, match="of at most 9"):
        answer_to(asked, "10")
    with pytest.raises(ValueError, match="a whole number"):
        answer_to(asked, '{"days": "3"}')


def test_what_was_left_out_gets_its_default() -> None:
    asked = form(days={"type": "integer", "default": 2}, city=TEXT)
    assert answer_to(asked, '{"city": "Rome"}') == {"days": 2, "city": "Rome"}
    assert answer_to(asked, '{"city": "Rome", "days": 3}') == {"days": 3, "city": "Rome"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Rome", "a JSON object is needed, with city, days"),
        ('{"city": NaN}', "a JSON object is needed"),
        ('{"city": "Rome"}', "days is required: a whole number."),
        (
            '{"city": "Rome", "days": 1, "card": 1}',
            "'card' is not asked for; it asks for city, days",
        ),
        ('{"city": null, "days": 1}', "city takes text. null does not fit."),
    ],
)
def test_an_answer_that_does_not_fit_says_why(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"\w") as refused:
        answer_to(form(city=TEXT, days={"type": "integer"}), text)
    assert says in str(refused.value)


def test_an_address_is_answered_by_anything() -> None:
    assert answer_to({"message": "Pay.", "url": "https://example.org/"}, "done") is None


def test_fields_keep_the_servers_order() -> None:
    asked = form(to=TEXT, at=TEXT, by=TEXT)
    assert [one.name for one in fields_of(asked | {"order": ["by", "to"]})] == ["by", "to", "at"]
    assert [one.name for one in fields_of(asked)] == ["to", "at", "by"]


FIELDS = st.dictionaries(
    st.text(min_size=1),
    st.sampled_from([TEXT, {"type": "integer"}, {"type": "boolean"}, LEGACY, SEVERAL]),
    min_size=1,
    max_size=4,
)
VALUES = st.dictionaries(st.text(), st.text() | st.integers() | st.booleans() | st.none())


@given(FIELDS, st.text() | VALUES.map(json.dumps))
def test_an_answer_has_what_was_asked_for_or_is_refused(fields: dict[str, Any], text: str) -> None:
    asked = form(**fields)
    try:
        content = answer_to(asked, text)
    except ValueError:
        return
    assert content is not None
    assert set(content) == set(fields)
    for one in fields_of(asked):
        one.check(content[one.name])
