"""An MCP server over stdio that misbehaves on purpose. Standard library only.

``python rough_server.py '{"signal": port, …}'``; the options:

* ``signal``: a loopback port; told one JSON line when the server starts and when a call of a
  waiting tool arrives, so that tests wait for events and not for time;
* ``silent_at``: a method that is never answered, such as ``initialize`` or ``tools/list``;
* ``last_words``: written to stderr before it exits at once with code 3;
* ``stubborn``: ignores SIGTERM and the end of its input;
* ``greeting``: the description of ``echo``; ``@path`` takes it from a file;
* ``extra``: further tool definitions;
* ``junk``: writes log lines and bytes that are not UTF-8 to stdout.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

options: dict[str, Any] = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}


def tell(event: str, **data: Any) -> None:
    """Report an event to the test and wait until it was taken."""
    if "signal" in options:
        with socket.create_connection(("127.0.0.1", options["signal"])) as line:
            line.sendall(json.dumps({"event": event, "pid": os.getpid(), **data}).encode() + b"\n")
            line.recv(1)


def send(message: dict[str, Any]) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()


def tool(name: str, description: str = "", **hints: bool) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, "additionalProperties": True}
    return {
        "name": name,
        "description": description,
        "inputSchema": schema,
        "annotations": hints,
    }


def greeting() -> str:
    text: str = options.get("greeting", "Says what it was sent.")
    return Path(text[1:]).read_text() if text.startswith("@") else text


def tools() -> list[dict[str, Any]]:
    return [
        tool("echo", greeting(), readOnlyHint=True),
        tool("environment", readOnlyHint=True),
        tool("wait"),
        tool("wait_reading", readOnlyHint=True),
        tool("effect_then_die"),
        tool("error"),
        tool("refuse"),
        tool("blocks"),
        tool("structured"),
        tool("nonsense"),
        *options.get("extra", []),
    ]


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def call(params: dict[str, Any]) -> dict[str, Any] | None:
    """The response to a call, or ``None`` for no response at all."""
    name, arguments = params["name"], params.get("arguments", {})
    if name == "echo":
        seen = {"arguments": arguments, "meta": params.get("_meta", {})}
        return {"result": text(json.dumps(seen))}
    if name == "environment":
        return {"result": text(json.dumps(dict(os.environ)))}
    if name in ("wait", "wait_reading"):
        tell("called", tool=name)
        return None
    if name == "effect_then_die":
        Path(arguments["path"]).write_text("done")
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "error":
        meta = {"sayso/outcome": arguments["outcome"]} if "outcome" in arguments else {}
        return {"result": text("it is full; try tomorrow", isError=True, _meta=meta)}
    if name == "refuse":
        return {"error": {"code": arguments["code"], "message": "not like this"}}
    if name == "blocks":
        image = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
        link = {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"}
        return {"result": {"content": [{"type": "text", "text": "see"}, image, link]}}
    if name == "structured":
        return {"result": {"content": [], "structuredContent": {"n": 1}}}
    if name == "nonsense":
        return {"result": {"content": "none"}}
    return {"error": {"code": -32602, "message": f"no tool {name}"}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    if method == options.get("silent_at"):
        tell("silent")
        return None
    if method == "initialize":
        return {
            "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "rough", "version": "1"},
            }
        }
    if method == "tools/list":
        # One tool a page, so that a client which reads the first page only is found out.
        page = int(params.get("cursor") or 0)
        listed = tools()
        more = {"nextCursor": str(page + 1)} if page + 1 < len(listed) else {}
        return {"result": {"tools": [listed[page]], **more}}
    if method == "tools/call":
        return call(params)
    return {"error": {"code": -32601, "message": method}}


def main() -> None:
    tell("started")
    if "last_words" in options:
        sys.exit(f"{options['last_words']}")
    if options.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.get("junk"):
        sys.stdout.buffer.write(b"INFO starting\n\xff\xfe\n")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            response = answer(message["method"], message.get("params") or {})
            if response is not None:
                send({"jsonrpc": "2.0", "id": message["id"], **response})
    while options.get("stubborn"):
        signal.pause()


main()
