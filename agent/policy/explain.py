"""Why a verdict is what it is, and what would change it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.policy.conditions import Condition
from agent.policy.decide import Finding, Outcome, Policy, Proposed, combine, decide
from agent.policy.lookup import Facts
from agent.policy.model import STRICTNESS
from agent.safe_text import exact_json, shorten
from agent.store.named_secrets import masked_by_name
from agent.types import Behavior

_LONGEST = 60
_PAST: Mapping[Behavior, str] = {"allow": "allowed", "ask": "asked about", "deny": "denied"}


@dataclass(frozen=True)
class Explanation:
    """A verdict in words.

    Args:
        rules: A line for each rule that is about the call: what it says, whether it matches, and
            the values it looked at.
        changes: What would lead to a less restrictive verdict; empty where nothing would.
    """

    outcome: Outcome
    rules: tuple[str, ...]
    changes: tuple[str, ...]

    def lines(self) -> list[str]:
        """As text, one line each."""
        found = [f"{self.outcome.behavior} ({self.outcome.rule})", self.outcome.reason]
        if self.outcome.message:
            found.append(f"The model is told: {self.outcome.message}")
        if self.rules:
            found += ["", "Rules about this call:", *(f"  {line}" for line in self.rules)]
        if self.changes:
            found += ["", "What would change it:", *(f"  {line}" for line in self.changes)]
        return found


def explain(policy: Policy, call: Proposed) -> Explanation:
    """The verdict on a call, why, and what would change it."""
    outcome = decide(policy, call)
    rules = tuple(_line(found, outcome.facts) for found in outcome.findings)
    return Explanation(outcome, rules, tuple(dict.fromkeys(_changes(outcome, call))))


def _line(found: Finding, facts: Facts | None) -> str:
    what = {
        "matches": "matches",
        "differs": "does not match",
        "failed": f"could not be checked ({found.why})",
        "default": "holds where no rule of its file matches",
        "restricts": "applies",
    }[found.state]
    verdict = found.rule.verdict if found.rule else found.verdict
    condition = found.rule.when if found.rule else None
    values = f": {_shown(condition, facts)}" if condition and facts else ""
    return f"{found.name}: {verdict}, {what}{values}"


def _shown(condition: Condition, facts: Facts) -> str:
    """A condition with the values of the fields that it names; secrets masked."""
    values = {str(r): _value(facts, r) for r in condition.references if facts.has(r)}
    source = " ".join(condition.source.split())
    named = ", ".join(f"{name} = {value}" for name, value in values.items())
    return f"{source} [{named}]" if named else source


def _value(facts: Facts, reference: Any) -> str:
    name = str(reference.keys[-1]) if reference.keys else reference.root
    value = facts.value(reference)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # nobody wrote 80.0
    masked: Mapping[str, Any] = masked_by_name({name: value})
    return shorten(exact_json(masked[name], indent=None), _LONGEST)


def _changes(outcome: Outcome, call: Proposed) -> Iterator[str]:
    if outcome.behavior == "allow":
        return
    if outcome.rule == "authority":
        yield "Only granting it: sayso authority SESSION --grant EFFECT."
    elif outcome.rule.endswith("/grants"):
        yield "Only the file's own grants and deny; no rule and no reviewer can allow it."
    else:
        yield from _without_what_decided(outcome, call)
        yield from _with_what_differs(outcome, call)
    if outcome.behavior == "ask":
        times = "once, or for the session" if outcome.remember else "each time anew"
        yield f"A person can approve it, {times}."


def _without_what_decided(outcome: Outcome, call: Proposed) -> Iterator[str]:
    deciding = [f for f in outcome.findings if _decides(f, outcome)]
    rest = [f for f in outcome.findings if f not in deciding]
    verdict = combine([*rest, *(replace(f, state="differs") for f in deciding)], call).behavior
    if not deciding or STRICTNESS[verdict] >= STRICTNESS[outcome.behavior]:
        return
    others = ", and the others that say so neither" if len(deciding) > 1 else ""
    for found in deciding:
        condition = found.rule.when if found.rule else None
        shown = f" ({_shown(condition, outcome.facts)})" if condition and outcome.facts else ""
        yield f"It would be {_PAST[verdict]} if {found.name} did not match{shown}{others}."


def _with_what_differs(outcome: Outcome, call: Proposed) -> Iterator[str]:
    for found in outcome.findings:
        condition = found.rule.when if found.rule else None
        if found.state != "differs" or condition is None or outcome.facts is None:
            continue
        others = [f for f in outcome.findings if f is not found]
        verdict = combine([*others, replace(found, state="matches")], call).behavior
        if STRICTNESS[verdict] < STRICTNESS[outcome.behavior]:
            shown = _shown(condition, outcome.facts)
            yield f"It would be {_PAST[verdict]} if {found.name} matched: {shown}."


def _decides(found: Finding, outcome: Outcome) -> bool:
    counts = found.state in ("matches", "failed", "restricts")
    return counts and found.verdict == outcome.behavior
