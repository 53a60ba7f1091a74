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
            if decided.status in ("answered", "rejected"):
                self._settled(approval, sent=False)

    def _settled(self, approval: ApprovalRecord, sent: bool) -> None:
        """Record whether what a person decided went to the server: the decision does not say."""
        kind = "approval.sent" if sent else "approval.not_sent"
        about = {"approval": approval.id, "kind": approval.kind, "tool": approval.tool}
        try:
            self._store.trail.append(approval.session, [(kind, about)])
        except SaysoError as error:  # the server's session goes on all the same
            self._tell(f"What became of {approval.id} was not recorded: {error}")
        if not sent:
            server = f"MCP server {approval.tool}"
            self._tell(f"{server} did not get your answer to {approval.id}: {ENDED}.")

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


def _reply(approval: ApprovalRecord, settled: Callable[[bool], None]) -> Reply:
    if approval.status == "answered":
        return Reply("accept", answer_to(approval.args, approval.comment or ""), settled)
    if approval.status == "rejected":
        return Reply("decline", settled=settled)
    return Reply("cancel")
