"""Values of secret-looking fields: found in texts by their name, and by value wherever they are."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from typing import Any
from urllib import parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.canonical import canonical_json
from agent.store.named_secrets import (
    MASK,
    NamedSecrets,
    masked_fields,
    without_secrets,
)

# --- in text --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        # what the checks say, and what Python and JSON show
        ("password: ' hunter2 ' → 'x1'", "password: '«masked»' → 'x1'"),
        (r"{'n': 1, 'password': 'hun\'ter2', 'x': 1}", "{'n': 1, 'password': '«masked»', 'x': 1}"),
        ("login(user='u', password=b'S3', x=2)", "login(user='u', password=b'«masked»', x=2)"),
        ('{"api_key": "ab\\"c\\\\", "pin":1234}', '{"api_key": "«masked»", "pin":«masked»}'),
        ('{"credentials":{"a":"}","b":[1]},"x":1}', '{"credentials":«masked»,"x":1}'),
        ("token: ['a]', 'b'] end", "token: «masked» end"),
        # broken and cut off
        ('You sent: {"password":"hunter2hun', 'You sent: {"password":"«masked»'),
        ('{"secret":{"a":"b', '{"secret":«masked»'),
        # JSON in JSON
        (r"{\"token\":\"a\\\"b\",\"user\":\"u\"}", r"{\"token\":\"«masked»\",\"user\":\"u\"}"),
        ('"{\\"token\\":\\"abc", "x"', '"{\\"token\\":\\"«masked»", "x"'),
        # names and values as people and programs write them
        ("https://x/?token=abcdef&x=1", "https://x/?token=«masked»&x=1"),
        ("--db-password=hunter2 go", "--db-password=«masked» go"),
        ("SMTP_PASSWORD: hunter2", "SMTP_PASSWORD: «masked»"),
        ("Your PIN: 123456, the api key: x1234567.", "Your PIN: «masked», the api key: «masked»"),
        ("'API key' => \"zz\"", "'API key' => \"«masked»\""),
        ("Authorization: Basic dXNlcjpw", "Authorization: Basic «masked»"),
        ("İstanbul password='x'", "İstanbul password='«masked»'"),
    ],
)
def test_a_named_secret_is_masked_in_text(text: str, masked: str) -> None:
    assert masked_fields(text) == masked
    assert masked_fields(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "password: missing, and it is required",
        "password: String should have at most 10 characters",
        "password: the tool has no such argument; did you mean 'passport'?",
        "password = None; token=true; auth: null",
        "max_tokens: 100000 tokens=50000 compass: 123456 key=abcdef",
        "Authorization: Bearer «masked: bearer token»",
        'reset(password=«masked», user="u")',
        "The effect spend:usd is not granted: write:tokens",
        'password: "" and pin=12',
    ],
)
def test_prose_and_what_is_no_secret_stays(text: str) -> None:
    assert masked_fields(text) == text


@given(
    st.sampled_from(["password", "api_key", "X-Auth-Token", "clientSecret"]),
    st.text(min_size=1),
    st.sampled_from([canonical_json, json.dumps, repr]),
    st.sampled_from(["{}", "({}, 1)", "You sent: {}. Mend it.", "{} {}"]),
)
def test_no_spelling_of_a_field_keeps_its_value(
    name: str, value: str, spell: Callable[[Any], str], around: str
) -> None:
    plain = spell({"user": "u", name: "", "n": 1})
    assert masked_fields(plain) == plain
    said = around.replace("{}", spell({"user": "u", name: value, "n": 1}))
    rest = around.replace("{}", spell({"user": "u", name: MASK, "n": 1}))
    assert _same_quotes(masked_fields(said)) == _same_quotes(rest.replace(spell(MASK)[1:-1], MASK))


def _same_quotes(text: str) -> str:
    """``repr`` chooses its quotes by what is between them."""
    return text.replace("'", '"')


# --- by value -------------------------------------------------------------------------------

SECRET = "hunter'2\n\"é\\hunter"


@pytest.mark.parametrize(
    "said",
    [
        SECRET,
        f"x{SECRET}x",
        repr(SECRET),
        repr([SECRET]),
        canonical_json({"a": SECRET}),
        canonical_json(canonical_json(SECRET)),
        json.dumps(repr(SECRET), ensure_ascii=False),
        f"{SECRET[:9]}… and more",
        f"it ends with {SECRET[:6]}",
        f"f({canonical_json(SECRET)[:14]}...)",
    ],
)
def test_a_value_is_found_however_it_is_spelled(said: str) -> None:
    secrets = NamedSecrets({"login": {"password": f" {SECRET} "}})
    masked = secrets.masked(said)
    assert MASK in masked
    assert "hunter" not in masked


PASSWORD = "kR7/x+Q9=z&z 'ü'!"


@pytest.mark.parametrize(
    "encoded",
    [
        parse.quote(PASSWORD),
        parse.quote(PASSWORD, safe=""),
        parse.quote_plus(PASSWORD),
        re.sub("%..", lambda found: found[0].lower(), parse.quote(PASSWORD)),
        html.escape(PASSWORD),
        html.escape(PASSWORD, quote=False),
    ],
)
@pytest.mark.parametrize("around", ["{}", "GET https://h/?q={}&n=1: 403", "x{}x"])
def test_an_encoded_value_is_found(encoded: str, around: str) -> None:
    said = around.replace("{}", encoded)
    masked = NamedSecrets({"password": PASSWORD}).masked(said)
    assert "kR7" not in masked
    assert "Q9" not in masked


@given(st.binary(max_size=4), st.text(min_size=8), st.binary(max_size=4))
def test_a_value_within_base64_is_found(before: bytes, secret: str, after: bytes) -> None:
    data = before + secret.encode() + after
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        said = encode(data).decode()
        masked = NamedSecrets({"password": secret}).masked(said)
        kept = len(masked.replace(MASK, ""))
        # the digits that also hold bits of what stands beside it
        assert kept <= len(encode(before)) + len(encode(after)) + 4 or _is_short(secret)
        assert MASK in masked or _is_short(secret)


def _is_short(secret: str) -> bool:
    return len(secret.strip()) < 8


@pytest.mark.parametrize(
    "named",
    [
        {"headers": [{"name": "Authorization", "value": "hunter2hunter"}]},
        [{"Key": "X-Api-Key", "Value": "hunter2hunter"}, {"Key": "n", "Value": "ordinary1"}],
        {"headers": [["Accept", "ordinary1"], ["Authorization", "hunter2hunter"]]},
        {"body": ' {"user": "ordinary1", "password": "hunter2hunter"}'},
        {"body": json.dumps([json.dumps({"password": "hunter2hunter"})])},
        {"body": json.dumps({"headers": [{"name": "Cookie", "value": "hunter2hunter"}]})},
    ],
)
def test_a_field_is_told_by_its_name_however_it_is_written(named: Any) -> None:
    assert "hunter2hunter" not in repr(without_secrets(named))
    assert without_secrets("hunter2hunter, ordinary1", named) == f"{MASK}, ordinary1"


@pytest.mark.parametrize(
    "value",
    [
        {"name": "Ann", "value": "hunter2hunter"},
        {"required": ["password", "username"], "n": [[1, 2], ["a", "b"]]},
        {"body": "{password: broken", "list": "[1]"},
        {"name": "the password and the token of everybody: " * 3, "value": "hunter2hunter"},
    ],
)
def test_other_lists_and_objects_stay_as_they_are(value: dict[str, Any]) -> None:
    assert without_secrets(value) == value


@pytest.mark.parametrize(
    "cut",
    ["[truncated]", " [truncated 20 chars]", " (cut)", "<…>", " [12 more characters]", "[...]"],
)
def test_the_beginning_of_a_value_is_found_before_the_mark_of_a_cut(cut: str) -> None:
    secrets = NamedSecrets({"password": "hunter2hunter"})
    assert secrets.masked(f"said hunter2hu{cut} and on") == f"said {MASK}{cut} and on"
    assert secrets.masked("said hunter2 [see there]") == "said hunter2 [see there]"


@given(st.integers(0, 299), st.sampled_from(["{}", "a {}, b", "…{}"]))
def test_among_many_values_each_is_found(number: int, around: str) -> None:
    said = around.replace("{}", MANY[number])
    assert MANY_SECRETS.masked(said) == around.replace("{}", MASK)


MANY = [f"{number * 7919:06}-secret" for number in range(300)]
MANY_SECRETS = NamedSecrets([{"token": secret} for secret in MANY])


def test_short_and_common_values_are_left_alone() -> None:
    named = {"password": ["", "true", "1234", "abc12", "string"], "token": [True, None, 1, 12345]}
    assert not NamedSecrets(named)
    text = "true string 1234 12345 abc12 None"
    assert NamedSecrets(named).masked(text) == text


def test_one_that_might_be_a_part_of_a_word_is_masked_where_it_stands_alone() -> None:
    secrets = NamedSecrets({"pin": 482913, "password": "abc-12"})
    assert secrets.masked("482913, 'abc-12', a482913, 4829130, abc-123") == (
        "«masked», '«masked»', a482913, 4829130, abc-123"
    )


def test_marks_are_left_whole() -> None:
    secrets = NamedSecrets({"token": ["masked: API key", "API key»!"]})
    assert secrets.masked("«masked: API key»!") == "«masked: API key»!"


def test_a_copy_has_none_of_its_own_secrets_and_none_of_what_it_is_about() -> None:
    value = {
        "text": "ann said hunter2hunter2 and 98765432",
        "hunter2hunter2": [1, 98765432],
        "password": {"old": "hunter2hunter2"},
        "n": 1,
    }
    assert without_secrets(value, {"pin": 98765432}) == {
        "text": "ann said «masked» and «masked»",
        MASK: [1, MASK],
        "password": MASK,
        "n": 1,
    }


@given(
    st.text(st.characters(exclude_characters="«»"), min_size=8),
    st.lists(st.text("ab «»…'\"\\\n"), min_size=2, max_size=4),
    st.sampled_from([str, repr, canonical_json, lambda s: canonical_json(repr(s))]),
)
def test_no_text_keeps_a_value(secret: str, around: list[str], spell: Callable[[Any], str]) -> None:
    masked = NamedSecrets({"password": secret}).masked(spell(secret).join(around))
    assert spell(secret) not in masked
    if len(secret.strip()) >= 8:
        assert secret.strip() not in masked
