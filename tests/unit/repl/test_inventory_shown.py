"""``/tools``: what each tool can touch, and what it would get in the session as it is now."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel

from agent.policy import Policy, read_policy
from agent.repl.commands import run_command
from agent.repl.screen import Screen
from agent.types import Authority
from tests.support.fake_chat import FakeApplication
from tools.contract import Contract, make_tool


class Nothing(BaseModel):
    """No arguments."""


def act() -> str:
    """Act."""
    return ""


async def test_a_session_that_has_read_strangers_words_asks_about_what_a_rule_allows(
    tmp_path: Path,
) -> None:
    writes = Contract(effects=frozenset({"write:x"}))
    app: Any = FakeApplication(tmp_path)
    app.policy = Policy(read_policy("version: 1\nrules:\n  - {name: all, verdict: allow}"))
    app.authority = app.session.authority = Authority(("*",))
    app.tools = app.session.tools = [make_tool(act, args=Nothing, contract=writes)]
    shown = io.StringIO()
    talk: Any = SimpleNamespace(screen=Screen.on(shown, width=200), session=None)

    async def application() -> Any:
        return app

    talk.application = application
    await run_command(talk, "/tools")
    assert "runs by itself · write:x · by organisation/all · Act." in shown.getvalue()
    assert "All of it together, without asking: write:x" in shown.getvalue()

    talk.session = app.session  # it has read untrusted content
    await run_command(talk, "/tools")
    assert "waits for you · write:x · by flow/untrusted · Act." in shown.getvalue()
    assert "Once a person agreed: write:x" in shown.getvalue()
