"""``sayso reconcile`` and ``undo``: what can still be done about a write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from agent.cli.inbox import NoResume, Yes, carry_on_here, is_ours, refuse_decided, whole
from agent.cli.output import confirm, on_terminal, say
from agent.cli.start import Start, with_start
from agent.errors import NotFound, SaysoError, UsageError

if TYPE_CHECKING:
    from agent.store import Store
    from agent.store.records import EffectRecord


@with_start("trust")
def reconcile(
    start: Start,
    doubt: Annotated[
        str, typer.Argument(metavar="ID", help="The whole id of the effect, or of its approval.")
    ],
    happened: Annotated[
        bool | None,
        typer.Option(
            "--happened/--not-happened",
            help="What the record itself says; without it, its service is asked.",
        ),
    ] = None,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Kept with your word.")] = "",
    yes: Yes = False,
    no_resume: NoResume = False,
) -> None:
    """Find out whether a write happened whose outcome is unknown, or say so."""
    import asyncio

    from agent.cli.start import open_store
    from agent.config import actor

    with open_store() as (settings, store):
        effect = _effect_in_doubt(store, doubt)
        session = store.sessions.get(effect.session)
        if happened is not None:
            word = "happened" if happened else "did not happen"
            if on_terminal() and not yes and not confirm(f"{_called(effect)} {word}. Record that?"):
                raise SaysoError("Nothing was recorded.")
            store.ledger.settle(effect.id, happened, actor(settings, "cli"), comment)
            say(f"Recorded: {_called(effect)} {word} [{effect.id}].")
        elif effect.state != "in_doubt":
            raise UsageError(f"{effect.id} is not in doubt: it is {effect.state}.")
        goes_on = not (no_resume and happened is not None) and is_ours(settings, store, session)
    if happened is None:
        if not goes_on:
            raise SaysoError(
                "Its service can only be asked where the session goes on. Nothing was changed. "
                f"Or say what its record shows: sayso reconcile {effect.id} --happened (or "
                "--not-happened)"
            )
        asyncio.run(_ask_the_service(start, effect))
    raise typer.Exit(carry_on_here(start, session.id) if goes_on and not no_resume else 0)


async def _ask_the_service(start: Start, effect: EffectRecord) -> None:
    """Look the write up in its service's record, and say what came of it.

    Raises:
        UsageError: The record cannot tell; a person has to.
    """
    from agent.cli.start import opened, plan
    from agent.safe_text import one_line

    async with opened(plan(start, "cli")) as app, app.open_session(effect.session) as session:
        found = await session.look_up(effect.id)
    evidence = (found.evidence or {}).get("found")
    tool = one_line(found.tool)
    summary = f"{tool} has no record that can be asked."
    if evidence:  # its own words, on a line of ours
        summary = f"{tool} says: “{one_line(evidence['summary'])}”"
    if found.state == "in_doubt":
        raise UsageError(
            f"It is still not known whether {_called(found)} happened. {summary} Look yourself, "
            f"then: sayso reconcile {found.id} --happened (or --not-happened)"
        )
    word = "happened" if found.state == "committed" else "did not happen"
    say(f"Recorded: {_called(found)} {word} [{found.id}]. {summary}")


def _called(effect: EffectRecord) -> str:
    from agent.receipt import describe_call
    from agent.safe_text import one_line

    return one_line(describe_call(effect.tool, effect.args))


def _effect_in_doubt(store: Store, whole_id: str) -> EffectRecord:
    """The effect of this whole id, or the one that the approval of this id asks about."""
    if whole_id.startswith("a-"):
        approval = whole(store.approvals.get(whole_id), whole_id)
        found = store.ledger.for_call(approval.session, approval.message, approval.call)
        if found is None or approval.kind != "in_doubt":
            raise UsageError(
                f"{approval.id} does not ask whether something happened. Use approve or reject."
            )
        refuse_decided(approval)
        return found
    return whole(store.ledger.get(whole_id), whole_id)


def _effect_to_undo(store: Store, whole_id: str) -> EffectRecord:
    try:
        return whole(store.ledger.get(whole_id), whole_id)
    except NotFound as error:
        raise UsageError(
            f"There is no write {whole_id!r} that could be undone. Nothing was changed. "
            "Those that happened: sayso effects --state committed"
        ) from error


@with_start("trust")
def undo(
    start: Start,
    effect: Annotated[str, typer.Argument(metavar="ID", help="The effect's whole id.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, the last one 'done'.")
    ] = False,
) -> None:
    """Propose the call that compensates a write; it waits for approval as any other does."""
    import asyncio

    from agent.cli.run import carry_on
    from agent.cli.start import open_store, plan

    with open_store() as (settings, store):
        found = _effect_to_undo(store, effect)
        session = store.sessions.get(found.session)
        if not is_ours(settings, store, session):
            raise SaysoError("Nothing was proposed.")
    going_on = carry_on(
        plan(start, "cli"), session.id, as_json=as_json, begin=lambda s: s.undo(found.id)
    )
    raise typer.Exit(asyncio.run(going_on))
