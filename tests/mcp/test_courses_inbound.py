"""The two tokens of the courses server: who may call it, and that neither ever stands for both.

What holds for every server over HTTP is in ``test_servers_http.py``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from mcp_servers.config import CoursesSettings, LmsSettings, read_settings
from mcp_servers.courses.generated import offer
from mcp_servers.courses.gradebook import Gradebook
from mcp_servers.courses.upstream import Upstream
from mcp_servers.inbound import PATH, AgentToken, build_application
from mcp_servers.rate_limit import RateLimit
from tests.support.courses import (
    GRADE,
    LMS_TOKEN,
    Answer,
    RoughService,
    Seen,
    service,
)
from tests.support.served import (
    AGENT_TOKEN,
    INITIALIZE,
    bearer,
    over_http,
    over_stdio,
    process,
    served,
    text_of,
)

NOWHERE = "http://127.0.0.1:9"
BOTH = frozenset({"courses:read", "courses:write"})


def calling(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}


@contextmanager
def guarded(
    scopes: frozenset[str] = BOTH, lms: str = NOWHERE, **options: Any
) -> Iterator[httpx.Client]:
    """A client of the MCP server; it has no token yet."""
    token = AgentToken("courses", SecretStr(AGENT_TOKEN), scopes, **options)
    courses = offer(Upstream(lms, SecretStr(LMS_TOKEN)))
    headers = {"Accept": "application/json, text/event-stream"}
    with (
        served(build_application(courses, token, RateLimit(600))) as url,
        httpx.Client(base_url=url, headers=headers) as client,
    ):
        yield client


# The token -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer",
        "Bearer wrong",
        f"Bearer {AGENT_TOKEN}x",
        f"Bearer {AGENT_TOKEN[:-1]}",
        f"Bearer {LMS_TOKEN}",
        f"Basic {AGENT_TOKEN}",
        AGENT_TOKEN,
        "Bearer é",
    ],
)
def test_without_the_token_nobody_gets_in(header: str | None) -> None:
    headers = {} if header is None else {b"Authorization": header.encode("latin-1")}
    with guarded() as client:
        for method in ("POST", "GET", "DELETE"):
            answer = client.request(method, PATH, headers=headers, json=INITIALIZE)
            assert answer.status_code == 401, method
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert AGENT_TOKEN not in answer.text


def test_the_token_opens_until_it_expires() -> None:
    moment = datetime(2027, 1, 31, 12, tzinfo=UTC)
    clock = [moment.timestamp() - 1]
    with guarded(expires=moment, now=lambda: clock[0]) as client:
        first = client.post(PATH, headers=bearer(AGENT_TOKEN), json=INITIALIZE)
        session = {"Mcp-Session-Id": first.headers["mcp-session-id"], **bearer(AGENT_TOKEN)}
        clock[0] += 1
        late = client.post(PATH, headers=session, json=calling("list_assignments", {}))
    assert first.status_code == 200
    assert late.status_code == 401
    assert 'error="invalid_token"' in late.headers["www-authenticate"]


def test_a_token_without_the_read_scope_gets_nowhere() -> None:
    with guarded(frozenset({"courses:write"})) as client:
        answer = client.post(PATH, headers=bearer(AGENT_TOKEN), json=INITIALIZE)
    assert answer.status_code == 403
    assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    assert "courses:read" in answer.text


def test_a_reader_may_not_grade(tmp_path: Path) -> None:
    gradebook = Gradebook(tmp_path / "courses.db")
    with service(gradebook) as lms, guarded(frozenset({"courses:read"}), lms) as client:
        client.headers.update(bearer(AGENT_TOKEN))
        first = client.post(PATH, json=INITIALIZE)
        client.headers["Mcp-Session-Id"] = first.headers["mcp-session-id"]
        read = client.post(PATH, json=calling("list_assignments", {}))
        write = client.post(PATH, json=calling("post_grade", GRADE))
        # Two spellings of one name: whichever counts, the grade is not posted.
        body = json.dumps(calling("post_grade", GRADE))
        double = client.post(
            PATH,
            headers={"Content-Type": "application/json"},
            content=body.replace('"name":', '"name": "list_assignments", "name":'),
        )
        hidden = client.post(
            PATH,
            headers={"Content-Type": "application/json"},
            content=body.replace('"arguments"', '"name": "list_assignments", "arguments"'),
        )
    assert read.status_code == 200
    assert "DB101-1" in read.text
    assert write.status_code == 403
    assert write.headers["www-authenticate"] == (
        'Bearer error="insufficient_scope", scope="courses:write"'
    )
    assert double.status_code == 403
    assert "grade_id" not in hidden.text
    assert gradebook.get_submissions("DB101-2", "graded")["matched"] == 0


async def test_a_reader_is_not_shown_the_writing_tool() -> None:
    with guarded(frozenset({"courses:read"})) as client:
        async with over_http(f"{client.base_url}{PATH}", AGENT_TOKEN) as session:
            listed = [tool.name for tool in (await session.list_tools()).tools]
    assert listed == ["list_assignments", "get_submissions"]


# The two tokens --------------------------------------------------------------------------------


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """All that any library logs, at any level, also by those that keep it from the root."""
    caplog.set_level(logging.DEBUG)
    loggers = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    apart = [logger for logger in loggers if not logger.propagate]
    levels = {logger: logger.level for logger in loggers}
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    for logger in apart:
        logger.addHandler(caplog.handler)
    yield caplog
    for logger in apart:
        logger.removeHandler(caplog.handler)
    for logger, level in levels.items():
        logger.setLevel(level)


def echo(seen: Seen) -> Answer:
    """A service that says back all it was told: in errors, and in results that fit."""
    told = json.dumps([seen.headers, seen.body.decode()])
    if seen.path.startswith("/assignments"):
        row = {"id": "DB101-1", "course": "DB101", "title": told, "due": "2026-10-09T22:00:00Z"}
        rows = [{**row, "max_points": 1, "submissions": 0, "ungraded": 0}]
        body: dict[str, Any] = {"assignments": rows, "matched": 1, "page": 1, "pages": 1}
        return 200, {"content-type": "application/json"}, json.dumps(body).encode()
    body = {"type": told, "title": told, "status": 412, "detail": told, "current_revision": 2}
    return (
        412,
        {"content-type": "application/problem+json", "x-told": "1"},
        json.dumps(body).encode(),
    )


async def test_neither_token_stands_in_for_the_other_or_leaks(
    everything_logged: pytest.LogCaptureFixture,
) -> None:
    rough = RoughService(echo)
    out: list[str] = []
    with rough.running() as lms, guarded(lms=lms) as client:
        async with over_http(f"{client.base_url}{PATH}", AGENT_TOKEN) as session:
            out.append((await session.list_tools()).model_dump_json())
            echoed = await session.call_tool("list_assignments", {})
            refused = await session.call_tool("post_grade", GRADE)
        for token in (LMS_TOKEN, "wrong", AGENT_TOKEN):
            answer = client.post(PATH, headers=bearer(token), json=INITIALIZE)
            out.append(f"{answer.status_code} {answer.headers} {answer.text}")
    out += [echoed.model_dump_json(), refused.model_dump_json()]

    # Outbound there is LMS_TOKEN and never the other.
    assert len(rough.seen) == 2
    for seen in rough.seen:
        assert [v for k, v in seen.headers if k == "Authorization"] == [f"Bearer {LMS_TOKEN}"]
        assert AGENT_TOKEN not in repr(seen)
    # Inbound only AGENT_TOKEN opens.
    assert [text.split()[0] for text in out[1:4]] == ["401", "401", "200"]
    # Neither comes out: not by an error, not by a result that repeats it, not by the log.
    assert echoed.isError
    assert "cannot be passed on" in text_of(echoed)
    assert "current_revision is 2" in text_of(refused)
    logged = everything_logged.text + repr([r.__dict__ for r in everything_logged.records])
    assert "post_grade" in logged, "the log is really kept"
    for text in (*out, *(line for line in logged.splitlines())):
        assert LMS_TOKEN not in text
        assert AGENT_TOKEN not in text


async def test_the_service_does_not_know_the_agent_and_the_programs_log_neither(
    tmp_path: Path,
) -> None:
    lms_env = {"LMS_TOKEN": LMS_TOKEN, "LMS_DB": str(tmp_path / "courses.db")}
    with process("mcp_servers.courses.lms", "--port", "0", **lms_env) as lms:
        async with httpx.AsyncClient(headers=bearer(AGENT_TOKEN)) as client:
            swapped = await client.get(f"{lms.url}/assignments")
        env = {"LMS_URL": lms.url, "AGENT_TOKEN": AGENT_TOKEN}
        # A server that was given a wrong LMS_TOKEN does not fall back to the caller's.
        wrong = {**env, "LMS_TOKEN": "not-the-token-of-the-lms"}
        with process("mcp_servers.courses", "--http", "--port", "0", **wrong) as server:
            async with over_http(server.url, AGENT_TOKEN) as session:
                refused = await session.call_tool("list_assignments", {})
        async with over_stdio("mcp_servers.courses", **{**env, "LMS_TOKEN": LMS_TOKEN}) as session:
            served_over_stdio = await session.call_tool("list_assignments", {})
    assert swapped.status_code == 401
    assert "did not accept this server" in text_of(refused)
    assert not served_over_stdio.isError
    for log in (lms.log, server.log):
        for token in (LMS_TOKEN, AGENT_TOKEN, wrong["LMS_TOKEN"]):
            assert token not in log


# Settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"LMS_TOKEN": None}, "LMS_TOKEN: Field required"),
        ({"LMS_TOKEN": "short"}, "LMS_TOKEN: Value error, at least 16"),
        ({"LMS_TOKEN": "with-a-line-end-inside\n"}, "LMS_TOKEN: Value error, at least 16"),
        ({"AGENT_TOKEN": LMS_TOKEN}, "Value error, AGENT_TOKEN and LMS_TOKEN must differ"),
        ({"AGENT_TOKEN_SCOPES": "courses:reed"}, "AGENT_TOKEN_SCOPES"),
        ({"AGENT_TOKEN_EXPIRES": "2027-01-31T12:00:00"}, "AGENT_TOKEN_EXPIRES: Input should have"),
        ({"LMS_URL": "http://lms.example"}, "LMS_URL: Value error, https"),
        ({"LMS_URL": "https://user:pw@lms.example"}, "LMS_URL: Value error, scheme, host"),
    ],
)
def test_settings_that_cannot_work_stop_the_start(
    change: dict[str, str | None],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings = {"LMS_TOKEN": LMS_TOKEN, "AGENT_TOKEN": AGENT_TOKEN, **change}
    for name, value in settings.items():
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(SystemExit) as ended:
        read_settings(CoursesSettings)
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(said)
    for value in filter(None, settings.values()):
        assert value not in told


def test_an_expired_token_of_the_environment_is_refused() -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    env = {
        "LMS_TOKEN": LMS_TOKEN,
        "AGENT_TOKEN": AGENT_TOKEN,
        "AGENT_TOKEN_EXPIRES": past.isoformat(),
    }
    with process("mcp_servers.courses", "--http", "--port", "0", **env) as running:
        answer = httpx.post(running.url, headers=bearer(AGENT_TOKEN), json=INITIALIZE)
    assert answer.status_code == 401


def test_settings_come_from_the_environment_and_hide_the_tokens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("LMS_URL=https://elsewhere.example\n")
    monkeypatch.setenv("LMS_TOKEN", LMS_TOKEN)
    monkeypatch.setenv("AGENT_TOKEN", AGENT_TOKEN)
    settings = CoursesSettings()
    assert str(settings.lms_url) == "http://127.0.0.1:8765/"
    assert settings.agent_scopes == {"courses:read"}, "writing has to be named"
    monkeypatch.setenv("AGENT_TOKEN_SCOPES", "courses:read courses:write")
    assert CoursesSettings().agent_scopes == BOTH
    assert LmsSettings().database.parts[-3:] == ("sayso", "worlds", "courses.db")
    for token in (LMS_TOKEN, AGENT_TOKEN):
        assert token not in repr(settings)
        assert token not in repr(LmsSettings())
