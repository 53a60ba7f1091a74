"""The pages for people: links lead somewhere, what they name exists, the picture is current."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PICTURE = ROOT / "docs" / "session.svg"
HOSTS = {"localhost", "127.0.0.1", "www.w3.org"}

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def prose(page: Path) -> str:
    """The page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names that links into the page can have, as GitHub makes them of its headings."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        parts = urlsplit(target)
        assert not parts.scheme, f"{page.name} links out: {target}"
        linked = (page.parent / parts.path).resolve() if parts.path else page
        assert linked.exists(), f"{page.name} links to {target}"
        if parts.fragment:
            assert parts.fragment in anchors(linked), f"{page.name} links to {target}"


@each_page
def test_the_files_it_names_exist(page: Path) -> None:
    tops = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for name in re.findall(r"`([\w.-]+/[\w./-]*)`", prose(page)):
        top = name.split("/")[0]
        if top in tops:
            assert (ROOT / name).exists(), f"{page.name} names {name}"
    for name in re.findall(r"`(\.env\.example|langgraph\.json|requirements\.lock)`", prose(page)):
        assert (ROOT / name).exists()


@each_page
def test_the_settings_it_names_exist(page: Path) -> None:
    from agent.config import VARIABLES

    named = set(re.findall(r"\b(?:SAYSO|OPENAI)_[A-Z_]+[A-Z]\b", page.read_text(encoding="utf-8")))
    assert named <= set(VARIABLES)


def test_the_contract_table_has_every_field() -> None:
    source = ast.parse((ROOT / "tools" / "contract.py").read_text(encoding="utf-8"))
    (contract,) = (
        node for node in source.body if isinstance(node, ast.ClassDef) and node.name == "Contract"
    )
    fields = {node.target.id for node in contract.body if isinstance(node, ast.AnnAssign)}  # type: ignore[union-attr]
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"\| field \| means \|.*?\n\n", text, re.DOTALL)
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == fields


def test_every_part_of_the_agent_is_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = {path.stem for path in (ROOT / "agent").iterdir() if not path.name.startswith("__")}
    (table,) = re.findall(r"\| part \| holds \|.*?\n\n", text, re.DOTALL)
    assert set(re.findall(r"`agent/(\w+)[./]", table)) == parts


@pytest.mark.parametrize("page", [*PAGES, PICTURE, ROOT / "docs" / "render.py"], ids=str)
def test_no_foreign_host_is_named(page: Path) -> None:
    found = re.findall(r"https?://[^\s\"'`)<>]+", page.read_text(encoding="utf-8"))
    assert {urlsplit(url).hostname for url in found} <= HOSTS


def words(svg: str) -> list[str]:
    """The texts of a picture, in order, digits left out: counts of tokens change easily."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    return [re.sub(r"\d", "0", unescape(text)) for text in texts]


def test_the_picture_shows_the_panel() -> None:
    from agent.repl.panel import _HEADINGS
    from agent.repl.questions import KEY_MARK

    shown = words(PICTURE.read_text(encoding="utf-8"))
    assert any(text.startswith(_HEADINGS["write"]) for text in shown)
    assert any(text.startswith("y approve · e edit · n reject") for text in shown)
    assert {"arguments", "what would change", "where the values occur", "Receipt"} <= set(shown)
    assert KEY_MARK not in shown, "the picture ends at the prompt, not at the question"


def test_the_picture_is_what_the_program_draws(tmp_path: Path) -> None:
    fresh = tmp_path / "session.svg"
    command = [sys.executable, str(ROOT / "docs" / "render.py"), "--output", str(fresh)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    drawn, kept = (words(path.read_text(encoding="utf-8")) for path in (fresh, PICTURE))
    assert drawn == kept, "the program has changed: run make docs, look at it, and keep it"
