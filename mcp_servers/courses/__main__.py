"""The MCP server over the course service.

``python -m mcp_servers.courses`` speaks stdio, ``… --http`` Streamable HTTP on
``http://127.0.0.1:8766/mcp``. ``LMS_URL`` and ``LMS_TOKEN`` name the service, ``AGENT_TOKEN``
and its companions who may call over HTTP; see ``mcp_servers.config``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_servers.program import run

if TYPE_CHECKING:
    from mcp_servers.config import CoursesSettings
    from mcp_servers.serving import Offer

DEFAULT_PORT = 8766


def main() -> None:
    """Serve as the command line says."""
    run("mcp_servers.courses", _settings, _offer, DEFAULT_PORT)


def _settings() -> CoursesSettings:
    from mcp_servers.config import CoursesSettings, read_settings

    return read_settings(CoursesSettings)


def _offer(settings: CoursesSettings) -> Offer:
    from mcp_servers.courses.generated import offer
    from mcp_servers.courses.upstream import Upstream

    return offer(Upstream(str(settings.lms_url), settings.lms_token))


if __name__ == "__main__":
    main()
