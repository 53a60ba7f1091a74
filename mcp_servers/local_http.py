"""An ASGI application on 127.0.0.1: the one way in which anything here listens.

Connections are few and impatient: one that sends no whole request head in time is closed, and
beyond ``MAX_CONNECTIONS`` a request gets a 503.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

ADDRESS = "127.0.0.1"
MAX_CONNECTIONS = 200
PATIENCE = 10.0
"""Seconds in which a connection must send a request's head; a body has as many again."""


def bind(port: int) -> socket.socket:
    """A listening socket on the loopback address; port 0 takes a free one.

    Raises:
        SystemExit: The port is taken; status 1, with a line that says so.
    """
    try:
        listening = socket.create_server((ADDRESS, port))
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else "there is no such port"
        sys.stderr.write(f"{ADDRESS}:{port} cannot be used: {reason}. Try --port.\n")
        raise SystemExit(1) from None
    # asyncio does this only to sockets that it makes itself: else an answer in two parts waits
    # 40 ms for the client's acknowledgement of the first.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def serve(application: ASGIApp, listening: socket.socket, path: str = "") -> None:
    """Say on standard error where it is, and serve until SIGINT or SIGTERM."""
    sys.stderr.write(f"Listening on http://{ADDRESS}:{listening.getsockname()[1]}{path}\n")
    sys.stderr.flush()
    with suppress(KeyboardInterrupt):  # raised anew by uvicorn, after it has shut down
        server_of(application).run(sockets=[listening])


def server_of(application: ASGIApp, patience: float = PATIENCE) -> uvicorn.Server:
    """The web server: quiet, without an access log, since addresses hold arguments."""

    class Connection(_Impatient):
        seconds = patience

    return uvicorn.Server(
        uvicorn.Config(
            application,
            http=Connection,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=2,
        )
    )


class _Impatient(H11Protocol):
    """uvicorn's connection, which would wait for a request's head for ever."""

    seconds: float
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer:
            self._timer.cancel()

    def _wait(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = self.loop.call_later(self.seconds, self._hang_up)

    def _hang_up(self) -> None:
        """Close, unless a request is being answered; its end starts the time anew."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
