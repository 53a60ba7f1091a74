"""The README is run: what it shows is what happens, in one folder, from top to bottom.

How its blocks are read: ``tests.cli.pages``. What is not run must exist.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.pages import BLOCK, Block, Shell, blocks_of
from tests.cli.program import Invoke
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = blocks_of(README)


@pytest.mark.timeout(600)  # some twenty programs, each with its own limit
def test_every_console_block_does_what_it_shows(folder: Path) -> None:
    assert Shell(folder).follow(BLOCKS) >= 15


def test_every_block_is_run_or_says_why_not() -> None:
    for block in BLOCKS:
        assert block.runs or block.file or block.mark.startswith("not run: "), block.text


def _lines(block: Block) -> Iterator[list[str]]:
    for line in block.text.splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] != "export":
            yield words


NOT_RUN = [words for block in BLOCKS if block.mark.startswith("not run") for words in _lines(block)]


@pytest.mark.parametrize("words", NOT_RUN, ids=" ".join)
def test_what_is_not_run_exists(words: list[str], sayso: Invoke) -> None:
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
    elif words[0] == ".":
        assert words[1] == ".venv/bin/activate"
    else:
        assert words[0] == "sayso"
        help_text = sayso(words[1], "--help").out
        for option in (word for word in words if word.startswith("-")):
            assert option in help_text


def test_every_command_is_in_the_table_and_no_other(sayso: Invoke) -> None:
    from agent.cli.main import app

    known = {c.name or c.callback.__name__ for c in app.registered_commands if c.callback}
    known |= {str(group.name) for group in app.registered_groups}
    (table,) = re.findall(r"\| command \| does \|\n(.*?)\n\n", README, re.DOTALL)
    assert set(re.findall(r"`sayso ([a-z]+)", table)) == known
    for command in sorted(known):
        assert sayso(command, "--help").code == 0


def test_every_option_and_slash_command_exists(sayso: Invoke) -> None:
    from agent.cli.main import app
    from agent.repl.commands import COMMANDS

    names = [c.name or "" for c in app.registered_commands]
    names += ["sessions delete", "trail export", "trail head", "trail seal", "trail show"]
    names += ["trail verify"]
    names += ["mcp add", "mcp import", "mcp pin"]
    help_texts = "".join(sayso(*name.split(), "--help").out for name in names)
    prose = BLOCK.sub("", README)
    for option in set(re.findall(r"--[a-z][a-z-]+", prose)) - {"--help"}:
        assert option in help_texts, option
    slashes = set(re.findall(r"`/([a-z]+)", prose))
    assert slashes - {"help"} == set(COMMANDS) - {"help"}


def test_the_keys_of_the_panel_are_those_it_offers() -> None:
    from agent.repl.desk import _keys_line
    from agent.store.records import ApprovalRecord

    (table,) = re.findall(r"\| key at the panel \| does \|\n(.*?)\n\n", README, re.DOTALL)
    shown = set(re.findall(r"`(.)`", table))
    offered: set[str] = set()
    for kind in ("write", "in_doubt"):
        approval = ApprovalRecord(
            id="a-1", kind=kind, session="s-1", turn=1, message="m", call="c", tool="t",
            args={}, digest="d",
        )  # fmt: skip
        offered |= {part.split()[0] for part in _keys_line(approval, always=True).split(" · ")}
    assert shown == offered


def test_the_settings_it_names_exist() -> None:
    from agent.config import VARIABLES

    named = set(re.findall(r"\b(?:SAYSO|OPENAI)_[A-Z_]+", README))
    assert named
    assert named <= set(VARIABLES)


def test_the_exit_codes_are_those_of_the_program() -> None:
    from agent.session import EXIT_CODES

    (table,) = re.findall(r"\| exit code \| means \|\n(.*?)\n\n", README, re.DOTALL)
    codes = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.M)}
    assert codes == set(EXIT_CODES.values()) | {2}


@pytest.mark.parametrize("arguments", [[], ["-c"]], ids=["chat", "chat -c"])
def test_the_chat_starts_and_leaves(arguments: list[str], tmp_path: Path, sayso_home: Path) -> None:
    command = [sys.executable, "-m", "agent", "chat", *arguments]
    with Terminal(tmp_path, command, environment={"SAYSO_HOME": str(sayso_home)}) as terminal:
        terminal.expect_on_screen("offline")
        terminal.expect_on_screen("›")
        terminal.send("\x04")
        assert terminal.close() == 0
