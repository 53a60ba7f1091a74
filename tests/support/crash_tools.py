"""The tools of crash runs: the same ``add`` and ``look`` over four kinds of service.

``local``: a function that writes the world in a transaction of its own, in this process.
``remote``: a service over HTTP that honours idempotency keys. ``keyless``: one that does not.
``mcp``: a server of the Model Context Protocol over stdio.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import httpx
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ConfigDict

from agent.mcp.servers import Claims, ServerConfig, Stdio
from tests.support.crash_world import KILLS, World
from tools.contract import (
    Call,
    CallInfo,
    Committed,
    Contract,
    Effects,
    Evidence,
    Finding,
    OutcomeUnknown,
    Preview,
    ToolFailure,
    Undo,
    Unmet,
    current_call,
    make_tool,
)

Kind = Literal["local", "remote", "keyless", "mcp"]
KINDS: tuple[Kind, ...] = get_args(Kind)

WRITES: Effects = frozenset({"write:numbers"})
READS: Effects = frozenset({"read:numbers"})
SERVER = "numbers"


class Number(BaseModel):
    model_config = ConfigDict(extra="forbid")

    n: int


@dataclass(frozen=True)
class Surroundings:
    """What the tools of a run work with.

    Args:
        folder: Of the run; the world is ``world.db`` in it.
        service: The address of the remote service.
        looks_up: The contract has a postcondition and knows how to look up a lost outcome.
        together: Two writes of one step may be under way at the same time.
        patience: Seconds until the client gives a request up.
        honours_keys: Of the MCP server; the other kinds have it in their name.
        happens: Told what is about to happen, and what has.
    """

    folder: Path
    service: str = ""
    looks_up: bool = True
    together: bool = True
    patience: float = 30.0
    honours_keys: bool = True
    happens: Callable[[str], None] = field(default=lambda what: None)

    @property
    def world(self) -> World:
        return World(self.folder / "world.db")


def tools_of(kind: Kind, around: Surroundings) -> list[BaseTool]:
    """The tools beside those of an MCP server."""
    if kind == "mcp":
        return []
    carrier = _Local(around) if kind == "local" else _Remote(around, keys=kind == "remote")
    writes = _contract(carrier, around)
    return [
        make_tool(carrier.add, args=Number, contract=writes("add", undone_by="drop")),
        make_tool(carrier.drop, args=Number, contract=writes("drop")),
        make_tool(carrier.look, args=Number, contract=Contract(effects=READS, open_world=False)),
    ]


def servers_of(kind: Kind, around: Surroundings) -> tuple[ServerConfig, ...]:
    """The MCP servers of a run."""
    if kind != "mcp":
        return ()
    if around.honours_keys:
        (around.folder / "honours-keys").touch()
    program = str(Path(__file__).with_name("crash_mcp.py"))
    writes = Claims(
        effects=WRITES,
        open_world=False,
        idempotency="key" if around.honours_keys else "none",
        timeout=around.patience,
    )
    return (
        ServerConfig(
            name=SERVER,
            transport=Stdio(sys.executable, ("-I", "-S", program, str(around.folder))),
            trusted=True,
            claims={"add": writes},
        ),
    )


def called(kind: Kind, name: str) -> str:
    """The name by which the model calls a tool."""
    return f"{SERVER}__{name}" if kind == "mcp" else name


# --- contracts -------------------------------------------------------------------------------


def _contract(carrier: _Local | _Remote, around: Surroundings) -> Callable[..., Contract]:
    def contract(op: str, undone_by: str | None = None) -> Contract:
        async def find(args: Any, info: CallInfo) -> Finding:
            return await carrier.find(op, args["n"], info)

        async def verify(args: Any, info: CallInfo, result: Any) -> Finding:
            return await carrier.find(op, args["n"], info)

        return Contract(
            effects=WRITES,
            open_world=False,
            idempotency="key" if isinstance(carrier, _Remote) and carrier.keys else "none",
            precondition=lambda args, evidence: _was_read(args, evidence) if undone_by else None,
            postcondition=verify if around.looks_up else None,
            reconcile=find if around.looks_up else None,
            check=lambda args: Call("look", {"n": args["n"]}),
            conflict_key=(lambda args: f"n{args['n']}") if around.together else None,
            preview=lambda args: _preview(around.world, op, args["n"]),
            undo=Undo("It is dropped again.", _undo) if undone_by else None,
            version="1",
        )

    return contract


def _was_read(args: Any, evidence: Any) -> Unmet | None:
    reads: list[Evidence] = [found for found in evidence if found.tool == "look"]
    return None if reads else Unmet("Nothing was read yet.", Call("look", {"n": args["n"]}))


def _preview(world: World, op: str, n: int) -> Preview:
    changes = world.notes(f"a stranger changed {n}")
    return Preview(f"{op} {n}", before=f"{n} at revision {changes}", after=f"{op} {n}")


def _undo(committed: Committed) -> Call:
    return Call("drop", {"n": committed.args["n"]})


# --- in this process -------------------------------------------------------------------------


class _Local:
    def __init__(self, around: Surroundings) -> None:
        self._world, self._happens = around.world, around.happens

    def add(self, n: int) -> str:
        """Add a number."""
        return self._write("add", n)

    def drop(self, n: int) -> str:
        """Drop a number."""
        return self._write("drop", n)

    def look(self, n: int) -> str:
        """Look at a number."""
        return f"{n} is {'there' if self._world.done('add', n) else 'not there'}"

    def _write(self, op: str, n: int) -> str:
        info = current_call.get()
        fault = self._world.next_fault()
        self._happens("before the effect")
        if fault in KILLS[:2]:
            os.kill(os.getpid(), signal.SIGKILL)
        key = info.idempotency_key or ""
        effect = self._world.write(op, n, key, info.attempt, honours=False)
        if fault == KILLS[2]:
            os.kill(os.getpid(), signal.SIGKILL)
        self._happens("after the effect")
        return json.dumps(effect.as_json())

    async def find(self, op: str, n: int, info: CallInfo) -> Finding:
        """A process that is dead does nothing any more, so what is not there did not happen."""
        found = self._world.under(info.idempotency_key or "")
        if found is None:
            return Finding(False, f"No {op} {n} is recorded.")
        transaction = found.transaction
        return Finding(True, f"{op} {n} is {transaction}.", found.as_json(), transaction)


# --- over the network ------------------------------------------------------------------------


class _Remote:
    def __init__(self, around: Surroundings, *, keys: bool) -> None:
        self.keys = keys
        self._around, self._happens = around, around.happens
        self._run = f"{around.service}/{around.folder.name}"

    async def add(self, n: int) -> str:
        """Add a number."""
        return await self._write("add", n)

    async def drop(self, n: int) -> str:
        """Drop a number."""
        return await self._write("drop", n)

    async def look(self, n: int) -> str:
        """Look at a number."""
        found = await self._read({"op": "add", "n": n})
        return f"{n} is {'there' if found else 'not there'}"

    async def _write(self, op: str, n: int) -> str:
        info = current_call.get()
        self._happens("before the effect")
        headers = {
            "idempotency-key": info.idempotency_key or "",
            "x-attempt": str(info.attempt),
            "x-caller": str(os.getpid()),
        }
        url = f"{self._run}/{'keys' if self.keys else 'nokeys'}/{op}"
        try:
            async with self._client() as client:
                trace = {"trace": self._trace}
                reply = await client.post(url, json={"n": n}, headers=headers, extensions=trace)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise ToolFailure(f"The service cannot be reached: {error}") from error
        self._happens("after the effect")
        if reply.status_code == 409 and info.attempt == 1:
            raise ToolFailure(f"The service refused it: {reply.text}")
        answer = reply.json()
        right = {"op": op, "n": n} | ({"key": info.idempotency_key} if self.keys else {})
        if reply.status_code != 200 or right.items() - answer.items():
            raise OutcomeUnknown(f"the service answered {reply.status_code}: {reply.text}")
        return json.dumps({"op": op, "n": n, "transaction": answer["transaction"]})

    async def _trace(self, event: str, info: Any) -> None:
        if event == "http11.send_request_body.complete":
            self._happens("the request is sent")

    async def find(self, op: str, n: int, info: CallInfo) -> Finding:
        """A request may still be on its way, so what is not there yet settles nothing."""
        content = {"op": op, "n": n}
        found = await self._read({"key": info.idempotency_key} if self.keys else content)
        if found is None:
            return Finding(None, f"No {op} {n} is recorded so far.")
        transaction = found["transaction"]
        return Finding(True, f"{op} {n} is {transaction}.", found, transaction)

    async def _read(self, query: dict[str, Any]) -> dict[str, Any] | None:
        async with self._client() as client:
            reply = await client.get(self._run, params=query)
            found: dict[str, Any] | None = reply.raise_for_status().json()["effect"]
            return found

    def _client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(verify=False, trust_env=False, timeout=self._around.patience)


# --- how a person sees to it that nothing is on its way any more -----------------------------


async def at_rest(kind: Kind, around: Surroundings) -> bool:
    """Wait until nothing that was asked for is under way; ``False``: that cannot be known here."""
    if kind in ("remote", "keyless"):
        async with httpx.AsyncClient(verify=False, trust_env=False, timeout=60) as client:
            (await client.get(f"{around.service}/rest")).raise_for_status()
    for path in around.folder.glob("server-*.lock"):
        if path.stem == f"server-{os.getpid()}":
            return False
        with path.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
    return True
