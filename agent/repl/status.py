"""The model, the tokens and what waits, in words: the banner, and the line under the prompt."""

from __future__ import annotations

from agent.config import OFFLINE
from agent.repl.ports import Application, Session
from agent.repl.screen import join
from agent.safe_text import one_line, shorten, strict

OFFLINE_NOTE = "offline: a rule-based stand-in, set OPENAI_API_KEY for a real model"


def banner(app: Application, model: str) -> str:
    """What is known once the application is open: model, workspace, what it has to say."""
    rows = [f"model      {model_text(model)}"]
    if app.workspace:
        rows.append(f"workspace  {strict(str(app.workspace))}")
    rows += [f"note       {strict(notice)}" for notice in app.notices]
    return "\n".join(rows)


def status_line(model: str, session: Session | None) -> str:
    """Model, session, labels, tokens and what waits, on one line."""
    model = shorten(model, 30)
    if session is None:
        return join((model, "new session"))
    record, waiting = session.record, len(session.pending())
    tokens = sum(record.tokens.values())
    return join(
        (
            model,
            record.id,
            " ".join(record.labels),
            f"{tokens:,} tokens" if tokens else "",
            f"{waiting} waiting: /approvals" if waiting else "",
        )
    )


def model_text(name: str) -> str:
    """The model's name; the offline one says what it is."""
    return OFFLINE_NOTE if name == OFFLINE else one_line(name)
