"""All configured MCP servers together: opened when needed, failing alone, closed at once.

A server whose definitions are pinned is not opened for its tools: they are known. It is opened by
the first call, or beforehand by :meth:`McpHost.warm`; what it then lists is compared with the
pins. A tool that is not what was pinned is held: it is not offered, and a call of it is not sent.
"""

from __future__ import annotations

import asyncio
import hashlib
import shlex
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from langchain_core.tools import BaseTool

from agent.errors import McpError, NotFound, SaysoError
from agent.mcp.connection import Connection, Reports
from agent.mcp.definitions import Definition, ListingError, look_at
from agent.mcp.link import Link
from agent.mcp.offers import (
    Prompt,
    Resource,
    filled,
    get_prompt,
    list_prompts,
    list_resources,
    read_resource,
)
from agent.mcp.pins import Change, Pins, compare
from agent.mcp.questions import Ask, UnderWay
from agent.mcp.servers import ServerConfig
from agent.mcp.timeouts import DEFAULT_TIMEOUTS, Timeouts
from agent.mcp.tools import McpTool, make_tool
from agent.mcp.waiting import Waiting

MAX_TOLD = 10
"""How many tools of a server are named in what is told about it."""


@dataclass(frozen=True)
class Surroundings:
    """What a host works with beside its servers; by default it is alone.

    Args:
        environment: Where the few variables that every child process inherits come from.
        log_folder: Gets one ``mcp-<server>.log`` each: what a child writes beside the protocol.
        timeouts: Bounds for opening a server and listing its tools.
        pins: What a person has confirmed. Without it, what a server lists first counts.
        by: Who is said to have confirmed a server that is pinned here for the first time.
        ask: Answers a question that a server asks the person during a call.
        tell: Gets a sentence about a server, when something about it has changed.
        log: Gets what a server logs: its name, level, logger, data and the call under way.
        auth: Gives what signs the requests to a server on the network.
        waiting: Shows which servers the start waits for, and ends that.
    """

    environment: Mapping[str, str]
    log_folder: Path
    timeouts: Timeouts = DEFAULT_TIMEOUTS
    pins: Pins | None = None
    by: str = ""
    ask: Ask | None = None
    tell: Callable[[str], None] = lambda sentence: None
    log: Callable[[str, str, str, Any, UnderWay | None], None] = lambda *said: None
    auth: Callable[[ServerConfig], httpx.Auth | None] = lambda server: None
    waiting: Waiting = field(default_factory=Waiting)


@dataclass
class Server:
    """One server of a host.

    Attributes:
        tools: What is offered of it, by the names that the model uses.
        refused: Why single tools are not, by the server's own names.
        objection: Why the server is not used at all.
        changes: How what it lists differs from what was pinned.
        prompts: Its prompts, as far as they were asked for.
        noted: The tools that were held when it was last listed, while it was not listed here.
        is_late: The start went on without it, and it is still being opened.
    """

    connection: Connection
    tools: dict[str, McpTool] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    objection: str | None = None
    changes: list[Change] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    noted: set[str] = field(default_factory=set)
    is_late: bool = False

    @property
    def config(self) -> ServerConfig:
        """How it is reached."""
        return self.connection.config

    @property
    def problem(self) -> str | None:
        """Why it cannot be used now."""
        late = "it has not answered yet, and is left out until it does" if self.is_late else None
        return self.objection or self.connection.problem or late

    @property
    def state(self) -> str:
        """How it stands, in a few words."""
        if self.problem:
            return self.problem
        return "ready" if self.connection.link is not None else "not reached yet"

    @property
    def version(self) -> str:
        """Names the exact definitions of all tools that are offered of it, as hex digits."""
        versions = sorted(f"{name} {tool.contract.version}" for name, tool in self.tools.items())
        return hashlib.sha256("\n".join(versions).encode()).hexdigest()

    @property
    def held(self) -> set[str]:
        """Its own names of tools that are not what was pinned, or not there any more: when it was
        last listed, here or before."""
        return self.noted | {change.tool for change in self.changes if change.kind != "new"}

    @property
    def complaints(self) -> list[str]:
        """A sentence for everything of it that cannot be used. May hold text of the server."""
        said = [self.problem] if self.problem else []
        refused = list(self.refused.items())
        said += [f"its tool {name!r} is not offered: {why}" for name, why in refused[:MAX_TOLD]]
        if len(refused) > MAX_TOLD:
            said.append(f"{len(refused) - MAX_TOLD} more of its tools are not offered")
        if self.changes:
            said.append(_told(self.config.name, self.changes))
        return said


class McpHost:
    """The servers of one process, from ``async with`` to its end.

    Args:
        configs: The servers, in the order in which their tools are listed. Each was confirmed.

    A server that cannot be used costs its own tools only; ``complaints`` says why.
    """

    def __init__(self, configs: Sequence[ServerConfig], around: Surroundings) -> None:
        self._around = around
        self._servers = {config.name: Server(self._connect(config)) for config in configs}
        self._beside: set[asyncio.Task[None]] = set()

    def _connect(self, config: ServerConfig) -> Connection:
        around = self._around
        return Connection(
            config,
            environment=around.environment,
            log=around.log_folder / f"mcp-{config.id}.log",
            timeouts=around.timeouts,
            reports=Reports(
                listed=lambda link: self._listed(config.name, link),
                logged=lambda *said: around.log(config.name, *said),
                asked=around.ask,
            ),
            auth=around.auth(config),
        )

    @property
    def servers(self) -> list[Server]:
        """All of them, in their order."""
        return list(self._servers.values())

    @property
    def tools(self) -> list[BaseTool]:
        """The tools that can be offered, each with its ``contract``."""
        return [
            tool
            for server in self.servers
            for tool in server.tools.values()
            if tool.definition["name"] not in server.held
        ]

    @property
    def problems(self) -> dict[str, str]:
        """Why a server cannot be used now, by server name. It may hold text of the server."""
        return {s.config.name: s.problem for s in self.servers if s.problem}

    @property
    def complaints(self) -> list[str]:
        """Everything that cannot be used, a sentence each, beginning with its server."""
        return [
            f"MCP server {server.config.name}: {said}"
            for server in self.servers
            for said in server.complaints
        ]

    def server(self, name: str) -> Server:
        """One server.

        Raises:
            NotFound: There is none of that name.
        """
        if name not in self._servers:
            raise NotFound("MCP server", name, tuple(self._servers), "sayso mcp list shows them.")
        return self._servers[name]

    async def __aenter__(self) -> Self:
        try:
            pinned = {name: self._pinned(server) for name, server in self._servers.items()}
            opening = {
                name: asyncio.ensure_future(_opened(self._servers[name]))
                for name, known in pinned.items()
                if known is None
            }
            await self._around.waiting.until_opened(opening)
            for name, server in self._servers.items():
                task = opening.get(name)
                if task is None or task.done():
                    await self._admit(server, pinned[name], task.result() if task else None)
                else:
                    server.is_late = True
                    self._keep(self._admit_late(server, task))
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

    # --- resources and prompts ---------------------------------------------------------------

    async def resources(self, server: str) -> list[Resource]:
        """What a server offers to read.

        Raises:
            NotFound, McpError: There is no such server, or it cannot say.
        """
        return await list_resources(self.server(server).connection)

    async def read(self, server: str, uri: str) -> str:
        """The text of a resource.

        Raises:
            NotFound, McpError: There is no such server or resource.
        """
        return await read_resource(self.server(server).connection, uri)

    async def prompts(self, server: str) -> list[Prompt]:
        """The prompts of a server; they are remembered, for completion.

        Raises:
            NotFound, McpError: There is no such server, or it cannot say.
        """
        found = self.server(server)
        found.prompts = await list_prompts(found.connection)
        return found.prompts

    async def prompt(self, server: str, name: str, words: Sequence[str]) -> str:
        """The text of a prompt.

        Args:
            words: What a person typed behind its name; see :func:`agent.mcp.offers.filled`.

        Raises:
            NotFound, McpError: There is no such server or prompt, or its arguments do not fit.
        """
        found = {prompt.name: prompt for prompt in await self.prompts(server)}
        if name not in found:
            raise NotFound("prompt", name, tuple(found), f"/mcp prompts {server} shows them.")
        try:
            arguments = filled(found[name], words)
        except ValueError as error:
            raise McpError(str(error)) from error
        return await get_prompt(self.server(server).connection, name, arguments)

    def warm(self) -> None:
        """Begin to open the servers that are not open; what is wrong with one is told."""
        for server in self.servers:
            if server.connection.link is None and server.problem is None:
                self._keep(self._warm(server))

    async def _warm(self, server: Server) -> None:
        try:
            await server.connection.open()
            await self.prompts(server.config.name)
        except McpError as error:
            self._around.tell(f"MCP server {server.config.name}: {error}")

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside what the host is used for; it ends with the host."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    # --- admission -------------------------------------------------------------------------

    def _pinned(self, server: Server) -> Mapping[str, Definition] | None:
        return self._around.pins.definitions(server.config) if self._around.pins else None

    async def _admit(
        self,
        server: Server,
        pinned: Mapping[str, Definition] | None,
        link: Link | McpError | None,
    ) -> None:
        """Offer a server's tools; one that does not fit beside the others is ended."""
        if isinstance(link, McpError):
            return  # the connection keeps the reason
        if link is not None:
            server.refused |= link.faults
            by, tools = self._around.by, link.tools.values()
            self._record(server, lambda pins: pins.pin(server.config, tools, by, first=True))
            pinned = self._pinned(server)  # perhaps by another process, that was told otherwise
            if pinned is not None:
                self._compare(server, pinned, link)
        elif self._around.pins is not None:
            server.noted = set(self._around.pins.held(server.config))
        definitions = link.tools if link is not None else _usable(server, pinned or {})
        server.objection = server.objection or _unknown_claims(server.config, definitions)
        if server.objection is None:
            self._offer(server, definitions.values())
        else:
            await server.connection.close()

    async def _admit_late(self, server: Server, opening: asyncio.Future[Link | McpError]) -> None:
        """Offer the tools of a server that the start went on without, and say so."""
        link = await opening
        server.is_late = False
        await self._admit(server, self._pinned(server), link)
        ready = f"it is ready now, and a new session has its {len(server.tools)} tool(s)"
        for sentence in server.complaints or [ready]:
            self._around.tell(f"MCP server {server.config.name}: {sentence}")

    def _offer(self, server: Server, definitions: Iterable[Definition]) -> None:
        """Make the tools; of two that would have one name, those within a server fall both."""
        others = {
            name: f"{tool.definition['name']!r} of server {other.config.name!r}"
            for other in self.servers
            if other is not server
            for name, tool in other.tools.items()
        }
        own: dict[str, list[McpTool]] = {}
        for tool in (make_tool(server.connection, definition) for definition in definitions):
            own.setdefault(tool.name, []).append(tool)
        for name, made in own.items():
            originals = [tool.definition["name"] for tool in made]
            rivals = [repr(original) for original in originals]
            if len(made) == 1 and name not in others:
                server.tools[name] = made[0]
                continue
            if name in others:
                rivals.append(others[name])
            why = f"{_some(rivals, ' and ')} would both be called {name!r}"
            server.refused |= dict.fromkeys(originals, why)

    def _listed(self, name: str, link: Link) -> None:
        """A server was opened, or has said that its tools changed."""
        server = self._servers[name]
        known = self._pinned(server)
        if known is None:
            known = {tool.definition["name"]: tool.definition for tool in server.tools.values()}
            if not known:
                return  # it is being admitted
        self._compare(server, known, link)

    def _compare(self, server: Server, known: Mapping[str, Definition], link: Link) -> None:
        """Hold what is not as it was pinned, and say so when that is news."""
        name = server.config.name
        server.noted = set()
        changes = compare(known, {**link.tools})
        if changes != server.changes:
            server.changes = changes
            self._record(server, lambda pins: pins.note(server.config, changes))
            if changes:
                self._around.tell(f"MCP server {name}: {_told(name, changes)}")

    def _record(self, server: Server, write: Callable[[Pins], object]) -> None:
        """Keep something of a server that a person has confirmed, and not for this run alone.

        Where it cannot be kept, that is told, and the server is used all the same.
        """
        pins = self._around.pins
        try:
            if pins is not None and pins.is_confirmed(server.config):
                write(pins)
        except SaysoError as error:
            self._around.tell(f"MCP server {server.config.name}: {error}")

    async def _close(self) -> None:
        for task in self._beside:
            task.cancel()
        await asyncio.shield(asyncio.gather(*(s.connection.close() for s in self.servers)))


async def _opened(server: Server) -> Link | McpError:
    """Its session, or why there is none."""
    try:
        return await server.connection.open()
    except McpError as error:
        return error


def _usable(server: Server, pinned: Mapping[str, Definition]) -> Mapping[str, Definition]:
    """What was pinned, as far as tools can be made of it: the file may have been damaged."""
    try:
        listing = look_at(list(pinned.values()))
    except ListingError as error:
        server.objection = f"what was pinned of it cannot be used: {error}"
        return {}
    server.refused |= listing.faults
    return listing.tools


def _unknown_claims(config: ServerConfig, definitions: Mapping[str, Definition]) -> str | None:
    unknown = sorted(set(config.claims) - set(definitions))
    if not unknown:
        return None
    listed = _some(sorted(definitions)) or "no tools"
    return (
        f"its configuration speaks of {', '.join(unknown)}, which it does not have; it has {listed}"
    )


def _some(words: Sequence[str], between: str = ", ") -> str:
    """The first few; how many more there are is said."""
    more = [f"{len(words) - MAX_TOLD} more"] if len(words) > MAX_TOLD else []
    return between.join([*words[:MAX_TOLD], *more])


def _told(server: str, changes: Sequence[Change]) -> str:
    """What differs from the pins, and what to do about it."""
    words = {"new": "new", "changed": "changed", "gone": "gone"}
    listed = _some([f"{change.tool!r} ({words[change.kind]})" for change in changes])
    return (
        f"its tools are not what was pinned: {listed}. They are held until a person has looked: "
        f"sayso mcp diff {shlex.quote(server)}, then sayso mcp pin {shlex.quote(server)}"
    )
