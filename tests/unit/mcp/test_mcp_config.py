"""``.mcp.json``: what is read from it, and where a complaint points."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from agent.errors import UsageError
from agent.mcp.config import ServerConfig, parse_config

FULL = """
{
  "mcpServers": {
    "order desk": {
      "type": "stdio",
      "command": "${PYTHON:-python3}",
      "args": ["-m", "servers.${KIND}", "$HOME", "a b"],
      "env": {"TOKEN": "${TOKEN}", "EMPTY": "${NOTHING:-}"},
      "cwd": "sub",
      "sayso": {"trusted": true, "timeout": 2.5, "effects": {"get": ["read:orders"]}}
    },
    "plain": {"command": "plain-server"}
  }
}
"""
VARIABLES = {"KIND": "orders", "TOKEN": "${KIND}"}


def test_everything_is_read(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(FULL)
    desk, plain = parse_config(path.read_text(), path, VARIABLES)
    assert desk == ServerConfig(
        name="order desk",
        command="python3",
        args=("-m", "servers.orders", "$HOME", "a b"),
        env={"TOKEN": "${KIND}", "EMPTY": ""},
        cwd=tmp_path / "sub",
        trusted=True,
        timeout=2.5,
        effects={"get": frozenset({"read:orders"})},
    )
    assert desk.id == "order_desk"
    assert (plain.trusted, plain.timeout, plain.effects) == (False, 30.0, {})
    assert plain.cwd == tmp_path


def test_the_command_line_is_shown_quoted_and_without_values(tmp_path: Path) -> None:
    desk, _ = parse_config(FULL, tmp_path / ".mcp.json", {**VARIABLES, "TOKEN": "hush"})
    assert desk.command_line == (
        f"TOKEN=… EMPTY=… python3 -m servers.orders '$HOME' 'a b'  (in {tmp_path / 'sub'})"
    )
    assert "hush" not in repr(desk)


def test_a_default_stands_in_for_an_empty_variable(tmp_path: Path) -> None:
    desk, _ = parse_config(FULL, tmp_path / "f", {**VARIABLES, "PYTHON": ""})
    assert desk.command == "python3"


def server(**members: object) -> str:
    """A file whose second server has these members; its own line is 4."""
    entry = json.dumps(members, indent=1)
    return (
        '{"mcpServers": {\n"env": {"command": "x", "env": {"A": "1"}},\n\n'
        f'"s":\n{entry}\n}}}}'
    )


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("{\n\n oops", 3, "not valid JSON"),
        ("[]", 1, "an object"),
        ("{\n}", 1, "mcpServers"),
        ('{\n"a": 1,\n"mcpServers": []}', 3, "mcpServers"),
        ('{"mcpServers": {\n"s": 3}}', 2, "'s'"),
        ('{"mcpServers": {\n\n" ": {"command": "x"}}}', 3, "name"),
        ('{"mcpServers":{"a b":{"command":"x"},\n"a.b":{"command":"x"}}}', 2, "'a b' and 'a.b'"),
        (server(args=[]), 4, "needs a command"),
        (server(command=""), 4, "needs a command"),
        (server(command="x", args="y"), 7, "args"),
        (server(command="x", args=[1]), 7, "args"),
        (server(command="x", env={"A": 1}), 8, "A to be a text"),
        (server(command="x", env={"SAYSO_HOME": "/"}), 8, "SAYSO_HOME"),
        (server(command="x", env={"sayso_home": "/"}), 8, "sayso_home"),
        (server(command="x", env={"A=B": "/"}), 8, "A=B"),
        (server(command="x", disabled=True), 7, "unknown key 'disabled'"),
        (server(command="x", sayso={"trusted": "yes"}), 8, "trusted to be true or false"),
        (server(command="x", sayso={"trust": True}), 8, "unknown key 'trust'"),
        (server(command="x", sayso={"timeout": 0}), 8, "seconds"),
        (server(command="x", sayso={"timeout": True}), 8, "seconds"),
        (server(command="x", sayso={"effects": {"t": "read:x"}}), 9, "list of effects"),
        (server(command="x", sayso={"effects": {"t": []}}), 9, "list of effects"),
        (server(command="x", sayso={"effects": {"t": ["*"]}}), 9, "'*' is not an effect"),
        (server(command="${MISSING}"), 6, "MISSING is not set"),
        (server(command="x", args=["${MISSING}"]), 7, "MISSING is not set"),
        (server(command="x", env={"A": "${MISSING}"}), 8, "MISSING is not set"),
        (server(command="x", cwd="${MISSING}"), 7, "MISSING is not set"),
        (server(command="${env:HOME}"), 6, "${env:HOME}"),
        (server(command="x${HOME"), 6, "${HOME"),
        (server(command="x\0"), 6, "NUL"),
        (server(url="https://example.org/mcp"), 4, "over the network"),
        (server(type="http", command="x"), 4, "over the network"),
    ],
)
def test_a_complaint_names_the_file_and_the_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        parse_config(path.read_text(), path, {})
    assert str(raised.value).startswith(f"{path}, line {line}: ")
    assert words in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            b'{"mcpServers": {"s": {"command": "shown", "command": "run"}}}',
            "'command' is there twice",
        ),
        (b"[" * 100_000, "recursion"),
    ],
)
def test_files_that_no_line_can_be_named_for(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / ".mcp.json"
    path.write_bytes(content)
    with pytest.raises(UsageError) as raised:
        parse_config(path.read_text(), path, {})
    assert str(path) in str(raised.value)
    assert words in str(raised.value)


def test_reading_a_configuration_imports_no_sdk() -> None:
    code = "import sys, agent.mcp.config; sys.exit('mcp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
