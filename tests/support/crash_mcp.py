"""An MCP server over stdio for crash runs: ``python crash_mcp.py FOLDER``. Standard library only.

It offers ``add`` and ``look`` over ``FOLDER/world.db``, and goes wrong as ``faults`` says there.
It goes on with a call when whoever asked was killed, and ends at the end of its input; until then
it holds a lock on ``FOLDER/server-PID.lock``, with the process id of whoever started it.
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
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from crash_world import KILLS, WITHOUT_EFFECT, Effect, KeyReused, World

NUMBER = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}
TOOLS = [
    {"name": "add", "description": "Add a number.", "inputSchema": NUMBER},
    {
        "name": "look",
        "description": "Look at a number.",
        "inputSchema": NUMBER,
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
]


def main(folder: Path) -> None:
    caller = os.getppid()
    lock = (folder / f"server-{caller}.lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    server = Server(World(folder / "world.db"), caller, (folder / "honours-keys").exists())
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                send(message, greeting(message["params"]["protocolVersion"]))
            case "tools/list":
                send(message, {"tools": TOOLS})
            case "tools/call" if message["params"]["name"] == "look":
                found = server.world.done("add", message["params"]["arguments"]["n"])
                send(message, text("It is there." if found else "It is not there."))
            case "tools/call":
                server.add(message)
            case _ if "id" in message:
                send(message, {})
    for late in server.later:
        late()


def greeting(version: str) -> dict[str, Any]:
    return {
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "numbers", "version": "1"},
    }


@dataclass
class Server:
    """What one process of the server knows; ``later`` is done once nobody listens any more."""

    world: World
    caller: int
    honours: bool
    later: list[Callable[[], Any]] = field(default_factory=list)

    def add(self, message: dict[str, Any]) -> None:
        n, meta = message["params"]["arguments"]["n"], message["params"].get("_meta", {})
        key = meta.get("sayso/idempotencyKey", "")
        fault = self.world.next_fault()
        if fault == "refuses a reused key" and self.world.under(key) is not None:
            send(message, text("this key was used before", error=True))
            return
        if fault == "takes effect too late":
            self.later.append(lambda: self.world.write("add", n, key, 1, honours=self.honours))
            return
        if fault in KILLS[:2]:
            kill(self.caller)
        if fault == "drops it before the effect":
            os._exit(1)
        if fault in WITHOUT_EFFECT:
            send(message, error={"code": -32603, "message": "something broke"})
            return
        try:
            effect = self.world.write("add", n, key, 1, honours=self.honours)
        except KeyReused:
            send(message, text("the key belongs to another request", error=True))
            return
        self.answer(message, effect, fault)

    def answer(self, message: dict[str, Any], effect: Effect, fault: str) -> None:
        answer = text(json.dumps(effect.as_json()))
        match fault:
            case "killed after the effect":
                kill(self.caller)
            case "drops it after the effect":
                os._exit(1)
            case "fails after the effect":
                send(message, error={"code": -32603, "message": "something broke"})
                return
            case "answers too late":
                return
            case "answers for another call":
                send({"id": message["id"] + 1000}, answer)
                return
            case "answers twice":
                send(message, answer)
        send(message, answer)


def kill(caller: int) -> None:
    if os.getppid() == caller:
        os.kill(caller, signal.SIGKILL)


def text(said: str, error: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": said}], "isError": error}


def send(
    request: dict[str, Any],
    result: dict[str, Any] | None = None,
    error: dict[str, Any] | None = None,
) -> None:
    body = {"result": result} if error is None else {"error": error}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
