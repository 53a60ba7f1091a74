"""Web addresses as servers and files write them: what is one, and which host it names.

Whatever reads an address here, in a browser or in an HTTP client, is to find the same host in it.
So the part before the path is plain: a name, an IPv4 address or a bracketed IPv6 address, and a
port. Browsers take a ``\\`` for a ``/``, decode a ``%`` in a host and drop line ends; none passes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv6Address

_LABEL = r"[A-Za-z0-9_-]{1,63}"
_ADDRESS = re.compile(
    rf"(?P<scheme>https?)://(?P<host>{_LABEL}(?:\.{_LABEL})*\.?|\[(?P<ipv6>[0-9A-Fa-f:.]+)\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?:[/?#].*)?",
    re.IGNORECASE | re.ASCII,
)
_USER = re.compile(r"https?://[^/?#]*@", re.IGNORECASE)


@dataclass(frozen=True)
class WebAddress:
    """Where an address leads.

    Args:
        scheme: ``http`` or ``https``.
        host: In lower case; an IPv6 address without its brackets.
        at: Host and port as the address has them.
    """

    scheme: str
    host: str
    at: str


def read_address(url: str) -> WebAddress:
    """Where an address leads.

    Raises:
        ValueError: It is no address of the web; a clause says what is wrong, without a word of it.
    """
    if not (url.isascii() and url.isprintable()) or " " in url or "\\" in url:
        raise ValueError("expected url to be printable ASCII, without spaces or backslashes")
    if _USER.match(url):
        raise ValueError("a user or a password in the url is not used; put it into headers")
    found = _ADDRESS.fullmatch(url)
    if not found or not _is_port(found["port"]) or not _is_ipv6(found["ipv6"]):
        raise ValueError(
            "expected url to be http:// or https:// with a host that is plainly spelled"
        )
    port = f":{found['port']}" if found["port"] else ""
    host = (found["ipv6"] or found["host"]).lower()
    return WebAddress(found["scheme"].lower(), host, found["host"] + port)


def _is_port(digits: str | None) -> bool:
    return digits is None or 0 < int(digits) < 2**16


def _is_ipv6(text: str | None) -> bool:
    try:
        return text is None or bool(IPv6Address(text))
    except ValueError:
        return False
