"""A remote service over a crash run's world, on a real socket, that fails in every way asked for.

One request a connection. ``POST /RUN/keys/OP`` and ``POST /RUN/nokeys/OP`` write, the first
honouring the key; ``GET /RUN?key=…`` and ``GET /RUN?op=…&n=…`` read the record; ``GET /rest``
answers when no other request is under way or waits to be read. It goes on with a request whose
sender has gone, as services do.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.crash_world import ALREADY_GONE, KILLS, WITHOUT_EFFECT, Effect, KeyReused, World


@dataclass
class Request:
    method: str
    path: list[str]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: Any
    gone: asyncio.Task[bytes]
    """Ends when the sender has closed its side."""


class Service:
    """The service over the worlds in a folder: ``RUN/world.db``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: set[asyncio.StreamWriter] = set()
        self._quiet = asyncio.Condition()
        self._waiting = asyncio.Event()
        """Somebody waits for rest, and so for whoever would answer only once its client is gone."""

    async def serve(self, listening: socket.socket) -> None:
        """Answer until cancelled."""
        server = await asyncio.start_server(self._take, sock=listening)
        await server.serve_forever()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            # A client may go before it has asked, or before it is told.
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                request = await _read(reader)
                await self._answer(request, writer)
                request.gone.cancel()
        finally:
            writer.transport.abort() if writer.transport.is_closing() else writer.close()
            async with self._quiet:
                self._open.discard(writer)
                self._quiet.notify_all()

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.path == ["rest"]:
            self._waiting.set()
            async with self._quiet:
                await self._quiet.wait_for(lambda: self._open <= {writer})
            self._waiting.clear()
            await _send(writer, 200, {})
            return
        world = World(self._folder / request.path[0] / "world.db")
        if request.method == "GET":
            await _send(writer, 200, _found(world, request.query))
        else:
            await self._write(world, request, writer)

    async def _write(self, world: World, request: Request, writer: asyncio.StreamWriter) -> None:
        _, keys, op = request.path
        key, attempt = request.headers["idempotency-key"], int(request.headers["x-attempt"])
        caller, n = int(request.headers["x-caller"]), int(request.body["n"])
        fault = world.next_fault()
        if fault == "refuses a reused key" and world.under(key) is not None:
            await _send(writer, 409, {"error": "this key was used before"})
            return
        if fault in KILLS[:2]:
            _kill(caller, request)
        if fault in ALREADY_GONE:
            await self._until_gone(request)
        if fault in WITHOUT_EFFECT:
            if fault.startswith("fails"):
                await _send(writer, 500, {"error": "something broke"})
            return
        try:
            effect = world.write(op, n, key, attempt, honours=keys == "keys")
        except KeyReused:
            await _send(writer, 409, {"error": "the key belongs to another request"})
            return
        answer = effect.as_json() | ({"key": key} if keys == "keys" else {})
        if fault == KILLS[2]:
            _kill(caller, request)
        if fault == "answers too late":
            await self._until_gone(request)
        if fault == "drops it after the effect":
            return
        if fault == "fails after the effect":
            await _send(writer, 500, {"error": "something broke"})
            return
        if fault == "answers for another call":
            answer |= {"n": n + 1000, "transaction": "W1", "key": "sayso-another"}
        await _send(writer, 200, answer)
        if fault == "answers twice":
            await _send(writer, 200, answer)

    async def _until_gone(self, request: Request) -> None:
        """Wait until whoever asked does not listen any more, or somebody waits for this."""
        asked = asyncio.create_task(self._waiting.wait())
        await asyncio.wait({request.gone, asked}, return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()


def _kill(caller: int, request: Request) -> None:
    """Kill whoever asked, if it is still there: numbers of processes are given out again."""
    if not request.gone.done():
        with suppress(ProcessLookupError):
            os.kill(caller, signal.SIGKILL)


def _found(world: World, query: Mapping[str, list[str]]) -> dict[str, Any]:
    if "key" in query:
        effect = world.under(query["key"][0])
    else:
        effect = world.done(query["op"][0], int(query["n"][0]))
    return {"effect": None if effect is None else _whole(effect)}


def _whole(effect: Effect) -> dict[str, Any]:
    return effect.as_json() | {"key": effect.key}


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    split = urlsplit(target)
    return Request(
        method=method,
        path=[part for part in split.path.split("/") if part],
        query=parse_qs(split.query),
        headers=headers,
        body=json.loads(body) if body else None,
        gone=asyncio.create_task(_end_of(reader)),
    )


async def _end_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""


async def _send(writer: asyncio.StreamWriter, status: int, answer: Mapping[str, Any]) -> None:
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\ncontent-type: application/json"
    writer.write(f"{head}\r\nconnection: close\r\n\r\n".encode() + body)
    await writer.drain()
