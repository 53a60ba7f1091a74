"""The MCP server over the course service.

``python -m mcp_servers.courses`` speaks stdio, ``… --http`` Streamable HTTP on
``http://127.0.0.1:8766/mcp``. ``LMS_URL`` and ``LMS_TOKEN`` name the service, ``AGENT_TOKEN``
and its companions who may call over HTTP; see ``mcp_servers.config``.
"""

from __future__ import annotations

from mcp_servers.config import CoursesSettings
from mcp_servers.courses.generated import offer
from mcp_servers.courses.upstream import Upstream
from mcp_servers.program import run

DEFAULT_PORT = 8766


def main() -> None:
    """Serve as the command line says."""
    run(
        "mcp_servers.courses",
        CoursesSettings,
        lambda settings: offer(Upstream(str(settings.lms_url), settings.lms_token)),
        DEFAULT_PORT,
    )


if __name__ == "__main__":
    main()
