"""Rules: an "always" of a session, listed, revocable and on the trail."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from agent.errors import AlreadyDecided, NotFound
from agent.store import Store
from agent.store.database import Database
from agent.store.ids import in_hours, now
from agent.store.schema import rules
from tests.unit.store.databases import ANN, BOB, kinds, new_session

SCOPE = {"path": {"under": "notes"}}


def test_a_rule_holds_for_its_session_until_revoked(store: Store, session: str) -> None:
    rule = store.rules.add(session, "write_file", "files in notes", SCOPE, ANN)
    other = store.rules.add(session, "edit_file", "files in notes", SCOPE, ANN)
    assert store.rules.active(session) == [rule, other]
    assert store.rules.active(new_session(store).id) == []
    assert (rule.scope_args, rule.created_by) == (SCOPE, "ann")

    revoked = store.rules.revoke(rule.id, BOB)
    assert store.rules.active(session) == [other]
    assert store.rules.get(rule.id) == revoked
    assert (revoked.revoked_by, revoked.revoked_at is not None) == ("bob", True)
    assert kinds(store, session)[-3:] == ["rule.added", "rule.added", "rule.revoked"]
    last = store.trail.entries(session)[-1]
    assert (last.data["scope_args"], last.data["by"]["name"]) == (SCOPE, "bob")


def test_a_rule_holds_for_so_long_and_that_is_on_the_trail(empty_url: str) -> None:
    store = Store(Database(empty_url), rule_hours=8)
    session = new_session(store).id
    rule = store.rules.add(session, "write_file", "files in notes", SCOPE, ANN)
    assert rule.expires_at is not None
    assert in_hours(7.9) < rule.expires_at < in_hours(8.1)
    assert store.trail.entries(session)[-1].data["expires_at"] == rule.expires_at
    assert (store.rules.active(session), store.rules.expired(session)) == ([rule], [])
    store.close()


def test_a_rule_whose_time_is_over_is_in_force_no_more(store: Store, session: str) -> None:
    rule = store.rules.add(session, "write_file", "files in notes", SCOPE, ANN)
    other = store.rules.add(session, "edit_file", "files in notes", SCOPE, ANN)
    assert rule.expires_at is None
    with store.engine.begin() as conn:
        over = update(rules).where(rules.c.id == rule.id).values(expires_at=now())
        conn.execute(over)
    assert store.rules.active(session) == [other]
    assert [found.id for found in store.rules.expired(session)] == [rule.id]
    store.rules.revoke(rule.id, ANN)
    assert store.rules.expired(session) == []


def test_a_rule_is_revoked_once(store: Store, session: str) -> None:
    rule = store.rules.add(session, "write_file", "files in notes", SCOPE, ANN)
    store.rules.revoke(rule.id, BOB)
    with pytest.raises(AlreadyDecided, match="revoked by bob"):
        store.rules.revoke(rule.id, ANN)


def test_unknown_rules_and_sessions(store: Store) -> None:
    with pytest.raises(NotFound):
        store.rules.get("r-zzzzzz")
    with pytest.raises(NotFound):
        store.rules.revoke("r-zzzzzz", ANN)
    with pytest.raises(NotFound):
        store.rules.add("s-nope", "write_file", "files in notes", SCOPE, ANN)
