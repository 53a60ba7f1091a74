"""Which addresses are public, and which host a URL names: rules only, nothing is looked up here.

An address is told by its number, never by its spelling. One that carries an IPv4 address inside
(mapped, translated, 6to4, Teredo) leads to that one, so it is as far inside as what it carries.
A URL must spell its host plainly: programs disagree about ``2130706433``, ``0x7f.1`` or
``127.1``, and whoever connects may find this machine where whoever checked saw a name.

Sources: the IANA registries of special-purpose addresses (RFC 6890), IPv4 within IPv6 (RFC 4291,
2765, 3056, 4380, 6052), the WHATWG URL standard for hosts that end in a number.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import (
    AddressValueError,
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
)

import httpx

Address = IPv4Address | IPv6Address

PORTS = {"http": 80, "https": 443}
MAX_URL = 2_000  # characters

# Not public, whatever the tables of `ipaddress` say: they differ between releases of Python.
_NOT_PUBLIC = (
    IPv4Network("192.0.0.0/24"),  # protocol assignments
    IPv4Network("192.88.99.0/24"),  # relays of 6to4
    IPv6Network("2001::/23"),  # protocol assignments
    IPv6Network("3fff::/20"),  # documentation
)
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_ENDS_IN_IPV4 = (
    IPv6Network("::/96"),  # compatible
    IPv6Network("::ffff:0:0/96"),  # mapped
    IPv6Network("::ffff:0:0:0/96"),  # translated
    IPv6Network("64:ff9b::/96"),  # NAT64
)
_ITSELF = (IPv6Address("::"), IPv6Address("::1"))

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*", re.ASCII)
_NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]*)", re.ASCII)
_AUTHORITY = re.compile(r"[a-z]+://([^/?#]*)", re.IGNORECASE | re.ASCII)


class Depth(IntEnum):
    """How far inside an address leads."""

    PUBLIC = 0
    NETWORK = 1
    MACHINE = 2


def depth(address: Address) -> Depth:
    """How far inside an address leads; one that carries others, as far as any of these."""
    if inner := carried(address):
        return max(depth(one) for one in inner)
    if address.is_loopback or address.is_unspecified:
        return Depth.MACHINE
    return Depth.PUBLIC if _is_global_unicast(address) else Depth.NETWORK


def carried(address: Address) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that an IPv6 address stands for, if it does."""
    if not isinstance(address, IPv6Address) or address in _ITSELF:
        return ()
    if address.teredo:
        return address.teredo  # its server and its client
    if address.sixtofour:
        return (address.sixtofour,)
    if any(address in network for network in _ENDS_IN_IPV4):
        return (IPv4Address(int(address) & 0xFFFF_FFFF),)
    return ()


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, and carries no other.

    What is carried is translated on the way, by rules that are not known here.
    """
    return not carried(address) and depth(address) == Depth.PUBLIC


def host_depth(host: str) -> Depth:
    """How far inside a host leads, as far as can be told without looking it up.

    Raises:
        ValueError: Its spelling is not plain; a clause.
    """
    found = read_host(host)
    if not isinstance(found, str):
        return depth(found)
    is_here = found == "localhost" or found.endswith(".localhost")
    return Depth.MACHINE if is_here else Depth.PUBLIC


def read_host(host: str) -> Address | str:
    """The address that a host is, or its name in lower case, without a dot at its end.

    Args:
        host: In ASCII (IDNA), an IPv6 address without brackets.

    Raises:
        ValueError: Its spelling is not plain; a clause.
    """
    name = host.lower().removesuffix(".")
    if "%" in name:
        raise ValueError("its host has a % in it")
    if ":" in name:
        try:
            return IPv6Address(name)
        except AddressValueError:
            raise ValueError("its host is no IPv6 address") from None
    if not _NAME.fullmatch(name):
        raise ValueError("its host is no name and no address")
    if not _NUMBER.fullmatch(name.rpartition(".")[2]):
        return name
    try:
        return IPv4Address(name)
    except AddressValueError:
        raise ValueError("its host is a number; write an address as 192.0.2.1") from None


def read_ip(text: str) -> Address:
    """An address as a resolver returns it.

    Raises:
        ValueError: It is none, or one of a link (``fe80::1%eth0``).
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address) and address.scope_id is not None:
        raise ValueError("an address of a link")
    return address


def _is_global_unicast(address: Address) -> bool:
    if any(address in network for network in _NOT_PUBLIC):
        return False
    if isinstance(address, IPv6Address):
        return address in _GLOBAL_UNICAST and address.is_global
    return address.is_global and not address.is_multicast


@dataclass(frozen=True)
class WebUrl:
    """A URL of the web, plainly spelled.

    Args:
        url: Without a fragment; its host in ASCII and lower case, without a dot at its end.
        host: That host; an IPv6 address without brackets, in its short form.
        address: The address that the host is; ``None``: it is a name.
        port: The one that it names, or its scheme's.
    """

    url: httpx.URL
    host: str
    address: Address | None
    port: int

    def __str__(self) -> str:
        """The URL as it may be shown."""
        return str(self.url)

    def join(self, location: str) -> WebUrl:
        """Where a redirect leads from here.

        Raises:
            ValueError: As ``read_url``.
        """
        try:
            joined = self.url.join(location)
        except (httpx.InvalidURL, ValueError) as error:
            raise ValueError("it is no URL") from error
        return read_url(str(joined))


def read_url(text: str) -> WebUrl:
    """A URL as a model or a page wrote it.

    Raises:
        ValueError: It is none that may be asked for; a clause says why, without a word of it.
    """
    if len(text) > MAX_URL:
        raise ValueError(f"it is longer than {MAX_URL:,} characters")
    if not text.isprintable() or " " in text or "\\" in text:
        raise ValueError("it has spaces, backslashes or characters that are not seen")
    try:
        url = httpx.URL(text)
        raw = url.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError("it is no URL") from error
    authority = _AUTHORITY.match(text)
    if url.scheme not in PORTS or authority is None or not raw:
        raise ValueError("it has to begin with https:// or http:// and a host")
    if "@" in authority[1]:
        raise ValueError("it has a user or a password before its host")
    host = read_host(raw)
    port = PORTS[url.scheme] if url.port is None else url.port
    if not 0 < port < 2**16:
        raise ValueError(f"there is no port {port}")
    address = None if isinstance(host, str) else host
    if isinstance(host, str) and "." not in host:
        raise ValueError("its host is no name of the internet: those have a dot")
    plain = url.copy_with(host=str(host), fragment=None)
    if len(str(plain)) > MAX_URL:
        raise ValueError(f"it is longer than {MAX_URL:,} characters")
    return WebUrl(plain, str(host), address, port)
