"""``effects`` and ``trail``: the ledger and the record, and what happens when it was changed."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.canonical import canonical_json
from agent.store import Store
from tests.cli.program import Invoke, cancel
from tests.support.openai_server import ModelServer, Reply

Model = Callable[..., ModelServer]


@pytest.fixture
def session(sayso: Invoke, model: Model, store: Store) -> str:
    """A session with one approved write; its id."""
    model(cancel("A1"), Reply("Done."))
    assert sayso("run", "Cancel A1").code == 3
    assert sayso("approve", store.approvals.list()[0].id).code == 0
    return store.sessions.list()[0].id


def test_effects_lists_the_ledger(sayso: Invoke, session: str) -> None:
    (listed,) = json.loads(sayso("effects", "--json").out)
    stated = {
        *("id", "session", "tool", "tool_version", "args", "digest", "state", "attempts"),
        *("idempotency_key", "transport", "transaction", "result", "evidence"),
        *("started_at", "ended_at"),
    }
    assert stated <= listed.keys()
    assert (listed["state"], listed["attempts"], listed["session"]) == ("committed", 1, session)
    line = sayso("effects").out.splitlines()[1]
    assert line.startswith(f"{listed['id']}  committed")
    assert "cancel_order(" in line
    one = sayso("effects", listed["id"][:-1])
    assert f"digest           {listed['digest']}" in one.out
    assert json.loads(sayso("effects", listed["id"], "--json").out) == listed
    assert sayso("effects", "--session", session, "--state", "failed", "--json").out == "[]\n"
    assert sayso("effects", "--state", "lost").code == 2
    assert sayso("effects", "e-222222").code == 2


def test_the_trail_is_shown_and_intact(sayso: Invoke, session: str, store: Store) -> None:
    entries = store.trail.entries(session)
    shown = json.loads(sayso("trail", "show", session, "--json").out)
    assert [entry["seq"] for entry in shown] == [entry.seq for entry in entries]
    assert {"seq", "at", "session", "kind", "data", "prev", "hash"} <= shown[0].keys()
    lines = sayso("trail", "show", "--limit", "2").out.splitlines()
    assert len(lines) == 3
    result = sayso("trail", "verify")
    assert (result.code, result.out) == (0, f"{len(entries)} entries in 1 session, all intact\n")


def test_an_export_can_be_verified_without_the_program(sayso: Invoke, session: str) -> None:
    prev = ""
    for line in sayso("trail", "export").out.splitlines():
        entry = json.loads(line)
        data_hash = _sha256([entry["salt"], entry["data"]])
        body = [prev, entry["seq"], entry["at"], session, entry["kind"], data_hash]
        assert entry["hash"] == _sha256(body)
        prev = entry["hash"]
    assert prev


def _sha256(value: object) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("UPDATE trail SET data = '{}' WHERE seq = 2", "entry 2: its data was changed"),
        ("DELETE FROM trail WHERE seq = 3", "entry 3: is missing"),
        ("DELETE FROM trail WHERE seq > 4", "entry 5: "),
    ],
)
def test_a_changed_trail_is_detected(
    sayso: Invoke, session: str, sayso_home: Path, change: str, says: str
) -> None:
    with closing(sqlite3.connect(sayso_home / "sayso.db")) as db, db:
        db.execute(change)
    result = sayso("trail", "verify")
    assert result.code == 1
    assert f"{session}, {says}" in result.out
    found = json.loads(sayso("trail", "verify", "--json").out)
    assert found["problems"][0]["session"] == session


def test_an_empty_record(sayso: Invoke) -> None:
    assert sayso("trail", "verify").out == "0 entries in 0 sessions, all intact\n"
    assert sayso("trail", "export").out == ""
    assert sayso("trail", "show", "--json").out == "[]\n"
    assert sayso("effects", "--json").out == "[]\n"
    assert sayso("trail").code == 2
