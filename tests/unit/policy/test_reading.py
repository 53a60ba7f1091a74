"""A policy file's text: what is read, and every fault with its place and what to write."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from agent.errors import InvalidPolicy
from agent.policy import Catalogue, KnownTool, PolicyFile, read_call, read_policy
from agent.policy.reading import MOST_FAULTS, SIZE_LIMIT


def known(name: str, effects: list[str] | None, **arguments: str) -> KnownTool:
    schema = {
        "properties": {key: {"type": kind} for key, kind in arguments.items()},
        "additionalProperties": False,
    }
    return KnownTool(
        name,
        frozenset(effects) if effects is not None else None,
        lambda args: frozenset(effects or ["write:orders", "spend:eur"]),
        lambda: schema,
    )


TOOLS: Catalogue = {
    tool.name: tool
    for tool in (
        known("get_order", ["read:orders"], order_id="string"),
        known("refund_order", None, order_id="string", amount="string", urgent="boolean"),
        known("write_file", ["write:files"], path="string", size="integer"),
    )
}


def rules(*lines: str, above: str = "") -> str:
    """A file with rules, each a YAML flow map without its braces."""
    return f"version: 1\n{above}rules:\n" + "".join(f"  - {{{line}}}\n" for line in lines)


def read(text: str, catalogue: Catalogue | None = None) -> PolicyFile:
    return read_policy(text, "p.yaml", catalogue)


def faults(text: str, catalogue: Catalogue | None = None) -> tuple[str, ...]:
    with pytest.raises(InvalidPolicy) as caught:
        read(text, catalogue)
    assert caught.value.exit_code == 2
    return caught.value.faults


def test_a_whole_file() -> None:
    file = read(
        """\ufeff
version: 1
default: {reads: allow, writes: deny}
grants: ["read:*", "write:*"]
deny: write:secrets
elsewhere: jira_*
recipients:
  allow: ["*@example.com", "#general"]
  arguments: [to, channel]
  otherwise: deny
  remember: true
rules:
  - name: Big refunds
    tools: [refund_order, jira_*]
    effects: ["spend:*"]
    when: >-
      amount > 50 &&
      !("untrusted" in labels)
    verdict: ask
    message: Wait.
    reason: It is much.
    expires: 2h
    remember: false
tests:
  - name: first
    call: 'refund_order({"amount": "51.00"})'
    effects: [spend:eur]
    labels: private
    user: ana
    session: {counts: {refund_order: 2}, sums: {"spend:eur": 12.50}, always: true}
    provenance: {amount: user}
    grants: ["spend:*"]
    expect: ask
    rule: Big refunds
  - call:
      tool: write_file
      args: {path: "no", deep: [1, -2.5, true, false, null, text with words]}
    expect: deny
""",
        TOOLS,
    )
    (rule,) = file.rules
    assert (rule.name, rule.tools, rule.effects) == (
        "Big refunds", ("refund_order", "jira_*"), ("spend:*",)
    )  # fmt: skip
    assert (rule.verdict, rule.remember, rule.expires) == ("ask", False, timedelta(hours=2))
    assert rule.when is not None
    assert rule.when.source == 'amount > 50 && !("untrusted" in labels)'
    assert (file.reads, file.writes, file.denied) == ("allow", "deny", ("write:secrets",))
    assert file.recipients is not None
    assert (file.recipients.otherwise, file.recipients.remember) == ("deny", True)
    first, second = file.cases
    assert (first.tool, first.sums, first.always) == ("refund_order", {"spend:eur": "12.50"}, True)
    assert second.args == {
        "path": "no", "deep": [1, -2.5, True, False, None, "text with words"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "p.yaml:1:1: it is empty"),
        ("rules: []", "p.yaml:1:1: version: 1 is missing"),
        ("version: 2", "p.yaml:1:10: this program knows version: 1"),
        ("- a", "p.yaml:1:1: a policy has fields"),
        ("version: 1\nruls: []", "p.yaml:2:1: a policy has no field 'ruls'; did you mean rules?"),
        ("version: 1\nrules: {a: b}", "p.yaml:2:8: rules is a list"),
        ("version: 1\ndefault: {write: ask}", "p.yaml:2:11: default has no field 'write'; did"),
        ("version: 1\ngrants: [orders]", "p.yaml:2:9: 'orders' is no effect"),
        ("version: 1\ndeny: [spnd:eur]", "p.yaml:1:1: there are no effects spnd:…; did you mean s"),
        ("version: 1\nrecipients: {}", "p.yaml:2:13: allow is missing"),
        ("version: 1\nrecipients: {allow: ['a b']}", "'a b' cannot be used here"),
        ("version: 1\nrecipients: {allow: [x], otherwise: allow}", "write ask or deny"),
        (rules("verdict: ask"), "p.yaml:3:5: name is missing"),
        (rules("name: a"), "p.yaml:3:5: verdict is missing: allow, ask or deny"),
        (rules("name: a, verdict: aks"), "p.yaml:3:24: 'aks' is no verdict; did you mean ask?"),
        (rules("name: a, verdict: no"), "'no' is no verdict; write allow, ask or deny"),
        (rules("name: a, verdict: ask, wen: x"), "p.yaml:3:29: a rule has no field 'wen'; did you"),
        (rules("name: a/b, verdict: ask"), "no /"),
        (rules("name: a, verdict: ask", "name: a, verdict: deny"),
         "p.yaml:4:5: a rule is named 'a' already, in line 3"),
        (rules("name: a, verdict: ask, tools: 'refund_[ab]'"), "'refund_[ab]' cannot be used here"),
        (rules("name: a, verdict: ask, tools: []"), "an empty list matches nothing"),
        (rules("name: a, verdict: allow, effects: []"), "an empty list matches nothing"),
        ("version: 1\nrecipients: {allow: [x], arguments: []}", "p.yaml:2:37: an empty list names"),
        (rules("name: a, verdict: ask, tools: ''"), "a text is expected here; it is empty"),
        (rules("name: a, verdict: ask, effects: 'write:[a]'"), "is no effect"),
        (rules("name: a, verdict: ask, effects: [wirte:files]"), "did you mean write:…?"),
        (rules("name: a, verdict: ask, remember: yes"), "p.yaml:3:39: write true or false"),
        (rules("name: a, verdict: ask, remember: 'true'"), "write true or false"),
        (rules("name: a, verdict: deny, remember: true"), "a rule that says deny has no use for"),
        (rules("name: a, verdict: ask, expires: 2 hours"), "'2 hours' is no time; write 30m, 2h"),
        (rules("name: a, verdict: ask, expires: 0h"), "is no time"),
        (rules("name: a, verdict: ask, when: amuont > 3"), "p.yaml:3:35: there is no field amuont"),
        (rules("name: a, verdict: ask, when: user == 'x' && amuont > 3"), "p.yaml:3:50: there is"),
        (rules("name: a, verdict: ask, when: [x]"), "a text is expected here"),
        ("version: 1\ntests: [{expect: ask}]", "call is missing"),
        ("version: 1\ntests: [{call: 't()'}]", "expect is missing"),
        ("version: 1\ntests: [{call: 't({a: 1})', expect: ask}]", "one JSON object"),
        ("version: 1\ntests: [{call: t, expect: ask, labels: odd}]", "there is no label 'odd'"),
        ("version: 1\ntests: [{call: t, expect: ask, provenance: {a: usr}}]", "did you mean user?"),
        ("version: 1\ntests: [{call: {tool: t, args: {a: no}}, expect: ask}]", "in two ways"),
        ("version: 1\ntests: [{call: {tool: t, args: {a: 0123}}, expect: ask}]", "in two ways"),
        ("version: 1\ntests: [{call: t, expect: ask, session: {counts: {t: -1}}}]", "whole number"),
        ("version: 1\ntests: [{call: t, expect: ask, session: {sums: {t: 1e3}}}]", "an amount is"),
    ],
)  # fmt: skip
def test_a_fault_names_its_place_and_what_to_write(text: str, fault: str) -> None:
    assert any(fault in line for line in faults(text)), faults(text)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("tools: refund_ordr", "no tool is called refund_ordr (did you mean refund_order?)"),
        ("tools: 'jira_*'", "no tool is called jira_*"),
        ("tools: get_order, effects: write:files", "never matches write:files: its tools have re"),
        ("tools: refund_order, when: args.amuont == '5'", "an argument amuont; did you mean"),
        ("tools: refund_order, when: provenance.amuont == 'user'", "has an argument amuont"),
        ("tools: refund_order, when: args.amount <= 50", "the exact amount of a call is amount"),
        ("tools: refund_order, when: args.amount == 50", "is text, and it is compared with a numb"),
        ("tools: refund_order, when: args.urgent == 'yes'", "args.urgent is neither text nor a nu"),
        ("tools: refund_order, when: tool", "neither true nor false"),
        ("when: \"session.counts['refund_ordr'] > 2\"", "no tool is called refund_ordr"),
        ("when: \"session.sums['eur'] > 2\"", "sums are kept by effect"),
        ("when: amount > '50'", "another type"),
        ("when: tool == 'refund_ordr'", "no tool is called refund_ordr (did you mean refund_order"),
        ("when: \"tool in ['get_order', 'refund_ordr']\"", "no tool is called refund_ordr"),
        ("when: '\"spnd:eur\" in effects'", "there are no effects spnd:…; did you mean spend:…?"),
        ("when: labels == 'untrusted'", "labels is neither text nor a number"),
    ],
)  # fmt: skip
def test_a_rule_that_can_never_match_or_be_checked_is_a_fault(rule: str, fault: str) -> None:
    text = rules(f"name: a, verdict: ask, {rule}")
    (found,) = faults(text, TOOLS)
    assert found.startswith("p.yaml:3:5: ")
    assert fault in found


@pytest.mark.parametrize(
    "rule",
    [
        "tools: '*', when: args.amount == '50'",  # of one of them
        "tools: refund_order, when: has(args.amount) && args.amount == '50'",
        "tools: write_file, when: args.size > 5",
        "tools: refund_order, effects: 'spend:*'",  # which it has depends on the arguments
        "tools: jira_close, when: args.anything == 5",
        "when: args.path.startsWith('x')",
        "effects: 'write:*'",
        "effects: 'admin:*'",
    ],
)
def test_a_rule_that_some_call_can_match_is_none(rule: str) -> None:
    read(rules(f"name: a, verdict: ask, {rule}", above="elsewhere: jira_*\n"), TOOLS)


def test_rules_that_contradict_each_other_are_named_and_do_not_stop_anything() -> None:
    file = read(
        rules(
            "name: a, verdict: allow, tools: [x, y], when: amount > 5",
            "name: b, verdict: ask, tools: [y, x], when: amount  >  5",
            "name: c, verdict: ask, tools: [y, x], when: amount > 6",
        )
    )
    (warning,) = file.warnings
    assert warning.startswith("p.yaml:4:5: 'b' says ask of the same calls")
    assert "the more restrictive one wins" in warning


def test_all_faults_are_found_at_once_and_a_long_list_is_cut() -> None:
    found = faults(rules(*[f"name: a{n}, verdict: no" for n in range(50)]))
    assert len(found) == MOST_FAULTS + 1
    assert found[-1] == "p.yaml: and 30 more"


def test_a_file_that_is_too_large_is_not_parsed() -> None:
    (fault,) = faults("version: 1\n#" + "x" * SIZE_LIMIT)
    assert "larger than 4096 KiB" in fault


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("get_order", ("get_order", {})),
        ("get_order()", ("get_order", {})),
        (' get_order ( {"a": [1, "(x)"]} ) ', ("get_order", {"a": [1, "(x)"]})),
    ],
)
def test_a_call_is_read(text: str, call: tuple[str, Mapping[str, Any]]) -> None:
    assert read_call(text) == call


@pytest.mark.parametrize(
    "text",
    ["", "a b()", "f(", "f([1])", "f({'a': 1})", 'f({"a": 1, "a": 2})', "f(" + "[" * 100_000 + ")"],
)
def test_what_is_no_call_is_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"a call is written as|one JSON object|given twice"):
        read_call(text)


def test_a_file_that_is_nothing_but_faults_is_not_read_to_its_end() -> None:
    many = rules(*(f"nam: r{number}" for number in range(1_000)))

    assert len(faults(many)) == MOST_FAULTS + 1
    assert faults(many)[-1].startswith("p.yaml: and at least 48")


def test_a_file_of_too_many_values_is_not_read() -> None:
    (fault,) = faults("version: 1\nelsewhere: [" + "a," * 600_000 + "]")

    assert "more than 500,000 values" in fault


def test_patterns_that_take_too_long_all_together_are_a_fault() -> None:
    slow = [
        f"name: r{n}, when: 'args.a.matches(r\"\\w{{60}}{n}\")', verdict: deny" for n in range(400)
    ]

    assert any("too long all together" in fault for fault in faults(rules(*slow)))
    assert read(rules(*slow[:100])).rules


def test_a_rule_that_another_one_always_outdoes_is_named() -> None:
    file = read(
        rules(
            "name: nothing, tools: '*', verdict: deny",
            "name: but reads, tools: get_*, verdict: allow",
            "name: and small, tools: refund_order, when: amount < 5, verdict: ask",
        )
    )
    assert [warning.partition(" says deny")[0] for warning in file.warnings] == [
        "p.yaml:4:5: 'but reads' says allow and never counts: 'nothing' (line 3)",
        "p.yaml:5:5: 'and small' says ask and never counts: 'nothing' (line 3)",
    ]


@pytest.mark.parametrize(
    "other",
    [
        "name: a, tools: get_order, verdict: deny",
        "name: a, tools: 'refund_?rder', verdict: allow",
        "name: a, tools: '*', effects: 'spend:*', verdict: deny",
        "name: a, tools: '*', when: amount > 5, verdict: deny",
        "name: a, tools: refund_order, when: amount > 5, verdict: ask",
    ],
)
def test_a_rule_that_may_count_is_not_named(other: str) -> None:
    assert (
        read(rules(other, "name: b, tools: [refund_order, get_*], verdict: allow")).warnings == ()
    )
