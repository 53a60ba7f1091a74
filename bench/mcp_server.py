"""A small MCP server over stdio for ``bench.mcp``; of the standard library, so it starts at once.

``python mcp_server.py [SECONDS]`` waits so long before it greets, as a server does that connects
to something. Its one tool, ``read``, answers with 2 kB.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

TEXT = "x" * 2000
TOOL = {
    "name": "read",
    "description": "Answer with 2 kB.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bench", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": [TOOL]}
    return {"content": [{"type": "text", "text": TEXT}]}


def main() -> None:
    """Serve until standard input ends."""
    time.sleep(float(sys.argv[1]) if len(sys.argv) > 1 else 0)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params") or {})
            sys.stdout.write(
                json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
