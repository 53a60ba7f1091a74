"""Our servers under the official inspector's command line, over stdio and Streamable HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interop.others import node_program, run
from interop.ours import NAMES, READS, WRITES, command, over_http, surroundings
from tests.support.served import AGENT_TOKEN

INSPECTOR = [*node_program("mcp-inspector"), "--cli"]
IS_ERROR = 5
"""The exit code for a tool's own error."""

Ask = Callable[..., tuple[int, Any]]


@contextmanager
def inspected(over: str, name: str, folder: Path) -> Iterator[Ask]:
    """Asks one of our servers through the inspector: its exit code, and what it printed."""
    if over == "stdio":
        with surroundings(name, folder) as env:
            variables = [part for key, value in env.items() for part in ("-e", f"{key}={value}")]
            yield lambda *arguments: asked([*variables, *arguments, "--", *command(name)])
    else:
        with over_http(name, folder) as running:
            where = [
                "--server-url",
                running.url,
                "--header",
                f"Authorization: Bearer {AGENT_TOKEN}",
            ]
            yield lambda *arguments: asked([*where, *arguments])


def asked(arguments: list[str]) -> tuple[int, Any]:
    done = run([*INSPECTOR, *arguments])
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def calling(tool: str, arguments: Mapping[str, Any]) -> list[str]:
    given = [f"{name}={json.dumps(value)}" for name, value in arguments.items()]
    return ["--method", "tools/call", "--tool-name", tool, "--tool-arg", *given]


@pytest.mark.parametrize("over", ["stdio", "http"])
@pytest.mark.parametrize("name", NAMES)
def test_list_read_write_and_a_mistake(name: str, over: str, tmp_path: Path) -> None:
    with inspected(over, name, tmp_path) as ask:
        code, greeting = ask("--method", "initialize")
        assert (code, greeting["serverInfo"]["name"]) == (0, name)
        assert greeting["protocolVersion"] == "2025-11-25"

        code, listed = ask("--method", "tools/list", "--strict")
        assert code == 0, "no client stumbles over a schema"
        tool, arguments, found = READS[name]
        tools = {one["name"]: one for one in listed["tools"]}
        assert tools[tool]["annotations"]["readOnlyHint"] is True

        code, result = ask(*calling(tool, arguments))
        assert code == 0
        assert found in json.dumps(result)

        if name in WRITES:
            tool, arguments, found = WRITES[name]
            code, result = ask(*calling(tool, arguments))
            assert (code, result["isError"]) == (0, False)
            assert found in json.dumps(result["structuredContent"])
            code, result = ask(*calling(tool, arguments))
            assert (code, result["isError"]) == (IS_ERROR, True), "the revision is another now"
            assert result["_meta"] == {"sayso/outcome": "failed"}

        code, result = ask(*calling(tool, {"nonsense": 1}))
        assert code == IS_ERROR
        assert "nonsense" in result["content"][0]["text"]
