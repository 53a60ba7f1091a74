"""An ASGI application on 127.0.0.1: the one way in which anything here listens."""

from __future__ import annotations

import socket
import sys

import uvicorn
from starlette.types import ASGIApp

ADDRESS = "127.0.0.1"


def bind(port: int) -> socket.socket:
    """A listening socket on the loopback address; port 0 takes a free one.

    Raises:
        SystemExit: The port is taken; status 1, with a line that says so.
    """
    try:
        return socket.create_server((ADDRESS, port))
    except OSError as error:
        sys.stderr.write(f"{ADDRESS}:{port} cannot be used: {error.strerror}. Try --port.\n")
        raise SystemExit(1) from None


def serve(application: ASGIApp, listening: socket.socket, path: str = "") -> None:
    """Say on standard error where it is, and serve until SIGINT or SIGTERM."""
    sys.stderr.write(f"Listening on http://{ADDRESS}:{listening.getsockname()[1]}{path}\n")
    sys.stderr.flush()
    server_of(application).run(sockets=[listening])


def server_of(application: ASGIApp) -> uvicorn.Server:
    """The web server: quiet, without an access log, since addresses hold arguments."""
    return uvicorn.Server(
        uvicorn.Config(
            application,
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            ws="none",
            timeout_graceful_shutdown=2,
        )
    )
