"""Talking over sessions, one at a time: open it, send a message, decide, go on, leave it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager

from agent.events import ApprovalAsked, Done, Event
from agent.receipt import describe
from agent.repl.desk import Desk
from agent.repl.faults import log
from agent.repl.keys import Keyboard
from agent.repl.ports import Application, Session
from agent.repl.prompts import Prompts
from agent.repl.questions import Questions
from agent.repl.render import TurnView, show_history, show_receipt
from agent.repl.screen import Screen, join
from agent.repl.starting import Startup
from agent.repl.status import banner
from agent.safe_text import one_line, strict
from agent.store.records import ApprovalRecord
from agent.types import Attachment

_WORKING = "working · Ctrl-C stops it · what you type waits for your next message"
_BROKEN_OFF = {
    "interrupted": "The last turn of this session was interrupted.",
    "running": "The last turn of this session was interrupted.",
    "failed": "The last turn of this session failed.",
    "stopped": "The last turn of this session was stopped by a limit.",
}


class Talk:
    """The session that is open, if one is, and what can be done with it.

    Args:
        startup: Has begun, or will before anything here needs the application.
        screen: Where panels, notes and progress are printed.
        answers: Where turns are printed.
        keyboard: Its Ctrl-C stops a running turn.
        prompts: For texts that answer an approval.
        one_model: Whether every session uses the application's model, whatever its own is.
        poll: Seconds between two looks for decisions made elsewhere.
    """

    def __init__(
        self,
        startup: Startup,
        screen: Screen,
        answers: Screen,
        keyboard: Keyboard,
        prompts: Prompts,
        *,
        one_model: bool,
        poll: float,
    ) -> None:
        self.screen = screen
        self.session: Session | None = None
        self.greeted = False
        self.leaving = False
        self._noticed = 0
        self._attached: list[Attachment] = []
        self._startup, self._answers, self._keyboard = startup, answers, keyboard
        self._prompts, self._one_model = prompts, one_model
        self._questions = Questions(screen, keyboard, poll)
        self._desk: Desk | None = None
        self._lease = contextlib.AsyncExitStack()
        self._view = TurnView(answers)
        self._left = 0

    async def application(self) -> Application:
        """The application, greeted; says so when it has to be waited for.

        Raises:
            FatalError: It cannot be opened.
        """
        app = await self._startup.opened()
        self.greet(app)
        return app

    def greet(self, app: Application) -> None:
        """The part of the banner that needs the application; shown once."""
        if not self.greeted:
            self.greeted = True
            self.screen.note(banner(app, self.model_in_use(app)))
            self._noticed = len(app.notices)
            app.warm()

    def has_notices(self) -> bool:
        """Whether the application has something to say that was not shown yet."""
        app = self._startup.app
        return app is not None and len(app.notices) > self._noticed

    def show_notices(self) -> None:
        """Show what the application has had to say since it was last shown."""
        if self.has_notices() and (app := self._startup.app) is not None:
            for notice in app.notices[self._noticed :]:
                self.screen.note(strict(notice), "yellow")
            self._noticed = len(app.notices)

    def model_in_use(self, app: Application) -> str:
        """The model that the open session uses, or a new one would."""
        if self.session is None or self._one_model:
            return app.model_name
        return self.session.record.model

    def pending(self) -> list[ApprovalRecord]:
        """What waits in the open session."""
        return self.session.pending() if self.session is not None else []

    # --- a session -----------------------------------------------------------------------

    async def open(self, session_id: str) -> None:
        """Leave the open session and go on with another one; its panel comes first.

        Raises:
            NotFound, SessionBusy: The open session stays open.
        """
        app = await self._startup.opened()
        session_id = app.store.sessions.get(session_id).id  # it may be the beginning of an id
        if self.session is not None and self.session.id == session_id:
            self.screen.note(f"{session_id} is the session that is open here.")
            return
        session, desk = await self._enter(app, app.open_session(session_id))
        self.greet(app)
        record = session.record
        state = "interrupted" if record.state == "running" else record.state
        self.screen.note(join((record.id, state, strict(record.title))), "bold")
        for change in app.changes(record):
            self.screen.note(change, "yellow")
        show_history(self._answers, await session.history())
        desk.recall()
        await self._offer_again(session)
        if record.state == "waiting" or session.pending():
            await self._settle_and_go_on(decided=True)  # something may have been decided elsewhere
        elif how := _BROKEN_OFF.get(record.state):
            self.screen.note(f'{how} Say "continue" to go on.', "yellow")

    async def _offer_again(self, session: Session) -> None:
        """Ask whether what expired undecided is still wanted; else the model is told."""
        expired = await session.expired()
        for row in expired:
            call = one_line(describe(row))
            self.screen.note(f"Nobody decided in time about {call} [{row.id}].", "yellow")
        if expired and await self._questions.yes("It did not run. Ask again? y/N"):
            await session.ask_again()

    async def leave_session(self) -> None:
        """Close the open session, if there is one, and say how to come back."""
        session, self.session, self._desk = self.session, None, None
        if session is not None:
            try:
                await self._lease.aclose()
            finally:
                self._say_goodbye(f"To go on with this session: {_resume_command(session)}")

    def _say_goodbye(self, text: str) -> None:
        """How to come back: in the log when the terminal has gone."""
        try:
            self.screen.note(text)
        except OSError:
            log.warning("the terminal has gone. %s", text)

    async def _enter(
        self, app: Application, opened: AbstractAsyncContextManager[Session]
    ) -> tuple[Session, Desk]:
        """Hold another session; the open one is left only when that has worked."""
        async with contextlib.AsyncExitStack() as stack:
            session = await stack.enter_async_context(opened)
            await self.leave_session()
            self._lease = stack.pop_all()
        self._view = TurnView(self._answers)
        self.session = session
        store = app.store
        self._desk = Desk(
            session, store.approvals, store.rules, self.screen, self._questions, self._prompts
        )
        return session, self._desk

    # --- a message -----------------------------------------------------------------------

    def attach(self, attachment: Attachment) -> None:
        """Send this along with the next message."""
        self._attached.append(attachment)

    def drop_attached(self) -> int:
        """Send nothing along; how much it would have been."""
        dropped = len(self._attached)
        self._attached.clear()
        return dropped

    def put_into_message(self, text: str) -> None:
        """Put a text where the person writes, as if they had typed it."""
        self._keyboard.typeahead.put_back(text)

    async def say(self, text: str) -> None:
        """Send a message; what waits is superseded only after the person agreed."""
        if self.session is None:
            app = await self.application()
            await self._enter(app, app.new_session())
        assert self.session is not None
        if self.has_news():
            self._keyboard.typeahead.put_back(text)
            await self.go_on_with_news()
            return
        waiting = sum(approval.kind != "in_doubt" for approval in self.session.pending())
        if waiting and not await self._superseding(waiting):
            self._keyboard.typeahead.put_back(text)
            return
        self._view = TurnView(self._answers)
        self.show_notices()
        if waiting:
            await self._turn(self._telling_news(self._sent(self.session, text, supersede=True)))
        elif text != "continue" or not await self._continued(self.session):
            await self._turn(self._sent(self.session, text))
        await self._settle_and_go_on()

    def _sent(
        self, session: Session, text: str, *, supersede: bool = False
    ) -> AsyncGenerator[Event, None]:
        """A message's turn, with what was attached to it."""
        attached, self._attached = tuple(self._attached), []
        return session.run(text, supersede=supersede, attached=attached)

    async def fork(self, at: int | None) -> None:
        """Go on in a branch of the open session, which stays as it is.

        Raises:
            UsageError: There is no such turn; the open session stays open.
        """
        if self.session is None:
            self.screen.note("There is nothing to branch from: this session has not begun.")
            return
        source, app = self.session.id, await self._startup.opened()
        made = await app.fork(source, at)
        self.screen.note(f"A branch of {source}, which stays as it is: /resume {source}")
        await self.open(made.id)

    async def undo(self, effect: str | None) -> None:
        """Propose what undoes a write, as a turn of its own; it waits as any other call does."""
        if self.session is None:
            self.screen.note("There is nothing to undo: this session has not begun.")
            return
        if any(row.kind != "in_doubt" for row in self.session.pending()):
            self.screen.note("Decide first what waits: /approvals")
            return
        self._view = TurnView(self._answers)
        await self._turn(self.session.undo(effect))
        await self._settle_and_go_on()

    async def _superseding(self, waiting: int) -> bool:
        what = "1 call waits" if waiting == 1 else f"{waiting} calls wait"
        return await self._questions.yes(f"{what}; send anyway and nothing of it runs? y/N")

    async def _continued(self, session: Session) -> bool:
        """Whether a turn that was broken off had something left to do, which is done then."""
        # "running" is what a killed process left behind: this one holds the session now.
        if session.record.state not in ("running", "interrupted", "failed"):
            return False
        return await self._turn(session.resume())

    # --- what waits ----------------------------------------------------------------------

    async def ask_again(self) -> None:
        """Show the panel for everything that waits, what was left before included."""
        if self._desk is not None:
            self._desk.ask_again()
            await self._settle_and_go_on()

    def has_news(self) -> bool:
        """Whether something that waited in the open session has been decided elsewhere."""
        return self._desk is not None and self._desk.has_news()

    async def go_on_with_news(self) -> None:
        """Say who decided what elsewhere, and carry the session on with it."""
        if self._desk is None or not self._desk.has_news():
            return
        if self._desk.take_news():
            await self._settle_and_go_on(decided=True)
        else:
            self._show_receipt()

    async def _settle_and_go_on(self, *, decided: bool = False) -> None:
        """Ask about what waits and carry the session on, until nothing can be decided now.

        Args:
            decided: Whether something was decided already, so that the session can go on.
        """
        if self._desk is None or self.session is None or not (decided or self.session.pending()):
            return
        while await self._desk.settle() or decided:
            decided = False
            went_on = await self._turn(self.session.resume())
            if not self.session.pending():
                if not went_on:  # its turn had ended; what was decided changes the receipt alone
                    self._show_receipt()
                return
        self._show_receipt()
        self.screen.note(f"Later, or elsewhere: {_resume_command(self.session)}")

    def _show_receipt(self) -> None:
        """The last turn's, if it proposed a write."""
        if self.session is not None and (receipt := self.session.receipt()):
            show_receipt(self._answers, receipt)

    async def _telling_news(
        self, events: AsyncGenerator[Event, None]
    ) -> AsyncGenerator[Event, None]:
        """The events of a turn; before the first one, what became of the calls that waited."""
        told = False
        async with contextlib.aclosing(events):
            async for event in events:
                if self._desk is not None and not told:
                    self._desk.look()
                    told = True
                yield event

    # --- a turn --------------------------------------------------------------------------

    async def _turn(self, events: AsyncGenerator[Event, None]) -> bool:
        """Draw a turn; Ctrl-C asks the session to stop, typed keys are kept.

        Returns:
            Whether anything happened before it was done.
        """
        happened, self._left = False, 0
        floor = asyncio.Lock()  # held by whoever prints: the turn, or a question that is put again
        with self._keyboard.interrupted_by(self._stop), self._working() as refresh:
            asker = asyncio.create_task(self._ask_left_questions(floor, refresh))
            try:
                async with contextlib.aclosing(events):
                    async for event in events:
                        async with floor:
                            self._look_after_questions()
                            self._view.show(event)
                            await self._answer_question(event)
                            refresh()
                        happened = happened or not isinstance(event, Done) or bool(event.error)
            finally:
                await _ended(asker)
                self._view.finish()
        return happened

    async def _answer_question(self, event: Event) -> None:
        """A server's question is put at once: the call that raised it waits for the answer."""
        if isinstance(event, ApprovalAsked) and event.approval.kind == "elicitation":
            assert self._desk is not None
            await self._desk.ask_now(event.approval)
            self._left = len(self._open_questions())

    async def _ask_left_questions(self, floor: asyncio.Lock, refresh: Callable[[], None]) -> None:
        """Whenever Tab is pressed during a turn: put the questions that were left once more."""
        pressed = asyncio.Event()
        with self._keyboard.tab_calls(pressed.set):
            while await pressed.wait():
                async with floor:
                    for question in self._open_questions():
                        assert self._desk is not None
                        await self._desk.ask_now(question)
                    pressed.clear()
                    self._look_after_questions()
                    refresh()

    def _look_after_questions(self) -> None:
        """See whether those that were left still wait; say what became of them."""
        if self._left and self._desk is not None:
            self._desk.look()
            self._left = len(self._open_questions())

    def _open_questions(self) -> list[ApprovalRecord]:
        """Servers' questions that wait for an answer."""
        return [approval for approval in self.pending() if approval.kind == "elicitation"]

    def _stop(self) -> None:
        assert self.session is not None
        sentence = self.session.request_stop()
        with contextlib.suppress(OSError):  # the terminal may be what has gone
            self.screen.note(sentence, "yellow")

    @contextlib.contextmanager
    def _working(self) -> Iterator[Callable[[], None]]:
        """The status line while a turn runs, with the call that renews it.

        It echoes what is typed ahead; else it shows the end of what the model is writing, which
        is printed once its block is whole.
        """

        def show(typed: str) -> None:
            left = f"{_waiting(self._left)}: Tab" if self._left else ""
            if typed:
                self.screen.status(join((left, "for your next message: ")), typed)
            elif left:
                self.screen.status(f"{left} shows it · Ctrl-C stops the turn")
            elif written := self._view.unfinished.strip():
                self.screen.status("… ", written)
            elif self._view.progress:
                self.screen.status(f"{self._view.progress} · Ctrl-C stops it")
            else:
                self.screen.status(_WORKING)

        def refresh() -> None:
            show(str(self._keyboard.typeahead))

        with self.screen.status_line(""), self._keyboard.echoing(show):
            refresh()
            yield refresh


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; what it failed with before is raised."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


def _waiting(questions: int) -> str:
    return "1 question waits" if questions == 1 else f"{questions} questions wait"


def _resume_command(session: Session) -> str:
    return f"sayso chat -r {session.id}"
