"""The tests that stand in a policy file: calls, and what is expected of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from agent.policy.decide import Outcome, Policy, Proposed, decide
from agent.policy.facts import Spent
from agent.policy.model import Case, PolicyFile
from agent.store.records import RuleRecord
from agent.types import Authority
from tools.contract import Effects

Prepare = Callable[[str, Mapping[str, Any]], tuple[Mapping[str, Any], Effects]]
"""From a tool's name and arguments to the arguments as they would run, and the call's effects."""


@dataclass(frozen=True)
class CaseResult:
    """What became of a case; ``fault`` is empty where it passed."""

    case: Case
    outcome: Outcome | None
    fault: str = ""


def run_cases(file: PolicyFile, policy: Policy, prepare: Prepare) -> list[CaseResult]:
    """Hold the cases of a file against the policy that it is a part of.

    Args:
        prepare: Raises ``KeyError`` for a tool that is not there, ``ValueError`` for arguments
            that do not fit.
    """
    return [_run(case, policy, prepare) for case in file.cases]


def _run(case: Case, policy: Policy, prepare: Prepare) -> CaseResult:
    try:
        call = _proposed(case, prepare)
    except KeyError:
        fault = f"there is no tool {case.tool} here; say what it may do: effects: [write:orders]"
        return CaseResult(case, None, fault)
    except ValueError as error:
        return CaseResult(case, None, str(error))
    outcome = decide(policy, call)
    if outcome.behavior != case.expect:
        said = f"expected {case.expect}, got {outcome.behavior} by {outcome.rule}: {outcome.reason}"
        return CaseResult(case, outcome, said)
    if case.rule is not None and not _is_by(outcome, case.rule):
        return CaseResult(case, outcome, f"expected rule {case.rule!r}, got {outcome.rule!r}")
    return CaseResult(case, outcome)


def _is_by(outcome: Outcome, rule: str) -> bool:
    """Whether a rule is among those that decided, by its name with or without the layer."""
    deciding = {outcome.rule} | {
        f.name
        for f in outcome.findings
        if f.state in ("matches", "failed", "restricts") and f.verdict == outcome.behavior
    }
    return rule in deciding or any(name.partition("/")[2] == rule for name in deciding)


def _proposed(case: Case, prepare: Prepare) -> Proposed:
    if case.effects is None:
        args, effects = prepare(case.tool, case.args)
    else:
        args, effects = case.args, case.effects
    sums = {effect: Decimal(amount) for effect, amount in case.sums.items()}
    return Proposed(
        tool=case.tool,
        args=args,
        effects=effects,
        authority=Authority(case.grants if case.grants is not None else ("*",)),
        rules=[always(case.tool)] if case.always else [],
        labels=case.labels,
        user=case.user,
        spent=Spent(case.counts, sums),
        provenance=dict.fromkeys(args, "user") | dict(case.provenance),
    )


def always(tool: str) -> RuleRecord:
    """An "always" rule that covers every call of a tool, to see what it would change."""
    return RuleRecord(
        id="always",
        session="",
        tool=tool,
        scope=f"every {tool}",
        scope_args={},
        created_by="somebody",
        created_at="",
    )
