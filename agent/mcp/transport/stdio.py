"""A server that is our child process: messages on its standard input and output, a line each.

The SDK's own client keeps a line of any length and copies it with every piece that comes, takes
what has both a result and an error, leaves a request waiting whose answer cannot be read, and
does not end what the server itself has started.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.lowlevel import checkpoint
from mcp.shared.message import SessionMessage

from agent.mcp.servers import Stdio
from agent.mcp.transport.wire import (
    MAX_MESSAGE,
    TOO_LONG,
    FromUs,
    Incoming,
    Outgoing,
    SessionOver,
    ToUs,
    read_message,
)

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM"),
    *("LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
)
"""What every server gets from our environment; anything else is named in its ``env``."""

MARK = "MCP_SERVER_START"
"""A variable that a server gets from us, of a value of its own: what it starts carries it on."""

LOG_LIMIT = 1_000_000
"""Bytes of a server's log; then it is put aside and a new one is begun."""

GRACE = 2.0
"""Seconds a server gets to end by itself, and again after SIGTERM."""

LINGER = 0.5
"""Seconds in which the last words of a server are still read that has ended, or no longer reads."""

_ROUNDS = 20
"""How often it is looked for what a server has left behind, while something is found."""

_AT_ONCE = 100
"""Lines after which others have their turn, however fast a server writes what is no message."""

_CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError)


class ServerLog:
    """What a server writes beside the protocol, in a file for its owner's eyes only.

    Args:
        path: The file; its folder is made when missing.

    Attributes:
        last: The last line that says anything, of this run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.last = ""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._open()

    def write(self, data: bytes) -> None:
        """Add some bytes."""
        lines = [line.strip() for line in data.decode("utf-8", "replace").split("\n")]
        self.last = next((line for line in reversed(lines) if line), self.last)
        if self._file.tell() + len(data) > LOG_LIMIT:
            self._file.close()
            self._path.replace(self._path.with_suffix(".log.1"))
            self._open()
        self._file.write(data[-LOG_LIMIT:])
        self._file.flush()

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._file = os.fdopen(descriptor, "ab")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()


def child_environment(child: Stdio, environment: Mapping[str, str]) -> dict[str, str]:
    """The variables a server is started with: a few of ours, and those its ``env`` names."""
    inherited = {name: environment[name] for name in INHERITED if name in environment}
    return {**inherited, **child.env}


@asynccontextmanager
async def open_stdio(
    child: Stdio, environment: Mapping[str, str], log: ServerLog
) -> AsyncIterator[tuple[Incoming, Outgoing]]:
    """Start a server and speak with it; at the end it is ended, with all that it has started.

    A message that is longer than ``MAX_MESSAGE`` ends the session, since whose answer it is
    cannot be known.

    Args:
        environment: All that the server gets beside its mark; see :func:`child_environment`.

    Raises:
        OSError: It cannot be started.
    """
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_us = anyio.create_memory_object_stream[SessionMessage](0)
    mark = token_hex(16)
    async with to_us, incoming, outgoing, from_us:
        process = await anyio.open_process(
            [child.command, *child.args],
            env={**environment, MARK: mark},
            cwd=None if child.cwd is None else str(child.cwd),
            start_new_session=True,
        )
        assert process.stdin and process.stdout and process.stderr  # noqa: PT018 - pipes
        async with process, anyio.create_task_group() as tasks:
            tasks.start_soon(_read, process.stdout, to_us, log)
            tasks.start_soon(_write, process.stdin, from_us, to_us)
            tasks.start_soon(_keep, process.stderr, log)
            tasks.start_soon(_watch, process)
            try:
                yield incoming, outgoing
            finally:
                with anyio.CancelScope(shield=True):
                    await _end(process)
                    await _end_marked(mark)
                tasks.cancel_scope.cancel()


async def _read(stdout: ByteReceiveStream, to_us: ToUs, log: ServerLog) -> None:
    """Hand on whole lines; each piece is looked at once, however long the line becomes."""
    line, seen = bytearray(), 0
    async with to_us:
        with suppress(*_CLOSED):
            async for piece in stdout:
                begun, *others = piece.split(b"\n")
                line += begun
                for other in others:
                    await _hand_on(line, to_us, log)
                    line = bytearray(other)
                    seen += 1
                    if seen % _AT_ONCE == 0:
                        await checkpoint()
                if len(line) > MAX_MESSAGE:
                    await to_us.send(SessionOver(TOO_LONG))
                    return


async def _hand_on(line: bytearray, to_us: ToUs, log: ServerLog) -> None:
    if message := read_message(line):
        await to_us.send(SessionMessage(message))
    elif line:
        log.write(b"stdout: " + line[:1000] + b"\n")


async def _write(stdin: ByteSendStream, from_us: FromUs, to_us: ToUs) -> None:
    """Hand on what is sent; what comes later is not taken, so that it is known not to be sent."""
    async with from_us:
        try:
            async for message in from_us:
                text = message.message.model_dump_json(by_alias=True, exclude_none=True)
                await stdin.send(text.encode() + b"\n")
        except (OSError, *_CLOSED):
            await from_us.aclose()
            await anyio.sleep(LINGER)
            with suppress(*_CLOSED):
                await to_us.send(SessionOver("it has closed its input"))


async def _keep(stderr: ByteReceiveStream, log: ServerLog) -> None:
    with suppress(*_CLOSED):
        async for data in stderr:
            log.write(data)


async def _watch(process: Process) -> None:
    """A server that has ended is gone, also when what it has started holds its output open."""
    assert process.stdout is not None
    await process.wait()
    await anyio.sleep(LINGER)
    await process.stdout.aclose()


async def _end(process: Process) -> None:
    """Close its input, then SIGTERM, then SIGKILL; then whatever it has left behind."""
    assert process.stdin is not None
    with _started_by(process.pid) as started:
        with suppress(OSError, *_CLOSED):
            await process.stdin.aclose()
        for number in (None, signal.SIGTERM):
            if number is not None:
                _signal_group(process, number)
            with anyio.move_on_after(GRACE):
                await process.wait()
                break
        _signal_group(process, signal.SIGKILL)
        for descriptor in started:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        await process.wait()


@contextmanager
def _started_by(pid: int) -> Iterator[list[int]]:
    """What a process has started, and what that has, as descriptors, since numbers are given out
    again. Only Linux tells; elsewhere the process group is all that is known."""
    descriptors: list[int] = []
    try:
        waiting = [pid]
        while waiting:
            for children in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
                with suppress(OSError):
                    for child in map(int, children.read_text().split()):
                        waiting.append(child)
                        descriptors.append(os.pidfd_open(child))
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


async def _end_marked(mark: str) -> None:
    """End what has left its parent and its group, and carries the mark still."""
    for _ in range(_ROUNDS):  # what is ended may have started something just before
        if not _kill_marked(f"{MARK}={mark}".encode()):
            return
        await anyio.sleep(0.02)


def _kill_marked(wanted: bytes) -> bool:
    """Kill what has this in its environment; whether there was any. Only Linux tells."""
    found = [path for path in Path("/proc").glob("[0-9]*/environ") if _has(path, wanted)]
    for path in found:
        with suppress(OSError):  # it has ended by itself
            descriptor = os.pidfd_open(int(path.parent.name))
            try:
                if _has(path, wanted):  # else its number was given out again
                    signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            finally:
                os.close(descriptor)
    return bool(found)


def _has(environment: Path, wanted: bytes) -> bool:
    try:
        return wanted in environment.read_bytes().split(b"\0")
    except OSError:  # it has ended, or is not ours to read
        return False


def _signal_group(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
