"""The open web for a model: it can search, and read public pages. Two reads; nothing is changed.

What they return was written by strangers, and what they are asked leaves this machine: each call
names, as an effect, the host that is asked. They need the extra ``web``.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from tools.contract import Args, Contract, Effects, PlainTool, Scope
from tools.web.addresses import read_url
from tools.web.arguments import WebFetch, WebSearch
from tools.web.calls import Found, WebCalls
from tools.web.fetching import Web
from tools.web.searching import HOST, Search, duckduckgo

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

NETWORK = "network:web"
ANY_HOST = f"{NETWORK}.*"
"""The effect of a call whose host cannot be told: only who may ask any host may make it."""

LIBRARIES = ("ddgs", "trafilatura", "lxml_html_clean")


def missing() -> str | None:
    """What has to be installed for these tools, if anything has."""
    if all(map(find_spec, LIBRARIES)):
        return None
    return "the extra is not installed: pip install 'sayso[web]'"


def plain_web_tools(web: Web | None = None, search: Search = duckduckgo) -> list[PlainTool]:
    """``web_search`` and ``web_fetch``.

    Args:
        web: How pages are reached; by default the public web, and nothing else.
    """
    calls = WebCalls(web or Web(), search)
    return [
        PlainTool(
            calls.web_search,
            args=WebSearch,
            result=Found,
            contract=Contract(effects=_asking(HOST), open_world=True, private=False, version="1"),
        ),
        PlainTool(
            calls.web_fetch,
            args=WebFetch,
            contract=Contract(
                effects=_fetching,
                effect_families=frozenset({NETWORK, ANY_HOST}),
                open_world=True,
                private=False,
                always=_same_page,
                version="1",
            ),
        ),
    ]


def web_tools(web: Web | None = None, search: Search = duckduckgo) -> list[BaseTool]:
    """The plain tools as an agent has them."""
    from tools.langchain_tools import langchain_tool

    return [langchain_tool(tool) for tool in plain_web_tools(web, search)]


def _asking(host: str) -> Effects:
    return frozenset({NETWORK, f"{NETWORK}.{host}"})


def _same_page(args: Args) -> Scope:
    """An address that a person has seen takes nothing out that it did not take out before; any
    other one of that host could."""
    return Scope(f"reading {args['url']} again, any part of it", {"url": {"equals": args["url"]}})


def _fetching(args: Args) -> Effects:
    try:
        return _asking(read_url(args["url"]).host)
    except (KeyError, TypeError, AttributeError, ValueError):
        return frozenset({NETWORK, ANY_HOST})
