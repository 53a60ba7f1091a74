"""The inventory: what each tool can touch, and what it would get in a session as it is now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent.inventory import Entry, Standing, inventory, reach_in_words, reaches
from agent.policy import Policy, read_policy
from agent.store.records import RuleRecord
from agent.toolset import every_bundled_tool
from agent.types import Authority
from tools.contract import Contract, make_tool


class Nothing(BaseModel):
    """No arguments."""


def entry(standing: Standing, **contract: Any) -> Entry:
    def act() -> str:
        """Act."""
        return ""

    tool = make_tool(act, args=Nothing, contract=Contract(**contract))
    return inventory([tool], standing)[0]


ALLOWED = Policy(read_policy("version: 1\nrules:\n  - {name: all, verdict: allow}"))
RULE = RuleRecord(
    id="r-1", session="s", tool="act", scope="all", scope_args={}, created_by="ana", created_at=""
)
READ, FETCH, WRITE = ({"effects": frozenset({e})} for e in ("read:x", "network:web", "write:x"))


@pytest.mark.parametrize(
    ("contract", "labels", "rules", "verdicts", "by"),
    [
        (READ, {"untrusted", "private"}, [], ("allow",), "organisation/all"),
        (WRITE, set(), [], ("allow",), "organisation/all"),
        (WRITE, {"private"}, [], ("allow",), "organisation/all"),
        (WRITE, {"untrusted"}, [], ("ask",), "flow/untrusted"),
        (WRITE, {"untrusted"}, [RULE], ("ask",), "flow/untrusted"),
        (FETCH, {"untrusted"}, [], ("allow",), "organisation/all"),
        (FETCH, {"private"}, [], ("ask",), "flow/private"),
        (FETCH, {"private"}, [RULE], ("allow",), "organisation/all"),
        (FETCH, {"private"}, [RULE.model_copy(update={"scope_args": {"n": {"equals": 1}}})],
         ("allow", "ask"), "flow/private, r-1"),
        ({"effects": lambda args: frozenset({"read:x"})}, {"private"}, [], ("allow", "ask"),
         "flow/private"),
    ],
)  # fmt: skip
def test_what_was_read_counts_as_it_does_where_a_call_is_judged(
    contract: dict[str, Any], labels: set[str], rules: list[RuleRecord], verdicts: Any, by: str
) -> None:
    found = entry(Standing(ALLOWED, Authority(("*",)), labels, rules=rules), **contract)

    assert (found.prospect.verdicts, found.decides) == (verdicts, by)


def test_what_a_chain_of_calls_can_touch_is_the_union_of_what_each_can() -> None:
    standing = Standing(authority=Authority(("read:*", "write:*")))
    entries = [
        entry(standing, **READ),
        entry(standing, **WRITE),
        entry(standing, effects=lambda args: frozenset(), effect_families=frozenset({"spend:*"})),
    ]

    assert reaches(entries) == {"allow": ["read:x"], "ask": ["write:x"], "deny": ["spend:*"]}
    assert reach_in_words(entries) == [
        "All of it together, without asking: read:x",
        "Once a person agreed: write:x",
        "Never: spend:*",
    ]
    unknown = entry(Standing(), effects=lambda args: frozenset())
    assert reaches([*entries, unknown])["allow"] == ["*", "read:x"]


def test_of_every_bundled_tool_it_is_known_what_it_can_touch(tmp_path: Path) -> None:
    entries = inventory(every_bundled_tool(tmp_path), Standing())

    assert len(entries) > 20
    assert [e.tool.name for e in entries if e.reach is None] == []
