"""The command line of an MCP server: stdio, or Streamable HTTP with ``--http``."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable
from typing import TypeVar

from anyio import ClosedResourceError

from mcp_servers.config import CallerSettings, read_settings
from mcp_servers.inbound import PATH, AgentToken, build_application
from mcp_servers.local_http import bind, serve
from mcp_servers.messages import Gate
from mcp_servers.rate_limit import RateLimit
from mcp_servers.serving import Offer
from mcp_servers.stdio import serve_stdio

S = TypeVar("S", bound=CallerSettings)


def run(program: str, kind: type[S], offer_of: Callable[[S], Offer], port: int) -> None:
    """Serve an offer as its settings and the command line say, until it is told to end.

    Over stdio standard output carries the protocol and nothing else; logs go to standard error.

    Args:
        program: The module that is run, such as ``mcp_servers.orders``.
        port: Where ``--http`` listens unless told otherwise.

    Raises:
        SystemExit: Settings that cannot work (2), a port that is taken (1).
    """
    parser = argparse.ArgumentParser(prog=f"python -m {program}")
    parser.add_argument("--http", action="store_true", help="Streamable HTTP instead of stdio")
    parser.add_argument("--port", type=int, default=port, help="of --http; 0: any free one")
    options = parser.parse_args()
    _set_up_logging()
    settings = read_settings(kind)
    offer = offer_of(settings)
    if not options.http:
        serve_stdio(offer.server(), Gate(offer.scopes))
        return
    if settings.agent_token is None:
        sys.stderr.write(
            "AGENT_TOKEN: needed for --http, else anybody on this machine could call\n"
        )
        sys.exit(2)
    token = AgentToken(
        offer.name, settings.agent_token, settings.agent_scopes, settings.agent_expires
    )
    limit = RateLimit(settings.requests_per_minute)
    serve(build_application(offer, token, limit), bind(options.port), PATH)


def _set_up_logging() -> None:
    """Warnings to standard error, and not what every client that leaves would cause."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("fastmcp").setLevel(logging.WARNING)  # it has a handler of its own
    logging.getLogger("mcp.server.streamable_http").addFilter(_is_no_farewell)


def _is_no_farewell(record: logging.LogRecord) -> bool:
    """The SDK logs a traceback when a session ends whose client had its stream open."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, ClosedResourceError)
