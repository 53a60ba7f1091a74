"""What a reviewer sees of one approval, whole. Drawing only; ``desk`` asks and decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from agent.receipt import describe, describe_call
from agent.repl.forms import question_lines
from agent.repl.screen import join
from agent.safe_text import exact_json, look_alikes, one_line, shorten, strict
from agent.store.records import ApprovalRecord, SessionRecord

_HEADINGS = {
    "write": "Run this call?",
    "in_doubt": "Did this call happen?",
    "elicitation": "A server asks you",
}
_WHY = {
    "write": "Effects: {}. What does more than read waits for a person.",
    "in_doubt": "Only a person can find out what happened.",
    "elicitation": "The server's call waits for your answer, which goes to it, not to the model.",
}
_IN_DOUBT = (
    "This call was begun, and nobody knows whether it happened: the program stopped meanwhile, or "
    "no clear answer came. It is not repeated. Look at the record itself, then say."
)


def approval_panel(approval: ApprovalRecord, session: SessionRecord, position: str = "") -> Group:
    """The whole of an approval: call, reason, what it would change, where its values came from.

    Args:
        approval: What waits.
        session: Whose call it is.
        position: Such as ``"1 of 3"``; empty when it is the only one.
    """
    parts: list[RenderableType] = [
        Rule(
            Text(
                join((_HEADINGS[approval.kind], one_line(approval.tool), position)), "bold yellow"
            ),
            style="yellow",
            align="left",
        )
    ]
    if approval.kind == "in_doubt":
        parts.append(Text(_IN_DOUBT, "yellow"))
    parts.append(_facts(approval, session))
    if approval.kind == "elicitation":
        return Group(*parts, *question_lines(approval.args))
    parts += _section("arguments", _arguments(approval.args))
    parts += _section("where the values occur", _provenance(approval.provenance or ()))
    parts += _section(
        "changed or left open by the check", [Text(strict(n)) for n in approval.notes]
    )
    parts += _section("what would change", _preview(approval.preview or {}))
    return Group(*parts)


def call_line(approval: ApprovalRecord, width: int) -> str:
    """The call on one line, its arguments cut to what fits; of a question what is asked."""
    if approval.kind == "elicitation":
        return shorten(one_line(describe(approval)), width)
    return shorten(f"{one_line(approval.tool)}  {short_args(approval.args)}", width)


def short_args(args: Mapping[str, Any]) -> str:
    """Arguments on one line: ``order_id="A1" expected_revision=3``."""
    return " ".join(
        f"{one_line(key)}={exact_json(value, indent=None)}" for key, value in args.items()
    )


def overview(approvals: Iterable[ApprovalRecord], width: int) -> Group:
    """A numbered line for each approval of a step."""
    waiting = list(approvals)
    lines = [
        Text(
            f" {number:>2}  {'in doubt: ' if approval.kind == 'in_doubt' else ''}"
            + call_line(approval, max(width - 16, 20)),
            no_wrap=True,
            overflow="ellipsis",
        )
        for number, approval in enumerate(waiting, 1)
    ]
    title = Text(f"{len(waiting)} calls wait for you", "bold yellow")
    return Group(Rule(title, style="yellow", align="left"), *lines)


def explanation(approval: ApprovalRecord, *, always: bool) -> Group:
    """Why this is asked, and what each key does."""
    keys = Table.grid(padding=(0, 2))
    for key, meaning in _meanings(approval, always=always):
        keys.add_row(Text(key, "bold"), Text(meaning))
    return Group(
        Text(f"Rule {one_line(approval.rule or '(none)')}: {strict(approval.reason)}"),
        Text(_WHY[approval.kind].format(_listed(approval.effects))),
        Text(
            "An answer is bound to exactly these arguments "
            f"(SHA-256 {approval.digest}); anything else would be asked again."
        ),
        keys,
    )


def what_became_of(approval: ApprovalRecord) -> str:
    """One sentence about what no longer waits: who is said to have decided what, when and where."""
    if approval.was_void:
        by = one_line(approval.decided_by or "")
        call = call_line(approval, 80)
        return f"The approval by {by} is void, and nothing ran: {call} [{approval.id}]"
    if approval.status == "superseded" and approval.kind == "write":
        return f"Not run, since you moved on: {call_line(approval, 80)} [{approval.id}]"
    call = one_line(describe(approval))
    edit = ""
    if approval.status == "edited" and approval.decided_args is not None:
        edit = f" to {one_line(describe_call(approval.tool, approval.decided_args))}"
    if approval.status == "expired":
        return f"{approval.id} {call} expired: {one_line(approval.comment or '')}"
    who = [approval.decided_by or "the program"]
    if approval.decided_at:
        who.append(f"{approval.decided_at[:16].replace('T', ' ')} UTC")
    if approval.decided_via:
        who.append(approval.decided_via)
    comment = f": {one_line(approval.comment)}" if approval.comment else ""
    by = one_line(", ".join(who))
    return f"{approval.id} {call} was {approval.status}{edit} by {by}{comment}"


def _meanings(approval: ApprovalRecord, *, always: bool) -> Iterable[tuple[str, str]]:
    if approval.kind == "in_doubt":
        yield "h", "it happened: the ledger says so, and the model is told"
        yield "n", "it did not happen: it may then run again under its approval"
    elif approval.kind == "elicitation":
        yield "y", "answer: you are asked for each field, and see all of it before it is sent"
        yield "n", "decline: the server is told no, and nothing else"
    else:
        if approval.kind == "write":
            yield "y", "approve: it runs once, with these arguments"
            yield "e", "edit the arguments; what you write is checked and runs instead"
        yield "n", "reject: it does not run, and the model reads your reason"
        yield "m", "answer instead: it does not run, and the model reads your words as its result"
        if always:
            yield "a", "always: approve, and allow the like for this session (the scope is shown)"
    if approval.kind == "elicitation":
        yield "q, Esc", "leave it waiting; Tab shows it again as long as the server's call runs"
    else:
        yield "q, Esc", "leave it waiting; nothing runs, and anybody may decide later"


def _facts(approval: ApprovalRecord, session: SessionRecord) -> Table:
    facts = Table.grid(padding=(0, 2))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")
    name = f"{strict(session.title)} ({session.id})" if session.title else session.id
    undo = f"can be undone: {approval.undo}" if approval.undo else "cannot be undone"
    if approval.kind != "write":
        undo = ""
    rows = (
        ("asked", join((approval.asked_at, approval.id))),
        ("expires", approval.expires_at if approval.status == "pending" else ""),
        ("session", name),
        ("reason", approval.reason),
        ("rule", approval.rule),
        ("effects", _listed(approval.effects) if approval.kind == "write" else ""),
        ("digest", approval.digest[:12]),
        ("undo", undo),
    )
    for label, value in rows:
        if value:
            facts.add_row(Text(label, "dim"), Text(strict(value)))
    return facts


def _listed(effects: Iterable[str]) -> str:
    return ", ".join(map(one_line, effects)) or "unknown"


def _section(title: str, body: list[Text]) -> list[RenderableType]:
    return [Text(title, "dim"), *body] if body else []


def _arguments(args: Mapping[str, Any]) -> list[Text]:
    """The arguments as exact JSON, then what may be mistaken in them."""
    readable = exact_json(dict(args))
    warnings = dict.fromkeys(map(str, look_alikes(_raw_text(args))))
    return [
        Text(readable, overflow="fold"),
        *(Text(f"! {warning}", "bold red") for warning in warnings),
    ]


def _raw_text(value: Any) -> str:
    """All strings of a JSON value, each on a line of its own."""
    if isinstance(value, Mapping):
        return "\n".join(part for pair in value.items() for part in map(_raw_text, pair))
    if isinstance(value, list | tuple):
        return "\n".join(map(_raw_text, value))
    return value if isinstance(value, str) else ""


def _provenance(sources: Iterable[Mapping[str, Any]]) -> list[Text]:
    """Where each value occurs (``agent.provenance.Source``); the model's own stand out."""
    return [
        Text(
            f"  {one_line(str(source.get('path', '')))}: {_origin(source)}",
            "bold" if source.get("origin") == "model" else "",
            overflow="fold",
        )
        for source in sources
    ]


def _origin(source: Mapping[str, Any]) -> str:
    match source.get("origin"):
        case "user":
            return "in your words"
        case "tool":
            return f"in a result of {one_line(str(source.get('tool')))}"
        case "model":
            return "nowhere before: the model wrote it, or it is a default"
    return short_args(source)


def _preview(preview: Mapping[str, Any]) -> list[Text]:
    lines = [Text(strict(str(preview["summary"])), "bold")] if preview.get("summary") else []
    if preview.get("diff"):
        return lines + [_diff_line(line) for line in str(preview["diff"]).rstrip("\n").split("\n")]
    for label in ("before", "after"):
        if preview.get(label):
            lines += [Text(label, "dim"), Text(strict(str(preview[label])), overflow="fold")]
    return lines


def _diff_line(line: str) -> Text:
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
    return Text(strict(line), style, overflow="fold")
