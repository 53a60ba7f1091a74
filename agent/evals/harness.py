"""Sessions for tests: a world of their own, a scripted or real model, a simulated reviewer.

It works without an event loop, so that a test is a plain function; the sessions run in a loop of
their own, in a thread of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anyio.from_thread import BlockingPortal, start_blocking_portal

from agent.application import Application, Options
from agent.config import load_settings
from agent.evals.driving import collect, review
from agent.evals.expecting import Expected
from agent.evals.recorded import Recorded, read_session
from agent.evals.reviewers import Reviewer, stays_silent
from agent.evals.users import User
from agent.evidence import value_of
from agent.models.scripted import ScriptedChatModel, Step
from agent.types import Decision

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

    from agent.session import AgentSession
    from agent.store.records import ApprovalRecord

SCRIPTED = "scripted:test"
REVIEWER = "simulated reviewer"


@dataclass
class Sitting:
    """A session under test. What it did can be asked of it as of each of its turns."""

    _portal: BlockingPortal
    _app: Application
    _session: AgentSession
    _reviewer: Reviewer

    @property
    def id(self) -> str:
        """The session's id."""
        return self._session.id

    @property
    def app(self) -> Application:
        """The application it belongs to: store, settings, tools."""
        return self._app

    def say(
        self, text: str, reviewer: Reviewer | None = None, *, supersede: bool = False
    ) -> Expected:
        """Send a message, let the reviewer decide until the session rests, and look at that turn.

        Args:
            reviewer: In place of the session's, for this turn.
            supersede: Move on although calls wait: none of them runs.

        Raises:
            CallsWait: When calls wait and ``supersede`` is false.
        """
        self._portal.call(self._say, text, reviewer or self._reviewer, supersede)
        return self._turn()

    def talk(self, user: User, most_turns: int = 20) -> Expected:
        """Let a simulated user talk with the agent until there is nothing more to say, and look at
        all of it. A turn that does not come to its end, such as one that waits, ends it too.

        Raises:
            AssertionError: There is no end after so many turns.
        """
        answer: str | None = None
        for _ in range(most_turns):
            text = user(answer)
            if text is None:
                return self.so_far
            turn = self.say(text)
            if turn.recorded.state != "done":
                return self.so_far
            answer = turn.recorded.answer
        raise AssertionError(f"The conversation has no end after {most_turns} turns.")

    def resume(self, reviewer: Reviewer | None = None) -> Expected:
        """Carry the session on: what was decided meanwhile, and what waits goes to the reviewer."""
        self._portal.call(self._resume, reviewer or self._reviewer)
        return self._turn()

    def pending(self) -> list[ApprovalRecord]:
        """What waits for a person."""
        return self._session.pending()

    def decide(self, approval: ApprovalRecord, decision: Decision) -> ApprovalRecord:
        """Answer one approval by hand; ``resume`` then carries the session on."""
        return self._session.decide(approval.id, decision)

    def look(self, tool: str, /, **args: Any) -> Any:
        """What a read of the world says now, outside the session: its JSON, else its text.

        Raises:
            LookupError: There is no such tool.
        """
        if tool not in self.tools:
            raise LookupError(f"there is no tool {tool}; there are {', '.join(self.tools)}")
        result = self._portal.call(self.tools[tool].ainvoke, dict(args))
        return value_of(result, tool) if isinstance(result, str) else result

    @property
    def tools(self) -> Mapping[str, BaseTool]:
        """The tools of the session, by name."""
        return {tool.name: tool for tool in self._app.tools}

    @property
    def so_far(self) -> Expected:
        """All of its turns."""
        return Expected(self._recorded(), self.tools)

    def _turn(self) -> Expected:
        return Expected(self._recorded().since(self._session.record.turn), self.tools)

    def _recorded(self) -> Recorded:
        messages = self._portal.call(self._session.history)
        return read_session(self._app.store, self.id, messages)

    async def _say(self, text: str, reviewer: Reviewer, supersede: bool) -> None:
        said = await collect(self._session.run(text, supersede=supersede))
        await review(self._session, reviewer, said)

    async def _resume(self, reviewer: Reviewer) -> None:
        await review(self._session, reviewer, await collect(self._session.resume()))


@dataclass
class Harness:
    """Makes sessions under test.

    Args:
        home: A folder of its own; each session has its state folder, and so its world, in there.
        model: The model of sessions that are given none, as ``SAYSO_MODEL`` names it.
        environ: Variables that it may need, such as ``OPENAI_API_KEY``; no other setting comes
            from outside.
    """

    home: Path
    model: str = "offline"
    environ: Mapping[str, str] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)
    _sessions: list[Sitting] = field(default_factory=list)

    def session(
        self,
        script: Sequence[Step] | None = None,
        *,
        tools: Sequence[str | BaseTool] = ("orders",),
        reviewer: Reviewer = stays_silent,
        model: str | BaseChatModel | None = None,
        policy: str | None = None,
        grant: Sequence[str] = (),
        deny: Sequence[str] = (),
        **settings: Any,
    ) -> Sitting:
        """A new session over a new world.

        Args:
            script: What the model replies, step by step (``agent.models.scripted``).
            tools: Bundled domains, files or ``package:attribute`` as ``SAYSO_TOOLS`` names them,
                and tools as they are.
            reviewer: Who decides; by default nobody, so that writes stay waiting.
            model: A model or its name, in place of a script.
            policy: The text of a project's ``policy.yaml``.
            grant, deny: Its authority, as ``--grant`` and ``--deny`` take it.
            settings: Settings by field name, such as ``max_steps=5`` or ``freeze=True``.

        Raises:
            TypeError: Both a script and a model are given.
            UsageError: Settings, tools or a policy that cannot be used.
        """
        if script is not None and model is not None:
            raise TypeError("a script stands for a model: give one of both")
        chosen = self.model if model is None and script is None else model
        models: dict[str, BaseChatModel] = {}
        if script is not None:
            models[SCRIPTED] = ScriptedChatModel(list(script))
        elif chosen is not None and not isinstance(chosen, str):
            models[SCRIPTED] = chosen
        name = chosen if isinstance(chosen, str) else SCRIPTED
        number = len(self._sessions) + 1
        loaded = load_settings(
            environ=self.environ,
            **{
                "home": self.home / f"session-{number}",
                "model": name,
                "tools": tuple(t for t in tools if isinstance(t, str)),
                "reviewer": REVIEWER,
                **settings,
            },
        )
        options = Options(granted=tuple(grant), denied=tuple(deny), policy=policy, via="test")
        own = [tool for tool in tools if not isinstance(tool, str)]
        app = self._enter(Application.open(loaded, options, models=models, tools=own))
        session = self._enter(app.new_session())
        sitting = Sitting(self._portal, app, session, reviewer)
        self._sessions.append(sitting)
        return sitting

    @property
    def sessions(self) -> Sequence[Sitting]:
        """Those that were made, in order."""
        return tuple(self._sessions)

    @cached_property
    def _portal(self) -> BlockingPortal:
        return self._stack.enter_context(start_blocking_portal())

    def _enter(self, manager: Any) -> Any:
        return self._stack.enter_context(self._portal.wrap_async_context_manager(manager))

    def close(self) -> None:
        """Close every session and application, the last first."""
        self._stack.close()


@contextmanager
def harness(
    home: Path, model: str = "offline", environ: Mapping[str, str] | None = None
) -> Iterator[Harness]:
    """A harness that is closed at the end."""
    made = Harness(home, model, environ or {})
    try:
        yield made
    finally:
        made.close()
