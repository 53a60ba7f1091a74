"""Signing in to a server that wants OAuth, and what a host does with it: over real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import signal
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from agent.application import Application, Options
from agent.config import load_settings
from agent.errors import McpError, UsageError
from agent.mcp.host import McpHost, Surroundings
from agent.mcp.servers import Http, ServerConfig, Stdio
from agent.mcp.signing_in.oauth_http import MAX_ANSWER, check_address
from agent.mcp.signing_in.sign_in import MAX_ADDRESS, sign_in, sign_out, stored_auth
from agent.mcp.signing_in.tokens import TOKENS_FOLDER, SignIn
from tests.cli.program import SCRIPT, finish, start
from tests.support.oauth_server import OAuthServer
from tests.support.served import INITIALIZE, closed_port
from tests.support.terminal import Terminal

SECRET = re.compile(r"\b(?:at|rt)-[\w-]{20,}")
PUBLIC = "https://mcp.example/mcp"
ACCEPT = {"accept": "application/json, text/event-stream"}

Visit = Callable[[str], Any]


@pytest.fixture
def oauth(request: pytest.FixtureRequest) -> OAuthServer:
    """Both servers; a test changes what they do before or while they run."""
    return OAuthServer(sse=getattr(request, "param", False))


@pytest.fixture
def server(oauth: OAuthServer, tmp_path: Path) -> Iterator[ServerConfig]:
    with oauth.running():
        transport = Http(oauth.url, sse=oauth.sse)
        yield ServerConfig("notes", transport, source=tmp_path / ".mcp.json")


class Person:
    """Whoever sits at the terminal, and goes to the address that is shown there.

    Args:
        visit: What they do with it; by default they open it in a browser, which follows where it
            is sent.
    """

    def __init__(self, visit: Visit | None = None) -> None:
        self.shown: list[str] = []
        self.pages: list[httpx.Response] = []
        self._visit = visit or self.browse
        self._visits: list[asyncio.Task[Any]] = []

    def __call__(self, line: str) -> None:
        self.shown.append(line)
        if line.startswith("http"):
            self._visits.append(asyncio.create_task(self._visit(line)))

    @property
    def address(self) -> str:
        (address,) = (line for line in self.shown if line.startswith("http"))
        return address

    async def browse(self, address: str) -> None:
        async with httpx.AsyncClient(follow_redirects=True) as browser:
            self.pages.append(await browser.get(address))

    async def done(self) -> None:
        await asyncio.gather(*self._visits)


async def where_it_ends(address: str) -> str:
    """The address that the browser is sent back to."""
    async with httpx.AsyncClient() as browser:
        return (await browser.get(address)).headers["location"]


def redirect_uri(address: str) -> str:
    return parse_qs(urlsplit(address).query)["redirect_uri"][0]


def token_files(home: Path) -> list[Path]:
    return sorted((home / TOKENS_FOLDER).glob("*"))


def kept(home: Path) -> dict[str, Any]:
    (path,) = token_files(home)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def keep(home: Path, **changed: Any) -> None:
    (path,) = token_files(home)
    path.write_text(json.dumps(kept(home) | changed))


def host(server: ServerConfig, home: Path) -> McpHost:
    return McpHost(
        [server], Surroundings(os.environ, home / "logs", auth=lambda s: stored_auth(s, home))
    )


async def greet(server: ServerConfig, auth: httpx.Auth | None) -> httpx.Response:
    """One request of a host."""
    assert isinstance(server.transport, Http)
    async with httpx.AsyncClient(auth=auth) as client:
        return await client.post(server.transport.url, json=INITIALIZE, headers=ACCEPT)


# --- a person signs in -----------------------------------------------------------------------


@pytest.mark.parametrize("oauth", [False, True], indirect=True, ids=["http", "sse"])
async def test_a_person_signs_in_and_hosts_use_it(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    async with host(server, sayso_home) as before:
        assert before.tools == []
        assert "it wants a sign-in (HTTP 401" in before.problems["notes"]
        assert "sayso mcp login notes" in before.problems["notes"]

    person = Person()
    issuer = await sign_in(server, sayso_home, person)
    await person.done()

    assert issuer == f"{oauth.base}/"
    assert person.pages[0].text == "sayso has the answer of the sign-in. Go back to the terminal.\n"
    told = person.shown[: person.shown.index(person.address)]
    assert told[0].endswith(f"the sign-in server {issuer}"), "before the address"
    assert "It asks for: notes:read" in told
    asked = parse_qs(urlsplit(person.address).query)
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["resource"] == [oauth.url]

    async with host(server, sayso_home) as after:
        assert after.problems == {}
        (tool,) = after.tools
        assert "buy milk" in str(await tool.ainvoke({}))
    assert set(oauth.signed[-3:]) <= set(oauth.tokens)


async def test_what_is_kept_is_for_its_owner_alone(server: ServerConfig, sayso_home: Path) -> None:
    await sign_in(server, sayso_home, Person())
    (path,) = token_files(sayso_home)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    read = SignIn.model_validate_json(path.read_text())
    assert read.tokens.access_token
    assert read.client.client_secret
    for secret in (read.tokens.access_token, read.tokens.refresh_token, read.client.client_secret):
        assert str(secret) not in repr(read)


async def test_the_application_signs_with_it(server: ServerConfig, sayso_home: Path) -> None:
    await sign_in(server, sayso_home, Person())
    options = Options(servers=(server,))
    async with Application.open(load_settings(model="offline"), options) as app:
        assert app.host is not None
        assert [tool.name for tool in app.host.tools] == ["notes__latest"]


async def test_a_server_that_lets_one_in_at_first_can_be_signed_in_to(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    oauth.guards = False
    await sign_in(server, sayso_home, Person())
    assert kept(sayso_home)["tokens"]["access_token"] in oauth.tokens


async def test_what_the_address_of_a_server_hides_stays_with_it(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    keyed = ServerConfig("notes", Http(f"{oauth.url}?key=s3cret-s3cret"), server.source)
    person = Person()
    await sign_in(keyed, sayso_home, person)
    assert "s3cret-s3cret" not in "".join(person.shown)


async def test_it_is_refused(oauth: OAuthServer, server: ServerConfig, sayso_home: Path) -> None:
    await sign_in(server, sayso_home, Person())
    before = kept(sayso_home)
    oauth.consents = False
    with pytest.raises(McpError, match=r"refused \(access_denied: the person said no\)"):
        await sign_in(server, sayso_home, Person())
    assert kept(sayso_home) == before


async def test_only_the_answer_that_was_asked_for_is_taken(
    server: ServerConfig, sayso_home: Path
) -> None:
    answers: list[tuple[int, str]] = []

    async def visit(address: str) -> None:
        back = redirect_uri(address)
        good = await where_it_ends(address)
        async with httpx.AsyncClient() as browser:
            for wrong in (
                f"{back}?{urlencode({'code': 'mine', 'state': 'guessed'})}",
                f"{back}?code=mine",
                f"{back}?{urlencode({'error': 'access_denied', 'state': ''})}",
                f"{good}&state=another",
                back.replace("/callback", "/"),
            ):
                answer = await browser.get(wrong)
                answers.append((answer.status_code, answer.text))
            answers.append(((await browser.post(good)).status_code, ""))
            answers.append(((await browser.get(good)).status_code, ""))

    person = Person(visit)
    await sign_in(server, sayso_home, person)
    await person.done()
    assert [status for status, _ in answers] == [400, 400, 400, 400, 404, 405, 200]
    assert answers[0][1] == "That belongs to another sign-in than the one that waits here.\n"


async def test_an_answer_of_another_sign_in_server_ends_it(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    async def visit(address: str) -> None:
        good = await where_it_ends(address)
        async with httpx.AsyncClient() as browser:
            await browser.get(good.replace(urlencode({"iss": oauth.base}), "iss=https://evil"))

    with pytest.raises(McpError, match="another sign-in server"):
        await sign_in(server, sayso_home, Person(visit))
    assert token_files(sayso_home) == []
    assert "/token" not in oauth.asked


async def test_whoever_holds_the_port_open_does_not_hold_the_sign_in(
    server: ServerConfig, sayso_home: Path
) -> None:
    """Browsers open connections beforehand, and send nothing on them."""
    held: list[asyncio.StreamReader] = []

    async def visit(address: str) -> None:
        back = httpx.URL(redirect_uri(address))
        reader, writer = await asyncio.open_connection(back.host, back.port)
        held.append(reader)
        await Person().browse(address)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    person = Person(visit)
    await sign_in(server, sayso_home, person)
    served = [task for task in asyncio.all_tasks() if "Redirect" in repr(task.get_coro())]
    assert served == []
    await person.done()


async def test_nobody_comes(server: ServerConfig, sayso_home: Path) -> None:
    async def visit(address: str) -> None:
        return

    person = Person(visit)
    with pytest.raises(McpError, match=r"nobody signed in within 0\.01 seconds"):
        await sign_in(server, sayso_home, person, patience=0.01)
    assert token_files(sayso_home) == []
    with pytest.raises(httpx.ConnectError):
        await person.browse(redirect_uri(person.address))


async def test_the_address_is_pasted(server: ServerConfig, sayso_home: Path) -> None:
    shown: asyncio.Queue[str] = asyncio.Queue()

    async def visit(address: str) -> None:
        shown.put_nowait(address)

    async def typed() -> AsyncIterator[str]:
        address = await shown.get()
        yield "\n"
        yield "what now?\n"
        yield f"{redirect_uri(address)}?code=x&state=y\n"
        yield f"  {await where_it_ends(address)}\n"

    person = Person(visit)
    await sign_in(server, sayso_home, person, typed=typed())
    assert len(token_files(sayso_home)) == 1
    assert any("paste the address" in line for line in person.shown)
    assert person.shown[-2:] == [
        "That is not the address that was waited for; it begins with "
        f"{redirect_uri(person.address)}?",
        "That belongs to another sign-in than the one that waits here.",
    ]


async def test_a_server_that_does_not_say_how(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    oauth.publishes = oauth.registers = False
    with pytest.raises(McpError) as caught:
        await sign_in(server, sayso_home, Person())
    assert "MCP server 'notes': it wants a sign-in, and does not say how" in str(caught.value)
    assert '"Authorization"' in str(caught.value)
    assert "Nobody was signed in" in str(caught.value)


async def test_a_sign_in_server_that_says_nothing_is_not_guessed_at(sayso_home: Path) -> None:
    """The SDK would take the server itself for it, after another one was named."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/mcp":
            return httpx.Response(401)
        if request.url.path == "/register":
            return httpx.Response(201, json={**json.loads(request.content), "client_id": "c"})
        if request.url.host == "mcp.example" and "protected-resource" in request.url.path:
            named = ["https://as.example"]
            return httpx.Response(200, json={"resource": PUBLIC, "authorization_servers": named})
        return httpx.Response(404)

    person, server = Person(), ServerConfig("notes", Http(PUBLIC))
    with pytest.raises(McpError, match=r"https://as\.example/ does not say how to sign in"):
        await sign_in(server, sayso_home, person, transport=httpx.MockTransport(answer))
    assert person.shown == []


async def test_a_sign_in_server_that_registers_nobody(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    oauth.registers = False
    with pytest.raises(McpError, match=r"does not register this program .*registration is closed"):
        await sign_in(server, sayso_home, Person())


async def test_a_server_that_is_away(sayso_home: Path) -> None:
    away = ServerConfig("notes", Http(f"http://127.0.0.1:{closed_port()}/mcp"))
    with pytest.raises(McpError, match=r"127\.0\.0\.1:\d+ cannot be reached"):
        await sign_in(away, sayso_home, Person())


@pytest.mark.parametrize(
    ("transport", "why"),
    [
        (Stdio("notes"), "is a program on this machine"),
        (Http("http://127.0.0.1:1/mcp", {"authorization": "Bearer x"}), "of its own in"),
        (Http("http://notes.example/mcp"), "http://notes.example is not https"),
    ],
)
async def test_no_server_to_sign_in_to(transport: Http | Stdio, why: str, sayso_home: Path) -> None:
    with pytest.raises(UsageError, match=why):
        await sign_in(ServerConfig("notes", transport), sayso_home, Person())


# --- what sign-in servers say ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("issues", "why"),
    [
        (lambda body: body | {"access_token": [body["access_token"]]}, "did not give a token"),
        (lambda body: body | {"expires_in": body["access_token"]}, "did not give a token"),
        (lambda body: body["access_token"], "did not give a token"),
        (lambda body: body | {"expires_in": 10**400}, "cannot be understood"),
        (lambda body: body | {"access_token": body["access_token"] + "\r\nX: y"}, "can be sent"),
        (lambda body: body | {"access_token": body["access_token"] + "é"}, "can be sent"),
    ],
)
async def test_what_is_no_token_is_quoted_nowhere(
    oauth: OAuthServer,
    server: ServerConfig,
    sayso_home: Path,
    caplog: pytest.LogCaptureFixture,
    issues: Callable[[dict[str, Any]], Any],
    why: str,
) -> None:
    caplog.set_level(logging.DEBUG, "mcp")
    oauth.issues = issues
    person = Person()
    with pytest.raises(McpError, match=why) as caught:
        await sign_in(server, sayso_home, person)
    assert token_files(sayso_home) == []
    for text in (str(caught.value), caplog.text, *person.shown):
        assert not SECRET.search(text)


async def test_a_token_that_the_server_does_not_take_is_not_kept(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    def issues(body: dict[str, Any]) -> dict[str, Any]:
        oauth.tokens.clear()
        return body

    oauth.issues = issues
    with pytest.raises(McpError, match=r"does not accept the token \(HTTP 401"):
        await sign_in(server, sayso_home, Person())
    assert token_files(sayso_home) == []


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"issuer": "https://evil.example"}, "issuer mismatch"),
        ({"authorization_endpoint": "http://evil.example/"}, "http://evil.example is not https"),
        ({"authorization_endpoint": "https://good.example@evil.example/"}, "named with a user"),
        ({"authorization_endpoint": f"https://e.example/{'x' * MAX_ADDRESS}"}, "cannot be shown"),
        ({"registration_endpoint": "http://evil.example/"}, "http://evil.example is not https"),
        ({"token_endpoint": "http://evil.example/"}, "http://evil.example is not https"),
        ({"padding": "x" * MAX_ANSWER}, "sent more than 256 KiB"),
    ],
)
async def test_a_sign_in_server_that_cannot_be_used(
    oauth: OAuthServer,
    server: ServerConfig,
    sayso_home: Path,
    changed: dict[str, str],
    why: str,
) -> None:
    oauth.changes = lambda document: document | changed
    with pytest.raises(McpError, match=why):
        await sign_in(server, sayso_home, Person())
    assert token_files(sayso_home) == []


async def test_a_page_elsewhere_is_named_before_its_address(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    async def visit(address: str) -> None:
        return

    oauth.changes = lambda document: document | {"authorization_endpoint": "https://p.example/a"}
    person = Person(visit)
    with pytest.raises(McpError, match="nobody signed in"):
        await sign_in(server, sayso_home, person, patience=0.01)
    assert "Its page is at another address: https://p.example" in person.shown


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:8080/admin",
        "https://127.0.0.1/admin",
        "https://localhost./admin",
        "https://[::1]/admin",
        "https://[::ffff:127.0.0.1]/admin",
        "https://0.0.0.0/admin",
        "https://10.0.0.1/admin",
        "https://169.254.169.254/latest/meta-data/",
        "http://other.example/admin",
        "file:///etc/passwd",
        "https://mcp.example@other.example/",
        "https://[",
        "",
    ],
)
@pytest.mark.parametrize("place", ["resource_metadata", "authorization_servers", "token_endpoint"])
async def test_a_stranger_cannot_send_requests_inside(
    sayso_home: Path, address: str, place: str
) -> None:
    """Whatever addresses a server on the network names, none inside is asked for anything."""
    reached: list[str] = []
    issuer = "https://as.example"

    def answer(request: httpx.Request) -> httpx.Response:
        reached.append(request.url.host)
        said = f'Bearer resource_metadata="{address}"' if place == "resource_metadata" else "Bearer"
        match request.url.path:
            case "/mcp":
                return httpx.Response(401, headers={"WWW-Authenticate": said})
            case "/.well-known/oauth-protected-resource/mcp":
                named = address if place == "authorization_servers" else issuer
                return httpx.Response(
                    200, json={"resource": PUBLIC, "authorization_servers": [named]}
                )
            case "/.well-known/oauth-authorization-server":
                token = address if place == "token_endpoint" else f"{issuer}/token"
                document = {
                    "issuer": issuer,
                    "authorization_endpoint": f"{issuer}/authorize",
                    "token_endpoint": token,
                    "registration_endpoint": f"{issuer}/register",
                }
                return httpx.Response(200, json=document)
            case "/register":
                sent = json.loads(request.content)
                return httpx.Response(201, json={**sent, "client_id": "c"})
            case _:
                return httpx.Response(404)

    async def visit(shown: str) -> None:
        asked = parse_qs(urlsplit(shown).query)
        back = urlencode({"code": "c", "state": asked["state"][0]})
        await Person().browse(f"{redirect_uri(shown)}?{back}")

    server = ServerConfig("notes", Http(PUBLIC))
    with pytest.raises(McpError):
        await sign_in(server, sayso_home, Person(visit), transport=httpx.MockTransport(answer))
    assert set(reached) <= {"mcp.example", "as.example", "%5B"}  # the last is "[", a name
    assert token_files(sayso_home) == []


def test_a_server_inside_may_name_what_is_as_far_inside() -> None:
    inside, local = httpx.URL("https://10.0.0.1/mcp"), httpx.URL("http://127.0.0.1:1/mcp")
    check_address(httpx.URL("https://10.0.0.2/"), inside)
    check_address(httpx.URL("http://localhost:2/"), local)
    with pytest.raises(McpError, match="is inside"):
        check_address(local, inside)


async def test_what_was_not_asked_for_compressed_is_not_unpacked(sayso_home: Path) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/mcp":
            return httpx.Response(401)
        return httpx.Response(
            200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"x")
        )

    server = ServerConfig("notes", Http(PUBLIC))
    with pytest.raises(McpError, match="an encoding that was not asked for"):
        await sign_in(server, sayso_home, Person(), transport=httpx.MockTransport(answer))


async def test_another_servers_document_is_not_believed(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    """A token that one server would get for another one is not asked for."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/mcp":
            return httpx.Response(401)
        return httpx.Response(
            200, json={"resource": oauth.url, "authorization_servers": [oauth.base]}
        )

    other = ServerConfig("other", Http("https://mcp.example/mcp"))
    with pytest.raises(McpError, match="does not match expected"):
        await sign_in(other, sayso_home, Person(), transport=httpx.MockTransport(answer))
    assert oauth.asked == []


# --- a host uses it --------------------------------------------------------------------------


@pytest.mark.parametrize("rotates", [True, False])
async def test_an_expired_token_is_renewed(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path, rotates: bool
) -> None:
    oauth.rotates = rotates
    await sign_in(server, sayso_home, Person())
    first = kept(sayso_home)["tokens"]
    if not rotates:  # the first one comes with the code all the same
        refresher = {"refresh_token": "rt-0"}
        oauth.refreshers["rt-0"] = oauth.tokens[first["access_token"]]
        first |= refresher
    keep(sayso_home, expires_at=1.0, tokens=first)
    oauth.tokens.clear()
    oauth.signed.clear()

    async with host(server, sayso_home) as one:
        assert one.problems == {}
        (tool,) = one.tools
        assert "buy milk" in str(await tool.ainvoke({}))

    second = kept(sayso_home)["tokens"]
    assert oauth.refreshed == 1
    assert set(oauth.signed) == {second["access_token"]}, "the expired one was not sent"
    assert (second["refresh_token"] == first["refresh_token"]) is not rotates
    assert kept(sayso_home)["expires_at"] > 1.0


async def test_a_token_that_is_not_taken_any_more_is_renewed(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    oauth.lifetime = None
    await sign_in(server, sayso_home, Person())
    assert "expires_at" not in kept(sayso_home)
    async with host(server, sayso_home) as one:
        (tool,) = one.tools
        oauth.tokens.clear()
        assert "buy milk" in str(await tool.ainvoke({}))
    assert oauth.refreshed == 1


async def test_what_cannot_be_renewed_needs_a_person(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    await sign_in(server, sayso_home, Person())
    oauth.tokens.clear()
    oauth.refreshers.clear()
    auth = stored_auth(server, sayso_home)
    assert [(await greet(server, auth)).status_code for _ in range(3)] == [401] * 3
    assert oauth.refreshed == 1, "one that was refused is not tried again"

    async with host(server, sayso_home) as one:
        assert "sayso mcp login notes" in one.problems["notes"]
        assert not SECRET.search(one.problems["notes"]), "the server's answer repeats the token"

    person = Person()
    await sign_in(server, sayso_home, person)
    assert (await greet(server, auth)).status_code == 200, "who signs in meanwhile is noticed"


async def test_a_sign_in_server_that_is_away_is_no_reason_to_sign_in(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    await sign_in(server, sayso_home, Person())
    metadata = kept(sayso_home)["metadata"]
    metadata["token_endpoint"] = f"http://127.0.0.1:{closed_port()}/token"
    keep(sayso_home, expires_at=1.0, metadata=metadata)
    oauth.signed.clear()
    async with host(server, sayso_home) as one:
        assert "its sign-in cannot be renewed" in one.problems["notes"]
        assert "login" not in one.problems["notes"]
    assert oauth.signed == []


async def test_two_processes_renew_once(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    """A refresh token that was used twice would end the sign-in at many servers."""
    await sign_in(server, sayso_home, Person())
    keep(sayso_home, expires_at=1.0)
    oauth.tokens.clear()
    hosts = [stored_auth(server, sayso_home) for _ in range(5)]
    answers = await asyncio.gather(*(greet(server, auth) for auth in hosts))
    assert [answer.status_code for answer in answers] == [200] * 5
    assert oauth.refreshed == 1


async def test_a_token_goes_to_its_own_address_only(
    oauth: OAuthServer, server: ServerConfig, sayso_home: Path
) -> None:
    await sign_in(server, sayso_home, Person())
    sent: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("authorization"))
        return httpx.Response(401)

    transport = httpx.MockTransport(answer)
    source = server.source
    for url, name, place in (
        ("http://127.0.0.1:1/mcp", "notes", source),
        (oauth.url + "?x=1", "notes", source),
        (oauth.url, "other", source),
        (oauth.url, "notes", source.with_name("other.json")),
    ):
        auth = stored_auth(ServerConfig(name, Http(url), source=place), sayso_home)
        async with httpx.AsyncClient(auth=auth, transport=transport) as client:
            await client.get(url)
    async with httpx.AsyncClient(
        auth=stored_auth(server, sayso_home), transport=transport
    ) as client:
        await client.get("http://127.0.0.1:1/mcp")
        assert sent == [None] * 5
        await client.get(oauth.url)
        assert str(sent[5]).startswith("Bearer at-")


def test_a_configuration_with_its_own_header_signs_itself(sayso_home: Path) -> None:
    own = ServerConfig("notes", Http("https://notes.example/", {"AUTHORIZATION": "Bearer x"}))
    assert stored_auth(own, sayso_home) is None
    assert stored_auth(ServerConfig("notes", Stdio("notes")), sayso_home) is None


async def test_a_header_that_is_not_accepted_is_no_reason_to_sign_in(
    server: ServerConfig, oauth: OAuthServer, sayso_home: Path
) -> None:
    own = ServerConfig("notes", Http(oauth.url, {"Authorization": "Bearer x"}), server.source)
    async with host(own, sayso_home) as one:
        assert f"the Authorization header in {own.source} is not accepted" in one.problems["notes"]
        assert "login" not in one.problems["notes"]


async def test_signing_out(oauth: OAuthServer, server: ServerConfig, sayso_home: Path) -> None:
    await sign_in(server, sayso_home, Person())
    auth = stored_auth(server, sayso_home)
    assert (await greet(server, auth)).status_code == 200
    moved = ServerConfig("notes", Http("https://moved.example/mcp"), source=server.source)
    assert await sign_out(moved, sayso_home), "wherever it was when somebody signed in"
    assert token_files(sayso_home) == []
    assert not await sign_out(server, sayso_home)
    oauth.signed.clear()
    assert (await greet(server, auth)).status_code == 401
    assert oauth.signed == [None]


async def test_a_damaged_file_counts_as_none(server: ServerConfig, sayso_home: Path) -> None:
    await sign_in(server, sayso_home, Person())
    (path,) = token_files(sayso_home)
    path.write_text("{")
    assert (await greet(server, stored_auth(server, sayso_home))).status_code == 401
    await sign_in(server, sayso_home, Person())
    assert (await greet(server, stored_auth(server, sayso_home))).status_code == 200


# --- the program -----------------------------------------------------------------------------


@pytest.fixture
def added(server: ServerConfig, sayso_home: Path) -> ServerConfig:
    """The server among a person's own."""
    assert isinstance(server.transport, Http)
    result = finish(start("mcp", "add", "notes", "--url", server.transport.url, "--yes"))
    assert result.code == 0, result.err
    return server


@pytest.fixture
def login(added: ServerConfig, sayso_home: Path, tmp_path: Path) -> Iterator[Terminal]:
    """``sayso mcp login`` on a terminal."""
    folder = tmp_path / "terminal"
    folder.mkdir()
    command = [str(SCRIPT), "mcp", "login", "notes"]
    home = {"SAYSO_HOME": str(sayso_home), "HOME": str(tmp_path)}
    with Terminal(folder, command, environment=home) as terminal:
        yield terminal


def address_in(terminal: Terminal) -> str:
    terminal.expect("open this in a browser:")
    address = terminal.expect("scope=notes%3Aread").strip()
    terminal.expect("press Enter.")
    return address


def test_the_program_signs_in_by_a_browser(login: Terminal, sayso_home: Path) -> None:
    page = httpx.get(address_in(login), follow_redirects=True)
    assert page.status_code == 200
    login.expect("You are signed in to notes, at http://127.0.0.1:")
    assert login.close() == 0
    assert len(token_files(sayso_home)) == 1
    assert not SECRET.search(login.text)

    listed = finish(start("mcp", "list"))
    assert not SECRET.search(listed.out + listed.err)
    out = finish(start("mcp", "logout", "notes"))
    assert (out.code, "is deleted here" in out.err) == (0, True)
    assert token_files(sayso_home) == []
    assert "There was no sign-in" in finish(start("mcp", "logout", "notes")).err


def test_the_program_takes_a_pasted_address(login: Terminal, sayso_home: Path) -> None:
    back = httpx.get(address_in(login)).headers["location"]
    login.send("something else\r")
    login.expect("That is not the address that was waited for")
    login.send(f"{back}\r")
    login.expect("You are signed in to notes")
    assert login.close() == 0
    assert login.is_restored()
    assert len(token_files(sayso_home)) == 1


def test_the_program_is_interrupted(login: Terminal, sayso_home: Path) -> None:
    address = address_in(login)
    os.kill(login.program(), signal.SIGINT)
    login.expect("Nobody was signed in; nothing was changed.")
    assert login.close() == 130
    assert "Traceback" not in login.text
    assert token_files(sayso_home) == []
    with pytest.raises(httpx.ConnectError):
        httpx.get(redirect_uri(address))


def test_the_program_knows_no_such_server(sayso_home: Path, tmp_path: Path) -> None:
    for command in ("login", "logout"):
        result = finish(start("mcp", command, "nobody", cwd=tmp_path))
        assert result.code == 2
        assert "No MCP server 'nobody'" in result.err


def test_headless_it_waits_for_a_browser_too(added: ServerConfig, sayso_home: Path) -> None:
    process = start("mcp", "login", "notes")
    assert process.stderr is not None
    address = next(line for line in process.stderr if line.startswith("http"))
    assert httpx.get(address.strip(), follow_redirects=True).status_code == 200
    result = finish(process)
    assert (result.code, result.out) == (0, "")
    assert "You are signed in to notes" in result.err
