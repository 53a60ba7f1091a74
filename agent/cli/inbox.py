"""``sayso approvals``, and the decisions: ``approve``, ``reject``, ``respond``.

A decision is recorded first. Then the session is carried on, when it belongs to whoever decides
here and no other process has it: a reviewer never runs another person's session with their own
credentials.

Exit codes: once the decision is recorded, 0 when the session goes on elsewhere (another person,
another process, or another folder, whose tools are not loaded here: stderr says which, and how),
else the code with which the session ended or paused. Anything that prevents the decision is an
error.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from agent.cli.output import (
    answer,
    answer_json,
    answer_json_array,
    answer_table,
    as_json,
    confirm,
    moment,
    on_terminal,
    say,
)
from agent.cli.start import Start, with_start
from agent.errors import SaysoError, SessionBusy, ToolMissing, UsageError, owner_in_words

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool
    from rich.text import Text

    from agent.cli.start import Plan
    from agent.config import Settings
    from agent.forms import Field
    from agent.store import Store
    from agent.store.records import ApprovalRecord, EffectRecord, SessionRecord
    from agent.types import Decision

_Row = TypeVar("_Row", "ApprovalRecord", "EffectRecord")

SHORT = 300
"""Characters of a call, and of what it changes, right above the question about it."""

Json = Annotated[bool, typer.Option("--json", help="As JSON.")]
Whole = Annotated[str, typer.Argument(metavar="ID", help="The approval's whole id.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask again on a terminal.")]
NoResume = Annotated[
    bool, typer.Option("--no-resume", help="Record the decision only; do not carry it on.")
]


# --- the inbox -----------------------------------------------------------------------------


def approvals(
    approval: Annotated[
        str | None, typer.Argument(metavar="ID", help="Show this one whole.")
    ] = None,
    as_json_: Json = False,
    session: Annotated[
        str | None, typer.Option("--session", metavar="ID", help="Of this session only.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Decided ones too, the latest first.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many at most.")] = 50,
) -> None:
    """What waits for a person."""
    from agent.cli.start import open_store

    with open_store() as (_, store):
        store.approvals.expire_due()
        if approval is not None:
            found = store.approvals.get(approval)
            if as_json_:
                answer_json(as_json(found))
            else:
                _show(found, store.sessions.get(found.session))
            return
        whole = store.sessions.get(session).id if session else None
        rows = store.approvals.list(
            status=None if everything else "pending", session=whole, limit=limit
        )
    if as_json_:
        answer_json_array(map(as_json, rows))
    elif rows:
        _list(rows, everything)
    else:
        say("No approvals." if everything else "Nothing waits for a decision.")


def _list(rows: list[ApprovalRecord], everything: bool) -> None:
    from agent.receipt import describe

    table = [[row.id, row.kind, row.session, moment(row.asked_at), describe(row)] for row in rows]
    headings = ["ID", "KIND", "SESSION", "ASKED (UTC)", "CALL"]
    if everything:
        headings[4:4] = ["STATUS", "BY"]
        for line, row in zip(table, rows, strict=True):
            line[4:4] = ["void" if row.was_void else row.status, row.decided_by or ""]
    answer_table(headings, table)


# --- decisions -----------------------------------------------------------------------------


@with_start("trust")
def approve(
    start: Start,
    approval: Whole,
    args: Annotated[
        str | None,
        typer.Option("--args", metavar="JSON", help="Run it with these arguments instead."),
    ] = None,
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Kept with the decision.")] = "",
    yes: Yes = False,
    no_resume: NoResume = False,
) -> None:
    """Let a call run, once, with exactly the arguments shown."""
    from agent.types import Decision

    edited = _arguments(args)
    kind = "approve" if edited is None else "edit"
    decision = Decision(kind, args=edited, message=comment)  # type: ignore[arg-type]
    raise typer.Exit(_decide(start, approval, decision, yes=yes, resume=not no_resume))


@with_start("trust")
def reject(
    start: Start,
    approval: Whole,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="The model reads it.")],
    yes: Yes = False,
    no_resume: NoResume = False,
) -> None:
    """Turn a call down; the model is told why."""
    from agent.types import Decision

    decision = Decision("reject", message=reason)
    raise typer.Exit(_decide(start, approval, decision, yes=yes, resume=not no_resume))


@with_start("trust")
def respond(
    start: Start,
    approval: Whole,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            metavar="TEXT",
            help="What the model gets; of a server's form, JSON by field. Without it you are "
            "asked for each field.",
        ),
    ] = None,
    yes: Yes = False,
    no_resume: NoResume = False,
) -> None:
    """Answer a call in its tool's place, so that it does not run; or a server's question."""
    from agent.types import Decision

    decision = None if message is None else Decision("respond", message=message)
    raise typer.Exit(_decide(start, approval, decision, yes=yes, resume=not no_resume))


def whole(row: _Row, id_: str) -> _Row:
    """The row that was found, if its whole id was given: a beginning of it may be a slip.

    Raises:
        UsageError: Only the beginning was given.
    """
    if row.id != id_:
        raise UsageError(
            f"{id_} is the beginning of {row.id}. A decision needs the whole id. Nothing was "
            "changed."
        )
    return row


def _decide(
    start: Start, approval_id: str, decision: Decision | None, *, yes: bool, resume: bool
) -> int:
    """Show, confirm, record, carry on; the exit code. Without a decision, its answer is typed."""
    from agent import inbox
    from agent.cli.start import open_store
    from agent.config import actor

    with open_store() as (settings, store):
        approval = whole(store.approvals.get(approval_id), approval_id)
        refuse_decided(approval)
        _refuse_doubt(approval)
        session = store.sessions.get(approval.session)
        tools: dict[str, BaseTool] = {}
        if decision is not None and decision.type == "edit":
            from agent.cli.editing import checked_edit

            tools, shown = checked_edit(_plan(start), session, approval, decision)
            decision = replace(decision, args=shown.args, preview=shown.preview)
        else:
            shown = approval
        if on_terminal() and not _shown_whole(shown, session, paged=not yes):
            raise SaysoError(f"Nothing was decided; {approval.id} still waits.")
        if decision is None:
            from agent.cli.answering import answer_from_terminal
            from agent.types import Decision

            decision = Decision("respond", message=answer_from_terminal(approval))
        if decision.type == "respond" and approval.kind == "elicitation":
            from agent.cli.answering import show_answer

            decision = inbox.checked_answer(approval, decision)
            show_answer(approval, decision.message)
        if on_terminal() and not yes and not confirm(_question(decision, approval)):
            raise SaysoError(f"Nothing was decided; {approval.id} still waits.")
        (decided,) = inbox.decide(
            store, [(approval.id, decision)], actor(settings, "cli"), tools.get
        )
        say(f"{decided.status}: {_called(decided)} [{decided.id}]")
        goes_on = resume and is_ours(settings, store, session)
        if not resume:
            say(f"Recorded only. It goes on with: sayso resume {session.id}")
    return carry_on_here(start, session.id) if goes_on else 0


def refuse_decided(approval: ApprovalRecord) -> None:
    """Raise ``AlreadyDecided`` when it does not wait any more."""
    if approval.status != "pending":
        from agent.store.deciding import already_decided

        raise already_decided(approval)


def _refuse_doubt(approval: ApprovalRecord) -> None:
    if approval.kind == "in_doubt":
        raise UsageError(
            f"{approval.id} asks whether a write happened. Nothing was changed. Look at the "
            f"record itself, then: sayso reconcile {approval.id} --happened (or --not-happened)"
        )


def _arguments(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        args = json.loads(text)
    except ValueError as error:
        raise UsageError(f"--args is not JSON ({error}). Nothing was decided.") from error
    if not isinstance(args, dict):
        raise UsageError('--args must be a JSON object, such as \'{"order_id": "A1"}\'.')
    return args


def _question(decision: Decision, approval: ApprovalRecord) -> str:
    match decision.type:
        case "respond" if approval.kind == "elicitation":
            return "Answer that?"
        case "reject" if approval.kind == "elicitation":
            return "Decline it?"
        case "approve":
            return "Approve it?"
        case "edit":
            return "Approve it with the edited arguments?"
        case "reject":
            return "Reject it?"
        case "respond":
            return "Answer it, without running it?"


def _called(approval: ApprovalRecord) -> str:
    """What was decided on, with the arguments that were decided."""
    from agent.receipt import describe, describe_call
    from agent.safe_text import one_line

    if approval.decided_args is not None:
        return one_line(describe_call(approval.tool, approval.decided_args))
    return one_line(describe(approval))


def _show(approval: ApprovalRecord, session: SessionRecord) -> None:
    """The panel on stdout, as the chat shows it, and how to answer or what was decided."""
    import shlex
    import sys

    from agent.forms import fields_of
    from agent.repl.panel import approval_panel, what_became_of
    from agent.repl.screen import Screen

    Screen.on(sys.stdout).show(approval_panel(approval, session))
    if approval.status == "pending" and approval.kind == "elicitation":
        say(f"Answer it: sayso respond {approval.id}")
        if approval.args.get("schema") is not None:
            fields = ", ".join(map(_as_json_member, fields_of(approval.args)))
            say(f"At once: sayso respond {approval.id} --message {shlex.quote(f'{{{fields}}}')}")
        say(f"Or decline: sayso reject {approval.id} --reason TEXT")
    if approval.status != "pending":
        answer(what_became_of(approval))


def _shown_whole(approval: ApprovalRecord, session: SessionRecord, *, paged: bool) -> bool:
    """Show on the terminal what is decided about: the call as it would run.

    Returns:
        ``False`` when it is ``paged`` and the person left before its end.
    """
    import sys

    from agent.cli.paging import show_whole
    from agent.repl.panel import approval_panel
    from agent.repl.screen import Screen

    whole = approval_panel(approval, session)
    screen = Screen.on(sys.stderr)
    if paged:
        return show_whole(screen, whole, _in_short(approval))
    screen.show(whole)
    return True


def _in_short(approval: ApprovalRecord) -> Text:
    """The call, and what it changes, for who has just seen all of it."""
    from rich.text import Text

    from agent.repl.panel import call_line
    from agent.safe_text import one_line, shorten

    text = Text("That was all of it:\n", "dim").append(call_line(approval, SHORT), "not dim bold")
    summary = (approval.preview or {}).get("summary")
    if summary:
        text.append(f"\nwould change: {shorten(one_line(str(summary)), SHORT)}", "not dim")
    return text


def _as_json_member(field: Field) -> str:
    """A field as part of an answer: with its default, or ``…`` where a value has to go."""
    from agent.forms import LEFT_OUT
    from agent.safe_text import exact_json

    value = "…" if field.default is LEFT_OUT else exact_json(field.default, indent=None)
    return f"{exact_json(field.name)}: {value}"


# --- what follows --------------------------------------------------------------------------


def is_ours(settings: Settings, store: Store, session: SessionRecord) -> bool:
    """Whether this process may carry the session on; says where it goes on when it may not."""
    from agent.config import actor
    from agent.safe_text import one_line

    here = actor(settings, "cli")
    if (session.uid, session.host) != (here.uid, here.host):
        say(
            f"The session belongs to {one_line(session.user)} on {one_line(session.host)}. It "
            f"goes on there, with: sayso resume {session.id}"
        )
        return False
    if (lease := store.leases.holder(session.id)) is not None:
        _say_busy(session.id, lease.owner)
        return False
    return True


def carry_on_here(start: Start, session: str) -> int:
    """Carry the session on; what was decided stays recorded whatever becomes of that."""
    import asyncio

    from agent.cli.run import carry_on

    try:
        return asyncio.run(carry_on(_plan(start), session, again=False))
    except SessionBusy as busy:
        _say_busy(session, busy.owner)
        return 0
    except ToolMissing as missing:
        say(f"The decision is recorded. {missing}")
        return 0
    except SaysoError:
        say(f"The decision is recorded. Carry the session on later: sayso resume {session}")
        raise


def _say_busy(session: str, owner: str) -> None:
    from agent.safe_text import one_line

    where = one_line(owner_in_words(owner))
    say(f"{session} is open in another process ({where}), which goes on with it.")


def _plan(start: Start) -> Plan:
    from agent.cli.start import plan

    return plan(start, "cli")
