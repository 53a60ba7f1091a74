"""Two processes that do something about the same thing at the same moment, round after round.

Each race makes what is fought over beforehand, then two forks meet before every round and write
down what they were told. Who comes first is left to chance, with a little help: one of the two
waits for up to as long as a decision takes.
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from functools import partial
from mmap import mmap
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel
from sqlalchemy import update

from agent.application import Application
from agent.errors import AlreadyDecided, SessionBusy
from agent.events import Done
from agent.session import AgentSession
from agent.store import Store
from agent.store.schema import approvals
from agent.types import Actor, Decision
from tests.support.crash_parent import Child
from tests.support.crash_world import World
from tests.support.sessions import application, calls
from tests.unit.store.databases import ask, new_session
from tools.contract import Contract, current_call, make_tool

PATIENCE = 900.0
"""Seconds until a race, or one that nobody meets, is given up."""

ABOUT_AS_LONG = 0.002
"""Seconds that one of the two waits at most."""

LEFT = 0.01
"""Seconds that an approval may still be answered when the two meet."""

ANN, BOB = Actor("ann", 1, "box", "test"), Actor("bob", 2, "box", "test")

Told = list[Any]
"""What one was told in a round: ``won`` and how, or the name of an error and what it says."""


class Meeting:
    """Where two processes wait for each other, without a third.

    Each tells the other one that it has come, through a pipe; awake, they begin together.
    """

    def __init__(self) -> None:
        self._rounds = mmap(-1, 8)
        self._pipes = os.pipe(), os.pipe()

    def wait(self, me: int, number: int) -> None:
        """Come back when the other one has come to this round, too."""
        os.write(self._pipes[1 - me][1], b".")
        os.read(self._pipes[me][0], 1)
        struct.pack_into("i", self._rounds, 4 * me, number)
        give_up = time.monotonic() + PATIENCE
        while struct.unpack_from("i", self._rounds, 4 - 4 * me)[0] < number:
            if time.monotonic() > give_up:
                raise TimeoutError(f"nobody came to round {number}")
            os.sched_yield()


class Contender:
    """One of the two: its number, its chances, and what it was told in each round."""

    def __init__(self, me: int, meeting: Meeting, seed: int, notes: Path) -> None:
        self.me, self._meeting, self._notes = me, meeting, notes
        self.chance = Random(f"{seed} {me}")
        self._round = 0

    def meet(self) -> None:
        """Wait for the other one, and then perhaps a little longer."""
        self._round += 1
        self._meeting.wait(self.me, self._round)
        if self.chance.random() < 0.5:
            until = time.perf_counter() + self.chance.uniform(0, ABOUT_AS_LONG)
            while time.perf_counter() < until:
                pass

    def note(self, *told: Any) -> None:
        """Keep what was told in this round."""
        with self._notes.open("a") as notes:
            notes.write(json.dumps(told) + "\n")


Side = Callable[[Contender, "Ground"], None]


class Ground:
    """The database and the folder of a race; what its parts tell each other is in files there."""

    def __init__(self, url: str, folder: Path, rounds: int) -> None:
        self.url, self.folder, self.rounds = url, folder, rounds
        self.home = folder / "home"

    def open(self) -> Store:
        return Store.open(self.url, home=self.home)

    @property
    def prepared(self) -> list[str]:
        """Ids of what is fought over, one a round."""
        found: list[str] = json.loads((self.folder / "prepared").read_text())
        return found

    def prepare(self, ids: list[str]) -> None:
        (self.folder / "prepared").write_text(json.dumps(ids))

    @property
    def world(self) -> World:
        return World(self.folder / "world.db")


def race(name: str, url: str, folder: str, rounds: int, seed: int) -> dict[str, Any]:
    """Let a race take place: for each round what was fought over, and what the two were told."""
    prepare, *sides = RACES[name]
    ground, meeting = Ground(url, Path(folder), rounds), Meeting()
    notes = [ground.folder / f"told-{me}" for me in (0, 1)]
    _child(lambda _: prepare(ground), ground).end(patience=PATIENCE)
    children = [
        _child(partial(_contend, side, Contender(me, meeting, seed, notes[me]), ground), ground)
        for me, side in enumerate(sides)
    ]
    for child in children:
        child.end(patience=PATIENCE)
    told = [[json.loads(line) for line in path.read_text().splitlines()] for path in notes]
    return {"ids": ground.prepared, "told": [*zip(*told, strict=True)]}


def _contend(side: Side, contender: Contender, ground: Ground, _: Any) -> None:
    side(contender, ground)


def _child(act: Callable[[Any], object], ground: Ground) -> Child:
    return Child.of(act, ground.folder / "errors")


# --- two deciders, and one who lets it expire ------------------------------------------------


def questions(ground: Ground) -> None:
    """Approvals of one session, one a round."""
    with closing(ground.open()) as store:
        session = new_session(store).id
        ground.prepare([ask(store, session, f"c{n}").id for n in range(ground.rounds)])


def decides(decision: Decision, actor: Actor) -> Side:
    """Decides about each of them."""

    def side(contender: Contender, ground: Ground) -> None:
        with closing(ground.open()) as store:
            for approval in ground.prepared:
                contender.meet()
                contender.note(*_decided(store, approval, decision, actor))

    return side


def _decided(store: Store, approval: str, decision: Decision, actor: Actor) -> Told:
    try:
        return ["won", store.approvals.decide(approval, decision, actor).status]
    except AlreadyDecided as error:
        return [type(error).__name__, error.status, error.by]


def expires(contender: Contender, ground: Ground) -> None:
    """Closes each of them, since nobody waits for it any more."""
    with closing(ground.open()) as store:
        for approval in ground.prepared:
            contender.meet()
            try:
                contender.note("won", store.approvals.expire(approval, "too late").status)
            except AlreadyDecided as error:
                contender.note(type(error).__name__, error.status, error.by)


def decides_at_the_last_moment(contender: Contender, ground: Ground) -> None:
    """Decides about each of them at about the time when it may be decided no more."""
    with closing(ground.open()) as store:
        for approval in ground.prepared:
            _let_it_expire_soon(store, approval)
            contender.meet()
            time.sleep(LEFT * contender.chance.uniform(0.6, 1.1))
            contender.note(*_decided(store, approval, Decision("approve"), ANN))


def closes_what_is_due(contender: Contender, ground: Ground) -> None:
    """Closes whatever has expired, at about the same time."""
    with closing(ground.open()) as store:
        for _ in ground.prepared:
            contender.meet()
            time.sleep(LEFT)
            contender.note("closed", *(row.id for row in store.approvals.expire_due()))


def _let_it_expire_soon(store: Store, approval: str) -> None:
    moment = (datetime.now(UTC) + timedelta(seconds=LEFT)).isoformat(timespec="microseconds")
    with store.engine.begin() as conn:
        change = {"expires_at": moment.replace("+00:00", "Z")}
        conn.execute(update(approvals).where(approvals.c.id == approval).values(change))


# --- a session: two that carry it on, one that decides while another ends it -----------------


class Number(BaseModel):
    n: int


def _tools(ground: Ground) -> list[Any]:
    async def act(n: int) -> str:
        """Change the world."""
        info = current_call.get()
        ground.world.write("act", n, info.idempotency_key or "", info.attempt, honours=False)
        return f"changed {n}"

    writes = Contract(effects=frozenset({"write:world"}), open_world=False)
    return [make_tool(act, args=Number, contract=writes)]


def _application(ground: Ground) -> AbstractAsyncContextManager[Application]:
    script = [calls(("act", {"n": 1})), "Done.", "Done."]
    return application(
        ground.home, script, tools=_tools(ground), domains=["research"], database_url=ground.url
    )


async def _waiting(session: AgentSession) -> str:
    """Bring a new session to where it waits; the id of its question."""
    async for _ in session.run("Act."):
        pass
    (approval,) = session.pending()
    return approval.id


def approved_sessions(ground: Ground) -> None:
    """Sessions with an approved write each, whose process was killed before it ran."""

    async def make() -> None:
        async with _application(ground) as app:
            holding = AsyncExitStack()
            made = []
            for _ in range(ground.rounds):
                session = await holding.enter_async_context(app.new_session())
                session.decide(await _waiting(session), Decision("approve"))
                made.append(session.id)
            ground.prepare(made)
            os._exit(0)  # it gives no lease back

    asyncio.run(make())


def carries_on(contender: Contender, ground: Ground) -> None:
    """Takes each of them over and carries it on."""

    async def side() -> None:
        async with _application(ground) as app:
            for session in ground.prepared:
                contender.meet()
                contender.note(*await _carried_on(app, session))

    asyncio.run(side())


async def _carried_on(app: Application, session: str) -> Told:
    try:
        async with app.open_session(session) as opened:
            events = [event async for event in opened.resume()]
            return ["went on", next(e.state for e in events if isinstance(e, Done))]
    except SessionBusy as error:
        return [type(error).__name__]


def nothing(ground: Ground) -> None:
    """What is fought over is made in each round."""
    ground.prepare([])


def ends(how: Callable[[AgentSession], Awaitable[None]]) -> Side:
    """Has a session that waits, and ends its question in some way."""

    def side(contender: Contender, ground: Ground) -> None:
        asyncio.run(_end_each(how, contender, ground))

    return side


async def _end_each(
    how: Callable[[AgentSession], Awaitable[None]], contender: Contender, ground: Ground
) -> None:
    async with _application(ground) as app:
        for number in range(ground.rounds):
            async with app.new_session() as session:
                _hand_over(ground, number, await _waiting(session))
                contender.meet()
                await how(session)
                contender.note(session.id, session.record.state)


def decides_what_is_handed_over(contender: Contender, ground: Ground) -> None:
    """Approves what the other one has made."""
    with closing(ground.open()) as store:
        for number in range(ground.rounds):
            contender.meet()
            approval = (ground.folder / f"handed-{number}").read_text()
            contender.note(*_decided(store, approval, Decision("approve"), ANN), approval)


def _hand_over(ground: Ground, number: int, approval: str) -> None:
    (ground.folder / f"handed-{number}").write_text(approval)


async def _cancel(session: AgentSession) -> None:
    await session.cancel()


async def _move_on(session: AgentSession) -> None:
    async for _ in session.run("Something else.", supersede=True):
        pass


RACES: dict[str, tuple[Callable[[Ground], None], Side, Side]] = {
    "two deciders": (
        questions,
        decides(Decision("approve"), ANN),
        decides(Decision("reject", message="no"), BOB),
    ),
    "decide and expire": (questions, decides(Decision("approve"), ANN), expires),
    "decide at the last moment": (questions, decides_at_the_last_moment, closes_what_is_due),
    "two that carry on": (approved_sessions, carries_on, carries_on),
    "decide and cancel": (nothing, decides_what_is_handed_over, ends(_cancel)),
    "decide and move on": (nothing, decides_what_is_handed_over, ends(_move_on)),
}
