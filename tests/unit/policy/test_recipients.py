"""Recipients: who is on the list, however a text tries to look like it."""

from __future__ import annotations

from typing import Any

import pytest

from agent.policy import Policy, Proposed, always, decide, read_policy
from agent.policy.document import Place
from agent.policy.model import Recipients
from agent.policy.recipients import strangers
from agent.types import Authority

KNOWN = Recipients(("*@example.com", "ann@partner.example", "#general"), Place(1, 1))


@pytest.mark.parametrize(
    "value",
    [
        "bob@example.com",
        "Bob <bob@example.com>",
        "bob@EXAMPLE.com",
        "ann@partner.example",
        "bob@example.com, ann@partner.example",
        ["bob@example.com", "#general"],
        "#general",
    ],
)
def test_on_the_list(value: Any) -> None:
    assert strangers(KNOWN, {"to": value}) == []


@pytest.mark.parametrize(
    "value",
    [
        "eve@evil.example",
        "bob@example.com, eve@evil.example",
        "bob@example.com; eve@evil.example",
        "bob@example.com eve@evil.example",
        "bob@example.com <eve@evil.example>",
        '"bob@example.com" <eve@evil.example>',
        "eve@evil.example (bob@example.com)",
        "bob@example.com\r\nBcc: eve@evil.example",
        "eve@evil.example@example.com",
        "bob@example.com.evil.example",
        "bob@sub.example.com",
        "bob@examp1e.com",
        "bob@еxample.com",
        "Ann@partner.example",
        "@example.com",
        "(" * 5_000 + "bob@example.com",
        "bob@example.com," * 10_000,
        ["bob@example.com"] * 1_001,
        [[[[[[[[[[["bob@example.com"]]]]]]]]]]],
        "general",
        "#General",
        "",
        None,
        [],
        7,
        {"address": "bob@example.com"},
        ["bob@example.com", "eve@evil.example"],
        [["bob@example.com"], {"a": 1}],
    ],
)
def test_not_on_the_list(value: Any) -> None:
    assert strangers(KNOWN, {"to": value})


def test_each_argument_that_holds_recipients_counts() -> None:
    assert strangers(KNOWN, {"to": "bob@example.com", "bcc": "eve@evil.example"})
    assert strangers(KNOWN, {"body": "bob@example.com"})
    named = Recipients(("*",), Place(1, 1), arguments=("channel",))
    assert strangers(named, {"channel": "#x", "to": "eve@evil.example"}) == []
    assert strangers(named, {"channel": "eve@evil.example"})


@pytest.mark.parametrize(
    ("terms", "to", "expected"),
    [
        ("", "bob@example.com", "allow"),
        ("", "eve@evil.example", "ask"),
        ("otherwise: deny", "eve@evil.example", "deny"),
        ("remember: true", "eve@evil.example", "allow"),
    ],
)
def test_a_call_that_discloses_is_held_against_the_list(terms: str, to: str, expected: str) -> None:
    text = f"version: 1\nrecipients:\n  allow: ['*@example.com']\n  {terms}\n"
    rules = "rules: [{name: mails, effects: 'disclose:*', verdict: allow}]"
    listed, allowing = read_policy(text), read_policy(f"version: 1\n{rules}")
    for policy in (Policy(listed, allowing), Policy(read_policy(text + rules))):
        asked = Proposed(
            "send", {"to": to}, frozenset({"disclose:email"}), Authority(("*",)),
            rules=[always("send")],
        )  # fmt: skip
        outcome = decide(policy, asked)
        assert outcome.behavior == expected
        if expected != "allow":
            assert outcome.rule == "organisation/recipients"
            assert to in outcome.reason


def test_other_calls_are_not() -> None:
    listed = read_policy("version: 1\nrecipients: {allow: [x], otherwise: deny}")
    asked = Proposed("send", {"to": "y"}, frozenset({"write:files"}))
    assert decide(Policy(listed), asked).behavior == "ask"
