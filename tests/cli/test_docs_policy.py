"""The page about policies is run, and what it lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.policy import model, reading
from agent.policy.language import FUNCTIONS, LONGEST, MACROS, ORIGINS, ROOTS
from tests.cli.pages import Shell, blocks_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "policy.md").read_text(encoding="utf-8")
BLOCKS = blocks_of(PAGE)


@pytest.mark.timeout(300)  # some five programs, each with its own limit
def test_what_it_shows_is_what_happens(folder: Path) -> None:
    assert Shell(folder).follow(BLOCKS) == 4


def test_every_block_is_run_or_a_file() -> None:
    assert all(block.runs or block.file for block in BLOCKS)


def first_cells(heading: str) -> set[str]:
    """The names in the first column of a table."""
    (table,) = re.findall(rf"^\| {heading} \|.*?\n\n", PAGE, re.DOTALL | re.M)
    cells = re.findall(r"^\| ([^|]*) \|", table, re.M)
    return {name for cell in cells for name in re.findall(r"`(\w+)", cell)}


def test_every_field_is_explained() -> None:
    page, _, tests = PAGE.partition("## Tests")
    assert first_cells("field of a rule") == set(reading._RULE)
    assert first_cells("field \\| is") == set(ROOTS)
    (file,) = re.findall(r"## A file\n\n(.*?)\n\n", page, re.DOTALL)
    assert set(re.findall(r"^\| `(\w+)` \|", file, re.M)) == set(reading._TOP)
    assert set(re.findall(r"`(\w+)`", tests)) >= set(reading._CASE) - {"name"}


def test_every_function_and_origin_is_named() -> None:
    for word in (*FUNCTIONS, *MACROS, *ORIGINS):
        assert re.search(rf"\b{word}\b", PAGE), word


def test_the_bounds_are_those_of_the_program() -> None:
    words = " ".join(PAGE.split())
    assert f"at most {LONGEST:,} characters" in words
    assert f"at most {reading.SIZE_LIMIT // 2**20} MiB" in words
    for name in model.Recipients.__dataclass_fields__["arguments"].default:
        assert f"`{name}`" in PAGE
