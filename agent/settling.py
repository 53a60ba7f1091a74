"""What can still be done about a write: look up one in doubt, compensate one that happened."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import prompts
from agent.errors import CannotUndo
from agent.evidence import ask, foreign, in_short, in_words, is_cut, look_up, value_of
from agent.provenance import marked
from agent.receipt import describe_call
from agent.safe_text import shorten
from agent.types import BY_HAND
from tools.contract import Call, CallInfo, Committed, Contract, Finding, Preview, contract_of

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agent.store import Store
    from agent.store.records import EffectRecord


def info_of(effect: EffectRecord) -> CallInfo:
    """The latest attempt of a write, as its tool and its contract see it."""
    before = effect.before or ""
    return CallInfo(
        effect.session,
        effect.call,
        effect.attempts,
        effect.idempotency_key,
        "" if is_cut(before) else before,
    )


async def look_up_effect(
    store: Store, effect: EffectRecord, tool: BaseTool, limit: int, *, running: bool = False
) -> EffectRecord:
    """Ask the service's own record about a write in doubt, and keep what it says.

    Args:
        limit: Characters of the result that the model may see.
        running: Whether its body still runs in this process: "not there" then comes too early.

    Returns:
        The effect as it stands then; as it was when its contract knows no record.
    """
    contract = contract_of(tool)
    finding = await look_up(contract, effect.args, info_of(effect))
    if finding is None:
        return effect
    if finding.happened is False and running:
        finding = Finding(None, f"{finding.summary} It is still under way.", finding.record)
    return store.ledger.find(
        effect.id,
        attempt=effect.attempts,
        finding=finding,
        result=_found_result(finding, tool.name, contract, limit),
    )


def _found_result(finding: Finding, tool: str, contract: Contract, limit: int) -> dict[str, Any]:
    """The result of a write whose answer was lost: our words, then what it would have returned."""
    words = prompts.message("found_happened", finding=foreign(finding.summary, tool, contract))
    head, returned = f"{words.strip()}\n", shorten(finding.result or "", limit)
    if contract.open_world and returned:
        returned = marked(returned, tool)
    return {"text": head + returned, "status": "success", "skip": len(head)}


async def compensation(store: Store, effect: EffectRecord, tools: Mapping[str, BaseTool]) -> Call:
    """The call that would compensate a write.

    Raises:
        CannotUndo: It did not happen, was undone already, has to be undone by hand, or a tool
            for it is not loaded here.
    """
    name = describe_call(effect.tool, effect.args)
    if effect.state != "committed":
        word = "did not happen" if effect.state == "failed" else "is not known to have happened"
        raise CannotUndo(effect.id, f"{name} {word}.")
    if (other := store.ledger.undone_by(effect.id)) is not None:
        raise CannotUndo(effect.id, _undone(store, other))
    if attempts := (effect.evidence or {}).get("twice"):
        times = ", ".join(map(str, attempts))
        why = f"it happened more than once (attempts {times}), and one call would undo one of them"
        raise CannotUndo(effect.id, f"{why}; look at the record, it has to be done by hand.")
    tool = tools.get(effect.tool)
    if tool is None:
        raise CannotUndo(effect.id, f"its tool {effect.tool} is not loaded here.")
    undo = contract_of(tool).undo
    if undo is None:
        raise CannotUndo(effect.id, f"{effect.tool} has nothing that would undo it.")
    call = None
    if undo.call is not None and is_cut(effect.before or ""):
        why = f"what it replaced was too long to be kept; it has to be done by hand ({undo.text})."
        raise CannotUndo(effect.id, why)
    if undo.call is not None:
        try:
            call = await ask(undo.call, _as_committed(effect))
            if isinstance(call, Call):
                in_words(call)  # what cannot be written down cannot be proposed
        except Exception as error:
            why = f"{effect.tool} could not say how ({in_short(error)})."
            raise CannotUndo(effect.id, why) from error
    if call is None:
        raise CannotUndo(effect.id, f"it has to be done by hand ({undo.text}).")
    if not isinstance(call, Call):
        why = f"{effect.tool} gave a {type(call).__name__} for what would undo it, and no call."
        raise CannotUndo(effect.id, why)
    if call.tool not in tools:
        raise CannotUndo(effect.id, f"the tool {call.tool}, which undoes it, is not loaded here.")
    return call


def _undone(store: Store, other: EffectRecord) -> str:
    """That a write is undone by another, and what can be done all the same."""
    done = f"{other.id} undoes it already ({other.state})"
    if (again := store.ledger.undone_by(other.id)) is not None and again.state == "committed":
        return f"{done}. That was undone by {again.id}, which is what stands: undo {again.id}."
    approval = store.approvals.get(other.approval) if other.approval else None
    if approval is not None and approval.status == "edited":
        return f"{done}, as a person has edited it. What is left to do is a call of its own."
    return f"{done}."


async def undo_in_words(
    contract: Contract, args: Mapping[str, Any], preview: Preview | None
) -> str | None:
    """How a call could be undone once it has happened, for whoever is to approve it.

    Returns:
        ``None``: it cannot be; ``"by hand: …"`` where no call would compensate this one.
    """
    undo = contract.undo
    if undo is None:
        return None
    call: Any = None
    before = preview.before if preview else ""
    if undo.call is not None and not is_cut(before):
        try:
            call = await ask(undo.call, Committed(deepcopy(dict(args)), None, before))
        except Exception:  # it needs the result, which is not there yet
            return undo.text
    return f"{BY_HAND}{undo.text}" if call is None else undo.text


def _as_committed(effect: EffectRecord) -> Committed:
    kept = effect.result or {}
    text: Any = kept.get("text")
    result = value_of(text[kept.get("skip", 0) :], effect.tool) if isinstance(text, str) else None
    return Committed(deepcopy(effect.args), result, effect.before or "")
