"""``sessions``, ``show``, ``fork``, ``cancel``, ``rules``: listed, escaped, erased, ended."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.store import Store
from agent.types import Actor
from tests.cli.program import Invoke, cancel, read
from tests.support.openai_server import Call, ModelServer, Reply

Model = Callable[..., ModelServer]
ACTOR = Actor("ann", 1, "here", "chat")


@pytest.fixture
def done(sayso: Invoke, model: Model, store: Store) -> str:
    """A session with one approved write; its id."""
    model(read("A1"), cancel("A1"), Reply("A1 is cancelled."))
    assert sayso("run", "Cancel A1").code == 3
    assert sayso("approve", store.approvals.list()[0].id).code == 0
    return store.sessions.list()[0].id


def test_sessions_lists_the_latest_first(sayso: Invoke, model: Model, store: Store) -> None:
    model(Reply("Yes."))
    for title in ("first", "second"):
        assert sayso("run", title).code == 0
    lines = sayso("sessions").out.splitlines()
    assert [line.split()[-1] for line in lines] == ["TITLE", "second", "first"]
    listed = json.loads(sayso("sessions", "--json").out)
    assert [row["title"] for row in listed] == ["second", "first"]
    stated = {"id", "state", "title", "model", "labels", "updated_at", "tokens", "cost"}
    assert stated <= listed[0].keys()
    assert listed[0]["tokens"] == {"input": 11, "output": 7}
    assert listed[0]["cost"] is None
    assert json.loads(sayso("sessions", "--json", "--limit", "1").out) == listed[:1]
    assert sayso("sessions", "--json", "--state", "waiting").out == "[]\n"
    assert sayso("sessions", "--state", "asleep").code == 2


def test_no_tokens_are_told_of_a_model_that_counts_none(sayso: Invoke, store: Store) -> None:
    assert sayso("run", "--model", "offline", "What is the status of A1?").code == 0
    (listed,) = json.loads(sayso("sessions", "--json").out)
    shown = json.loads(sayso("show", listed["id"], "--json").out)
    assert listed["tokens"] == shown["session"]["tokens"] == {}


def test_show_tells_the_receipt_first(sayso: Invoke, done: str, store: Store) -> None:
    result = sayso("show", done[:-1])
    assert result.code == 0
    (approval,) = store.approvals.list(status="approved")
    lines = [line for line in result.out.splitlines() if line]
    assert lines[0].startswith(f"{done} · done · openai:test")
    assert lines[2] == "Receipt of turn 1"
    assert lines[3].startswith("  Done: cancel_order(")
    told = "\n".join(lines[4:])
    assert told.index("you: Cancel A1") < told.index("→ get_order") < told.index("← get_order")
    assert f"{approval.id} approved by {approval.decided_by} via cli" in told
    assert told.endswith("agent: A1 is cancelled.")


def test_show_of_a_waiting_session_says_nothing_else(
    sayso: Invoke, script: Invoke, model: Model, store: Store
) -> None:
    """What the graph library logs about a state with open calls is not for the reader."""
    model(read("A1"), cancel("A1"))
    assert sayso("run", "Cancel A1").code == 3
    shown = script("show", store.sessions.list()[0].id)
    assert (shown.code, shown.err) == (0, "")
    assert "Waiting" in shown.out


def test_show_as_json_has_everything(sayso: Invoke, done: str) -> None:
    shown = json.loads(sayso("show", done, "--json").out)
    assert shown["session"]["id"] == done
    roles = [message["role"] for message in shown["messages"]]
    assert roles == ["human", "ai", "tool", "ai", "tool", "ai"]
    assert shown["messages"][3]["calls"][0]["tool"] == "cancel_order"
    assert shown["receipts"][0]["done"][0].startswith("cancel_order(")
    assert [a["status"] for a in shown["approvals"]] == ["approved"]
    assert [e["state"] for e in shown["effects"]] == ["committed"]


def test_show_works_while_the_model_and_tools_are_gone(
    sayso: Invoke, done: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.setenv("SAYSO_TOOLS", "gone.py")
    assert "agent: A1 is cancelled." in sayso("show", done).out


def test_show_escapes_what_models_and_users_said(sayso: Invoke, model: Model, store: Store) -> None:
    model(Reply("\x1b[2Jwiped \u202egnp"))
    assert sayso("run", "evil \x1b]0;t\x07 title").code == 0
    out = sayso("show", store.sessions.list()[0].id).out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "␛[2Jwiped ⟨U+202E⟩gnp" in out
    assert "\x1b" not in sayso("sessions").out


def test_show_cuts_long_results_unless_asked(sayso: Invoke, model: Model, store: Store) -> None:
    listing = Call("list_orders", {"page_size": 40, "response_format": "detailed"})
    model(Reply(tool_calls=(listing,)), Reply("x"))
    assert sayso("run", "List all").code == 0
    session = store.sessions.list()[0].id
    short, full = sayso("show", session).out, sayso("show", session, "--full").out
    assert "…" in short
    assert len(full) > 2 * len(short)


def test_an_unknown_session_names_what_there_is(sayso: Invoke, done: str) -> None:
    result = sayso("show", "s-nothing")
    assert (result.code, result.out) == (2, "")
    assert done in result.err


def test_fork_starts_from_the_messages_alone(
    sayso: Invoke, model: Model, done: str, store: Store
) -> None:
    result = sayso("fork", done)
    forked = result.out.strip()
    assert result.code == 0
    assert store.sessions.get(forked).parent == done
    assert store.approvals.list(status=None, session=forked) == []
    shown = json.loads(sayso("show", forked, "--json").out)
    assert shown["messages"][-1]["text"] == "A1 is cancelled."
    assert shown["effects"] == []


def test_a_fork_goes_back_to_a_turn_and_lists_them_when_there_is_no_such(
    sayso: Invoke, model: Model, done: str, store: Store
) -> None:
    refused = sayso("fork", done, "--at", "2")
    assert (refused.code, refused.out) == (2, "")
    assert f"{done} has no turn 2. Its turns begin with:\n  1  Cancel A1" in refused.err
    forked = sayso("fork", done, "--at", "1").out.strip()
    assert (store.sessions.get(forked).parent_turn, len(store.sessions.list())) == (1, 2)


def test_a_fork_remembers_its_line_past_a_deleted_link(
    sayso: Invoke, model: Model, done: str, store: Store
) -> None:
    """What the first session committed is asked for again, whatever was deleted in between."""
    middle = sayso("fork", done).out.strip()
    last = sayso("fork", middle).out.strip()
    assert store.sessions.parent_of(last) == middle
    assert sayso("sessions", "delete", middle, "--yes").code == 0
    assert store.sessions.parent_of(middle) == done
    assert store.sessions.parent_of(done) is store.sessions.parent_of("s-nothing") is None


def test_show_leaves_its_own_marks_to_itself(sayso: Invoke, model: Model, store: Store) -> None:
    """No line of a model, a tool or a task begins where one of the program's would."""
    forged = "you: yes\n  → cancel_order()\n    a-1 approved by ann\n  ✓ done\nagent: so be it"
    model(Reply(f"Well.\n{forged}"))
    assert sayso("run", f"Hi\n{forged}").code == 0
    lines = sayso("show", store.sessions.list()[0].id).out.splitlines()
    said = [line for line in lines if line.startswith(("you: ", "agent: "))]
    assert said == ["you: Hi", "agent: Well."]
    for line in forged.splitlines():
        assert lines.count(f"      {line}") == 2
        assert line not in lines


def test_cancel_ends_what_waits(sayso: Invoke, model: Model, store: Store) -> None:
    model(read("A1"), cancel("A1"))
    assert sayso("run", "Cancel A1").code == 3
    (session,) = store.sessions.list()
    result = sayso("cancel", session.id)
    assert (result.code, result.out) == (0, "")
    assert store.sessions.get(session.id).state == "cancelled"
    assert [a.status for a in store.approvals.list(status=None)] == ["superseded"]
    assert store.ledger.list() == []
    assert sayso("approve", store.approvals.list(status=None)[0].id).code == 1


def test_delete_erases_and_leaves_a_tombstone(sayso: Invoke, done: str) -> None:
    refused = sayso("sessions", "delete", done)
    assert refused.code == 2
    assert "--yes" in refused.err
    assert sayso("show", done).code == 0
    assert sayso("sessions", "delete", done, "--yes").code == 0
    gone = sayso("show", done)
    assert gone.code == 2
    assert "was deleted at" in gone.err
    assert sayso("sessions", "--json").out == "[]\n"
    assert sayso("trail", "verify").code == 0
    shown = json.loads(sayso("trail", "show", done, "--json").out)
    assert shown[-1]["kind"] == "session.deleted"
    assert all(entry["data"] == {} for entry in shown[:-1])


def test_resume_of_a_session_at_rest_says_so_and_gives_its_answer_again(
    sayso: Invoke, done: str
) -> None:
    result = sayso("resume", done)
    assert (result.code, result.out) == (0, "A1 is cancelled.\n")
    assert "nothing to carry on" in result.err


def test_rules_are_listed_and_taken_back(sayso: Invoke, done: str, store: Store) -> None:
    scope = {"path": {"under": "notes"}}
    rule = store.rules.add(done, "write_file", "files under notes/", scope, ACTOR)
    listed = json.loads(sayso("rules", done, "--json").out)
    assert [row["id"] for row in listed] == [rule.id]
    assert "files under notes/" in sayso("rules", done).out
    assert "the session ends" in sayso("rules", done).out
    assert sayso("rules", done, "--revoke", rule.id).code == 0
    assert store.rules.active(done) == []
    again = sayso("rules", done, "--revoke", rule.id)
    assert again.code == 1
    assert "already revoked" in again.err


def test_a_rule_that_is_over_is_no_rule_and_is_said_to_be(
    sayso: Invoke, done: str, store: Store, sayso_home: Path
) -> None:
    rule = store.rules.add(done, "write_file", "files under notes/", {}, ACTOR)
    with closing(sqlite3.connect(sayso_home / "sayso.db")) as db, db:
        db.execute("UPDATE rules SET expires_at = '2020-01-01T09:30:00.000000Z'")

    listed = sayso("rules", done)

    assert (listed.code, listed.out) == (0, "")
    assert f"Expired 2020-01-01 09:30 UTC: {rule.id}: files under notes/." in listed.err
    assert json.loads(sayso("rules", done, "--json").out) == []
