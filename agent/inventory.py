"""What each tool may touch, and the verdict that it would get now: the whole of what can happen.

Of a session that does not exist yet, or of one as it is: with its authority, its rules and what it
has read. Nothing is called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.checks.flow import flow_of
from agent.policy import STRICTNESS, Policy, Proposed, Prospect, Spent, is_about, prospect
from agent.store.records import RuleRecord
from agent.types import Authority, Behavior
from tools.contract import UNKNOWN_EFFECTS, Contract, Effects, contract_of, is_read

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool


@dataclass(frozen=True)
class Standing:
    """What verdicts of a session rest on, beside its calls.

    Args:
        labels: What it has read.
        rules: Its "always" rules in force.
        spent: What it has done; ``None``: that is not looked at.
    """

    policy: Policy = field(default_factory=Policy)
    authority: Authority = field(default_factory=Authority)
    labels: Collection[str] = ()
    user: str = ""
    rules: Sequence[RuleRecord] = ()
    spent: Spent | None = None


@dataclass(frozen=True)
class Entry:
    """One tool.

    Args:
        reach: Its effects, or the families of those that depend on the arguments; ``None``:
            nobody has said which these are.
        prospect: The verdicts that its calls can get.
    """

    tool: BaseTool
    contract: Contract
    reach: Effects | None
    prospect: Prospect

    @property
    def access(self) -> str:
        """``read``, ``write``, or ``depends`` where its effects are not known."""
        if self.reach is None:
            return "depends"
        return "read" if is_read(self.reach) else "write"

    @property
    def touches(self) -> str:
        """Its effects in words."""
        return "depends on the arguments" if self.reach is None else ", ".join(sorted(self.reach))

    @property
    def verdict(self) -> str:
        """``allow``, ``ask``, ``deny``, or those between which the arguments decide."""
        return " or ".join(self.prospect.verdicts)

    @property
    def decides(self) -> str:
        """The rule that decides, or what decides between several verdicts."""
        return self.prospect.rule or ", ".join(self.prospect.hinges_on)


def inventory(tools: Iterable[BaseTool], standing: Standing) -> list[Entry]:
    """What there is, in the order of the tools."""
    return [_entry(tool, standing) for tool in tools]


def reaches(entries: Iterable[Entry]) -> dict[Behavior, list[str]]:
    """All that calls, one after the other, can touch: the union of what each can.

    Returns:
        Effects and families by the least restrictive verdict that a call with them can get. ``*``
        stands for a tool of which nothing is known.
    """
    found: dict[Behavior, set[str]] = {"allow": set(), "ask": set(), "deny": set()}
    for entry in entries:
        found[entry.prospect.verdicts[0]] |= entry.reach if entry.reach is not None else {"*"}
    return {
        "allow": sorted(found["allow"]),
        "ask": sorted(found["ask"] - found["allow"]),
        "deny": sorted(found["deny"] - found["allow"] - found["ask"]),
    }


def reach_in_words(entries: Iterable[Entry]) -> list[str]:
    """The same as lines: what can happen unasked, and what only after a person was asked."""
    found = reaches(entries)
    heads: dict[Behavior, str] = {
        "allow": "All of it together, without asking",
        "ask": "Once a person agreed",
        "deny": "Never",
    }
    return [f"{heads[verdict]}: {', '.join(found[verdict])}" for verdict in heads if found[verdict]]


def _entry(tool: BaseTool, standing: Standing) -> Entry:
    contract = contract_of(tool)
    reach = contract.reach
    call = Proposed(
        tool.name,
        {},
        reach or frozenset(),
        authority=standing.authority,
        version=contract.version,
        rules=standing.rules,
        labels=standing.labels,
        user=standing.user,
        spent=standing.spent,
    )
    found = prospect(standing.policy, call, reach)
    return Entry(tool, contract, reach, _by_labels(found, contract, standing, call))


def _by_labels(found: Prospect, contract: Contract, standing: Standing, call: Proposed) -> Prospect:
    """The same by what was read: a call that would be allowed may be asked about for that."""
    if "allow" not in found.verdicts or not standing.labels:
        return found
    reach = contract.reach
    flow = flow_of(contract, reach if reach is not None else UNKNOWN_EFFECTS, standing.labels)
    if flow is None:
        return found
    rules = [r for r in call.rules if is_about(r, call.tool, call.version) and flow.rules_hold]
    if any(not rule.scope_args for rule in rules):
        return found
    stays = reach is None or bool(rules)  # a read, or a call that a rule covers
    kept = [verdict for verdict in found.verdicts if stays or verdict != "allow"]
    verdicts = tuple(v for v in STRICTNESS if v in (*kept, "ask"))
    if len(verdicts) == 1:
        return Prospect(verdicts, flow.rule, flow.reason)
    hinges = {*found.hinges_on, *(rule.id for rule in rules), *({flow.rule} if stays else ())}
    return Prospect(verdicts, hinges_on=tuple(sorted(hinges)))
