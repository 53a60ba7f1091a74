"""Slash commands of the chat: one table, one function each."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agent.config import OFFLINE
from agent.repl.ports import Approvals
from agent.repl.render import show_receipt
from agent.repl.screen import join, until
from agent.repl.servers import run_mcp, run_prompt
from agent.repl.status import model_text
from agent.repl.talk import Talk
from agent.safe_text import exact_json, one_line, shorten, strict
from agent.store.records import ApprovalRecord

TRAIL_ENTRIES = 20
"""How many entries ``/trail`` shows; ``sayso trail show`` has them all."""

COUNTED = 100
"""Up to how many approvals of other sessions ``/approvals`` counts."""


@dataclass(frozen=True)
class Command:
    """A slash command: its name, what may follow it, what it does in a few words."""

    name: str
    usage: str
    summary: str
    run: Callable[[Talk, str], Awaitable[None]]


async def run_command(talk: Talk, text: str) -> None:
    """Run a line that starts with a slash; an unknown one names its nearest neighbours."""
    name, _, rest = text[1:].partition(" ")
    if ":" in name:
        await run_prompt(talk, name, rest)
        return
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=3, cutoff=0.5)
        hint = (
            "Did you mean " + " or ".join(f"/{n}" for n in near) + "?"
            if near
            else "/help lists them."
        )
        talk.screen.note(f"There is no command /{name}. {hint}")
        return
    await command.run(talk, rest.strip())


async def _help(talk: Talk, _: str) -> None:
    rows = [(f"/{c.name} {c.usage}".strip(), c.summary) for c in COMMANDS.values()]
    _table(talk, rows)
    talk.screen.note(
        "Enter sends, Ctrl+J or Alt+Enter is a new line, Ctrl+C stops a turn, Ctrl+D leaves. "
        "At a call that waits, ? explains the keys."
    )


_GATES = {"allow": "runs by itself", "ask": "waits for you", "deny": "never runs"}


async def _tools(talk: Talk, _: str) -> None:
    """What each tool can touch, and the verdict it would get in this session as it is now."""
    app = await talk.application()
    from agent.inventory import Standing, inventory, reach_in_words

    session = talk.session
    if session is None:
        entries = inventory(app.tools, Standing(app.policy, app.authority))
    else:
        record, rules = session.record, session.rules()
        has_read = (record.labels, record.user, rules)
        entries = inventory(session.tools, Standing(app.policy, session.authority, *has_read))
    rows = []
    for entry in entries:
        gate = " or ".join(_GATES[verdict] for verdict in entry.prospect.verdicts)
        by = f"by {entry.decides}" if entry.decides not in ("", "reads", "writes") else ""
        about = next(iter(entry.tool.description.strip().splitlines()), "")
        rows.append((entry.tool.name, join((gate, entry.touches, by, about))))
    _table(talk, rows)
    for line in reach_in_words(entries):
        talk.screen.note(one_line(line))


async def _approvals(talk: Talk, _: str) -> None:
    app, here = await talk.application(), talk.pending()
    if not here:
        talk.screen.note("Nothing waits for you in this session.")
    if elsewhere := _waiting_elsewhere(app.store.approvals, here):
        talk.screen.note(elsewhere)
    await talk.ask_again()


def _waiting_elsewhere(approvals: Approvals, here: Sequence[ApprovalRecord]) -> str:
    """What waits beside the approvals of this session; empty when nothing does."""
    shown = {approval.id for approval in here}
    rows = approvals.list(status="pending", limit=len(here) + COUNTED + 1)
    others = sum(row.id not in shown for row in rows)
    if not others:
        return ""
    count = str(others) if others <= COUNTED else f"over {COUNTED}"
    more = " more" if here else ""
    return f"{count}{more} wait{'s' * (others == 1)} in other sessions: sayso approvals"


async def _rules(talk: Talk, rest: str) -> None:
    session = talk.session
    if session is None:
        talk.screen.note("No rules: this session has not begun.")
        return
    words = rest.split()
    if words[:1] == ["revoke"] and len(words) == 2:
        rule = session.revoke(words[1])
        scope = one_line(rule.scope)
        talk.screen.note(f"Revoked {rule.id}: {scope}. Such calls wait for you again.")
        return
    if words:
        talk.screen.note("Use /rules, or /rules revoke ID.")
        return
    app = await talk.application()
    rules = [rule for rule in session.rules() if rule.revoked_at is None]
    for rule in app.store.rules.expired(session.id):
        when, scope = until(rule.expires_at), one_line(rule.scope)
        talk.screen.note(f"Expired: {rule.id}, {when}: {scope}. Such calls wait for you again.")
    if not rules:
        talk.screen.note('No "always" rules in this session.')
        return
    rows = []
    for rule in rules:
        by = f"agreed by {rule.created_by}"
        rows.append((rule.id, join((f"{rule.tool}: {rule.scope}", until(rule.expires_at), by))))
    _table(talk, rows)
    talk.screen.note("/rules revoke ID takes one back.")


async def _authority(talk: Talk, rest: str) -> None:
    session = talk.session
    if session is None:
        talk.screen.note("This session has not begun: --grant and --deny say what it may do.")
        return
    how, *patterns = rest.split() or [""]
    match how, patterns:
        case "grant", [_, *_]:
            found = session.change_authority(grant=patterns)
        case "deny", [_, *_]:
            found = session.change_authority(deny=patterns)
        case "take-back", [_, *_]:
            found = session.change_authority(take_back=patterns)
        case "", []:
            found = session.authority
        case _:
            talk.screen.note("Use /authority, or /authority grant|deny|take-back EFFECT.")
            return
    rows = [(one_line(pattern), "granted") for pattern in found.granted]
    _table(talk, [*rows, *((one_line(pattern), "denied") for pattern in found.denied)])


async def _sessions(talk: Talk, _: str) -> None:
    app = await talk.application()
    rows = [
        (s.id, join((s.state, s.updated_at[:16].replace("T", " "), shorten(s.title, 60))))
        for s in app.store.sessions.list(limit=20)
    ]
    if rows:
        _table(talk, rows)
    else:
        talk.screen.note("There are no sessions yet.")


async def _resume(talk: Talk, rest: str) -> None:
    if not rest:
        talk.screen.note("Which one? /resume ID; /sessions lists them.")
        return
    await talk.open(rest)


async def _new(talk: Talk, _: str) -> None:
    await talk.leave_session()
    talk.screen.note("A new session begins with your next message.")


async def _model(talk: Talk, _: str) -> None:
    app = await talk.application()
    who, option = "A new session uses", ""
    if talk.session is not None:
        who, option = "This session uses", f" -r {talk.session.id}"
    talk.screen.note(f"{who} {model_text(talk.model_in_use(app))}.")
    talk.screen.note(f"To change it: leave, then sayso chat{option} --model provider:name")


async def _cost(talk: Talk, _: str) -> None:
    if talk.session is None:
        talk.screen.note("Nothing was used yet.")
        return
    record, model = talk.session.record, talk.model_in_use(await talk.application())
    if record.cost is not None:
        cost = f"US$ {record.cost:.4f}"
    elif model == OFFLINE:
        cost = "the offline model costs nothing"
    else:
        cost = "no price known for this model"
    used = (f"{record.tokens.get(kind, 0):,} tokens {kind}" for kind in ("input", "output"))
    talk.screen.note(join((*used, cost)))


async def _trail(talk: Talk, _: str) -> None:
    if talk.session is None:
        talk.screen.note("The trail is empty: this session has not begun.")
        return
    app = await talk.application()
    entries = list(app.store.trail.entries(talk.session.id))
    room = max(talk.screen.console.width - 40, 20)
    rows = [
        (str(e.seq), join((e.at[11:19], e.kind, shorten(exact_json(e.data, indent=None), room))))
        for e in entries[-TRAIL_ENTRIES:]
    ]
    _table(talk, rows)
    talk.screen.note(f"{len(entries)} entries in all: sayso trail show {talk.session.id}")


async def _receipt(talk: Talk, _: str) -> None:
    if talk.session is None:
        talk.screen.note("No write was proposed yet.")
        return
    show_receipt(talk.screen, talk.session.receipt())


async def _undo(talk: Talk, rest: str) -> None:
    await talk.undo(rest or None)


async def _fork(talk: Talk, rest: str) -> None:
    if rest and not rest.isdecimal():
        talk.screen.note("Use /fork, or /fork TURN: the last turn that the new session keeps.")
        return
    await talk.fork(int(rest) if rest else None)


async def _mcp(talk: Talk, rest: str) -> None:
    await run_mcp(talk, rest, _table)


async def _quit(talk: Talk, _: str) -> None:
    talk.leaving = True


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("help", "", "what can be done here", _help),
        Command(
            "approvals",
            "",
            "decide what waits in this session; says what waits in others",
            _approvals,
        ),
        Command("receipt", "", "what really became of the writes of the last turn", _receipt),
        Command("undo", "[ID]", "propose what undoes the last write, or that one", _undo),
        Command("fork", "[TURN]", "go on in a new session, with the talk up to that turn", _fork),
        Command("tools", "", "what each tool can touch, and whether it would wait for you", _tools),
        Command(
            "mcp", "[resources | read | prompts …]", "the MCP servers, and what they offer", _mcp
        ),
        Command("rules", "[revoke ID]", 'your "always" answers, and taking one back', _rules),
        Command(
            "authority",
            "[grant | deny | take-back EFFECT]",
            "what this session may do at all, and changing it",
            _authority,
        ),
        Command("sessions", "", "the latest sessions", _sessions),
        Command("resume", "ID", "go on with another session", _resume),
        Command("new", "", "begin a new session", _new),
        Command("model", "", "which model answers", _model),
        Command("cost", "", "tokens and cost of this session", _cost),
        Command("trail", "", "the latest entries of the record of this session", _trail),
        Command("quit", "", "leave; nothing is lost", _quit),
    )
}


class ChatCompleter(Completer):
    """Completes command names, and session ids after ``/resume``.

    Args:
        sessions: The ids and titles to offer; empty while the store is not open yet.
        prompts: The prompts of MCP servers and what they are for, likewise.
    """

    def __init__(
        self,
        sessions: Callable[[], Iterable[tuple[str, str]]],
        prompts: Callable[[], Iterable[tuple[str, str]]] = tuple,
    ) -> None:
        self._sessions, self._prompts = sessions, prompts

    def get_completions(self, document: Document, event: CompleteEvent) -> Iterable[Completion]:
        """See prompt_toolkit."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        name, space, rest = text[1:].partition(" ")
        if not space:
            for command in COMMANDS.values():
                if command.name.startswith(name):
                    yield Completion(command.name, -len(name), display_meta=command.summary)
            for prompt, about in self._prompts():
                if prompt.startswith(name) and prompt == one_line(prompt):
                    yield Completion(prompt, -len(name), display_meta=one_line(about))
        elif name == "resume":
            for session, title in self._sessions():
                if session.startswith(rest):
                    yield Completion(session, -len(rest), display_meta=one_line(title))


def _table(talk: Talk, rows: Iterable[tuple[str, str]]) -> None:
    """Names and texts side by side; on a narrow terminal a text stands below its name."""
    texts = [(Text(strict(name), "bold"), Text(strict(text))) for name, text in rows]
    widest = max((name.cell_len for name, _ in texts), default=0)
    if widest > talk.screen.console.width // 2:
        for name, text in texts:
            talk.screen.show(name, Padding(text, (0, 0, 0, 2)))
        return
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in texts:
        table.add_row(name, text)
    talk.screen.show(table)
