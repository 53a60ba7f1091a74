"""The last line before the terminal, and the line that is wiped."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.style import Style
from rich.text import Text

from agent.repl.screen import Screen


def screen(*, terminal, width=40):
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        height=10,
        force_terminal=terminal,
        color_system=None,
        legacy_windows=False,
    )
    return Screen(console), file


@given(st.text())
def test_a_text_that_nobody_made_safe_is_made_safe(text):
    shown, file = screen(terminal=True)
    shown.show(Text(text))
    assert not [
        c for c in file.getvalue() if c != "\n" and (ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0)
    ]


def test_a_style_carries_no_hyperlink():
    file = io.StringIO()
    console = Console(file=file, width=40, force_terminal=True, color_system="truecolor")
    Screen(console).show(Text("here", Style(link="http://evil.example", bold=True)))
    assert file.getvalue() == "\x1b[1mhere\x1b[0m\n"


def test_the_status_line_is_wiped_by_what_is_printed_and_comes_back():
    shown, file = screen(terminal=True)
    with shown.status_line("working"):
        shown.note("one")
    shown.note("two")
    assert file.getvalue() == "working\r\x1b[2Kone\nworking\r\x1b[2Ktwo\n"


def test_a_long_status_line_never_wraps():
    shown, file = screen(terminal=True, width=10)
    shown.status("日本語" * 10 + "\n\x1b[2J")
    assert file.getvalue() == "日本語日…"


@pytest.mark.parametrize(
    ("typed", "shown_as"),
    [
        ("", "next: "),
        ("one two", "next: one two"),
        ("all that was typed until now", "next: typed until now"),
        ("日本語日本語日本語で終わる", "next: 語日本語で終わる"),
        ("line\n\n  and line", "next: line and line"),
        ("\x1b[2J", "next: ␛[2J"),
    ],
)
def test_of_a_text_that_is_being_written_the_end_is_shown(typed, shown_as):
    shown, file = screen(terminal=True, width=23)
    shown.status("next: ", typed)
    assert file.getvalue() == shown_as


def test_nothing_is_wiped_while_somebody_else_draws():
    shown, file = screen(terminal=True)
    shown.status("working")
    with shown.handed_over():
        shown.status("typed")
        shown.note("one")
    assert file.getvalue() == "working\r\x1b[2Kone\n"


def test_without_a_terminal_there_is_no_status_and_no_paging():
    shown, file = screen(terminal=False)
    shown.status("working")
    shown.note("one")
    assert file.getvalue() == "one\n"
    assert shown.height == sys.maxsize
    assert screen(terminal=True)[0].height == 10


@pytest.mark.parametrize(("variables", "colour"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_no_color(monkeypatch, variables, colour):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    file = io.StringIO()
    console = Console(file=file, width=40, force_terminal=True, color_system="standard")
    Screen(console).error("no")
    assert ("31" in file.getvalue()) is colour
