"""All configured MCP servers together: started at once, failing alone, closed at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from langchain_core.tools import BaseTool

from agent.errors import McpError
from agent.mcp.config import ServerConfig
from agent.mcp.connection import DEFAULT_TIMEOUTS, Connection, Link, Timeouts
from agent.mcp.tools import McpTool, make_tools


class McpHost:
    """The servers of one process, from ``async with`` to its end.

    Args:
        configs: The servers, in the order in which their tools are listed.
        environment: Where the few variables that every server inherits come from.
        log_folder: Gets one ``mcp-<server>.log`` each: what the server writes to stderr.
        timeouts: Bounds for starting a server and listing its tools.

    A server that cannot be used costs its own tools only; ``problems`` says why.
    """

    def __init__(
        self,
        configs: Sequence[ServerConfig],
        *,
        environment: Mapping[str, str],
        log_folder: Path,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        self._connections = [
            Connection(
                config,
                environment=environment,
                log=log_folder / f"mcp-{config.id}.log",
                timeouts=timeouts,
            )
            for config in configs
        ]
        self._tools: dict[str, McpTool] = {}
        self._refused: dict[str, str] = {}

    @property
    def tools(self) -> list[BaseTool]:
        """The tools of all servers that could be started, each with its ``contract``."""
        return list(self._tools.values())

    @property
    def problems(self) -> dict[str, str]:
        """Why a server cannot be used now, by server name. It may hold text of the server."""
        broken = {c.config.name: c.problem for c in self._connections if c.problem}
        return {**broken, **self._refused}

    async def __aenter__(self) -> Self:
        try:
            links = await asyncio.gather(
                *(connection.open() for connection in self._connections), return_exceptions=True
            )
            for connection, link in zip(self._connections, links, strict=True):
                await self._admit(connection, link)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    async def _admit(self, connection: Connection, link: Link | BaseException) -> None:
        """Add a server's tools; a server that does not fit beside the others is ended."""
        if isinstance(link, McpError):
            return  # the connection keeps the reason
        if isinstance(link, BaseException):
            raise link
        made = make_tools(connection, link.tools)
        objection = self._objection(connection.config, made)
        if objection:
            self._refused[connection.config.name] = objection
            await connection.close()
            return
        self._tools.update((tool.name, tool) for tool in made)

    def _objection(self, config: ServerConfig, made: Sequence[McpTool]) -> str | None:
        taken = dict(self._tools)
        for tool in made:
            other = taken.setdefault(tool.name, tool)
            if other is not tool:
                return (
                    f"its tool {tool.definition.name!r} and {other.definition.name!r} of server "
                    f"{other.connection.config.name!r} would both be called {tool.name!r}; "
                    "rename a server"
                )
        listed = sorted(tool.definition.name for tool in made)
        unknown = sorted(set(config.effects) - set(listed))
        if unknown:
            return (
                f"its configuration gives effects to {', '.join(unknown)}, which it does not "
                f"have; it has {', '.join(listed) or 'no tools'}"
            )
        return None

    async def _close(self) -> None:
        await asyncio.shield(asyncio.gather(*(c.close() for c in self._connections)))
