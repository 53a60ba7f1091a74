"""The page for authors of tools is run, from top to bottom, in one folder.

How its blocks are read: ``tests.cli.pages``. The service that it starts runs beside it, on a port
of its own.
"""

from __future__ import annotations

import re
import shlex
import shutil
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.pages import Block, Shell, blocks_of
from tests.cli.program import Invoke
from tests.support.served import process
from tools.worlds.serve import PORTS

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "tools" / "template.py"
PAGE = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
BLOCKS = blocks_of(PAGE)
TOKEN = "shop-token-71d0a3c2"


def the_service() -> tuple[list[str], list[str]]:
    """How the page starts the service, and the chat beside it."""
    (block,) = (block for block in BLOCKS if block.language == "sh")
    export, serve, chat = (shlex.split(line, comments=True) for line in block.text.splitlines())
    assert export[:1] == ["export"]
    assert serve[-1] == "&"
    return serve[:-1], chat


def at(url: str, block: Block) -> Block:
    """A block with the address at which the service is in this test."""
    return replace(block, text=block.text.replace(f"http://127.0.0.1:{PORTS['grocery']}", url))


@pytest.mark.timeout(600)  # some ten programs, each with its own limit
def test_what_it_shows_is_what_happens(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder))  # where the template keeps its list
    monkeypatch.setenv("SHOP_TOKEN", TOKEN)
    shutil.copy(TEMPLATE, folder / "shopping.py")
    assert "a copy of the template as `shopping.py`" in PAGE
    (python, flag, module, *options), _ = the_service()
    assert [python, flag, module] == ["python", "-P", "-m"]
    with process(*options, "--port", "0", "--data", str(folder / "shop.db")) as service:
        assert Shell(folder).follow(at(service.url, block) for block in BLOCKS) == 11


def test_the_chat_that_it_starts_could_be(sayso: Invoke) -> None:
    _, (program, command, option, file) = the_service()
    assert program == "sayso"
    assert option in sayso(command, "--help").out
    assert Path(file).name in {block.file for block in BLOCKS}


def test_every_other_piece_of_code_is_the_templates() -> None:
    pieces = [b.text for b in BLOCKS if b.language == "python" and not b.file]
    source = textwrap.dedent(TEMPLATE.read_text(encoding="utf-8"))
    assert pieces
    for piece in pieces:
        assert piece in source, piece


def test_every_block_is_run_or_says_why_not() -> None:
    for block in BLOCKS:
        excerpt = block.language == "python" and not block.file
        assert excerpt or block.runs or block.file or block.mark.startswith("not run: "), block.text


def test_every_field_of_a_contract_is_explained() -> None:
    from tools.contract import Contract

    for field in Contract.__dataclass_fields__:
        assert re.search(rf"`{field}\b", PAGE), field


def test_the_bounds_are_those_of_the_program() -> None:
    from agent.evidence import RECORD_SECONDS
    from agent.middleware.writes import MOST_ATTEMPTS
    from tools.calling import SECONDS

    words = " ".join(PAGE.split())
    assert (MOST_ATTEMPTS, "within three attempts a run" in words) == (3, True)
    assert PAGE.count(f"the same, after {RECORD_SECONDS:g} s |") == 5
    assert PAGE.count(f"the same, after {SECONDS:g} s |") == 3
    assert f"port {PORTS['bank']}" in words
