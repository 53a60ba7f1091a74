"""``sayso run``, ``resume`` and ``chat``: the commands that drive a session."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.output import say
from agent.cli.start import Start, with_start
from agent.errors import UsageError

if TYPE_CHECKING:
    from agent.application import Application
    from agent.cli.driving import Begin, Settle
    from agent.cli.start import Plan
    from agent.events import Done
    from agent.session import AgentSession

NOBODY = "headless run, nobody to ask"
"""The reason that the model reads when a headless run rejects its write."""


class OnAsk(StrEnum):
    """What a headless run does with a write that waits for a person."""

    WAIT = "wait"
    DENY = "deny"
    FAIL = "fail"


# --- run -----------------------------------------------------------------------------------


@with_start()
def run(
    start: Start,
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="The task; - reads it from standard input.")
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, the last one 'done'.")
    ] = False,
    on_ask: Annotated[
        OnAsk,
        typer.Option(
            help="A write wants approval: wait (exit 3), deny it and go on, or fail (exit 5)."
        ),
    ] = OnAsk.WAIT,
) -> None:
    """Do one task, headless: it never hangs for an answer and never approves by itself."""
    import asyncio
    from dataclasses import replace

    from agent.cli.start import plan

    text = _task(task)
    planned = replace(plan(start, "run"), asks=on_ask is OnAsk.WAIT)
    raise typer.Exit(asyncio.run(_run(planned, text, as_json, on_ask)))


def _task(task: str) -> str:
    text = sys.stdin.read() if task == "-" else task
    if not text.strip():
        raise UsageError('There is no task. Nothing was done. Use: sayso run "TASK"')
    return text.strip()


async def _run(plan: Plan, text: str, as_json: bool, on_ask: OnAsk) -> int:
    from agent.cli.driving import drive
    from agent.cli.report import JsonReporter, TextReporter
    from agent.cli.start import opened

    settle: Settle | None = {OnAsk.DENY: _deny, OnAsk.FAIL: _fail}.get(on_ask)
    async with opened(plan) as app:
        session = app.create_session()
        say(f"{session.id} · {session.model}")
        reporter = JsonReporter() if as_json else TextReporter()
        return await drive(
            app, session.id, reporter, begin=lambda opened: opened.run(text), settle=settle
        )


async def _deny(app: Application, session: AgentSession) -> Done | None:
    """Reject what can be rejected; a write in doubt is a question that only a person answers."""
    from dataclasses import replace

    from agent import inbox
    from agent.errors import AlreadyDecided
    from agent.types import Decision

    program = replace(app.actor, name="sayso run", via="run")
    writes = [approval for approval in session.pending() if approval.kind != "in_doubt"]
    if not writes:
        return _as_it_is(session, "waiting", 3)
    for approval in writes:
        try:
            no = Decision("reject", message=NOBODY)
            inbox.decide(app.store, [(approval.id, no)], program, lambda _: None)
        except AlreadyDecided as error:
            say(str(error))  # a person was faster: theirs counts
    return None


async def _fail(app: Application, session: AgentSession) -> Done | None:
    """Cancel: nothing that waits runs."""
    await session.cancel()
    return _as_it_is(session, "cancelled", 5)


def _as_it_is(session: AgentSession, state: str, code: int) -> Done:
    from typing import cast

    from agent.events import Done
    from agent.types import SessionState

    return Done(session.id, cast("SessionState", state), "", code)


# --- resume --------------------------------------------------------------------------------


@with_start("model", "trust")
def resume(
    start: Start,
    session: Annotated[str, typer.Argument(metavar="ID", help="A session, or how its id begins.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, the last one 'done'.")
    ] = False,
    ask_again: Annotated[
        bool,
        typer.Option("--ask-again", help="Ask again what expired undecided, and wait for it."),
    ] = False,
) -> None:
    """Carry a session on from where it stands: a decision, an interruption, an outage."""
    import asyncio

    from agent.cli.start import open_store, plan

    with open_store() as (_, store):
        whole = store.sessions.get(session).id
    going_on = carry_on(plan(start, "cli"), whole, as_json=as_json, ask_again=ask_again)
    raise typer.Exit(asyncio.run(going_on))


async def carry_on(
    plan: Plan,
    session: str,
    *,
    as_json: bool = False,
    ask_again: bool = False,
    begin: Begin | None = None,
    again: bool = True,
) -> int:
    """Resume a session and report it.

    Args:
        ask_again: Put what expired undecided to a person once more, instead of letting it go.
        begin: What it does instead of going on where it stands.
        again: Whether the answer of a turn that had ended before is given once more.

    Returns:
        The exit code.

    Raises:
        SessionBusy: Another process holds the session.
    """
    from agent.cli.driving import drive
    from agent.cli.report import JsonReporter, TextReporter
    from agent.cli.start import opened

    async with opened(plan) as app:
        before = app.store.sessions.get(session)
        for change in app.changes(before):
            say(change)
        if ask_again:
            async with app.open_session(session) as opened_again:
                for row in await opened_again.ask_again():
                    say(f"Asked again: {row.tool} [{row.id}]")
        reporter = JsonReporter() if as_json else TextReporter()
        code = await drive(app, session, reporter, begin=begin, again=again)
        if begin is None and again and before.state in ("done", "cancelled"):
            say(f"{session} was {before.state}: there was nothing to carry on.")
        return code


# --- chat ----------------------------------------------------------------------------------


@with_start()
def chat(
    start: Start,
    latest: Annotated[
        bool, typer.Option("--continue", "-c", help="Go on with the latest session.")
    ] = False,
    session: Annotated[
        str | None, typer.Option("--resume", "-r", metavar="ID", help="Go on with this session.")
    ] = None,
) -> None:
    """Talk to the agent. Reads run by themselves; every write waits for you."""
    import asyncio

    if latest and session:
        raise UsageError("Use -c or -r ID, not both. Nothing was done.")
    raise typer.Exit(asyncio.run(_chat(start, latest, session)))


async def _chat(start: Start, latest: bool, session: str | None) -> int:
    """The prompt comes first; LangChain is imported in a thread while the person types."""
    import asyncio
    from contextlib import AsyncExitStack
    from importlib import import_module

    from agent.cli.faults import logged
    from agent.cli.history import history_file
    from agent.cli.start import plan
    from agent.repl.app import chat as talk

    if sys.stdin is None or not sys.stdin.isatty():
        raise UsageError(
            'The chat needs a terminal to read from; nothing was done. Use: sayso run "TASK"'
        )
    planned = plan(start, "chat")
    home = planned.settings.ensure_home()
    async with AsyncExitStack() as stack:
        stack.enter_context(logged(home))

        async def open_app() -> Application:
            module = await asyncio.to_thread(import_module, "agent.application")
            app: Application = await stack.enter_async_context(
                module.Application.open(planned.settings, planned.options)
            )
            return app

        return await talk(
            open_app,
            waiting=planned.waiting,
            session_id=session,
            continue_latest=latest,
            one_model=start.model is not None,
            history=history_file(home),
        )
