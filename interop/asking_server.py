"""A server over the next major version of the SDK that asks its host for what it never offered.

It is run with that SDK's Python; nothing of the project is imported here.
"""

from typing import Any

import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError

server = MCPServer("asking")


@server.tool()
async def ask(ctx: Context[Any]) -> str:
    """Ask for the host's folders and for a model's answer; say what came of it."""
    asked = {"role": "user", "content": {"type": "text", "text": "hi"}}
    params = types.CreateMessageRequestParams.model_validate({"messages": [asked], "maxTokens": 5})
    requests: list[tuple[Any, Any]] = [
        (types.ListRootsRequest(), types.ListRootsResult),
        (types.CreateMessageRequest(params=params), types.CreateMessageResult),
    ]
    said = []
    for request, kind in requests:
        try:
            said.append(str(await ctx.session.send_request(request, kind)))
        except MCPError as error:
            said.append(f"{request.method}: {error.error.code} {error.error.message}")
    return "\n".join(said)


server.run()
