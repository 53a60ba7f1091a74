"""Rules: an "always" of a session, listed, revocable and on the trail."""

from __future__ import annotations

import pytest

from agent.errors import AlreadyDecided, NotFound
from agent.store import Store
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
