"""Pages that are run: what they show is what happens.

A fenced block is read by its language and by the HTML comment before it:

- ``console``: each ``$ command`` is run, its standard output compared. Ids and times may differ,
  the same id standing for the same thing throughout; ``…`` stands for anything.
- ``<!-- file: NAME -->``: the block is written to that file.
- ``<!-- not run: WHY -->``: not run here.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.cli.program import TIMEOUT

BIN = Path(sys.executable).parent

BLOCK = re.compile(
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


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, from top to bottom."""
    return [Block(m["language"], m["mark"] or "", m["text"]) for m in BLOCK.finditer(page)]


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

    def follow(self, blocks: Iterable[Block]) -> int:
        """Write the files and run the commands of a page; how many commands that were."""
        ran = 0
        for block in blocks:
            if block.file:
                (self.folder / block.file).write_text(block.text, encoding="utf-8")
            elif block.runs:
                for command, shown in commands_of(block):
                    self.check(shown, self.run(command))
                    ran += 1
        return ran

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
        self._code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        self._said = done.stderr
        self._expect_ids_of_approvals(done.stderr)
        return done.stdout.rstrip()

    def check(self, shown: str, printed: str) -> None:
        """Compare what is shown with what was printed, and learn which ids are meant."""
        match = self._pattern(shown).fullmatch(_TIME.sub("TIME", printed))
        assert match, f"the page shows:\n{shown}\nprinted:\n{printed}\nstderr:\n{self._said}"
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
