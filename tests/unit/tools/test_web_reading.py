"""Bytes as text, and HTML as what a reader would look for, in a process that ends."""

from __future__ import annotations

import asyncio
import codecs
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.contract import ToolFailure
from tools.web import reading
from tools.web.addresses import read_url
from tools.web.fetching import Answer
from tools.web.reader import MAX_SEARCHED, MAX_TEXT, all_text
from tools.web.reading import Text, decoded, read

URL = "https://site.example/news/1"
SENTENCE = "The council counted 2.1 million trips in the year, and 1.3 million in the year before. "


def answer(body: bytes | str, mime: str = "text/html", charset: str = "", **more: Any) -> Answer:
    raw = body.encode() if isinstance(body, str) else body
    return Answer(read_url(URL), mime, charset, raw, more.get("whole", True))


def article(text: str = SENTENCE * 4) -> str:
    return f"""<!doctype html><html><head><title>Trips — The Herald</title>
    <meta property="article:published_time" content="2026-03-01T09:00:00Z">
    <script>var tracked = 1;</script></head><body>
    <nav><a href="/">Home</a> <a href="/sport">Sport</a></nav>
    <article><h1>Trips</h1><p>{text}</p><p>See <a href="../tables?y=2026">the tables</a>.</p>
    <table><tr><th>Year</th><th>Trips</th></tr><tr><td>2025</td><td>2.1</td></tr></table></article>
    <footer>Cookies and imprint</footer></body></html>"""


# --- HTML ------------------------------------------------------------------------------------


async def test_the_article_is_read_without_what_stands_around_it() -> None:
    page = await read(answer(article()))
    assert page.article
    assert page.whole
    assert "# Trips" in page.text
    assert SENTENCE.strip() in page.text
    assert "2025" in page.text
    assert not any(word in page.text for word in ("Sport", "imprint", "tracked", "/tables"))
    assert page.title.startswith("Trips")
    assert page.date == "2026-03-01"


async def test_with_links_all_text_is_read_and_each_address_is_whole() -> None:
    page = await read(answer(article()), links=True)
    assert not page.article
    assert "[the tables](https://site.example/tables?y=2026)" in page.text
    assert "[Sport](https://site.example/sport)" in page.text
    assert "Cookies and imprint" in page.text
    assert "tracked" not in page.text


async def test_a_page_without_an_article_is_read_whole() -> None:
    page = await read(answer("<title>T</title><ul><li>Open <b>daily</b><li>from 9</ul>"))
    assert page == Text("Open daily\nfrom 9", title="T")


@pytest.mark.parametrize("html", ["", " ", "<html><body></body></html>", "<!-- only this -->"])
async def test_a_page_without_text_has_none(html: str) -> None:
    assert (await read(answer(html))).text == ""


async def test_a_page_too_large_to_look_for_an_article_is_read_whole() -> None:
    page = await read(answer(f"<p>{SENTENCE}</p>" * (MAX_SEARCHED // len(SENTENCE))))
    assert not page.article
    assert page.text.count("2.1 million") == MAX_SEARCHED // len(SENTENCE)


async def test_what_was_cut_is_not_whole() -> None:
    assert not (await read(answer(article(), whole=False))).whole
    assert not (await read(answer("a", "text/plain", whole=False))).whole


async def test_a_title_is_one_short_line() -> None:
    page = await read(answer(f"<title>a\n\n&#27;\x1b[2J b{'c' * 500}</title><p>text"))
    assert "\n" not in page.title
    assert "\x1b" not in page.title
    assert len(page.title) <= 200


class Started:
    """Watches what is started to read, and may start something else instead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *instead: str) -> None:
        self._start, self._instead = asyncio.create_subprocess_exec, instead
        self.process: asyncio.subprocess.Process | None = None
        self.options: tuple[str, ...] = ()
        self.env: dict[str, str] | None = None
        self.runs = asyncio.Event()
        monkeypatch.setattr(asyncio, "create_subprocess_exec", self._watched)

    async def _watched(self, *command: str, **given: Any) -> asyncio.subprocess.Process:
        self.options, self.env = command[1:-1], given["env"]
        command = (command[0], *self._instead) if self._instead else command
        self.process = await self._start(*command, **given)
        self.runs.set()
        return self.process


HANGING = ("-c", "import time; time.sleep(1000)")


async def test_a_page_that_takes_too_long_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started(monkeypatch, *HANGING)
    with pytest.raises(ToolFailure, match=r"within 0\.2 seconds"):
        await read(answer(article()), seconds=0.2)
    assert started.process is not None
    assert started.process.returncode is not None


async def test_a_reader_ends_with_its_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started(monkeypatch, *HANGING)
    reader = asyncio.create_task(read(answer(article()), seconds=1000))
    await started.runs.wait()
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert started.process is not None
    assert started.process.returncode is not None


async def test_the_reader_gets_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    started = Started(monkeypatch)
    await read(answer(article()))
    assert started.env == {}
    assert "-P" in started.options  # a trafilatura.py of the current folder is not taken for it


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere RLIMIT_AS may bound nothing")
async def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MEMORY", 16 * 1024 * 1024)
    with pytest.raises(ToolFailure, match="too large or too tangled"):
        await read(answer(article()))


async def test_a_text_that_grows_while_it_is_read_is_cut() -> None:
    """Many short links, each of which has a long address."""
    base = f"https://site.example/{'a' * 1900}/"
    html = f'<base href="{base}">' + '<p><a href="b">c</a>' * (MAX_TEXT // len(base) + 1)
    page = await read(answer(html), links=True)
    assert (len(page.text), page.whole) == (MAX_TEXT, False)


MARKS = (
    *("<p>", "<br>", "<a href='/x'>", "<a href='http://['>", "</a>", "<script>", "<td>", "<!--"),
    *("&#1;", "&#0;", "&#xD800;", "\x01", "\ufffe", "<base href='//b.example'>", "<select>"),
)
pieces = st.sampled_from(MARKS) | st.text(max_size=9)


@given(st.lists(pieces).map("".join), st.booleans())
def test_any_text_is_read_as_html(text: str, links: bool) -> None:
    lines = all_text(text.replace("\0", ""), URL, links).split("\n")
    assert all(line == " ".join(line.split()) for line in lines)


# --- other texts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mime", "body"),
    [
        ("text/plain", "a\n  b <b>c</b>"),
        ("application/json", '{"a": [1,\n 2]}'),
        ("text/csv", "a;b\n1;2"),
        ("application/atom+xml", "<feed><entry/></feed>"),
        ("", "no type is said"),
    ],
)
async def test_other_texts_come_as_they_are(mime: str, body: str) -> None:
    assert await read(answer(body, mime)) == Text(body)


async def test_characters_that_are_not_seen_are_left_out() -> None:
    page = await read(answer("a\r\nb\rc\x1b[2J\x07\td\x7f" + "e" * 2000 + "\0", "text/plain"))
    assert page.text == "a\nb\nc[2J\td" + "e" * 2000


@pytest.mark.parametrize("mime", ["text/plain", "text/html", "application/json", ""])
@pytest.mark.parametrize(
    ("body", "says"), [(b"%PDF-1.7\n%\xe2\xe3", "is a PDF"), (b"a\x00\x01\x02" * 9, "is no text")]
)
async def test_what_calls_itself_text_and_is_none_is_refused(
    mime: str, body: bytes, says: str
) -> None:
    with pytest.raises(ToolFailure, match=says):
        await read(answer(body, mime))


async def test_an_answer_that_names_no_type_is_looked_at() -> None:
    assert (await read(answer(article(), ""))).article


# --- encodings -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "charset", "text"),
    [
        ("Grüße €".encode(), "", "Grüße €"),
        ("Grüße €".encode("cp1252"), "", "Grüße €"),
        ("Grüße €".encode("cp1252"), "ISO-8859-1", "Grüße €"),
        ("Grüße €".encode("cp1252"), "us-ascii", "Grüße €"),
        ("Привет".encode("koi8-r"), "KOI8-R", "Привет"),
        ("日本".encode("shift_jis"), "Shift_JIS", "日本"),
        ("日本".encode("euc_jp"), "euc-jp", "日本"),
        (codecs.BOM_UTF8 + "ü".encode(), "iso-8859-1", "ü"),
        (codecs.BOM_UTF16_LE + "ü".encode("utf-16-le"), "", "ü"),
        (codecs.BOM_UTF16_BE + "ü".encode("utf-16-be"), "utf-8", "ü"),
        ("ü".encode(), "no-such-encoding", "ü"),
        ("Grüße".encode()[:-2], "", "Grü\ufffd"),
        (b"\xff\xfe"[:1] + b"a", "utf-8", "\ufffda"),
        (b"", "", ""),
    ],
)
def test_bytes_are_read_by_their_mark_then_by_what_is_named(
    body: bytes, charset: str, text: str
) -> None:
    assert decoded(body, charset) == text


@pytest.mark.parametrize(
    "charset",
    [
        "zip",
        "bz2",
        "hex",
        "rot13",
        "idna",
        "punycode",
        "unicode_escape",
        "utf-7",
        "undefined",
        "a\0",
    ],
)
def test_what_is_no_encoding_of_the_web_is_not_used(charset: str) -> None:
    assert decoded(b"+AGE- \\x61", charset) == "+AGE- \\x61"


@given(st.binary(), st.text(max_size=12))
def test_any_bytes_become_text(body: bytes, charset: str) -> None:
    decoded(body, charset).encode()


async def test_html_may_name_its_own_encoding() -> None:
    html = f"<meta charset='windows-1251'><p>{'Привет ' * 60}".encode("cp1251")
    assert "Привет" in (await read(answer(html))).text
    assert "Привет" not in (await read(answer(html, charset="utf-8"))).text
