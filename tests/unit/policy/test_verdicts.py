"""Verdicts: authority first, then reads, then the session's own rules; what is unknown asks."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.policy import Policy, Proposed, covers, decide, is_about
from agent.policy.facts import money_of
from agent.store.records import RuleRecord
from agent.types import Authority
from tools.contract import UNKNOWN_EFFECTS, Effects

READ: Effects = frozenset({"read:orders"})
WRITE: Effects = frozenset({"write:files"})
RULE = RuleRecord(
    id="r-1",
    session="s-1",
    tool="write_file",
    scope="write_file under notes/",
    scope_args={"path": {"under": "notes"}},
    created_by="ana",
    created_at="",
)


@pytest.mark.parametrize(
    ("effects", "authority", "behavior", "rule"),
    [
        (READ, Authority(), "allow", "reads"),
        (frozenset({"network:web", "read:web"}), Authority(), "allow", "reads"),
        (WRITE, Authority(), "ask", "writes"),
        (UNKNOWN_EFFECTS, Authority(), "ask", "writes"),
        (frozenset(), Authority(), "ask", "writes"),
        (frozenset({"read:orders", "disclose:email"}), Authority(), "ask", "writes"),
        (WRITE, Authority(granted=("read:*",)), "deny", "authority"),
        (WRITE, Authority(denied=("write:*",)), "deny", "authority"),
        (READ, Authority(granted=("write:*",)), "deny", "authority"),
        (frozenset({"write:orders", "spend:usd"}), Authority(denied=("spend:*",)), "deny",
         "authority"),
    ],
)  # fmt: skip
def test_the_verdict_follows_from_effects_and_authority(
    effects: Effects, authority: Authority, behavior: str, rule: str
) -> None:
    outcome = decide(Policy(), Proposed("t", {}, effects, authority))

    assert (outcome.behavior, outcome.rule) == (behavior, rule)


@pytest.mark.parametrize(
    ("agreed", "tool", "version", "holds"),
    [
        ("v1", "write_file", "v1", True),
        ("v1", "write_file", "v2", False),
        ("v1", "edit_file", "v1", False),
        (None, "write_file", "v2", True),
        (None, "edit_file", "v2", False),
    ],
)
def test_a_rule_is_about_one_tool_as_it_was_when_it_was_agreed_to(
    agreed: str | None, tool: str, version: str, holds: bool
) -> None:
    rule = RULE.model_copy(update={"tool_version": agreed})

    assert is_about(rule, tool, version) is holds


def test_a_denial_names_what_is_missing() -> None:
    call = Proposed("refund", {}, frozenset({"spend:usd"}), Authority(granted=()))

    assert "spend:usd" in decide(Policy(), call).reason


@pytest.mark.parametrize(
    ("path", "behavior"),
    [
        ("notes/todo.md", "allow"),
        ("notes/deep/er.md", "allow"),
        ("notes/../notes/a.md", "allow"),
        ("notes2/todo.md", "ask"),
        ("notes", "ask"),
        ("todo.md", "ask"),
        ("notes/../secret.md", "ask"),
        ("../notes/a.md", "ask"),
        ("/notes/a.md", "ask"),
        ("Notes/a.md", "ask"),
        ("notes\\..\\a.md", "ask"),
    ],
)
def test_an_always_rule_covers_its_folder_and_nothing_beside_it(path: str, behavior: str) -> None:
    call = Proposed("write_file", {"path": path}, WRITE, rules=[RULE])

    assert decide(Policy(), call).behavior == behavior


def test_an_always_rule_covers_its_own_tool_only_and_never_widens_the_authority() -> None:
    args = {"path": "notes/a.md"}
    other = Proposed("delete_file", args, WRITE, rules=[RULE])
    beyond = Proposed("write_file", args, WRITE, Authority(granted=()), rules=[RULE])

    assert decide(Policy(), other).behavior == "ask"
    assert decide(Policy(), beyond).behavior == "deny"


@pytest.mark.parametrize("constraint", [{}, {"like": "a%"}, {"under": 3}, {"under": "a", "x": 1}])
def test_a_constraint_that_is_not_understood_covers_nothing(constraint: dict[str, object]) -> None:
    assert not covers({"path": constraint}, {"path": "a/b"})


def test_equality_does_not_mix_types() -> None:
    assert covers({"n": {"equals": 1}}, {"n": 1})
    assert not covers({"n": {"equals": 1}}, {"n": True})
    assert not covers({"n": {"equals": 1}}, {"n": 1.0})
    assert not covers({"n": {"equals": None}}, {"n": 0})


segments = st.lists(st.sampled_from(["notes", "..", ".", "a", "", "x y"]), min_size=1, max_size=6)


@given(segments)
def test_whatever_a_path_is_made_of_it_is_covered_only_inside_the_folder(parts: list[str]) -> None:
    path = "/".join(parts)
    if covers({"path": {"under": "notes"}}, {"path": path}):
        assert posixpath.normpath(posixpath.join("/base", path)).startswith("/base/notes/")


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"amount": "-10000"}, "is below 0"),
        ({"amount": "5", "currency": "BTC"}, "is in another currency than its effect says"),
    ],
)
def test_an_amount_that_would_make_room_or_is_other_money_cannot_be_told(
    args: dict[str, str], why: str
) -> None:
    money = money_of(args, frozenset({"spend:eur"}))
    assert (money.amount, money.why) == (None, why)
    assert money_of({"amount": "5", "currency": "eur"}, frozenset({"spend:eur"})).amount == 5
