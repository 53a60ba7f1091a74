"""The command line of an MCP server: stdio, or Streamable HTTP with ``--http``.

What is quick and may be wrong comes first: arguments, settings, the port. FastMCP, which takes
most of a second to import, comes last.
"""

from __future__ import annotations

import argparse
import gc
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from mcp_servers.config import CallerSettings
    from mcp_servers.serving import Offer

S = TypeVar("S", bound="CallerSettings")


def run(
    program: str, settings_of: Callable[[], S], offer_of: Callable[[S], Offer], port: int
) -> None:
    """Serve an offer as its settings and the command line say, until it is told to end.

    Over stdio standard output carries the protocol and nothing else; logs go to standard error.

    Args:
        program: The module that is run, such as ``mcp_servers.orders``.
        settings_of: Reads the settings; imports what it needs for that when it is called.
        offer_of: Makes the offer; so does this.
        port: Where ``--http`` listens unless told otherwise.

    Raises:
        SystemExit: Settings that cannot work (2), a port that is taken (1).
    """
    end_at_a_signal()
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--http", action="store_true", help="Streamable HTTP instead of stdio")
    parser.add_argument("--port", type=int, default=port, help="of --http; 0: any free one")
    options = parser.parse_args()
    settings = settings_of()
    from mcp_servers.config import shut_out_fastmcp_settings

    shut_out_fastmcp_settings()
    if options.http:
        _serve_http(settings, offer_of, options.port)
    else:
        _serve_stdio(settings, offer_of)


def end_at_a_signal() -> None:
    """Let SIGINT end the process as SIGTERM does: at once, and without a traceback.

    For the time in which nothing is served: later, serving has its own way to end.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def importing() -> Iterator[None]:
    """Keep the garbage collector from what is made inside: modules, which stay until the end.

    It would look through them several times while they are imported, and once more at the end.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def set_up_logging() -> None:
    """Warnings to standard error, and nothing of what every client that leaves would cause.

    To be called after FastMCP was imported, which sets a level of its own.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("fastmcp").setLevel(logging.WARNING)  # it has a handler of its own
    for name in ("mcp.server.streamable_http", "uvicorn.error"):
        logging.getLogger(name).addFilter(_is_no_farewell)


def _is_no_farewell(record: logging.LogRecord) -> bool:
    """No traceback where a client left with its stream open, or the server with a request open."""
    from asyncio import CancelledError

    from anyio import ClosedResourceError

    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, ClosedResourceError | CancelledError)


def _serve_stdio(settings: S, offer_of: Callable[[S], Offer]) -> None:
    with importing():
        from mcp_servers.messages import Gate
        from mcp_servers.stdio import serve_stdio

        offer = offer_of(settings)
        server = offer.server()
        set_up_logging()
    serve_stdio(server, Gate(offer.scopes))


def _serve_http(settings: S, offer_of: Callable[[S], Offer], port: int) -> None:
    if settings.agent_token is None:
        sys.stderr.write(
            "AGENT_TOKEN: needed for --http, else anybody on this machine could call\n"
        )
        sys.exit(2)
    from mcp_servers.local_http import bind, serve

    listening = bind(port)
    with importing():
        from mcp_servers.inbound import PATH, AgentToken, build_application
        from mcp_servers.rate_limit import RateLimit

        offer = offer_of(settings)
        token = AgentToken(
            offer.name, settings.agent_token, settings.agent_scopes, settings.agent_expires
        )
        application = build_application(offer, token, RateLimit(settings.requests_per_minute))
        set_up_logging()
    serve(application, listening, PATH)
