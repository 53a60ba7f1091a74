"""``sayso authority``: what a session may do at all; a person's own command, kept in the trail."""

from __future__ import annotations

from typing import Annotated

import typer

from agent.cli.output import answer_json, answer_table, say
from agent.cli.sessions import Id, Json

Patterns = list[str] | None


def authority(
    session: Id,
    grant: Annotated[
        Patterns,
        typer.Option("--grant", metavar="EFFECT", help="Grant this too; can be repeated."),
    ] = None,
    deny: Annotated[
        Patterns,
        typer.Option("--deny", metavar="EFFECT", help="Deny this; wins over every grant."),
    ] = None,
    take_back: Annotated[
        Patterns,
        typer.Option("--take-back", metavar="EFFECT", help="Neither grant nor deny it any more."),
    ] = None,
    as_json_: Json = False,
) -> None:
    """What a session may do at all; widen or narrow it, at once and also while it runs."""
    from agent.authority import authority_of, change_authority
    from agent.cli.start import open_store
    from agent.config import actor

    with open_store() as (settings, store):
        whole = store.sessions.get(session).id
        if grant or deny or take_back:
            by = actor(settings, "cli")
            found = change_authority(
                store, whole, by, grant=grant or (), deny=deny or (), take_back=take_back or ()
            )
            say(f"{whole} may do this from now on. The trail keeps what it was, and your name.")
        else:
            found = authority_of(store, whole)
    if as_json_:
        answer_json({"session": whole, "granted": found.granted, "denied": found.denied})
        return
    rows = [["granted", pattern] for pattern in found.granted]
    rows += [["denied", pattern] for pattern in found.denied]
    answer_table(["", "EFFECT"], rows)
