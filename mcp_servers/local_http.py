"""An ASGI application on 127.0.0.1: the one way in which anything here listens.

A page of another site can make a browser send requests here, under a name of its own that it lets
point to this machine. So ``Host`` must be one of our two names, and ``Origin``, where there is
one, a site of this machine; each is read in one spelling only.

============================================================  ========
request                                                       answer
============================================================  ========
a target that is no path, such as ``http://other/mcp``        400
no ``Host``, several, or another than ``127.0.0.1`` or        400, 421
``localhost`` with or without a port
several ``Origin``, or another than ``http`` or ``https`` of  403
``127.0.0.1``, ``localhost`` or ``[::1]``; ``null`` too
one more than ``MAX_CONNECTIONS`` connections that are all    503
being answered
no whole head in ``PATIENCE`` seconds                         none; the
                                                              connection is closed
============================================================  ========

A connection that asks nothing keeps nobody out: where there are as many as may be, the one that
has been silent for the longest time is closed for a new one.
"""

from __future__ import annotations

import asyncio
import re
import socket
import sys

import uvicorn
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

ADDRESS = "127.0.0.1"
MAX_CONNECTIONS = 200
PATIENCE = 10.0
"""Seconds in which a connection must send a request's head; a body has as many again."""

_HOST = re.compile(rb"(?:127\.0\.0\.1|localhost)(?::([0-9]{1,5}))?", re.IGNORECASE)
_ORIGIN = re.compile(
    rb"https?://(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{1,5}))?", re.IGNORECASE
)
_MAX_PORT = 65535


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
    server_of(application).run(sockets=[listening])


def server_of(application: ASGIApp, patience: float = PATIENCE) -> uvicorn.Server:
    """The web server: quiet, without an access log, since addresses hold arguments."""

    class Connection(_Impatient):
        seconds = patience

    return uvicorn.Server(
        uvicorn.Config(
            _for_this_machine(application),
            http=Connection,
            lifespan="on",
            workers=1,  # else it reads WEB_CONCURRENCY
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            ws="none",
            limit_concurrency=MAX_CONNECTIONS + 1,  # so many are too many
            timeout_graceful_shutdown=2,
        )
    )


def _for_this_machine(application: ASGIApp) -> ASGIApp:
    """The application behind the look at where a request comes from."""

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        refusal = _refusal(scope) if scope["type"] == "http" else None
        await (refusal or application)(scope, receive, send)

    return guarded


def _refusal(scope: Scope) -> Response | None:
    """Why a request goes no further, or ``None``."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    origins = [value for name, value in scope["headers"] if name == b"origin"]
    if not scope["raw_path"].startswith(b"/"):
        return PlainTextResponse("The target of a request is a path.", 400)
    if len(hosts) != 1 or not _is(_HOST, hosts[0]):
        return PlainTextResponse("Host must be 127.0.0.1 or localhost, or that and a port.", 421)
    if len(origins) > 1 or not all(_is(_ORIGIN, origin) for origin in origins):
        return PlainTextResponse("Pages of other sites may not call this server.", 403)
    return None


def _is(form: re.Pattern[bytes], value: bytes) -> bool:
    match = form.fullmatch(value)
    return match is not None and int(match[1] or 0) <= _MAX_PORT


class _Impatient(H11Protocol):
    """uvicorn's connection, which would wait for a request's head for ever."""

    seconds: float
    _timer: asyncio.TimerHandle | None = None
    _silent_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        self._make_room()

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
        self._silent_since = self.loop.time()

    def _hang_up(self) -> None:
        """Close, unless a request is being answered; its end starts the time anew."""
        if self._is_silent():
            self.transport.close()

    def _is_silent(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _make_room(self) -> None:
        """Close the connection that has been silent for the longest time, if there are too many."""
        present = [
            one
            for one in self.connections
            if isinstance(one, _Impatient) and not one.transport.is_closing()
        ]
        silent = [one for one in present if one is not self and one._is_silent()]
        if len(present) > MAX_CONNECTIONS and silent:
            min(silent, key=lambda one: one._silent_since).transport.close()
