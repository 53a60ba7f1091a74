"""An HTTP server in the test's own process that answers every request as the test says."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

TOOLS = [
    {"name": "read", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "write", "inputSchema": {"type": "object"}},
]
FINE = {"content": [{"type": "text", "text": "fine"}]}


@dataclass
class Request:
    """What came: ``message`` is the body as JSON."""

    method: str
    headers: dict[str, str]
    message: dict[str, Any]
    writer: asyncio.StreamWriter
    closed: asyncio.Event

    @property
    def asks(self) -> str:
        """The JSON-RPC method, else that of HTTP."""
        name: str = self.message.get("method", self.method)
        return name

    def result(self, result: Any = FINE) -> bytes:
        """The answer to it."""
        return json.dumps({"jsonrpc": "2.0", "id": self.message["id"], "result": result}).encode()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        """A whole response; ``_`` in names of headers stands for ``-``."""
        headers = {"content_length": str(len(body)), **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items() if value]
        head = "\r\n".join([f"HTTP/1.1 {status} X", *lines, "", ""])
        await self.send(head.encode() + body)

    async def stream(self, *events: str) -> None:
        """The beginning of a stream of events that ends with the connection."""
        await self.respond(200, content_length="", content_type="text/event-stream")
        await self.send("".join(f"{event}\n\n" for event in events).encode())


Answer = Callable[[Request], Awaitable[None]]


def status(code: int, body: bytes = b"", **headers: str) -> Answer:
    async def answer(request: Request) -> None:
        await request.respond(code, body, **headers)

    return answer


async def hang(request: Request) -> None:
    """Never answer."""
    await request.closed.wait()


async def drop(request: Request) -> None:
    """Close the connection instead of an answer."""
    request.writer.close()


@dataclass
class RawHttp:
    """The server.

    Attributes:
        answers: By JSON-RPC method (else that of HTTP), what is done instead of what is right.
        seen: All requests that came.
    """

    tls: ssl.SSLContext | None = None
    port: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)
    seen: list[Request] = field(default_factory=list)
    sessions: int = 0
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/mcp"

    async def start(self) -> None:
        """Listen, on the same port as before; sessions of before are not known any more."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self.tls, limit=2**24
        )
        self.port = self._server.sockets[0].getsockname()[1]
        self.sessions += 1

    async def stop(self) -> None:
        """Close the port and every connection."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()
        await self._server.wait_closed()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    def calls(self, name: str) -> list[Request]:
        """The calls of a tool that came."""
        return [r for r in self.seen if r.message.get("params", {}).get("name") == name]

    async def got(self, asks: str, number: int = 1) -> Request:
        """The request of this method that came as the first one, the second one and so on."""
        async with self.arrived:
            while len(found := [r for r in self.seen if r.asks == asks]) < number:
                await self.arrived.wait()
        return found[number - 1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            begun = await reader.readexactly(1)
            while begun:
                begun = await self._one(begun, reader, writer)
        self._open.discard(writer)
        writer.close()

    async def _one(
        self, begun: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bytes:
        """Answer one request; the first byte of the next one, nothing when there is none."""
        head = (begun + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in head[1:-2])
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        request = Request(
            head[0].split()[0], headers, json.loads(body or b"{}"), writer, asyncio.Event()
        )
        answer = self.answers.get(request.asks, self._answer)
        self.seen.append(request)
        async with self.arrived:
            self.arrived.notify_all()
        following = asyncio.create_task(reader.read(1))
        following.add_done_callback(
            lambda read: request.closed.set() if read.exception() or not read.result() else None
        )
        await answer(request)
        return await following

    async def _answer(self, request: Request) -> None:
        known = request.headers.get("mcp-session-id") == f"s{self.sessions}"
        if request.asks != "initialize" and not known:
            await request.respond(404)
        elif request.method == "GET":
            await request.respond(405)
        elif "id" not in request.message:
            await request.respond(202)
        else:
            await request.respond(
                200,
                request.result(self.result_of(request)),
                content_type="application/json",
                **({"mcp_session_id": f"s{self.sessions}"} if request.asks == "initialize" else {}),
            )

    @staticmethod
    def result_of(request: Request) -> dict[str, Any]:
        """What a server that is well answers."""
        match request.asks:
            case "initialize":
                return {
                    "protocolVersion": request.message["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "raw", "version": "1"},
                }
            case "tools/list":
                return {"tools": TOOLS}
            case "tools/call":
                return FINE
        return {}
