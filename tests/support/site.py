"""A site on a real socket, for the web tools: each path answers as a test says."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme

from tools.web.fetching import Limits, Place, Web

HTML = "text/html; charset=utf-8"


@dataclass(frozen=True)
class Page:
    """What a path answers; ``body`` may be pieces that are sent one by one."""

    body: bytes | str | Callable[[], Iterator[bytes]] = b""
    type: str = HTML
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()


def redirect(location: str, status: int = 302) -> Page:
    return Page(status=status, headers=(("Location", location),))


@dataclass
class Site:
    """What a site answers, and what it was asked: paths, headers and TLS names, in order."""

    port: int
    scheme: str = "http"
    pages: dict[str, Page] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)

    @property
    def place(self) -> Place:
        return ("127.0.0.1", self.port)

    def at(self, path: str, host: str = "site.example") -> str:
        """The URL of a path."""
        return f"{self.scheme}://{host}:{self.port}{path}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.asked]


class Names:
    """A resolver that knows these names; what it is asked is counted."""

    def __init__(self, **names: str | list[str]) -> None:
        self.names = {"site.example": "127.0.0.1", "other.example": "127.0.0.1", **names}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        found = self.names[host]
        return [found] if isinstance(found, str) else found


def web_to(*sites: Site, names: Names | None = None, **options: Any) -> Web:
    """The web, with these sites in it although they are on this machine."""
    options.setdefault("limits", Limits(silence=30))
    allowed = frozenset(site.place for site in sites)
    return Web(look_up=names or Names(), allowed=allowed, **options)


@contextmanager
def site(authority: trustme.CA | None = None, *names: str) -> Iterator[Site]:
    """A site; with an authority one behind TLS, whose certificate is for these names."""
    server = _Server(("127.0.0.1", 0), _Handler)
    made = server.site = Site(server.server_port)
    if authority is not None:
        made.scheme = "https"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*names).configure_cert(context)
        context.sni_callback = lambda _, name, __: made.names.append(name)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    site: Site

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is what many tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self.server.site.asked.append((self.path, dict(self.headers)))
        length = int(self.headers.get("Content-Length", 0))
        self.server.site.bodies.append(self.rfile.read(length))
        page = self.server.site.pages.get(self.path.partition("?")[0], Page("gone", status=404))
        self.close_connection = True
        with suppress(OSError):
            self._answer(page)

    do_POST = do_GET  # noqa: N815

    def _answer(self, page: Page) -> None:
        self.send_response(page.status)
        if page.type:
            self.send_header("Content-Type", page.type)
        for name, value in page.headers:
            self.send_header(name, value)
        self.send_header("Connection", "close")
        body = page.body.encode() if isinstance(page.body, str) else page.body
        if isinstance(body, bytes):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for piece in [body] if isinstance(body, bytes) else body():
            self.wfile.write(piece)
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
