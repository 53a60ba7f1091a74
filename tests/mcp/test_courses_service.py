"""The course service over real sockets: its document, its errors, its promises about grades."""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from pydantic import SecretStr
from starlette.routing import Route

from mcp_servers.courses.document import document_text, load_operations
from mcp_servers.courses.gradebook import Gradebook
from mcp_servers.courses.service import MAX_BODY, build_service
from tests.support.courses import GRADE, LMS_TOKEN, service
from tests.support.served import AGENT_TOKEN, bearer, process

DOCUMENT: dict[str, Any] = json.loads(document_text())


@pytest.fixture
def gradebook(tmp_path: Path) -> Gradebook:
    return Gradebook(tmp_path / "courses.db", busy_timeout=0.05)


@pytest.fixture
def lms(gradebook: Gradebook) -> Iterator[httpx.Client]:
    with (
        service(gradebook) as url,
        httpx.Client(base_url=url, headers=bearer(LMS_TOKEN)) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service for requests that must all be refused: after them it is as it was."""
    gradebook = Gradebook(tmp_path_factory.mktemp("courses") / "courses.db")
    before = gradebook.get_submissions("DB101-2")
    with (
        service(gradebook) as url,
        httpx.Client(base_url=url, headers=bearer(LMS_TOKEN)) as client,
    ):
        yield client
    assert gradebook.get_submissions("DB101-2") == before


def post(lms: httpx.Client, key: str = "k1", **changes: Any) -> httpx.Response:
    return lms.post("/grades", json={**GRADE, **changes}, headers={"Idempotency-Key": key})


def submission(lms: httpx.Client, id: str, assignment: str = "DB101-2") -> dict[str, Any]:
    shown = lms.get("/submissions", params={"assignment_id": assignment}).json()["submissions"]
    (found,) = (entry for entry in shown if entry["id"] == id)
    assert isinstance(found, dict)
    return found


# The document ----------------------------------------------------------------------------------


def test_every_route_is_documented_and_every_operation_is_routed(gradebook: Gradebook) -> None:
    routes = {
        (route.path, method)
        for route in build_service(gradebook, SecretStr(LMS_TOKEN)).routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }
    documented = {
        (path, method.upper()) for path, item in DOCUMENT["paths"].items() for method in item
    }
    assert routes - {("/openapi.json", "GET")} == documented


def test_the_document_is_served_to_anybody(lms: httpx.Client) -> None:
    answer = httpx.get(lms.base_url.join("/openapi.json"))
    assert answer.json() == DOCUMENT
    assert DOCUMENT["openapi"].startswith("3.1.")
    for schema in DOCUMENT["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


@contextmanager
def locked(gradebook: Gradebook) -> Iterator[None]:
    """Somebody else has the file for themselves, readers included."""
    with closing(sqlite3.connect(gradebook.path, isolation_level=None)) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("BEGIN EXCLUSIVE")
        yield


Send = Callable[[httpx.Client], httpx.Response]


@contextmanager
def half_a_grade(url: str | httpx.URL) -> Iterator[socket.socket]:
    """A connection over which the head of a request came, and half of its body."""
    address = httpx.URL(url)
    assert address.port is not None
    lines = [
        "POST /grades HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {LMS_TOKEN}",
        "Content-Type: application/json",
        "Content-Length: 1000",
        "Idempotency-Key: k1",
        "Expect: 100-continue",
    ]
    with socket.create_connection((address.host, address.port)) as line:
        line.sendall("\r\n".join([*lines, "", ""]).encode())
        assert line.recv(100).startswith(b"HTTP/1.1 100 "), "it waits for the body"
        line.sendall(json.dumps(GRADE).encode())
        yield line


def post_half(lms: httpx.Client) -> httpx.Response:
    with half_a_grade(lms.base_url) as line:
        answer = HTTPResponse(line)
        answer.begin()
        return httpx.Response(answer.status, headers=answer.getheaders(), content=answer.read())


ANSWERS: list[tuple[str, int, Send]] = [
    ("list_assignments", 200, lambda c: c.get("/assignments?course=DB101&page_size=1")),
    ("list_assignments", 400, lambda c: c.get("/assignments?page=0")),
    ("list_assignments", 401, lambda c: c.get("/assignments", headers=bearer(AGENT_TOKEN))),
    ("list_assignments", 503, lambda c: c.get("/assignments")),
    ("get_submissions", 200, lambda c: c.get("/submissions?assignment_id=DB101-1")),
    ("get_submissions", 400, lambda c: c.get("/submissions")),
    ("get_submissions", 401, lambda c: c.get("/submissions", headers=bearer(AGENT_TOKEN))),
    ("get_submissions", 404, lambda c: c.get("/submissions?assignment_id=DB101-9")),
    ("get_submissions", 503, lambda c: c.get("/submissions?assignment_id=DB101-1")),
    ("post_grade", 201, post),
    ("post_grade", 400, lambda c: post(c, points=-1)),
    ("post_grade", 401, lambda c: c.post("/grades", headers={"Authorization": LMS_TOKEN})),
    ("post_grade", 404, lambda c: post(c, submission_id="S999999999")),
    ("post_grade", 408, post_half),
    ("post_grade", 409, lambda c: (post(c), post(c, points=24))[1]),
    ("post_grade", 412, lambda c: post(c, expected_revision=2)),
    ("post_grade", 413, lambda c: post(c, comment="x" * MAX_BODY)),
    ("post_grade", 415, lambda c: c.post("/grades", content="{}")),
    ("post_grade", 422, lambda c: post(c, points=31)),
    ("post_grade", 503, post),
]


@pytest.mark.parametrize(("operation", "status", "send"), ANSWERS)
def test_answers_are_as_documented(
    lms: httpx.Client, gradebook: Gradebook, operation: str, status: int, send: Send
) -> None:
    if status == 503:
        gradebook.list_assignments()  # the file is there before it is locked
        with locked(gradebook):
            answer = send(lms)
    elif status == 408:
        with (
            service(gradebook, patience=0.05) as url,
            httpx.Client(base_url=url) as impatient,
        ):
            answer = send(impatient)
    else:
        answer = send(lms)
    assert answer.status_code == status, answer.text
    found = load_operations()[operation]
    kind = "application/json" if status < 300 else "application/problem+json"
    assert answer.headers["content-type"] == kind
    Draft202012Validator({**DOCUMENT, "$ref": pointer(found.path, found.method, status)}).validate(
        answer.json()
    )
    if status >= 400:
        assert answer.json()["status"] == status
    for header in response_of(found.path, found.method, status).get("headers", ()):
        assert answer.headers[header]


def test_every_documented_answer_is_among_those_tried() -> None:
    documented = {
        (node["operationId"], int(status))
        for item in DOCUMENT["paths"].values()
        for node in item.values()
        for status in node["responses"]
    }
    assert {(operation, status) for operation, status, _ in ANSWERS} == documented


def response_of(path: str, method: str, status: int) -> dict[str, Any]:
    node = DOCUMENT["paths"][path][method.lower()]["responses"][str(status)]
    found = (
        DOCUMENT["components"]["responses"][node["$ref"].split("/")[-1]]
        if node.get("$ref")
        else node
    )
    assert isinstance(found, dict)
    return found


def pointer(path: str, method: str, status: int) -> str:
    """Where the document has the schema of an answer, read without our reader."""
    ((_, content),) = response_of(path, method, status)["content"].items()
    reference = content["schema"]["$ref"]
    assert isinstance(reference, str)
    return reference


NODE = {"operationId": "a", "summary": "s", "description": "d", "responses": {"204": {}}}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"paths": {"/a/{id}": {"get": {}}}}, "path parameters"),
        ({"paths": {"/a": {"patch": {}}}}, "not a method"),
        ({"paths": {"/a": {"get": {"parameters": [{"in": "header", "name": "X-A"}]}}}}, "headers"),
        ({"paths": {"/a": {"get": {"parameters": [{"in": "cookie", "name": "a"}]}}}}, "headers"),
        ({"paths": {"/a": {"get": {"$ref": "https://127.0.0.1/a.json"}}}}, "inside the document"),
        (
            {"paths": {**DOCUMENT["paths"], "/b": DOCUMENT["paths"]["/assignments"]}},
            "occurs twice",
        ),
        ({"paths": {"/a": {"get": {**NODE, "responses": {}}}}}, "not enough values"),
        ({"paths": {"/a": {"get": {**NODE, "responses": {"200": {}, "201": {}}}}}}, "too many"),
        (
            {"paths": {"/a": {"get": {**NODE, "requestBody": {"content": {"text/csv": {}}}}}}},
            "JSON",
        ),
    ],
)
def test_what_the_reader_does_not_know_it_refuses(change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        load_operations({**DOCUMENT, **change})


# Grades ----------------------------------------------------------------------------------------


def test_a_grade_is_shown_and_raises_the_revision(lms: httpx.Client) -> None:
    posted = post(lms, comment="Good.").json()
    assert (posted["submission_id"], posted["points"], posted["revision"]) == ("S3", 25, 2)
    shown = submission(lms, "S3")
    assert shown["revision"] == 2
    assert shown["grade"] == {"points": 25, "comment": "Good.", "posted": posted["posted"]}
    again = post(lms, "k2", points=20, expected_revision=2).json()
    assert submission(lms, "S3")["grade"]["points"] == 20
    assert again["grade_id"] != posted["grade_id"]


def test_the_states_part_the_submissions(lms: httpx.Client) -> None:
    post(lms)

    def ids(state: str) -> list[str]:
        query = {"assignment_id": "DB101-2", "state": state}
        return [s["id"] for s in lms.get("/submissions", params=query).json()["submissions"]]

    assert ids("any") == ["S3", "S5", "S4"]
    assert ids("graded") == ["S3"]
    assert ids("ungraded") == ["S5", "S4"]
    (second,) = (a for a in lms.get("/assignments").json()["assignments"] if a["id"] == "DB101-2")
    assert (second["submissions"], second["ungraded"]) == (3, 2)


def test_pages_cover_everything_once(lms: httpx.Client) -> None:
    pages = [lms.get(f"/assignments?page={n}&page_size=3").json() for n in (1, 2, 3)]
    assert [len(page["assignments"]) for page in pages] == [3, 1, 0]
    assert {(page["matched"], page["pages"]) for page in pages} == {(4, 2)}
    ids = [a["id"] for page in pages for a in page["assignments"]]
    assert ids == ["DB101-1", "DB101-2", "ML205-1", "DB101-3"], "in order of their due times"


def test_late_is_after_the_due_time(lms: httpx.Client) -> None:
    assert submission(lms, "S2", "DB101-1")["late"] is True
    assert submission(lms, "S1", "DB101-1")["late"] is False


def test_a_repeated_request_counts_once_even_when_the_revision_went_on(lms: httpx.Client) -> None:
    first = post(lms, "k1")
    post(lms, "k2", points=20, expected_revision=2)
    repeated = post(lms, "k1")
    assert (repeated.status_code, repeated.json()) == (201, first.json())
    assert submission(lms, "S3")["revision"] == 3


def test_a_refused_request_changes_nothing_and_keeps_no_key(lms: httpx.Client) -> None:
    before = submission(lms, "S3")
    stale = post(lms, "k1", expected_revision=7)
    assert stale.json()["current_revision"] == 1
    assert post(lms, "k1", points=31).json()["max_points"] == 30
    assert submission(lms, "S3") == before
    assert post(lms, "k1").status_code == 201


def test_of_rival_grades_one_wins(gradebook: Gradebook, tmp_path: Path) -> None:
    patient = [Gradebook(tmp_path / "courses.db", busy_timeout=30) for _ in range(2)]
    with service(patient[0]) as one, service(patient[1]) as two, ThreadPoolExecutor(8) as pool:

        def send(number: int) -> int:
            url = (one, two)[number % 2]
            with httpx.Client(base_url=url, headers=bearer(LMS_TOKEN), timeout=60) as client:
                return post(client, f"k{number // 4}").status_code

        statuses = list(pool.map(send, range(16)))
    assert statuses.count(201) == 4, "the four requests under the winner's key"
    assert statuses.count(412) == 12
    (shown,) = gradebook.get_submissions("DB101-2", "graded")["submissions"]
    assert shown["revision"] == 2


def test_processes_that_start_together_make_one_gradebook(tmp_path: Path) -> None:
    code = (
        "import sys; from mcp_servers.courses.gradebook import Gradebook\n"
        "print(Gradebook(sys.argv[1], busy_timeout=30).list_assignments()['matched'])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "new" / "courses.db")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert [one.communicate()[0] for one in running] == ["4\n"] * 4
    with closing(sqlite3.connect(tmp_path / "new" / "courses.db")) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("SELECT count(*) FROM grades").fetchone() == (1,)
    assert (tmp_path / "new" / "courses.db").stat().st_mode & 0o077 == 0


# Bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "course=DB101&course=ML205",
        "course=db101",
        "course=DB101%0A",
        "page=1.0",
        "page=%D9%A1",
        "page=99999999999999999999",
        "sort=due",
        "course=%27%20OR%201=1--",
    ],
)
def test_a_query_beside_the_document_is_refused(unchanged: httpx.Client, query: str) -> None:
    answer = unchanged.get(f"/assignments?{query}")
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:courses:wrong-arguments")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"[" * 50_000,
        b'{"submission_id": "S3", "points": NaN, "expected_revision": 1}',
        b'{"submission_id": "S3", "points": 25.0, "expected_revision": 1}',
        b'{"submission_id": "S3", "points": true, "expected_revision": 1}',
        b'{"submission_id": "S3\\n", "points": 25, "expected_revision": 1}',
        b'{"submission_id": "S3", "points": 25, "expected_revision": 1, "comment": "\\ud800"}',
        b'{"submission_id": "S3", "points": 25, "expected_revision": 1, "force": true}',
        b'{"submission_id": "S3", "points": 25, "expected_revision": 1, "idempotency_key": "k"}',
        b"\xff\xfe{}",
    ],
)
def test_a_body_beside_the_document_is_refused(unchanged: httpx.Client, body: bytes) -> None:
    headers = {"Idempotency-Key": "k", "Content-Type": "application/json"}
    answer = unchanged.post("/grades", content=body, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")


@pytest.mark.parametrize("key", [None, "", "x" * 201, "a b"])
def test_a_key_is_needed_and_has_a_form(unchanged: httpx.Client, key: str | None) -> None:
    headers = {} if key is None else {"Idempotency-Key": key}
    assert unchanged.post("/grades", json=GRADE, headers=headers).status_code == 400


def test_of_two_keys_none_counts(unchanged: httpx.Client) -> None:
    headers = [("Idempotency-Key", "k1"), ("Idempotency-Key", "k2")]
    answer = unchanged.post("/grades", json=GRADE, headers=headers)
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:courses:key-missing")


def test_other_paths_and_methods_are_problems_too(unchanged: httpx.Client) -> None:
    for answer, status in ((unchanged.get("/students"), 404), (unchanged.delete("/grades"), 405)):
        assert (answer.status_code, answer.json()["status"]) == (status, status)
        assert answer.headers["content-type"] == "application/problem+json"


def test_a_broken_gradebook_tells_no_details(lms: httpx.Client, gradebook: Gradebook) -> None:
    gradebook.list_assignments()
    with closing(sqlite3.connect(gradebook.path)) as db:
        db.execute("DROP TABLE grades")
    answer = lms.get("/assignments")
    assert answer.status_code == 500
    assert answer.json()["detail"] == "The service failed."


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        f"Basic {LMS_TOKEN}",
        f"Bearer {LMS_TOKEN}x",
        f"Bearer {LMS_TOKEN[:-1]}",
        "Bearer é",
    ],
)
def test_only_the_whole_token_opens(unchanged: httpx.Client, header: str) -> None:
    answer = unchanged.get("/assignments", headers={b"Authorization": header.encode("latin-1")})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_program_serves_its_file_and_ends_on_a_signal(tmp_path: Path) -> None:
    env = {"LMS_TOKEN": LMS_TOKEN, "LMS_DB": str(tmp_path / "courses.db")}
    for state in ("ungraded", "graded"):
        with (
            process("mcp_servers.courses.lms", "--port", "0", **env) as running,
            httpx.Client(base_url=running.url, headers=bearer(LMS_TOKEN)) as client,
        ):
            assert running.url.startswith("http://127.0.0.1:")
            assert (submission(client, "S3")["grade"] is None) == (state == "ungraded")
            assert post(client).status_code == 201
        assert LMS_TOKEN not in running.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_requests_that_stay_half_leave_no_traceback(tmp_path: Path, number: signal.Signals) -> None:
    """Be it that the client leaves in the middle of one, or that the service does."""
    env = {"LMS_TOKEN": LMS_TOKEN, "LMS_DB": str(tmp_path / "courses.db")}
    with process("mcp_servers.courses.lms", "--port", "0", **env) as running:
        with half_a_grade(running.url) as line:
            line.shutdown(socket.SHUT_WR)
            while line.recv(1000):
                pass
        with half_a_grade(running.url) as line:
            running.running.send_signal(number)
            assert running.running.wait() == -number
    assert "Traceback" not in running.log
