"""``sayso authority``."""

from __future__ import annotations

import json

from tests.cli.program import Invoke


def test_it_is_shown_widened_narrowed_and_taken_back(sayso: Invoke) -> None:
    denied = sayso("run", "--grant", "read:*", "Cancel order A1", "--json")
    assert denied.code == 5
    session = json.loads(sayso("sessions", "--json").out)[0]["id"]

    shown = sayso("authority", session)
    assert (shown.code, "granted  read:*" in shown.out) == (0, True)

    widened = sayso("authority", session, "--grant", "write:orders", "--json")
    assert json.loads(widened.out) == {
        "session": session,
        "granted": ["read:*", "write:orders"],
        "denied": [],
    }
    assert "The trail keeps what it was" in widened.err

    narrowed = sayso("authority", session, "--deny", "write:*", "--take-back", "write:orders")
    assert "denied   write:*" in narrowed.out
    assert "write:orders" not in narrowed.out
    assert "session.authority" in sayso("trail", "show", session).out


def test_what_is_no_effect_or_no_session_is_said(sayso: Invoke) -> None:
    sayso("run", "What is 3 * 4?", "--tools", "research")
    session = json.loads(sayso("sessions", "--json").out)[0]["id"]

    wrong = sayso("authority", session, "--grant", "everything")
    assert (wrong.code, "'everything' is no effect" in wrong.err) == (2, True)
    assert sayso("authority", "s-nobody").code == 2


def test_a_profile_grants_what_a_session_is_for_and_a_grant_adds_to_it(sayso: Invoke) -> None:
    assert sayso("run", "--profile", "read-only", "Cancel order A1").code == 5
    added = sayso("run", "--profile", "read-only", "--grant", "write:orders", "Cancel order A1")
    assert added.code == 3
    session = json.loads(sayso("sessions", "--json").out)[0]["id"]
    assert json.loads(sayso("authority", session, "--json").out)["granted"] == [
        "read:*",
        "write:orders",
    ]


def test_what_a_profile_denies_a_grant_can_lift(sayso: Invoke) -> None:
    sayso("run", "--profile", "research", "--grant", "disclose:*", "What is 3 * 4?")
    session = json.loads(sayso("sessions", "--json").out)[0]["id"]
    found = json.loads(sayso("authority", session, "--json").out)
    assert ("disclose:*" in found["granted"], found["denied"]) == (True, ["spend:*"])


def test_a_profile_that_is_not_there_is_named_with_those_that_are(sayso: Invoke) -> None:
    wrong = sayso("run", "--profile", "admin", "Cancel order A1")
    assert wrong.code == 2
    assert "read-only, desk, research" in wrong.err
