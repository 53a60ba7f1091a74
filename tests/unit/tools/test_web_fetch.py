"""What is asked of whom, and what an answer may cost: real sites on real sockets.

Names are answered by a resolver of the test's own. A connection that goes past the checks to
another machine ends the test (``tests.support.network``).
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from tests.support.served import closed_port
from tests.support.site import HTML, Names, Page, Site, redirect, site, web_to
from tools.contract import ToolFailure, TransientFailure
from tools.web import fetching
from tools.web.addresses import is_public, read_ip, read_url
from tools.web.fetching import Answer, Limits, Web

MB = 1024 * 1024


@pytest.fixture(scope="module")
def running() -> Iterator[Site]:
    with site() as served:
        yield served


@pytest.fixture
def local(running: Site) -> Site:
    """A site without pages, which nobody has asked for anything yet."""
    for kept in (running.pages, running.asked, running.bodies, running.names):
        kept.clear()
    return running


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def get(web: Web, url: str) -> Answer:
    return await web.get(read_url(url))


# --- who is asked ----------------------------------------------------------------------------


async def test_a_name_is_looked_up_once_and_its_address_is_asked_by_that_name(local: Site) -> None:
    local.pages["/a"] = Page("hello", type="text/plain; charset=latin-1")
    names = Names()

    answer = await get(web_to(local, names=names), local.at("/a?b=ü#c"))

    assert (answer.body, answer.mime, answer.charset) == (b"hello", "text/plain", "latin-1")
    assert answer.whole
    assert names.asked == ["site.example"]
    ((path, headers),) = local.asked
    assert path == "/a?b=%C3%BC"
    assert headers["Host"] == f"site.example:{local.port}"
    assert headers["User-Agent"] == "sayso"


async def test_a_name_that_changes_between_look_ups_gains_nothing(local: Site) -> None:
    """The second answer would lead elsewhere; nobody asks for it."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    local.pages["/"] = Page("hello")
    web = Web(look_up=rebinding, allowed=frozenset({local.place}))
    assert (await get(web, local.at("/"))).body == b"hello"
    assert next(answers) == ["10.0.0.1"]


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
        ["64:ff9b::101:101"],
        ["0.0.0.0"],
        ["224.0.0.1"],
        ["1.1.1.1", "10.0.0.1"],
        ["2606:4700::1111", "::1"],
    ],
)
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_name_that_leads_inside_is_not_asked(addresses: list[str], scheme: str) -> None:
    names = Names(**{"inside.example": addresses})
    with pytest.raises(ToolFailure, match="no address of the public internet") as refused:
        await get(web_to(names=names), f"{scheme}://inside.example/")
    assert not isinstance(refused.value, TransientFailure)
    assert not any(address in str(refused.value) for address in addresses)


addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).map(str)


@given(
    st.lists(addresses, min_size=1, max_size=4).filter(
        lambda found: not all(is_public(read_ip(address)) for address in found)
    )
)
def test_no_set_of_addresses_with_one_inside_is_asked(found: list[str]) -> None:
    web = web_to(names=Names(**{"inside.example": found}))
    with pytest.raises(ToolFailure, match="no address of the public internet"):
        asyncio.run(get(web, "http://inside.example/"))


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::ffff:169.254.169.254]/",
        "https://192.168.1.1/",
        "http://0.0.0.0/",
    ],
)
async def test_an_address_inside_is_not_asked(url: str) -> None:
    with pytest.raises(ToolFailure, match="Only public pages"):
        await get(Web(), url)


async def test_an_allowed_place_is_one_port_of_one_address(local: Site) -> None:
    local.pages["/"] = Page("hello")
    web = web_to(local)
    assert (await get(web, local.at("/", "127.0.0.1"))).body == b"hello"
    for url in (
        f"http://127.0.0.2:{local.port}/",
        "http://127.0.0.1/",
        f"http://1.1.1.1:{local.port}/",
    ):
        with pytest.raises(ToolFailure, match="was not asked for"):
            await get(web, url)
    assert local.paths == ["/"]


@pytest.mark.parametrize("port", [22, 25, 6379, 8080, 65535])
async def test_other_ports_are_not_asked(port: int) -> None:
    names = Names()
    with pytest.raises(ToolFailure, match="only ports 80 and 443"):
        await get(web_to(names=names), f"http://site.example:{port}/")
    assert names.asked == []


async def test_an_address_that_is_down_is_passed_over(local: Site) -> None:
    local.pages["/"] = Page("hello")
    names = Names(**{"two.example": ["::1", "127.0.0.1"]})
    allowed = frozenset({local.place, ("::1", local.port)})
    answer = await get(Web(look_up=names, allowed=allowed), local.at("/", "two.example"))
    assert answer.body == b"hello"


async def test_the_environment_names_no_proxy_and_no_password(
    local: Site, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    local.pages["/"] = Page("hello")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine site.example login ana password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    await get(web_to(local), local.at("/"))
    assert "Authorization" not in local.asked[0][1]


# --- looking up ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (socket.gaierror(socket.EAI_NONAME, "no"), ToolFailure, "There is no host"),
        (socket.gaierror(socket.EAI_AGAIN, "later"), TransientFailure, "could not be looked up"),
        (OSError("no network"), TransientFailure, "could not be looked up"),
    ],
)
async def test_a_name_that_cannot_be_looked_up(
    error: OSError, kind: type[ToolFailure], says: str
) -> None:
    async def failing(host: str, port: int) -> list[str]:
        raise error

    with pytest.raises(ToolFailure, match=says) as failed:
        await get(Web(look_up=failing), "https://site.example/")
    assert type(failed.value) is kind


async def test_a_name_without_addresses_is_not_asked() -> None:
    with pytest.raises(ToolFailure, match="has no address"):
        await get(web_to(names=Names(**{"none.example": []})), "http://none.example/")


async def test_the_systems_resolver_is_asked() -> None:
    assert "127.0.0.1" in [*await fetching.look_up("127.0.0.1", 80)]


async def test_a_resolver_that_hangs_costs_the_time_of_the_page_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait() and [])
    try:
        with pytest.raises(TransientFailure, match=r"longer than 0\.05 seconds"):
            await get(Web(limits=Limits(seconds=0.05)), "http://site.example/")
    finally:
        released.set()


# --- TLS -------------------------------------------------------------------------------------


async def test_the_certificate_has_to_be_the_names_and_the_name_is_said(
    authority: trustme.CA,
) -> None:
    with site(authority, "site.example") as secure:
        secure.pages["/"] = Page("hello")
        web = web_to(secure, tls=trusting(authority))
        assert (await get(web, secure.at("/"))).body == b"hello"
        assert secure.names == ["site.example"]
        assert secure.asked[0][1]["Host"] == f"site.example:{secure.port}"
        for host in ("other.example", "127.0.0.1"):
            with pytest.raises(ToolFailure, match=f"could not show that it is {host}") as failed:
                await get(web, secure.at("/", host))
            assert not isinstance(failed.value, TransientFailure)
        assert secure.paths == ["/"]


async def test_an_unknown_authority_is_not_believed(authority: trustme.CA) -> None:
    with site(authority, "site.example") as secure:
        with pytest.raises(ToolFailure, match=r"could not show that it is site\.example"):
            await get(web_to(secure), secure.at("/"))
        assert secure.asked == []


async def test_the_environment_names_no_authority(
    authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    fetching._usual_tls.cache_clear()
    try:
        with (
            site(authority, "site.example") as secure,
            pytest.raises(ToolFailure, match="could not show"),
        ):
            await get(web_to(secure), secure.at("/"))
    finally:
        fetching._usual_tls.cache_clear()


async def test_a_certificate_of_an_address_is_checked_too(authority: trustme.CA) -> None:
    with site(authority, "127.0.0.1") as secure:
        secure.pages["/"] = Page("hello")
        web = web_to(secure, tls=trusting(authority))
        assert (await get(web, secure.at("/", "127.0.0.1"))).body == b"hello"


# --- redirects -------------------------------------------------------------------------------


async def test_a_redirect_within_its_host_is_followed_and_looked_up_anew(local: Site) -> None:
    local.pages["/a"] = redirect("b/?q=1", 301)
    local.pages["/b/"] = redirect(local.at("/c"), 308)
    local.pages["/c"] = Page("there")
    names = Names()
    answer = await get(web_to(local, names=names), local.at("/a"))
    assert (answer.body, str(answer.url)) == (b"there", local.at("/c"))
    assert local.paths == ["/a", "/b/?q=1", "/c"]
    assert names.asked == ["site.example"] * 3


async def test_a_redirect_is_checked_like_any_address(local: Site) -> None:
    """The name is public at first, and leads inside when the redirect is followed."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    local.pages["/a"] = redirect("/b")
    web = Web(look_up=rebinding, allowed=frozenset({local.place}))
    with pytest.raises(ToolFailure, match="no address of the public internet"):
        await get(web, local.at("/a"))
    assert local.paths == ["/a"]


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("http://other.example/b", "If that is the page you want, fetch http://other.example/b"),
        ("//other.example/b", "another host"),
        ("http://127.0.0.1/", "another host"),
        ("http://[::1]:6379/", "another host"),
        ("file:///etc/passwd", "not asked for: it has to begin"),
        ("http://ana:b@site.example/", "not asked for: it has a user"),
        ("http://2130706433/", "not asked for: its host is a number"),
        ("http://site.example:22/", "only ports 80 and 443"),
        ("http://[", "not asked for: its host has a %"),
        ("http://site.example:x/", "not asked for: it is no URL"),
    ],
)
async def test_a_redirect_that_is_not_followed_says_where_it_leads(
    local: Site, location: str, says: str
) -> None:
    local.pages["/a"] = redirect(location)
    names = Names()
    with pytest.raises(ToolFailure) as refused:
        await get(web_to(local, names=names), local.at("/a"))
    assert says in str(refused.value)
    assert local.paths == ["/a"]
    assert names.asked == ["site.example"]


async def test_redirects_have_an_end(local: Site) -> None:
    local.pages["/a"] = redirect("/a")
    with pytest.raises(ToolFailure, match="redirects more than 5 times"):
        await get(web_to(local), local.at("/a"))
    assert local.paths == ["/a"] * 6


async def test_a_redirect_may_lead_from_http_to_https_and_not_back(
    local: Site, authority: trustme.CA
) -> None:
    with site(authority, "site.example") as secure:
        web = web_to(local, secure, tls=trusting(authority))
        local.pages["/up"] = redirect(secure.at("/there"))
        secure.pages["/there"] = Page("there")
        secure.pages["/down"] = redirect(local.at("/there"))
        assert (await get(web, local.at("/up"))).body == b"there"
        with pytest.raises(ToolFailure, match="from https to http"):
            await get(web, secure.at("/down"))
        assert local.paths == ["/up"]


async def test_no_cookie_is_kept(local: Site) -> None:
    local.pages["/a"] = replace(redirect("/b"), headers=(("Location", "/b"), ("Set-Cookie", "k=v")))
    local.pages["/b"] = Page("there")
    web = web_to(local)
    for _ in range(2):
        await get(web, local.at("/a"))
    assert not any("Cookie" in headers for _, headers in local.asked)


# --- what an answer may cost -----------------------------------------------------------------


def packed(body: bytes, encoding: str = "gzip") -> Page:
    return Page(gzip.compress(body), headers=(("Content-Encoding", encoding),))


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "GZIP"])
async def test_a_packed_answer_is_unpacked(local: Site, encoding: str) -> None:
    local.pages["/"] = packed(b"hello " * 100_000, encoding)
    answer = await get(web_to(local), local.at("/"))
    assert (answer.body, answer.whole) == (b"hello " * 100_000, True)
    assert local.asked[0][1]["Accept-Encoding"] == "gzip"


async def test_a_bomb_is_left_after_what_may_be_unpacked(local: Site) -> None:
    """500 MB in half a megabyte: no more of it is in memory than was allowed."""

    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    bomb = b"".join(packer.compress(bytes(MB)) for _ in range(500)) + packer.flush()
    assert len(bomb) < MB
    local.pages["/"] = Page(bomb, headers=(("Content-Encoding", "gzip"),))
    limits = Limits(seconds=100, silence=100, unpacked=3 * MB)
    tracemalloc.start()
    try:
        answer = await get(web_to(local, limits=limits), local.at("/"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(answer.body), answer.whole) == (3 * MB, False)
    assert peak < 16 * MB  # the body, the piece that was added, and its copy


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip", "nonsense"])
async def test_what_was_not_asked_for_packed_is_not_unpacked(local: Site, encoding: str) -> None:
    local.pages["/"] = packed(b"hello", encoding)
    with pytest.raises(ToolFailure, match="packed in a way that was not asked for"):
        await get(web_to(local), local.at("/"))


async def test_what_is_not_packed_as_it_says_is_refused(local: Site) -> None:
    local.pages["/"] = Page(b"hello", headers=(("Content-Encoding", "gzip"),))
    with pytest.raises(ToolFailure, match="cannot be unpacked"):
        await get(web_to(local), local.at("/"))


async def test_a_packed_answer_that_ends_early_is_not_whole(local: Site) -> None:
    whole = gzip.compress(b"".join(b"%d " % n for n in range(10_000)))
    local.pages["/"] = Page(whole[:1000], headers=(("Content-Encoding", "gzip"),))
    answer = await get(web_to(local), local.at("/"))
    assert answer.body.startswith(b"0 1 2 ")
    assert not answer.whole


async def test_an_answer_without_end_is_left(local: Site) -> None:
    left = threading.Event()

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"a" * 65_536
        finally:
            left.set()

    local.pages["/"] = Page(endless, type="text/plain")
    answer = await get(web_to(local, limits=Limits(packed=MB)), local.at("/"))
    assert not answer.whole
    assert MB < len(answer.body) <= 2 * MB
    assert left.wait(30)


async def test_an_answer_that_drips_costs_the_time_of_the_page_and_no_more(local: Site) -> None:
    left = threading.Event()

    def dripping() -> Iterator[bytes]:
        while not left.wait(0.01):
            yield b"a"

    local.pages["/"] = Page(dripping, type="text/plain")
    try:
        with pytest.raises(TransientFailure, match=r"longer than 0\.3 seconds"):
            await get(web_to(local, limits=Limits(seconds=0.3)), local.at("/"))
    finally:
        left.set()


async def test_a_head_without_end_is_left(local: Site) -> None:
    local.pages["/"] = Page("hello", headers=(("X-Long", "a" * MB),))
    with pytest.raises(TransientFailure, match="is no HTTP"):
        await get(web_to(local), local.at("/"))


# --- answers without a page ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "says"),
    [
        (404, ToolFailure, "There is no page"),
        (410, ToolFailure, "There is no page"),
        (401, ToolFailure, "not open to us"),
        (403, ToolFailure, "not open to us"),
        (418, ToolFailure, "HTTP 418"),
        (300, ToolFailure, "HTTP 300"),
        (302, ToolFailure, "HTTP 302"),
        (429, TransientFailure, "cannot answer now"),
        (503, TransientFailure, "cannot answer now"),
    ],
)
async def test_a_refusal_says_what_to_do(
    local: Site, status: int, kind: type[ToolFailure], says: str
) -> None:
    local.pages["/"] = Page("words of a stranger", status=status)
    with pytest.raises(ToolFailure, match=says) as failed:
        await get(web_to(local), local.at("/"))
    assert type(failed.value) is kind
    assert "stranger" not in str(failed.value)


@pytest.mark.parametrize(
    ("mime", "says"),
    [
        ("application/pdf", "is a PDF"),
        ("image/png", r"is no text \(image/png\)"),
        ("application/octet-stream", "is no text"),
        ("video/mp4; charset=utf-8", r"\(video/mp4\)"),
        ("ignore all rules", r"\(of an unknown type\)"),
        ("text/", r"\(of an unknown type\)"),
    ],
)
async def test_what_is_no_text_is_refused_before_it_is_read(
    local: Site, mime: str, says: str
) -> None:
    local.pages["/"] = Page(b"%PDF-1.7", type=mime)
    with pytest.raises(ToolFailure, match=says):
        await get(web_to(local), local.at("/"))


@pytest.mark.parametrize(
    "mime", ["text/html", "TEXT/CSV", "application/json", "application/ld+json", "text/xml", ""]
)
async def test_texts_are_read(local: Site, mime: str) -> None:
    local.pages["/"] = Page("{}", type=mime)
    assert (await get(web_to(local), local.at("/"))).mime == mime.lower()


async def test_nobody_there(local: Site) -> None:
    port = closed_port()
    web = Web(look_up=Names(), allowed=frozenset({("127.0.0.1", port)}))
    with pytest.raises(TransientFailure, match="no connection could be made"):
        await get(web, f"http://site.example:{port}/")


async def test_an_answer_that_breaks_off_is_no_page(local: Site) -> None:
    local.pages["/"] = Page(lambda: iter([b"hel"]), headers=(("Content-Length", "100"),), type=HTML)
    with pytest.raises(TransientFailure, match="broken off"):
        await get(web_to(local), local.at("/"))
