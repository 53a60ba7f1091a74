"""V_auth: may this session do this, and must a person be asked?"""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.tools import BaseTool

from agent.canonical import call_digest
from agent.checks.arguments import Normalised
from agent.policy import evaluate
from agent.store.records import EffectRecord, RuleRecord
from agent.types import Authority, Verdict
from tools.contract import Effects


def judge(
    tool: BaseTool,
    call: Normalised,
    effects: Effects,
    authority: Authority,
    rules: Sequence[RuleRecord] = (),
    earlier: EffectRecord | None = None,
) -> Verdict:
    """The verdict on a call whose arguments are normalised, bound to their digest.

    Args:
        effects: What the tool's contract says of this call; asked for once, since a contract's
            function may say something else the next time.
    """
    behavior, rule, reason = evaluate(tool.name, call.args, effects, authority, rules, earlier)
    return Verdict(
        behavior=behavior,
        rule=rule,
        reason=reason,
        effects=sorted(effects),
        digest=call_digest(tool.name, call.args),
        notes=list(call.notes),
    )
