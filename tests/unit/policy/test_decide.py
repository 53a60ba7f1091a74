"""From rules to a verdict: layers, strictness, what cannot be checked; whatever the order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.policy import Outcome, Policy, PolicyFile, Proposed, Spent, always, decide, read_policy
from agent.policy.model import STRICTNESS
from agent.store.records import EffectRecord
from agent.types import Authority, Behavior
from tools.contract import Effects

READ: Effects = frozenset({"read:orders"})
WRITE: Effects = frozenset({"write:orders"})
SPEND: Effects = frozenset({"write:orders", "spend:eur"})


def file(*rules: str, above: str = "", name: str = "p.yaml") -> PolicyFile:
    """A policy file of rules, each a YAML flow map without braces and name."""
    lines = [f"  - {{name: r{n}, {rule}}}\n" for n, rule in enumerate(rules)]
    return read_policy(f"version: 1\n{above}\nrules:\n{''.join(lines)}", name)


def call(effects: Effects = WRITE, **given: Any) -> Proposed:
    given = {"tool": "act", "args": {}, "authority": Authority(("*",)), "spent": Spent(), **given}
    return Proposed(effects=effects, provenance={}, **given)


def verdict(organisation: PolicyFile | None, project: PolicyFile | None, asked: Proposed) -> str:
    return decide(Policy(organisation, project), asked).behavior


# --- without files ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effects", "behavior", "rule"),
    [(READ, "allow", "reads"), (WRITE, "ask", "writes"), (frozenset(), "ask", "writes")],
)
def test_without_a_word_reads_are_allowed_and_writes_are_asked(
    effects: Effects, behavior: str, rule: str
) -> None:
    outcome = decide(Policy(), call(effects))
    assert (outcome.behavior, outcome.rule) == (behavior, rule)


def test_what_was_not_granted_is_denied_before_any_rule() -> None:
    allowing = Policy(project=file("verdict: allow"))
    outcome = decide(allowing, call(authority=Authority(("read:*",)), rules=[always("act")]))

    assert (outcome.behavior, outcome.rule) == ("deny", "authority")
    assert "write:orders" in outcome.reason


# --- one file --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "effects", "expected"),
    [
        (["verdict: allow"], WRITE, "allow"),
        (["verdict: allow", "verdict: ask"], WRITE, "ask"),
        (["verdict: allow", "verdict: ask", "verdict: deny"], WRITE, "deny"),
        (["verdict: deny, tools: other"], WRITE, "ask"),
        (["verdict: deny, tools: 'a*t'"], WRITE, "deny"),
        (["verdict: deny, tools: 'A*t'"], WRITE, "ask"),
        (["verdict: deny, effects: ['spend:*']"], WRITE, "ask"),
        (["verdict: deny, effects: ['spend:*']"], SPEND, "deny"),
        (["verdict: allow, effects: ['write:*']"], SPEND, "ask"),
        (["verdict: allow, effects: ['write:*', 'spend:eur']"], SPEND, "allow"),
        (["verdict: allow, effects: ['write:*']"], WRITE | READ, "allow"),
        (["verdict: allow, effects: ['write:*']"], frozenset(), "ask"),
        (["verdict: ask"], READ, "ask"),
        (["verdict: deny, when: 'tool == \"act\"'"], READ, "deny"),
    ],
)
def test_the_most_restrictive_rule_that_matches_counts(
    rules: list[str], effects: Effects, expected: str
) -> None:
    assert verdict(None, file(*rules), call(effects)) == expected
    assert verdict(file(*rules), None, call(effects)) == expected


def test_the_default_of_a_file_holds_where_none_of_its_rules_matches() -> None:
    strict = file("verdict: ask, tools: act", above="default: {writes: deny, reads: ask}")

    assert verdict(strict, None, call()) == "ask"
    assert verdict(strict, None, call(tool="other")) == "deny"
    assert verdict(strict, None, call(READ, tool="other")) == "ask"


def test_grants_and_deny_of_a_file_are_beyond_every_rule() -> None:
    allowing = file("verdict: allow")
    granting = file(above='grants: ["read:*", "write:*"]\ndeny: ["write:secrets"]')

    assert verdict(granting, allowing, call()) == "allow"
    for effects in (SPEND, frozenset({"write:secrets"})):
        outcome = decide(Policy(granting, allowing), call(effects, rules=[always("act")]))
        assert (outcome.behavior, outcome.rule) == ("deny", "organisation/grants")


# --- two files -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("organisation", "project", "expected"),
    [
        ("", "rules: [{name: a, verdict: allow}]", "allow"),
        ("default: {writes: ask}", "rules: [{name: a, verdict: allow}]", "ask"),
        ("default: {writes: allow}", "default: {writes: ask}", "ask"),
        ("rules: [{name: a, verdict: allow}]", "", "allow"),
        ("rules: [{name: a, verdict: allow}]", "default: {writes: ask}", "ask"),
        ("rules: [{name: a, verdict: ask}]", "rules: [{name: a, verdict: allow}]", "ask"),
        ("rules: [{name: a, verdict: ask}]", "rules: [{name: a, verdict: deny}]", "deny"),
        ("rules: [{name: a, verdict: deny}]", "rules: [{name: a, verdict: allow}]", "deny"),
        ("default: {reads: allow}", "rules: [{name: a, verdict: allow}]", "allow"),
    ],
)
def test_a_project_tightens_what_the_organisation_says_and_never_loosens_it(
    organisation: str, project: str, expected: str
) -> None:
    above, below = (read_policy(f"version: 1\n{text}") for text in (organisation, project))
    assert verdict(above, below, call()) == expected


# --- the session's rules ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("verdict: ask", "allow"),
        ("verdict: ask, remember: false", "ask"),
        ("verdict: deny", "deny"),
        ("verdict: allow", "allow"),
        ("verdict: ask, when: args.missing == 1", "ask"),
        ("verdict: ask, tools: other, remember: false", "allow"),
    ],
)
def test_always_turns_ask_into_allow_unless_a_rule_that_asks_says_otherwise(
    rule: str, expected: str
) -> None:
    asked = call(rules=[always("act")])
    assert verdict(file(rule), None, asked) == expected
    assert verdict(None, file(rule), asked) == expected


def test_always_covers_its_tool_its_version_and_its_scope() -> None:
    rule = always("act").model_copy(
        update={"scope_args": {"to": {"equals": "ana"}}, "tool_version": "2"}
    )
    for version, args, expected in [
        ("2", {"to": "ana"}, "allow"),
        ("1", {"to": "ana"}, "ask"),
        ("2", {"to": "eve"}, "ask"),
    ]:
        asked = call(rules=[rule], version=version, args=args)
        assert verdict(None, None, asked) == expected


def test_a_call_that_was_committed_in_an_ancestor_is_asked_whatever_allows_it() -> None:
    earlier = EffectRecord(
        id="e-1", session="s-1", turn=1, message="m", call="c", tool="act", args={}, digest="d",
        state="committed", idempotency_key="k", ended_at="then",
    )  # fmt: skip
    asked = call(earlier=earlier, rules=[always("act")])
    outcome = decide(Policy(project=file("verdict: allow")), asked)

    assert (outcome.behavior, outcome.rule, outcome.remember) == ("ask", "repeats", False)
    assert "e-1" in outcome.reason
    assert verdict(None, file("verdict: deny"), asked) == "deny"


# --- what cannot be checked ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        (["verdict: allow, when: args.missing == 1"], "ask"),
        (["verdict: ask, when: args.missing == 1"], "ask"),
        (["verdict: deny, when: args.missing == 1"], "deny"),
        (["verdict: allow", "verdict: allow, when: args.missing == 1"], "ask"),
        (["verdict: deny", "verdict: ask, when: args.missing == 1"], "deny"),
    ],
)
def test_a_rule_that_cannot_be_checked_only_restricts(rules: list[str], expected: str) -> None:
    outcome = decide(Policy(project=file(*rules)), call())

    assert outcome.behavior == expected
    if "missing" in rules[-1] and expected != "deny":
        assert "could not be checked: there is no missing in this call" in outcome.reason
        assert not outcome.remember


@pytest.mark.parametrize("what", ["allow", "ask"])
def test_it_does_not_hide_a_default_that_denies(what: str) -> None:
    strict = file(f"verdict: {what}, when: args.missing == 1", above="default: {writes: deny}")

    assert verdict(strict, None, call()) == "deny"


@pytest.mark.parametrize(
    "when",
    [
        'session.counts["act"] < 3',
        "total < 5",
        'provenance.to == "user"',
        '!provenance.exists(one, provenance[one] == "untrusted")',
    ],
)
def test_what_the_caller_does_not_know_cannot_be_checked(when: str) -> None:
    allowing = Policy(project=file(f"verdict: allow, when: '{when}'"))
    asked = Proposed(
        "act", {"to": "x", "amount": "1.00"}, SPEND, Authority(("*",)), spent=None, provenance=None
    )
    assert decide(allowing, asked).behavior == "ask"
    known = Proposed(
        "act", {"to": "x", "amount": "1.00"}, SPEND, Authority(("*",)), spent=Spent(),
        provenance={"to": "user"},
    )  # fmt: skip
    assert decide(allowing, known).behavior == "allow"


def test_a_policy_says_what_it_looks_at_so_that_no_more_is_found_out() -> None:
    policy = Policy(
        file("verdict: ask, tools: act, when: total > 5"),
        file("verdict: ask, tools: 'a*', when: 'provenance.to == \"user\"'", "verdict: ask"),
    )
    assert policy.looks_at("act") == {"total", "provenance"}
    assert policy.looks_at("add") == {"provenance"}
    assert policy.looks_at("other") == frozenset()


# --- what comes with a verdict ---------------------------------------------------------------


def test_the_reasons_and_terms_of_all_rules_that_ask_are_given() -> None:
    policy = Policy(
        file("verdict: ask, reason: One., expires: 2h, message: Wait."),
        file("verdict: ask, reason: Two., expires: 30m", "verdict: allow, reason: Not this."),
    )
    outcome = decide(policy, call())

    assert (outcome.rule, outcome.reason) == ("organisation/r0", "One. Two.")
    assert (outcome.message, outcome.expires) == ("Wait.", timedelta(minutes=30))
    assert outcome.remember


def test_a_rule_without_words_names_itself_its_line_and_its_condition() -> None:
    outcome = decide(Policy(project=file("verdict: deny, when: 'tool == \"act\"'")), call())

    assert outcome.reason == "Rule 'r0' (p.yaml:4) denies this: tool == \"act\"."


def test_limits_count_what_the_session_has_done() -> None:
    limited = file(
        "verdict: deny, when: 'session.counts[\"act\"] >= 2 || total > 100'", "verdict: allow"
    )

    def after(count: int, spent: str, amount: str) -> str:
        done = Spent({"act": count}, {"spend:eur": Decimal(spent)})
        return verdict(None, limited, call(SPEND, args={"amount": amount}, spent=done))

    assert after(1, "99.99", "0.01") == "allow"
    assert after(1, "99.99", "0.02") == "deny"
    assert after(2, "0", "0.01") == "deny"


# --- whatever the rules ----------------------------------------------------------------------

behaviors = st.sampled_from(["allow", "ask", "deny"])
conditions = st.sampled_from(
    ["", ", when: 'tool == \"act\"'", ", when: 'tool == \"other\"'", ", when: args.missing == 1"]
)
about = st.sampled_from(["", ", tools: act", ", tools: 'a*'", ", tools: other",
                         ", effects: ['spend:*']", ", effects: ['write:*']"])  # fmt: skip


@st.composite
def rule_texts(draw: st.DrawFn) -> str:
    behavior = draw(behaviors)
    remember = draw(st.sampled_from(["", ", remember: false"])) if behavior == "ask" else ""
    return f"verdict: {behavior}{remember}{draw(about)}{draw(conditions)}"


rule_lists = st.lists(rule_texts(), max_size=6)
defaults = st.sampled_from(["", *(f"default: {{writes: {b}}}" for b in ("allow", "ask", "deny"))])
calls = st.builds(
    call,
    st.sampled_from([READ, WRITE, SPEND]),
    rules=st.sampled_from([[], [always("act")]]),
)


def shuffled(rules: Sequence[str], seed: int) -> PolicyFile:
    """The same rules with the same names in another order."""
    lines = [f"  - {{name: r{n}, {rule}}}\n" for n, rule in enumerate(rules)]
    random.Random(seed).shuffle(lines)
    return read_policy(f"version: 1\nrules:\n{''.join(lines)}", "p.yaml")


def said(outcome: Outcome) -> tuple[object, ...]:
    return outcome.behavior, outcome.rule, outcome.remember, outcome.message, outcome.expires


@given(rules=rule_lists, asked=calls, seed=st.integers(0, 1_000))
def test_the_order_of_rules_never_matters(rules: list[str], asked: Proposed, seed: int) -> None:
    for policy, other in [
        (Policy(file(*rules)), Policy(shuffled(rules, seed))),
        (Policy(project=file(*rules)), Policy(project=shuffled(rules, seed))),
    ]:
        assert said(decide(policy, asked)) == said(decide(other, asked))


@given(above=rule_lists, default=defaults, below=rule_lists, low=defaults, asked=calls)
def test_a_lower_file_never_loosens_what_a_higher_one_says(
    above: list[str], default: str, below: list[str], low: str, asked: Proposed
) -> None:
    organisation, project = file(*above, above=default), file(*below, above=low)
    alone = decide(Policy(organisation), asked)
    both = decide(Policy(organisation, project), asked)

    if alone.rule not in ("reads", "writes"):  # the organisation has said something
        assert STRICTNESS[both.behavior] >= STRICTNESS[alone.behavior]


@given(above=rule_lists, default=defaults, below=rule_lists, more=rule_texts(), asked=calls)
def test_a_rule_more_in_the_lower_file_never_goes_below_the_higher_one(
    above: list[str], default: str, below: list[str], more: str, asked: Proposed
) -> None:
    organisation = file(*above, above=default)
    alone = decide(Policy(organisation), asked)
    more_below = decide(Policy(organisation, file(*below, more)), asked)
    if alone.rule not in ("reads", "writes"):
        assert STRICTNESS[more_below.behavior] >= STRICTNESS[alone.behavior]


@given(rules=rule_lists, more=rule_texts(), asked=calls)
def test_a_rule_more_that_does_not_allow_never_loosens_without_a_default(
    rules: list[str], more: str, asked: Proposed
) -> None:
    if "verdict: allow" not in more:
        before, after = (decide(Policy(file(*r)), asked) for r in (rules, [*rules, more]))
        assert STRICTNESS[after.behavior] >= STRICTNESS[before.behavior]


@given(above=rule_lists, below=rule_lists, asked=calls)
def test_an_always_rule_turns_ask_into_allow_and_nothing_else(
    above: list[str], below: list[str], asked: Proposed
) -> None:
    policy = Policy(file(*above), file(*below))
    plain = decide(policy, Proposed(**{**vars(asked), "rules": []}))
    remembered = decide(policy, Proposed(**{**vars(asked), "rules": [always("act")]}))

    expected: Behavior = plain.behavior
    if plain.behavior == "ask" and plain.remember:
        expected = "allow"
    assert remembered.behavior == expected


def test_ten_thousand_rules_about_other_tools_are_not_looked_at() -> None:
    text = "version: 1\nrules:\n" + "".join(
        f"  - {{name: r{n}, tools: tool_{n}, verdict: deny, when: args.n > {n}}}\n"
        for n in range(10_000)
    )
    policy = Policy(read_policy(text))
    outcome = decide(policy, call(tool="tool_77", args={"n": 77}))

    assert [found.name for found in outcome.findings] == ["organisation/r77"]
    assert outcome.behavior == "ask"
