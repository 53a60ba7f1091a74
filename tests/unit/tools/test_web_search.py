"""Search with the real library, against a page of results of our own on a real socket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from urllib.parse import parse_qs

import pytest

from tests.support.served import closed_port
from tests.support.site import Page, Site, site
from tools.contract import TransientFailure
from tools.web import plain_web_tools
from tools.web.searching import HOST, MAX_SNIPPET, MAX_TITLE, Hit, duckduckgo


def result(title: str, url: str, snippet: str) -> str:
    """A result as the service writes it."""
    return f"""<div class="result results_links"><div class="links_main result__body">
    <h2 class="result__title"><a class="result__a" href="{url}">{title}</a></h2>
    <a class="result__snippet" href="{url}">{snippet}</a></div></div>"""


def results(*found: str) -> Page:
    return Page(f"<html><body><div id='links'>{''.join(found)}</div></body></html>")


@pytest.fixture
def service() -> Iterator[Site]:
    with site() as served:
        yield served


def asked(service: Site) -> str:
    return f"http://127.0.0.1:{service.port}/html/"


def test_results_come_in_order_as_title_url_and_snippet(service: Site) -> None:
    service.pages["/html/"] = results(
        result("Trips <b>2026</b>", "https://a.example/1", "2.1 million\n trips"),
        result("Other", "http://b.example/2?x=y&amp;z", "more"),
    )
    assert duckduckgo("trips & more", url=asked(service)) == [
        Hit("Trips 2026", "https://a.example/1", "2.1 million trips"),
        Hit("Other", "http://b.example/2?x=y&z", "more"),
    ]
    (body,) = service.bodies
    assert parse_qs(body.decode())["q"] == ["trips & more"]


def test_what_cannot_be_fetched_and_advertisements_are_left_out(service: Site) -> None:
    service.pages["/html/"] = results(
        result("Ad", "https://duckduckgo.com/y.js?ad_provider=x", "buy"),
        result("Script", "javascript:alert(1)", "x"),
        result("Inside", "http://intranet/", "x"),
        result("Number", "http://2130706433/", "x"),
        result("Good", "https://a.example/", "x"),
    )
    assert [hit.title for hit in duckduckgo("x y", url=asked(service))] == ["Good"]


def test_the_words_of_strangers_are_bounded(service: Site) -> None:
    service.pages["/html/"] = results(result("t" * 9_000, "https://a.example/", "s\u202e " * 9_000))
    (hit,) = duckduckgo("x y", url=asked(service))
    assert (len(hit.title), len(hit.snippet)) == (MAX_TITLE, MAX_SNIPPET)
    assert hit.title.endswith("…")
    assert "\u202e" not in hit.snippet


@pytest.mark.parametrize("status", [202, 403, 429, 500])
def test_a_refusal_is_not_taken_for_nothing_found(service: Site, status: int) -> None:
    service.pages["/html/"] = Page("<html>challenge</html>", status=status)
    with pytest.raises(TransientFailure, match=f"HTTP {status}"):
        duckduckgo("x y", url=asked(service))


def test_nothing_found_is_no_failure(service: Site) -> None:
    service.pages["/html/"] = results()
    assert duckduckgo("x y", url=asked(service)) == []
    search, _ = plain_web_tools(search=partial(duckduckgo, url=asked(service)))
    assert json.loads(search.function("x y")) == {
        "results": [],
        "note": "Nothing was found. Try fewer or other words.",
    }


@pytest.mark.parametrize("body", ["<!-- empty -->", "<?xml version='1.0' encoding='a'?>"])
def test_a_page_that_the_library_cannot_read_is_a_failure_in_words(
    service: Site, body: str
) -> None:
    service.pages["/html/"] = Page(body)
    with pytest.raises(TransientFailure, match="could not be read"):
        duckduckgo("x y", url=asked(service))


def test_a_service_that_is_not_there_says_so() -> None:
    with pytest.raises(TransientFailure, match="could not be reached"):
        duckduckgo("x y", url=f"http://127.0.0.1:{closed_port()}/")


def test_as_many_results_are_shown_as_were_asked_for(service: Site) -> None:
    found = [result(f"Page {n}", f"https://a.example/{n}", "x") for n in range(7)]
    service.pages["/html/"] = results(*found)
    search, _ = plain_web_tools(search=partial(duckduckgo, url=asked(service)))
    shown = json.loads(search.function("x y", 3))
    assert [page["url"] for page in shown["results"]] == [
        f"https://a.example/{n}" for n in range(3)
    ]
    assert shown["note"] == "The first 3 of 7."
    assert json.loads(search.function("x y", 7))["note"] == "All that the search returned."


def test_the_effects_name_the_host_that_a_query_goes_to() -> None:
    search, _ = plain_web_tools()
    assert search.contract.effects == {"network:web", f"network:web.{HOST}"}
