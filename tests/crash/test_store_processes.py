"""The store under several processes, and under processes that are killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.errors import LeaseLost, SessionBusy
from agent.store import Store
from tests.unit.store.databases import (
    FreshUrl,
    ask,
    backend,
    empty_url,
    fresh_url,
    new_session,
    postgres,
    postgres_schema,
    sqlite_template,
    write_of,
)

__all__ = ["backend", "empty_url", "fresh_url", "postgres", "postgres_schema", "sqlite_template"]

HEADER = """
import sys, time
from pathlib import Path
from agent.errors import AlreadyDecided
from agent.store import Store
from agent.types import Actor, Decision
from tests.unit.store.databases import new_session, write_of
url, home, *args = sys.argv[1:]
def ready():
    print("ready", flush=True)
    sys.stdin.readline()
"""


class Process:
    """A program on the store's database; it stops at ``ready()`` until it is told to go."""

    def __init__(self, program: str, url: str, home: Path, *args: str) -> None:
        command = [sys.executable, "-c", HEADER + program, url, str(home), *args]
        self.popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self.line() == "ready"

    def line(self) -> str:
        assert self.popen.stdout is not None
        return self.popen.stdout.readline().strip()

    def go(self) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write("go\n")
        self.popen.stdin.flush()

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    """Starts processes; none outlives the test."""
    with ExitStack() as stack:

        def start_one(program: str, url: str, *args: str) -> Process:
            process = Process(program, url, tmp_path / "home", *args)
            stack.enter_context(process.popen)
            stack.callback(process.popen.kill)
            return process

        yield start_one


@contextmanager
def opened(url: str, tmp_path: Path) -> Iterator[Store]:
    store = Store.open(url, home=tmp_path / "home")
    yield store
    store.close()


def test_two_processes_create_one_database(empty_url: str, start: Any, tmp_path: Path) -> None:
    program = """
ready()
store = Store.open(url)
print(new_session(store).id, flush=True)
"""
    processes = [start(program, empty_url) for _ in range(4)]
    for process in processes:
        process.go()
    made = {process.line() for process in processes}
    with opened(empty_url, tmp_path) as store:
        assert {session.id for session in store.sessions.list()} == made
        assert len(made) == 4
        assert store.trail.verify() == []


def test_of_two_decisions_at_once_one_is_recorded(
    fresh_url: FreshUrl, start: Any, tmp_path: Path
) -> None:
    program = """
name, decision, ids = args[0], args[1], args[2:]
store = Store.open(url)
ready()
for approval in ids:
    try:
        decided = store.approvals.decide(approval, Decision(decision), Actor(name, 1, "box"))
        print("won", decided.status, flush=True)
    except AlreadyDecided as error:
        print("lost", error.status, error.by, flush=True)
"""
    url = fresh_url()
    with opened(url, tmp_path) as store:
        session = new_session(store).id
        ids = [ask(store, session, f"c{n}").id for n in range(30)]
        ann = start(program, url, "ann", "approve", *ids)
        bob = start(program, url, "bob", "reject", *ids)
        ann.go()
        bob.go()
        for approval in ids:
            told = {(ann.line(), bob.line())}
            row = store.approvals.get(approval)
            assert told in (
                {("won approved", "lost approved ann")},
                {("lost rejected bob", "won rejected")},
            )
            assert row.decided_by == ("ann" if row.status == "approved" else "bob")
        decided = [one for one in store.trail.entries(session) if one.kind == "approval.decided"]
        assert len(decided) == len(ids)
        assert store.trail.verify() == []


def test_many_writers_do_not_lock_each_other_out(
    fresh_url: FreshUrl, start: Any, tmp_path: Path
) -> None:
    program = """
store = Store.open(url)
ready()
for n in range(50):
    store.trail.append(args[0], [("note", {"n": n, "by": args[1]})])
print("done", flush=True)
"""
    url = fresh_url()
    with opened(url, tmp_path) as store:
        session = new_session(store).id
        writers = [start(program, url, session, str(n)) for n in range(4)]
        for writer in writers:
            writer.go()
        assert [writer.line() for writer in writers] == ["done"] * 4
        assert len(store.trail.entries(session)) == 201
        assert store.trail.verify() == []


HOLD = """
store = Store.open(url, home=Path(home))
lease = store.leases.acquire(args[0], store.owner(), ttl=600)
store.sessions.update(args[0], epoch=lease.epoch, state="running")
if len(args) > 1:
    store.ledger.begin(**write_of(lease))
ready()
try:
    store.ledger.begin(**write_of(lease, "late"))
except Exception as error:
    print(type(error).__name__, flush=True)
"""


def test_a_write_that_was_killed_is_in_doubt(
    fresh_url: FreshUrl, start: Any, tmp_path: Path
) -> None:
    url = fresh_url()
    with opened(url, tmp_path) as store:
        session = new_session(store).id
        start(HOLD, url, session, "begin").kill()
        effect = store.ledger.for_call(session, "m1", "c1")
        assert effect is not None
        assert effect.state == "intended"

        lease = store.leases.acquire(session, store.owner(), ttl=600)
        assert store.ledger.begin(**write_of(lease)).outcome == "in_doubt"
        assert [doubt.id for doubt in store.ledger.open_doubts(session)] == [effect.id]
        assert store.trail.verify() == []


def test_the_lease_of_a_killed_process_is_free_at_once(
    fresh_url: FreshUrl, start: Any, tmp_path: Path
) -> None:
    url = fresh_url()
    with opened(url, tmp_path) as store:
        sessions = [new_session(store).id for _ in range(2)]
        holders = [start(HOLD, url, session) for session in sessions]
        for session in sessions:
            assert store.sessions.get(session).state == "running"
            with pytest.raises(SessionBusy):
                store.leases.acquire(session, store.owner(), ttl=60)
        for holder in holders:
            holder.kill()
        for session in sessions:
            assert store.sessions.get(session).state == "interrupted"
            assert store.leases.holder(session) is None
            assert store.leases.acquire(session, store.owner(), ttl=60).epoch == 2


def test_an_owner_that_was_overtaken_intends_nothing_more(
    fresh_url: FreshUrl, start: Any, tmp_path: Path
) -> None:
    url = fresh_url()
    with opened(url, tmp_path) as store:
        session = new_session(store).id
        stalled = start(HOLD, url, session)
        held = store.leases.holder(session)
        assert held is not None
        store.leases.renew(held, ttl=-1)  # as if it had slept past its expiry
        lease = store.leases.acquire(session, store.owner(), ttl=600)
        stalled.go()
        assert stalled.line() == LeaseLost.__name__
        assert store.ledger.list() == []
        assert store.ledger.begin(**write_of(lease)).outcome == "run"


def test_a_kill_in_the_middle_of_writing_leaves_whole_transactions(
    fresh_url: FreshUrl, start: Any, tmp_path: Path
) -> None:
    """An intention, and its entry in the trail, are there together or not at all."""
    program = """
store = Store.open(url, home=Path(home))
lease = store.leases.acquire(args[0], store.owner(), ttl=600)
ready()
for n in range(100000):
    effect = store.ledger.begin(**write_of(lease, f"c{n}")).effect
    print(n, flush=True)
    store.ledger.finish(effect.id, attempt=1, state="committed", result={"n": n})
"""
    url = fresh_url()
    with opened(url, tmp_path) as store:
        session = new_session(store).id
        writer = start(program, url, session)
        writer.go()
        while writer.line() != "20":
            pass
        writer.kill()
        effects = store.ledger.list(limit=1000)
        kinds = [entry.kind for entry in store.trail.entries(session)]
        assert len(effects) == kinds.count("effect.intended") > 20
        committed = [effect for effect in effects if effect.state == "committed"]
        assert len(committed) == kinds.count("effect.committed")
        assert len(effects) - len(committed) <= 1
        assert store.trail.verify() == []
