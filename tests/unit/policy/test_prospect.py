"""What a call would get before its arguments are known: it covers what each call does get."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.policy import Policy, Proposed, Prospect, Spent, decide, prospect, read_policy
from agent.policy.globs import is_part_of, matches, overlap
from agent.store.records import RuleRecord
from agent.types import Authority
from tools.contract import Effects

PAY: Effects = frozenset({"write:bank", "spend:???"})
SEND: Effects = frozenset({"write:mail", "disclose:email.*"})
READ: Effects = frozenset({"read:files"})


def page(*rules: str, head: str = "") -> Policy:
    lines = [f"  - {{name: r{number}, {rule}}}" for number, rule in enumerate(rules)]
    return Policy(read_policy("\n".join(["version: 1", head, "rules:", *lines])))


def looked(
    policy: Policy, reach: Effects | None, authority: Authority | None = None, **fields: Any
) -> Prospect:
    call = Proposed(
        "act", {}, frozenset(), authority=authority or Authority(("*",)), spent=Spent(), **fields
    )
    return prospect(policy, call, reach)


@pytest.mark.parametrize(
    ("reach", "authority", "verdicts", "by"),
    [
        (READ, Authority(), ("allow",), "reads"),
        (PAY, Authority(), ("deny",), "authority"),
        (PAY, Authority(("write:*", "spend:*")), ("ask",), "writes"),
        (PAY, Authority(("write:*", "spend:eur")), ("ask", "deny"), "authority"),
        (SEND, Authority(denied=("disclose:email.*@evil.example",)), ("ask", "deny"), "authority"),
        (SEND, Authority(denied=("disclose:*",)), ("deny",), "authority"),
        (None, Authority(), ("allow", "ask", "deny"), "authority, effects"),
        (None, Authority(("*",)), ("allow", "ask"), "effects"),
        (None, Authority(()), ("deny",), "authority"),
    ],
)
def test_what_is_granted_of_a_family_may_be_all_some_or_none_of_it(
    reach: Effects | None, authority: Authority, verdicts: tuple[str, ...], by: str
) -> None:
    found = looked(Policy(), reach, authority)

    assert found.verdicts == verdicts
    assert (found.rule or ", ".join(found.hinges_on)) == by


@pytest.mark.parametrize(
    ("rules", "reach", "verdicts", "by"),
    [
        (["tools: act, verdict: deny"], PAY, ("deny",), "organisation/r0"),
        (["effects: 'spend:*', verdict: deny"], PAY, ("deny",), "organisation/r0"),
        (["effects: 'spend:eur', verdict: deny"], PAY, ("ask", "deny"), "organisation/r0"),
        (["effects: 'write:bank', verdict: allow"], PAY, ("ask",), "writes"),
        (["effects: ['write:*', 'spend:*'], verdict: allow"], PAY, ("allow",), "organisation/r0"),
        (["when: args.n == 1, verdict: allow"], PAY, ("allow", "ask"), "organisation/r0"),
        (["when: args.n == 1, verdict: ask"], PAY, ("ask",), "writes"),
        (["when: args.n == 1, verdict: deny", "verdict: deny"], PAY, ("deny",), "organisation/r1"),
        (["when: args.n == 1, verdict: deny"], READ, ("allow", "deny"), "organisation/r0"),
        (["when: args.n == 1, verdict: allow"], READ, ("allow", "ask"), "organisation/r0"),
        (["when: '\"private\" in labels', verdict: deny"], READ, ("allow",), "reads"),
        (["when: 'session.counts[\"act\"] > 2', verdict: deny"], READ, ("allow",), "reads"),
        (["when: amount > 5, verdict: deny"], READ, ("deny",), "organisation/r0"),
        (["when: 'amount != null && amount > 5', verdict: deny"], READ, ("allow",), "reads"),
    ],
)  # fmt: skip
def test_rules_are_followed_both_ways_where_the_arguments_matter(
    rules: list[str], reach: Effects, verdicts: tuple[str, ...], by: str
) -> None:
    found = looked(page(*rules), reach)

    assert found.verdicts == verdicts
    assert (found.rule or ", ".join(found.hinges_on)) == by


def test_an_always_answer_lets_run_what_it_covers() -> None:
    whole = RuleRecord(
        id="r-1", session="s", tool="act", scope="all", scope_args={}, created_by="ana",
        created_at="",
    )  # fmt: skip
    part = whole.model_copy(update={"scope_args": {"n": {"equals": 1}}})

    assert looked(Policy(), PAY, rules=[whole]).verdicts == ("allow",)
    assert looked(Policy(), PAY, rules=[whole]).rule == "r-1"
    assert looked(Policy(), PAY, rules=[part]).verdicts == ("allow", "ask")
    firm = page("verdict: ask, remember: false")
    assert looked(firm, PAY, rules=[whole]).verdicts == ("ask",)


# --- whatever the files say, no call gets what was not foreseen --------------------------------

_WORDS = ("spend:eur", "spend:usd", "spend:*", "write:bank", "write:*", "read:*", "*")
patterns = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=2)
conditions = st.sampled_from(
    ["args.n == 1", "amount > 5", '"private" in labels', 'currency == "EUR"', "total > 5",
     'session.counts["act"] >= 1', 'user == "ana"', "args.gone == 1", '"spend:eur" in effects']
)  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> str:
    lines = ["version: 1"]
    for field in ("grants", "deny"):
        if draw(st.integers(0, 4)) == 0:
            lines.append(f"{field}: {draw(patterns)}")
    if draw(st.booleans()):
        verdicts = st.sampled_from(["allow", "ask", "deny"])
        lines.append(f"default: {{reads: {draw(verdicts)}, writes: {draw(verdicts)}}}")
    lines.append("rules:")
    for number in range(draw(st.integers(0, 4))):
        verdict = draw(st.sampled_from(["allow", "ask", "deny"]))
        lines.append(f"  - name: r{number}\n    verdict: {verdict}")
        if draw(st.booleans()):
            lines.append(f"    effects: {draw(patterns)}")
        if draw(st.booleans()):
            lines.append(f"    when: '{draw(conditions)}'")
        if verdict == "ask" and draw(st.booleans()):
            lines.append("    remember: false")
    return "\n".join(lines)


calls = st.sampled_from(
    [
        (PAY, frozenset({"write:bank", "spend:eur"}), {"n": 1, "amount": "10.00"}),
        (PAY, frozenset({"write:bank", "spend:usd"}), {"n": 2, "amount": "1.00"}),
        (PAY, frozenset({"write:bank", "spend:usd"}), {"n": "one", "amount": "lots"}),
        (READ, READ, {"n": 1}),
        (None, READ, {}),
        (None, frozenset({"write:bank", "spend:eur"}), {"n": 1, "amount": "7"}),
    ]
)
always = st.sampled_from([None, {}, {"n": {"equals": 1}}])
labels = st.sampled_from([(), ("private",)])


@settings(max_examples=300)
@given(files(), st.none() | files(), calls, patterns, patterns | st.just([]), always, labels)
def test_no_call_gets_a_verdict_that_was_not_foreseen(
    above: str,
    below: str | None,
    call: tuple[Effects | None, Effects, dict[str, Any]],
    granted: list[str],
    denied: list[str],
    scope: dict[str, Any] | None,
    has_read: tuple[str, ...],
) -> None:
    policy = Policy(read_policy(above), read_policy(below) if below else None)
    reach, effects, args = call
    rules = []
    if scope is not None:
        rules = [RuleRecord(id="r-1", session="s", tool="act", scope="", scope_args=scope,
                            created_by="ana", created_at="")]  # fmt: skip
    proposed = Proposed(
        "act", args, effects, Authority(tuple(granted), tuple(denied)), rules=rules,
        labels=has_read, user="ana", spent=Spent(), provenance={},
    )  # fmt: skip

    found, outcome = prospect(policy, proposed, reach), decide(policy, proposed)

    assert outcome.behavior in found.verdicts
    assert found.verdict is None or found.rule


texts = st.text(st.sampled_from("ab*?"), max_size=6)


@given(texts, texts, st.text(st.sampled_from("ab"), max_size=6))
def test_patterns_are_compared_by_the_names_that_they_stand_for(
    one: str, other: str, name: str
) -> None:
    if matches(name, one) and matches(name, other):
        assert overlap(one, other)
    if matches(name, one) and is_part_of(one, other):
        assert matches(name, other)
    assert overlap(one, other) == overlap(other, one)


def test_patterns_that_share_no_name_are_told_apart() -> None:
    assert not overlap("spend:???", "spend:refund-*")
    assert not overlap("disclose:email.*@example.org", "disclose:email.*@example.com")
    assert overlap("a*c", "*bc")
    assert not is_part_of("spend:*", "spend:???")
    assert is_part_of("spend:???", "spend:*")
