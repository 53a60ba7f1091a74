"""What the tests of our MCP servers share: applications on real sockets, processes, clients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult
from starlette.types import ASGIApp

from mcp_servers.inbound import PATH
from mcp_servers.local_http import PATIENCE, bind, server_of

AGENT_TOKEN = "agent-token-90ab37c4d1"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def served(application: ASGIApp, patience: float = PATIENCE) -> Iterator[str]:
    """An application on a free port of 127.0.0.1, in a thread; its address."""
    listening = bind(0)
    server = server_of(application, patience)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@dataclass
class Process:
    """A server in a process of its own."""

    running: subprocess.Popen[str]
    url: str = ""
    lines: list[str] = field(default_factory=list)

    @property
    def log(self) -> str:
        """What it wrote to standard error; whole once it has ended."""
        return "".join(self.lines)


@contextmanager
def process(*arguments: str, **env: str) -> Iterator[Process]:
    """``python -m`` with these arguments, from the moment in which it listens."""
    with subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **env},
    ) as running:
        started = Process(running)
        listens = threading.Event()

        def read() -> None:
            assert running.stderr is not None
            for line in running.stderr:
                started.lines.append(line)
                if line.startswith("Listening on "):
                    started.url = line.split()[-1]
                    listens.set()
            listens.set()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            listens.wait()
            assert started.url, started.log
            yield started
        finally:
            running.terminate()
            reader.join()


@asynccontextmanager
async def over_http(url: str, token: str, **headers: str) -> AsyncIterator[ClientSession]:
    """The SDK's client over Streamable HTTP."""
    async with (
        httpx.AsyncClient(headers={**bearer(token), **headers}) as client,
        streamable_http_client(url, http_client=client) as (reading, writing, _),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


@asynccontextmanager
async def over_stdio(program: str, **env: str) -> AsyncIterator[ClientSession]:
    """The SDK's client over stdio, and ``python -m program`` as its child."""
    server = StdioServerParameters(command=sys.executable, args=["-m", program], env=env)
    async with (
        stdio_client(server) as (reading, writing),
        ClientSession(reading, writing) as session,
    ):
        await session.initialize()
        yield session


class RawStdio:
    """A server over stdio, spoken to by hand."""

    def __init__(self, running: subprocess.Popen[bytes]) -> None:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        self.running, self._said = running, ""
        self.stdin, self.stdout, self.stderr = running.stdin, running.stdout, running.stderr

    def write(self, raw: bytes) -> None:
        """Send these bytes as a line."""
        self.stdin.write(raw + b"\n")
        self.stdin.flush()

    def read(self) -> Any:
        """The message of the next line."""
        line = self.stdout.readline()
        assert line, "the server has ended"
        return json.loads(line)

    def end(self) -> str:
        """Close its input and wait; what it wrote to standard error."""
        if not self.stdin.closed:
            self.stdin.close()
        self.running.wait()
        if not self.stderr.closed:
            self._said = self.stderr.read().decode()
            self.stderr.close()
        return self._said

    def initialize(self) -> None:
        """Greet it."""
        self.write(json.dumps(INITIALIZE).encode())
        assert self.read()["result"]["protocolVersion"]
        self.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}')


@contextmanager
def raw_stdio(
    *arguments: str, env: Mapping[str, str] | None = None, status: int = 0
) -> Iterator[RawStdio]:
    """``python`` with these arguments, as a server over stdio; it must end with ``status``."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
    ) as running:
        server = RawStdio(running)
        try:
            yield server
            said = server.end()
            assert (running.returncode, "Traceback" in said) == (status, False), said
        finally:
            running.kill()


@contextmanager
def raw_http(url: str) -> Iterator[httpx.Client]:
    """A client with a session over HTTP; bodies are written by hand."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **bearer(AGENT_TOKEN),
    }
    with httpx.Client(base_url=url.removesuffix(PATH), headers=headers) as client:
        first = client.post(PATH, json=INITIALIZE)
        client.headers["Mcp-Session-Id"] = first.headers["mcp-session-id"]
        yield client


def message_of(answer: httpx.Response) -> Any:
    """The JSON-RPC message of an answer, be it JSON or the one event of a stream."""
    if answer.headers["content-type"].startswith("application/json"):
        return answer.json()
    (line,) = (line for line in answer.text.splitlines() if line.startswith("data: "))
    return json.loads(line.removeprefix("data: "))


def text_of(result: CallToolResult) -> str:
    """The text of a result that is one block of text."""
    (block,) = result.content
    assert block.type == "text"
    return block.text


def closed_port() -> int:
    """A port of 127.0.0.1 at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
    return port
