"""A client over the next major version of the SDK, run with that SDK's Python.

``next_client.py`` reads a JSON object from standard input and prints one. Nothing of the project
is imported here.
"""

import asyncio
import json
import sys
from typing import Any

import httpx2
from fastmcp import Client as FastClient
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError


async def main(wanted: dict[str, Any]) -> dict[str, Any]:
    """Reach a server and make some calls.

    Args:
        wanted: ``mode`` (``auto``, ``legacy`` or a revision), ``calls`` (tool and arguments each),
            and ``command``, ``args``, ``env``, ``cwd`` or ``url``, ``token``.
    """
    if "url" in wanted:
        headers = {"Authorization": f"Bearer {wanted['token']}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            return await use(streamable_http_client(wanted["url"], http_client=http), wanted)
    keys = ("command", "args", "env", "cwd")
    server = StdioServerParameters(**{key: wanted[key] for key in keys})
    return await use(stdio_client(server), wanted)


async def use(transport: Any, wanted: dict[str, Any]) -> dict[str, Any]:
    """What the server is, lists and answers."""
    async with Client(transport, mode=wanted["mode"]) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        info = client.server_info
        found = {"revision": client.protocol_version, "server": info and info.name, "tools": tools}
        return found | {"results": [await called(client, *one) for one in wanted["calls"]]}


async def called(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result of a call, or the code of its error."""
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return {"code": error.error.code}
    texts = [block.text for block in result.content if block.type == "text"]
    return {
        "error": result.is_error,
        "text": "\n".join(texts),
        "structured": result.structured_content,
        "meta": result.meta,
    }


async def fast(wanted: dict[str, Any]) -> dict[str, Any]:
    """The same through the client of FastMCP 4, over HTTP."""
    async with FastClient(wanted["url"], auth=wanted["token"]) as client:
        tools = [tool.name for tool in await client.list_tools()]
        results = []
        for tool, arguments in wanted["calls"]:
            result = await client.call_tool(tool, arguments, raise_on_error=False)
            results.append({"error": result.is_error, "structured": result.structured_content})
        return {"tools": tools, "results": results}


def refusal(error: BaseException) -> MCPError | None:
    """The server's own error, in whatever groups it comes."""
    if isinstance(error, BaseExceptionGroup):
        return next(filter(None, map(refusal, error.exceptions)), None)
    return error if isinstance(error, MCPError) else None


if __name__ == "__main__":
    wanted = json.loads(sys.stdin.read())
    try:
        found = asyncio.run(fast(wanted) if wanted.get("fast") else main(wanted))
    except Exception as error:
        refused = refusal(error)
        if refused is None:
            raise
        found = {"refused": refused.error.code}
    sys.stdout.write(json.dumps(found))
