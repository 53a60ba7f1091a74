"""Why a verdict is what it is, what would change it, and the tests that stand in a file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agent.policy import Explanation, Policy, Proposed, Spent, explain, read_policy, run_cases
from agent.types import Authority
from tools.contract import Effects

SPEND: Effects = frozenset({"write:orders", "spend:eur"})
PAGE = """version: 1
rules:
  - {name: small, when: amount <= 50, verdict: allow}
  - {name: big, when: amount > 500, verdict: deny, message: No.}
  - {name: strange, when: 'provenance.to == "untrusted"', verdict: ask, remember: false}
"""


def explained(amount: str, origin: str = "user", **given: Any) -> Explanation:
    asked = Proposed(
        "pay", {"amount": amount, "to": "ana"}, SPEND, spent=Spent(),
        provenance={"to": origin, "amount": "user"}, **{"authority": Authority(("*",)), **given},
    )  # fmt: skip
    return explain(Policy(project=read_policy(PAGE)), asked)


def test_what_would_allow_a_call_is_named_with_the_values_now() -> None:
    found = explained("80.00")

    assert found.outcome.behavior == "ask"
    assert found.changes == (
        "It would be allowed if project/small matched: amount <= 50 [amount = 80].",
        "A person can approve it, once, or for the session.",
    )
    assert found.rules[1] == "project/big: deny, does not match: amount > 500 [amount = 80]"


def test_what_denies_is_named_and_what_would_be_without_it() -> None:
    found = explained("500.01")

    assert found.changes == (
        "It would be asked about if project/big did not match (amount > 500 [amount = 500.01]).",
    )
    assert "The model is told: No." in found.lines()


def test_what_asks_each_time_says_so() -> None:
    found = explained("5.00", origin="untrusted")

    assert found.outcome.rule == "project/strange"
    assert found.changes[0].startswith("It would be allowed if project/strange did not match (prov")
    assert found.changes[1] == "A person can approve it, each time anew."


def test_nothing_would_change_what_is_allowed() -> None:
    assert explained("5.00").changes == ()


def test_beyond_the_authority_only_granting_helps() -> None:
    found = explained("5.00", authority=Authority(("read:*",)))

    assert found.changes == ("Only granting it: sayso authority SESSION --grant EFFECT.",)


def test_a_rule_that_could_not_be_checked_says_why() -> None:
    found = explained("much")

    assert found.rules[0].startswith(
        "project/small: allow, could not be checked (amount cannot be read from the arguments)"
    )


def test_values_are_shortened_and_secrets_are_masked() -> None:
    page = 'version: 1\nrules: [{name: a, when: \'args.token == "x" || args.text == "y"\', '
    page += "verdict: deny}]"
    asked = Proposed(
        "t", {"token": "hush-hush-hush", "text": "long " * 100}, SPEND, Authority(("*",))
    )
    lines = explain(Policy(project=read_policy(page)), asked).rules

    assert "hush" not in lines[0]
    assert "…" in lines[0]
    assert len(lines[0]) < 300


def prepare(tool: str, args: Mapping[str, Any]) -> tuple[Mapping[str, Any], Effects]:
    if "amount" not in args:
        raise ValueError("amount is missing")
    return {**args, "urgent": False}, {"pay": SPEND}[tool]


@pytest.mark.parametrize(
    ("tool", "amount", "terms", "fault"),
    [
        ("pay", "5.00", "expect: allow, rule: small", ""),
        ("pay", "5.00", "expect: allow, rule: project/small", ""),
        ("pay", "5.00", "expect: ask", "expected ask, got allow by project/small: Rule 'small'"),
        ("pay", "500.01", "expect: deny, rule: small", "expected rule 'small', got 'project/big'"),
        ("pay", "80", "expect: allow, session: {always: true}", ""),
        ("pay", "80", "expect: ask, provenance: {to: untrusted}", ""),
        ("pay", "80", "expect: deny, grants: ['read:*'], rule: authority", ""),
        ("pay", None, "expect: ask", "amount is missing"),
        ("gone", "5", "expect: ask", "there is no tool gone here"),
        ("gone", "5", "expect: allow, effects: ['spend:eur']", ""),
    ],
)
def test_a_case_passes_or_says_what_came_instead(
    tool: str, amount: str | None, terms: str, fault: str
) -> None:
    args = {"to": "ana"} | ({"amount": amount} if amount else {})
    case = f"call: {{tool: {tool}, args: {json.dumps(args)}}}, {terms}"
    file = read_policy(f"{PAGE}tests:\n  - {{{case}}}\n")
    (result,) = run_cases(file, Policy(project=file), prepare)

    assert result.fault.startswith(fault) if fault else result.fault == ""
