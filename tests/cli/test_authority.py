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
