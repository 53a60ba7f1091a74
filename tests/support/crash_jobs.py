"""What the parent of crash runs can be asked for; each job runs in children that it forks."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import resource
import signal
import socket
from collections.abc import Callable, Coroutine
from importlib import import_module
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

import agent.cli.main
from tests.support.crash_driver import live
from tests.support.crash_instants import Instants
from tests.support.crash_parent import MOST_MORE, Child, Failed
from tests.support.crash_runs import Kill, Run
from tests.support.crash_service import Service
from tests.support.crash_world import World
from tests.support.races import race

__all__ = ["command", "race", "run", "serve"]

for late in (
    "agent.mcp.host",
    "agent.mcp.signing_in.sign_in",
    "anyio._backends._asyncio",
    "httpcore",
    "langchain_core.messages.block_translators.langchain_v0",
    "langchain_core.tracers.context",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
    "langgraph.checkpoint.postgres.aio",
    "psycopg_pool",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite",
    "tools.research",
):
    import_module(late)  # what a child would import when it needs it


def run(run: dict[str, Any], folder: str, url: str, service: str) -> dict[str, Any]:
    """A whole run: process after process, until all is done and nothing is in doubt."""
    wanted, place = Run.of_json(run), Path(folder)
    World(place / "world.db").add_faults(wanted.faults)
    ends: list[str] = []
    while len(ends) < len(wanted.kills) + MOST_MORE:
        kill = wanted.kills[len(ends)] if len(ends) < len(wanted.kills) else None
        (place / "report.json").unlink(missing_ok=True)
        ends.append(_process(wanted, kill, place, url, service))
        if ends[-1] == "lived" and _is_at_its_end(wanted, place):
            break
    if ends[-1] == "killed":
        raise Failed(f"{wanted} never lived: {ends}")
    return {"ends": ends, "report": _report(place)}


def _process(run: Run, kill: Kill | None, folder: Path, url: str, service: str) -> str:
    def act(reached: Any) -> None:
        instants = Instants(kill, reached, lambda: lose(url, folder))
        asyncio.run(live(run, folder, url, service, instants))

    return Child.of(act, folder / "errors").end(kill.delay if kill else None)


def lose(url: str, folder: Path) -> None:
    """Cut this process's connections to PostgreSQL; on SQLite, let no file grow any more.

    A page does not fit into a log that is empty; what a process prints still does.
    """
    if not url.startswith("sqlite"):
        with psycopg.connect(url, autocommit=True, application_name="who cuts") as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE application_name = %s",
                (conninfo_to_dict(url)["application_name"],),
            )
        return
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    sizes = [path.stat().st_size for path in (folder / "home").glob("*-wal")]
    resource.setrlimit(resource.RLIMIT_FSIZE, (max([*sizes, 4000]) + 1, resource.RLIM_INFINITY))


def _report(folder: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return report


def _is_at_its_end(run: Run, folder: Path) -> bool:
    """Whether nobody can carry it on any further: all is done, or in doubt for good."""
    if not (folder / "report.json").exists():
        return False
    report = _report(folder)
    return bool(not run.knows if report["in_doubt"] else report["ended"])


def serve(folder: str) -> dict[str, Any]:
    """Start the remote service over the runs of a folder; it ends with this process."""
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    _beside(lambda: Service(Path(folder)).serve(listening))
    listening.close()
    return {"url": f"http://127.0.0.1:{port}"}


def command(
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    powerless: bool = False,
    loses: str = "",
) -> dict[str, Any]:
    """Run the command line as a process of its own: its exit code, and what it printed.

    Args:
        folder: The current one; ``out``, ``err`` and ``code`` are written beside it.
        powerless: Permissions count, also for root.
        loses: The instant at which it loses its database; see ``lose``.
    """
    place = Path(folder)
    files = {name: place.with_name(f"{place.name}-{name}") for name in ("out", "err", "code")}

    def act(_: Any) -> None:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(place)
        for descriptor, name in ((1, "out"), (2, "err")):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(files[name], flags, 0o600), descriptor)
        if powerless:
            give_up_power()
        if loses:
            url = environment.get("SAYSO_DATABASE_URL", "sqlite://")
            Instants(Kill(loses, loses=True), lose=lambda: lose(url, place.parent)).watch()
        code = agent.cli.main.main(arguments)
        files["code"].write_text(str(code))

    Child.of(act, place.with_name(f"{place.name}-errors")).end()
    return {
        "code": int(files["code"].read_text()),
        "out": files["out"].read_text(),
        "err": files["err"].read_text(),
    }


def give_up_power() -> None:
    """Let the permissions of files count for this process, although it may be root's.

    On Linux root has them ignored by a capability, which can be given up.
    """
    if os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    data = (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        data[0] &= ~(1 << capability)
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")


_alive: list[int] = []
"""Ends of pipes that nobody writes to: who reads from one learns that this process has ended."""


def _beside(serve: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run something in a fork until this process ends."""
    watching, kept = os.pipe()
    _alive.append(kept)
    if os.fork():
        os.close(watching)
        return
    for descriptor in _alive:
        os.close(descriptor)

    async def until_alone() -> None:
        task = asyncio.create_task(serve())
        asyncio.get_running_loop().add_reader(watching, task.cancel)
        await asyncio.wait({task})

    try:
        asyncio.run(until_alone())
    finally:
        os._exit(0)
