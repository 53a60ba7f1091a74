"""What is masked before it is stored: by name, by shape, by value; and what never is."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from re import _parser  # type: ignore[attr-defined]
from typing import Any
from urllib import parse

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.canonical import canonical_json
from agent.receipt import describe_call
from agent.store import Store
from agent.store.ids import now, session_id, short_id
from agent.store.masking import MARKS, OWN, SHAPES, Masks
from agent.store.named_secrets import (
    BARE,
    BRACKETS,
    CLOSING,
    MARK,
    MASK,
    NO_PROSE,
    OPENING,
    REST,
    SCHEME,
    looks_secret,
    masked_by_name,
    masked_fields,
    may_name_a_secret,
    without_secrets,
)
from agent.store.safeguards import Safeguards
from agent.types import Decision
from tests.unit.store.databases import ANN, FreshUrl, ask, new_session, write_of
from tools.contract import Finding

# --- by name --------------------------------------------------------------------------------

SECRET = [
    "password",
    "Password",
    "db_password",
    "PASSWD",
    "token",
    "accessToken",
    "GITHUB_TOKEN",
    "api_key",
    "apiKey",
    "X-API-Key",
    "client_secret",
    "Authorization",
    "Set-Cookie",
    "private_key",
    "credentials",
    "pwd",
    "pin",
    "tokens_secret",
]
OPEN = ["tokens", "max_tokens", "token_count", "order_id", "key", "spin", "author", "passenger"]


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", OPEN)
def test_open_names(name: str) -> None:
    assert not looks_secret(name)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(JSON, st.sampled_from(SECRET), st.text("xyz", min_size=3))
def test_a_secret_is_masked_however_deep_and_nothing_else_is(
    around: Any, name: str, secret: str
) -> None:
    value = {"list": [{"deep": {name: {"in": secret}}}], "around": around}
    assert masked_by_name(value)["list"] == [{"deep": {name: MASK}}]
    if not any(looks_secret(key) for key in _keys(around)):
        assert masked_by_name(value)["around"] == around
    assert value["list"] == [{"deep": {name: {"in": secret}}}]


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(key for item in value.values() for key in _keys(item))]
    if isinstance(value, list):
        return [key for item in value for key in _keys(item)]
    return []


# --- by shape -------------------------------------------------------------------------------

# Written in two parts, since whoever looks for keys in a repository would find them here.
LETTERS = "aB3dE5gH7jK9mN1pQ2sT4vW6xY8zC0fR"
JWT = "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxIn0.SflKxwRJSMeKKF2QT4"
PEM = (
    f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,X\n{LETTERS * 2}\n-----END RSA PRIVATE KEY-----"
)
CUT_PEM = f"-----BEGIN PRIVATE KEY-----\n{LETTERS * 2}\n{LETTERS}\n"

SHAPED = {
    "private key": [PEM, CUT_PEM.strip(), PEM.replace("\n", "\\n").replace("RSA", "OPENSSH")],
    "JSON web token": [JWT, JWT[: JWT.rindex(".") + 1]],
    "GitHub token": [f"ghp{'_'}{LETTERS}", f"ghs{'_'}{LETTERS}", f"github{'_pat_'}{LETTERS}"],
    "Slack token": [f"xox{'b-'}1234-{LETTERS}", f"xox{'p-'}12345678901"],
    "AWS access key": ["AKI" + "AIOSFODNN7EXAMPLE", "ASI" + "AIOSFODNN7EXAMPLE"],
    "Google API key": ["AI" + f"za{LETTERS}Xy"],
    "API key": [
        f"sk{'-'}{LETTERS}",
        f"sk{'-'}proj-{LETTERS}-x_y",
        f"sk{'-'}ant-api03-{LETTERS}",
        f"sk{'-'}abcdefghijklmnopqrstuvwxyz",
        f"sk{'_'}live_{LETTERS}",
        f"gsk{'_'}{LETTERS}",
        f"lsv2{'_'}pt_{LETTERS}",
    ],
}
EACH = [(kind, secret) for kind, secrets in SHAPED.items() for secret in secrets]


@pytest.mark.parametrize(("kind", "secret"), EACH)
@pytest.mark.parametrize("around", ["{}", "key={}", "It is '{}'.", "a\n{}\nb", "é{}é", "<{}>"])
def test_a_known_shape_is_masked_in_any_text(kind: str, secret: str, around: str) -> None:
    assert Masks().text(around.format(secret)) == around.format(f"«masked: {kind}»")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"Authorization: Bearer {LETTERS}", "Authorization: Bearer «masked: bearer token»"),
        ("bearer abc123-_~+/==, then", "bearer «masked: bearer token», then"),
        ("https://ann:hunter2@host/x", "https://«masked: password»@host/x"),
        ("postgresql://ann:p@w@host", "postgresql://«masked: password»@host"),
        ("redis://:hunter2@host:6379/0", "redis://«masked: password»@host:6379/0"),
        (f"ftp://x:{JWT}@h, ftp://a:b@c", "ftp://«masked: password»@h, ftp://«masked: password»@c"),
        (f"{PEM}\n{PEM}", "«masked: private key»\n«masked: private key»"),
        (f"{CUT_PEM}and a note", "«masked: private key»\nand a note"),
    ],
)  # fmt: skip
def test_what_is_around_a_secret_stays(text: str, masked: str) -> None:
    assert Masks().text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "the bearer of this letter; Bearer tokens; bearer authentication is on",
        "sk-learn-tutorial-for-beginners.ipynb in the task-ABCDEFGH12345678",
        "https://host:8080/a@b?x=c:d@e and mailto:ann@host.example",
        "ssh://git@host:22/ann/tools and https://host/:@",
        '{"url":"http://host:80","mail":"ann@host.example"}',
        "eyJhbGciOi is no token, nor is eyJhbGciOi.x.y",
        "AKIA is a prefix; AKIAIOSFODNN7EXAMPLEX is too long",
        "-----BEGIN PUBLIC KEY-----\nMFkw\n-----END PUBLIC KEY-----",
        "ghp_short xoxb-1 AIza_ sk-1",
    ],
)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert Masks().text(text) == text


OWN_THINGS = st.one_of(
    st.builds(session_id),
    st.builds(short_id, st.sampled_from("aer")),
    st.builds(now),
    st.binary(min_size=32, max_size=32).map(bytes.hex),
    st.uuids().map(str),
    st.uuids().map(lambda one: f"lc_run--{one}"),
    st.uuids().map(lambda one: f"call_{one.hex[:24]}"),
    st.integers(0, 10**12).map(lambda n: f"T{n}"),
    st.integers(0, 10**9).map(lambda n: f"ORD-2026-{n:06}"),
    st.decimals(-(10**9), 10**9, places=2).map(str),
    st.sampled_from(["write:orders", "cancel_order", "offline:rules", "a4:1.0.3", "12.50 EUR"]),
)


@given(st.lists(OWN_THINGS, max_size=5), st.sampled_from([" ", "/", "-", "_", ":", ",", "@", ""]))
def test_ids_digests_times_and_amounts_are_never_masked(parts: list[str], between: str) -> None:
    text = between.join(parts)
    assert Masks().text(text) == text


# --- by value -------------------------------------------------------------------------------

KEY = "correct horse, battery"


def test_the_secrets_of_this_process_are_masked_wherever_they_occur() -> None:
    masks = Masks([KEY, '«masked»é"', "masked: API key", "short"])
    data = {
        f"a {KEY}": 1,
        "b": [f"x{KEY}{KEY}"],
        "c": '«masked»é"',
        "d": "short",
        "e": "masked: API key",
    }
    assert json.loads(masks.json(data)) == {
        f"a {OWN}": MASK,
        "b": [f"x{OWN}{OWN}"],
        "c": OWN,
        "d": "short",
        "e": OWN,
    }


def test_a_secret_goes_before_one_that_is_a_part_of_it() -> None:
    assert Masks([KEY[:10], KEY]).text(f"{KEY}, {KEY[:10]}!") == f"{OWN}, {OWN}!"


def test_a_secret_of_its_own_is_found_encoded_too() -> None:
    masks, secret = Masks(["env/Secret+Key=="]), "env/Secret+Key=="
    basic = base64.b64encode(f"user:{secret}".encode()).decode()
    said = masks.json({"e": f"?k={parse.quote(secret, safe='')}&n=1", "h": f"sent {basic}"})
    assert json.loads(said) == {"e": f"?k={OWN}&n=1", "h": f"sent {basic[:7]}{OWN}"}


def test_two_keys_that_become_the_same_are_both_kept() -> None:
    first, second = SHAPED["API key"][:2]
    mark = "«masked: API key»"
    data = {first: 1, mark: 2, second: {"x": 3}, "order": 4}
    assert json.loads(Masks().json(data)) == {
        mark: MASK,
        f"{mark} 2": MASK,
        f"{mark} 3": MASK,
        "order": 4,
    }


def test_what_only_the_harness_writes_cannot_be_blanked_by_an_argument() -> None:
    entry = {
        "tool": "cancel_order",
        "call": "call-123456",
        "digest": "d" * 64,
        "by": {"name": "ann.smith"},
        "reason": "cancel_order by ann.smith",
        "args": {"token": ["cancel_order", "call-123456", "d" * 64, "ann.smith"], "id": "A1"},
    }
    kept = json.loads(Masks().json(entry))
    assert kept == entry | {"reason": "«masked» by «masked»", "args": {"token": MASK, "id": "A1"}}


def test_a_configured_secret_is_not_broken_by_a_named_one() -> None:
    entry = {"text": f"{KEY} and horse, bat", "password": "horse, bat"}
    assert json.loads(Masks([KEY]).json(entry))["text"] == f"{OWN} and «masked»"


# --- always ---------------------------------------------------------------------------------

PIECES = [
    *(secret for _, secret in EACH),
    *MARKS,
    KEY,
    KEY[:7],
    *("«", "»", "-", "_", ".", ":", "@", "://", "/", " ", "\\", '"', "\n", "é", "x", "Z", "7"),
    *("sk-", "gsk_", "eyJ", "AKIA", "AIza", "ghp_", "xoxb-", "Bearer ", "-----BEGIN "),
    *("PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "https://a:b", "password"),
    *("password", "pin", "API key", "=", '": ', "'", "hunter22", "{", "}", "Basic ", "…"),
]
TEXT = st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
DATA = st.recursive(
    TEXT | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


def test_a_name_that_a_mark_makes_look_secret_is_masked_the_first_time() -> None:
    masks = Masks()
    once = masks.json({"password": "sunday-9-lamps", "seen": {"token sunday-9-lamps": "A1"}})
    assert json.loads(once)["seen"] == {"token «masked»": MASK}
    assert masks.json(json.loads(once)) == once


@given(st.dictionaries(TEXT, DATA, max_size=3))
@example(
    {
        "": {f"«masked: JSON web token»sk-{LETTERS}": ""},
        "-----BEGIN RSA PRIVATE KEY-----": f"sk-{LETTERS}",
    }
)
def test_masking_twice_is_masking_once(data: dict[str, Any]) -> None:
    masks = Masks([KEY, "configured", "password"])
    once = masks.json(data)
    assert masks.json(json.loads(once)) == once
    assert once == canonical_json(json.loads(once))


@given(TEXT, st.sampled_from(EACH), st.sampled_from([" ", ",", "\n", "'", "("]), TEXT)
def test_a_secret_between_anything_is_gone(
    before: str, secret: tuple[str, str], edge: str, after: str
) -> None:
    text = f"{before}{edge}{secret[1]}{edge}{after}"
    assert f"{edge}{secret[1]}{edge}" not in Masks().text(text)


@given(st.dictionaries(TEXT, DATA, max_size=3))
def test_the_cheap_look_at_an_entry_misses_nothing(data: dict[str, Any]) -> None:
    masks = Masks([KEY])

    def all_texts(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, item in value.items():
                yield key
                yield from all_texts(item)
        elif isinstance(value, list):
            for item in value:
                yield from all_texts(item)

    kept = json.loads(masks.json(data))
    assert all(masks.text(text) == text for text in all_texts(kept))


PARTS_OF_NAMES = [
    *("pass", "word", "PW", "d", "api", "Key", "to", "ken", "s", "se", "cret", "j", "wt"),
    *("p", "in", "coo", "kie", "au", "th", "or", "x", "7"),
    *("_", "-", " ", ".", "\u00b7", "\u212a", "\n", '"'),
]
NAME = st.lists(st.sampled_from(PARTS_OF_NAMES), min_size=1, max_size=5).map("".join)


@given(st.lists(st.tuples(NAME, st.sampled_from(["A1", "x=1", "lamp 77 lamp"])), max_size=3))
@example([("to\u212aen", "sunday-9-lamps")])
@example([("pa\u00b7ss", "sunday-9-lamps")])
@example([("pin", "771177")])
def test_where_nothing_may_be_named_secret_nothing_is(fields: list[tuple[str, str]]) -> None:
    data = {"args": dict(fields), "said": [f"{name}={value}" for name, value in fields]}
    if not may_name_a_secret(canonical_json(data)):
        assert without_secrets(data) == data
        assert masked_fields(canonical_json(data)) == canonical_json(data)
        assert not any(looks_secret(name) for name, _ in fields)


def test_the_entries_of_most_calls_name_nothing_secret() -> None:
    assert not may_name_a_secret('{"args":{"order_id":"A1"},"idempotency_key":"sayso-7f"}')


def test_every_mark_as_a_name_looks_secret() -> None:
    """So the value of a masked key is masked, and stays so when it is masked again."""
    assert all(looks_secret(mark) for mark in MARKS if mark != MASK)


# --- work -----------------------------------------------------------------------------------


PATTERNS = [
    *(pattern for shape in SHAPES for pattern in (shape.start, shape.pattern)),
    *(MARK, REST, OPENING, *CLOSING.values(), SCHEME, BARE, NO_PROSE, BRACKETS),
]


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.pattern[:12])
def test_no_pattern_can_go_back(pattern: re.Pattern[str]) -> None:
    """A repeat without a bound is possessive; what can go back goes back over few characters."""

    def repeats(tree: Any) -> Iterator[tuple[str, int]]:
        for name, argument in tree:
            if "REPEAT" in str(name):
                yield str(name), int(argument[1])
            for part in argument if isinstance(argument, tuple) else ():
                if isinstance(part, _parser.SubPattern):
                    yield from repeats(part)
                elif isinstance(part, list):
                    for branch in part:
                        yield from repeats(branch)

    for name, most in repeats(_parser.parse(pattern.pattern)):
        assert name == "POSSESSIVE_REPEAT" or most <= 40


HOSTILE = [
    *("eyJ", "-eyJ", "a", ".eyJaaaaaa", "eyJaaaaaa.", "sk-", "-sk-a", "AKIA", "AIza", "ghp_"),
    *("xoxb-", "Bearer ", "bearer a", "://a:b", "://a@", ":@", "-----BEGIN PRIVATE KEY-----\n"),
    *("-----BEGIN A B C PRIVATE ", "-----END ", "\\n", "«masked", "«masked»", "correct horse,"),
    *("password=", 'password="', "token:", "a-key ", "pin='\\", "key {", '"pin":{"a', "hunter2…"),
]


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("start", ["", "://a:", "-----BEGIN PRIVATE KEY-----"])
def test_long_hostile_text_takes_work_in_proportion(piece: str, start: str) -> None:
    """Work that grew with the square of these two megabytes would outlast any limit of a test."""
    masks, named = Masks([KEY]), {"password": [piece * 500, "hunter22"]}
    assert masks.json({"text": start + piece * (200_000 // len(piece))}, [named])
    assert masks.text(start + piece * (2_000_000 // len(piece)))


REPEATED = st.lists(st.sampled_from([*PIECES, *HOSTILE]), min_size=1, max_size=5).map("".join)


@given(REPEATED, st.text())
def test_any_repeated_text_does_too(piece: str, start: str) -> None:
    masks = Masks([KEY])
    text = start + piece * (100_000 // len(piece))
    once = masks.text(text)
    assert masks.text(once) == once


# --- in the store ---------------------------------------------------------------------------


def test_neither_trail_nor_export_holds_a_secret(fresh_url: FreshUrl) -> None:
    store = Store.open(fresh_url(), safeguards=Safeguards(secrets=[KEY]))
    session = new_session(store).id
    secrets = [KEY, *(secret for _, secret in EACH)]
    data = {
        "text": f"Use {' or '.join(secrets)}.",
        "args": {secret: [secret] for secret in secrets},
    }
    store.trail.append(session, [("note", data)])
    stored = canonical_json([*store.trail.export()]) + canonical_json(
        [entry.data for entry in store.trail.latest(9)]
    )
    store.close()
    for secret in secrets:
        assert canonical_json(secret)[1:-1] not in stored
    assert re.search(r"masked: configured secret", stored)


WORDS = st.sampled_from(
    [
        lambda secret: f"It is now {secret}.",
        lambda secret: f"{secret!r} is too long",
        lambda secret: f"sent {canonical_json({'x': [secret]})}",
        lambda secret: canonical_json({"password": secret}),
        lambda secret: f"You sent: {json.dumps({'api_key': secret}, indent=1)[:-4]}",
        lambda secret: f"login(token={secret.strip()!r:.40}…)",
        lambda secret: describe_call("login", {"password": secret, "again": secret}),
    ]
)
NAMED = st.builds(
    lambda name, user, deep: {"user": user, **({"in": [{name: "%"}]} if deep else {name: "%"})},
    st.sampled_from(["password", "api_key", "clientSecret", "pin"]),
    st.text(max_size=5),
    st.booleans(),
)


PART = st.text(st.characters(exclude_characters="«»%", exclude_categories=["Cs"]), min_size=4)


@given(
    st.builds("{}§{}".format, PART, PART),  # no word of ours has that sign
    NAMED,
    st.lists(WORDS, min_size=9, max_size=9),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_export_of_a_session_has_no_named_secret(
    store: Store, secret: str, args: dict[str, Any], words: list[Any]
) -> None:
    """Whatever the checks, the contract, the server and the people say about a call."""
    args = json.loads(canonical_json(args).replace('"%"', canonical_json(secret)))
    said = [word(secret) for word in words]
    session = new_session(store).id
    store.sessions.update(
        session, entry=("turn.started", {"text": said[0], "ordered": {"args": args}}), turn=1
    )
    store.trail.append(
        session,
        [
            ("call.refused", {"tool": "t", "args": args, "problem": said[1]}),
            (
                "call.refused",
                {"tool": "t", "args": {}, "problem": f"sent: {json.dumps(args)[:-2]}"},
            ),
            ("call.allowed", {"tool": "t", "args": args, "notes": [f"x: {said[2]} → {secret!r}"]}),
            ("mcp.log", {"data": json.dumps(without_secrets(said[3], args))}),
        ],
    )
    asked = ask(store, session, args=args, reason=said[4])
    rule = store.rules.add(session, asked.tool, f"only {secret}", {"user": {"equals": "u"}}, ANN)
    store.rules.revoke(rule.id, ANN)
    store.approvals.decide(asked.id, Decision("approve", message=said[5]), ANN)
    lease = store.leases.acquire(session, store.owner(), ttl=600)
    effect = store.ledger.begin(**write_of(lease, args=args, approval=asked.id)).effect
    store.ledger.finish(
        effect.id,
        attempt=1,
        state="in_doubt",
        result=None,
        evidence={"postcondition": {"summary": said[6], "record": {"now": secret}}},
    )
    finding = Finding(None, said[7], {"kept": secret})
    store.ledger.find(effect.id, attempt=1, finding=finding, result={})
    store.ledger.settle(effect.id, True, ANN, said[8])

    texts = list(_texts([entry["data"] for entry in store.trail.export(session)]))
    forms = {secret, secret.strip(), repr(secret)[1:-1], canonical_json(secret)[1:-1]}
    forms = {form for form in forms if len(form) >= 8}
    assert [text for text in texts if any(form in text for form in forms)] == []
    assert store.approvals.get(asked.id).args == args
    assert store.ledger.get(effect.id).args == args


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for key, item in value.items():
                yield from (key, *_texts(item))
