"""An MCP server of ours whose tools write where they should not, or wait to be told to go on.

``python chatty_server.py [SETTLING]``; the seconds that calls have at the end.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from pydantic import BaseModel, ConfigDict

from mcp_servers import stdio
from mcp_servers.messages import Gate
from mcp_servers.serving import offer_tools
from tools.contract import Contract, PlainTool


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Port(BaseModel):
    port: int


def chatter() -> str:
    """Write to standard output in every way there is, and read from standard input."""
    print("printed")
    sys.stdout.write("no end of line")
    os.write(1, b"written to the descriptor\n")
    child = "import sys; print('by a child:', repr(sys.stdin.read()))"
    subprocess.run([sys.executable, "-c", child], check=True)
    try:
        return f"read {input()}"
    except EOFError:
        return "nothing to read"


def wait(port: int) -> str:
    """Tell the port that it runs, and go on when it answers."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(b"runs")
        return f"told {line.recv(100).decode()}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        stdio.SETTLING = float(sys.argv[1])
    reads = Contract(effects=frozenset({"read:nothing"}))
    tools = [
        PlainTool(chatter, args=Nothing, contract=reads),
        PlainTool(wait, args=Port, contract=reads),
    ]
    offer = offer_tools("chatty", "", tools)
    stdio.serve_stdio(offer.server(), Gate(offer.scopes))
