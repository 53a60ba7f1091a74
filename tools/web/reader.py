"""Reads HTML in a process of its own; imports nothing of the project, so that it starts quickly.

On standard input a JSON object: ``html``, ``url``, ``links``, ``seconds``, ``memory`` (bytes). On
standard output another one: ``text``, ``whole``, ``title``, ``date``, ``article``. A page that
takes more than that ends the process without one.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import urljoin

MAX_TEXT = 2_000_000  # characters
MAX_SEARCHED = 1_000_000  # characters; an article is looked for in at most as many
MIN_ARTICLE = 200  # characters; less is a caption, or a sentence about cookies

_NOT_SHOWN = ("script", "style", "noscript", "template", "svg", "head", "object", "select")
_BLOCKS = (
    *("address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "figure"),
    *("footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav"),
    *("ol", "p", "pre", "section", "table", "tr", "ul"),
)
_BEFORE = dict.fromkeys(_BLOCKS, "\n")
_AFTER = {**_BEFORE, "td": " | ", "th": " | "}


def read(html: str, url: str, links: bool) -> dict[str, Any]:
    """What ``main`` writes.

    The article is Markdown. Instead of it all text is taken where ``links`` are wanted, where
    there is no article, and of a page so large that to look for one would take too long.
    """
    title = date = article = ""
    if len(html) <= MAX_SEARCHED:
        title, date = _metadata(html, url)
        article = "" if links else _article(html, url)
    text = article or all_text(html, url, links)
    return {
        "text": text[:MAX_TEXT],
        "whole": len(text) <= MAX_TEXT,
        "title": title,
        "date": date,
        "article": bool(article),
    }


def _metadata(html: str, url: str) -> tuple[str, str]:
    """Title and date of publication as the page names them; empty where it does not."""
    from trafilatura import extract_metadata

    with suppress(Exception):  # whatever a page makes of the library, its text can be read
        if known := extract_metadata(_parsed(html), default_url=url, extensive=False):
            return known.title or "", known.date or ""
    return "", ""


def _article(html: str, url: str) -> str:
    """The article on a page; empty where none is found."""
    from trafilatura import extract

    with suppress(Exception):
        found = extract(_parsed(html), url=url, output_format="markdown", include_comments=False)
        return found if found and len(found) >= MIN_ARTICLE else ""
    return ""


def all_text(html: str, url: str, links: bool) -> str:
    """All text of a page, a line a block; with ``links`` as ``[words](address)``."""
    from lxml.etree import iterwalk  # type: ignore[import-untyped]

    page = _parsed(html)
    base = _joined(url, next((b.get("href") for b in page.iter("base") if b.get("href")), ""))
    pieces: list[str] = []
    linked = 0  # where the words of a link begin
    walk = iterwalk(page, events=("start", "end"))
    for event, element in walk:
        tag = element.tag
        if event == "start":
            pieces.append(_BEFORE.get(tag, ""))
            linked = len(pieces) if tag == "a" else linked
            if tag in _NOT_SHOWN:
                walk.skip_subtree()
            else:
                pieces.append(element.text or "")
        else:
            if links and tag == "a":
                pieces[linked:] = [_link(pieces[linked:], _joined(base, element.get("href", "")))]
            pieces += (_AFTER.get(tag, ""), element.tail or "")
    lines = (" ".join(line.split()) for line in "".join(pieces).split("\n"))
    return "\n".join(line for line in lines if line)


def _parsed(html: str) -> Any:
    """A page as a tree; one that is a fragment gets the head and the body that it lacks."""
    from lxml.html import HTMLParser, document_fromstring  # type: ignore[import-untyped]

    parser = HTMLParser(remove_comments=True, remove_pis=True)
    return document_fromstring(f"<html>{html}", parser=parser)


def _link(pieces: list[str], address: str) -> str:
    words = " ".join("".join(pieces).split())
    if not words or not address.startswith(("https://", "http://")):
        return words
    return f"[{words}]({''.join(address.split())})"


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:
        return ""


def _bound(seconds: float, memory: int) -> None:
    """Bound what this process may use, where the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        whole = int(seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (whole, whole))
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def main() -> None:
    """Read one page."""
    asked = json.load(sys.stdin)
    _bound(asked["seconds"], asked["memory"])
    found = read(asked["html"], asked["url"], asked["links"])
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
