"""``sayso effects`` and ``sayso trail``: the ledger and the record."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.help import PlainCommand, PlainGroup
from agent.cli.output import (
    answer,
    answer_json,
    answer_json_array,
    answer_pairs,
    answer_table,
    as_json,
    json_text,
    moment,
    say,
)
from agent.errors import UsageError

if TYPE_CHECKING:
    from agent.store import Store

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
OfSession = Annotated[
    str | None, typer.Argument(metavar="ID", help="Of this session only; else of all.")
]


def effects(
    effect: Annotated[str | None, typer.Argument(metavar="ID", help="Show this one whole.")] = None,
    as_json_: Json = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Of this session only.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="STATE", help="Only those that are committed, in_doubt …")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many at most.")] = 50,
) -> None:
    """The ledger: every write that was begun, and what became of it; the latest first."""
    from agent.cli.start import open_store

    _check_state(state)
    with open_store() as (_, store):
        if effect is not None:
            found = as_json(store.ledger.get(effect))
            answer_json(found) if as_json_ else answer_pairs(found)
            return
        whole = store.sessions.get(session).id if session else None
        rows = store.ledger.list(session=whole, state=state, limit=limit)  # type: ignore[arg-type]
    if as_json_:
        answer_json_array(map(as_json, rows))
    elif rows:
        from agent.receipt import describe_call

        answer_table(
            ["ID", "STATE", "SESSION", "BEGUN (UTC)", "TRIES", "CALL"],
            [
                [
                    row.id,
                    row.state,
                    row.session,
                    moment(row.started_at),
                    str(row.attempts),
                    describe_call(row.tool, row.args),
                ]
                for row in rows
            ],
        )
    else:
        say("No write was begun.")


def _check_state(state: str | None) -> None:
    from typing import get_args

    from agent.types import EffectState

    known = get_args(EffectState)
    if state is not None and state not in known:
        raise UsageError(f"There is no state {state!r}. There is: {', '.join(known)}.")


trail = typer.Typer(
    cls=PlainGroup, help="The record: show it, verify it, export it.", no_args_is_help=True
)


@trail.command("show", cls=PlainCommand)
def show(
    session: OfSession = None,
    as_json_: Json = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="The last so many entries.")] = 50,
    all_: Annotated[bool, typer.Option("--all", help="Every entry.")] = False,
) -> None:
    """The latest entries, in order; all of them with --all."""
    from agent.cli.start import open_store

    with open_store() as (_, store):
        whole = _whole(store, session)
        entries = store.trail.entries(whole) if all_ else store.trail.latest(limit, whole)
    if as_json_:
        answer_json_array(map(as_json, entries))
    elif entries:
        answer_table(
            ["SEQ", "AT (UTC)", "SESSION", "KIND", "DATA"],
            [
                [
                    str(entry.seq),
                    entry.at[:19].replace("T", " "),
                    entry.session,
                    entry.kind,
                    "(erased)" if entry.erased else json_text(entry.data),
                ]
                for entry in entries
            ],
        )
    else:
        say("The trail is empty.")


@trail.command("verify", cls=PlainCommand)
def verify(session: OfSession = None, as_json_: Json = False) -> None:
    """Check every hash chain: what was changed, removed or moved is named (exit 1)."""
    from agent.cli.start import open_store

    with open_store() as (_, store):
        whole = _whole(store, session)
        problems = store.trail.verify(whole)
        heads = [head for head in store.trail.heads() if whole in (None, head[0])]
    entries = sum(count for _, count, _ in heads)
    if as_json_:
        found = [{"session": p.session, "seq": p.seq, "what": p.what} for p in problems]
        answer_json({"entries": entries, "sessions": len(heads), "problems": found})
    elif problems:
        for problem in problems:
            answer(f"{problem.session}, entry {problem.seq}: {problem.what}")
    else:
        answer(
            f"{_count(entries, 'entry', 'entries')} in {_count(len(heads), 'session')}, all intact"
        )
    if problems:
        say(f"{_count(len(problems), 'problem')}: the record is not what was written.")
        raise typer.Exit(1)


@trail.command("export", cls=PlainCommand)
def export(session: OfSession = None) -> None:
    """Every entry with its salt, one JSON object a line, so that others can verify it."""
    from agent.cli.start import open_store

    with open_store() as (_, store):
        for entry in store.trail.export(_whole(store, session)):
            sys.stdout.write(json_text(entry) + "\n")


def _whole(store: Store, session: str | None) -> str | None:
    """A session's whole id. A deleted one still has its trail, under its whole id."""
    from agent.errors import NotFound

    if session is None:
        return None
    try:
        return store.sessions.get(session).id
    except NotFound:
        if any(head[0] == session for head in store.trail.heads()):
            return session
        raise


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
