"""The MCP server over the course service.

``python -m mcp_servers.courses`` speaks stdio, ``… --http`` Streamable HTTP on
``http://127.0.0.1:8766/mcp``. ``LMS_URL`` and ``LMS_TOKEN`` name the service, ``AGENT_TOKEN``
and its two companions who may call over HTTP; see ``mcp_servers.config``. Over stdio standard
output carries the protocol and nothing else; logs go to standard error.
"""

from __future__ import annotations

import argparse
import logging
import sys

from mcp_servers.config import CoursesSettings, read_settings
from mcp_servers.courses.generated import build_server
from mcp_servers.courses.inbound import PATH, AgentToken, build_application
from mcp_servers.courses.local_http import bind, serve
from mcp_servers.courses.upstream import Upstream

DEFAULT_PORT = 8766


def main() -> None:
    """Serve until standard input ends, or over HTTP until a signal does."""
    parser = argparse.ArgumentParser(prog="python -m mcp_servers.courses")
    parser.add_argument("--http", action="store_true", help="Streamable HTTP instead of stdio")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="of --http; 0: any free one")
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    settings = read_settings(CoursesSettings)
    upstream = Upstream(str(settings.lms_url), settings.lms_token)
    if not options.http:
        build_server(upstream).run(transport="stdio", show_banner=False, log_level="WARNING")
        return
    if settings.agent_token is None:
        sys.stderr.write(
            "AGENT_TOKEN: needed for --http, else anybody on this machine could call\n"
        )
        sys.exit(2)
    auth = AgentToken(settings.agent_token, settings.agent_scopes, settings.agent_expires)
    serve(build_application(build_server(upstream, auth)), bind(options.port), PATH)


if __name__ == "__main__":
    main()
