"""Markdown: whole blocks, once each, and nothing of it hidden or obeyed."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from agent.repl.markdown import MarkdownStream, SafeMarkdown
from agent.repl.screen import Screen


def drawn(text, width=60, terminal=False):
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=terminal, highlight=False)
    Screen(console).show(SafeMarkdown(text))
    return file.getvalue()


def streamed(pieces):
    parts = []
    stream = MarkdownStream(lambda part: parts.append(part.markup))
    for piece in pieces:
        stream.feed(piece)
        yield list(parts)
    stream.finish()
    yield parts


def test_a_block_is_printed_when_the_next_one_begins():
    pieces = ["# Ti", "tle\n", "\nOne\ntwo", "\n\n", "```py\na = 1\n\nb", " = 2\n```\n", "end"]
    *_, end = printed = list(streamed(pieces))
    assert [len(parts) for parts in printed] == [0, 0, 1, 1, 2, 2, 2, 4]
    assert [part.strip() for part in end] == [
        "# Title",
        "One\ntwo",
        "```py\na = 1\n\nb = 2\n```",
        "end",
    ]


def test_a_code_block_is_never_cut():
    *_, end = streamed(list("text\n\n```\na\n\n# no heading\n\nb\n```\n\nafter\n\nlast"))
    assert "```\na\n\n# no heading\n\nb\n```" in [part.strip() for part in end]


@given(st.lists(st.text(st.sampled_from("#*-`| \n1.ab>[]()"), max_size=8), max_size=30))
def test_streaming_loses_and_repeats_nothing(pieces):
    *_, end = streamed(pieces)
    assert "".join("".join(end).split()) == "".join("".join(pieces).split())


def test_links_images_and_html_are_shown_as_text():
    text = drawn(
        "[here](http://evil.example/x) ![a cat](http://evil.example/cat.png) "
        "<script>alert(1)</script> <!-- hidden -->\n\n<div>block</div>"
    )
    flat = " ".join(text.split())
    assert "here (http://evil.example/x)" in flat
    assert "[image: a cat] (http://evil.example/cat.png)" in flat
    assert "<script>alert(1)</script> <!-- hidden -->" in flat
    assert "<div>block</div>" in flat


@pytest.mark.parametrize(
    "text",
    [
        "a\x1b]8;;http://x\x07b",
        "`code\x1b[2J`",
        "```\x1b[2J\nx\x1b[2J\n```",
        "| a\x1b[1m | b |\n|---|---|\n| \x9b1m | \x07 |",
        "entity &#27;[2J &#13; &#x9b; &#8238;",
        "[x\x1b](http://a/\x1b[2J)",
        "- a\x1b[2J\n- b\r",
    ],
)
def test_no_control_sequence_gets_through(text):
    shown = drawn(text, terminal=True)
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert not set("\x07\x08\r\x9b\u202e") & set(shown)


def test_square_brackets_are_no_markup():
    assert drawn("[bold]x[/bold] [red]").strip() == "[bold]x[/bold] [red]"


def test_lines_end_without_blanks():
    assert all(line == line.rstrip() for line in drawn("# T\n\nshort\n\n- a\n- b").split("\n"))


def test_a_heading_is_at_the_left():
    assert drawn("# Title").strip("\n") == "Title"


@pytest.mark.parametrize("width", [24, 40])
def test_a_narrow_table_keeps_its_cells_whole(width):
    cells = ["pending", "Svensson", "1234567.89", "日本語日本語日本語"]
    shown = drawn(f"| a | b | c | d |\n|---|---|---|---|\n| {' | '.join(cells)} |", width)
    assert sorted(c for c in shown if c.isalnum()) == sorted(
        "abcd" + "".join(cells).replace(".", "")
    )
