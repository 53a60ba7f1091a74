"""Which addresses are public, and which host a URL names; ``inet_aton`` says what systems read."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.web import ANY_HOST, NETWORK, plain_web_tools
from tools.web.addresses import (
    MAX_URL,
    Depth,
    carried,
    depth,
    host_depth,
    is_public,
    read_host,
    read_ip,
    read_url,
)

INSIDE = [
    *(
        "127.0.0.1",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
    ),
    *("169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "ff0e::1", "2001:db8::1"),
    *("100::1", "2001::1", "2001:10::1", "3fff::1", "5f00::1", "64:ff9b:1::1", "4000::1"),
]
CARRYING = [
    "::ffff:8.8.8.8",  # mapped
    "::8.8.8.8",  # compatible
    "::ffff:0:8.8.8.8",  # translated
    "64:ff9b::8.8.8.8",  # NAT64
    "2002:808:808::1",  # 6to4
    "2001:0:808:808:8000:63bf:f7f7:f7f7",  # Teredo
]
PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.215.14", "223.255.255.255", "2606:4700::1111", "2a00::1"]

addresses_v4 = st.builds(IPv4Address, st.integers(0, 2**32 - 1))


@pytest.mark.parametrize("text", [*INSIDE, *CARRYING])
def test_what_is_not_public_is_known(text: str) -> None:
    assert not is_public(ip_address(text))


@pytest.mark.parametrize("text", PUBLIC)
def test_what_is_public_is_known(text: str) -> None:
    assert is_public(ip_address(text))
    assert depth(ip_address(text)) == Depth.PUBLIC


def embedded(inner: IPv4Address) -> list[IPv6Address]:
    """An IPv4 address in each way that IPv6 has for it."""
    number = int(inner)
    prefixes = (0, 0xFFFF << 32, 0xFFFF << 48, 0x64FF9B << 96)
    six_to_four = IPv6Address((0x2002 << 112) | (number << 80) | 1)
    teredo = IPv6Address((0x20010000 << 96) | (number << 64) | 0xFFFF_FFFF)
    return [*(IPv6Address(prefix | number) for prefix in prefixes), six_to_four, teredo]


@given(addresses_v4.filter(lambda a: int(a) > 1))
def test_an_address_inside_another_is_found_and_never_public(inner: IPv4Address) -> None:
    for outer in embedded(inner):
        assert inner in carried(outer), outer
        assert not is_public(outer), outer
        assert depth(outer) >= depth(inner), outer


PRIVATE = [
    *("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
    *("192.168.0.0/16", "224.0.0.0/3", "::/8", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
]


@given(st.data())
def test_no_address_of_a_network_inside_is_public(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(PRIVATE))
    network = IPv6Network(text) if ":" in text else IPv4Network(text)
    address = network[data.draw(st.integers(0, network.num_addresses - 1))]
    assert not is_public(address)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", Depth.MACHINE),
        ("a.localhost.", Depth.MACHINE),
        ("127.9.9.9", Depth.MACHINE),
        ("::ffff:127.0.0.1", Depth.MACHINE),
        ("64:ff9b::7f00:1", Depth.MACHINE),
        ("2002:a00:1::", Depth.NETWORK),
        ("::ffff:8.8.8.8", Depth.PUBLIC),
        ("10.1.1.1", Depth.NETWORK),
        ("localhost.example", Depth.PUBLIC),
    ],
)
def test_how_far_inside_a_host_is(host: str, expected: Depth) -> None:
    assert host_depth(host) == expected


# --- hosts -----------------------------------------------------------------------------------


def _spellings(part: int) -> st.SearchStrategy[str]:
    return st.sampled_from([str(part), hex(part), f"0{part:o}", f"0X{part:X}", f"000{part:o}"])


@st.composite
def spelled(draw: st.DrawFn) -> str:
    """An IPv4 address in one of the ways that C libraries take: 1 to 4 parts, in any base."""
    number = draw(st.integers(0, 2**32 - 1))
    count = draw(st.integers(1, 4))
    heads = [(number >> (24 - 8 * i)) & 0xFF for i in range(count - 1)]
    last = number & (2 ** (8 * (5 - count)) - 1)
    parts = [draw(_spellings(part)) for part in (*heads, last)]
    return ".".join(parts) + draw(st.sampled_from(["", "."]))


def by_the_system(host: str) -> IPv4Address | None:
    try:
        return IPv4Address(socket.inet_aton(host.removesuffix(".")))
    except OSError:
        return None


@given(spelled())
def test_a_number_is_the_address_that_the_system_would_take_it_for_or_refused(host: str) -> None:
    meant = by_the_system(host)
    for attempt in (lambda: read_host(host), lambda: read_url(f"http://{host}/").address):
        try:
            found = attempt()
        except ValueError:
            continue
        assert found == meant


@given(st.text("0123456789abcdefxX.:%[]@-_", max_size=30))
def test_nothing_that_the_system_takes_for_an_address_is_taken_for_a_name(host: str) -> None:
    try:
        found = read_host(host)
    except ValueError:
        return
    if isinstance(found, str):
        assert by_the_system(host) is None


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "127.0.0.1.1", "1.2.3.256", "0x"],
)
def test_numbers_that_programs_read_differently_are_refused(host: str) -> None:
    with pytest.raises(ValueError, match="is a number"):
        read_host(host)
    with pytest.raises(ValueError, match=r"is a number|is no URL"):
        read_url(f"http://{host}/")


# --- URLs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://site.example/", "https:// or http://"),
        ("file:///etc/passwd", "https:// or http://"),
        ("javascript:alert(1)", "https:// or http://"),
        ("//site.example/", "https:// or http://"),
        ("site.example/a", "https:// or http://"),
        ("http:///etc", "https:// or http://"),
        ("http://", "https:// or http://"),
        ("http://ana@site.example/", "a user or a password"),
        ("http://:secret@site.example/", "a user or a password"),
        ("http://@site.example/", "a user or a password"),
        ("http://site.example@10.0.0.1/", "a user or a password"),
        ("http://site.example\\@10.0.0.1/", "backslashes"),
        ("http://site.example/a b", "spaces"),
        ("http://site.example/\u202e", "not seen"),
        ("http://site.example/\n", "not seen"),
        ("http://localhost/", "a dot"),
        ("http://intranet/", "a dot"),
        ("http://site%2eexample.org/", "%"),
        ("http://[fe80::1%25eth0]/", "%"),
        ("http://[fe80::1%eth0]/", "%"),
        ("http://a..example/", "no name"),
        ("http://-a.example/", "no name"),
        ("http://*.example/", "no name"),
        (f"http://{'a' * 64}.example/", "no name"),
        ("http://[::1/", "no URL"),
        ("http://[v1.a]/", "no URL"),
        ("http://１２７.0.0.1/", "no URL"),
        ("http://site.example:0/", "no port 0"),
        ("http://site.example:65536/", "no port"),
        ("http://site.example:a/", "no URL"),
        ("http://site.example/" + "a" * MAX_URL, "longer"),
        ("http://site.example/" + "ü" * 1000, "longer"),
    ],
)
def test_a_url_that_is_not_plain_is_refused(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        read_url(url)
    assert "site.example" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "host", "shown"),
    [
        ("HTTPS://Site.EXAMPLE/A?b=C#d", "site.example", "https://site.example/A?b=C"),
        ("http://site.example.:80/", "site.example", "http://site.example/"),
        ("http://bücher.example/ü", "xn--bcher-kva.example", "http://xn--bcher-kva.example/%C3%BC"),
        ("http://[2606:4700:0:0::1111]/", "2606:4700::1111", "http://[2606:4700::1111]/"),
        ("http://127。0。0。1/", "127.0.0.1", "http://127.0.0.1/"),
        ("http://[2606:4700::0AB1]/", "2606:4700::ab1", "http://[2606:4700::ab1]/"),
        ("https://site.example", "site.example", "https://site.example"),
    ],
)
def test_a_url_comes_in_one_spelling(url: str, host: str, shown: str) -> None:
    read = read_url(url)
    assert (read.host, str(read)) == (host, shown)
    assert (read.address is None) == (not host[-1].isdigit())


urls = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}{path}",
    st.sampled_from(["http", "https", "HTTP", "ftp"]),
    st.one_of(
        st.from_regex(r"[a-zA-Z0-9_-]{1,8}(\.[a-zA-Z0-9_-]{1,8}){0,3}\.?", fullmatch=True),
        spelled(),
        st.sampled_from(["bücher.example", "[::1]", "[2606:4700::1111]", "a@b.example", "%41.b"]),
    ),
    st.sampled_from(["", ":", ":80", ":443", ":8080", ":99999"]),
    st.text(max_size=20).map(lambda text: f"/{text}"),
)


@given(st.one_of(urls, st.text(max_size=60)))
def test_a_url_read_twice_is_the_same_and_one_that_is_read_names_a_whole_host(url: str) -> None:
    try:
        read = read_url(url)
    except ValueError:
        return
    again = read_url(str(read))
    assert again == read
    assert read.host == read.host.lower()
    assert read.host == read.url.raw_host.decode()
    assert not read.url.userinfo
    assert "#" not in str(read)


@pytest.mark.parametrize("text", ["fe80::1%eth0", "fe80::1%1", "", "site.example", "127.1"])
def test_an_answer_of_a_resolver_is_an_address_and_of_no_link(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        read_ip(text)


# --- effects ---------------------------------------------------------------------------------

_, FETCH = plain_web_tools()

anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text() | urls,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)


@given(anything)
def test_the_effects_of_a_fetch_name_its_host_or_any_and_never_fail(url: object) -> None:
    declared = FETCH.contract.effects
    assert callable(declared)
    effects = declared({"url": url})
    try:
        expected = f"{NETWORK}.{read_url(url).host}"  # type: ignore[arg-type]
    except (ValueError, TypeError, AttributeError):
        expected = ANY_HOST
    assert effects == {NETWORK, expected}


def test_a_fetch_without_a_url_may_ask_any_host() -> None:
    declared = FETCH.contract.effects
    assert callable(declared)
    assert declared({}) == {NETWORK, ANY_HOST}
