"""A server that does not answer at its first start: what the person sees, and how they go on."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.cli import start
from agent.mcp import host
from agent.mcp.configuration.parse import parse_config
from agent.mcp.pins import Pins
from agent.mcp.timeouts import Timeouts
from tests.cli.program import Invoke
from tests.cli.test_chat_real import chat
from tests.support.openai_server import ModelServer, Reply

SERVER = Path(__file__).parents[1] / "mcp" / "rough_server.py"


@pytest.fixture
def hanging(sayso_home: Path) -> None:
    """A person's own servers: one that never greets, and one that is well."""
    well: dict[str, Any] = {"command": sys.executable, "args": ["-I", "-S", str(SERVER)]}
    silent = {**well, "args": [*well["args"], '{"silent_at": "initialize"}']}
    entries = {"slow": silent, "well": well}
    sayso_home.mkdir(mode=0o700, exist_ok=True)
    path = sayso_home / "mcp.json"
    path.write_text(json.dumps({"mcpServers": entries}))
    for server in parse_config(path.read_text(), path, {}, folder=None).servers:
        Pins(sayso_home).confirm(server, "ana")


@pytest.mark.usefixtures("hanging")
def test_ctrl_c_goes_on_without_a_server_that_is_waited_for(
    model: Callable[..., ModelServer], tmp_path: Path
) -> None:
    server = model(Reply("Hello."))
    with chat(tmp_path) as terminal:
        terminal.expect("starting")
        terminal.send("hello\r")
        terminal.expect("waiting for slow (")
        terminal.expect(" s; Ctrl-C goes on without it)")
        terminal.send("\x03")
        terminal.expect("MCP server slow: it has not answered yet, and is left out until it does")
        terminal.expect("Hello.")
        terminal.expect("› ")
        terminal.send("/mcp\r")
        terminal.expect("left out until it does · 0 tool(s)")
        terminal.expect("› ")
        terminal.send("\x04")
        assert terminal.close() == 0
        assert terminal.is_restored()
    assert "well__echo" in server.requests[0].tools


@pytest.mark.usefixtures("hanging")
def test_a_headless_run_waits_for_its_time_and_says_whom_it_left_out(
    model: Callable[..., ModelServer], sayso: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    model(Reply("Hello."))
    bounded = functools.partial(host.Surroundings, timeouts=Timeouts(connect=5))
    monkeypatch.setattr(host, "Surroundings", bounded)
    monkeypatch.setattr(start, "PATIENCE", 0.1)
    ran = sayso("run", "Hi")
    assert (ran.code, ran.out) == (0, "Hello.\n")
    assert "Waiting for MCP server" in ran.err
    assert "MCP server slow: it did not answer within 5 seconds" in ran.err
    assert "MCP server well" not in ran.err
