"""The page about MCP: its blocks work, its tables are what the code says."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS
from mcp.types import LATEST_PROTOCOL_VERSION

from agent.cli.main import main
from agent.mcp.configuration import believed
from agent.mcp.configuration.parse import Configuration, parse_config
from agent.mcp.configuration.variables import Input
from agent.mcp.host import McpHost, Surroundings
from agent.mcp.opening import LONGEST_PAUSE
from agent.mcp.servers import DEFAULT_TIMEOUT, Claims, Http, Stdio
from agent.mcp.timeouts import Timeouts
from agent.mcp.tools import MAX_DESCRIPTION
from agent.mcp.transport import stdio
from agent.mcp.transport.wire import MAX_MESSAGE
from agent.repl.servers import USAGE
from interop.sizes import SERVERS, sizes
from mcp_servers import config, orders, research
from mcp_servers.courses import __main__ as courses
from mcp_servers.courses.document import load_operations
from mcp_servers.inbound import PATH
from tests.support.courses import LMS_TOKEN
from tests.support.served import AGENT_TOKEN, process
from tools.orders import order_tools
from tools.research import research_tools
from tools.worlds.order_desk import OrderDesk

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"<!-- file: (\S+) -->\n```json\n(.*?)^```$", PAGE, re.M | re.DOTALL)
OTHERS = BLOCKS[1:]
"""Those of other programs; the first one is for sayso's own file."""

PLACEHOLDER = "/path/to/sayso/.venv/bin/python"
INHERITED = {name: os.environ[name] for name in stdio.INHERITED if name in os.environ}


def table(head: str) -> list[list[str]]:
    """The rows of the table that begins so."""
    (found,) = re.findall(rf"^\| {re.escape(head)} \|.*\n\|.*\n((?:\|.*\n)+)", PAGE, re.M)
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in found.splitlines()]


def names_in(text: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", text))


def answered(wanted: Input) -> str:
    return {"lms-token": LMS_TOKEN, "agent-token": AGENT_TOKEN}[wanted.id]


def parsed(block: str, folder: Path) -> Configuration:
    """A block, as sayso reads it in a folder."""
    tokens = {"LMS_TOKEN": LMS_TOKEN, "AGENT_TOKEN": AGENT_TOKEN, "NOTES_TOKEN": "n"}
    environment: Mapping[str, str] = {**INHERITED, "HOME": str(folder), **tokens}
    text = block.replace(PLACEHOLDER, sys.executable)
    return parse_config(text, folder / ".mcp.json", environment, folder=folder, ask=answered)


# --- the blocks -------------------------------------------------------------------------------


def test_the_blocks_are_there() -> None:
    files = [file for file, _ in BLOCKS]
    assert files == [".mcp.json", ".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"]


def test_the_block_with_our_own_key_is_read(tmp_path: Path) -> None:
    read = parsed(BLOCKS[0][1], tmp_path)
    assert read.remarks == ()
    (server,) = read.servers
    assert (server.trusted, server.timeout) == (True, 60)
    assert server.claims == {
        "find_note": Claims(frozenset({"read:notes"}), open_world=False, private=True),
        "sync": Claims(
            frozenset({"write:notes", "network:sync"}), idempotency="natural", timeout=300
        ),
    }


async def test_the_servers_of_the_blocks_start(tmp_path: Path) -> None:
    """Those over stdio; the blocks name the same programs in three spellings."""
    read = [parsed(block, tmp_path) for _, block in OTHERS]
    assert [one.remarks for one in read] == [()] * len(OTHERS)
    first, *rest = [
        {s.name: s.transport for s in one.servers if isinstance(s.transport, Stdio)} for one in read
    ]
    assert all(one == first for one in rest)
    local = [s for s in read[0].servers if isinstance(s.transport, Stdio)]
    assert tuple(first) == SERVERS
    assert first["orders"].env == {"ORDER_DESK_DB": str(tmp_path / "orders.db")}
    assert first["courses"].env["LMS_TOKEN"] == LMS_TOKEN
    async with McpHost(local, Surroundings(INHERITED, tmp_path / "logs")) as host:
        assert host.complaints == []
        assert [len(server.tools) for server in host.servers] == [4, 3, 3]


async def test_the_order_desk_over_http_takes_what_the_blocks_send(tmp_path: Path) -> None:
    remote = [s for _, block in OTHERS for s in parsed(block, tmp_path).servers][3::4]
    assert [server.name for server in remote] == ["orders-http"] * len(OTHERS)
    server, *others = remote
    transport = server.transport
    assert isinstance(transport, Http)
    assert all(other.transport == transport for other in others)
    assert transport.url == f"http://127.0.0.1:{orders.DEFAULT_PORT}{PATH}"

    (line,) = re.findall(r"```sh\n(.*)\n```", PAGE)
    *variables, python, flag, program, http = shlex.split(line)
    assert (python, flag, program, http) == ("python", "-m", "mcp_servers.orders", "--http")
    env = dict(variable.split("=", 1) for variable in variables)
    env |= {"AGENT_TOKEN": AGENT_TOKEN, "ORDER_DESK_DB": str(tmp_path / "desk.db")}
    with process(program, http, "--port", "0", **env) as running:
        server = replace(server, transport=Http(running.url, transport.headers))
        async with McpHost([server], Surroundings({}, tmp_path / "logs")) as host:
            assert host.complaints == []
            assert len(host.tools) == 4


# --- the tables -------------------------------------------------------------------------------


def test_the_revisions() -> None:
    (ours,) = re.findall(r"^\| our host \| (.*?) \|", PAGE, re.M)
    named = re.findall(r"\d{4}-\d\d-\d\d", ours)
    assert named == sorted(SUPPORTED_PROTOCOL_VERSIONS, reverse=True)
    assert f"falling back to {LATEST_PROTOCOL_VERSION}" in PAGE


def test_the_members_of_our_key() -> None:
    assert [row[0].strip("`") for row in table("member")] == list(believed._KEYS)
    (tools,) = re.findall(r"^The members of a tool are .*?\.$", PAGE, re.M | re.DOTALL)
    assert names_in(tools) == set(Claims.__dataclass_fields__)


def test_the_bounds() -> None:
    bounds = Timeouts()
    seconds = [bounds.connect, bounds.listing, DEFAULT_TIMEOUT, bounds.question]
    assert [float(row[-1].strip("| ")) for row in table("bound")] == seconds
    words = " ".join(PAGE.split())
    assert LONGEST_PAUSE == 60
    assert "up to a minute" in words
    assert f"{bounds.question / 60:g} minutes" in words
    assert f"more than {MAX_MESSAGE // 1024**2} MB" in words
    assert f"descriptions cut at {MAX_DESCRIPTION:,} characters" in words


def test_the_variables_of_our_servers() -> None:
    callers = (config.OrdersSettings, config.ResearchSettings, config.CoursesSettings)
    fields = [f for kind in (*callers, config.LmsSettings) for f in kind.model_fields.values()]
    rows = {row[0].strip("`"): row[-1] for row in table("variable")}
    assert set(rows) == {str(field.validation_alias) for field in fields}
    scopes = {
        scope
        for kind in callers
        for literal in get_args(kind.model_fields["agent_scopes"].annotation)
        for scope in get_args(literal)
    }
    named = " ".join(names_in(rows["AGENT_TOKEN_SCOPES"])).split()
    assert set(named) == scopes
    limit = config.CallerSettings.model_fields["requests_per_minute"].default
    assert rows["MAX_REQUESTS_PER_MINUTE"].startswith(f"{limit} by default")


def test_our_servers_and_every_tool_of_theirs(tmp_path: Path) -> None:
    programs = {"orders": orders, "research": research, "courses": courses}
    tools = {
        "orders": [tool.name for tool in order_tools(OrderDesk(tmp_path / "desk.db"))],
        "research": [tool.name for tool in research_tools()],
        "courses": list(load_operations()),
    }
    rows = table("server | tools | over HTTP")
    for row, (name, offered) in zip(rows, tools.items(), strict=True):
        assert row[0] == f"`mcp_servers.{name}`"
        assert names_in(row[1]) == set(offered)
        assert f"http://127.0.0.1:{programs[name].DEFAULT_PORT}{PATH}" in row[2]
    memo = [row[0].strip("`") for row in table("tool")]
    assert memo == [name for offered in tools.values() for name in offered]


async def test_the_sizes() -> None:
    rows = re.findall(r"^\| `\w+` \|(?: [\d,]+ \|){4}$", PAGE, re.M)
    assert rows == [size.row for size in await sizes()], "they changed: python -m interop.sizes"


def test_the_commands_and_options_it_names_exist(capfd: pytest.CaptureFixture[str]) -> None:
    commands = sorted(set(re.findall(r"`sayso ((?:mcp )?[a-z]+)", PAGE)) | {"run"})
    for command in commands:
        assert main([*command.split(), "--help"]) == 0, command
    helped = capfd.readouterr().out
    ours = {"--http", "--port", "--help"}
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) - ours:
        assert option in helped, option
    for usage in re.findall(r"`(/mcp[^`]*)`", PAGE):
        assert usage in USAGE, usage


# --- what others wrote ------------------------------------------------------------------------

PACKAGES = ROOT / "interop" / "packages"


def test_the_versions_that_are_tried_are_those_that_are_pinned() -> None:
    pinned = json.loads((PACKAGES / "package.json").read_text())["dependencies"]
    for path in sorted(PACKAGES.glob("*.txt")):  # of two SDKs the newer one counts
        pinned |= dict(re.findall(r"^([a-z0-9-]+)==(\S+)", path.read_text(), re.M))
    text = (ROOT / "interop" / "README.md").read_text(encoding="utf-8")
    (rows,) = re.findall(r"^\| what \| version \|.*\n\|.*\n((?:\|.*\n)+)", text, re.M)
    for row in rows.splitlines():
        what, version, _ = row.strip("|").split(" | ", 2)
        names = re.findall(r"`([^`]+)`", what)
        if names[-1].startswith("-"):
            names[-1] = f"{names[0].rpartition('-')[0]}{names[-1]}"
        for name, number in zip(names, itertools.cycle(re.findall(r"[\d.]+\d", version))):
            assert pinned[name] == number, name


@pytest.mark.parametrize("path", sorted(PACKAGES.glob("*.txt")), ids=lambda path: path.name)
def test_a_lock_of_python_packages_is_hashed_and_has_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    entries = re.split(r"^(?=[a-z0-9])", text, flags=re.M)[1:]
    assert all(re.match(r"\S+==\S+ .*\\\n    --hash=sha256:", entry) for entry in entries)


def test_the_lock_of_node_packages_is_hashed_and_has_no_address() -> None:
    locked = json.loads((PACKAGES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    packages = {path: about for path, about in locked.items() if path}
    assert all("integrity" in about and "resolved" not in about for about in packages.values())
