"""``sayso effects`` and ``sayso trail``: the ledger and the record."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
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
    from agent.store import Problem, Store
    from agent.store.heads import Head

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
    cls=PlainGroup,
    help="The record: show it, verify it, export it; keep its head elsewhere, or seal it.",
    no_args_is_help=True,
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
def verify(
    session: OfSession = None,
    as_json_: Json = False,
    head: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Also against what trail head printed; - is stdin."),
    ] = None,
) -> None:
    """Check every hash chain: what was changed, removed or moved is named (exit 1).

    With SAYSO_TRAIL_KEY the seals are checked too.
    """
    from agent.cli.start import open_store

    kept = _read_head(head) if head is not None else None
    with open_store() as (settings, store):
        whole = session if kept and session in kept.ends else _whole(store, session)
        problems = store.trail.verify(whole, kept)
        sessions = sum(whole in (None, name) for name, _, _ in store.trail.heads())
        entries = store.trail.length(whole)
        unread = 0 if settings.trail_key else store.trail.sealed()
    if as_json_:
        answer_json(
            {
                "entries": entries,
                "sessions": sessions,
                "head": kept is not None,
                "seals": settings.trail_key is not None,
                "problems": [asdict(problem) for problem in problems],
            }
        )
    elif problems:
        _name(problems)
    else:
        answer(
            f"{_count(entries, 'entry', 'entries')} in {_count(sessions, 'session')}, all intact"
        )
    if unread:
        say(f"{_count(unread, 'seal')} not checked: SAYSO_TRAIL_KEY is not set.")
    if problems:
        say(f"{_count(len(problems), 'problem')}: the record cannot be relied on as it is.")
        raise typer.Exit(1)


@trail.command("head", cls=PlainCommand)
def head(as_json_: Json = False) -> None:
    """The end of every chain, to be kept elsewhere: verify --head checks the record against it."""
    from agent.cli.start import open_store

    with open_store() as (_, store):
        found = store.trail.head()
    answer_json(found.json()) if as_json_ else answer(found.text())


@trail.command("seal", cls=PlainCommand)
def seal() -> None:
    """Seal, with SAYSO_TRAIL_KEY, the chains that have no seal; for a record begun without a key.

    A seal says that its maker found the chain in order. Later changes show; earlier ones do not.
    What was sealed with SAYSO_TRAIL_KEY_BEFORE is checked with that key, and sealed anew.
    """
    from agent.cli.start import open_store

    with open_store() as (_, store):
        result = store.trail.seal()
    _name(result.problems)
    for session in result.busy:
        answer(f"{session}: open in another process; close it there and seal again")
    before = f", {len(result.before)} had a seal" if result.before else ""
    answer(f"{_count(len(result.sealed), 'session')} sealed{before}")
    if left := len({problem.session for problem in result.problems}) + len(result.busy):
        say(f"{_count(left, 'session')} not sealed.")
        raise typer.Exit(1)


@trail.command("export", cls=PlainCommand)
def export(session: OfSession = None) -> None:
    """Every entry with its salt, one JSON object a line, so that others can verify it."""
    from agent.cli.start import open_store

    with open_store() as (_, store):
        for entry in store.trail.export(_whole(store, session)):
            sys.stdout.write(json_text(entry) + "\n")


def _name(problems: Iterable[Problem]) -> None:
    """Each on a line of its own, whatever the id of its session has become."""
    from agent.safe_text import one_line

    for problem in problems:
        answer(one_line(f"{problem.session}, entry {problem.seq}: {problem.what}"))


def _read_head(file: str) -> Head:
    """A head that was kept in a file, or comes from stdin."""
    from agent.store.heads import parse_head

    name = "standard input" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return parse_head(data.decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not a head of the trail: it is not text.") from error
    except UsageError as error:
        raise UsageError(f"{name}: {error}") from error


def _whole(store: Store, session: str | None) -> str | None:
    """A session's whole id. A deleted or damaged one still has its trail, under its whole id."""
    from agent.errors import NotFound, StoreError

    if session is None:
        return None
    try:
        return store.sessions.get(session).id
    except (NotFound, StoreError):
        if any(head[0] == session for head in store.trail.heads()):
            return session
        raise


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
