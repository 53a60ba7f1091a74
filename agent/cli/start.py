"""What a command starts from: shared options, settings, and what the current folder may add."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from agent.cli import servers as mcp
from agent.cli.output import confirm, on_terminal, only_answers, say

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from langchain_core.tools import BaseTool

    from agent.application import Application, Options
    from agent.config import Settings
    from agent.mcp.servers import ServerConfig
    from agent.mcp.waiting import Waiting
    from agent.store import Store
    from agent.trust import FolderItems

Model = Annotated[
    str | None,
    typer.Option("--model", metavar="PROVIDER:NAME", help="Such as openai:gpt-4.1-mini, offline."),
]
Tools = Annotated[
    str | None,
    typer.Option("--tools", metavar="NAMES", help="Tools of a new session: orders,files,my.py …"),
]
Workspace = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        metavar="DIR",
        help="The one folder that file tools of a new session may touch.",
    ),
]
Grant = Annotated[
    list[str] | None,
    typer.Option(
        "--grant",
        metavar="EFFECT",
        help="Grant a new session only this, such as 'read:*'; can be repeated.",
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME",
        help="Grant a new session what it is for: read-only, desk or research; --grant adds to it.",
    ),
]
Deny = Annotated[
    list[str] | None,
    typer.Option(
        "--deny",
        metavar="EFFECT",
        help="Deny a new session this, such as 'write:files'; can be repeated.",
    ),
]
Freeze = Annotated[
    bool,
    typer.Option(
        "--freeze",
        help="In a new session, choose each turn's tools from your words alone, before anything "
        "is read.",
    ),
]
Isolate = Annotated[
    bool,
    typer.Option(
        "--isolate",
        help="In a new session, a second call of the model, without tools, reads what strangers "
        "wrote; the one that plans sees short facts.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="For this run, use what the current folder brings (.env, .mcp.json, policy.yaml).",
    ),
]


PATIENCE = 3.0
"""Seconds after which a command says which MCP servers its start waits for."""

Command = Callable[..., None]
_KEYWORD = inspect.Parameter.KEYWORD_ONLY


@dataclass(frozen=True)
class Start:
    """The options that several commands share, as given before or after the command."""

    model: str | None = None
    tools: str | None = None
    workspace: Path | None = None
    grant: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    trust: bool = False
    freeze: bool = False
    isolate: bool = False
    profile: str | None = None

    def over(self, earlier: Start) -> Start:
        """These options where given, else the earlier ones."""
        return Start(
            **{f.name: getattr(self, f.name) or getattr(earlier, f.name) for f in fields(self)}
        )


def shared(
    model: Model = None,
    tools: Tools = None,
    workspace: Workspace = None,
    grant: Grant = None,
    deny: Deny = None,
    trust: Trust = False,
    freeze: Freeze = False,
    isolate: Isolate = False,
    profile: Profile = None,
) -> Start:
    """The shared options as one value; the signature is what the commands get."""
    return Start(
        model,
        tools,
        workspace,
        tuple(grant or ()),
        tuple(deny or ()),
        trust,
        freeze,
        isolate,
        profile,
    )


def with_start(*names: str, hidden: bool = False) -> Callable[[Callable[..., Any]], Command]:
    """Give a command the shared options with these names (default: all) as ``start``.

    Args:
        hidden: Leave them out of the command's help.
    """
    offered = _offered()
    taken = {name: offered[name] for name in names or offered}

    def decorate(command: Callable[..., Any]) -> Command:
        own = inspect.signature(command, eval_str=True).parameters.values()
        context = inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context)
        mine = [p.replace(kind=_KEYWORD) for p in own if p.name not in ("start", "ctx")]
        added = [_hidden(p) if hidden else p for p in taken.values()]

        @functools.wraps(command)
        def run(*, ctx: typer.Context, **given: Any) -> None:
            start = shared(**{name: given.pop(name) for name in taken}).over(ctx.obj or Start())
            if any(p.name == "ctx" for p in own):
                given["ctx"] = ctx
            command(start=start, **given)

        run.__signature__ = inspect.Signature([context, *mine, *added])  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in (context, *mine, *added)}
        return run

    return decorate


@functools.cache
def _offered() -> dict[str, inspect.Parameter]:
    found = inspect.signature(shared, eval_str=True).parameters
    return {name: parameter.replace(kind=_KEYWORD) for name, parameter in found.items()}


def _hidden(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, option = get_args(parameter.annotation)
    option = copy(option)
    option.hidden = True
    return parameter.replace(annotation=Annotated[kind, option])


# --- the store alone -----------------------------------------------------------------------


@contextlib.contextmanager
def open_store() -> Iterator[tuple[Settings, Store]]:
    """Settings and the store, for commands that need no model and no tools.

    The current folder is not looked at: it cannot say where the record is.
    """
    from agent.config import load_settings
    from agent.store import Store

    settings = load_settings()
    store = Store.of(settings)
    try:
        yield settings, store
    finally:
        store.close()


# --- the whole application -----------------------------------------------------------------


def _no_one_yet() -> Waiting:
    from agent.mcp.waiting import Waiting

    return Waiting()


@dataclass(frozen=True)
class Plan:
    """What the application is opened with."""

    settings: Settings
    start: Start
    via: str
    servers: tuple[ServerConfig, ...] = ()
    asks: bool = True
    """Whether an MCP server may put a question to a person."""
    waiting: Waiting = field(default_factory=_no_one_yet)
    """Shows which MCP servers the start waits for."""
    policy: str | None = None
    """The text of the folder's ``policy.yaml``, if there is one that may be used."""

    @property
    def options(self) -> Options:
        """The options, as the application takes them; imports LangChain."""
        from agent.application import Options
        from agent.policy import granted_by

        authority = granted_by(self.start.profile, self.start.grant, self.start.deny)
        return Options(
            granted=authority.granted,
            denied=authority.denied,
            policy=self.policy,
            servers=self.servers,
            via=self.via,
            override=self.start.model is not None,
            asks=self.asks,
            waiting=self.waiting,
        )

    async def server_tools(self, stack: AsyncExitStack) -> list[BaseTool]:
        """The tools of the MCP servers alone, kept until the stack ends; says what fails."""
        from agent.config import actor, process_environment
        from agent.mcp.host import McpHost, Surroundings
        from agent.mcp.pins import Pins
        from agent.mcp.signing_in.sign_in import stored_auth

        home = self.settings.ensure_home()
        around = Surroundings(
            environment=process_environment(),
            log_folder=home / "logs",
            pins=Pins(home),
            by=actor(self.settings, self.via).name,
            auth=lambda server: stored_auth(server, home),
            waiting=self.waiting,
        )
        async with _named(self.waiting):
            host = await stack.enter_async_context(McpHost(self.servers, around))
        for complaint in host.complaints:
            say(complaint)
        return host.tools


def plan(start: Start, via: str, *, folder: bool = True) -> Plan:
    """Settle the settings and what the current folder may add to them.

    On a terminal a person is asked once for each new content of the folder's files; elsewhere
    these are left out unless ``--trust`` was given, and stderr says so. Files of tools stay
    bound to what was confirmed.

    Args:
        via: Where decisions of this process come from.
        folder: Whether the command has any use for what the folder brings.
    """
    from agent.config import actor, load_settings
    from agent.trust import POLICY

    here = Path.cwd()
    items = folder_items(here, start.trust, via) if folder else None
    variables = items.variables if items else {}
    settings = load_settings(
        env_file=variables,
        model=start.model,
        tools=start.tools,
        workspace=start.workspace,
        freeze=start.freeze or None,
        isolate=start.isolate or None,
    )
    if items:
        settings = settings.model_copy(update={"tools": items.bind(settings.tools)})
    if not folder:
        return Plan(settings, start, via)
    by = actor(settings, via).name
    servers = mcp.usable(settings.home, here, items, trust=start.trust, by=by)
    return Plan(settings, start, via, servers, policy=items.texts.get(POLICY) if items else None)


def folder_items(folder: Path, trust: bool, via: str) -> FolderItems | None:
    """What the folder brings, if it may be used; asks a person where there is one to ask.

    Args:
        folder: The current folder.
        trust: Use it for this run, whether or not it was confirmed.
        via: Where decisions of this process come from.
    """
    from agent import trust as folders
    from agent.config import actor, load_settings
    from agent.mcp.pins import Pins
    from agent.safe_text import one_line

    settings = load_settings()
    home = settings.home
    items, servers = mcp.look(folder)
    for sentence in items.refused:
        say(sentence)
    if not items:
        return None
    state = folders.is_trusted(folder, items, home)
    if state or trust:
        return items
    names = ", ".join(items.entries)
    if not on_terminal():
        say(
            f"Ignored {names} of {one_line(str(folder))}. {state.reason} To use it, confirm it "
            "once in sayso chat, or add --trust."
        )
        return None
    say(f"The folder {one_line(str(folder))} brings settings or programs. {state.reason}")
    of_servers = [line for entry in servers.entries for line in mcp.lines(entry)]
    for line in items.describe(of_servers, _of_policy(items)):
        say(f"  {line}")
    if not confirm("Use them, now and as long as they stay as they are?"):
        say(f"Ignored {names} for this run.")
        return None
    folders.remember(folder, items, home)
    pins, by = Pins(home), actor(settings, via).name
    for server in servers.servers:
        pins.confirm(server, by)
    return items


def _of_policy(items: FolderItems) -> list[str]:
    """What a person should know of the folder's policy before they confirm it."""
    from agent.policy.loading import what_it_allows
    from agent.trust import POLICY

    return what_it_allows(items.texts[POLICY]) if POLICY in items.texts else []


@contextlib.asynccontextmanager
async def opened(plan: Plan) -> AsyncIterator[Application]:
    """The application. Meanwhile what its libraries log goes to the log, and what its tools
    print goes to stderr."""
    from agent.application import Application
    from agent.cli.faults import logged

    with logged(plan.settings.ensure_home()), only_answers():
        async with contextlib.AsyncExitStack() as stack:
            async with _named(plan.waiting):
                opening = Application.open(plan.settings, plan.options)
                app = await stack.enter_async_context(opening)
            for notice in app.notices:
                say(notice)
            app.on_notice = say
            yield app


@contextlib.asynccontextmanager
async def _named(waiting: Waiting) -> AsyncIterator[None]:
    """Meanwhile: say which MCP servers are waited for, once that takes longer than usual."""
    import asyncio

    from agent.safe_text import one_line

    async def look() -> None:
        await waiting.begun.wait()
        await asyncio.sleep(PATIENCE)
        if waiting.servers:
            say(f"Waiting for MCP server {one_line(', '.join(waiting.servers))} …")

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
