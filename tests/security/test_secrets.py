"""Secrets of named arguments: what runs and what a reviewer sees has them, the record does not.

The tools here put the value into every text that a contract has.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agent.application import Application
from agent.evals.driving import converse
from agent.evals.reviewers import approves
from agent.models.scripted import malformed, step
from agent.repl.panel import approval_panel
from agent.repl.screen import Screen
from agent.session import AgentSession
from tests.support.sessions import calls, session
from tools.contract import (
    Call,
    Contract,
    Finding,
    OutcomeUnknown,
    Preview,
    Scope,
    ToolFailure,
    Undo,
    make_tool,
)

SECRET = "hunter2hunter2"
ASKED = {"user": "u", "password": SECRET}


class Short(BaseModel, extra="forbid"):
    user: str
    password: str = Field(max_length=10)


class Stripped(BaseModel, extra="forbid", str_strip_whitespace=True):
    user: str
    password: str


def short(user: str, password: str) -> str:
    """Take a short password only."""
    return "done"


def log_in(user: str, password: str) -> str:
    """Log in."""
    return f"{user} is in with {password}"


class Service:
    """Remembers passwords; ``outcomes`` are those of its calls, in order."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self.outcomes, self.ran = [*outcomes], list[str]()

    def reset(self, user: str, password: str) -> str:
        """Set a password."""
        self.ran.append(password)
        if self.outcomes and (outcome := self.outcomes.pop(0)) is not None:
            raise outcome
        return f"the password is {password} now"

    def tools(self) -> list[Any]:
        wordy = Contract(
            effects=frozenset({"write:x"}),
            open_world=False,
            always=lambda args: Scope(f"reset to {args['password']}", {}),
            preview=lambda args: Preview(f"becomes {args['password']}", "old", args["password"]),
            undo=Undo("set it back", lambda done: Call("reset", {**done.args, "user": "v"})),
            postcondition=lambda args, info, result: Finding(
                True, f"it is {args['password']!r}", {"now": args["password"]}
            ),
            reconcile=lambda args, info: Finding(None, f"perhaps {args['password']}"),
        )
        reads = Contract(effects=frozenset({"read:x"}), open_world=False)
        return [
            make_tool(self.reset, args=Stripped, contract=wordy),
            make_tool(log_in, args=Stripped, contract=reads),
            make_tool(short, args=Short, contract=wordy),
        ]


def kept(app: Application, opened: AgentSession) -> str:
    return json.dumps([*app.store.trail.export(opened.id)])


async def test_no_word_about_a_call_brings_its_secret_into_the_record(tmp_path: Path) -> None:
    service = Service(None, ToolFailure(f"{SECRET} was used before"))
    steps = [
        calls(("short", ASKED)),  # does not fit
        calls(("log_in", {"user": "u", "password": f" {SECRET} "})),  # repaired, with a note
        calls(("reset", ASKED)),
        calls(("reset", {**ASKED, "user": "w"})),
        "Done.",
        "Undone.",
    ]
    async with session(tmp_path, steps, tools=service.tools()) as (app, opened):
        await converse(opened, "go", approves)
        (effect,) = [e for e in app.store.ledger.list(opened.id) if e.state == "committed"]
        async for _ in opened.undo(effect.id):
            pass
        (asked,) = opened.pending()
        opened.allow_always(asked.id)
        (rule,) = opened.rules()
        opened.revoke(rule.id)
        async for _ in opened.resume():
            pass

        kinds = {entry.kind for entry in app.store.trail.entries(opened.id)}
        assert {"call.refused", "call.allowed", "approval.asked", "effect.committed"} <= kinds
        assert {"effect.failed", "rule.added", "rule.revoked"} <= kinds
        assert SECRET not in kept(app, opened)
        assert app.store.trail.verify(opened.id) == []
        assert service.ran == [SECRET] * len(service.ran)
        assert rule.scope == f"reset to {SECRET}"
        assert app.store.approvals.get(asked.id).args["password"] == SECRET


async def test_a_doubt_about_it_does_not_either(tmp_path: Path) -> None:
    service = Service(OutcomeUnknown(f"lost {SECRET}"))
    steps = [calls(("reset", ASKED)), "Done."]
    async with session(tmp_path, steps, tools=service.tools()) as (app, opened):
        await converse(opened, "go", approves)
        (effect,) = app.store.ledger.list(opened.id)
        assert effect.state == "in_doubt"
        app.store.ledger.settle(effect.id, True, app.actor, f"I see {SECRET} there")
        assert {"effect.in_doubt", "effect.found", "effect.settled"} <= {
            entry.kind for entry in app.store.trail.entries(opened.id)
        }
        assert SECRET not in kept(app, opened)


@pytest.mark.parametrize("sent", [f'{{"user":"u","password":"{SECRET}"', f"password='{SECRET}'"])
async def test_malformed_arguments_do_not_either(tmp_path: Path, sent: str) -> None:
    steps = [step(malformed("short", sent)), "Sorry."]
    async with session(tmp_path, steps, tools=Service().tools()) as (app, opened):
        async for _ in opened.run("go"):
            pass
        assert "You sent" in kept(app, opened)
        assert SECRET not in kept(app, opened)
        assert SECRET in str(await opened.history())  # the model reads what it has sent


async def test_the_panel_shows_it_whole(tmp_path: Path) -> None:
    steps = [calls(("reset", {"user": "u", "password": f" {SECRET} "}))]
    async with session(tmp_path, steps, tools=Service().tools()) as (_, opened):
        async for _ in opened.run("go"):
            pass
        (asked,) = opened.pending()
        file = io.StringIO()
        Screen.on(file, width=100).show(approval_panel(asked, opened.record))
        shown = file.getvalue()
        assert f'"password": "{SECRET}"' in shown
        assert f"password: ' {SECRET} ' → '{SECRET}'" in shown
        assert f"becomes {SECRET}" in shown
