"""A process that was stopped, not killed: it comes back to a session that went on without it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from langchain_core.messages import BaseMessage

from agent.evals.driving import Trajectory, review
from agent.evals.reviewers import Settles
from agent.store import Store
from tests.support.sessions import application
from tests.support.stale_worker import make_tools, script
from tests.unit.store.databases import backend, empty_url, postgres, postgres_schema

__all__ = ["backend", "empty_url", "postgres", "postgres_schema"]

ROOT = Path(__file__).parents[2]


@contextmanager
def stopped_within(home: Path, url: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has stopped itself within a tool; see ``stale_worker`` for the words."""
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.support.stale_worker", str(home), url, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        found = os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert found is not None
        if found.si_code != os.CLD_STOPPED:
            pytest.fail(f"It ended before it came to its tool: {holder.communicate()[1]}")
        yield holder
    finally:
        if holder.poll() is None:
            holder.kill()
        holder.communicate()


def wait_until_free(store: Store, session: str) -> None:
    """Return when nobody holds the session any more."""
    deadline = time.monotonic() + 30
    while store.leases.holder(session) is not None:
        assert time.monotonic() < deadline, "its lease did not run out"
        time.sleep(0.02)


@pytest.mark.parametrize("words", ["read", "write", "read blind", "write blind"])
async def test_who_comes_back_too_late_leaves_the_session_as_its_new_owner_made_it(
    words: str, empty_url: str, tmp_path: Path
) -> None:
    with stopped_within(tmp_path, empty_url, *words.split()) as holder:
        async with application(
            tmp_path,
            script(tmp_path),
            domains=["research"],
            tools=make_tools(tmp_path),
            database_url=empty_url,
        ) as app:
            session = app.store.sessions.latest()
            assert session is not None
            wait_until_free(app.store, session.id)
            async with app.open_session(session.id) as opened:
                resumed = Trajectory([event async for event in opened.resume()])
                finished = await review(opened, Settles(True), resumed)
                assert (finished.done.state, finished.done.answer) == ("done", "All done.")
                made = _told(await opened.history())
            replies = (tmp_path / "replies").read_text()
            entries = len(app.store.trail.entries(session.id))

            holder.send_signal(signal.SIGCONT)
            output, errors = await asyncio.to_thread(holder.communicate, timeout=60)
            assert holder.returncode == 0, errors
            told = json.loads(output)
            assert "taken over by another process" in told["error"]
            assert told["cancelling"] == "LeaseLost"

            assert (tmp_path / "replies").read_text() == replies  # its model was not asked again
            assert (tmp_path / "world").read_text() == "2\n"
            row = app.store.sessions.get(session.id)
            assert (row.state, row.error) == ("done", None)
            assert [effect.state for effect in app.store.ledger.list()] == ["committed"]
            assert app.store.approvals.list(status="pending") == []
            late = [entry.kind for entry in app.store.trail.entries(session.id)[entries:]]
            assert [one for one in late if not one.startswith(("lease.", "effect."))] == []
            assert app.store.trail.verify() == []
            async with app.open_session(session.id) as opened:
                assert _told(await opened.history()) == made


def _told(messages: list[BaseMessage]) -> list[tuple[str | None, str]]:
    return [(message.id, message.text) for message in messages]
