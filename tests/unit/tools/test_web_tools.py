"""The two tools as a session has them: contracts, arguments, parts of a long text, the extra."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import tools.web
from agent.toolset import Places, load_tools
from tests.cli.pages import blocks_of
from tests.support.site import Page, Site, site, web_to
from tools.contract import PlainTool, ToolFailure, is_read
from tools.web import plain_web_tools
from tools.web.arguments import WebFetch
from tools.web.calls import PART
from tools.web.fetching import Limits
from tools.web.reading import MEMORY, SECONDS
from tools.web.searching import HOST

PAGES = ("security.md", "tools.md")


@pytest.fixture(scope="module")
def local() -> Iterator[Site]:
    with site() as served:
        yield served


def fetch_of(local: Site) -> PlainTool:
    _, fetch = plain_web_tools(web_to(local))
    return fetch


async def fetch(local: Site, path: str = "/", **more: Any) -> str:
    return await fetch_of(local).call({"url": local.at(path), **more})


def test_both_only_read_and_what_they_bring_is_strangers_text() -> None:
    for tool in plain_web_tools():
        contract = tool.contract
        effects = contract.effects_of({"url": "https://Site.Example./a", "query": "x y"})
        assert is_read(effects)
        assert (contract.open_world, contract.private) == (True, False)
        assert tool.args.model_json_schema()["additionalProperties"] is False
    assert effects == {"network:web", "network:web.site.example"}


# --- arguments -------------------------------------------------------------------------------


def test_a_url_is_asked_for_and_shown_in_one_spelling() -> None:
    given = WebFetch(url=" HTTPS://Bücher.Example/a#b ")
    assert given.url == "https://xn--bcher-kva.example/a"
    assert WebFetch(url=given.url) == given


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"url": "file:///etc/passwd"}, "This url cannot be fetched: it has to begin with https"),
        ({"url": "http://0x7f000001/"}, "its host is a number"),
        ({"url": "https://a.example/", "offset": -1}, "greater than or equal to 0"),
        ({"url": "https://a.example/", "timeout": 1}, "Extra inputs are not permitted"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_in_words(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        WebFetch(**given)


# --- what is returned ------------------------------------------------------------------------


async def test_a_page_begins_with_where_it_came_from(local: Site) -> None:
    local.pages["/a"] = Page(f"<title>Trips</title><article><p>{'A sentence. ' * 40}</p></article>")
    text = await fetch(local, "/a")
    head, _, body = text.partition("\n\n")
    assert head == f"Trips\n{local.at('/a')} · the article on the page"
    assert body == "A sentence. " * 39 + "A sentence."


async def test_json_comes_as_it_is(local: Site) -> None:
    local.pages["/"] = Page('{"a":\n [1]}', type="application/json")
    assert await fetch(local) == f'{local.at("/")} · application/json\n\n{{"a":\n [1]}}'


async def test_a_page_without_text_says_so(local: Site) -> None:
    local.pages["/"] = Page("<html><script>draw()</script></html>")
    assert (await fetch(local)).endswith(
        "[The page has no text: it may need a browser. Use another source.]"
    )


async def test_a_long_text_comes_in_parts_that_say_how_to_read_on(local: Site) -> None:
    whole = "".join(f"{n} " for n in range(PART // 2))
    local.pages["/"] = Page(whole, type="text/plain")
    first = await fetch(local)
    assert first.endswith(f"\n\n[cut: {PART} of {len(whole)} characters; ask with offset={PART}]")
    last = await fetch(local, offset=2 * PART)
    assert last.endswith(f"\n\n[the end: {len(whole)} characters in all]")
    with pytest.raises(ToolFailure, match=f"has {len(whole)} characters; there are none from"):
        await fetch(local, offset=len(whole))


@given(st.integers(0, 3 * PART + 1))
async def test_the_parts_of_a_text_are_the_text(local: Site, length: int) -> None:
    whole = "".join(chr(97 + n % 26) for n in range(length))
    local.pages["/"] = Page(whole or " ", type="text/plain")
    parts, offset = "", 0
    while True:
        text = await fetch(local, offset=offset)
        part, _, mark = text.partition("\n\n")[2].partition("\n\n[")
        parts += part
        if "offset=" not in mark:
            break
        offset = int(mark.partition("offset=")[2].rstrip("]"))
    assert parts == (whole or " ")


async def test_what_was_not_read_to_its_end_says_so(local: Site) -> None:
    local.pages["/"] = Page("a" * 5_000, type="text/plain")
    _, small = plain_web_tools(web_to(local, limits=Limits(unpacked=1_000)))
    text = await small.call({"url": local.at("/")})
    assert text.endswith("[the page is larger, and the rest of it was not read]")


# --- on the pages for people ------------------------------------------------------------------

ROOT = Path(__file__).parents[3]


def test_the_example_of_a_place_inside_works_as_it_is(tmp_path: Path) -> None:
    (example,) = (b for b in blocks_of((ROOT / "docs/tools.md").read_text()) if b.file == "wiki.py")
    (tmp_path / "wiki.py").write_text(example.text)
    loaded = load_tools([str(tmp_path / "wiki.py")], Places(tmp_path, None)).tools
    assert [tool.name for tool in loaded] == ["web_search", "web_fetch"]


def test_the_bounds_on_the_pages_are_those_of_the_program() -> None:
    security, guide = (" ".join((ROOT / "docs" / name).read_text().split()) for name in PAGES)
    limits = Limits()
    assert f"{limits.seconds:g} seconds, {limits.packed >> 20} MiB as sent" in security
    assert f"{limits.unpacked >> 20} MiB unpacked" in security
    assert f"with {SECONDS:g} seconds, {MEMORY >> 30} GiB" in security
    assert ("five times at most" in security) == (limits.redirects == 5)
    assert f"parts of {PART:,} characters" in guide
    assert f"network:web.{HOST}" in guide


# --- the extra -------------------------------------------------------------------------------


def test_without_the_extra_the_tools_are_off_and_the_command_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(tmp_path, None)
    assert [tool.name for tool in load_tools(["web"], places).tools] == ["web_search", "web_fetch"]
    monkeypatch.setattr(tools.web, "LIBRARIES", ("ddgs", "a_library_that_is_not_there"))
    toolset = load_tools(["web", "research"], places)
    assert toolset.domains == ("research",)
    assert toolset.notices == (
        "web tools are off: the extra is not installed: pip install 'sayso[web]'",
    )
