"""What the network and a server on it can do to a call, and what is known of it afterwards."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.mcp.connection import Connection
from agent.mcp.errors import NotSentError
from agent.mcp.servers import Http, ServerConfig
from agent.mcp.timeouts import Timeouts
from agent.mcp.transport import http
from tests.mcp.conftest import Hosted, Hosting, Serve, Signals
from tests.mcp.raw_http import TOOLS, Answer, RawHttp, Request, drop, hang, status
from tools.contract import OutcomeUnknown, ToolFailure, TransientFailure


@pytest.fixture
async def raw() -> AsyncIterator[RawHttp]:
    server = RawHttp()
    await server.start()
    yield server
    await server.stop()


SOURCE = Path("/home/ana/mcp.json")


def config_of(raw: RawHttp, **options: Any) -> ServerConfig:
    told = {"timeout": 60, **options}
    headers = told.pop("headers", {})
    return ServerConfig("rough", Http(raw.url, headers), trusted=True, **told)


# --- refusals ----------------------------------------------------------------------------------

NOT_SENT = {
    400: TransientFailure,
    401: ToolFailure,
    403: ToolFailure,
    404: TransientFailure,
    405: TransientFailure,
    413: TransientFailure,
    422: TransientFailure,
    429: TransientFailure,
}


async def test_a_refusal_says_whether_anything_was_done(raw: RawHttp, hosting: Hosting) -> None:
    async with hosting(config_of(raw)) as hosted:
        for code in (*NOT_SENT, 409, 418, 500, 502, 503, 504):
            raw.answers["tools/call"] = status(code, b"<h1>no\n such</h1>")
            write, read = await hosted.outcome("write"), await hosted.outcome("read")
            for raised in (write, read):
                assert f"(HTTP {code}: <h1>no such</h1>)" in str(raised)
            if code in NOT_SENT:
                assert type(write) is type(read) is NOT_SENT[code], code
                assert "Nothing was sent" in str(write)
            else:
                assert (type(write), type(read)) == (OutcomeUnknown, TransientFailure), code
            del raw.answers["tools/call"]
            assert await hosted.outcome("write") == "fine", f"after {code}"
        assert hosted.host.complaints == []
        assert hosted.told == []


async def test_the_reason_in_a_refusal_is_shown(raw: RawHttp, hosting: Hosting) -> None:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "too many"}}
    body = json.dumps(error).encode()
    raw.answers["tools/call"] = status(429, body, retry_after="30")
    async with hosting(config_of(raw)) as hosted:
        raised = await hosted.outcome("read")
        assert "it was asked too often (HTTP 429: too many); it asks to wait 30 sec" in str(raised)
        raw.answers["tools/call"] = status(500, b"x" * 10_000)
        assert len(str(await hosted.outcome("read"))) < 600


async def test_a_sign_in_that_is_wanted_at_the_start_is_asked_for(
    raw: RawHttp, hosting: Hosting
) -> None:
    raw.answers["initialize"] = status(401)
    async with hosting(config_of(raw, source=SOURCE)) as hosted:
        (complaint,) = hosted.host.complaints
        assert complaint == (
            "MCP server rough: it wants a sign-in (HTTP 401); sayso mcp login rough signs in, or "
            "put a token into its headers in /home/ana/mcp.json"
        )


async def test_a_token_of_the_persons_own_that_is_refused_is_named(
    raw: RawHttp, hosting: Hosting
) -> None:
    raw.answers["initialize"] = status(401)
    config = config_of(raw, headers={"authorization": "Bearer old"}, source=SOURCE)
    async with hosting(config) as hosted:
        (complaint,) = hosted.host.complaints
        assert complaint == (
            "MCP server rough: it wants a sign-in (HTTP 401); the Authorization header in "
            "/home/ana/mcp.json is not accepted"
        )


async def test_a_sign_in_that_is_wanted_later_ends_no_other_call(
    raw: RawHttp, hosting: Hosting
) -> None:
    async with hosting(config_of(raw)) as hosted:
        answered = asyncio.Event()

        async def late(request: Request) -> None:
            await answered.wait()
            await request.respond(200, request.result(), content_type="application/json")

        raw.answers["tools/call"] = late
        writing = asyncio.create_task(hosted.tool("write").ainvoke({}))
        await raw.got("tools/call")
        raw.answers["tools/call"] = status(401)
        raised = await hosted.outcome("read")
        assert type(raised) is ToolFailure
        assert "sayso mcp login rough" in str(raised)
        del raw.answers["tools/call"]
        assert await hosted.outcome("read") == "fine", "in a new session"
        answered.set()
        assert await writing == "fine"


class Stubborn(httpx.Auth):
    """Signs again after a 401, for which httpx reads its body."""

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        response = yield request
        if response.status_code == 401:
            yield request


class Broken(httpx.Auth):
    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        raise RuntimeError("the token is gone")
        yield request


async def test_a_refusal_without_end_is_not_read_to_its_end(raw: RawHttp, hosting: Hosting) -> None:
    async def without_end(request: Request) -> None:
        await request.respond(401, content_length="1000000000")
        while not request.closed.is_set():
            await request.send(b"x" * 65_536)

    raw.answers["initialize"] = without_end
    async with hosting(config_of(raw), auth=lambda server: Stubborn()) as hosted:
        (complaint,) = hosted.host.complaints
        assert "it wants a sign-in (HTTP 401: xxx" in complaint
        assert len(complaint) < 600


async def test_a_sign_in_that_fails_sends_nothing(raw: RawHttp, hosting: Hosting) -> None:
    async with hosting(config_of(raw), auth=lambda server: Broken()) as hosted:
        (complaint,) = hosted.host.complaints
        assert "signing in failed: the token is gone; sayso mcp login rough" in complaint
    assert raw.seen == []


# --- sessions ----------------------------------------------------------------------------------


async def test_a_write_finds_out_beforehand_that_its_session_is_lost(
    raw: RawHttp, hosting: Hosting
) -> None:
    async with hosting(config_of(raw)) as hosted:
        assert await hosted.outcome("write") == "fine"
        await raw.restart()
        assert await hosted.outcome("write") == "fine"
        assert len(raw.calls("write")) == 2, "no call came to a session that was lost"


async def test_a_read_that_was_turned_away_unread_is_asked_once_more(
    raw: RawHttp, hosting: Hosting
) -> None:
    async with hosting(config_of(raw)) as hosted:
        await raw.restart()
        assert await hosted.outcome("read") == "fine"
        assert len(raw.calls("read")) == 2
        raw.answers["tools/call"] = status(404)
        read = await hosted.outcome("read")
        assert type(read) is TransientFailure
        assert "does not know this address or session (HTTP 404)" in str(read)
        assert len(raw.calls("read")) == 4, "and not a third time"


@pytest.mark.parametrize("how", [drop, hang, status(500), status(503)])
async def test_a_write_is_not_sent_to_a_server_that_does_not_answer(
    raw: RawHttp, hosting: Hosting, how: Answer
) -> None:
    async with hosting(config_of(raw)) as hosted:
        bounded = Timeouts(connect=0.5, listing=0.5)
        hosted.host.server("rough").connection._opener.timeouts = bounded
        raw.answers |= {"ping": how, "initialize": how}
        write = await hosted.outcome("write")
        assert type(write) is TransientFailure
        assert "Nothing was sent" in str(write)
        assert raw.calls("write") == []


async def test_a_tool_that_changed_with_the_session_is_not_called(
    raw: RawHttp, hosting: Hosting
) -> None:
    async with hosting(config_of(raw)) as hosted:
        await raw.restart()

        async def changed(request: Request) -> None:
            tools = [{**one, "description": "other"} for one in TOOLS]
            body = request.result({"tools": tools})
            await request.respond(200, body, content_type="application/json")

        raw.answers["tools/list"] = changed
        write = await hosted.outcome("write")
        assert type(write) is ToolFailure
        assert "no longer what was looked at" in str(write)
        assert raw.calls("write") == []
        (sentence,) = await hosted.heard(1)
        assert "'write' (changed)" in sentence


async def test_a_session_begins_and_ends_as_the_protocol_wants(
    raw: RawHttp, hosting: Hosting
) -> None:
    async with hosting(config_of(raw, headers={"X-Key": "k"})) as hosted:
        assert await hosted.outcome("read") == "fine"
    asked = [request.asks for request in raw.seen if request.method != "GET"]
    assert asked == [
        *("initialize", "notifications/initialized", "tools/list", "tools/call", "DELETE")
    ]
    for request in raw.seen:
        assert request.headers["x-key"] == "k"
        assert request.headers["accept-encoding"] == "identity"
        first = request.asks == "initialize"
        assert request.headers.get("mcp-session-id") == (None if first else "s1")
        assert ("mcp-protocol-version" in request.headers) is not first
        if request.method == "POST":
            assert request.headers["accept"] == "application/json, text/event-stream"


async def test_nothing_arrives_before_the_session_has_begun(raw: RawHttp, hosting: Hosting) -> None:
    before: list[str] = []

    async def slowly(request: Request) -> None:
        await asyncio.sleep(0.1)
        before.extend(other.asks for other in raw.seen)
        await request.respond(202)

    raw.answers["notifications/initialized"] = slowly
    async with hosting(config_of(raw)) as hosted:
        assert await hosted.outcome("read") == "fine"
    assert before == ["initialize", "notifications/initialized"]


async def test_a_connection_is_used_again_after_a_stream_of_events(
    raw: RawHttp, hosting: Hosting
) -> None:
    async def stream(request: Request) -> None:
        await request.respond(
            200, content_length="", transfer_encoding="chunked", content_type="text/event-stream"
        )
        event = b"data: " + request.result() + b"\n\n"
        await request.send(f"{len(event):x}\r\n".encode() + event + b"\r\n")
        await asyncio.sleep(0.05)
        await request.send(b"0\r\n\r\n")

    raw.answers["tools/call"] = stream
    async with hosting(config_of(raw)) as hosted:
        assert await hosted.outcome("read") == "fine"
        await asyncio.sleep(0.1)
        assert await hosted.outcome("read") == "fine"
        first, second = raw.calls("read")
        assert first.writer is second.writer


async def test_a_session_id_that_cannot_be_sent_back_is_refused(
    raw: RawHttp, hosting: Hosting
) -> None:
    async def long(request: Request) -> None:
        body = request.result({})
        await request.respond(
            200, body, content_type="application/json", mcp_session_id="x" * 5_000
        )

    raw.answers["initialize"] = long
    async with hosting(config_of(raw)) as hosted:
        assert hosted.host.problems == {"rough": "its session id cannot be used"}


# --- answers that are none ---------------------------------------------------------------------


async def truncated(request: Request) -> None:
    body = request.result()
    await request.respond(
        200, body[:20], content_type="application/json", content_length=str(len(body))
    )
    request.writer.close()


async def cut_short(request: Request) -> None:
    await request.respond(200, request.result()[:30], content_type="application/json")


async def of_another(request: Request) -> None:
    body = request.result().replace(f'"id": {request.message["id"]}'.encode(), b'"id": 99999')
    await request.respond(200, body, content_type="application/json")


async def zipped(request: Request) -> None:
    bomb = gzip.compress(b" " * 10_000_000)
    await request.respond(200, bomb, content_type="application/json", content_encoding="gzip")


async def without_end(request: Request) -> None:
    await request.respond(200, content_type="application/json", content_length="1000000000")
    while not request.closed.is_set():
        await request.send(b" " * 65_536)


async def events_without_end(request: Request) -> None:
    await request.stream()
    while not request.closed.is_set():
        await request.send(b"data: " + b"x" * 65_536)


async def no_answer(request: Request) -> None:
    await request.stream(": nothing", "data: x", "event: other\ndata: {}")
    request.writer.close()


async def reset(request: Request) -> None:
    await request.respond(
        200, content_length="", transfer_encoding="chunked", content_type="text/event-stream"
    )
    await request.send(b"100\r\ndata:")
    request.writer.close()


NO_ANSWER = {
    "dropped": (drop, "the connection was lost before it answered: Server disconnected"),
    "truncated": (truncated, "the connection was lost before it answered: peer closed"),
    "cut": (cut_short, "its answer is no message of JSON-RPC"),
    "other": (of_another, "its answer is none to what was asked"),
    "json": (status(200, b"true", content_type="application/json"), "is no message of JSON-RPC"),
    "batch": (status(200, b"[]", content_type="application/json"), "is no message of JSON-RPC"),
    "zipped": (zipped, "it answered in the encoding 'gzip', which was not asked for"),
    "accepted": (status(202), "it sent no answer (HTTP 202)"),
    "empty": (status(204), "it sent no answer (HTTP 204)"),
    "page": (status(200, b"<html>", content_type="text/html; x=y"), "it answered with 'text/html'"),
    "no-end": (without_end, "it sent a message of more than"),
    "events-no-end": (events_without_end, "it sent a message of more than"),
    "events-ended": (no_answer, "its stream of events ended before the answer"),
    "events-reset": (reset, "the connection was lost before it answered"),
}


@pytest.mark.parametrize("case", NO_ANSWER)
async def test_an_answer_that_is_none(
    raw: RawHttp, hosting: Hosting, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.setattr(http, "MAX_MESSAGE", 1_000_000)
    answer, words = NO_ANSWER[case]
    async with hosting(config_of(raw)) as hosted:
        raw.answers["tools/call"] = answer
        write, read = await hosted.outcome("write"), await hosted.outcome("read")
        assert type(write) is OutcomeUnknown
        assert type(read) is TransientFailure
        for raised in (write, read):
            assert words in str(raised)
        assert len(raw.calls("write")) == len(raw.calls("read")) == 1, "sent once"
        del raw.answers["tools/call"]
        assert await hosted.outcome("write") == "fine"
        assert hosted.host.complaints == []


async def drip(request: Request) -> None:
    await request.respond(200, content_type="application/json", content_length="1000")
    while not request.closed.is_set():
        await request.send(b" ")
        await asyncio.sleep(0.02)


async def drip_events(request: Request) -> None:
    await request.stream()
    while not request.closed.is_set():
        await request.send(b": still here\n\n")
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("how", [hang, drip, drip_events])
async def test_an_answer_that_does_not_come_in_time_costs_its_connection(
    raw: RawHttp, hosting: Hosting, how: Answer
) -> None:
    async with hosting(config_of(raw, timeout=0.3)) as hosted:
        raw.answers["tools/call"] = how
        call = asyncio.create_task(hosted.tool("write").ainvoke({}))
        request, cancelled = await asyncio.gather(
            raw.got("tools/call"), raw.got("notifications/cancelled")
        )
        (raised,) = await asyncio.gather(call, return_exceptions=True)
        assert type(raised) is OutcomeUnknown
        assert "did not answer within 0.3 seconds" in str(raised)
        assert cancelled.message["params"]["requestId"] == request.message["id"]
        await request.closed.wait()


async def test_calls_that_nobody_waits_for_use_up_no_connections(
    raw: RawHttp, hosting: Hosting
) -> None:
    async with hosting(config_of(raw)) as hosted:
        raw.answers["tools/call"] = hang
        calls = [asyncio.create_task(hosted.tool("read").ainvoke({})) for _ in range(90)]
        await raw.got("tools/call", 90)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        for request in raw.calls("read"):
            await request.closed.wait()
        del raw.answers["tools/call"]
        answers = [hosted.tool("read").ainvoke({}) for _ in range(90)]
        assert set(await asyncio.gather(*answers)) == {"fine"}


# --- how a stream is written -------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
async def test_an_answer_comes_however_its_lines_end(
    raw: RawHttp, hosting: Hosting, end: str
) -> None:
    async def stream(request: Request) -> None:
        await request.stream()
        lines = ["\ufeff: hello", "", "event", "data", "data: " + request.result().decode(), "", ""]
        for byte in end.join(lines).encode():
            await request.send(bytes([byte]))
        await request.closed.wait()

    raw.answers["tools/call"] = stream
    async with hosting(config_of(raw)) as hosted:
        assert await hosted.outcome("write") == "fine"


async def test_a_server_that_is_slow_to_hear_of_it_does_not_keep_connections(
    raw: RawHttp, hosting: Hosting
) -> None:
    """More calls are given up than may be told of at once, and the first ones take long."""
    may = asyncio.Event()

    async def slowly(request: Request) -> None:
        await may.wait()
        await request.respond(202)

    async with hosting(config_of(raw)) as hosted:
        raw.answers |= {"tools/call": hang, "notifications/cancelled": slowly}
        calls = [asyncio.create_task(hosted.tool("read").ainvoke({})) for _ in range(20)]
        await raw.got("tools/call", 20)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        await raw.got("notifications/cancelled", 16)
        await asyncio.sleep(1.2)
        may.set()
        for request in raw.calls("read"):
            await request.closed.wait()
        await raw.got("notifications/cancelled", 20)


# --- streams that are taken up again -----------------------------------------------------------


async def test_a_stream_that_was_cut_is_taken_up_again(raw: RawHttp, hosting: Hosting) -> None:
    taken_up: list[str] = []

    async def begin(request: Request) -> None:
        async def go_on(again: Request) -> None:
            taken_up.append(again.headers["last-event-id"])
            if len(taken_up) == 1:
                await again.stream("id: b\ndata: ")
            else:
                await again.stream(f"id: c\ndata: {request.result().decode()}")
            again.writer.close()

        raw.answers["GET"] = go_on
        await request.stream("retry: 1\nid: a\ndata: ")
        request.writer.close()

    async with hosting(config_of(raw)) as hosted:
        raw.answers["tools/call"] = begin
        assert await hosted.outcome("write") == "fine"
        assert taken_up == ["a", "b"]
        assert len(raw.calls("write")) == 1


@pytest.mark.parametrize("how", [status(404), drop, status(200, b"{}", content_type="text/html")])
async def test_a_stream_that_cannot_be_taken_up_again_leaves_it_open(
    raw: RawHttp, hosting: Hosting, how: Answer
) -> None:
    async def begin(request: Request) -> None:
        raw.answers["GET"] = how
        await request.stream("retry: 1\nid: a\ndata: ")
        request.writer.close()

    async with hosting(config_of(raw)) as hosted:
        raw.answers["tools/call"] = begin
        assert type(await hosted.outcome("write")) is OutcomeUnknown
        del raw.answers["tools/call"]
        assert await hosted.outcome("write") == "fine"


async def test_what_is_said_unasked_is_heard_also_after_a_cut(
    raw: RawHttp, hosting: Hosting
) -> None:
    changed = 'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    listening: list[str | None] = []

    async def listen(request: Request) -> None:
        listening.append(request.headers.get("last-event-id"))
        if len(listening) == 1:
            await request.stream("retry: 1\nid: 7\ndata: ")
            request.writer.close()
        else:
            await request.stream(changed)
            await request.closed.wait()

    raw.answers["GET"] = listen
    async with hosting(config_of(raw)) as hosted:
        await raw.got("tools/list", 2)
        assert listening[:2] == [None, "7"]
        assert await hosted.outcome("read") == "fine"


# --- where requests go -------------------------------------------------------------------------


async def test_a_redirect_to_elsewhere_is_not_followed(raw: RawHttp, hosting: Hosting) -> None:
    other = RawHttp()
    await other.start()
    async with hosting(config_of(raw, headers={"Authorization": "Bearer secret"})) as hosted:
        raw.answers["tools/call"] = status(303, location=f"{other.url}?token=hidden")
        assert type(await hosted.outcome("write")) is OutcomeUnknown, "303: done, look there"
        for code in (301, 302, 307, 308):
            raw.answers["tools/call"] = status(code, location=f"{other.url}?token=hidden")
            raised = await hosted.outcome("write")
            assert type(raised) is ToolFailure
            assert f"it points to http://127.0.0.1:{other.port}/mcp?token=" in str(raised)
            assert "hidden" not in str(raised)
            assert "Nothing was sent" in str(raised)
        for location in ("file:///etc/passwd", "http://user:pw@127.0.0.1/", "//[", "http://"):
            raw.answers["tools/call"] = status(307, location=location)
            assert isinstance(await hosted.outcome("read"), ToolFailure), location
        raw.answers["tools/call"] = status(302, location="/elsewhere")
        assert type(await hosted.outcome("write")) is ToolFailure, "a POST would become a GET"
    assert other.seen == []
    await other.stop()


async def test_a_redirect_within_the_server_is_followed(raw: RawHttp, hosting: Hosting) -> None:
    async def once(request: Request) -> None:
        del raw.answers["tools/call"]
        await request.respond(308, location="/mcp/")

    async with hosting(config_of(raw)) as hosted:
        raw.answers["tools/call"] = once
        assert await hosted.outcome("read") == "fine"
        raw.answers["tools/call"] = status(308, location="/mcp/")
        assert type(await hosted.outcome("read")) is ToolFailure, "not in a circle"


@pytest.mark.parametrize("header", ["secret\n", "secr\u20ac", "a\0secret"])
async def test_a_header_that_cannot_be_sent_is_not_shown(
    raw: RawHttp, hosting: Hosting, header: str
) -> None:
    async with hosting(config_of(raw, headers={"Authorization": header})) as hosted:
        (complaint,) = hosted.host.complaints
        assert "one of its headers is not valid" in complaint
        assert "secr" not in complaint
    assert raw.seen == []


async def test_no_proxy_of_the_environment_is_used(
    raw: RawHttp, hosting: Hosting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    async with hosting(config_of(raw)) as hosted:
        assert await hosted.outcome("read") == "fine"


async def test_what_is_not_http_at_all(hosting: Hosting) -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 smtp ready\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, hosting(ServerConfig("rough", Http(f"http://127.0.0.1:{port}"))) as hosted:
        (complaint,) = hosted.host.complaints
        assert "the connection was lost before it answered" in complaint


async def test_an_address_that_is_none_says_so(hosting: Hosting) -> None:
    for url in ("ftp://127.0.0.1/x", "http://[::1", "http://"):
        async with hosting(ServerConfig("rough", Http(url))) as hosted:
            (complaint,) = hosted.host.complaints
            assert "its address or one of its headers is not valid" in complaint


async def test_tls_that_cannot_be_trusted_is_refused(hosting: Hosting, tmp_path: Path) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(_self_signed(tmp_path))
    server = RawHttp(tls)
    await server.start()
    async with hosting(config_of(server)) as hosted:
        (complaint,) = hosted.host.complaints
        assert "it cannot be reached" in complaint
        assert "certificate verify failed" in complaint.lower()
    assert server.seen == []
    await server.stop()


async def test_tls_to_a_server_that_has_none(hosting: Hosting) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, hosting(ServerConfig("rough", Http(f"https://127.0.0.1:{port}"))) as hosted:
        (complaint,) = hosted.host.complaints
        assert "it cannot be reached" in complaint


def _self_signed(folder: Path) -> Path:
    """A key and a certificate that nobody vouches for, in one file."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / "server.pem"
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


# --- servers that go away and come back --------------------------------------------------------


async def killed_during_calls(hosted: Hosted, signals: Signals) -> list[Any]:
    """What becomes of a write and of a read that are under way when the server is killed."""
    writing = asyncio.create_task(hosted.tool("wait").ainvoke({}))
    reading = asyncio.create_task(hosted.tool("wait_reading").ainvoke({}))
    await signals.next("called")
    os.kill((await signals.next("called"))["pid"], 9)
    return await asyncio.gather(writing, reading, return_exceptions=True)


async def test_a_server_that_was_killed_and_started_again(
    serve: Serve, hosting: Hosting, signals: Signals
) -> None:
    config = await serve("streamable")
    assert isinstance(config.transport, Http)
    port = int(config.transport.url.rpartition(":")[2].partition("/")[0])
    async with hosting(config) as hosted:
        write, read = await killed_during_calls(hosted, signals)
        assert type(write) is OutcomeUnknown
        # The kernel of a killed process resets its connections or just closes them.
        assert re.search("lost before it answered|ended before the answer", str(write))
        assert type(read) is TransientFailure

        away = await hosted.outcome("raw")
        assert type(away) is TransientFailure, "nothing was sent, also for a write"
        assert "it cannot be reached" in str(away)
        assert set(hosted.host.problems) == {"rough"}

        await serve("streamable", port=port)
        hosted.host.server("rough").connection._opener._back_off._until = 0.0
        assert "arguments" in await hosted.outcome("echo")
        assert hosted.host.problems == {}


async def test_a_server_that_cannot_be_opened_is_left_alone_for_longer_each_time(
    tmp_path: Path,
) -> None:
    raw, now = RawHttp(), 1000.0
    await raw.start()
    await raw.stop()
    connection = Connection(config_of(raw), environment={}, log=tmp_path / "log", now=lambda: now)
    for pause in (1, 2, 4, 8, 16, 32, 60, 60):
        with pytest.raises(NotSentError, match="it cannot be reached"):
            await connection.open()
        now += pause - 0.5
        with pytest.raises(NotSentError, match=r"cannot be reached.*tried again in 1 s"):
            await connection.open()
        now += 0.5
    await raw.start()
    link = await connection.open()
    assert set(link.tools) == {"read", "write"}
    assert connection.problem is None
    link.retire("it is tried anew")
    await raw.stop()
    with pytest.raises(NotSentError, match="it cannot be reached"):
        await connection.open()
    with pytest.raises(NotSentError, match="tried again in 1 s"):
        await connection.open()
    await connection.close()


# --- the older transport -----------------------------------------------------------------------


def older(raw: RawHttp, **options: Any) -> ServerConfig:
    return ServerConfig("rough", Http(raw.url, sse=True), trusted=True, **options)


async def elsewhere(request: Request) -> None:
    await request.stream("event: endpoint\ndata: http://127.0.0.2:9/messages")
    await request.closed.wait()


OLDER = {
    "refused": (status(401), "it wants a sign-in (HTTP 401); sayso mcp login rough signs in"),
    "gone": (drop, "the connection was lost before it answered"),
    "page": (status(200, b"<html>", content_type="text/html"), "it offers no stream of events"),
    "elsewhere": (elsewhere, "it wants messages sent to another host, '127.0.0.2'"),
    "ended": (no_answer, "its stream of events ended"),
}


@pytest.mark.parametrize("case", OLDER)
async def test_a_stream_that_does_not_begin(raw: RawHttp, hosting: Hosting, case: str) -> None:
    raw.answers["GET"], words = OLDER[case]
    async with hosting(older(raw)) as hosted:
        (complaint,) = hosted.host.complaints
        assert words in complaint
    assert [request.method for request in raw.seen] == ["GET"]


async def test_a_stream_that_says_nothing_is_given_up(raw: RawHttp, tmp_path: Path) -> None:
    raw.answers["GET"] = hang
    bounds = Timeouts(connect=0.3)
    connection = Connection(older(raw), environment={}, log=tmp_path / "log", timeouts=bounds)
    with pytest.raises(NotSentError, match=r"did not answer within 0\.3 seconds"):
        await connection.open()
    await connection.close()
    assert [request.method for request in raw.seen] == ["GET"]


async def test_the_older_transport_loses_its_server(
    serve: Serve, hosting: Hosting, signals: Signals
) -> None:
    config = await serve("sse")
    assert isinstance(config.transport, Http)
    port = int(config.transport.url.rpartition(":")[2].partition("/")[0])
    async with hosting(config) as hosted:
        write, read = await killed_during_calls(hosted, signals)
        assert type(write) is OutcomeUnknown
        assert type(read) is TransientFailure
        await serve("sse", port=port)
        assert "arguments" in await hosted.outcome("echo")


@pytest.mark.parametrize("code", [401, 404, 429, 500])
async def test_a_message_that_the_older_transport_cannot_post(
    raw: RawHttp, hosting: Hosting, code: int
) -> None:
    streams: list[Request] = []

    async def begin(request: Request) -> None:
        streams.append(request)
        await request.stream("event: endpoint\ndata: /messages")
        await request.closed.wait()

    async def answer(request: Request) -> None:
        await request.respond(202)
        result = RawHttp.result_of(request)
        await streams[-1].send(b"data: " + request.result(result) + b"\n\n")

    raw.answers |= {"GET": begin, "notifications/initialized": status(202)}
    raw.answers |= dict.fromkeys(("initialize", "tools/list", "tools/call", "ping"), answer)
    async with hosting(older(raw)) as hosted:
        assert await hosted.outcome("write") == "fine"
        raw.answers["tools/call"] = status(code)
        write, read = await hosted.outcome("write"), await hosted.outcome("read")
        if code == 500:
            assert (type(write), type(read)) == (OutcomeUnknown, TransientFailure)
        else:
            assert isinstance(write, ToolFailure)
            assert "Nothing was sent" in str(write)
        raw.answers["tools/call"] = answer
        assert await hosted.outcome("write") == "fine"
