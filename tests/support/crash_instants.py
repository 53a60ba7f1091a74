"""The instants of a session's life at which a crash run can end it, by name.

Before and after each thing that a process does about a session there is an instant, and before
and after the commit of those that are a transaction: ``before the intent``, ``before the intent
commits``, ``after the intent commits``, ``after the intent``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from langchain_core.messages import ToolMessage

from agent import settling
from agent.application import Application
from agent.models.scripted import ScriptedChatModel
from agent.session import STARTED, AgentSession
from agent.store.approvals import Approvals
from agent.store.database import Database
from agent.store.leases import Leases
from agent.store.ledger import Ledger
from agent.store.sessions import Sessions
from agent.store.trail import Trail
from tests.support.crash_runs import Kill


def _question(*_: Any, kind: str = "", undoes: str | None = None, **__: Any) -> str:
    if kind == "in_doubt":
        return "the question about a doubt"
    return "the question" if undoes is None else "the question about an undo"


def _decision(approvals: Approvals, answers: Any, *_: Any) -> str:
    doubts = [decision for _, decision, _ in answers if decision.type == "respond"]
    return "a doubt is settled" if doubts else "the decision"


def _update(*_: Any, entry: Any = None, **__: Any) -> str:
    return "the message" if entry and entry[0] == STARTED else "the state"


DOINGS: tuple[tuple[type, str, str | Callable[..., str]], ...] = (
    (Sessions, "create", "the session"),
    (Sessions, "update", _update),
    (Leases, "acquire", "the lease"),
    (Leases, "release", "the lease is given back"),
    (Approvals, "ask", _question),
    (Approvals, "ask_again", "the new question"),
    (Approvals, "expire", "the expiry"),
    (Approvals, "supersede", "what waits is superseded"),
    (Approvals, "decide_many", _decision),
    (Ledger, "begin", "the intent"),
    (Ledger, "finish", "the outcome"),
    (Ledger, "find", "the finding"),
    (Trail, "append", "the trail"),
    (ScriptedChatModel, "reply", "the reply"),
    (AgentSession, "_end", "the end"),
)
"""What a process does, without waiting for anything, and its name."""


class Instants:
    """Counts the instants of this process, and ends it at one of them.

    Args:
        kill: At which; ``None``: at none.
        reached: Called instead where it is to be killed from outside.
        lose: Called instead where it is to lose its database.
    """

    def __init__(
        self,
        kill: Kill | None,
        reached: Callable[[], None] = lambda: None,
        lose: Callable[[], None] = lambda: None,
    ) -> None:
        self.count = 0
        self._kill, self._reached, self._lose = kill, reached, lose
        self._left = kill.nth if kill else 0
        self._doing: list[str] = []

    def happens(self, what: str) -> None:
        """It is this instant."""
        self.count += 1
        if self._kill is None or self._kill.at not in ("", what):
            return
        self._left -= 1
        if self._left:
            return
        if self._kill.loses:
            self._lose()
        elif self._kill.delay is None:
            os.kill(os.getpid(), signal.SIGKILL)
        else:
            self._reached()

    def watch(self) -> None:
        """Be told of everything that the classes of this process do from now on."""
        for owner, name, what in DOINGS:
            self._watch(owner, name, what)
        commit = Database._commit

        def watched(database: Database, conn: Any) -> None:
            doing = self._doing[-1] if self._doing else "something"
            self.happens(f"before {doing} commits")
            commit(database, conn)
            self.happens(f"after {doing} commits")

        Database._commit = watched  # type: ignore[method-assign]
        self._watch_waiting(settling, "look_up", lambda *_: "the look-up")

    def watch_saver(self, app: Application) -> None:
        """Be told of what LangGraph saves."""
        self._watch_waiting(app.saver, "aput", lambda *_: "the checkpoint")
        self._watch_waiting(app.saver, "aput_writes", _saved)

    def _watch(self, owner: type, name: str, what: str | Callable[..., str]) -> None:
        original = getattr(owner, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            doing = what(*args, **kwargs) if callable(what) else what
            self.happens(f"before {doing}")
            self._doing.append(doing)
            try:
                result = original(*args, **kwargs)
            finally:
                self._doing.pop()
            self.happens(f"after {doing}")
            return result

        setattr(owner, name, watched)

    def _watch_waiting(self, owner: Any, name: str, what: Callable[..., str]) -> None:
        original = getattr(owner, name)

        async def watched(*args: Any, **kwargs: Any) -> Any:
            doing = what(*args)
            self.happens(f"before {doing}")
            result = await original(*args, **kwargs)
            self.happens(f"after {doing}")
            return result

        setattr(owner, name, watched)


def _saved(config: Any, writes: Any, *_: Any) -> str:
    """What is saved of a step: that a write has a result, or anything else."""
    messages = [
        m for _, value in writes if isinstance(value, dict | list) for m in _messages(value)
    ]
    added = [m for m in messages if isinstance(m, ToolMessage) and "look" not in (m.name or "")]
    return "a result is saved" if added else "a part of the step is saved"


def _messages(value: Any) -> list[Any]:
    return list(value.get("messages", ())) if isinstance(value, dict) else value
