"""``sayso show``: a session's receipts and its transcript, read without holding the session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agent.checkpoints import open_saver
from agent.cli.output import answer, answer_json, as_json
from agent.provenance import NOTE, REFUSED
from agent.receipt import build_receipt, describe_call, receipt_text
from agent.repl.panel import what_became_of
from agent.safe_text import one_line, plain, shorten
from agent.types import Receipt

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.records import ApprovalRecord, SessionRecord

RESULT_LINES, RESULT_WIDTH = 8, 400
"""What is shown of a result without ``--full``."""

_HANGING = "\n" + 6 * " "

_EVERY = 100_000


async def messages_of(database_url: str, session: str) -> list[BaseMessage]:
    """The messages of a session, whoever has it open at the moment.

    The state is read through a graph of the same channels that has no model and no tools, so
    that a session can be shown whose model or tools cannot be had here.
    """
    from langgraph.graph import START, StateGraph

    from agent.middleware.state import SaysoState

    reader = StateGraph(SaysoState)
    reader.add_node("reader", lambda _: {})
    reader.add_edge(START, "reader")
    async with open_saver(database_url) as saver:
        graph = reader.compile(checkpointer=saver)
        snapshot = await graph.aget_state({"configurable": {"thread_id": session}})
    return list(snapshot.values.get("messages", []))


# --- for a person --------------------------------------------------------------------------


def show_text(
    store: Store, record: SessionRecord, messages: Sequence[BaseMessage], *, full: bool
) -> None:
    """Receipts first, then the transcript."""
    parts = (record.id, record.state, record.model, *record.labels)
    answer(" · ".join(map(one_line, parts)))
    if record.title:
        answer(one_line(record.title))
    if record.error:
        answer(f"error: {_hanging(record.error)}")
    for line in _receipt_lines(store, record):
        answer(line)
    approvals = _approvals_by_call(store, record.id)
    for line in _transcript(messages, approvals, full):
        answer(line)


def _receipts(store: Store, record: SessionRecord) -> Iterator[tuple[int, Receipt]]:
    for turn in range(1, record.turn + 1):
        if receipt := build_receipt(store, record.id, turn):
            yield turn, receipt


def _receipt_lines(store: Store, record: SessionRecord) -> Iterator[str]:
    found = list(_receipts(store, record))
    yield ""
    if not found:
        yield "Receipt: no write was proposed."
    for turn, receipt in found:
        yield f"Receipt of turn {turn}"
        for line in receipt_text(receipt).split("\n"):
            yield f"  {one_line(line)}"


def _approvals_by_call(store: Store, session: str) -> dict[tuple[str, str], list[ApprovalRecord]]:
    found: dict[tuple[str, str], list[ApprovalRecord]] = {}
    for approval in reversed(store.approvals.list(status=None, session=session, limit=_EVERY)):
        found.setdefault((approval.message, approval.call), []).append(approval)
    return found


def _transcript(
    messages: Sequence[BaseMessage],
    approvals: dict[tuple[str, str], list[ApprovalRecord]],
    full: bool,
) -> Iterator[str]:
    for message in messages:
        match message:
            case AIMessage():
                yield ""
                if message.text:
                    yield f"agent{_sent_back(message)}: {_hanging(message.text)}"
                for call in message.tool_calls:
                    yield f"  → {one_line(describe_call(call['name'], call['args'], _width(full)))}"
                    for approval in approvals.get((message.id or "", call["id"] or ""), ()):
                        yield f"    {_decision(approval)}"
            case ToolMessage():
                mark = "←" if message.status == "success" else "✗"
                yield f"  {mark} {one_line(message.name or '')}: {_result(message, full)}"
            case _:
                yield ""
                is_note = NOTE in message.additional_kwargs
                who = "sayso" if is_note else "you" if message.type == "human" else message.type
                yield f"{who}: {_hanging(message.text)}"


def _sent_back(reply: AIMessage) -> str:
    """That a reply was no answer, and why."""
    unsupported = reply.additional_kwargs.get(REFUSED)
    if unsupported is None:
        return ""
    return f" (a draft, sent back: no support for {one_line(', '.join(unsupported))})"


def _hanging(text: str) -> str:
    """The text, its further lines further in than any line of ours: none can pass for one."""
    return plain(text).replace("\n", _HANGING)


def _width(full: bool) -> int:
    return _EVERY if full else 160


def _decision(approval: ApprovalRecord) -> str:
    """Who is said to have decided what."""
    if approval.status == "pending":
        return f"{approval.id} waits since {approval.asked_at} ({approval.kind})"
    if approval.was_void:
        return what_became_of(approval)
    by = one_line(approval.decided_by or "the program")
    via = f" via {one_line(approval.decided_via)}" if approval.decided_via else ""
    text = f"{approval.id} {approval.status} by {by}{via} at {approval.decided_at}"
    if approval.decided_args is not None:
        text += f", ran with {one_line(describe_call(approval.tool, approval.decided_args))}"
    return text + (f": {one_line(approval.comment)}" if approval.comment else "")


def _result(message: ToolMessage, full: bool) -> str:
    lines = plain(str(message.content)).strip("\n").split("\n")
    shown = lines if full else [shorten(line, RESULT_WIDTH) for line in lines[:RESULT_LINES]]
    if len(lines) > len(shown):
        shown.append(f"… {len(lines) - len(shown)} more lines (--full)")
    return _HANGING.join(shown)


# --- as JSON -------------------------------------------------------------------------------


def show_json(store: Store, record: SessionRecord, messages: Sequence[BaseMessage]) -> None:
    """One object: the session, its receipts, messages, approvals and effects."""
    approvals = store.approvals.list(status=None, session=record.id, limit=_EVERY)
    effects = store.ledger.list(session=record.id, limit=_EVERY)
    answer_json(
        {
            "session": as_json(record),
            "receipts": [{"turn": n, **asdict(r)} for n, r in _receipts(store, record)],
            "messages": [_message(message) for message in messages],
            "approvals": [as_json(approval) for approval in reversed(approvals)],
            "effects": [as_json(effect) for effect in reversed(effects)],
        }
    )


def _message(message: BaseMessage) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.type, "id": message.id, "text": str(message.text)}
    if isinstance(message, AIMessage):
        fields["calls"] = [
            {"call": call["id"], "tool": call["name"], "args": call["args"]}
            for call in message.tool_calls
        ]
        if REFUSED in message.additional_kwargs:
            fields["unsupported"] = message.additional_kwargs[REFUSED]
    if isinstance(message, ToolMessage):
        fields |= {
            "call": message.tool_call_id,
            "tool": message.name,
            "status": message.status,
        }
    return fields
