"""From the graph's interrupts to approvals in the store, and from a recorded answer back.

Approvals are matched by session, AI message and tool call; an interrupt's id is only where the
answer goes at the moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agent.canonical import call_digest
from agent.checks.arguments import normalise
from agent.evidence import check_of, in_words, preview_of, read_now
from agent.middleware.guard import guarded
from agent.middleware.state import UNDOES, last_reply
from agent.policy import covers
from agent.provenance import from_the_record, suspicious_in, trace
from agent.settling import undo_in_words
from tools.calling import at_once
from tools.contract import Scope, contract_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool
    from langgraph.types import Interrupt, StateSnapshot

    from agent.middleware.state import AgentContext
    from agent.store import Store
    from agent.store.records import ApprovalRecord, EffectRecord

MOST_WARNINGS = 5
"""Passages that a reviewer is shown because they read like an attempt to steer."""


async def record_interrupts(
    store: Store,
    session: str,
    turn: int,
    snapshot: StateSnapshot,
    tools: Mapping[str, BaseTool],
    *,
    epoch: int,
    context: AgentContext,
) -> list[ApprovalRecord]:
    """Give every interrupt of a paused graph its approval; a known one is only refreshed.

    A call that is allowed and paused for a stop is asked about by nobody: it goes on when the
    session does.

    Returns:
        The approvals, decided ones included, in the order of the calls.

    Raises:
        LeaseLost: The session's lease no longer has this epoch; nothing was asked.
    """
    messages = snapshot.values["messages"]
    reply = last_reply(messages)
    message = (reply.id or "") if reply else ""
    verdicts = snapshot.values.get("verdicts") or {}
    rows = []
    for interrupt in (i for task in snapshot.tasks for i in task.interrupts):
        call = interrupt.value["tool_call_id"]
        known = store.approvals.for_call(session, message, call)
        if (effect := _doubted(store, session, message, interrupt, known)) is not None:
            asked = ask_about_doubt(store, effect, tools, context, interrupt.id, epoch=epoch)
            rows.append(await asked)
            continue
        if known is not None and known.interrupt == interrupt.id:
            rows.append(known)
            continue
        if known is None and _only_waits(interrupt, verdicts.get(call)):
            continue
        undoes = reply.additional_kwargs.get(UNDOES) if reply else None
        tool, args = tools[interrupt.value["name"]], interrupt.value["args"]
        asking = _asking(tool, args, messages, tools, undoes)
        rows.append(
            store.approvals.ask(
                session=session,
                turn=turn,
                message=message,
                call=call,
                kind="write",
                interrupt=interrupt.id,
                tool=interrupt.value["name"],
                undoes=undoes,
                hours=_hours(verdicts.get(call), context),
                remember=(verdicts.get(call) or {}).get("remember", True),
                epoch=epoch,
                **await asking,
                **_judged(verdicts.get(call)),
            )
        )
    return rows


def _doubted(
    store: Store,
    session: str,
    message: str,
    interrupt: Interrupt,
    permission: ApprovalRecord | None,
) -> EffectRecord | None:
    """The effect that a pause is about, when it was a doubt and no question of permission.

    The doubt may be over by now: what was entered under a rule has never needed a permission.
    """
    if _asked_by_langchain(interrupt):
        return None
    effect = store.ledger.for_call(session, message, interrupt.value["tool_call_id"])
    if effect is None or (effect.state != "in_doubt" and permission is not None):
        return None
    return effect


def _only_waits(interrupt: Interrupt, verdict: Mapping[str, Any] | None) -> bool:
    """Whether a call that needs nobody's word paused because the session was stopped."""
    allowed = verdict is not None and verdict["behavior"] == "allow"
    return allowed and not _asked_by_langchain(interrupt)


def _asked_by_langchain(interrupt: Interrupt) -> bool:
    """Its human-in-the-loop step publishes a response schema; a pause of ours does not."""
    return interrupt.response_schema is not None


def _hours(verdict: Mapping[str, Any] | None, context: AgentContext) -> float:
    """For how long a call may be answered: a rule may say less than the settings, never more."""
    given = (verdict or {}).get("hours")
    limits = [hours for hours in (given, context.approval_hours) if hours]
    return min(limits, default=0)


def _judged(verdict: Mapping[str, Any] | None) -> dict[str, Any]:
    if verdict is None:
        return {"rule": "", "reason": "Nobody has judged this call.", "effects": [], "notes": []}
    return {key: verdict[key] for key in ("rule", "reason", "effects", "notes")}


async def _asking(
    tool: BaseTool,
    args: Mapping[str, Any],
    messages: list[BaseMessage],
    tools: Mapping[str, BaseTool],
    undoes: str | None,
) -> dict[str, Any]:
    """What a reviewer needs beside the verdict: the arguments as they will run, what they would
    change, where they came from, and whether it can be undone."""
    contract = contract_of(tool)
    normalised = normalise(tool, args).args
    preview = await preview_of(contract, normalised)
    sources = from_the_record(normalised) if undoes else trace(normalised, messages, tools)
    found = [] if undoes else suspicious_in(messages, tools)[:MOST_WARNINGS]
    return {
        "args": normalised,
        "digest": call_digest(tool.name, normalised),
        "tool_version": contract.version,
        "preview": asdict(preview) if preview else None,
        "provenance": [dict(source) for source in sources],
        "warnings": [f"{where}: {passage}" for where, passage in found],
        "undo": await undo_in_words(contract, normalised, preview),
    }


async def ask_about_doubt(
    store: Store,
    effect: EffectRecord,
    tools: Mapping[str, BaseTool],
    context: AgentContext,
    interrupt: str | None = None,
    *,
    epoch: int,
) -> ApprovalRecord:
    """Put a write whose outcome is unknown to a person, with what is known: did it happen?

    Raises:
        LeaseLost: The session's lease no longer has this epoch; nothing was asked.
    """
    return store.approvals.ask(
        session=effect.session,
        turn=effect.turn,
        message=effect.message,
        call=effect.call,
        kind="in_doubt",
        interrupt=interrupt,
        tool=effect.tool,
        tool_version=effect.tool_version,
        args=effect.args,
        digest=effect.digest,
        effects=[],
        rule="ledger",
        reason=(
            f"{effect.id} began at {effect.started_at} and its outcome is unknown. "
            "Check the record itself, then say whether it happened."
        ),
        notes=await _what_is_known(effect, tools, context),
        preview=None,
        provenance=None,
        undo=None,
        epoch=epoch,
    )


async def _what_is_known(
    effect: EffectRecord, tools: Mapping[str, BaseTool], context: AgentContext
) -> list[str]:
    """What the service's record said, and what the read shows that the contract names: each a line
    that says whose words follow, and their words, which may be a stranger's."""
    evidence = effect.evidence or {}
    found = evidence.get("found") or evidence.get("postcondition")
    notes = [f"{effect.tool} says of its record:\n{found['summary']}"] if found else []
    if earlier := evidence.get("earlier"):
        known = ", ".join(str(item["attempt"]) for item in earlier)
        notes.insert(
            0,
            f"Attempt {known} is known to have happened. The question is whether attempt "
            f"{effect.attempts} did so as well.",
        )
    tool = tools.get(effect.tool)
    check = check_of(contract_of(tool), effect.args) if tool else None
    if check is None:
        return notes
    reads = {check.tool: guarded(tools[check.tool])} if check.tool in tools else {}
    if (shown := await read_now(check, reads, context.authority)) is not None:
        notes.append(f"{in_words(check)} shows:\n{shown}")
    return notes


def as_langchain(approval: ApprovalRecord) -> dict[str, Any]:
    """A recorded answer in the words of LangChain's per-call decision."""
    if approval.kind == "write":
        match approval.status:
            case "approved":
                return {"type": "approve"}
            case "edited":
                action = {"name": approval.tool, "args": approval.decided_args or {}}
                return {"type": "edit", "edited_action": action}
            case "answered":
                return {"type": "respond", "message": approval.comment or ""}
    return {"type": "reject", "message": approval.comment or approval.status}


def scope_of(approval: ApprovalRecord, tools: Mapping[str, BaseTool]) -> Scope | None:
    """What "always for this session" would cover for this call, if its tool offers it.

    What is wrong is not offered: a person would agree to something else than they read.
    """
    tool = tools.get(approval.tool)
    if tool is None or approval.kind != "write" or not approval.remember:
        return None
    offer = contract_of(tool).always
    try:
        scope = at_once(offer, deepcopy(approval.args)) if offer else None
        return scope if _is_right(scope, approval.args, tool) else None
    except Exception:
        return None


def _is_right(scope: Scope | None, args: Mapping[str, Any], tool: BaseTool) -> bool:
    """Whether a scope means something: arguments that the tool has, and among others this call.

    With a constraint that nobody understands it would cover nothing, and be offered in vain.
    """
    if not (isinstance(scope, Scope) and isinstance(scope.text, str)):
        return False
    return scope.args.keys() <= {*tool.args, *args} and covers(scope.args, args)
