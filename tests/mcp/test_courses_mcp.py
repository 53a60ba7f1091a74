"""The MCP server over the course service: what a client sees, over stdio and Streamable HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import ClientSession
from mcp.types import CallToolResult
from pydantic import SecretStr

from mcp_servers.courses.document import load_operations
from mcp_servers.courses.generated import hints_of, offer
from mcp_servers.courses.gradebook import Gradebook
from mcp_servers.courses.upstream import MAX_ANSWER, Upstream
from mcp_servers.inbound import PATH, AgentToken, build_application
from mcp_servers.rate_limit import RateLimit
from tests.support.courses import (
    GRADE,
    LMS_TOKEN,
    UPSTREAM_TEXT,
    Answer,
    RoughService,
    Seen,
    problem,
    service,
)
from tests.support.served import (
    AGENT_TOKEN,
    closed_port,
    over_http,
    over_stdio,
    process,
    served,
    text_of,
)
from tools.contract import ToolFailure

KEY = "sayso/idempotencyKey"
OUTCOME = "sayso/outcome"
SCOPES = frozenset({"courses:read", "courses:write"})

Open = Callable[[], AbstractAsyncContextManager[ClientSession]]


@pytest.fixture
def gradebook(tmp_path: Path) -> Gradebook:
    return Gradebook(tmp_path / "courses.db")


@contextmanager
def server_over(lms: str, **options: Any) -> Iterator[str]:
    """The MCP server over HTTP, in this process but for real; its address."""
    upstream = Upstream(lms, SecretStr(LMS_TOKEN), **options)
    token = AgentToken("courses", SecretStr(AGENT_TOKEN), SCOPES)
    with served(build_application(offer(upstream), token, RateLimit(600))) as url:
        yield url + PATH


@asynccontextmanager
async def session_over(lms: str, **options: Any) -> AsyncIterator[ClientSession]:
    with server_over(lms, **options) as url:
        async with over_http(url, AGENT_TOKEN) as session:
            yield session


@pytest.fixture(params=["stdio", "http"])
def connect(
    request: pytest.FixtureRequest, gradebook: Gradebook
) -> Iterator[Callable[[], AbstractAsyncContextManager[ClientSession]]]:
    """Opens a session with the program, as a process of its own, over each transport."""
    with service(gradebook) as lms:
        if request.param == "stdio":
            yield lambda: over_stdio("mcp_servers.courses", LMS_URL=lms, LMS_TOKEN=LMS_TOKEN)
        else:
            env = {
                "LMS_URL": lms,
                "LMS_TOKEN": LMS_TOKEN,
                "AGENT_TOKEN": AGENT_TOKEN,
                "AGENT_TOKEN_SCOPES": " ".join(SCOPES),
            }
            with process("mcp_servers.courses", "--http", "--port", "0", **env) as running:
                yield lambda: over_http(running.url, AGENT_TOKEN)


async def test_reading_grading_and_a_stale_grade(connect: Open, gradebook: Gradebook) -> None:
    expected = gradebook.list_assignments("DB101")
    async with connect() as session:
        listed = [tool.name for tool in (await session.list_tools()).tools]
        assignments = await session.call_tool("list_assignments", {"course": "DB101"})
        before = await session.call_tool("get_submissions", {"assignment_id": "DB101-2"})
        posted = await session.call_tool("post_grade", GRADE)
        stale = await session.call_tool("post_grade", {**GRADE, "points": 1})
    assert listed == ["list_assignments", "get_submissions", "post_grade"]
    assert assignments.structuredContent == expected
    assert before.structuredContent is not None
    assert before.structuredContent["submissions"][0]["revision"] == 1
    assert json.loads(text_of(posted)) == posted.structuredContent
    assert posted.structuredContent is not None
    assert posted.structuredContent["revision"] == 2
    assert stale.isError
    assert stale.meta == {OUTCOME: "failed"}
    assert text_of(stale) == (
        "The submission is not at expected_revision: it changed since it was read. Read it again "
        "with get_submissions, then decide anew. current_revision is 2. Nothing was changed."
    )
    (shown,) = gradebook.get_submissions("DB101-2", "graded")["submissions"]
    assert shown["grade"]["points"] == 25


async def test_tools_are_the_operations_of_the_document() -> None:
    async with session_over(f"http://127.0.0.1:{closed_port()}") as session:
        listed = {tool.name: tool for tool in (await session.list_tools()).tools}
    operations = load_operations()
    assert list(listed) == ["list_assignments", "get_submissions", "post_grade"]
    assert listed.keys() == operations.keys()
    for name, operation in operations.items():
        tool = listed[name]
        assert tool.description == operation.description
        assert tool.inputSchema == operation.arguments
        assert tool.inputSchema["additionalProperties"] is False
        assert tool.outputSchema == operation.result
        assert "$ref" not in json.dumps([tool.inputSchema, tool.outputSchema])
    required = {name: set(tool.inputSchema["required"]) for name, tool in listed.items()}
    assert required["post_grade"] == {"submission_id", "points", "expected_revision"}
    hints = {
        name: tool.annotations.model_dump(exclude_none=True)
        for name, tool in listed.items()
        if tool.annotations
    }
    read = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True}
    write = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
    assert hints == {
        "list_assignments": {**read, "openWorldHint": False},
        "get_submissions": {**read, "openWorldHint": True},
        "post_grade": {**write, "openWorldHint": False},
    }


@pytest.mark.parametrize(
    ("method", "reads", "idempotent"),
    [("get", True, True), ("put", False, True), ("post", False, False), ("delete", False, True)],
)
def test_hints_come_from_the_method(method: str, reads: bool, idempotent: bool) -> None:
    node = {"operationId": "a", "summary": "s", "description": "d", "responses": {"204": {}}}
    (operation,) = load_operations({"paths": {"/a": {method: node}}}).values()
    assert hints_of(operation) == {
        "readOnlyHint": reads,
        "destructiveHint": not reads,
        "idempotentHint": idempotent,
        "openWorldHint": True,
    }


async def test_arguments_that_do_not_fit_are_named_and_not_sent() -> None:
    rough = RoughService(lambda seen: problem(500))
    with rough.running() as lms:
        async with session_over(lms) as session:
            wrong = await session.call_tool(
                "post_grade", {"submission_id": "S3\n", "points": 9.0, "force": True}
            )
    assert wrong.isError
    assert text_of(wrong) == (
        "post_grade was not called, its arguments do not fit:\n"
        "- arguments: 'expected_revision' is a required property\n"
        "- arguments: Additional properties are not allowed ('force' was unexpected)\n"
        "- points: 9.0 is not of type 'integer'\n"
        "- submission_id: 'S3\\n' does not match ^S[0-9]{1,9}$"
    )
    assert rough.seen == []


# Errors of the service -------------------------------------------------------------------------

READ_CALL = ("get_submissions", {"assignment_id": "DB101-1"})
WRITE_CALL = ("post_grade", {**GRADE, "idempotency_key": "mine"})


def page(**more: object) -> dict[str, object]:
    return {"assignments": [], "matched": 0, "page": 1, "pages": 0, **more}


HALF = {
    "grade_id": "G2",
    "submission_id": "S3",
    "points": 25,
    "max_points": 30,
    "comment": "half a surrogate pair: \ud800",
    "posted": "2026-12-01T00:00:00Z",
    "revision": 2,
}


def ok(status: int, value: object) -> Answer:
    return status, {"content-type": "application/json"}, json.dumps(value).encode()


async def call_over(
    answer: Callable[[Seen], Answer], call: tuple[str, dict[str, Any]], **options: Any
) -> CallToolResult:
    with RoughService(answer).running() as lms:
        async with session_over(lms, **options) as session:
            return await session.call_tool(*call)


@pytest.mark.parametrize(
    ("call", "answer", "outcome", "said"),
    [
        (READ_CALL, problem(400), "failed", "does not accept these arguments"),
        (READ_CALL, problem(401), "failed", "did not accept this server"),
        (READ_CALL, problem(403), "failed", "did not accept this server"),
        (READ_CALL, problem(404), "failed", "list_assignments has the ids. Nothing was changed."),
        (READ_CALL, problem(418), "failed", "refused (418). Nothing was changed."),
        (READ_CALL, problem(429), "transient", "busy. Nothing was changed."),
        (READ_CALL, problem(503), "transient", "Try the same call again. Nothing was changed."),
        (READ_CALL, problem(500), "transient", "failed (500). Nothing was changed."),
        (WRITE_CALL, problem(409), "failed", "use a new key. Nothing was changed."),
        (WRITE_CALL, problem(412, current_revision=8), "failed", "current_revision is 8."),
        (
            WRITE_CALL,
            problem(412, current_revision=UPSTREAM_TEXT),
            "failed",
            "decide anew. Nothing",
        ),
        (WRITE_CALL, problem(412, current_revision=True), "failed", "decide anew. Nothing"),
        (WRITE_CALL, problem(422, max_points=30), "failed", "max_points is 30."),
        (WRITE_CALL, problem(503), "transient", "Nothing was changed."),
        (WRITE_CALL, (302, {"location": "/" + UPSTREAM_TEXT}, b""), "failed", "refused (302)"),
        (WRITE_CALL, problem(500), "unknown", "failed (500)"),
        (WRITE_CALL, problem(504), "unknown", "failed (504)"),
        (WRITE_CALL, problem(200), "unknown", "failed (200)"),
        (WRITE_CALL, (201, {}, UPSTREAM_TEXT.encode()), "unknown", "unexpected form"),
        (WRITE_CALL, ok(201, {"note": UPSTREAM_TEXT}), "unknown", "unexpected form"),
        (WRITE_CALL, ok(201, HALF), "unknown", "unexpected form"),
        (WRITE_CALL, (201, {}, b"[" * 100_000), "unknown", "unexpected form"),
        (WRITE_CALL, None, "unknown", "answer was lost"),
        (READ_CALL, None, "transient", "answer was lost. Nothing was changed."),
        (READ_CALL, (200, {}, b"x" * (MAX_ANSWER + 1)), "transient", "ask for less at once"),
        (("list_assignments", {}), ok(200, page(note=UPSTREAM_TEXT)), "transient", "form"),
    ],
)
async def test_errors_are_ours_and_say_what_happened(
    call: tuple[str, dict[str, Any]], answer: Answer, outcome: str, said: str
) -> None:
    result = await call_over(lambda seen: answer, call)
    assert result.isError
    assert result.meta == {OUTCOME: outcome}
    assert said in text_of(result)
    assert UPSTREAM_TEXT not in result.model_dump_json()
    if outcome == "unknown":
        assert 'idempotency_key="mine"' in text_of(result)
        assert "Nothing was changed" not in text_of(result)


@pytest.mark.parametrize(("call", "outcome"), [(READ_CALL, "failed"), (WRITE_CALL, "unknown")])
async def test_what_nobody_expected_is_told_without_details(
    call: tuple[str, dict[str, Any]], outcome: str
) -> None:
    async with session_over("http://127.0.0.1:none") as session:  # settings refuse such an address
        result = await session.call_tool(*call)
    assert (result.isError, result.meta) == (True, {OUTCOME: outcome})
    assert "failed inside the server" in text_of(result)
    assert "none" not in text_of(result)


@pytest.mark.parametrize("call", [READ_CALL, WRITE_CALL])
async def test_a_service_that_is_not_there_was_not_changed(
    call: tuple[str, dict[str, Any]],
) -> None:
    async with session_over(f"http://127.0.0.1:{closed_port()}") as session:
        result = await session.call_tool(*call)
    assert result.meta == {OUTCOME: "transient"}
    assert "cannot be reached; nothing was changed" in text_of(result)


@pytest.mark.parametrize(("call", "outcome"), [(READ_CALL, "transient"), (WRITE_CALL, "unknown")])
async def test_a_service_that_stays_silent_is_given_up(
    call: tuple[str, dict[str, Any]], outcome: str
) -> None:
    given_up = threading.Event()

    def wait(seen: Seen) -> Answer:
        given_up.wait()
        return None

    rough = RoughService(wait)
    with rough.running() as lms:
        try:
            async with session_over(lms, timeout=0.2) as session:
                result = await session.call_tool(*call)
        finally:
            given_up.set()
    assert result.meta == {OUTCOME: outcome}
    assert len(rough.seen) == 1, "a request is never sent again by the server"


# Idempotency keys ------------------------------------------------------------------------------


async def test_a_lost_answer_is_settled_by_the_same_key(gradebook: Gradebook) -> None:
    """The grade is recorded and the answer lost; the call under the named key finds it."""
    with service(gradebook) as lms:

        def forward_and_hang_up(seen: Seen) -> Answer:
            headers = [(k, v) for k, v in seen.headers if k.lower() != "host"]
            httpx.post(lms + seen.path, headers=headers, content=seen.body).raise_for_status()
            return None

        lost = await call_over(forward_and_hang_up, ("post_grade", GRADE))
        _, _, rest = text_of(lost).partition('idempotency_key="')
        key = rest.partition('"')[0]
        async with session_over(lms) as session:
            settled = await session.call_tool("post_grade", {**GRADE, "idempotency_key": key})
            other = await session.call_tool("post_grade", GRADE)
    assert lost.meta == {OUTCOME: "unknown"}
    assert settled.structuredContent is not None
    assert settled.structuredContent["revision"] == 2
    assert "current_revision is 2" in text_of(other), "a key of its own is another request"


async def test_keys_come_from_meta_or_the_argument() -> None:
    rough = RoughService(lambda seen: problem(503))
    calls: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        (GRADE, {KEY: "k1"}),
        ({**GRADE, "idempotency_key": "k2"}, None),
        ({**GRADE, "idempotency_key": "k3"}, {KEY: "k3"}),
        (GRADE, None),
        (GRADE, None),
    ]
    with rough.running() as lms:
        async with session_over(lms) as session:
            for arguments, meta in calls:
                await session.call_tool("post_grade", arguments, meta=meta)
    keys = [dict(seen.headers)["Idempotency-Key"] for seen in rough.seen]
    assert keys[:3] == ["k1", "k2", "k3"]
    assert len(set(keys)) == 5
    assert all("idempotency_key" not in json.loads(seen.body) for seen in rough.seen)


async def test_keys_that_differ_or_cannot_be_sent_are_refused() -> None:
    rough = RoughService(lambda seen: problem(503))
    refused: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        ({**GRADE, "idempotency_key": "k4"}, {KEY: "other"}),
        ({**GRADE, "idempotency_key": "a b"}, None),
        ({**GRADE, "idempotency_key": 7}, None),
        (GRADE, {KEY: "k\r\nX-Injected: 1"}),
        (GRADE, {KEY: 7}),
        (GRADE, {KEY: ""}),
    ]
    with rough.running() as lms:
        async with session_over(lms) as session:
            results = [await session.call_tool("post_grade", a, meta=m) for a, m in refused]
    assert [result.meta for result in results] == [{OUTCOME: "failed"}] * len(refused)
    assert "two idempotency keys that differ" in text_of(results[0])
    assert "visible ASCII" in text_of(results[1])
    assert rough.seen == []


# What travels on -------------------------------------------------------------------------------


async def test_only_what_the_document_names_goes_to_the_service() -> None:
    rough = RoughService(lambda seen: (503, {"set-cookie": "tracked=1"}, b""))
    extra = {
        "X-Forwarded-For": "10.0.0.1",
        "X-Role": "admin",
        "Cookie": "session=1",
        "Idempotency-Key": "smuggled",
        "Proxy-Authorization": "Basic eDp5",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    with rough.running() as lms, server_over(lms) as url:
        async with over_http(url, AGENT_TOKEN, **extra) as session:
            await session.call_tool(*READ_CALL)
            await session.call_tool(*WRITE_CALL)
    read, write = rough.seen
    host = ("Host", lms.removeprefix("http://"))
    ours = [host, ("Authorization", f"Bearer {LMS_TOKEN}")]
    accept = ("Accept", "application/json, application/problem+json")
    assert sorted(read.headers) == sorted([*ours, accept])
    assert sorted(write.headers) == sorted(
        [
            *ours,
            accept,
            ("Content-Type", "application/json"),
            ("Idempotency-Key", "mine"),
            ("Content-Length", str(len(write.body))),
        ]
    )
    assert (read.method, read.path) == ("GET", "/submissions?assignment_id=DB101-1")
    assert (write.method, write.path) == ("POST", "/grades")
    assert json.loads(write.body) == GRADE


async def test_proxies_and_netrc_of_the_environment_are_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login other password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    rough = RoughService(lambda seen: problem(404))
    with rough.running() as lms:
        async with Upstream(lms, SecretStr(LMS_TOKEN)) as upstream:
            operation = load_operations()["get_submissions"]
            with pytest.raises(ToolFailure, match="There is no such assignment"):
                await upstream.call(operation, {"assignment_id": "DB101-9"})
    assert dict(rough.seen[0].headers)["Authorization"] == f"Bearer {LMS_TOKEN}"


async def test_a_path_before_the_routes_is_kept() -> None:
    rough = RoughService(lambda seen: problem(404))
    with rough.running() as lms:
        async with session_over(f"{lms}/api/v1/") as session:
            await session.call_tool(*READ_CALL)
    assert rough.seen[0].path == "/api/v1/submissions?assignment_id=DB101-1"
