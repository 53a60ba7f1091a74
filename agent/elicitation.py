"""A server's question to the person: kept in the store, answered in the chat or from the inbox.

The question lives as long as the call that raised it. When the server takes it back, the time is
over or the process ends, it expires: an answer would reach nobody.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from agent.canonical import call_digest
from agent.errors import AlreadyDecided
from agent.mcp.questions import QUESTION, Question, Reply, answer_to, unfit

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
        finally:
            with suppress(AlreadyDecided):
                self._store.approvals.expire(approval.id, ENDED)
        return _reply(approval)

    def _ask(self, question: Question) -> ApprovalRecord:
        info, args = question.call.info, question.args
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


def _reply(approval: ApprovalRecord) -> Reply:
    if approval.status == "answered":
        return Reply("accept", answer_to(approval.args, approval.comment or ""))
    return Reply("decline" if approval.status == "rejected" else "cancel")
