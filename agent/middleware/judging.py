"""The verdict on a call: authority and policy files, a session's rules, its labels.

A call is judged when it is proposed. One that a policy file lets run is judged again where it
begins: what the session has done meanwhile may count, and the files may be others by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property
from typing import Any

from langchain_core.tools import BaseTool

from agent.checks.arguments import Normalised
from agent.checks.flow import flow_of
from agent.checks.permissions import as_verdict
from agent.evidence import unmet, unmet_text
from agent.middleware.state import AgentContext
from agent.policy import Outcome, Proposed, Spent, covers, decide, is_about, money_of
from agent.provenance import labels_of_results, trace
from agent.receipt import describe_call
from agent.repeats import committed_before, held
from agent.store.records import RuleRecord
from agent.types import Behavior, Verdict
from tools.contract import Effects, contract_of, is_read


class Judge:
    """Judges the calls of one reply; the session's rules are read once, and only for a write."""

    def __init__(
        self,
        context: AgentContext,
        history: Sequence[Any],
        tools: Mapping[str, BaseTool],
        undoes: str | None = None,
    ) -> None:
        """See above.

        Args:
            undoes: The effect that a call compensates, when a person ordered that; a person is
                asked.
        """
        self._context, self._history, self._tools = context, history, tools
        self.undoes = undoes
        self._through: list[tuple[str, Mapping[str, Any], Effects]] = []

    def __call__(
        self, tool: BaseTool, call: Normalised, but: tuple[str, str] | None = None
    ) -> Verdict:
        """The verdict; a write that may run counts for those of the same reply after it.

        Args:
            but: Message and id of a call that is not counted as done: this one, where it begins.
        """
        contract = contract_of(tool)
        effects = contract.effects_of(call.args)
        outcome = self._outcome(tool, call, effects, but)
        if outcome.behavior != "deny" and self.undoes is not None:
            outcome = replace(outcome, behavior="ask", rule="undo", reason=self._undoing)
        flow = flow_of(contract, effects, self._labels) if outcome.behavior == "allow" else None
        if flow is not None and not (flow.rules_hold and self._always(tool, call)):
            behavior: Behavior = "ask" if self._context.recording is not None else "deny"
            outcome = Outcome(behavior, flow.rule, flow.reason, remember=flow.rules_hold)
        if outcome.behavior != "deny" and not is_read(effects):
            self._through.append((tool.name, call.args, effects))
        return as_verdict(tool, call, effects, outcome)

    async def not_yet(self, tool: BaseTool, call: Normalised, verdict: Verdict) -> str | None:
        """Why a call that may be proposed is not put to anybody yet."""
        contract, recording = contract_of(tool), self._context.recording
        if recording is not None and not is_read(frozenset(verdict["effects"])):
            text = held(recording.store, recording.line, tool, call.args)
            if text is not None:
                return text
        missing = await unmet(contract, call.args, self._history)
        return None if missing is None else unmet_text(missing, tool.name, contract)

    def _outcome(
        self, tool: BaseTool, call: Normalised, effects: Effects, but: tuple[str, str] | None
    ) -> Outcome:
        policy, recording = self._context.policy, self._context.recording
        looks_at = policy.looks_at(tool.name)
        sums = bool(looks_at & {"session", "total"})
        proposed = Proposed(
            tool.name,
            call.args,
            effects,
            authority=self._context.authority,
            version=contract_of(tool).version,
            labels=self._labels if policy.layers else (),
            user=self._context.user,
            spent=self._spent(but) if sums else None,
            provenance=self._origins(call.args) if "provenance" in looks_at else None,
        )
        first = decide(policy, proposed)
        runs = first.behavior == "allow" and is_read(effects)
        if recording is None or first.behavior == "deny" or runs:
            return first
        earlier = committed_before(recording.store, recording.ancestors, tool, call.args)
        return decide(policy, replace(proposed, rules=self._about(tool), earlier=earlier))

    @cached_property
    def _labels(self) -> frozenset[str]:
        """What the session has read: by its record, and by what has come since."""
        return self._context.labels | labels_of_results(self._history, self._tools)

    @property
    def _undoing(self) -> str:
        assert self._context.recording is not None
        assert self.undoes is not None
        undone = self._context.recording.store.ledger.get(self.undoes)
        return f"It undoes {undone.id}, {describe_call(undone.tool, undone.args)}."

    def _always(self, tool: BaseTool, call: Normalised) -> bool:
        """Whether an "always" rule covers a call."""
        return any(covers(rule.scope_args, call.args) for rule in self._about(tool))

    def _about(self, tool: BaseTool) -> list[RuleRecord]:
        version = contract_of(tool).version
        return [rule for rule in self._rules if is_about(rule, tool.name, version)]

    @cached_property
    def _rules(self) -> list[RuleRecord]:
        recording = self._context.recording
        return recording.store.rules.active(recording.session) if recording is not None else []

    def _origins(self, args: Mapping[str, Any]) -> dict[str, str]:
        sources = trace(args, self._history, self._tools, passages=False)
        return {source["path"]: source["origin"] for source in sources}

    def _spent(self, but: tuple[str, str] | None) -> Spent | None:
        """What the session has done, or may have, and what this reply was let do already."""
        recording = self._context.recording
        if recording is None:
            return None
        done = [
            (effect.tool, effect.args, self._effects_of(effect.tool, effect.args))
            for effect in recording.store.ledger.list(session=recording.session, limit=None)
            if effect.state != "failed" and (effect.message, effect.call) != but
        ]
        counts = Counter(tool for tool, _, _ in [*done, *self._through])
        sums: dict[str, Decimal] = {}
        for _, args, effects in [*done, *self._through]:
            money = money_of(args, effects)
            if money.effect is not None:
                if money.amount is None:
                    return None  # a sum that cannot be told lets no rule rest on it
                sums[money.effect] = sums.get(money.effect, Decimal(0)) + money.amount
        return Spent(counts, sums)

    def _effects_of(self, tool: str, args: Mapping[str, Any]) -> Effects:
        known = self._tools.get(tool)
        return contract_of(known).effects_of(args) if known is not None else frozenset()
