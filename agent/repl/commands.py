"""Slash commands of the chat: one table, one function each."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from rich.table import Table
from rich.text import Text

from agent.config import OFFLINE
from agent.repl.render import show_receipt
from agent.repl.screen import join
from agent.safe_text import exact_json, one_line, shorten, strict

if TYPE_CHECKING:
    from agent.repl.app import Chat

TRAIL_ENTRIES = 20
"""How many entries ``/trail`` shows; ``sayso trail show`` has them all."""

OFFLINE_NOTE = "offline: a rule-based stand-in, set OPENAI_API_KEY for a real model"


@dataclass(frozen=True)
class Command:
    """A slash command: its name, what may follow it, what it does in a few words."""

    name: str
    usage: str
    summary: str
    run: Callable[[Chat, str], Awaitable[None]]


async def run_command(chat: Chat, text: str) -> None:
    """Run a line that starts with a slash; an unknown one names its nearest neighbours."""
    name, _, rest = text[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        near = difflib.get_close_matches(name, COMMANDS, n=3, cutoff=0.5)
        hint = (
            "Did you mean " + " or ".join(f"/{n}" for n in near) + "?"
            if near
            else "/help lists them."
        )
        chat.screen.note(f"There is no command /{name}. {hint}")
        return
    await command.run(chat, rest.strip())


async def _help(chat: Chat, _: str) -> None:
    rows = [(f"/{c.name} {c.usage}".strip(), c.summary) for c in COMMANDS.values()]
    _table(chat, rows)
    chat.screen.note(
        "Enter sends, Ctrl+J or Alt+Enter is a new line, Ctrl+C stops a turn, Ctrl+D leaves."
    )


async def _tools(chat: Chat, _: str) -> None:
    app = await chat.application()
    from tools.contract import contract_of, is_read

    rows = []
    for tool in app.tools:
        effects = contract_of(tool).effects
        known = () if callable(effects) else sorted(effects)
        gate = "runs by itself" if known and is_read(frozenset(known)) else "waits for you"
        does = ", ".join(known) or "depends on its arguments"
        rows.append((tool.name, f"{gate} · {does} · {tool.description.strip().splitlines()[0]}"))
    _table(chat, rows)


async def _approvals(chat: Chat, _: str) -> None:
    if not chat.pending():
        chat.screen.note("Nothing waits for you in this session.")
        return
    await chat.ask_again()


async def _rules(chat: Chat, rest: str) -> None:
    session = chat.session
    if session is None:
        chat.screen.note("No rules: this session has not begun.")
        return
    words = rest.split()
    if words[:1] == ["revoke"] and len(words) == 2:
        rule = session.revoke(words[1])
        chat.screen.note(f"Revoked {rule.id}: {rule.scope}. Such calls wait for you again.")
        return
    if words:
        chat.screen.note("Use /rules, or /rules revoke ID.")
        return
    rules = [rule for rule in session.rules() if rule.revoked_at is None]
    if not rules:
        chat.screen.note('No "always" rules in this session.')
        return
    _table(chat, [(r.id, f"{r.tool}: {r.scope} · agreed by {r.created_by}") for r in rules])
    chat.screen.note("/rules revoke ID takes one back.")


async def _sessions(chat: Chat, _: str) -> None:
    app = await chat.application()
    rows = [
        (s.id, join((s.state, s.updated_at[:16].replace("T", " "), shorten(s.title, 60))))
        for s in app.store.sessions.list(limit=20)
    ]
    if rows:
        _table(chat, rows)
    else:
        chat.screen.note("There are no sessions yet.")


async def _resume(chat: Chat, rest: str) -> None:
    if not rest:
        chat.screen.note("Which one? /resume ID; /sessions lists them.")
        return
    await chat.open(rest)


async def _new(chat: Chat, _: str) -> None:
    await chat.leave_session()
    chat.screen.note("A new session begins with your next message.")


async def _model(chat: Chat, _: str) -> None:
    await chat.application()
    who, option = "A new session uses", ""
    if chat.session is not None:
        who, option = "This session uses", f" -r {chat.session.id}"
    chat.screen.note(f"{who} {model_text(chat.model_in_use())}.")
    chat.screen.note(f"To change it: leave, then sayso chat{option} --model provider:name")


async def _cost(chat: Chat, _: str) -> None:
    if chat.session is None:
        chat.screen.note("Nothing was used yet.")
        return
    record, model = chat.session.record, chat.model_in_use()
    if record.cost is not None:
        cost = f"US$ {record.cost:.4f}"
    elif model == OFFLINE:
        cost = "estimated from the length of the texts; the offline model costs nothing"
    else:
        cost = "no price known for this model"
    used = (
        f"{token_count(record.tokens.get(kind, 0), model)} tokens {kind}"
        for kind in ("input", "output")
    )
    chat.screen.note(join((*used, cost)))


async def _trail(chat: Chat, _: str) -> None:
    if chat.session is None:
        chat.screen.note("The trail is empty: this session has not begun.")
        return
    app = await chat.application()
    entries = list(app.store.trail.entries(chat.session.id))
    room = max(chat.screen.console.width - 40, 20)
    rows = [
        (str(e.seq), join((e.at[11:19], e.kind, shorten(exact_json(e.data, indent=None), room))))
        for e in entries[-TRAIL_ENTRIES:]
    ]
    _table(chat, rows)
    chat.screen.note(f"{len(entries)} entries in all: sayso trail show {chat.session.id}")


async def _receipt(chat: Chat, _: str) -> None:
    if chat.session is None:
        chat.screen.note("No write was proposed yet.")
        return
    show_receipt(chat.screen, chat.session.receipt())


async def _quit(chat: Chat, _: str) -> None:
    chat.leaving = True


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("help", "", "what can be done here", _help),
        Command("approvals", "", "decide what waits", _approvals),
        Command("receipt", "", "what the last turn that proposed writes really did", _receipt),
        Command("tools", "", "the tools, and which of them wait for you", _tools),
        Command("rules", "[revoke ID]", 'your "always" answers, and taking one back', _rules),
        Command("sessions", "", "the latest sessions", _sessions),
        Command("resume", "ID", "go on with another session", _resume),
        Command("new", "", "begin a new session", _new),
        Command("model", "", "which model answers", _model),
        Command("cost", "", "tokens and cost of this session", _cost),
        Command("trail", "", "the record of this session", _trail),
        Command("quit", "", "leave; nothing is lost", _quit),
    )
}


class ChatCompleter(Completer):
    """Completes command names, and session ids after ``/resume``.

    Args:
        sessions: The ids and titles to offer; empty while the store is not open yet.
    """

    def __init__(self, sessions: Callable[[], Iterable[tuple[str, str]]]) -> None:
        self._sessions = sessions

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
        elif name == "resume":
            for session, title in self._sessions():
                if session.startswith(rest):
                    yield Completion(session, -len(rest), display_meta=one_line(title))


def model_text(name: str) -> str:
    """The model's name; the offline one says what it is."""
    return OFFLINE_NOTE if name == OFFLINE else one_line(name)


def token_count(count: int, model: str) -> str:
    """A number of tokens; the offline model counts none, it is estimated from the characters."""
    if model != OFFLINE:
        return f"{count:,}"
    return f"~{round(count, -2) if count >= 1000 else count:,}"


def _table(chat: Chat, rows: Iterable[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(Text(strict(name), "bold"), Text(strict(text)))
    chat.screen.show(table)
