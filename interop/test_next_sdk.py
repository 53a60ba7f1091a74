"""The next major version of the SDK, in an environment of its own: its clients at our servers, and
a server of it that asks our host for what it does not offer."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.models.scripted import call, step
from interop.others import ROOT, configured, python_program
from interop.ours import NAMES, READS, WRITES, command, over_http, surroundings
from interop.sessions import talk
from tests.support.served import AGENT_TOKEN

PYTHON = python_program("sdk2", "python")
HERE = Path(__file__).parent
NEXT, OURS = "2026-07-28", "2025-11-25"
UNKNOWN_TOOL = -32602
FIRST_IS_INITIALIZE = -32600


def asked(**wanted: Any) -> dict[str, Any]:
    """What the next SDK's client finds."""
    done = subprocess.run(
        [PYTHON, str(HERE / "next_client.py")],
        input=json.dumps(wanted),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(params=["stdio", "http"])
def over(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def where(over: str, name: str, folder: Path, stack: ExitStack) -> dict[str, Any]:
    """How the client reaches one of our servers."""
    if over == "http":
        running = stack.enter_context(over_http(name, folder))
        return {"url": running.url, "token": AGENT_TOKEN}
    env = stack.enter_context(surroundings(name, folder))
    program, *args = command(name)
    return {"command": program, "args": args, "env": env, "cwd": str(ROOT)}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_it_speaks_our_revision(name: str, over: str, mode: str, tmp_path: Path) -> None:
    """Left to itself it asks for the newer one, is refused, and comes back with ours."""
    read, *write = [one[name] for one in (READS, WRITES) if name in one]
    calls = [one[:2] for one in (read, *write, *write)]
    with ExitStack() as stack:
        reached = where(over, name, tmp_path, stack)
        found = asked(mode=mode, calls=[*calls, ("nothing_like_it", {})], **reached)
    assert (found["revision"], found["server"]) == (OURS, name)
    assert read[0] in found["tools"]
    first, *changed, unknown = found["results"]
    assert read[2] in json.dumps(first["structured"])
    assert unknown == {"code": UNKNOWN_TOOL}
    for (_, _, text), (done, again) in zip(write, [changed], strict=False):
        assert text in json.dumps(done["structured"])
        assert (again["error"], again["meta"]) == (True, {"sayso/outcome": "failed"})


def test_the_newer_revision_alone_is_refused(over: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        reached = where(over, "orders", tmp_path, stack)
        found = asked(mode=NEXT, calls=[], **reached)
    assert found == {"refused": FIRST_IS_INITIALIZE}


def test_the_client_of_the_next_fastmcp(tmp_path: Path) -> None:
    (tool, arguments, text), write = READS["orders"], WRITES["orders"]
    with over_http("orders", tmp_path) as running:
        calls = [(tool, arguments), write[:2]]
        found = asked(fast=True, url=running.url, token=AGENT_TOKEN, calls=calls)
    first, second = found["results"]
    assert text in json.dumps(first["structured"])
    assert second["structured"]["status"] == "cancelled"


async def test_what_it_asks_for_is_answered_as_unsupported(
    tmp_path: Path, sayso_home: Path
) -> None:
    entry = {"command": PYTHON, "args": [str(HERE / "asking_server.py")]}
    steps = [step(call("asking__ask")), "So."]
    async with talk(sayso_home, steps, configured("asking", entry, tmp_path)) as talking:
        await talking.say("ask")
        (text,) = await talking.approve()
        assert "roots/list: -32601 sayso does not offer this request" in text
        assert "sampling/createMessage: -32601 sayso does not offer this request" in text
