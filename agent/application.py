"""A process's worth of sayso: the store, the checkpointer, the model, the tools; and its sessions.

``Application.open`` is where everything is put together, in the order in which it depends on
each other; ``session.py`` drives what comes out of it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import prompts
from agent.artifacts import folder_of
from agent.authority import check_patterns
from agent.branching import branch
from agent.checkpoints import open_saver
from agent.checks.limits import turn_number
from agent.config import Settings, actor, process_environment, tracing_notice
from agent.elicitation import Elicitor, close_unsent
from agent.errors import SaysoError, UsageError
from agent.graph import build_agent
from agent.leases import Holdings, LeaseKeeper
from agent.mcp.waiting import Waiting
from agent.middleware.state import AgentContext, Recording
from agent.middleware.under_way import WritesUnderWay
from agent.models import configured_chat_model, service_of
from agent.models.reporting import report
from agent.policy import Policy, authority_of_new, catalogue_of
from agent.provenance import labels_of_results
from agent.safe_text import shorten
from agent.session import AgentSession
from agent.store import Owner, Store
from agent.store.named_secrets import without_secrets
from agent.store.sessions import CREATED, Branch
from agent.toolset import SERVER, Places, Toolset, every_bundled_tool, load_tools
from agent.trust import POLICY, as_given, bind, changed_files, tools_files
from agent.types import Actor, Authority

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from agent.checkpoints import FencedSaver
    from agent.mcp.host import McpHost, Server
    from agent.mcp.questions import UnderWay
    from agent.mcp.servers import ServerConfig
    from agent.store.records import SessionRecord


MAX_LATER, MAX_LOGGED = 100, 2_000
"""How many entries about what MCP servers log may wait for the next one, and their characters."""


MODES = ("freeze", "isolate")
"""Settings that a new session keeps: how its turns are run."""


@dataclass(frozen=True)
class Options:
    """What the command line adds to the settings for new sessions.

    Args:
        granted: Effects of a new session's authority; empty for the default of ``Authority``.
        denied: Effects taken from it.
        policy: The text of the current folder's ``policy.yaml``, as a person has confirmed it.
        servers: MCP servers of the current folder that a person has confirmed.
        via: Where decisions of this process come from: ``chat``, ``cli`` …
        override: Whether an opened session uses this process's model instead of its own.
        asks: Whether an MCP server may put a question to a person, who has to be waited for.
        waiting: Shows which MCP servers the start waits for, and ends that.
    """

    granted: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    policy: str | None = None
    servers: tuple[ServerConfig, ...] = ()
    via: str = "cli"
    override: bool = False
    asks: bool = True
    waiting: Waiting = field(default_factory=Waiting)


@dataclass
class Application:
    """What the sessions of one process share. Made by :meth:`open`."""

    settings: Settings
    options: Options
    store: Store
    saver: FencedSaver
    owner: Owner
    models: dict[str, BaseChatModel] = field(default_factory=dict)
    extra_tools: list[BaseTool] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    host: McpHost | None = None
    on_notice: Callable[[str], None] = lambda sentence: None
    _under_way: WritesUnderWay = field(default_factory=WritesUnderWay)
    _recordings: WeakValueDictionary[str, Recording] = field(default_factory=WeakValueDictionary)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        options: Options | None = None,
        *,
        models: Mapping[str, BaseChatModel] | None = None,
        tools: Sequence[BaseTool] = (),
    ) -> AsyncIterator[Application]:
        """Open the store, the checkpointer and the MCP servers; close them again at the end.

        Args:
            models: Chat models by name, in place of those that would be built.
            tools: Tools beside those that the settings name.

        Raises:
            UsageError: Settings that cannot be used.
            StoreError: A database that cannot be used.
        """
        options = options or Options()
        check_patterns((*options.granted, *options.denied))
        async with AsyncExitStack() as stack:
            store = Store.of(settings)
            stack.callback(store.close)
            saver = await stack.enter_async_context(open_saver(settings.database_url))
            owner, chosen = store.owner(), dict(models or {})
            app = cls(settings, options, store, saver, owner, chosen, list(tools))
            app.notices += [*settings.unknown, *filter(None, [tracing_notice()])]
            if options.servers:
                await app._start_servers(stack)
            _ = app.policy  # what is wrong with it is said before anything runs
            stack.push_async_callback(app._holdings.close)
            stack.callback(app._under_way.close)
            yield app

    @cached_property
    def _holdings(self) -> Holdings:
        writes = self._under_way
        return Holdings(
            self.store,
            self.owner,
            self.settings.lease_seconds,
            writes.of_session,
            lambda: writes.record_kept(()),
        )

    async def _start_servers(self, stack: AsyncExitStack) -> None:
        from agent.mcp.host import McpHost, Surroundings
        from agent.mcp.pins import Pins
        from agent.mcp.signing_in.sign_in import stored_auth

        around = Surroundings(
            environment=process_environment(),
            log_folder=self.settings.home / "logs",
            pins=Pins(self.settings.home),
            by=self.actor.name,
            ask=Elicitor(self.store, self._tell) if self.options.asks else None,
            tell=self._tell,
            log=self._log,
            auth=lambda server: stored_auth(server, self.settings.home),
            waiting=self.options.waiting,
        )
        self.host = await stack.enter_async_context(McpHost(self.options.servers, around))
        self.notices += self.host.complaints

    @property
    def servers(self) -> McpHost:
        """The MCP servers of this process; perhaps none."""
        if self.host is None:
            from agent.mcp.host import McpHost, Surroundings

            return McpHost((), Surroundings({}, self.settings.home))
        return self.host

    @cached_property
    def policy(self) -> Policy:
        """The files of rules that hold: the organisation's, and the folder's that was confirmed.

        Raises:
            InvalidPolicy: One of them is wrong; nothing runs under a policy that is not understood.
        """
        if self.settings.policy is None and self.options.policy is None:
            return Policy()
        from agent.policy.loading import load_policy

        served = self.host.tools if self.host is not None else []
        own = load_tools(self.settings.tools, Places.of(self.settings, self.workspace)).tools
        bundled = every_bundled_tool(self.settings.ensure_home())
        known = catalogue_of([*bundled, *own, *self.extra_tools, *served])
        return load_policy(self.settings.policy, self.options.policy, known)

    @property
    def _connected(self) -> Sequence[Server]:
        """The servers there are, without loading what reaches them where there is none."""
        return self.host.servers if self.host is not None else ()

    def warm(self) -> None:
        """Begin to reach the MCP servers that are not reached yet; ``notices`` says what fails."""
        if self.host is not None:
            self.host.warm()

    def _tell(self, sentence: str) -> None:
        """Something about a server has changed; whoever shows the notices looks at them again."""
        self.notices.append(sentence)
        self.on_notice(sentence)

    def _log(self, server: str, level: str, logger: str, data: Any, call: UnderWay | None) -> None:
        """What a server logs goes to the trail of the session whose call it has, within bounds.

        It may repeat the call's arguments, and it is made text here: so what they keep secret, or
        what it names as a secret itself, is masked here too.
        """
        recording = self._recordings.get(call.info.session) if call is not None else None
        if call is None or recording is None or len(recording.later) >= MAX_LATER:
            return
        logger, data = without_secrets([logger, data], call.args)
        said = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        about = {"server": server, "level": level, "call": call.info.call_id}
        texts = {"logger": shorten(logger, 100), "data": shorten(said, MAX_LOGGED)}
        recording.later.append(("mcp.log", about | texts))

    # --- what new sessions get -------------------------------------------------------------

    @property
    def model_name(self) -> str:
        """The model of new sessions, such as ``openai:gpt-4.1-mini`` or ``offline``."""
        return self.settings.model

    @cached_property
    def actor(self) -> Actor:
        """Who this process says is acting."""
        return actor(self.settings, self.options.via)

    @cached_property
    def workspace(self) -> Path | None:
        """The folder that file tools of new sessions may touch: the current one by default."""
        return self.settings.workspace or Path.cwd()

    @property
    def tools(self) -> list[BaseTool]:
        """The tools of a new session."""
        return list(self._toolset(self.settings.tools, self.workspace).tools)

    @property
    def authority(self) -> Authority:
        """What a new session may do."""
        return authority_of_new(None, self.options.granted, self.options.denied)

    @property
    def _servers(self) -> list[str]:
        """The MCP servers of this process, as they are named among a session's tools."""
        return [f"{SERVER}{server.name}" for server in self.options.servers]

    def _toolset(self, names: Sequence[str], workspace: Path | None) -> Toolset:
        code = [file.path for file in tools_files(self.settings.tools)]
        settings = self.settings
        own = filter(None, [settings.prompt, settings.policy, workspace and workspace / POLICY])
        protected = (*code, *own, *settings.database_files)
        places = Places.of(settings, workspace, protected)
        bundled = load_tools(names, places)
        served = self.host.tools if self.host is not None else []
        tools = (*bundled.tools, *self.extra_tools, *served)
        return Toolset(tools, bundled.domains, bundled.notices)

    def _toolset_of(self, record: SessionRecord) -> Toolset:
        names = as_given(record.tools, self.settings.tools)
        return self._toolset(names, _path(record.workspace))

    # --- sessions --------------------------------------------------------------------------

    def create_session(self) -> SessionRecord:
        """A new, empty session with this process's model, tools and authority."""
        tools = bind(self.settings.tools)
        toolset = self._toolset(tools, self.workspace)  # raises before anything is written
        self._model(self.settings.model)
        return self.store.sessions.create(
            model=self.settings.model,
            tools=[*tools, *self._servers],
            workspace=str(self.workspace) if self.workspace else None,
            granted=list(self.authority.granted),
            denied=list(self.authority.denied),
            policy=self.policy.digest,
            modes=[mode for mode in MODES if getattr(self.settings, mode)],
            actor=self.actor,
            surroundings=self._surroundings(self.settings.model, toolset),
        )

    @asynccontextmanager
    async def new_session(self) -> AsyncIterator[AgentSession]:
        """Create a session and hold it."""
        async with self.open_session(self.create_session().id) as session:
            yield session

    @asynccontextmanager
    async def open_session(self, id: str) -> AsyncIterator[AgentSession]:
        """Hold a session, by id or unique prefix, with the tools and authority it was made with.

        Raises:
            NotFound: No such session.
            SessionBusy: Another process holds it.
            UsageError: Its model or tools cannot be had here.
            UntrustedFolder: A file of its tools is not what it was, and was not given here.
        """
        record = self.store.sessions.get(id)
        async with self._held(record) as lease:
            toolset = self._toolset_of(record)
            for sentence in close_unsent(self.store, record.id, lease.current.epoch):
                self._tell(sentence)
            yield AgentSession(
                id=record.id,
                store=self.store,
                graph=self._graph(record, toolset),
                tools=toolset.tools,
                context=self._context(record, lease),
                lease=lease,
                actor=self.actor,
            )

    @asynccontextmanager
    async def _held(self, record: SessionRecord) -> AsyncIterator[LeaseKeeper]:
        async with self._holdings.hold(record.id) as lease:
            self.store.trail.check_key(record.id)
            self.saver.fence(record.id, lease.current.epoch)
            yield lease

    def _context(self, record: SessionRecord, lease: LeaseKeeper) -> AgentContext:
        settings = self.settings
        model = self._model(self._model_of(record))
        recording = Recording(
            store=self.store,
            session=record.id,
            lease=lease.ensure,
            ancestors=tuple(self._ancestors(record)),
            under_way=self._under_way,
        )
        self._recordings[record.id] = recording
        return AgentContext(
            recording=recording,
            max_steps=settings.max_steps,
            tool_timeout=settings.tool_timeout,
            result_limit=settings.result_limit,
            approval_hours=settings.approval_hours,
            artifacts=folder_of(settings.home, record.id),
            freeze="freeze" in record.modes,
            reader=partial(report, model) if "isolate" in record.modes else None,
            labels=frozenset(record.labels),
            policy=self.policy,
            user=record.user,
        )

    def _graph(self, record: SessionRecord, toolset: Toolset) -> Any:
        model = self._model(self._model_of(record))
        return build_agent(model, toolset.tools, self._prompt(toolset), self.saver)

    def _model_of(self, record: SessionRecord) -> str:
        return self.settings.model if self.options.override else record.model

    def _prompt(self, toolset: Toolset) -> str:
        path = self.settings.prompt
        try:
            own = path.read_text(encoding="utf-8") if path else None
        except (OSError, UnicodeError) as error:
            raise UsageError(f"SAYSO_PROMPT={path}: cannot be read: {error}") from error
        return prompts.system_prompt(toolset.domains, own)

    def _surroundings(self, model: str, toolset: Toolset) -> dict[str, str | None]:
        """What a session depends on that it does not keep: where its model is, the prompt, and
        what its MCP servers offer."""
        return {
            "service": service_of(model, self.settings.openai_base_url),
            "prompt": hashlib.sha256(self._prompt(toolset).encode()).hexdigest(),
            **{f"{SERVER}{server.config.name}": server.version for server in self._connected},
        }

    def _model(self, name: str) -> BaseChatModel:
        if name not in self.models:
            self.models[name] = configured_chat_model(self.settings, name)
        return self.models[name]

    def changes(self, record: SessionRecord) -> list[str]:
        """What is different from when a session was made, in sentences for the operator."""
        changed = []
        if self.options.override and record.model != self.settings.model:
            changed.append(f"It was with {record.model}, it goes on with {self.settings.model}.")
        if record.workspace and not Path(record.workspace).is_dir():
            changed.append(f"Its workspace {record.workspace} is gone; file tools will fail.")
        for server in sorted({name for name in record.tools if name.startswith(SERVER)}):
            if server not in self._servers:
                name = server.removeprefix(SERVER)
                changed.append(f"The MCP server {name} is not in use here; its tools are missing.")
        changed += [
            f"Its tools {path} have changed since it was started; they are used as they are now."
            for path in changed_files(record.tools, self.settings.tools)
        ]
        if record.policy != self.policy.digest:
            changed.append(
                "The policy is another one since it was started; what holds is that of now."
            )
        toolset = self._toolset_of(record)
        return changed + self._surroundings_changed(record, toolset) + list(toolset.notices)

    def _surroundings_changed(self, record: SessionRecord, toolset: Toolset) -> list[str]:
        entries = self.store.trail.entries(record.id, kind=CREATED, limit=1)
        then = entries[0].data.get("surroundings", {}) if entries else {}
        now = self._surroundings(self._model_of(record), toolset)
        changed = []
        if then.get("service") and now["service"] and then["service"] != now["service"]:
            changed.append(f"Its requests went to {then['service']}, now to {now['service']}.")
        if then.get("prompt", now["prompt"]) != now["prompt"]:
            source = self.settings.prompt or "the bundled one"
            changed.append(
                "Its system prompt has changed since it was started; it goes on with "
                f"{source} as it is now."
            )
        for name in sorted(name for name in now if name.startswith(SERVER)):
            if then.get(name, now[name]) != now[name]:
                changed.append(
                    f"The tools of the MCP server {name.removeprefix(SERVER)} are not what they "
                    "were when it was started; it goes on with them as they are now."
                )
        return changed

    def _ancestors(self, record: SessionRecord) -> list[str]:
        found: list[str] = []
        parent = record.parent
        while parent and parent not in found:
            found.append(parent)
            parent = self.store.sessions.parent_of(parent)  # also that of a deleted one
        return found

    async def fork(self, id: str, at: int | None = None) -> SessionRecord:
        """A new session with the messages of this one, and none of its approvals or rules.

        Args:
            at: The last turn whose messages it gets, from 1; ``None``: it gets all.

        Raises:
            UsageError: There is no such turn, or no message at all.
        """
        source = self.store.sessions.get(id)
        toolset = self._toolset_of(source)
        snapshot = await self._graph(source, toolset).aget_state(
            {"configurable": {"thread_id": source.id}}
        )
        messages = branch(snapshot.values.get("messages", []), source.id, at)
        turn = turn_number(messages)
        found = labels_of_results(messages, {tool.name: tool for tool in toolset.tools})
        record = self.store.sessions.create(
            model=source.model,
            tools=source.tools,
            workspace=source.workspace,
            granted=source.granted,
            denied=source.denied,
            policy=self.policy.digest,
            modes=source.modes,
            actor=self.actor,
            title=f"fork of {source.title}"[:80],
            branched=Branch(source.id, turn),
            labels=sorted(found.union(source.labels if at is None else ())),
            surroundings=self._surroundings(source.model, toolset),
        )
        async with self.open_session(record.id) as session:
            await session.seed(messages)
            self.store.sessions.update(record.id, state="done", turn=turn)
        return self.store.sessions.get(record.id)

    async def delete(self, id: str) -> SessionRecord:
        """Erase a session's content, its checkpoints included; a tombstone stays in the trail."""
        record = self.store.sessions.get(id)
        if self._under_way.of_session(record.id):
            raise SaysoError(
                f"A write of {record.id} is still under way here. Nothing was deleted. See what "
                f"came of it, then try again: sayso effects --session {record.id}"
            )
        async with self._held(record):
            await self.saver.adelete_thread(record.id)
            self.store.sessions.delete(record.id, self.actor)
        shutil.rmtree(folder_of(self.settings.home, record.id), ignore_errors=True)
        return record


def _path(text: str | None) -> Path | None:
    return Path(text) if text else None
