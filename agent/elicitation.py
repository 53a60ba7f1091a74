"""A server's question to the person: kept in the store, answered in the chat or from the inbox.

The question lives as long as the call that raised it. When the server takes it back, the time is
over or the process ends, it expires: an answer would reach nobody. What a person decided at the
last moment stays decided; the trail says of every decision whether it was sent.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.canonical import call_digest
from agent.errors import AlreadyDecided, SaysoError
from agent.forms import ORDER, answer_to
from agent.mcp.questions import QUESTION, Question, Reply, unfit

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.records import ApprovalRecord

POLL_SECONDS = 0.5
ENDED = "the call that asked is over"
_SENT, _NOT_SENT = "approval.sent", "approval.not_sent"
_DECIDED = ("answered", "rejected")


class Elicitor:
    """Puts questions into the inbox and waits for their answers.

    Args:
        store: Where they are asked; another process may answer there.
        tell: Gets a sentence when a question was declined without asking.
    """

    def __init__(
        self, store: Store, tell: Callable[[str], None], poll: float = POLL_SECONDS
    ) -> None:
        self._store, self._tell, self._poll = store, tell, poll
        self._told: set[tuple[str, str]] = set()

    async def __call__(self, question: Question) -> Reply:
        """Ask, and wait until somebody decides. Cancelled, the question expires."""
        if (why := unfit(question)) is not None:
            if (question.server, why) not in self._told:
                self._told.add((question.server, why))
                self._tell(
                    f"MCP server {question.server} asked you something and was declined: {why}. "
                    f"It said: {question.message[:300]}"
                )
            return Reply("decline")
        if not question.call.info.session:
            return Reply("decline")
        approval = self._ask(question)
        question.call.tell({QUESTION: approval})
        try:
            while approval.status == "pending":
                await asyncio.sleep(self._poll)  # the store is all that processes share
                approval = self._store.approvals.get(approval.id, whole=True)
        except BaseException:
            self._end(approval)
            raise
        return _reply(approval, lambda sent: self._settled(approval, sent))

    def _end(self, approval: ApprovalRecord) -> None:
        """Nobody waits any more; what was decided since the last look is too late."""
        try:
            self._store.approvals.expire(approval.id, ENDED)
        except AlreadyDecided as decided:
            if decided.status in _DECIDED:
                self._settled(approval, sent=False)

    def _settled(self, approval: ApprovalRecord, sent: bool) -> None:
        """Record whether what a person decided went to the server: the decision does not say."""
        kind = _SENT if sent else _NOT_SENT
        try:
            self._store.trail.append(approval.session, [(kind, _about(approval))])
        except SaysoError as error:  # the server's session goes on all the same
            self._tell(f"What became of {approval.id} was not recorded: {error}")
        if not sent:
            self._tell(_did_not_get(approval, ENDED))

    def _ask(self, question: Question) -> ApprovalRecord:
        info, args = question.call.info, question.args
        if question.schema is not None:  # the store keeps the members of an object sorted
            args[ORDER] = list(question.schema["properties"])
        return self._store.approvals.ask(
            session=info.session,
            turn=self._store.sessions.get(info.session).turn,
            message="",
            call=f"{info.call_id}/{secrets.token_hex(4)}",  # one call may ask several times
            kind="elicitation",
            interrupt=None,
            tool=question.server,
            tool_version="",
            args=args,
            digest=call_digest(question.server, args),
            effects=[],
            rule="elicitation",
            reason=f"MCP server {question.server} asks; what you answer goes to it.",
            notes=[],
            preview=None,
            provenance=None,
            undo=None,
        )


def close_unsent(store: Store, session: str, epoch: int) -> list[str]:
    """Record of a session's decided questions that they were not sent, where nothing says they
    were: the process that was to send them was killed.

    Called by whoever takes the session over, before it drives it. A process that was killed in
    the moment between sending and recording it counts as one that did not send.

    Args:
        epoch: Of the lease that the caller holds.

    Returns:
        A sentence for a person about each.

    Raises:
        LeaseLost: The lease has another epoch; nothing was recorded.
    """
    asked = store.approvals.list(status=None, session=session, kind="elicitation", limit=None)
    decided = [approval for approval in asked if approval.status in _DECIDED]
    if not decided:
        return []
    trail = [
        entry for kind in (_SENT, _NOT_SENT) for entry in store.trail.entries(session, kind=kind)
    ]
    known = {entry.data.get("approval") for entry in trail}
    unsent = [approval for approval in reversed(decided) if approval.id not in known]
    if unsent:
        entries = [(_NOT_SENT, _about(approval)) for approval in unsent]
        store.trail.append(session, entries, epoch=epoch)
    return [_did_not_get(approval, "the process that was to send it ended") for approval in unsent]


def _about(approval: ApprovalRecord) -> dict[str, str]:
    return {"approval": approval.id, "kind": approval.kind, "tool": approval.tool}


def _did_not_get(approval: ApprovalRecord, why: str) -> str:
    return f"MCP server {approval.tool} did not get your answer to {approval.id}: {why}."


def _reply(approval: ApprovalRecord, settled: Callable[[bool], None]) -> Reply:
    if approval.status == "answered":
        return Reply("accept", answer_to(approval.args, approval.comment or ""), settled)
    if approval.status == "rejected":
        return Reply("decline", settled=settled)
    return Reply("cancel")
