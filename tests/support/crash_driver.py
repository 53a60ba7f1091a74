"""One process of a crash run: it opens the session, lets its person carry it on, and reports.

The person asks for three numbers, approves the first, edits the second, rejects the third, and has
the first one undone in the end. What is in doubt they settle by a look at the world, once nothing
is under way there any more.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.application import Application, Options
from agent.errors import AlreadyDecided, StoreError
from agent.events import Event
from agent.inbox import HAPPENED, NOT_HAPPENED
from agent.mcp.pins import Pins
from agent.middleware import writes
from agent.models.scripted import ScriptedStep
from agent.session import AgentSession
from agent.store.records import ApprovalRecord
from agent.types import Decision
from tests.support.crash_instants import Instants
from tests.support.crash_report import report_on
from tests.support.crash_runs import Run
from tests.support.crash_tools import Kind, Surroundings, at_rest, called, servers_of, tools_of
from tests.support.sessions import application, calls

AT_ONCE = 1e-9
"""Hours until an approval expires that nobody can answer in time."""

EDITED = {2: 12}
REFUSED = {3}

MOST_ROUNDS = 30


def script(kind: Kind) -> list[Any]:
    """A read; three writes and a read in one step; an answer. Then that of an undo."""
    add, look = called(kind, "add"), called(kind, "look")
    return [
        calls((look, {"n": 1})),
        calls((add, {"n": 1}), (add, {"n": 2}), (add, {"n": 3}), (look, {"n": 2})),
        "All done.",
        ScriptedStep(),  # the ordered undo stands in its place
        "Undone.",
    ]


async def live(run: Run, folder: Path, url: str, service: str, instants: Instants) -> None:
    """Be one process of a run; what came of it stands in ``report.json`` in its folder.

    Without a database there is nothing to report.
    """
    try:
        await _live(run, folder, url, service, instants)
    except StoreError as error:
        print(error)


async def _live(run: Run, folder: Path, url: str, service: str, instants: Instants) -> None:
    around = Surroundings(
        folder,
        service,
        looks_up=run.looks_up,
        together=run.together,
        patience=run.patience,
        honours_keys=run.honours_keys,
        happens=instants.happens,
    )
    first = not (folder / "session").exists()
    servers = servers_of(run.kind, around)
    for server in servers if first else ():
        Pins(folder / "home").confirm(server, by="ana")
    instants.watch()
    writes.BACK_OFF = 0.01
    async with application(
        folder / "home",
        script(run.kind),
        tools=tools_of(run.kind, around),
        domains=["research"],
        options=Options(via="test", servers=servers, asks=False),
        database_url=url,
        tool_timeout=run.tool_timeout,
        approval_hours=AT_ONCE if run.expires and first else 0,
    ) as app:
        instants.watch_saver(app)
        async with app.open_session(_session(app, folder)) as session:
            await _Person(run, around, app, session, instants).see_to_it()
            report = await report_on(run.kind, app, session, around.world)
    whole = report.as_json() | {"instants": instants.count}
    (folder / "report.json").write_text(json.dumps(whole))


def _session(app: Application, folder: Path) -> str:
    """The run's session. Who dies before its id was noted begins another one."""
    noted = folder / "session"
    if not noted.exists():
        being_noted = folder / "session.new"
        being_noted.write_text(app.create_session().id)
        being_noted.rename(noted)
    return noted.read_text()


class _Person:
    """Who talks to the agent, and decides."""

    def __init__(
        self,
        run: Run,
        around: Surroundings,
        app: Application,
        session: AgentSession,
        instants: Instants,
    ) -> None:
        self._run, self._around, self._instants = run, around, instants
        self._session, self._store, self._world = session, app.store, around.world

    async def see_to_it(self) -> None:
        """Carry the session on as far as it goes."""
        await self._session.ask_again()
        if self._session.record.turn == 0:
            await _hear(self._session.run("Add 1, 2 and 3."))
        else:
            await _hear(self._session.resume())
        await self._review()
        if (first := self._to_undo()) is not None:
            self._instants.happens("before the undo")
            await _hear(self._session.undo(first))
            await self._review()

    def _to_undo(self) -> str | None:
        """The first write, if all has ended, it happened and was not undone yet."""
        if self._run.kind == "mcp" or self._session.record.state != "done":
            return None
        effects = self._store.ledger.list(session=self._session.id)
        if any(effect.undoes for effect in effects):
            return None
        return next((e.id for e in effects if e.args == {"n": 1} and e.state == "committed"), None)

    async def _review(self) -> None:
        for _ in range(MOST_ROUNDS):
            waiting = sorted(self._session.pending(), key=lambda row: row.kind)  # doubts first
            answers = [(row, await self._answer(row)) for row in waiting]
            given = [(row.id, answer) for row, answer in answers if answer is not None]
            if not given:
                return
            if self._run.moves_on and await self._moves_on(waiting):
                continue
            with suppress(AlreadyDecided):  # an answer came late, and settled it
                self._session.decide_many(given[:1] if self._run.one_by_one else given)
            if self._run.stranger and not self._world.notes(STRANGER):
                self._world.note(STRANGER)
            self._instants.happens("between decision and resume")
            await _hear(self._session.resume())
        raise AssertionError(f"there is no end to what {self._session.id} asks")

    async def _moves_on(self, waiting: list[ApprovalRecord]) -> bool:
        """Say something else while the second number waits; ``False``: it does not."""
        of = {row.args["n"]: row for row in waiting if row.kind == "write" and row.tool != "drop"}
        if 2 not in of:
            return False
        if 1 in of:
            self._session.decide(of[1].id, Decision("approve"))
        self._instants.happens("before the user moves on")
        await _hear(self._session.run("That will do.", supersede=True))
        return True

    async def _answer(self, row: ApprovalRecord) -> Decision | None:
        if row.kind == "in_doubt":
            return await self._settle(row)
        n = row.args["n"]
        if n in REFUSED:
            return Decision("reject", message=f"Not {n}.")
        if n in EDITED and row.tool != "drop":
            return Decision("edit", args={"n": EDITED[n]})
        return Decision("approve")

    async def _settle(self, row: ApprovalRecord) -> Decision | None:
        """By a look at the world; silence where this person does not know."""
        if not self._run.knows or not await at_rest(self._run.kind, self._around):
            return None
        effect = self._store.ledger.for_call(row.session, row.message, row.call)
        assert effect is not None
        happened = self._world.under(effect.idempotency_key) is not None
        return Decision("respond", message=HAPPENED if happened else NOT_HAPPENED)


STRANGER = "a stranger changed 1"


async def _hear(events: AsyncIterator[Event]) -> None:
    async for _ in events:
        pass
