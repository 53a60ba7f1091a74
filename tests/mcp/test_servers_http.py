"""Our servers over HTTP: who may call what and how often, and what a bad neighbour can do."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from mcp_servers import local_http, orders
from mcp_servers.config import (
    CoursesSettings,
    LmsSettings,
    OrdersSettings,
    ResearchSettings,
    read_settings,
)
from mcp_servers.inbound import PATH, AgentToken, build_application
from mcp_servers.messages import MAX_MESSAGE
from mcp_servers.rate_limit import RateLimit
from tests.support.courses import LMS_TOKEN
from tests.support.served import (
    AGENT_TOKEN,
    INITIALIZE,
    bearer,
    message_of,
    over_http,
    process,
    raw_http,
    served,
)
from tools.worlds.order_desk import OrderDesk

BOTH = frozenset({"orders:read", "orders:write"})
READ = frozenset({"orders:read"})
PROGRAMS = ("mcp_servers.orders", "mcp_servers.research", "mcp_servers.courses")
TOKENS = {"AGENT_TOKEN": AGENT_TOKEN, "LMS_TOKEN": LMS_TOKEN}
BODY = json.dumps(INITIALIZE).encode()


@pytest.fixture
def desk(tmp_path: Path) -> OrderDesk:
    return OrderDesk(tmp_path / "desk.db")


@contextmanager
def guarded(
    desk: OrderDesk,
    scopes: frozenset[str] = BOTH,
    *,
    limit: RateLimit | None = None,
    body_patience: float = 60,
    patience: float = 60,
) -> Iterator[httpx.Client]:
    """The order server on a real socket, and a client of it that has the token."""
    token = AgentToken("orders", SecretStr(AGENT_TOKEN), scopes)
    application = build_application(
        orders.offer(desk), token, limit or RateLimit(10_000), body_patience
    )
    headers = {
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        **bearer(AGENT_TOKEN),
    }
    with (
        served(application, patience) as url,
        httpx.Client(base_url=url, headers=headers) as client,
    ):
        yield client


def open_session(client: httpx.Client) -> None:
    first = client.post(PATH, json=INITIALIZE)
    client.headers["Mcp-Session-Id"] = first.headers["mcp-session-id"]


def calling(tool: str, **arguments: object) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


def cancelling(desk: OrderDesk) -> dict[str, Any]:
    return calling("cancel_order", order_id="A1", expected_revision=desk.get("A1").revision)


# The token and its scopes ----------------------------------------------------------------------


def test_without_the_token_nobody_gets_in(desk: OrderDesk) -> None:
    with guarded(desk) as client:
        for header in ("", "Bearer", "Bearer wrong", f"Basic {AGENT_TOKEN}", AGENT_TOKEN):
            for method in ("POST", "GET", "DELETE"):
                answer = client.request(
                    method, PATH, headers={"Authorization": header}, content=BODY
                )
                assert answer.status_code == 401, (header, method)
                assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_reader_may_not_write(desk: OrderDesk) -> None:
    with guarded(desk, READ) as client:
        open_session(client)
        read = client.post(PATH, json=calling("get_order", order_id="A1"))
        write = client.post(PATH, json=cancelling(desk))
        body = json.dumps(cancelling(desk)).replace('"name"', '"name": "get_order", "name"')
        twice = client.post(PATH, content=body)
        silent = client.post(PATH, json={**cancelling(desk), "id": None})
    assert message_of(read)["result"]["structuredContent"]["id"] == "A1"
    assert write.status_code == twice.status_code == 403
    assert write.headers["www-authenticate"] == (
        'Bearer error="insufficient_scope", scope="orders:write"'
    )
    assert silent.status_code == 400
    assert desk.get("A1").status == "pending"


async def test_what_a_token_does_not_permit_is_not_listed(desk: OrderDesk) -> None:
    for scopes, tools in (
        (READ, {"list_orders", "get_order"}),
        (BOTH, {"list_orders", "get_order", "cancel_order", "refund_order"}),
    ):
        with guarded(desk, scopes) as client:
            async with over_http(f"{client.base_url}{PATH}", AGENT_TOKEN) as session:
                assert {tool.name for tool in (await session.list_tools()).tools} == tools


def test_a_writer_writes(desk: OrderDesk) -> None:
    with guarded(desk) as client:
        open_session(client)
        message = message_of(client.post(PATH, json=cancelling(desk)))
    assert message["result"]["structuredContent"]["status"] == "cancelled"
    assert desk.get("A1").status == "cancelled"


# Where a request comes from --------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_program_listens_on_the_loopback_address_alone(program: str) -> None:
    """Nor does the configuration of a library open it to other sites, or end it."""
    lax = {
        "WEB_CONCURRENCY": "many",
        "FORWARDED_ALLOW_IPS": "*",
        "FASTMCP_HOST": "0.0.0.0",
        "FASTMCP_HTTP_HOST_ORIGIN_PROTECTION": "false",
        "FASTMCP_HTTP_ALLOWED_HOSTS": '["*"]',
        "FASTMCP_HTTP_ALLOWED_ORIGINS": '["*"]',
    }
    with process(program, "--http", "--port", "0", **TOKENS, **lax) as running:
        assert running.url.startswith("http://127.0.0.1:")
        port = int(running.url.split(":")[2].split("/")[0])
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.2", port))
        assert httpx.post(running.url, content=BODY).status_code == 401
        assert httpx.post(running.url, headers={"Host": "evil.example"}).status_code == 421
        assert httpx.post(running.url, headers={"Origin": "http://evil.ex"}).status_code == 403
        answer = httpx.post(
            running.url,
            content=BODY,
            headers={
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                **bearer(AGENT_TOKEN),
            },
        )
        assert answer.status_code == 200


# How often -------------------------------------------------------------------------------------


def test_a_client_that_asks_too_often_has_to_wait(desk: OrderDesk) -> None:
    clock = [0.0]
    with guarded(desk, limit=RateLimit(6, lambda: clock[0])) as client:
        statuses = [client.post(PATH, content=BODY).status_code for _ in range(6)]
        refused = client.post(PATH, content=BODY)
        clock[0] += float(refused.headers["retry-after"]) - 1
        early = client.post(PATH, content=BODY)
        clock[0] += 1
        again = client.post(PATH, content=BODY)
    assert statuses == [200] * 6
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
    assert "Try again in 10 s" in refused.text
    assert (early.status_code, early.headers["retry-after"]) == (429, "1")
    assert again.status_code == 200


def test_nothing_that_a_client_can_make_up_gives_it_a_new_budget(desk: OrderDesk) -> None:
    with guarded(desk, limit=RateLimit(3, lambda: 0.0)) as client:
        port = int(str(client.base_url).rpartition(":")[2])
        mine = [
            client.post(PATH, content=BODY, headers={"Mcp-Session-Id": f"{n:032x}"}).status_code
            for n in range(4)
        ]
        others = [
            client.post(
                PATH,
                content=BODY,
                headers={**bearer(f"made-up-{n}"), "X-Forwarded-For": f"10.0.0.{n}"},
            ).status_code
            for n in range(3)
        ]
        with socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.7", 0)) as line:
            line.sendall(b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            elsewhere = line.recv(100)
    assert mine == [404, 404, 404, 429]
    assert others == [401, 401, 401], "whoever has no token takes nothing from who has"
    assert elsewhere.startswith(b"HTTP/1.1 429 ")


def test_a_bucket_is_never_more_than_full() -> None:
    clock = [0.0]
    limit = RateLimit(2, lambda: clock[0])
    assert limit.wait("a") == 0
    clock[0] += 3600
    assert [limit.wait("a") for _ in range(3)] == [0, 0, 30]
    assert limit.wait("b") == 0


def test_the_rate_is_a_setting() -> None:
    with process(
        "mcp_servers.research", "--http", "--port", "0", MAX_REQUESTS_PER_MINUTE="1", **TOKENS
    ) as running:
        statuses = [httpx.post(running.url, headers=bearer(AGENT_TOKEN)).status_code for _ in "12"]
    assert statuses[1] == 429
    assert statuses[0] != 429


# Bodies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_are_capped(chunked: bool, desk: OrderDesk) -> None:
    body = json.dumps({**INITIALIZE, "padding": "x" * MAX_MESSAGE}).encode()
    with guarded(desk) as client:
        answer = client.post(PATH, content=iter([body[:1000], body[1000:]]) if chunked else body)
        after = client.post(PATH, content=BODY)
    assert answer.status_code == 413
    assert after.status_code == 200


def test_a_body_without_a_length_is_taken(desk: OrderDesk) -> None:
    with guarded(desk) as client:
        answer = client.post(PATH, content=iter([BODY[:10], BODY[10:]]))
    assert answer.status_code == 200


def connect(client: httpx.Client) -> socket.socket:
    port = int(str(client.base_url).rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port))


def head(length: int, token: str = AGENT_TOKEN, method: str = "POST", **more: str) -> bytes:
    lines = {
        "Host": "127.0.0.1",
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "Content-Length": str(length),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    joined = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {PATH} HTTP/1.1\r\n{joined}\r\n".encode()


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_body_that_does_not_come_is_given_up(method: str, desk: OrderDesk) -> None:
    with guarded(desk, body_patience=0.05) as client, connect(client) as line:
        line.sendall(head(len(BODY), method=method) + BODY[:-1])
        assert line.recv(100).startswith(b"HTTP/1.1 408 ")


def test_without_the_token_no_body_is_waited_for(desk: OrderDesk) -> None:
    with guarded(desk) as client, connect(client) as line:
        line.sendall(head(10_000_000, token="wrong"))
        assert line.recv(100).startswith(b"HTTP/1.1 401 ")


def test_half_a_body_is_not_taken_for_a_whole_one(desk: OrderDesk) -> None:
    """A client that hangs up early has sent nothing, even if what came would do."""
    with guarded(desk) as client:
        open_session(client)
        session = client.headers["Mcp-Session-Id"]
        cancel = json.dumps(cancelling(desk)).encode()
        with connect(client) as line:
            line.sendall(head(len(cancel) + 1, Mcp_Session_Id=session) + cancel)
            line.shutdown(socket.SHUT_WR)
            while line.recv(1000):
                pass
        # The server handles its connections in order, so it has seen the end of that one.
        assert client.post(PATH, json=calling("get_order", order_id="A1")).status_code == 200
    assert desk.get("A1").status == "pending"


async def test_an_id_that_is_still_running_is_not_taken_twice(desk: OrderDesk) -> None:
    """The SDK would give the answer to the second one, and leave the first without."""
    with guarded(desk) as client:
        open_session(client)
        call = calling("list_orders")
        async with httpx.AsyncClient(base_url=client.base_url, headers=client.headers) as many:
            answers = await asyncio.gather(*(many.post(PATH, json=call) for _ in range(8)))
            after = await many.post(PATH, json=call)
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) <= {200, 400}
    assert 200 in statuses
    for answer in (*answers, after):
        message = message_of(answer)
        if answer.status_code == 200:
            assert message["result"]["structuredContent"]["orders"]
        else:
            assert message["error"] == {
                "code": -32600,
                "message": "A request with this id is still running.",
            }
    assert after.status_code == 200


def test_an_answer_is_not_held_back_for_an_acknowledgement() -> None:
    with local_http.bind(0) as listening, socket.create_connection(listening.getsockname()):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


# Connections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "])
def test_a_connection_that_asks_nothing_is_closed(sent: bytes, desk: OrderDesk) -> None:
    with guarded(desk, patience=0.05) as client, connect(client) as line:
        line.sendall(sent)
        assert line.recv(100) == b""


def test_a_connection_that_asks_nothing_more_is_closed(desk: OrderDesk) -> None:
    with guarded(desk, patience=1) as client, connect(client) as line:
        line.sendall(head(len(BODY), token="wrong") + BODY + b"POST /mcp HTTP/1.1\r\nX: ")
        received = b"".join(iter(lambda: line.recv(10_000), b""))
    assert received.startswith(b"HTTP/1.1 401 ")
    assert received.count(b"HTTP/1.1") == 1


def test_a_stream_that_is_open_is_not_closed(desk: OrderDesk) -> None:
    """Patience is for what has not been asked, not for what is being answered."""
    with guarded(desk, patience=1) as client:
        open_session(client)
        with client.stream("GET", PATH, headers={"Accept": "text/event-stream"}) as stream:
            assert stream.status_code == 200
            with connect(client) as idle:
                assert idle.recv(1) == b"", "so the time is over for the stream too"
            twice = client.get(PATH, headers={"Accept": "text/event-stream"})
    assert twice.status_code == 409, "the first stream is still there"


def test_connections_that_ask_nothing_keep_nobody_out(
    desk: OrderDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "MAX_CONNECTIONS", 5)
    with guarded(desk) as client, ExitStack() as many:
        silent = [many.enter_context(connect(client)) for _ in range(12)]
        assert client.post(PATH, content=BODY).status_code == 200
        assert [line.recv(1) for line in silent[:8]] == [b""] * 8, "the oldest make room"
        silent[-1].sendall(head(len(BODY)) + BODY)
        assert silent[-1].recv(100).startswith(b"HTTP/1.1 200 ")


def test_connections_that_are_answered_are_counted(
    desk: OrderDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_http, "MAX_CONNECTIONS", 5)
    with guarded(desk) as client:
        with ExitStack() as many:
            for _ in range(5):
                line = many.enter_context(connect(client))
                line.sendall(head(len(BODY), Expect="100-continue"))
                assert line.recv(100).startswith(b"HTTP/1.1 100 "), "it waits for the body"
            assert client.post(PATH, content=BODY).status_code == 503
        while (status := client.post(PATH, content=BODY).status_code) == 503:
            pass
        assert status == 200


# The programs ----------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_http_without_agent_token_does_not_start(program: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", program, "--http", "--port", "0"],
        env={**os.environ, "LMS_TOKEN": LMS_TOKEN},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("AGENT_TOKEN: needed for --http")
    assert ended.stdout == ""


@pytest.mark.parametrize("port", ["taken", "70000", "-1"])
def test_a_port_that_cannot_be_used_is_named(port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = str(listening.getsockname()[1]) if port == "taken" else port
        ended = subprocess.run(
            [sys.executable, "-m", "mcp_servers.research", "--http", "--port", number],
            env={**os.environ, **TOKENS},
            capture_output=True,
            text=True,
        )
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"127.0.0.1:{number} cannot be used: ")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_without_a_traceback(number: signal.Signals) -> None:
    """Also while a client holds a stream open, which would never end by itself."""
    with (
        process("mcp_servers.research", "--http", "--port", "0", **TOKENS) as server,
        raw_http(server.url) as client,
        client.stream("GET", PATH) as stream,
    ):
        assert stream.status_code == 200
        server.running.send_signal(number)
        server.running.wait()
    assert server.running.returncode == -number
    assert "Traceback" not in server.log


async def test_clients_that_come_and_go_leave_nothing_in_the_log() -> None:
    with process("mcp_servers.research", "--http", "--port", "0", **TOKENS) as server:
        for _ in range(2):
            async with over_http(server.url, AGENT_TOKEN) as session:
                assert (await session.list_tools()).tools
        async with httpx.AsyncClient() as stranger:
            assert (await stranger.post(server.url)).status_code == 401
    assert server.log == f"Listening on {server.url}\n"


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        (OrdersSettings, {"AGENT_TOKEN": "short"}, "AGENT_TOKEN: Value error, at least 16"),
        (OrdersSettings, {"AGENT_TOKEN_SCOPES": "orders:all"}, "AGENT_TOKEN_SCOPES"),
        (OrdersSettings, {"AGENT_TOKEN_SCOPES": "courses:read"}, "AGENT_TOKEN_SCOPES"),
        (OrdersSettings, {"AGENT_TOKEN_EXPIRES": "tomorrow"}, "AGENT_TOKEN_EXPIRES: "),
        (OrdersSettings, {"MAX_REQUESTS_PER_MINUTE": "0"}, "MAX_REQUESTS_PER_MINUTE: "),
        (ResearchSettings, {"MAX_REQUESTS_PER_MINUTE": "many"}, "MAX_REQUESTS_PER_MINUTE: "),
        (ResearchSettings, {"AGENT_TOKEN_SCOPES": "research:write"}, "AGENT_TOKEN_SCOPES"),
        (ResearchSettings, {"RESEARCH_CORPUS": "/nowhere"}, "RESEARCH_CORPUS: Path does not"),
        (ResearchSettings, {"RESEARCH_CORPUS": ""}, "RESEARCH_CORPUS: Value error, a path, or no"),
        (OrdersSettings, {"ORDER_DESK_DB": " "}, "ORDER_DESK_DB: Value error, a path, or no"),
        (OrdersSettings, {"ORDER_DESK_DB": "~nobody-here/x"}, "ORDER_DESK_DB: Value error, a path"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(
    kind: type[OrdersSettings | ResearchSettings],
    change: dict[str, str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in {"AGENT_TOKEN": AGENT_TOKEN, **change}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        read_settings(kind)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert AGENT_TOKEN not in told


def test_a_path_may_begin_at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host's configuration is no shell that would know what it means."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LMS_TOKEN", LMS_TOKEN)
    monkeypatch.setenv("ORDER_DESK_DB", "~/orders.db")
    monkeypatch.setenv("LMS_DB", "~/courses.db")
    monkeypatch.setenv("RESEARCH_CORPUS", "~")
    assert OrdersSettings().database == tmp_path / "orders.db"
    assert LmsSettings().database == tmp_path / "courses.db"
    assert ResearchSettings().corpus == tmp_path


def test_reading_is_permitted_unless_more_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMS_TOKEN", LMS_TOKEN)
    assert OrdersSettings().agent_scopes == {"orders:read"}
    assert ResearchSettings().agent_scopes == {"research:read"}
    assert CoursesSettings().agent_scopes == {"courses:read"}
    monkeypatch.setenv("AGENT_TOKEN_SCOPES", "orders:read  orders:write")
    assert OrdersSettings().agent_scopes == BOTH
