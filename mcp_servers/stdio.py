"""A server over standard input and output: a message a line, and nothing else.

The SDK's stdio transport does the rest; here is what it leaves open:

* Lines go through the gate first, and what it refuses is answered here.
* While the server runs, the two streams are its own. What a tool prints goes to standard error,
  and a process that a tool starts inherits neither.
* The end of the input, SIGTERM and Ctrl-C all mean: take nothing more, answer what is running,
  end. A second signal ends it at once, and so does a call that takes longer than ``SETTLING``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, TypeVar, cast

from fastmcp import FastMCP
from mcp.server.stdio import stdio_server

from mcp_servers.messages import INVALID_REQUEST, MAX_MESSAGE, Gate, Message, Refused

SETTLING = 15.0
"""Seconds that calls have at the end; beyond them the status is 1."""

T = TypeVar("T")


def serve_stdio(server: FastMCP, gate: Gate) -> None:
    """Serve until the input ends or a signal comes.

    Raises:
        SystemExit: One of the streams is closed; status 2, with a line that says so.
    """
    asyncio.run(_serve(server, gate, *_take_streams()))


async def _serve(server: FastMCP, gate: Gate, source: BinaryIO, sink: int) -> None:
    loop = asyncio.get_running_loop()
    lines = _Lines(gate, source, sink)
    try:
        async with asyncio.timeout(None) as limit:
            lines.when_ending(lambda: limit.reschedule(loop.time() + SETTLING))
            with _stopping_on_signals(lines.stop):
                await _run(server, lines)
    except TimeoutError:
        sys.stderr.write("Ended while a call was still running.\n")
        sys.stderr.flush()
        os._exit(1)  # any other way would wait for its thread


async def _run(server: FastMCP, lines: _Lines) -> None:
    """What FastMCP's own runner does, but for its banner; that one takes no streams."""
    async with (
        server._lifespan_manager(),
        stdio_server(stdin=cast(Any, lines), stdout=cast(Any, lines)) as (reading, writing),
    ):
        low = server._mcp_server
        await low.run(reading, writing, low.create_initialization_options())


def _take_streams() -> tuple[BinaryIO, int]:
    """The protocol's input and output, on descriptors that nobody else knows."""
    try:
        source, sink = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
    except OSError as error:
        sys.stderr.write(f"Standard input, output and error are all needed: {error.strerror}\n")
        raise SystemExit(2) from None
    os.close(nothing)
    sys.stdout = sys.stderr
    return os.fdopen(source, "rb"), sink


@contextmanager
def _stopping_on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Inside, the first SIGTERM or SIGINT calls ``stop``; any other ends the process at once."""
    loop = asyncio.get_running_loop()

    def first() -> None:
        stop()
        no_more()

    def no_more() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    with suppress(NotImplementedError):  # Windows, where they end the process at once
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, first)
    try:
        yield
    finally:
        with suppress(NotImplementedError):
            no_more()


class _Lines:
    """Input and output as the SDK wants them: iterated for lines, written to by lines."""

    def __init__(self, gate: Gate, source: BinaryIO, sink: int) -> None:
        self._gate, self._source, self._sink = gate, source, sink
        self._greeted = False
        self._running: set[str | int] = set()
        self._settled = asyncio.Event()
        self._settled.set()
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._writing = asyncio.Lock()

    def when_ending(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` once, when no further message is taken."""
        self._stopped.add_done_callback(lambda _: tell())

    def stop(self) -> None:
        """Take no further message."""
        if not self._stopped.done():
            self._stopped.set_result(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        """The messages for the SDK; ends when there are no more, and all are answered."""
        while line := await self._next_line():
            message = None if line.isspace() else await self._admitted(line)
            if message is not None:
                yield json.dumps(message)
        self.stop()
        await self._settled.wait()

    async def write(self, line: str) -> None:
        """Write a message of the SDK's."""
        message = json.loads(line)
        if "method" not in message:  # who has read the answer may use its id again
            self._running.discard(message.get("id"))
        await self._send(line)
        if not self._running:
            self._settled.set()

    async def flush(self) -> None:
        """Nothing is held back."""

    async def _next_line(self) -> bytes:
        """The next line with its end, or nothing when it is time to stop."""
        line = _in_daemon(lambda: _read_line(self._source))
        try:
            await asyncio.wait((line, self._stopped), return_when=asyncio.FIRST_COMPLETED)
            return b"" if self._stopped.done() else line.result()
        finally:
            line.cancel()

    async def _admitted(self, line: bytes) -> Message | None:
        """The message of a line; one that is refused is answered."""
        try:
            message = self._gate.admit(line.rstrip(b"\r\n"))
            if message is not None and "id" in message:
                self._begin(message["id"], message["method"])
        except Refused as refusal:
            await self._send(json.dumps(refusal.answer) + "\n")
            return None
        return message

    def _begin(self, id: str | int, method: str) -> None:
        if not self._greeted and method not in ("initialize", "ping"):
            raise Refused(INVALID_REQUEST, "The first request must be initialize.", id)
        if id in self._running:
            # Without the id: it would be taken for the answer to the other request.
            raise Refused(INVALID_REQUEST, f"A request with the id {id!r} is still running.")
        self._greeted |= method == "initialize"
        self._running.add(id)
        self._settled.clear()

    async def _send(self, line: str) -> None:
        async with self._writing:
            try:
                await _in_daemon(lambda: _write_all(self._sink, line.encode()))
            except OSError:  # nobody reads any more
                self.stop()


def _read_line(source: BinaryIO) -> bytes:
    """A line with its end; of one that is too long, no more than shows it. Empty: the end."""
    with suppress(OSError):
        part = line = source.readline(MAX_MESSAGE + 1)
        while len(line) > MAX_MESSAGE and part and not part.endswith(b"\n"):
            part = source.readline(MAX_MESSAGE)
        return line
    return b""


def _write_all(sink: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(sink, rest) :]


def _in_daemon(function: Callable[[], T]) -> asyncio.Future[T]:
    """Run what may wait for ever in a thread that does not keep the process from ending."""
    future: concurrent.futures.Future[T] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()

    def work() -> None:
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return asyncio.wrap_future(future)
