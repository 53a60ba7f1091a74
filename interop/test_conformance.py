"""Our servers and our host under the official conformance suite.

Every scenario of the suite is named here: as one that must pass, or with the reason why it cannot
apply, so that a newer suite brings none in unseen. One passes when the checks that are named
succeeded and no other failed or warned: some of the suite pass without having looked at anything.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr
from starlette.types import ASGIApp, Receive, Scope, Send

from interop.others import node_program, run
from mcp_servers import orders, research
from mcp_servers.courses import generated
from mcp_servers.courses.upstream import Upstream
from mcp_servers.inbound import PATH, AgentToken, build_application
from mcp_servers.rate_limit import RateLimit
from mcp_servers.serving import Offer, offer_tools
from tests.support.courses import LMS_TOKEN
from tests.support.served import AGENT_TOKEN, closed_port, served
from tools.contract import Contract, PlainTool, ToolFailure
from tools.worlds.order_desk import OrderDesk
from tools.worlds.pages import Corpus

SUITE = node_program("conformance")
TIMING = "client-sse-retry-timing"

# --- what must pass ---------------------------------------------------------------------------

SERVERS = {
    "server-initialize": {"server-initialize"},
    "ping": {"ping"},
    "logging-set-level": {"logging-set-level"},
    "tools-list": {"tools-list"},
    "server-sse-multiple-streams": {
        "server-accepts-multiple-post-streams",
        "server-sse-streams-functional",
    },
    "dns-rebinding-protection": {
        "localhost-host-rebinding-rejected",
        "localhost-host-valid-accepted",
    },
}
"""By each of our servers: scenario, and the checks that must succeed."""

LAYER = {
    "tools-call-simple-text": {"tools-call-simple-text"},
    "tools-call-error": {"tools-call-error"},
}
"""By the layer under them, with tools of the names that the suite calls."""

_SIGNED_IN = {
    "authorization-server-metadata",
    "authorization-request",
    "client-registration",
    "pkce-code-challenge-sent",
    "pkce-code-verifier-sent",
    "pkce-s256-method-used",
    "pkce-verifier-matches-challenge",
    "prm-pathbased-requested",
    "token-request",
}
_USED = _SIGNED_IN | {"valid-bearer-token"}
_BOUND = {
    "resource-parameter-consistency",
    "resource-parameter-in-authorization",
    "resource-parameter-in-token",
    "resource-parameter-valid-uri",
    "token-endpoint-auth-method",
}
_OLD = {"authorization-request", "client-registration", "token-request", "valid-bearer-token"}

HOST = {
    "initialize": {"mcp-client-initialization"},
    "tools_call": {"tool-add-numbers"},
    "elicitation-sep1034-client-defaults": {
        f"client-elicitation-sep1034-{kind}-default"
        for kind in ("string", "integer", "number", "enum", "boolean")
    },
    "sse-retry": {
        "client-sse-graceful-reconnect",
        TIMING,
        "client-sse-last-event-id",
    },
    "auth/metadata-default": _USED,
    "auth/metadata-var1": _USED,
    "auth/metadata-var2": _USED - {"prm-pathbased-requested"},
    "auth/metadata-var3": _USED - {"prm-pathbased-requested"},
    "auth/scope-from-www-authenticate": _USED | {"scope-from-www-authenticate"},
    "auth/scope-from-scopes-supported": _USED | {"scope-from-scopes-supported"},
    "auth/scope-omitted-when-undefined": _USED | {"scope-omitted-when-undefined"},
    "auth/scope-retry-limit": _SIGNED_IN | {"scope-retry-limit"},
    "auth/token-endpoint-auth-basic": _USED | _BOUND,
    "auth/token-endpoint-auth-post": _USED | _BOUND,
    "auth/token-endpoint-auth-none": _USED | _BOUND,
    "auth/2025-03-26-oauth-endpoint-fallback": _OLD,
    "auth/resource-mismatch": {"prm-pathbased-requested", "resource-mismatch-rejected"},
    "auth/offline-access-scope": _USED,
    "auth/offline-access-not-supported": _USED,
}
"""By our host, reached as a server of a file and signed in to as ``sayso mcp login`` does."""

# --- what cannot apply ------------------------------------------------------------------------

_NO_RESOURCES = "our servers have no resources"
_NO_PROMPTS = "our servers have no prompts"
_TEXT_ALONE = "our tools return text and structured content"
_ASKS_NOTHING = "our servers ask their callers nothing"
NOT_SERVERS = {
    "resources-list": "it passes on an empty list, which shows nothing",
    "prompts-list": "it passes on an empty list, which shows nothing",
    "completion-complete": "there is nothing to complete",
    "tools-call-image": _TEXT_ALONE,
    "tools-call-audio": _TEXT_ALONE,
    "tools-call-embedded-resource": _TEXT_ALONE,
    "tools-call-mixed-content": _TEXT_ALONE,
    "tools-call-with-logging": "our tools log to standard error",
    "tools-call-with-progress": "our tools answer at once",
    "tools-call-sampling": _ASKS_NOTHING,
    "tools-call-elicitation": _ASKS_NOTHING,
    "elicitation-sep1034-defaults": _ASKS_NOTHING,
    "elicitation-sep1330-enums": _ASKS_NOTHING,
    "json-schema-2020-12": "it looks at a tool of its own; the inspector's --strict looks at ours",
    "server-sse-polling": "it wants a tool that closes its own stream; without it, it passes "
    "without a check",
    "resources-read-text": _NO_RESOURCES,
    "resources-read-binary": _NO_RESOURCES,
    "resources-templates-read": _NO_RESOURCES,
    "resources-subscribe": _NO_RESOURCES,
    "resources-unsubscribe": _NO_RESOURCES,
    "prompts-get-simple": _NO_PROMPTS,
    "prompts-get-with-args": _NO_PROMPTS,
    "prompts-get-embedded-resource": _NO_PROMPTS,
    "prompts-get-with-image": _NO_PROMPTS,
}

_NO_PERSON = "it signs in without a person, which sayso does not"
NOT_HOST = {
    "auth/basic-cimd": "a client ID that is an address needs a page of sayso's on the web; it is "
    "registered at the server instead, which the suite takes with a warning",
    "auth/scope-step-up": "a call never begins a sign-in; what it was refused is said",
    "auth/pre-registration": "a client ID and secret of a person's own cannot be configured",
    "auth/2025-03-26-oauth-metadata-backcompat": "its metadata names another issuer than the one "
    "it is found at, which RFC 8414 forbids; the SDK refuses it",
    "auth/client-credentials-jwt": _NO_PERSON,
    "auth/client-credentials-basic": _NO_PERSON,
    "auth/cross-app-access-complete-flow": _NO_PERSON,
}


def test_every_scenario_of_the_suite_is_named() -> None:
    listed = run([*SUITE, "list"]).stdout
    servers, host = listed.split("Client scenarios")
    pattern = re.compile(r"^  - (\S+)", re.M)
    assert sorted(pattern.findall(servers)) == sorted([*SERVERS, *LAYER, *NOT_SERVERS])
    assert sorted(pattern.findall(host)) == sorted([*HOST, *NOT_HOST])


# --- our servers ------------------------------------------------------------------------------


class Nothing(BaseModel, extra="forbid"):
    """No arguments."""


def test_simple_text() -> str:
    """Say something."""
    return "This is a simple text response for testing."


def test_error_handling() -> str:
    """Fail."""
    raise ToolFailure("This tool intentionally returns an error for testing")


for tool in (test_simple_text, test_error_handling):  # they are no tests of ours
    tool.__test__ = False  # type: ignore[attr-defined]


def offer(name: str, folder: Path) -> Offer:
    match name:
        case "orders":
            return orders.offer(OrderDesk(folder / "orders.db"))
        case "research":
            return research.offer(Corpus())
        case "courses":
            nobody = f"http://127.0.0.1:{closed_port()}"
            return generated.offer(Upstream(nobody, SecretStr(LMS_TOKEN)))
    reads = Contract(effects=frozenset({"read:layer"}))
    tools = (test_simple_text, test_error_handling)
    return offer_tools(name, "", [PlainTool(one, args=Nothing, contract=reads) for one in tools])


def with_token(application: ASGIApp) -> ASGIApp:
    """The suite cannot send a token: it is put into its requests, and nothing else is changed."""
    token = (b"authorization", f"Bearer {AGENT_TOKEN}".encode())

    async def passed_on(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], token]}
        await application(scope, receive, send)

    return passed_on


Results = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module", params=["orders", "research", "courses", "layer"])
def results(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Results]:
    """What the suite found in one server, by scenario."""
    name, folder = request.param, tmp_path_factory.mktemp(request.param)
    offered = offer(name, folder)
    scopes = frozenset(offered.scopes.values()) | {f"{name}:read"}
    token = AgentToken(name, SecretStr(AGENT_TOKEN), scopes)
    with served(with_token(build_application(offered, token, RateLimit(10_000)))) as url:
        run([*SUITE, "server", "--url", url + PATH, "--suite", "all", "-o", str(folder)])
    found = folder.glob("*/checks.json")
    return name, {_scenario(path.parent.name): json.loads(path.read_text()) for path in found}


def _scenario(folder: str) -> str:
    """``server-ping-2026-11-30T…`` → ``ping``"""
    return re.sub(r"^server-(.+)-\d{4}-.*$", r"\1", folder)


def verdicts(checks: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """What was judged, and how; INFO judges nothing.

    A stream that was taken up late was taken up: how busy a machine is says nothing of the host.
    """
    late = [one for one in checks if one["id"] == TIMING and not one["details"]["tooEarly"]]
    return {(one["id"], "SUCCESS") for one in late} | {
        (one["id"], one["status"]) for one in checks if one["status"] != "INFO" and one not in late
    }


def test_our_servers_pass(results: tuple[str, Results]) -> None:
    name, found = results
    for scenario, checks in (LAYER if name == "layer" else SERVERS).items():
        assert verdicts(found[scenario]) == {(check, "SUCCESS") for check in checks}, scenario
    if name != "layer":
        (listed,) = found["tools-list"]
        assert listed["details"]["tools"] == list(offer(name, Path("/nowhere")).scopes)


def test_what_cannot_apply_to_our_servers_shows_nothing(results: tuple[str, Results]) -> None:
    """A scenario that begins to succeed belongs to those that must."""
    _, found = results
    for scenario in NOT_SERVERS:
        good = [check for check in found[scenario] if check["status"] == "SUCCESS"]
        empty = {"resourceCount": 0, "resources": []}, {"promptCount": 0, "prompts": []}
        assert all(check["details"] in empty for check in good), scenario


# --- our host ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", HOST)
def test_our_host_passes(scenario: str, tmp_path: Path) -> None:
    client = f"{sys.executable} -m interop.conformance_client"
    given = ["--command", client, "--scenario", scenario, "--timeout", "90000"]
    done = run([*SUITE, "client", *given, "-o", str(tmp_path)])
    (found,) = tmp_path.glob("**/checks.json")
    checks = verdicts(json.loads(found.read_text()))
    assert checks >= {(check, "SUCCESS") for check in HOST[scenario]}, done.stderr
    assert {status for _, status in checks} == {"SUCCESS"}, done.stderr
