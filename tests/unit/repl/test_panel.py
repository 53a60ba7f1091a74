"""What a reviewer sees, as whole transcripts."""

import io

import pytest
from rich.console import Console

from agent.repl.panel import (
    approval_panel,
    call_line,
    explanation,
    overview,
    what_became_of,
)
from agent.repl.screen import Screen
from agent.store.records import SessionRecord
from tests.support.fake_chat import CANCEL, SCENES, proposal

SESSION = SessionRecord(id="s-fake01", state="waiting", title="Cancel A1", model="offline")


def drawn(renderable, width=64):
    file = io.StringIO()
    Screen(Console(file=file, width=width, highlight=False)).show(renderable)
    return file.getvalue()


def test_an_approval_whole():
    assert drawn(approval_panel(CANCEL, SESSION)) == (
        """\
Run this call? · cancel_order ──────────────────────────────────
asked    2026-01-02T03:04:05.000000Z · ap-1
session  Cancel A1 (s-fake01)
reason   writes wait for a person
rule     default/ask-writes
effects  write:orders
digest   71928d537514
undo     can be undone: reopen_order
arguments
  {
    "order_id": "A1",
    "expected_revision": 3
  }
where the values occur
  order_id: in your words
  expected_revision: in a result of get_order(order_id="A1")
  note: nowhere before: the model wrote it, or it is a default
changed or left open by the check
  │ expected_revision: “3” became 3
what would change
cancel_order says
  │ order A1: pending → cancelled
"""
    )


def test_a_diff_and_no_way_back():
    approval = proposal(
        2,
        "write_file",
        {"path": "notes.md"},
        preview={"summary": "notes.md: 1 line changes", "diff": "@@ -1 +1 @@\n-old\n+n\u200bew"},
    )
    text = drawn(approval_panel(approval, SESSION, "2 of 3"))
    assert text.startswith("Run this call? · write_file · 2 of 3 ─")
    assert "undo     cannot be undone\n" in text
    assert text.endswith(
        "write_file says\n  │ notes.md: 1 line changes\n"
        "  │ @@ -1 +1 @@\n  │ -old\n  │ +n⟨U+200B⟩ew\n"
    )


def test_before_and_after():
    preview = {"summary": "A1", "before": "pending", "after": "cancelled"}
    text = drawn(approval_panel(proposal(1, "x", {}, preview=preview), SESSION))
    assert text.endswith(
        "what would change\nx says\n  │ A1\nbefore\n  │ pending\nafter\n  │ cancelled\n"
    )


def test_nothing_in_a_panel_is_hidden_or_obeyed():
    approval = proposal(
        1,
        "send\x1b[2J",
        {"to": "p\u0430ypal", "k\u202eey": "a\u200bb\x1b[31m\x9b", "n": "[red]x[/red]"},
        reason="be\x07cause\x1b]0;t\x07",
        notes=["no\u00a0te"],
        rule="r\nule",
        provenance=[{"path": "a\u2066", "origin": "tool", "tool": "w\x1beb"}],
    )
    text = drawn(approval_panel(approval, SESSION), width=100)
    assert not set("\x1b\x07\x9b\u202e\u200b\u2066\u00a0\u0430") & set(
        text.replace("“p\u0430ypal”", "")
    )
    assert '"to": "p\\u0430ypal"' in text
    assert '"k\\u202eey": "a\\u200bb\\u001b[31m\\u009b"' in text
    assert '"n": "[red]x[/red]"' in text
    assert "! “p\u0430ypal” holds ⟨U+0430⟩ cyrillic small letter a, a look-alike" in text
    assert "be␇cause␛]0;t␇" in text


def test_a_look_alike_is_not_hidden_by_an_ordinary_word_of_another_argument():
    args = {"to": ["\u0440\u0430\u0443.com"], "path": "a\uff0fb", "note": "Спасибо, 日本"}
    text = drawn(approval_panel(proposal(1, "t", args), SESSION), width=100)
    assert '"\\u0440\\u0430\\u0443.com"' in text
    assert "! “\u0440\u0430\u0443.com” holds ⟨U+0440⟩" in text
    assert "! “a\uff0fb” holds ⟨U+FF0F⟩" in text


def test_long_arguments_are_whole_at_any_width():
    value = "x" * 300 + "END"
    text = drawn(approval_panel(proposal(1, "t", {"v": value}), SESSION), width=40)
    assert value in text.replace("\n  ", "")


OURS = (
    *("Run this call?", "Did this call happen?", "asked ", "reason ", "rule ", "arguments"),
    *("where the values occur", "what would change", "what is known of it", "! "),
    *("before", "after", "pay says", "look(", "what was read, and may want to steer"),
)
FORGED = "\n".join(OURS) + "\nlook({}) shows:\n" + " ".join(f"{ours:60}" for ours in OURS)


@pytest.mark.parametrize("width", [40, 64, 120])
def test_nothing_that_others_say_can_pass_for_a_line_of_ours(width):
    """However the terminal breaks it: every heading, label and warning stands there as often as
    without the words of others, and theirs are behind a bar or further in."""

    def beginnings(said):
        call = proposal(
            1,
            "pay",
            {said: said},
            notes=[said],
            warnings=[said],
            preview={"summary": said, "before": said, "after": said},
            provenance=[
                {"path": said, "origin": "user", "tool": None},
                {
                    "path": said,
                    "origin": "untrusted",
                    "tool": said,
                    "where": said,
                    "passage": said,
                    "private": True,
                    "parts": [
                        {"start": 0, "end": 9, "origin": "untrusted", "private": True, "tool": said}
                    ],
                },
            ],
        )
        doubt = proposal(
            1,
            "pay",
            {},
            kind="in_doubt",
            notes=[f"pay says of its record:\n{said}", f"look({said!r}) shows:\nx"],
        )
        lines = [
            line
            for approval in (call, doubt)
            for line in drawn(approval_panel(approval, SESSION), width=width).splitlines()
        ]
        return sorted(ours for line in lines for ours in OURS if line.startswith(ours))

    assert beginnings(FORGED) == beginnings("x")


def test_a_doubt_says_whose_words_are_whose():
    notes = [
        "pay says of its record:\nNo transfer.\nlook({}) shows:\nT9",
        'look({"n":1}) shows:\n3',
    ]
    text = drawn(approval_panel(proposal(1, "pay", {}, kind="in_doubt", notes=notes), SESSION))
    assert text.partition("what is known of it\n")[2] == (
        """\
pay says of its record:
  │ No transfer.
  │ look({}) shows:
  │ T9
look({"n":1}) shows:
  │ 3
"""
    )


def test_a_write_in_doubt_that_still_runs_here_is_said_to() -> None:
    doubt = proposal(1, "pay", {}, kind="in_doubt")
    assert "still under way here" in drawn(approval_panel(doubt, SESSION, under_way=True))
    assert "still under way here" not in drawn(approval_panel(doubt, SESSION))


def test_the_name_of_an_argument_is_told_from_its_value():
    call = proposal(1, "pay", {'to="ann" amount': "bob", "größe": 1, "plain-1": 2})
    assert call_line(call, 99) == 'pay  "to=\\"ann\\" amount"="bob" "größe"=1 plain-1=2'


def test_several():
    assert drawn(overview(SCENES["cancel three"] + SCENES["cancel lost"], 64)) == (
        """\
4 calls wait for you ───────────────────────────────────────────
  1  cancel_order  order_id="A1"
  2  cancel_order  order_id="A2"
  3  cancel_order  order_id="B1"
  4  in doubt: refund_order  order_id="A1" amount=5
"""
    )


def test_in_doubt_says_what_is_not_known():
    text = drawn(approval_panel(SCENES["cancel lost"][0], SESSION))
    assert text.startswith("Did this call happen? · refund_order ─")
    assert "nobody knows whether it happened" in " ".join(text.split())
    assert "undo" not in text


def question(**args):
    return proposal(1, "guide", args, kind="elicitation", rule="elicitation", reason="asks")


def test_a_servers_question_whole():
    schema = {
        "properties": {
            "day": {"type": "string", "format": "date", "default": "2026-03-01"},
            "room": {"type": "string", "enum": ["s", "d"], "enumNames": ["Single", "Double"]},
        },
        "required": ["room"],
    }
    message = "How do you want to stay?\napproved: cancel_order\x1b[2J " + "and say no more " * 5
    asked = question(message=message, schema=schema, order=["room", "day"])
    assert drawn(approval_panel(asked, SESSION)).partition("it says\n")[2] == (
        """\
  │ How do you want to stay?
  │ approved: cancel_order␛[2J and say no more and say no more
  │ and say no more and say no more and say no more
it wants
  room (one of s “Single”, d “Double”; required)
  day (a date, such as 2026-01-31; default 2026-03-01)
"""
    )


def test_an_address_is_shown_with_its_host():
    asked = question(message="Pay.", url="https://pay.example:8443/good.example?a=1")
    assert drawn(approval_panel(asked, SESSION)).partition("it says\n")[2] == (
        """\
  │ Pay.
it wants you to open (nothing is opened for you)
https://pay.example:8443/good.example?a=1
at  pay.example:8443
"""
    )


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ({}, "no web address"),
        ({"url": 3}, "no web address"),
        ({"url": "https://[bank.example/"}, "no web address"),
        ({"url": "https://bank.example:443:x/"}, "no web address"),
        ({"url": "https://bank.example\\.evil.example/"}, "no web address"),
        ({"url": "https://bank.example:444/x"}, "at  bank.example:444\n"),
        ({"url": "https://[2001:db8::1]/x"}, "at  [2001:db8::1]\n"),
        ({"schema": 3}, "no form"),
        ({"schema": {}}, "no form"),
        ({"schema": {"properties": 3}}, "no form"),
        ({"schema": {"properties": {"a": 3}}}, "no form"),
        ({"schema": {"properties": {"a": {"type": "array"}}}}, "no form"),
        ({"schema": {"properties": {"a": {"oneOf": 3}}}}, "no form"),
        ({"schema": {"properties": {"a": {}}, "required": 3}}, "no form"),
        ({"schema": {"properties": {"a": {}}}, "order": 3}, "no form"),
        ({"schema": {"properties": {"a": {}}}, "message": "\ud800"}, "⟨U+D800⟩"),
    ],
)
def test_whatever_is_kept_of_a_question_can_be_drawn(args, shown):
    asked = proposal(1, "guide", args, kind="elicitation", rule="elicitation", reason="asks")
    assert shown in drawn(approval_panel(asked, SESSION))


def test_the_explanation_names_the_rule_the_digest_and_every_key():
    text = drawn(explanation(CANCEL, always=True), width=100)
    assert "Rule default/ask-writes: writes wait for a person" in text
    assert CANCEL.digest in text.replace("\n", "")
    assert [line.split()[0] for line in text.splitlines()[-6:]] == ["y", "e", "n", "m", "a", "q,"]
    assert "always" not in drawn(explanation(CANCEL, always=False))


CALL = 'cancel_order(order_id="A1", expected_revision=3)'
BOB = {"decided_by": "bob\x1b", "decided_via": "cli", "decided_at": "2026-01-03T12:03:59.000000Z"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {**BOB, "status": "rejected", "comment": "no\n"},
            f"ap-1 {CALL} was rejected by bob␛, 2026-01-03 12:03 UTC, cli: no␊",
        ),
        (
            {**BOB, "status": "edited", "decided_args": {"order_id": "A2\n"}},
            f'ap-1 {CALL} was edited to cancel_order(order_id="A2\\n") '
            "by bob␛, 2026-01-03 12:03 UTC, cli",
        ),
        (
            {"kind": "in_doubt", "status": "superseded", "comment": "found out: committed"},
            f"ap-1 {CALL} was superseded by the program: found out: committed",
        ),
        (
            {"kind": "elicitation", "tool": "guide", "args": {"message": "Which\ncity?"}}
            | {"status": "expired", "comment": "the call that asked is over"},
            "ap-1 question of guide “Which city?” expired: the call that asked is over",
        ),
        (
            {"status": "superseded", "decided_by": "ann", "decided_digest": CANCEL.digest},
            "The approval by ann is void, and nothing ran: "
            'cancel_order  order_id="A1" expected_revision=3 [ap-1]',
        ),
        (
            {"status": "superseded"},
            'Not run, since you moved on: cancel_order  order_id="A1" expected_revision=3 [ap-1]',
        ),
    ],
)
def test_what_became_of_a_call_that_waits_no_longer(fields, sentence):
    assert what_became_of(CANCEL.model_copy(update=fields)) == sentence


def test_until_when_it_can_be_decided():
    until = CANCEL.model_copy(update={"expires_at": "2026-01-09T03:04:05.000000Z"})
    assert "\nexpires  2026-01-09T03:04:05.000000Z\n" in drawn(approval_panel(until, SESSION))
    decided = until.model_copy(update={"status": "approved"})
    assert "expires" not in drawn(approval_panel(decided, SESSION))
