"""Answers to approvals: validated against the tool, then recorded, compare-and-set.

The store is the authority on decisions. Nothing here resumes a session; whoever drives it
(``agent.session``) finds the decision in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from agent.errors import InvalidDecision
from agent.types import Actor, Decision

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agent.store import Store
    from agent.store.records import ApprovalRecord

FindTool = Callable[[str], "BaseTool | None"]
"""From a tool's name to the tool; only called for an edit, whose arguments it must check."""

HAPPENED, NOT_HAPPENED = "happened", "not happened"
"""The two answers to a write whose outcome is in doubt."""


def decide(
    store: Store,
    answers: Sequence[tuple[str, Decision]],
    actor: Actor,
    find_tool: FindTool,
) -> list[ApprovalRecord]:
    """Record answers: all of them, or none when one cannot be applied.

    Args:
        answers: Whole approval ids with a decision each.

    Raises:
        NotFound: No approval has that id.
        AlreadyDecided: Somebody was faster; says who and what. ``ApprovalExpired``: nobody was.
        InvalidDecision: Not an answer to this kind of approval, or its edit does not fit.
    """
    checked = [
        (id_, *_checked(store, store.approvals.get(id_, whole=True), decision, find_tool))
        for id_, decision in answers
    ]
    return store.approvals.decide_many(checked, actor)


async def as_edited(approval: ApprovalRecord, args: object, find_tool: FindTool) -> ApprovalRecord:
    """The approval as its edit would have it, to be shown before that is agreed to.

    Returns:
        It as it is, where the edit changes nothing.

    Raises:
        InvalidDecision: The arguments do not fit; nothing was decided.
    """
    from agent.evidence import preview_of
    from agent.provenance import after_an_edit
    from tools.contract import contract_of

    decision, digest = _checked_edit(approval, Decision("edit", args=args), find_tool)  # type: ignore[arg-type]
    tool = find_tool(approval.tool)
    if decision.args is None or tool is None:
        return approval
    preview = await preview_of(contract_of(tool), decision.args)
    return approval.model_copy(
        update={
            "args": decision.args,
            "digest": digest,
            "preview": asdict(preview) if preview else None,
            "provenance": after_an_edit(approval.provenance or (), approval.args, decision.args),
            "notes": [],
        }
    )


def _checked(
    store: Store, approval: ApprovalRecord, decision: Decision, find_tool: FindTool
) -> tuple[Decision, str | None]:
    """The decision as it will be stored, and the digest it is bound to when it is an edit."""
    if approval.status != "pending":
        from agent.store.deciding import already_decided

        raise already_decided(approval)
    if not isinstance(decision, Decision):
        return decision, None  # what is malformed in it, the store says
    is_answer = approval.kind == "elicitation" and decision.type != "edit"
    if is_answer and store.leases.holder(approval.session) is None:
        store.approvals.expire(approval.id, "the call that asked is over")
        raise InvalidDecision(
            f"{approval.id} was asked during a call that is over, since no process has the session "
            f"{approval.session} open: an answer would reach nobody. Nothing was decided."
        )
    if approval.kind == "elicitation" and decision.type == "respond":
        return checked_answer(approval, decision), None
    if decision.type != "edit":
        return decision, None
    if approval.kind != "write":
        raise InvalidDecision(f"{approval.id} is a question; its arguments cannot be edited.")
    return _checked_edit(approval, decision, find_tool)


def checked_answer(approval: ApprovalRecord, decision: Decision) -> Decision:
    """An answer to a server's question, as JSON where it asks with a form, defaults and all.

    Raises:
        InvalidDecision: It does not fit the form; the message says what would.
    """
    from agent.canonical import canonical_json
    from agent.forms import answer_to

    try:
        content = answer_to(approval.args, decision.message)
        spelled = None if content is None else canonical_json(content)
    except ValueError as error:
        raise InvalidDecision(
            f"The answer to {approval.id} does not fit: {error}. Nothing was decided; the whole "
            f"question: sayso approvals {approval.id}"
        ) from error
    return decision if spelled is None else Decision("respond", message=spelled)


def _checked_edit(
    approval: ApprovalRecord, decision: Decision, find_tool: FindTool
) -> tuple[Decision, str | None]:
    from agent.canonical import call_digest
    from agent.checks.arguments import ArgumentsError, normalise

    args: object = decision.args
    if not isinstance(args, dict) or not all(isinstance(name, str) for name in args):
        raise InvalidDecision(
            f"An edit of {approval.id} needs the whole new arguments, by name. Nothing was decided."
        )
    tool = find_tool(approval.tool)
    if tool is None:
        raise InvalidDecision(
            f"The tool {approval.tool} is not available here, so an edit cannot be checked. "
            "Nothing was decided; approve or reject the call as it is."
        )
    try:
        normalised = normalise(tool, args)
    except ArgumentsError as error:
        raise InvalidDecision(f"{error}\nNothing was decided; correct the arguments.") from error
    digest = call_digest(tool.name, normalised.args)
    if digest == approval.digest:  # nothing was changed, and nobody should be told that it was
        return Decision("approve", message=decision.message), None
    return replace(decision, args=normalised.args), digest
