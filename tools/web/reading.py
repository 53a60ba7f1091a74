"""What a page says: its bytes as text, and of HTML the text that a reader would look for.

HTML is read by a process of its own (``reader.py``), which ends when its time, its memory or its
caller does: a page made for it could keep a parser busy for ever, and nothing stops a thread.
"""

from __future__ import annotations

import asyncio
import codecs
import json
import re
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.contract import ToolFailure
from tools.web.fetching import HTML, Answer, check_type

SECONDS = 10.0
MEMORY = 2**30  # bytes
MAX_TITLE = 200  # characters
_READER = Path(__file__).with_name("reader.py")

_BOMS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_TEXTS = ("text/html", "text/plain")
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META_WITHIN = 1024  # bytes, as browsers look for it
# Encodings of the web. Python knows others that are none of text, or slow on purpose-made input.
_ENCODINGS = re.compile(
    r"utf-8|utf-16(-[bl]e)?|cp(125\d|866|932|949|950|874)|iso8859-\d+|koi8-[ru]|mac-(roman|cyrillic)"
    r"|gb2312|gbk|gb18030|big5|euc_jp|euc_kr|shift_jis|iso2022_jp"
)
_WINDOWS_1252 = ("ascii", "iso8859-1")  # what pages that say so are written in
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Text:
    """A page as it is read.

    Args:
        text: All of it.
        title: In one line; empty: it has none.
        date: YYYY-MM-DD, of publication, as the page says; empty: it does not.
        article: Whether ``text`` is the article on the page, without what stands around it.
        whole: Whether that is all there was.
    """

    text: str
    title: str = ""
    date: str = ""
    article: bool = False
    whole: bool = True


async def read(answer: Answer, *, links: bool = False, seconds: float = SECONDS) -> Text:
    """The text of an answer.

    Args:
        links: Of HTML all text instead of the article, and with the address of each link.

    Raises:
        ToolFailure: It has no text, or cannot be read in time.
    """
    looks = _sniffed(answer)
    mime = answer.mime if answer.mime and looks in _TEXTS else looks
    check_type(answer.url, mime)
    if mime not in HTML:
        return Text(_clean(decoded(answer.body, answer.charset)), whole=answer.whole)
    meta = _META_CHARSET.search(answer.body[:_META_WITHIN])
    named = answer.charset or (meta[1].decode("ascii") if meta else "")
    return await _read_html(decoded(answer.body, named), answer, links, seconds)


def decoded(body: bytes, charset: str) -> str:
    """Bytes as text: by their mark, by the encoding that is named, as UTF-8, as Windows-1252."""
    for mark, encoding in _BOMS.items():
        if body.startswith(mark):
            return body[len(mark) :].decode(encoding, "replace")
    if encoding := _encoding(charset):
        return body.decode(encoding, "replace")
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        cut_within_a_character = error.reason == "unexpected end of data"
        return body.decode("utf-8" if cut_within_a_character else "cp1252", "replace")


def _encoding(charset: str) -> str:
    try:
        name = codecs.lookup(charset).name if charset else ""
    except (LookupError, ValueError):
        return ""
    if name in _WINDOWS_1252:
        return "cp1252"
    return name if _ENCODINGS.fullmatch(name) else ""


def _sniffed(answer: Answer) -> str:
    """What an answer looks like, whatever it calls itself."""
    start = answer.body[:_META_WITHIN].lstrip()
    if start.startswith(b"%PDF-"):
        return "application/pdf"
    is_wide = answer.body.startswith(_WIDE) or answer.charset.lower().startswith("utf-16")
    if b"\0" in start and not is_wide:
        return "application/octet-stream"
    return "text/html" if start.startswith(b"<") else "text/plain"


def _clean(text: str) -> str:
    """Without characters that are not seen, lines ending in a newline."""
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


async def _read_html(html: str, answer: Answer, links: bool, seconds: float) -> Text:
    asked = {"html": _clean(html), "url": str(answer.url), "links": links}
    asked |= {"seconds": seconds, "memory": MEMORY}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-X", "utf8", str(_READER)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
    )
    try:
        async with asyncio.timeout(seconds):
            said, _ = await process.communicate(json.dumps(asked).encode())
        found = json.loads(said)
    except (TimeoutError, ValueError) as error:  # or it was ended by its own limits
        raise ToolFailure(
            f"{answer.url} is too large or too tangled to be read within {seconds:g} seconds. Use "
            "another source."
        ) from error
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    title = " ".join(_clean(found["title"]).split())[:MAX_TITLE]
    whole = answer.whole and found["whole"]
    return Text(_clean(found["text"]), title, found["date"], found["article"], whole)
