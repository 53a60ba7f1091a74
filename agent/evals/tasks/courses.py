"""The bundled course service behind its MCP server: two programs on free ports of this machine.

They are started once for a world, since a start takes seconds; a reset puts the sample records
back into the database that they have open.
"""

from __future__ import annotations

import secrets
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import httpx

from agent.config import process_environment
from agent.errors import SaysoError
from agent.mcp.servers import Http, ServerConfig

NAME = "courses"
DATABASE = "courses.db"
SCOPES = "courses:read courses:write"

_HANDED_ON = frozenset({"PATH", "HOME", "TMPDIR", "LANG"})

_ENDS_WITH_US = """
import os, runpy, sys, threading
threading.Thread(target=lambda: (sys.stdin.buffer.read(), os._exit(0)), daemon=True).start()
module = sys.argv.pop(1)
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""A program that ends when its standard input does: with this process, however that ends."""


class Courses:
    """The service and the server, with sample records.

    Args:
        folder: For their database and what is written about the server.

    Raises:
        SaysoError: One of them did not start.
        httpx.HTTPError: The service does not answer; its sample records appear with the first
            request.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs: list[subprocess.Popen[str]] = []
        agent, lms = secrets.token_hex(16), secrets.token_hex(16)
        environment = {"LMS_DB": str(self._database), "LMS_TOKEN": lms}
        try:
            service = self._start("mcp_servers.courses.lms", "--port", "0", env=environment)
            environment = {
                "LMS_URL": service,
                "LMS_TOKEN": lms,
                "AGENT_TOKEN": agent,
                "AGENT_TOKEN_SCOPES": SCOPES,
                "MAX_REQUESTS_PER_MINUTE": "100000",
            }
            url = self._start("mcp_servers.courses", "--http", "--port", "0", env=environment)
            bearer = {"Authorization": f"Bearer {lms}"}
            httpx.get(f"{service}/assignments", headers=bearer).raise_for_status()
        except BaseException:
            self.close()
            raise
        headers = {"Authorization": f"Bearer {agent}"}
        self.config = ServerConfig(NAME, Http(url, headers), folder / "mcp.json", trusted=True)

    @property
    def _database(self) -> Path:
        return self._folder / DATABASE

    def put_back(self, fresh: Path) -> None:
        """Put records back that ``keep`` has kept, into the database that is open."""
        _copy(fresh / DATABASE, self._database)

    def keep(self, folder: Path) -> None:
        """A copy of the records as they are now."""
        _copy(self._database, folder / DATABASE)

    def close(self) -> None:
        """End both."""
        for program in reversed(self._programs):
            program.kill()
            program.communicate()

    def _start(self, *arguments: str, env: Mapping[str, str]) -> str:
        """Start a program, and wait until it says where it listens."""
        ours = process_environment()
        environment = {name: value for name, value in ours.items() if name in _HANDED_ON}
        environment |= env
        program: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-P", "-c", _ENDS_WITH_US, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._programs.append(program)
        assert program.stderr is not None
        said = []
        for line in program.stderr:
            said.append(line)
            if line.startswith("Listening on "):
                threading.Thread(target=program.stderr.read, daemon=True).start()
                return line.split()[-1]
        raise SaysoError(f"{arguments[0]} did not start: {''.join(said)[-500:]}")


def _copy(source: Path, target: Path) -> None:
    """A database as a whole, also into one that is in use."""
    with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
        one.backup(other)
