"""Who reaches an application on 127.0.0.1, said to a real socket byte by byte."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest
from pydantic import SecretStr
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from mcp_servers.courses.gradebook import Gradebook
from mcp_servers.courses.service import build_service
from mcp_servers.inbound import PATH, AgentToken, build_application
from mcp_servers.rate_limit import RateLimit
from mcp_servers.research import offer
from tests.support.courses import LMS_TOKEN
from tests.support.served import AGENT_TOKEN, served
from tools.worlds.pages import Corpus


async def tell(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that says from where it thinks it was called."""
    if scope["type"] == "http":
        told = {key: scope[key] for key in ("scheme", "client", "path")}
        await JSONResponse(told)(scope, receive, send)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with served(tell) as url:
        yield int(url.rpartition(":")[2])


def answer(port: int, *lines: str | bytes) -> tuple[int, bytes]:
    """The status and the body of what a request of these lines gets."""
    raw = b"\r\n".join(line.encode("latin-1") if isinstance(line, str) else line for line in lines)
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(raw + b"\r\nConnection: close\r\n\r\n")
        got = b"".join(iter(lambda: line.recv(65536), b""))
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


HOSTS: list[tuple[str | bytes, int]] = [
    ("127.0.0.1", 200),
    ("localhost", 200),
    ("LOCALHOST:80", 200),
    ("127.0.0.1:0", 200),
    ("127.0.0.1:65535", 200),
    ("127.0.0.1:65536", 421),
    ("127.0.0.1:99999", 421),
    ("127.0.0.1:000080", 421),
    ("127.0.0.1:-1", 421),
    ("127.0.0.1:+80", 421),
    ("127.0.0.1:8 0", 421),
    ("127.0.0.1:http", 421),
    ("127.0.0.1:", 421),
    ("127.0.0.1:80:80", 421),
    ("localhost:80@evil.example", 421),
    ("localhost@evil.example", 421),
    ("evil.example@localhost", 421),
    ("localhost.", 421),
    ("localhost.evil.example", 421),
    ("evil.localhost", 421),
    ("localhost/evil.example", 421),
    ("localhost,evil.example", 421),
    ("localhost evil.example", 421),
    ("http://localhost", 421),
    ("[127.0.0.1]", 421),
    ("[localhost]", 421),
    ("[::1]", 421),
    ("[::1]:80", 421),
    ("::1", 421),
    ("[::ffff:127.0.0.1]", 421),
    ("0.0.0.0", 421),
    ("127.0.0.2", 421),
    ("127.1", 421),
    ("0127.0.0.1", 421),
    ("2130706433", 421),
    ("*", 421),
    ("evil.example", 421),
    ("", 421),
    (b"localho\xc5\xbft", 421),
    (b"localhost:\xb2", 421),
    (b"localhost\x00", 400),
]


@pytest.mark.parametrize(("host", "status"), HOSTS)
def test_a_host_is_one_of_our_two_names(port: int, host: str | bytes, status: int) -> None:
    raw = host.encode() if isinstance(host, str) else host
    assert answer(port, "GET / HTTP/1.1", b"Host: " + raw)[0] == status


ORIGINS: list[tuple[str | bytes, int]] = [
    ("http://127.0.0.1", 200),
    ("http://localhost:6274", 200),
    ("https://localhost", 200),
    ("http://[::1]:6274", 200),
    ("HTTP://LOCALHOST", 200),
    ("null", 403),
    ("", 403),
    ("localhost", 403),
    ("//localhost", 403),
    ("file://localhost", 403),
    ("chrome-extension://localhost", 403),
    ("http://localhost/", 403),
    ("http://localhost:99999", 403),
    ("http://localhost:", 403),
    ("http://localhost:80@evil.example", 403),
    ("http://user@localhost", 403),
    ("http://localhost.", 403),
    ("http://localhost.evil.example", 403),
    ("http://127.0.0.2", 403),
    ("http://0.0.0.0", 403),
    ("http://[::]", 403),
    ("http://::1", 403),
    ("http://localhost http://evil.example", 403),
    ("http://evil.example", 403),
    ("*", 403),
]


@pytest.mark.parametrize(("origin", "status"), ORIGINS)
def test_an_origin_is_a_site_of_this_machine(port: int, origin: str, status: int) -> None:
    assert answer(port, "GET / HTTP/1.1", "Host: localhost", f"Origin: {origin}")[0] == status


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET / HTTP/1.1", "X: y"], 400),
        (["GET / HTTP/1.0", "X: y"], 421),
        (["GET / HTTP/1.0", "Host: evil.example"], 421),
        (["GET / HTTP/1.1", "Host: localhost", "Host: localhost"], 400),
        (["GET / HTTP/1.1", "Host: localhost", "Host: evil.example"], 400),
        (["GET / HTTP/1.1", "Host: localhost", "Origin: http://localhost", "Origin: null"], 403),
        (["GET / HTTP/1.1", "Host: evil.example", "Origin: http://evil.example"], 421),
        (["GET http://evil.example/ HTTP/1.1", "Host: localhost"], 400),
        (["GET http://localhost/ HTTP/1.1", "Host: localhost"], 400),
        (["GET %2F HTTP/1.1", "Host: localhost"], 400),
        (["OPTIONS * HTTP/1.1", "Host: localhost"], 400),
        (["CONNECT evil.example:443 HTTP/1.1", "Host: localhost"], 400),
    ],
)
def test_a_request_that_could_be_read_in_two_ways_is_refused(
    port: int, lines: list[str], status: int
) -> None:
    assert answer(port, *lines)[0] == status


def test_what_a_proxy_would_say_is_not_believed(port: int) -> None:
    status, body = answer(
        port,
        "GET //evil.example/ HTTP/1.1",
        "Host: localhost",
        "X-Forwarded-Host: evil.example",
        "X-Forwarded-For: 10.0.0.1",
        "X-Forwarded-Proto: https",
    )
    told = json.loads(body)
    assert (status, told["scheme"], told["client"][0]) == (200, "http", "127.0.0.1")
    assert told["path"] == "//evil.example/"


def test_the_servers_and_the_course_service_listen_behind_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    gradebook = Gradebook(tmp_path_factory.mktemp("courses") / "courses.db")
    token = AgentToken("research", SecretStr(AGENT_TOKEN), frozenset({"research:read"}))
    for application, path in (
        (build_application(offer(Corpus()), token, RateLimit(600)), PATH),
        (build_service(gradebook, SecretStr(LMS_TOKEN)), "/openapi.json"),
    ):
        with served(application) as url:
            assert httpx.get(url + path).status_code in (200, 401)
            for host in ("localhost:80@evil.example", "127.0.0.1:99999", "[::1]", "localhost."):
                assert httpx.get(url + path, headers={"Host": host}).status_code == 421, host
            assert httpx.get(url + path, headers={"Origin": "null"}).status_code == 403
