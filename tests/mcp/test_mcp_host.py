"""The host against real processes: good ones, and ones that hang, die, change or lie."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool

from agent.mcp.host import McpHost, Surroundings
from agent.mcp.servers import Claims, ServerConfig, Stdio
from agent.mcp.timeouts import Timeouts
from agent.mcp.transport import stdio
from tools.contract import (
    CallInfo,
    OutcomeUnknown,
    ToolFailure,
    TransientFailure,
    contract_of,
    current_call,
)
from tools.worlds.order_desk import OrderDesk

Rough = Callable[..., ServerConfig]
PATIENT = Timeouts(connect=60, listing=60)
REPOSITORY = Path(__file__).parents[2]


def host_of(
    *configs: ServerConfig,
    log_folder: Path,
    environment: Mapping[str, str] = os.environ,
    timeouts: Timeouts = PATIENT,
) -> McpHost:
    return McpHost(configs, Surroundings(environment, log_folder, timeouts))


def tool_of(host: McpHost, name: str) -> BaseTool:
    tools = {tool.name: tool for tool in host.tools}
    assert name in tools, host.problems
    return tools[name]


async def outcome(call: Any) -> BaseException | Any:
    """What a call gives or raises."""
    return (await asyncio.gather(call, return_exceptions=True))[0]


@pytest.fixture
def orders(tmp_path: Path) -> ServerConfig:
    return ServerConfig(
        name="orders",
        transport=Stdio(
            sys.executable,
            ("-P", "-m", "mcp_servers.orders"),
            env={"ORDER_DESK_DB": str(tmp_path / "desk.db")},
            cwd=REPOSITORY,
        ),
        trusted=True,
        timeout=60,
    )


# Our own server ----------------------------------------------------------------------------


async def test_reads_and_writes_through_the_order_server(
    orders: ServerConfig, tmp_path: Path
) -> None:
    desk = OrderDesk(tmp_path / "desk.db")
    async with host_of(orders, log_folder=tmp_path) as host:
        assert host.problems == {}
        assert [tool.name for tool in host.tools] == [
            "orders__list_orders",
            "orders__get_order",
            "orders__cancel_order",
            "orders__refund_order",
        ]
        read = await tool_of(host, "orders__get_order").ainvoke({"order_id": "A1"})
        revision = json.loads(read)["revision"]

        token = current_call.set(CallInfo(idempotency_key="key-1"))
        cancel = tool_of(host, "orders__cancel_order")
        first = await cancel.ainvoke({"order_id": "A1", "expected_revision": revision})
        again = await cancel.ainvoke({"order_id": "A1", "expected_revision": revision})
        current_call.reset(token)

        refused = await outcome(cancel.ainvoke({"order_id": "A2", "expected_revision": 1}))

    assert desk.get("A1").status == "cancelled"
    assert again == first, "the key reached the desk, so the second call is the first one"
    recorded = desk.find_transaction("key-1")
    assert recorded is not None
    assert json.loads(first)["transaction"] == recorded.id
    assert type(refused) is ToolFailure
    assert "already shipped" in str(refused)


async def test_contracts_follow_trust(orders: ServerConfig, rough: Rough, tmp_path: Path) -> None:
    stranger = rough("stranger", trusted=False)
    async with host_of(orders, stranger, log_folder=tmp_path) as host:
        effects = {tool.name: contract_of(tool).effects for tool in host.tools}
        assert effects["orders__get_order"] == {"read:mcp.orders"}
        assert effects["orders__cancel_order"] == {"write:mcp.orders"}
        assert effects["stranger__echo"] == {"write:mcp.stranger"}, "its hint is not believed"
        contracts = {tool.name: contract_of(tool) for tool in host.tools}
        assert not contracts["orders__get_order"].open_world, "its openWorldHint is believed"
        assert contracts["stranger__echo"].open_world
        assert all(contract.private for contract in contracts.values()), "no hint says otherwise"


# What is sent is what was approved ---------------------------------------------------------

AWKWARD = {
    "config": {"a": None},
    "runtime": "r",
    "run_manager": 1.0,
    "callbacks": [None],
    "self": "s",
    "tool_input": True,
    "args": [1],
    "kwargs": {"k": "v"},
    "definition": 10**20,
    "": "ü\u202e\0",
}


async def test_arguments_of_any_name_arrive(rough: Rough, tmp_path: Path) -> None:
    async with host_of(rough(), log_folder=tmp_path) as host:
        echo = tool_of(host, "rough__echo")
        seen = json.loads(await echo.ainvoke(AWKWARD))
    assert seen["arguments"] == AWKWARD
    assert set(seen["meta"]) == {"progressToken"}


async def test_arguments_of_any_name_arrive_through_an_agent(rough: Rough, tmp_path: Path) -> None:
    asked = AIMessage("", tool_calls=[{"name": "rough__echo", "args": AWKWARD, "id": "1"}])

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
            return self

    async with host_of(rough(), log_folder=tmp_path) as host:
        agent = create_agent(Model(messages=iter([asked, AIMessage("done")])), host.tools)
        state = await agent.ainvoke({"messages": [("user", "go")]})
    result = next(m for m in state["messages"] if isinstance(m, ToolMessage))
    assert json.loads(result.text)["arguments"] == AWKWARD


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {1}])
async def test_what_json_would_change_is_not_sent(
    rough: Rough, tmp_path: Path, value: object
) -> None:
    async with host_of(rough(), log_folder=tmp_path) as host:
        echo = tool_of(host, "rough__echo")
        refused = await outcome(echo.ainvoke({"x": value}))
        assert type(refused) is ToolFailure
        assert "Nothing was sent" in str(refused)
        assert json.loads(await echo.ainvoke({"x": 1}))["arguments"] == {"x": 1}


async def test_the_schema_for_the_model_is_the_servers(rough: Rough, tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    bare = {"name": "bare", "inputSchema": {"type": "object"}}
    config = rough(extra=[{"name": "count.all", "inputSchema": schema}, bare])
    async with host_of(config, log_folder=tmp_path) as host:
        tool = tool_of(host, "rough__count_all")
        assert tool.args_schema == schema
        assert convert_to_openai_tool(tool)["function"]["parameters"] == schema
        assert tool_of(host, "rough__bare").args == {}


async def test_a_child_gets_only_what_is_named(rough: Rough, tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "SAYSO_HOME": "x",
        "OPENAI_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }
    config = rough(env={"TOKEN": "given"})
    async with host_of(config, log_folder=tmp_path, environment=environment) as host:
        seen = json.loads(await tool_of(host, "rough__environment").ainvoke({}))
    assert seen["TOKEN"] == "given"
    assert seen["LANG"] == "C.UTF-8"
    assert "secret" not in seen.values()
    # What the SDK itself adds, and what the interpreter of the child sets.
    allowed = {"PATH", "LANG", "TOKEN", "HOME", "LOGNAME", "SHELL", "TERM", "USER", "LC_CTYPE"}
    assert set(seen) - allowed <= {"__CF_USER_TEXT_ENCODING", stdio.MARK}


# Results -----------------------------------------------------------------------------------


async def test_results_of_every_kind_become_text(rough: Rough, tmp_path: Path) -> None:
    async with host_of(rough(), log_folder=tmp_path) as host:
        blocks = await tool_of(host, "rough__blocks").ainvoke({})
        message = await tool_of(host, "rough__structured").ainvoke(
            {"type": "tool_call", "id": "1", "name": "rough__structured", "args": {}}
        )
    assert blocks == (
        "see\n[image, image/png, 3 bytes; kept, not shown]\n[link to file:///a.txt: a.txt]"
    )
    assert message.text == '{"n": 1}'
    assert message.artifact == {"structured_content": {"n": 1}}


@pytest.mark.parametrize(
    ("tool", "arguments", "expected", "words"),
    [
        ("error", {}, ToolFailure, "it is full"),
        ("error", {"outcome": "transient"}, TransientFailure, "it is full"),
        ("error", {"outcome": "unknown"}, OutcomeUnknown, "it is full"),
        ("refuse", {"code": -32602}, ToolFailure, "not like this (code -32602)"),
        ("refuse", {"code": -32042}, ToolFailure, "not like this (code -32042)"),
        ("refuse", {"code": -32603}, OutcomeUnknown, "not like this (code -32603)"),
        # The SDK's own code for a lost connection, from a server that is well.
        ("refuse", {"code": -32000}, OutcomeUnknown, "not like this (code -32000)"),
        ("nonsense", {}, OutcomeUnknown, "its content is no list"),
    ],
)
async def test_what_an_error_says_about_a_write(
    rough: Rough,
    tmp_path: Path,
    tool: str,
    arguments: dict[str, Any],
    expected: type[Exception],
    words: str,
) -> None:
    async with host_of(rough(), log_folder=tmp_path) as host:
        raised = await outcome(tool_of(host, f"rough__{tool}").ainvoke(arguments))
        assert type(raised) is expected
        assert words in str(raised)
        assert await tool_of(host, "rough__echo").ainvoke({}), "the session goes on"


async def test_the_same_errors_of_a_read_are_failures(rough: Rough, tmp_path: Path) -> None:
    class_of = {"refuse": ToolFailure, "nonsense": TransientFailure, "error": ToolFailure}
    claims = {name: Claims(effects=frozenset({"read:x"})) for name in class_of}
    reads = replace(rough(), claims=claims)
    async with host_of(reads, log_folder=tmp_path) as host:
        for name, expected in class_of.items():
            arguments = {"code": -32603, "outcome": "unknown"}
            raised = await outcome(tool_of(host, f"rough__{name}").ainvoke(arguments))
            assert type(raised) is expected, name


# Servers that hang -------------------------------------------------------------------------


async def test_a_call_that_hangs_ends_with_its_timeout(rough: Rough, tmp_path: Path) -> None:
    async with host_of(rough(timeout=0.2), log_folder=tmp_path) as host:
        write = await outcome(tool_of(host, "rough__wait").ainvoke({}))
        read = await outcome(tool_of(host, "rough__wait_reading").ainvoke({}))
        assert type(write) is OutcomeUnknown
        assert "did not answer within 0.2 seconds" in str(write)
        assert "may or may not have happened" in str(write)
        assert type(read) is TransientFailure


@pytest.mark.parametrize("method", ["initialize", "tools/list"])
async def test_a_server_that_hangs_at_start_costs_only_itself(
    rough: Rough, tmp_path: Path, method: str
) -> None:
    short = Timeouts(connect=3, listing=3)
    hanging = rough("hanging", silent_at=method)
    async with host_of(hanging, rough("well"), log_folder=tmp_path, timeouts=short) as host:
        assert {tool.name.split("__")[0] for tool in host.tools} == {"well"}
        assert host.problems == {"hanging": "it did not answer within 3 seconds"}


async def test_giving_up_while_servers_start_leaves_no_process(
    rough: Rough, signals: Any, tmp_path: Path
) -> None:
    async def start() -> None:
        async with host_of(rough(silent_at="initialize"), rough("well"), log_folder=tmp_path):
            pytest.fail("a silent server must not be admitted")

    starting = asyncio.create_task(start())
    await signals.next("silent")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting


async def test_a_cancelled_call_leaves_the_session_usable(
    rough: Rough, signals: Any, tmp_path: Path
) -> None:
    async with host_of(rough(), log_folder=tmp_path) as host:
        waiting = asyncio.create_task(tool_of(host, "rough__wait").ainvoke({}))
        await signals.next("called")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await tool_of(host, "rough__echo").ainvoke({})


# Servers that die --------------------------------------------------------------------------


async def test_a_server_killed_during_a_write(rough: Rough, signals: Any, tmp_path: Path) -> None:
    async with host_of(rough(), rough("other"), log_folder=tmp_path) as host:
        writing = asyncio.create_task(tool_of(host, "rough__wait").ainvoke({}))
        reading = asyncio.create_task(tool_of(host, "rough__wait_reading").ainvoke({}))
        pid = (await signals.next("called"))["pid"]
        os.kill(pid, signal.SIGKILL)

        write, read = await outcome(writing), await outcome(reading)
        assert type(write) is OutcomeUnknown
        assert "ended before it answered" in str(write)
        assert type(read) is TransientFailure
        assert await tool_of(host, "other__echo").ainvoke({}), "the other server is unaffected"

        assert await tool_of(host, "rough__echo").ainvoke({}), "the next call starts it again"
        assert host.problems == {}
        assert (await signals.next("started"))["pid"] != pid


async def test_a_write_that_happened_and_was_not_answered(rough: Rough, tmp_path: Path) -> None:
    effect = tmp_path / "effect"
    async with host_of(rough(), log_folder=tmp_path) as host:
        tool = tool_of(host, "rough__effect_then_die")
        raised = await outcome(tool.ainvoke({"path": str(effect)}))
    assert effect.exists()
    assert type(raised) is OutcomeUnknown


async def test_a_server_that_does_not_come_back_is_reported(rough: Rough, tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    rough_config = rough()
    assert isinstance(rough_config.transport, Stdio)
    *flags, original, options = rough_config.transport.args
    script.symlink_to(original)
    transport = Stdio(sys.executable, (*flags, str(script), options))
    config = replace(rough_config, transport=transport)
    async with host_of(config, rough("other"), log_folder=tmp_path) as host:
        script.unlink()
        await outcome(
            tool_of(host, "rough__effect_then_die").ainvoke({"path": str(tmp_path / "e")})
        )
        raised = await outcome(tool_of(host, "rough__wait").ainvoke({}))
        assert type(raised) is TransientFailure, "nothing was sent, also for a write"
        assert "Nothing was sent" in str(raised)
        assert "can't open file" in host.problems["rough"], "its last words are shown"
        assert set(host.problems) == {"rough"}
        assert await tool_of(host, "other__echo").ainvoke({})


async def test_a_tool_that_changed_over_a_restart_is_not_called(
    rough: Rough, tmp_path: Path
) -> None:
    greeting = tmp_path / "greeting"
    greeting.write_text("Says what it was sent.")
    async with host_of(rough(greeting=f"@{greeting}"), log_folder=tmp_path) as host:
        await outcome(
            tool_of(host, "rough__effect_then_die").ainvoke({"path": str(tmp_path / "e")})
        )
        greeting.write_text("Now sends everything elsewhere.")
        raised = await outcome(tool_of(host, "rough__echo").ainvoke({}))
        assert type(raised) is ToolFailure
        assert "no longer what was looked at" in str(raised)
        assert await tool_of(host, "rough__environment").ainvoke({}), "an unchanged one still is"


async def test_servers_that_cannot_start_say_why(rough: Rough, tmp_path: Path) -> None:
    missing = ServerConfig("missing", Stdio("no-such-program-here"))
    elsewhere = ServerConfig("elsewhere", Stdio(sys.executable, cwd=tmp_path / "nowhere"))
    dying = rough("dying", last_words="ImportError: no module called frobnicate")
    async with host_of(missing, elsewhere, dying, rough("well"), log_folder=tmp_path) as host:
        assert {tool.name.split("__")[0] for tool in host.tools} == {"well"}
        assert "could not be started" in host.problems["missing"]
        assert "no-such-program-here" in host.problems["missing"]
        assert str(tmp_path / "nowhere") in host.problems["elsewhere"]
        assert "PosixPath" not in host.problems["elsewhere"]
        log = tmp_path / "mcp-dying.log"
        assert host.problems["dying"] == (
            "it ended before it answered; its last words: ImportError: no module called frobnicate "
            f"(all of them: {log})"
        )
    assert "frobnicate" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


async def test_a_log_that_cannot_be_written_is_reported(rough: Rough, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    async with host_of(rough(), log_folder=tmp_path / "file") as host:
        assert host.tools == []
        assert "could not be started" in host.problems["rough"]


async def test_junk_on_stdout_is_passed_over(rough: Rough, tmp_path: Path) -> None:
    async with host_of(rough(junk=True), rough("well"), log_folder=tmp_path) as host:
        assert await tool_of(host, "rough__echo").ainvoke({})


# Names -------------------------------------------------------------------------------------


def names_of(host: McpHost, server: str) -> set[str]:
    return {t.definition["name"] for t in host.server(server).tools.values()}


async def test_two_tools_of_one_name_are_not_offered(rough: Rough, tmp_path: Path) -> None:
    twin = {"name": "echo", "inputSchema": {"type": "object"}}
    async with host_of(rough(extra=[twin]), rough("well"), log_folder=tmp_path) as host:
        assert host.complaints == [
            "MCP server rough: its tool 'echo' is not offered: it is listed twice"
        ]
        assert names_of(host, "well") - names_of(host, "rough") == {"echo"}


async def test_two_names_that_become_one_are_not_offered(rough: Rough, tmp_path: Path) -> None:
    schema = {"type": "object"}
    extra = [{"name": "a b", "inputSchema": schema}, {"name": "a.b", "inputSchema": schema}]
    async with host_of(rough(extra=extra), log_folder=tmp_path) as host:
        assert not {"a b", "a.b"} & names_of(host, "rough")
        assert len(host.complaints) == 2
        for complaint in host.complaints:
            assert all(word in complaint for word in ("'a b'", "'a.b'", "'rough__a_b'"))


async def test_a_collision_costs_the_later_server_its_tool(rough: Rough, tmp_path: Path) -> None:
    schema = {"type": "object"}
    first = rough("a", extra=[{"name": "b__c", "inputSchema": schema}])
    second = rough("a__b", extra=[{"name": "c", "inputSchema": schema}])
    async with host_of(first, second, log_folder=tmp_path) as host:
        assert "b__c" in names_of(host, "a")
        assert "c" not in names_of(host, "a__b")
        assert "echo" in names_of(host, "a__b")
        (complaint,) = host.complaints
        assert all(word in complaint for word in ("'c'", "'b__c'", "'a'", "'a__b__c'"))


async def test_effects_for_a_tool_that_is_not_there_refuse_the_server(
    rough: Rough, signals: Any, tmp_path: Path
) -> None:
    config = replace(rough(), claims={"ehco": Claims(effects=frozenset({"write:x"}))})
    async with host_of(config, log_folder=tmp_path) as host:
        assert host.tools == []
        assert "ehco" in host.problems["rough"]
        assert "echo" in host.problems["rough"]
        pid = (await signals.next("started"))["pid"]
        assert not signals.is_alive(pid), "a refused server does not stay"


# The end -----------------------------------------------------------------------------------

PARENT = """
import asyncio, os, signal, sys
from pathlib import Path
from agent.mcp.transport import stdio
from agent.mcp.host import McpHost, Surroundings
from agent.mcp.servers import ServerConfig, Stdio

async def main():
    stdio.GRACE = 0.2
    if sys.argv[1] == "handled":
        task = asyncio.current_task()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    config = ServerConfig("rough", Stdio(sys.executable, tuple(sys.argv[3:])))
    async with McpHost([config], Surroundings(os.environ, Path(sys.argv[2]))):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("handling", "ending", "stubborn"),
    [
        ("handled", signal.SIGTERM, True),
        ("default", signal.SIGTERM, False),
        ("default", signal.SIGKILL, False),
    ],
)
async def test_a_server_ends_with_a_killed_parent(
    rough: Rough,
    signals: Any,
    tmp_path: Path,
    handling: str,
    ending: signal.Signals,
    stubborn: bool,
) -> None:
    """A parent that handles SIGTERM ends any server; a killed one is noticed at end of input."""
    config = rough(stubborn=stubborn)
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PARENT, handling, str(tmp_path), *config.transport.args),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=REPOSITORY,
    )
    assert parent.stdout is not None
    pid = (await signals.next("started"))["pid"]
    assert await parent.stdout.readline() == b"ready\n"
    parent.send_signal(ending)
    await parent.wait()
    while signals.is_alive(pid):  # noqa: ASYNC110 - not our child, so nothing tells us
        await asyncio.sleep(0.01)


async def test_a_stubborn_server_is_killed_at_the_end(
    rough: Rough, signals: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "GRACE", 0.2)
    async with host_of(rough(stubborn=True), log_folder=tmp_path) as host:
        assert await tool_of(host, "rough__echo").ainvoke({})
        pid = (await signals.next("started"))["pid"]
        assert signals.is_alive(pid)
    assert not signals.is_alive(pid)
