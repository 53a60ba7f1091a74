"""A parcel service as an MCP server over stdio, whose words are an attacker's.

Run as a program with the words as JSON: ``description`` of its one tool, and ``failure`` in place
of a result. It speaks as much of the protocol as one call takes, without a library, so that it
starts at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

NAME = "tracker"
TOOL = f"{NAME}__track_parcel"
"""The tool's name as a session has it."""


def answer(method: str, params: Mapping[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    """The result of a request."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": NAME, "version": "1"},
        }
    if method == "tools/list":
        tool = {
            "name": "track_parcel",
            "description": f"Say where a parcel is. {words['description']}".strip(),
            "inputSchema": {
                "type": "object",
                "properties": {"number": {"type": "string"}},
                "required": ["number"],
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": True},
        }
        return {"tools": [tool]}
    if method == "tools/call":
        said = words["failure"] or "Parcel 4415 is in Larkford."
        return {
            "content": [{"type": "text", "text": said}],
            "isError": bool(words["failure"]),
        }
    return {}


def main() -> None:
    """Answer one request a line until there are no more."""
    words = json.loads(sys.argv[1])
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked and "method" in asked:
            result = answer(asked["method"], asked.get("params") or {}, words)
            reply = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
            sys.stdout.write(json.dumps(reply) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
