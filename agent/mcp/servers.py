"""What is known of one MCP server before it is reached: how, from which file, how far believed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from agent.canonical import canonical_json

DEFAULT_TIMEOUT = 30.0


@dataclass(frozen=True)
class Stdio:
    """A server that is started as a child process.

    Args:
        command: The program, with variables already put in.
        args: Its arguments, likewise.
        env: Variables it gets beside the few that every child gets. Values may be secrets: they
            are not in ``repr``.
        cwd: The folder it is started in.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None


@dataclass(frozen=True)
class Http:
    """A server that is reached over the network.

    Args:
        url: Its endpoint, with variables already put in.
        headers: Sent with every request. Values may be secrets, as in ``Stdio.env``.
        sse: It speaks the transport of 2024-11-05 (HTTP with SSE), not Streamable HTTP.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    sse: bool = False


Transport = Stdio | Http
Idempotency = Literal["none", "natural", "key"]


@dataclass(frozen=True)
class Claims:
    """What a person says of one tool of a server; ``None`` where they say nothing.

    The words are those of :class:`tools.contract.Contract`.
    """

    effects: frozenset[str] | None = None
    open_world: bool | None = None
    private: bool | None = None
    idempotency: Idempotency | None = None
    timeout: float | None = None


NO_CLAIMS = Claims()


@dataclass(frozen=True)
class ServerConfig:
    """How one server is reached, and how far it is believed.

    Args:
        name: Its key in the file.
        transport: How it is reached.
        source: The file that names it.
        written: SHA-256 (hex) of what the file says about reaching it, variables not put in,
            together with the files it takes values from. See ``fingerprint``.
        trusted: The annotations of its tools are believed. A tool of any other server is a write.
        timeout: Seconds one call may take.
        claims: What a person says of single tools, by the server's own tool names; wins over
            annotations.
    """

    name: str
    transport: Transport
    source: Path = Path()
    written: str = ""
    trusted: bool = False
    timeout: float = DEFAULT_TIMEOUT
    claims: Mapping[str, Claims] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name in characters that tool names, effects and file names may have."""
        return re.sub(r"[^a-zA-Z0-9_-]", "_", self.name)

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of what a person confirms: the exact command or address.

        Values of variables and headers count as they are written, so that a token may be
        renewed; what is put into the command, its arguments, folder or address counts whole.
        """
        match self.transport:
            case Stdio() as child:
                exact: object = [child.command, *child.args, str(child.cwd), *sorted(child.env)]
            case Http() as remote:
                exact = [remote.url, remote.sse, *sorted(remote.headers)]
        return hashlib.sha256(canonical_json([self.written, exact]).encode()).hexdigest()

    def claims_for(self, tool: str) -> Claims:
        """What a person says of a tool, by the server's own name for it."""
        return self.claims.get(tool, NO_CLAIMS)
