"""An MCP server that misbehaves on purpose, over stdio and HTTP. Standard library only.

``python rough_server.py '{"signal": port, …}'``, or ``@path`` of such a text; the options:

* ``signal``: a loopback port; told one JSON line when the server starts, when a call of a waiting
  tool arrives and so on, so that tests wait for events and not for time;
* ``http``: ``streamable`` or ``sse``; ``port``: where, any by default; ``listening`` tells it;
* ``silent_at``: a method that is never answered, such as ``initialize`` or ``tools/list``;
* ``raw_at``: by method, the lines that are written instead of an answer, see :func:`raw`;
* ``raw_later``: the same, from the second listing on;
* ``first``: such lines, written before anything was asked;
* ``last_words``: written to stderr before it exits at once with code 3;
* ``stubborn``: ignores SIGTERM and the end of its input;
* ``deaf``: never reads its input after the tools were listed;
* ``greeting``: the description of ``echo``; ``@path`` takes it from a file;
* ``extra``: further tool definitions; like any tool, a call of one is answered with the
  ``lines`` among its arguments, and without them with ``done``;
* ``only``: the tools that are listed, instead of all;
* ``pages``: ``endless`` or ``circle``: how its list of tools goes on;
* ``junk``: writes log lines and bytes that are not UTF-8 to stdout.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def read_options(given: str) -> dict[str, Any]:
    options: dict[str, Any] = json.loads(
        Path(given[1:]).read_text() if given.startswith("@") else given
    )
    return options


options = read_options(sys.argv[1] if len(sys.argv) > 1 else "{}")
END = b"\0"
"""Stands for the end of a stream."""

Send = Callable[[bytes], None]
questions: list[str] = []
asked: dict[str, tuple[Any, dict[str, Any], Send]] = {}
"""What the server has asked: the call that waits for the answer, its arguments, and where its own
answer goes."""

listings: list[Any] = []


def tell(event: str, **data: Any) -> None:
    """Report an event to the test and wait until it was taken."""
    if "signal" in options:
        with socket.create_connection(("127.0.0.1", options["signal"])) as line:
            line.sendall(json.dumps({"event": event, "pid": os.getpid(), **data}).encode() + b"\n")
            line.recv(1)


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
    listed = [
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
        tool("raw"),
        tool("raw_reading", readOnlyHint=True),
        tool("big", readOnlyHint=True),
        tool("ask"),
        tool("spawn"),
        tool("orphan"),
        tool("flood"),
        tool("close_input"),
        *options.get("extra", []),
    ]
    return [one for one in listed if one.get("name") in options.get("only", [one.get("name")])]


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": value}], **more}


def raw(lines: list[str], number: Any, send: Send) -> None:
    """Write lines as they are, characters as bytes; ``$ID`` is the request's own id."""
    for line in lines:
        send(line.encode("latin-1").replace(b"$ID", json.dumps(number).encode()))


def call(number: Any, params: dict[str, Any], send: Send) -> dict[str, Any] | None:
    """The response to a call, or ``None`` for no response here."""
    name, arguments = params["name"], params.get("arguments", {})
    if name == "echo":
        seen = {"arguments": arguments, "meta": params.get("_meta", {})}
        return {"result": text(json.dumps(seen))}
    if name == "environment":
        return {"result": text(json.dumps(dict(os.environ)))}
    if name in ("wait", "wait_reading"):
        tell("called", tool=name, id=number)
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
        return {"result": {"content": [], "structuredContent": arguments.get("is", {"n": 1})}}
    if name == "nonsense":
        return {"result": {"content": "none"}}
    if "lines" in arguments:
        raw(arguments["lines"], number, send)
        if arguments.get("then") == "die":
            os._exit(0)
        if arguments.get("then") == "end":
            send(END)
        return None
    if name == "big":
        return {"result": text("x" * arguments["characters"])}
    if name == "ask":
        ask(number, arguments, send)
        return None
    if name == "spawn":
        return {"result": text(str(spawn(**arguments)))}
    if name == "orphan":
        return {"result": text(str(orphan()))}
    if name == "flood":
        sys.stderr.buffer.write(b"x" * 999 + b"\n")
        for _ in range(arguments["kilobytes"]):
            sys.stderr.buffer.write(b"y" * 999 + b"\n")
        sys.stderr.buffer.flush()
        return {"result": text("done")}
    if name == "close_input":
        os.close(0)
        tell("closed")
        signal.pause()
    return {"result": text("done")}


def ask(number: Any, question: dict[str, Any], send: Send) -> None:
    """Ask something; with ``again``, the same after each answer; ``take_back`` cancels it."""
    identity = f"a{len(questions)}"
    questions.append(identity)
    asked[identity] = number, question, send
    request = {"jsonrpc": "2.0", "id": identity, "method": question["method"]}
    send(json.dumps({**request, "params": question.get("params", {})}).encode())
    if question.get("take_back"):
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": identity}}
        send(json.dumps({"jsonrpc": "2.0", **cancelled}).encode())


ORPHAN = """
import os, signal
os.fork() and os._exit(0)
os.setsid()
os.fork() and os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
signal.pause()
"""


def orphan() -> int:
    """Start a process as daemons do it: in a session of its own, and no child of ours."""
    command = [sys.executable, "-I", "-S", "-c", ORPHAN]
    started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert started.stdout is not None
    started.wait()
    return int(started.stdout.readline())


def spawn(detached: bool = False, holding: bool = False, die: bool = False) -> int:
    """Start a process that ignores SIGTERM; one that is ``holding`` keeps our output open."""
    ignore = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True);"
    output = os.dup(1)
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", f"{ignore} signal.pause()"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if holding else subprocess.DEVNULL,
        pass_fds=(output,) if holding else (),
        start_new_session=detached,
    )
    assert child.stdout is not None
    child.stdout.readline()
    tell("spawned", child=child.pid)
    if die:
        os._exit(1)
    return child.pid


def answer(number: Any, method: str, params: dict[str, Any], send: Send) -> dict[str, Any] | None:
    if method == options.get("silent_at"):
        tell("silent")
        return None
    if method == "tools/list" and not params.get("cursor"):
        listings.append(number)
    lines = options.get("raw_later" if len(listings) > 1 else "raw_at", {}).get(method)
    if lines is not None:
        raw(lines, number, send)
        return None
    if method == "initialize":
        return {
            "result": {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "rough", "version": "1"},
            }
        }
    if method == "tools/list":
        # One tool a page, so that a client which reads the first page only is found out.
        page = int(params.get("cursor") or 0)
        listed = tools()
        tell("listed")
        if options.get("pages") == "endless":
            return {"result": {"tools": [], "nextCursor": str(page + 1)}}
        if options.get("pages") == "circle":
            return {"result": {"tools": [], "nextCursor": "1"}}
        more = {"nextCursor": str(page + 1)} if page + 1 < len(listed) else {}
        return {"result": {"tools": listed[page : page + 1], **more}}
    if method == "tools/call":
        return call(number, params, send)
    if method == "ping":
        return {"result": {}}
    return {"error": {"code": -32601, "message": method}}


def handle(message: dict[str, Any], send: Send) -> bool:
    """Take a message; whether nothing more will be sent because of it."""
    if "method" not in message and message["id"] not in asked:
        tell("answered", answer={k: v for k, v in message.items() if k in ("result", "error")})
        return True
    if "method" not in message:
        number, question, other = asked.pop(message["id"])
        if question.get("again"):
            ask(number, question, other)
            return False
        seen = {key: message[key] for key in ("result", "error") if key in message}
        response = {"result": text(json.dumps(seen))}
        other(json.dumps({"jsonrpc": "2.0", "id": number, **response}).encode())
        other(END)
        return True
    if message["method"] == "notifications/cancelled":
        tell("cancelled", id=message["params"]["requestId"])
    if "id" not in message:
        return True
    response = answer(message["id"], message["method"], message.get("params") or {}, send)
    if response is None:
        return False
    send(json.dumps({"jsonrpc": "2.0", "id": message["id"], **response}).encode())
    return True


# --- stdio -------------------------------------------------------------------------------------


def write(line: bytes) -> None:
    if line != END:
        sys.stdout.buffer.write(line + b"\n")
        sys.stdout.buffer.flush()


def serve_stdio() -> None:
    if options.get("junk"):
        sys.stdout.buffer.write(b"INFO starting\n\xff\xfe\n\n")
    raw(options.get("first", []), 0, write)
    for line in sys.stdin:
        message = json.loads(line)
        handle(message, write)
        if options.get("deaf") and message.get("method") == "tools/list":
            signal.pause()
    while options.get("stubborn"):
        signal.pause()


# --- HTTP --------------------------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    session = os.urandom(8).hex()
    stream: queue.Queue[bytes] = queue.Queue()
    """Of the older transport: all answers."""

    def log_message(self, *args: Any) -> None:
        pass

    def start(self, status: int, kind: str = "", body: bytes | None = b"") -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        else:
            self.send_header("Connection", "close")
        self.send_header("Mcp-Session-Id", self.session)
        self.end_headers()
        self.wfile.write(body or b"")
        self.wfile.flush()

    def event(self, data: bytes, name: bytes = b"message") -> None:
        self.wfile.write(b"event: " + name + b"\ndata: " + data + b"\n\n")
        self.wfile.flush()

    def do_GET(self) -> None:
        if options["http"] != "sse":
            self.start(405)
            return
        self.start(200, "text/event-stream", None)
        self.event(b"/messages", b"endpoint")
        while True:
            if (data := self.stream.get()) != END:
                self.event(data)

    def do_DELETE(self) -> None:
        tell("deleted")
        self.start(204)

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if options["http"] == "sse":
            self.start(202)
            handle(message, self.stream.put)
        elif (
            message.get("method") != "initialize"
            and self.headers.get("Mcp-Session-Id") != self.session
        ):
            self.start(404)
        elif "id" not in message or "method" not in message:
            handle(message, lambda line: None)
            self.start(202)
        else:
            self.answer(message)

    def answer(self, message: dict[str, Any]) -> None:
        sent: queue.Queue[bytes] = queue.Queue()
        finished = handle(message, sent.put)
        if finished and sent.qsize() == 1:
            self.start(200, "application/json", sent.get())
            return
        self.start(200, "text/event-stream", None)
        while not (finished and sent.empty()):
            if (data := sent.get()) == END:
                break
            self.event(data)
        self.close_connection = True


def serve_http() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", options.get("port", 0)), Handler)
    server.daemon_threads = True
    tell("listening", port=server.server_address[1])
    server.serve_forever(poll_interval=3600)


def main() -> None:
    tell("started")
    if "last_words" in options:
        sys.exit(f"{options['last_words']}")
    if options.get("stubborn"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.get("http"):
        threading.stack_size(256 * 1024)
        serve_http()
    else:
        serve_stdio()


main()
