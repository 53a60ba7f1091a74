"""V_auth: may this session do this, and must a person be asked?"""

from __future__ import annotations

from langchain_core.tools import BaseTool

from agent.canonical import call_digest
from agent.checks.arguments import Normalised
from agent.policy import Outcome
from agent.types import Verdict
from tools.contract import Effects


def as_verdict(tool: BaseTool, call: Normalised, effects: Effects, outcome: Outcome) -> Verdict:
    """What was decided about a call whose arguments are normalised, bound to their digest.

    Args:
        effects: What the tool's contract says of this call; asked for once, since a contract's
            function may say something else the next time.
    """
    verdict = Verdict(
        behavior=outcome.behavior,
        rule=outcome.rule,
        reason=outcome.reason,
        effects=sorted(effects),
        digest=call_digest(tool.name, call.args),
        notes=list(call.notes),
    )
    if outcome.message:
        verdict["message"] = outcome.message
    if not outcome.remember:
        verdict["remember"] = False
    if outcome.expires is not None:
        verdict["hours"] = outcome.expires.total_seconds() / 3600
    return verdict
