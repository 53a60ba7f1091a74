"""``sayso doctor``: what is configured, what is missing, and how to mend it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agent.cli.output import answer, answer_json_array
from agent.errors import SaysoError

if TYPE_CHECKING:
    from agent.config import Settings
    from agent.mcp.host import Server
    from agent.mcp.pins import Pins
    from agent.mcp.servers import ServerConfig
    from agent.store import Store
    from agent.trust import FolderItems

Status = Literal["ok", "warn", "fail"]

LIBRARIES = ("langchain", "langgraph", "langchain-openai", "langchain-mcp-adapters", "sqlalchemy")
_PROVIDER_PACKAGES = {"google_genai": "langchain_google_genai", "azure_openai": "langchain_openai"}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. ``mend`` says what to do unless all is well."""

    name: str
    status: Status
    found: str
    mend: str = ""


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Use the current folder's files, and start its servers.")
    ] = False,
) -> None:
    """What is configured, what is missing, how to mend it. Exit 1 when something fails."""
    checks = list(examine(trust))
    if as_json:
        answer_json_array(map(asdict, checks))
    else:
        width = max(len(check.name) for check in checks)
        for check in checks:
            answer(f"{check.status:<4}  {check.name.ljust(width)}  {check.found}")
            if check.mend:
                answer(f"{' ' * (width + 8)}{check.mend}")
    if any(check.status == "fail" for check in checks):
        raise typer.Exit(1)


def examine(trust: bool) -> Iterator[Check]:
    """Look at everything, each thing also when an earlier one failed."""
    from agent.config import load_settings

    yield _versions()
    try:
        base = load_settings()
    except SaysoError as error:
        yield Check("settings", "fail", str(error), "Correct that variable.")
        return
    yield from _guarded("home", lambda: _home(base))
    items, folder = _folder(base, trust)
    yield folder
    try:
        settings = load_settings(env_file=items.variables if items else {})
    except SaysoError as error:
        yield Check("settings", "fail", str(error), "Correct it in the folder's .env.")
        settings = base
    for sentence in settings.unknown:
        yield Check("settings", "warn", sentence, "Rename or remove it.")
    yield _model(settings)
    yield from _guarded("database", lambda: _database(settings))
    yield from _guarded("tools", lambda: _tools(settings))
    yield from _guarded("mcp", lambda: _servers(settings, items, trust))
    yield _tracing()


def _guarded(name: str, check: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """A check that fails says so and stops no other."""
    try:
        yield from check()
    except SaysoError as error:
        yield Check(name, "fail", str(error), "Mend that, and run sayso doctor again.")
    except Exception as error:
        yield Check(name, "fail", f"{type(error).__name__}: {error}", "This looks like a fault.")


def _versions() -> Check:
    import platform
    from importlib import metadata

    from agent import __version__

    libraries = ", ".join(f"{name} {metadata.version(name)}" for name in LIBRARIES)
    return Check(
        "versions", "ok", f"sayso {__version__}, Python {platform.python_version()}; {libraries}"
    )


def _home(settings: Settings) -> Iterator[Check]:
    yield Check("home", "ok", f"{settings.ensure_home()}, for you alone")


def _folder(settings: Settings, trust: bool) -> tuple[FolderItems | None, Check]:
    """What the current folder brings, if it may be used, and what to say about it."""
    from agent import trust as folders
    from agent.cli.servers import look
    from agent.safe_text import one_line

    here = Path.cwd()
    items, _ = look(here)
    if items.refused:
        return None, Check("folder", "warn", " ".join(items.refused), "Mend or remove that file.")
    if not items:
        return None, Check("folder", "ok", "brings no .env, .mcp.json or policy.yaml")
    names = ", ".join(map(one_line, items.texts))
    state = folders.is_trusted(here, items, settings.home)
    if state or trust:
        how = "confirmed" if state else "used because of --trust"
        return items, Check("folder", "ok", f"brings {names}: {how}")
    mend = "They are ignored. Confirm them once in sayso chat, or add --trust."
    return None, Check("folder", "warn", f"brings {names}. {state.reason}", mend)


def _model(settings: Settings) -> Check:
    from importlib.util import find_spec

    from agent.config import OFFLINE, mask, mask_url

    name = settings.model
    if name == OFFLINE:
        return Check(
            "model",
            "warn",
            "offline: rule-based, needs no key",
            "For a real model set OPENAI_API_KEY, or OPENAI_BASE_URL for a compatible server.",
        )
    provider = name.partition(":")[0].lower().replace("-", "_")
    if provider != "openai":
        package = _PROVIDER_PACKAGES.get(provider, f"langchain_{provider}")
        if find_spec(package) is None:
            mend = f"pip install {package.replace('_', '-')}"
            return Check("model", "fail", f"{name}: its package is not installed", mend)
        return Check("model", "ok", f"{name}; its package reads its own key")
    key, url = settings.openai_api_key, settings.openai_base_url
    if key is None and url is None:
        mend = "Set OPENAI_API_KEY; or OPENAI_BASE_URL for a server that needs no key."
        return Check("model", "fail", f"{name}: no key", mend)
    shown = f"key {mask(key.get_secret_value())}" if key else "no key"
    return Check("model", "ok", f"{name}, {shown}, at {mask_url(url) if url else 'OpenAI'}")


def _database(settings: Settings) -> Iterator[Check]:
    from agent.config import mask_url
    from agent.store import Store
    from agent.store.database import HEAD

    store = Store.of(settings)
    try:
        yield Check("database", "ok", f"{mask_url(settings.database_url)}, schema {HEAD}")
        yield from _sessions(store)
        yield _trail(settings, store)
    finally:
        store.close()


def _sessions(store: Store) -> Iterator[Check]:
    waiting = store.approvals.list(limit=1000)
    doubts = store.ledger.list(state="in_doubt", limit=1000)
    interrupted = store.sessions.list(state="interrupted", limit=1000)
    running = store.sessions.list(state="running", limit=1000)
    yield Check("sessions", "ok", f"{len(running)} running, {len(waiting)} approval(s) waiting")
    if interrupted:
        mend = f"Carry on: sayso resume {interrupted[0].id}"
        yield Check("sessions", "warn", f"{len(interrupted)} interrupted", mend)
    if doubts:
        mend = f"Look at the record itself, then: sayso reconcile {doubts[0].id} --happened"
        yield Check("ledger", "warn", f"{len(doubts)} write(s) in doubt", f"{mend} (or --not-…)")


def _trail(settings: Settings, store: Store) -> Check:
    """Whether the trail is sealed; of the key, only whether it is set."""
    sealed, chains = store.trail.sealed(), len(store.trail.heads())
    if settings.trail_key is None:
        found = f"not sealed, SAYSO_TRAIL_KEY is not set ({sealed} of {chains} sessions have seals)"
        mend = "Set SAYSO_TRAIL_KEY to the key they were sealed with." if sealed else ""
        return Check("trail", "warn" if sealed else "ok", found, mend)
    found = f"SAYSO_TRAIL_KEY is set ({sealed} of {chains} sessions have seals)"
    mend = "Look at them, then: sayso trail seal" if sealed < chains else ""
    return Check("trail", "warn" if mend else "ok", found, mend)


def _tools(settings: Settings) -> Iterator[Check]:
    from agent.toolset import Places, files_off, load_tools

    workspace = settings.workspace or Path.cwd()
    places = Places.of(settings, workspace)
    toolset = load_tools(settings.tools, places)
    yield Check("tools", "ok", f"{len(toolset.tools)} from {', '.join(settings.tools)}")
    for notice in toolset.notices:
        yield Check("tools", "warn", notice, "Mend that, or leave them out of SAYSO_TOOLS.")
    if "files" in settings.tools and not files_off(places):
        yield Check("workspace", "ok", str(workspace))
    if "mail" in toolset.domains:
        yield _mail(settings)


def _mail(settings: Settings) -> Check:
    """Whether a server sends what ``send_email`` writes; it is not asked."""
    from agent.config import show_value

    if settings.smtp_url is None:
        found = "SAYSO_SMTP_URL is not set: e-mails stay in the outbox, nobody gets them"
        return Check("mail", "warn", found, "Set SAYSO_SMTP_URL and SAYSO_MAIL_FROM to send them.")
    server = show_value("SAYSO_SMTP_URL", settings.smtp_url.get_secret_value())
    return Check("mail", "ok", f"sent by {server}, from {settings.mail_from}")


def _servers(settings: Settings, items: FolderItems | None, trust: bool) -> Iterator[Check]:
    """Start each server that a person has confirmed once, and list its tools."""
    import asyncio

    from agent.cli.servers import HOW_TO_CONFIRM, found, not_confirmed
    from agent.mcp.pins import Pins

    home = settings.ensure_home()
    configuration, pins = found(home, Path.cwd(), items, None), Pins(home)
    waiting = [e for e in configuration.entries if not (trust or pins.is_confirmed(e.server))]
    servers = [entry.server for entry in configuration.entries if entry not in waiting]
    tried = asyncio.run(_open_all(settings, servers, pins)) if servers else _Tried("", [])
    kinds = {
        tried.summary: len(servers),
        f"{len(waiting)} not confirmed": len(waiting),
        f"{len(configuration.disabled)} disabled": len(configuration.disabled),
        f"{len(configuration.problems)} left out": len(configuration.problems),
    }
    listed = ", ".join(words for words, number in kinds.items() if number)
    total = sum(kinds.values())
    yield Check("mcp", "ok", f"{counted(total, 'server')}: {listed}" if total else "no servers")
    yield from (Check("mcp", "ok", sentence) for sentence in configuration.disabled)
    for problem in configuration.problems:
        yield Check("mcp", "warn", str(problem), "Mend that file.")
    for notice in configuration.notices:
        yield Check("mcp", "warn", notice, "Look at that file.")
    if pins.problem:
        yield Check("mcp", "warn", pins.problem, "Look at it: sayso mcp list")
    for entry in waiting:
        yield Check("mcp", "warn", not_confirmed(entry), HOW_TO_CONFIRM)
    yield from tried.checks


@dataclass(frozen=True)
class _Tried:
    """What became of the servers that were started: in a few words, and what is wrong."""

    summary: str
    checks: list[Check]


async def _open_all(settings: Settings, servers: list[ServerConfig], pins: Pins) -> _Tried:
    import asyncio

    from agent.config import actor, process_environment
    from agent.mcp.host import McpHost, Surroundings
    from agent.mcp.signing_in.sign_in import stored_auth

    home = settings.ensure_home()
    around = Surroundings(
        environment=process_environment(),
        log_folder=home / "logs",
        pins=pins,
        by=actor(settings, "cli").name,
        auth=lambda server: stored_auth(server, home),
    )
    async with McpHost(servers, around) as host:
        opening = [s.connection.open() for s in host.servers if s.objection is None]
        await asyncio.gather(*opening, return_exceptions=True)  # the host knows what failed
        failed = len(host.problems)
        held = sum(len(server.changes) for server in host.servers if server.problem is None)
        words = [f"{len(servers) - failed} ready with {counted(len(host.tools), 'tool')}"]
        words[0] += f" ({held} held)" if held else ""
        words += [f"{failed} cannot be used"] if failed else []
        logs = around.log_folder
        checks = [check for server in host.servers for check in _complaints(server, logs)]
        return _Tried(", ".join(words), checks)


def _complaints(server: Server, logs: Path) -> Iterator[Check]:
    """What is wrong with a server that was started, or with single tools of it."""
    status: Status = "fail"
    log = logs / f"mcp-{server.config.id}.log"
    mend = f"What it wrote: {log}" if log.exists() else "Look at it: sayso mcp list"
    if server.problem is None:
        status, mend = "warn", "What is not said to be wrong with it can be used."
    for said in server.complaints:
        yield Check("mcp", status, f"MCP server {server.config.name}: {said}", mend)


def counted(number: int, thing: str) -> str:
    """``1 server``, ``2 servers``."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _tracing() -> Check:
    from agent.config import tracing_notice

    notice = tracing_notice()
    if notice is None:
        return Check("tracing", "ok", "off: nothing is sent to LangSmith")
    return Check("tracing", "warn", notice, "Unset that variable unless you mean it.")
