"""``sayso sessions``, ``show``, ``fork``, ``cancel`` and ``rules``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.help import PlainCommand, PlainGroup
from agent.cli.output import (
    answer,
    answer_json_array,
    answer_table,
    as_json,
    confirm,
    moment,
    on_terminal,
    say,
)
from agent.cli.start import Start, with_start
from agent.errors import SaysoError, UsageError

if TYPE_CHECKING:
    from agent.store.records import RuleRecord

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="A session, or how its id begins.")]

app = typer.Typer(cls=PlainGroup, help="The sessions, the latest first; delete one.")


@app.callback(invoke_without_command=True)
def sessions(
    ctx: typer.Context,
    as_json_: Json = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many at most.")] = 50,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only those that are waiting, done …")
    ] = None,
) -> None:
    """The sessions, the latest first; delete one."""
    if ctx.invoked_subcommand is not None:
        return
    from agent.cli.start import open_store

    _check_state(state)
    with open_store() as (_, store):
        rows = store.sessions.list(limit=limit, state=state)  # type: ignore[arg-type]
    if as_json_:
        answer_json_array(map(as_json, rows))
    elif rows:
        answer_table(
            ["ID", "STATE", "CHANGED (UTC)", "MODEL", "TITLE"],
            [[r.id, r.state, moment(r.updated_at), r.model, r.title] for r in rows],
        )
    else:
        say("There are no sessions yet." if state is None else f"No session is {state}.")


def _check_state(state: str | None) -> None:
    from typing import get_args

    from agent.types import SessionState

    known = get_args(SessionState)
    if state is not None and state not in known:
        raise UsageError(f"There is no state {state!r}. There is: {', '.join(known)}.")


@app.command(cls=PlainCommand)
def delete(
    session: Id,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Erase what a session held; a tombstone stays in the trail."""
    import asyncio

    from agent.cli.history import forget, history_file
    from agent.cli.start import open_store, opened, plan
    from agent.safe_text import one_line
    from agent.store.masking import Masks

    with open_store() as (settings, store):
        record = store.sessions.get(session)
    if not yes:
        if not on_terminal():
            raise UsageError(f"Deleting {record.id} cannot be undone; add --yes. Nothing was done.")
        title = f" ({one_line(record.title)})" if record.title else ""
        if not confirm(f"Erase {record.id}{title} for good?"):
            raise SaysoError("Nothing was deleted.")

    async def erase() -> list[str]:
        async with opened(plan(Start(), "cli", folder=False)) as application:
            turns = application.store.trail.entries(record.id, kind="turn.started")
            await application.delete(record.id)
            return [turn.data["text"] for turn in turns]

    typed = asyncio.run(erase())
    say(f"{record.id} is deleted. That it existed stays in the trail.")
    path = history_file(settings.home)
    try:
        forget(path, typed, Masks(settings.secrets).text)
    except OSError as error:
        raise SaysoError(
            f"What you typed in it is still in the chat's history, {path}: {error.strerror}."
        ) from error


# --- one session ---------------------------------------------------------------------------


def show(
    session: Id,
    as_json_: Json = False,
    full: Annotated[bool, typer.Option("--full", help="Results whole.")] = False,
    as_test_: Annotated[
        bool, typer.Option("--as-test", help="As a pytest file that replays it without a model.")
    ] = False,
) -> None:
    """One session: the receipt first, then what was said, called and decided."""
    import asyncio

    from agent.cli.faults import logged
    from agent.cli.start import open_store
    from agent.cli.transcript import messages_of, show_json, show_text

    with open_store() as (settings, store):
        record = store.sessions.get(session)
        with logged(settings.home):
            messages = asyncio.run(messages_of(settings.database_url, record.id))
        if as_test_:
            from agent.evals.as_test import as_test
            from agent.evals.recorded import read_session

            answer(as_test(read_session(store, record.id, messages), record.tools).rstrip())
        elif as_json_:
            show_json(store, record, messages)
        else:
            show_text(store, record, messages, full=full)


@with_start("trust")
def fork(
    start: Start,
    session: Id,
    at: Annotated[
        int | None,
        typer.Option("--at", metavar="TURN", help="With the messages up to this turn, from 1."),
    ] = None,
) -> None:
    """A new session with the messages of this one, and none of its approvals or rules."""
    import asyncio

    from agent.cli.start import opened, plan

    async def branch() -> str:
        async with opened(plan(start, "cli")) as application:
            return (await application.fork(session, at)).id

    made = asyncio.run(branch())
    answer(made)
    say(f"Go on with it: sayso chat -r {made}")


@with_start("trust")
def cancel(start: Start, session: Id) -> None:
    """End a session: nothing that waits runs."""
    import asyncio

    from agent.cli.start import open_store, opened, plan

    with open_store() as (_, store):
        whole = store.sessions.get(session).id

    async def end() -> int:
        async with opened(plan(start, "cli")) as application:
            async with application.open_session(whole) as held:
                await held.cancel()
            return len(application.store.approvals.list(session=whole))

    doubts = asyncio.run(end())
    say(f"{whole} is cancelled; nothing that waited was run.")
    if doubts:
        say(f"{doubts} write(s) of it are still in doubt: sayso approvals --session {whole}")


# --- its rules -----------------------------------------------------------------------------


def rules(
    session: Id,
    revoke: Annotated[
        str | None, typer.Option("--revoke", metavar="RULE", help="Take this rule back.")
    ] = None,
    as_json_: Json = False,
) -> None:
    """What was agreed to with "always" in a session; take it back."""
    from agent.cli.start import open_store
    from agent.config import actor

    with open_store() as (settings, store):
        record = store.sessions.get(session)
        if revoke is not None:
            rule = store.rules.get(revoke)
            if rule.session != record.id:
                raise UsageError(f"{rule.id} is a rule of {rule.session}. Nothing was changed.")
            store.rules.revoke(rule.id, actor(settings, "cli"))
            say(f"Revoked {_in_words(rule)}. Such calls wait for a person again.")
            return
        found, expired = store.rules.active(record.id), store.rules.expired(record.id)
    if as_json_:
        answer_json_array(map(as_json, found))
    elif found:
        answer_table(
            ["ID", "TOOL", "BY", "UNTIL (UTC)", "SCOPE"],
            [
                [r.id, r.tool, r.created_by, moment(r.expires_at) or "the session ends", r.scope]
                for r in found
            ],
        )
    else:
        say(f'No "always" rules are in force in {record.id}.')
    for rule in expired:
        say(f"Expired {moment(rule.expires_at)} UTC: {_in_words(rule)}. Such calls wait again.")


def _in_words(rule: RuleRecord) -> str:
    from agent.safe_text import one_line

    return f"{rule.id}: {one_line(rule.scope)}"
