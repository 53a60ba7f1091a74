"""How large the definitions of our MCP servers are: ``python -m interop.sizes``.

Each server is started, and its tools are listed by our host. Counted is JSON without blanks: what a
server lists (output schemas and annotations included), and what of that a model is sent with every
request. A token is taken for four characters, which is an estimate.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.utils.function_calling import convert_to_openai_tool

from agent.errors import McpError
from agent.mcp.host import McpHost, Surroundings
from agent.mcp.servers import ServerConfig, Stdio

SERVERS = ("orders", "research", "courses")
CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class Size:
    """Of one server: how many tools, and the characters of their definitions."""

    server: str
    tools: int
    listed: int
    sent: int

    @property
    def tokens(self) -> int:
        """Of what a model is sent."""
        return round(self.sent / CHARACTERS_A_TOKEN)

    @property
    def row(self) -> str:
        """As a row of a table."""
        counts = (self.tools, self.listed, self.sent, self.tokens)
        return " | ".join([f"| `{self.server}`", *(f"{count:,}" for count in counts)]) + " |"


async def sizes() -> list[Size]:
    """Of each of our servers.

    Raises:
        McpError: One of them cannot be used.
    """
    with tempfile.TemporaryDirectory() as folder:
        around = Surroundings(os.environ, Path(folder))
        async with McpHost([_server(name, Path(folder)) for name in SERVERS], around) as host:
            if host.complaints:
                raise McpError("\n".join(host.complaints))
            return [_size(host, name) for name in SERVERS]


def _server(name: str, folder: Path) -> ServerConfig:
    env = {"ORDER_DESK_DB": str(folder / "orders.db"), "LMS_TOKEN": secrets.token_hex(16)}
    return ServerConfig(name, Stdio(sys.executable, ("-P", "-m", f"mcp_servers.{name}"), env))


def _size(host: McpHost, name: str) -> Size:
    tools = host.server(name).tools.values()
    return Size(
        name,
        len(tools),
        sum(_characters(dict(tool.definition)) for tool in tools),
        sum(_characters(convert_to_openai_tool(tool)["function"]) for tool in tools),
    )


def _characters(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def main() -> None:
    """Print a table."""
    sys.stdout.writelines(f"{size.row}\n" for size in asyncio.run(sizes()))


if __name__ == "__main__":
    main()
