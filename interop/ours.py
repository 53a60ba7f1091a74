"""Our servers, as the programs of others reach them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.courses import LMS_TOKEN
from tests.support.served import AGENT_TOKEN, Process, process

NAMES = ("orders", "research", "courses")

READS: dict[str, tuple[str, dict[str, Any], str]] = {
    "orders": ("get_order", {"order_id": "A1"}, "Mara Lindqvist"),
    "research": ("calculator", {"expression": "6 * 7"}, "42"),
    "courses": ("get_submissions", {"assignment_id": "DB101-2"}, "submissions"),
}
"""A read of each: tool, arguments, and what its result must hold."""

WRITES: dict[str, tuple[str, dict[str, Any], str]] = {
    "orders": ("cancel_order", {"order_id": "A1", "expected_revision": 1}, "cancelled"),
    "courses": (
        "post_grade",
        {"submission_id": "S3", "points": 25, "expected_revision": 1},
        "25",
    ),
}
"""A write of each that has one."""


def command(name: str) -> list[str]:
    """What starts a server over stdio."""
    return [sys.executable, "-P", "-m", f"mcp_servers.{name}"]


@contextmanager
def surroundings(name: str, folder: Path) -> Iterator[dict[str, str]]:
    """The variables that a server needs, and for the courses the service behind it."""
    match name:
        case "orders":
            yield {"ORDER_DESK_DB": str(folder / "orders.db")}
        case "courses":
            database = str(folder / "courses.db")
            service = ("mcp_servers.courses.lms", "--port", "0")
            with process(*service, LMS_DB=database, LMS_TOKEN=LMS_TOKEN) as running:
                yield {"LMS_URL": running.url, "LMS_TOKEN": LMS_TOKEN}
        case _:
            yield {}


@contextmanager
def over_http(name: str, folder: Path) -> Iterator[Process]:
    """A server over Streamable HTTP, whose caller may read and write."""
    scopes = f"{name}:read" if name not in WRITES else f"{name}:read {name}:write"
    with ExitStack() as stack:
        env = stack.enter_context(surroundings(name, folder))
        caller = {"AGENT_TOKEN": AGENT_TOKEN, "AGENT_TOKEN_SCOPES": scopes}
        program = (f"mcp_servers.{name}", "--http", "--port", "0")
        yield stack.enter_context(process(*program, **env, **caller))
