"""The course service as a program: ``python -m mcp_servers.courses.lms``.

It listens on ``http://127.0.0.1:8765``. ``LMS_DB`` names the gradebook, ``LMS_TOKEN`` is what
every request must carry; see ``mcp_servers.config``.
"""

from __future__ import annotations

import argparse

from mcp_servers.program import end_at_a_signal, importing, set_up_logging

DEFAULT_PORT = 8765


def main() -> None:
    """Serve until a signal ends it."""
    end_at_a_signal()
    parser = argparse.ArgumentParser(prog="python -m mcp_servers.courses.lms")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0: any free one")
    options = parser.parse_args()
    from mcp_servers.config import LmsSettings, read_settings

    settings = read_settings(LmsSettings)
    with importing():
        from mcp_servers.courses.gradebook import Gradebook
        from mcp_servers.courses.service import build_service
        from mcp_servers.local_http import bind, serve

        listening = bind(options.port)
        service = build_service(Gradebook(settings.database), settings.token)
        set_up_logging()
    serve(service, listening)


if __name__ == "__main__":
    main()
