"""Our servers while they start and when they are gone: quick to say no, and quiet to leave.

What is slow is told by what is imported: a module of that name on the path before the real one
says so, or waits.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.courses import LMS_TOKEN
from tests.support.served import AGENT_TOKEN, raw_stdio

PROGRAMS = ("mcp_servers.orders", "mcp_servers.research", "mcp_servers.courses")
LMS = "mcp_servers.courses.lms"
TOKENS = {"AGENT_TOKEN": AGENT_TOKEN, "LMS_TOKEN": LMS_TOKEN}
SLOW = ("fastmcp", "mcp", "uvicorn", "starlette", "httpx", "jsonschema", "langchain_core")
SIGNALS = (signal.SIGTERM, signal.SIGINT)

Instead = Callable[..., dict[str, str]]


@pytest.fixture
def instead(tmp_path: Path) -> Instead:
    """Makes the environment in which importing one of these modules runs this text instead."""

    def make(text: str, *names: str) -> dict[str, str]:
        for name in names:
            package = tmp_path / "instead" / name
            package.mkdir(parents=True)
            (package / "__init__.py").write_text(text)
        path = [str(tmp_path / "instead"), os.environ.get("PYTHONPATH", "")]
        return {"PYTHONPATH": os.pathsep.join(filter(None, path))}

    return make


def ended(program: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", program, *arguments],
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


IMPORTED = "raise SystemExit(f'{__name__} was imported')"


@pytest.mark.parametrize("program", [*PROGRAMS, LMS])
def test_help_and_wrong_usage_import_next_to_nothing(program: str, instead: Instead) -> None:
    env = instead(IMPORTED, *SLOW, "pydantic", "pydantic_settings", "asyncio")
    helped = ended(program, "--help", **env)
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith(f"usage: python -m {program} ")
    for arguments in (["--nonsense"], ["--port", "http"], ["--port"], ["serve"]):
        wrong = ended(program, *arguments, **env)
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert wrong.stderr.startswith(f"usage: python -m {program} ")


@pytest.mark.parametrize("program", [*PROGRAMS, LMS])
def test_settings_that_cannot_work_are_told_before_what_is_slow(
    program: str, instead: Instead
) -> None:
    env = {**TOKENS, **instead(IMPORTED, *SLOW)}
    wrong = ended(program, **{**env, "LMS_TOKEN" if program == LMS else "AGENT_TOKEN": "short"})
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "_TOKEN: Value error, at least 16 visible ASCII characters" in wrong.stderr
    if program != LMS:
        del env["AGENT_TOKEN"]
        none = ended(program, "--http", **env)
        assert (none.returncode, none.stdout) == (2, "")
        assert none.stderr.startswith("AGENT_TOKEN: needed for --http")


def test_a_taken_port_is_told_before_fastmcp_is_imported(instead: Instead) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        env = {**TOKENS, **instead(IMPORTED, "fastmcp", "mcp")}
        wrong = ended("mcp_servers.orders", "--http", "--port", port, **env)
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith(f"127.0.0.1:{port} cannot be used: ")


WAITS = """
import signal, sys
print("importing", file=sys.stderr, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize(
    ("slow", "command"),
    [
        ("pydantic_settings", ["mcp_servers.orders"]),
        ("fastmcp", ["mcp_servers.orders"]),
        ("fastmcp", ["mcp_servers.courses", "--http", "--port", "0"]),
        ("starlette", [LMS, "--port", "0"]),
    ],
)
def test_a_signal_while_it_starts_ends_it_at_once(
    slow: str, command: list[str], number: signal.Signals, instead: Instead
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**os.environ, **TOKENS, **instead(WAITS, slow)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        assert running.stderr.readline() == "importing\n"
        running.send_signal(number)
        assert running.wait() == -number
        assert running.stderr.read() == ""


LEAVES = """
import atexit, signal, sys
from mcp_servers.research import main
atexit.register(signal.pause)
atexit.register(print, "leaving", file=sys.stderr, flush=True)
main()
"""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_it_leaves_ends_it_at_once(number: signal.Signals) -> None:
    """It has answered everything by then."""
    with raw_stdio("-c", LEAVES, status=-number) as server:
        server.initialize()
        server.stdin.close()
        assert server.stderr.readline() == b"leaving\n"
        server.running.send_signal(number)
        assert server.end() == ""


def test_a_parents_wish_that_ctrl_c_be_ignored_is_kept(instead: Instead) -> None:
    """A shell says so to what it starts in the background."""
    code = "import signal, sys; print(signal.getsignal(2) is signal.SIG_IGN, file=sys.stderr)"
    ignoring = f"trap '' INT; exec {sys.executable} -m mcp_servers.research"
    env = {**os.environ, **instead(code + "; sys.exit()", "fastmcp")}
    done = subprocess.run(["sh", "-c", ignoring], env=env, capture_output=True, text=True)
    assert done.stderr == "True\n"


def test_only_while_it_imports_it_does_without_the_garbage_collector() -> None:
    code = """
import gc
from mcp_servers.program import importing
with importing():
    made = [[] for _ in range(1000)]
    print(gc.isenabled())
print(gc.isenabled(), gc.get_freeze_count() > 1000)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\nTrue True\n"


# What is not taken from the environment --------------------------------------------------------


def calculation(id: int) -> bytes:
    params = {"name": "calculator", "arguments": {"expression": "6 * 7"}}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


def test_a_call_needs_no_langchain(instead: Instead) -> None:
    """It takes as long to import as the rest, and tells LangSmith of calls if it is set up to."""
    env = instead(IMPORTED, "langchain_core", "langsmith", "langchain", "langgraph")
    with raw_stdio("-m", "mcp_servers.research", env=env) as server:
        server.initialize()
        server.write(calculation(7))
        assert server.read()["result"]["structuredContent"] == {"result": "42", "exact": True}


def test_settings_of_fastmcp_are_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the folder it is started in least of all."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("FASTMCP_LOG_LEVEL=nonsense\n")
    env = {"FASTMCP_STRICT_INPUT_VALIDATION": "maybe", "fastmcp_debug": "x"}
    with raw_stdio("-m", "mcp_servers.research", env=env) as server:
        server.initialize()
        server.write(calculation(7))
        assert server.read()["result"]["structuredContent"]["result"] == "42"
        assert server.end() == ""
