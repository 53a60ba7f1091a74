"""The README is run: what it shows is what happens, in one folder, from top to bottom.

A fenced block is read by its language and by the HTML comment before it:

- ``console``: each ``$ command`` is run, its standard output compared. Ids and times may differ,
  the same id standing for the same thing throughout; ``…`` stands for anything.
- ``<!-- file: NAME -->``: the block is written to that file.
- ``<!-- not run: WHY -->``: not run here; its commands and options must exist.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.program import TIMEOUT, Invoke
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent

_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*?) -->\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.DOTALL | re.M
)
_ID = r"\b[aers]-[0-9a-z]{6,9}\b"
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the comment before it, its text."""

    language: str
    mark: str
    text: str

    @property
    def file(self) -> str:
        """The file that it is written to; empty when it is none."""
        return self.mark.removeprefix("file: ") if self.mark.startswith("file: ") else ""

    @property
    def runs(self) -> bool:
        return self.language == "console"


BLOCKS = [Block(m["language"], m["mark"] or "", m["text"]) for m in _BLOCK.finditer(README)]


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """Each command of a console block with the output that is shown below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.rstrip()


class Shell:
    """Runs commands one after the other; knows which real id a shown one stands for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ids: dict[str, str] = {}
        self._code = 0

    def run(self, command: str) -> str:
        """Run one command with the exit code of the one before as ``$?``; its output."""
        real = re.sub(_ID, lambda shown: self.ids.get(shown[0], shown[0]), command)
        done = subprocess.run(
            ["/bin/sh", "-c", f"(exit {self._code})\n{real}"],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{BIN}:/usr/bin:/bin", "COLUMNS": "200"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        self._code = done.returncode
        self._said = done.stderr
        self._expect_ids_of_approvals(done.stderr)
        return done.stdout.rstrip()

    def check(self, shown: str, printed: str) -> None:
        """Compare what is shown with what was printed, and learn which ids are meant."""
        match = self._pattern(shown).fullmatch(_TIME.sub("TIME", printed))
        assert match, f"README shows:\n{shown}\nprinted:\n{printed}\nstderr:\n{self._said}"
        for name, real in match.groupdict().items():
            known = self.ids.setdefault(name.replace("_", "-"), real)
            assert known == real, f"{name} stands for {known} and for {real}"

    def _pattern(self, shown: str) -> re.Pattern[str]:
        names: set[str] = set()
        pattern = ""
        for piece in re.split(rf"({_ID}|…)", _TIME.sub("TIME", shown)):
            name = piece.replace("-", "_")
            if piece == "…":
                pattern += ".*"
            elif not re.fullmatch(_ID, piece):
                pattern += re.escape(piece)
            elif name in names:
                pattern += f"(?P={name})"
            else:
                names.add(name)
                pattern += f"(?P<{name}>{_ID})"
        return re.compile(pattern)

    def _expect_ids_of_approvals(self, said: str) -> None:
        """The approval of a headless run is named on stderr, and counted as in the README."""
        for real in dict.fromkeys(re.findall(r"^Decide: sayso approve (a-\w+)", said, re.M)):
            if real not in self.ids.values():
                number = sum(name.startswith("a-") for name in self.ids) + 1
                self.ids[f"a-{number}kq7wx"] = real


@pytest.mark.timeout(600)  # some twenty programs, each with its own limit
def test_every_console_block_does_what_it_shows(folder: Path) -> None:
    shell, ran = Shell(folder), 0
    for block in BLOCKS:
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.runs:
            for command, shown in commands_of(block):
                shell.check(shown, shell.run(command))
                ran += 1
    assert ran >= 15


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
    prose = _BLOCK.sub("", README)
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
