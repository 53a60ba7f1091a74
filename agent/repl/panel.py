"""What a reviewer sees of one approval, whole. Drawing only; ``desk`` asks and decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from agent.provenance import carries_out
from agent.receipt import describe, describe_call
from agent.repl.forms import question_lines
from agent.repl.screen import Quoted, join
from agent.repl.sources import WARNING, source_lines
from agent.safe_text import exact_json, look_alikes, one_line, shorten, spelled, strict
from agent.store.records import ApprovalRecord, SessionRecord
from agent.types import BY_HAND
from tools.contract import is_read

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
_UNDER_WAY = (
    "It is still under way here, and may happen yet: that it did not cannot be said before it has "
    "ended. Its result, if one comes, answers this."
)


def approval_panel(
    approval: ApprovalRecord,
    session: SessionRecord,
    position: str = "",
    *,
    under_way: bool = False,
) -> Group:
    """The whole of an approval: call, reason, what it would change, where its values came from.

    Args:
        approval: What waits.
        session: Whose call it is.
        position: Such as ``"1 of 3"``; empty when it is the only one.
        under_way: Whether the write in doubt still runs in this process.
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
        if under_way:
            parts.append(Text(_UNDER_WAY, "bold yellow"))
    parts.append(_facts(approval, session))
    if approval.kind == "elicitation":
        return Group(*parts, *question_lines(approval.args))
    parts += _section("arguments", _arguments(approval.args))
    sources = source_lines(
        approval.provenance or (), approval.args, leaving=carries_out(approval.effects)
    )
    parts += _section("where the values occur", sources)
    warnings = [Quoted(_folded(one_line(said), WARNING)) for said in approval.warnings]
    parts += _section("what was read, and may want to steer", warnings)
    if approval.kind == "in_doubt":
        parts += _section("what is known of it", _known(approval.notes))
    else:
        notes = [Quoted(_folded(strict(note))) for note in approval.notes]
        parts += _section("changed or left open by the check", notes)
    parts += _section("what would change", _preview(approval.tool, approval.preview or {}))
    return Group(*parts)


def call_line(approval: ApprovalRecord, width: int) -> str:
    """The call on one line, its arguments cut to what fits; of a question what is asked."""
    if approval.kind == "elicitation":
        return shorten(one_line(describe(approval)), width)
    return shorten(f"{one_line(approval.tool)}  {short_args(approval.args)}", width)


def short_args(args: Mapping[str, Any]) -> str:
    """Arguments on one line: ``order_id="A1" expected_revision=3``."""
    return " ".join(
        f"{spelled(key)}={exact_json(value, indent=None)}" for key, value in args.items()
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
        Text(_why(approval).format(_listed(approval.effects))),
        Text(
            "An answer is bound to exactly these arguments "
            f"(SHA-256 {approval.digest}); anything else would be asked again."
        ),
        keys,
    )


def _why(approval: ApprovalRecord) -> str:
    if approval.kind == "write" and is_read(frozenset(approval.effects)):
        return "Effects: {}. It changes nothing, but takes its arguments to somebody else."
    return _WHY[approval.kind]


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
    name = f"{one_line(session.title)} ({session.id})" if session.title else session.id
    undo = f"can be undone: {approval.undo}" if approval.undo else "cannot be undone"
    if approval.undo and approval.undo.startswith(BY_HAND):
        undo = f"can only be undone {approval.undo}"
    if approval.kind != "write":
        undo = ""
    rows = (
        ("asked", join((approval.asked_at, approval.id))),
        ("expires", approval.expires_at if approval.status == "pending" else ""),
        ("session", name),
        ("has read", ", ".join(f"{label} content" for label in sorted(session.labels))),
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


def _section(title: str, body: Sequence[RenderableType]) -> list[RenderableType]:
    return [Text(title, "dim"), *body] if body else []


def _label(text: str) -> Text:
    """A line of ours, and no more than one: what is named in it may be of any length."""
    return Text(text, "dim", no_wrap=True, overflow="ellipsis")


def _inside(text: Text) -> Padding:
    """Further in than any line of ours, wherever the screen breaks it."""
    return Padding(text, (0, 0, 0, 2))


def _folded(text: str, style: str = "") -> Text:
    return Text(text, style, overflow="fold")


def _arguments(args: Mapping[str, Any]) -> list[RenderableType]:
    """The arguments as exact JSON, then what may be mistaken in them, each string by itself."""
    warnings = dict.fromkeys(str(found) for text in _texts(args) for found in look_alikes(text))
    return [
        _inside(_folded(exact_json(dict(args)))),
        *(Text(f"! {warning}", "bold red") for warning in warnings),
    ]


def _texts(value: Any) -> Iterator[str]:
    """All strings of a JSON value, keys too, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for pair in value.items():
            yield from _texts(pair)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _known(notes: Iterable[str]) -> list[RenderableType]:
    """What is known of a write in doubt: who says it, a line of ours, and then their words."""
    lines: list[RenderableType] = []
    for note in notes:
        who, _, said = note.partition("\n")
        lines += [_label(strict(who)), *([Quoted(_folded(strict(said)))] if said else [])]
    return lines


def _preview(tool: str, preview: Mapping[str, Any]) -> list[RenderableType]:
    """What the tool says that the call would change."""
    lines: list[RenderableType] = []
    if preview.get("summary"):
        lines.append(Quoted(_folded(strict(str(preview["summary"])), "bold")))
    if preview.get("diff"):
        diff = str(preview["diff"]).rstrip("\n").split("\n")
        lines.append(Quoted(*map(_diff_line, diff)))
    else:
        for label in ("before", "after"):
            if preview.get(label):
                said = Quoted(_folded(strict(str(preview[label]))))
                lines += [_label(label), said]
    return [_label(f"{one_line(tool)} says"), *lines] if lines else []


def _diff_line(line: str) -> Text:
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
    return _folded(strict(line), style)
