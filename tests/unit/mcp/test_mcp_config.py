"""Files that name MCP servers: what is read from them, and where a complaint points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import UsageError
from agent.mcp.configuration.document import MAX_SERVERS
from agent.mcp.configuration.parse import MAX_SHOWN, Configuration, parse_config, together
from agent.mcp.configuration.variables import Input, as_written
from agent.mcp.servers import Claims, Http, ServerConfig, Stdio

FULL = """
{
  "mcpServers": {
    "order desk": {
      "type": "stdio",
      "command": "${PYTHON:-python3}",
      "args": ["-m", "servers.${env:KIND}", "$HOME", "a b"],
      "env": {"TOKEN": "${TOKEN}", "EMPTY": "${NOTHING:-}"},
      "cwd": "sub",
      "sayso": {
        "trusted": true,
        "timeout": 2.5,
        "tools": {
          "get": {"effects": ["read:orders"], "open_world": false, "private": false},
          "put": {"idempotency": "key", "timeout": 90}
        }
      }
    },
    "plain": {"command": "plain-server"},
    "far": {"url": "https://docs.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
  }
}
"""
VARIABLES = {"KIND": "orders", "TOKEN": "${KIND}", "HOME": "/home/ann"}


def read(text: str, folder: Path | None, **variables: str) -> Configuration:
    """What a file in a folder, or a person's own file, says."""
    path = (folder or Path("/state")) / "mcp.json"
    return parse_config(text, path, {"HOME": "/home/ann", **variables}, folder=folder)


def one(entry: dict[str, Any], folder: Path | None = Path("/w"), **more: Any) -> Configuration:
    """What a file says that has one server."""
    text = json.dumps({"mcpServers": {"s": entry}, **more.pop("beside", {})})
    return read(text, folder, **more)


def server(*args: Any, **more: Any) -> ServerConfig:
    """The one server of a file; there is nothing to complain about."""
    configuration = one(*args, **more)
    assert configuration.problems == ()
    (found,) = configuration.servers
    return found


def problem(*args: Any, **more: Any) -> str:
    """Why the one server of a file cannot be used."""
    configuration = one(*args, **more)
    assert configuration.servers == ()
    (found,) = configuration.problems
    return found.why


# --- what is read ---------------------------------------------------------------------------


def test_everything_is_read(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    configuration = parse_config(FULL, path, VARIABLES, folder=tmp_path)
    desk, plain, far = configuration.servers
    assert configuration.remarks == ()
    assert desk == ServerConfig(
        name="order desk",
        transport=Stdio(
            command="python3",
            args=("-m", "servers.orders", "$HOME", "a b"),
            env={"TOKEN": "${KIND}", "EMPTY": ""},
            cwd=tmp_path / "sub",
        ),
        source=path,
        written=desk.written,
        trusted=True,
        timeout=2.5,
        claims={
            "get": Claims(frozenset({"read:orders"}), open_world=False, private=False),
            "put": Claims(idempotency="key", timeout=90.0),
        },
    )
    assert desk.id == "order_desk"
    assert (plain.trusted, plain.timeout, plain.claims) == (False, 30.0, {})
    assert plain.transport == Stdio("plain-server", cwd=tmp_path)
    assert far.transport == Http("https://docs.example/mcp", {"Authorization": "Bearer ${KIND}"})
    assert [entry.line for entry in configuration.entries] == [4, 19, 20]


def test_what_a_person_confirms_has_no_value_of_a_variable_or_header(tmp_path: Path) -> None:
    secrets = {**VARIABLES, "TOKEN": "hush"}
    configuration = parse_config(FULL, tmp_path / "f", secrets, folder=tmp_path)
    desk, _, far = configuration.entries
    assert desk.shown == (
        f"TOKEN=… EMPTY=… python3 -m servers.${{env:KIND}} '$HOME' 'a b'  (in {tmp_path / 'sub'})"
    )
    assert far.shown == "https://docs.example/mcp Authorization: …"
    assert desk.details == (
        "KIND is … now; with another value it is asked about again",
        "takes KIND, TOKEN from your environment",
        "what it claims of its tools (that they only read) is believed",
        "a call may take 2.5 seconds",
        "get: counts as read:orders; its results are believed; its results are not private",
        "put: repeating it: key; a call may take 90 seconds",
    )
    assert "hush" not in repr(configuration)


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"command": "x"}, Stdio("x", cwd=Path("/w"))),
        ({"type": "stdio", "command": "x"}, Stdio("x", cwd=Path("/w"))),
        ({"url": "https://a/"}, Http("https://a/")),
        ({"type": "http", "url": "https://a/"}, Http("https://a/")),
        ({"type": "streamable-http", "url": "https://a/"}, Http("https://a/")),
        ({"type": "streamableHttp", "url": "https://a/"}, Http("https://a/")),
        ({"type": "sse", "url": "https://a/"}, Http("https://a/", sse=True)),
    ],
)
def test_the_transport_is_named_or_follows(entry: dict[str, Any], transport: object) -> None:
    assert server(entry).transport == transport


def test_the_file_of_vs_code_is_read(tmp_path: Path) -> None:
    """Comments, a comma too many, ``inputs`` and ``envFile`` included."""
    (tmp_path / ".env").write_text("A=1\nexport B='two words'\nSAYSO_MODEL=x\nC=3\n")
    text = """{
      // asked for once
      "inputs": [{"id": "api-key", "type": "promptString", "password": true,},],
      "servers": {
        "s": {
          "command": "serve", /* "args": */
          "args": ["--at", "http://x//y"],
          "envFile": "${workspaceFolder}/.env",
          "env": {"C": "own", "KEY": "${input:api-key}"},
        },
      },
    }"""
    configuration = read(text, tmp_path, API_KEY="k")
    (found,) = configuration.servers
    assert found.transport == Stdio(
        "serve",
        ("--at", "http://x//y"),
        {"A": "1", "B": "two words", "C": "own", "KEY": "k"},
        tmp_path,
    )
    assert configuration.entries[0].details == (
        f"takes A, B, C from {tmp_path / '.env'}",
        "takes API_KEY from your environment",
    )
    assert configuration.entries[0].line == 5


def test_a_file_with_several_outlines_is_read_whole() -> None:
    """Of one name the first counts, and the other is named with its line."""
    text = """{
      "servers": {"s": {"command": "v"}, "v": {"command": "v"}},
      "mcpServers": {"s": {"command": "x"}, "v.": {"command": "x"}},
      "context_servers": {"z": {"source": "custom", "command": "z"}}
    }"""
    configuration = read(text, Path("/w"))
    assert [(found.name, found.transport.command) for found in configuration.servers] == [  # type: ignore[union-attr]
        ("s", "x"),
        ("v.", "x"),
        ("v", "v"),
        ("z", "z"),
    ]
    (twice,) = configuration.problems
    assert str(twice).startswith(
        "/w/mcp.json, line 2: MCP server 's' is left out: there is another"
    )


def test_keys_of_other_hosts_are_named_and_the_server_is_used() -> None:
    entry = {"command": "x", "autoApprove": ["get"], "timeout": 60, "description": "d"}
    configuration = one(entry)
    assert len(configuration.servers) == 1
    (notice,) = configuration.notices
    assert "'s' says autoApprove, timeout, description, which have no effect here" in notice
    assert "writes wait for you" in notice
    assert '{"sayso": {"timeout": seconds}}' in notice


@pytest.mark.parametrize(
    ("entry", "transport"),
    [
        ({"serverUrl": "https://a/"}, Http("https://a/")),
        ({"httpUrl": "https://a/", "headers": {"X": "1"}}, Http("https://a/", {"X": "1"})),
        ({"transport": "sse", "url": "https://a/"}, Http("https://a/", sse=True)),
        ({"transportType": "streamable_http", "url": "https://a/"}, Http("https://a/")),
        ({"type": "local", "command": "x", "tools": ["*"]}, Stdio("x", cwd=Path("/w"))),
        ({"command": "x", "disabledTools": [], "enabled": True}, Stdio("x", cwd=Path("/w"))),
        ({"command": "x", "sandboxEnabled": False}, Stdio("x", cwd=Path("/w"))),
    ],
)
def test_what_other_hosts_call_otherwise(entry: dict[str, Any], transport: object) -> None:
    assert server(entry).transport == transport


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("sandbox", {}, "sandbox is not obeyed here, so the server would run without one"),
        ("sandboxEnabled", True, "without a sandbox"),
        ("excludeTools", ["drop"], "tools of it would be offered that it leaves out"),
        ("includeTools", ["get"], "tools of it would be offered that it leaves out"),
        ("tools", [], "tools of it would be offered that it leaves out"),
        ("headersHelper", "./get-token", "write headers"),
        ("env_vars", ["TOKEN"], "name them in env"),
        ("x" * 200, 1, f"unknown key '{'x' * 100}'"),
    ],
)
def test_a_key_that_changes_what_its_writer_expects_costs_the_server(
    key: str, value: object, words: str
) -> None:
    assert words in problem({"command": "x", key: value})


def test_two_words_for_one_thing_are_not_chosen_from() -> None:
    assert "unknown key 'serverUrl'" in problem({"url": "https://a/", "serverUrl": "https://b/"})
    assert "unknown key 'httpUrl'" in problem({"serverUrl": "https://a/", "httpUrl": "https://b/"})


@pytest.mark.parametrize("switch", [{"disabled": True}, {"enabled": False}])
def test_a_disabled_server_is_passed_over_whatever_it_says(switch: dict[str, bool]) -> None:
    configuration = one({"command": "${MISSING}", "odd": 1, **switch})
    assert (configuration.servers, configuration.problems) == ((), ())
    assert configuration.disabled == (
        "/w/mcp.json: MCP server 's' is disabled, so it is not used.",
    )
    assert configuration.remarks == configuration.disabled
    assert len(one({"command": "x", "disabled": False}).servers) == 1


# --- what a person is shown -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("${TOKEN}", "${TOKEN}"),
        ("--key=${env:TOKEN}", "--key=${env:TOKEN}"),
        ("postgres://me:${TOKEN}@h/db", "postgres://me:${TOKEN}@h/db"),
        ("a b ${TOKEN}", "'a b ${TOKEN}'"),
        ("${TOKEN:-none}", "${TOKEN:-none}"),
        ("${GONE:-none}", "none"),
        ("${EMPTY}", "''"),
        ("${HOME}/notes", "/home/ann/notes"),
        ("${userHome}/${workspaceFolderBasename}", "/home/ann/w"),
        ("${HERE}/serve.py", f"{Path(__file__).parent}/serve.py"),
        ("${NOWHERE}", "${NOWHERE}"),
        ("${PATH}", "/bin:/sbin"),
    ],
)
def test_an_argument_is_shown_without_what_may_be_a_secret(text: str, shown: str) -> None:
    variables = {
        "TOKEN": "hush-hush",
        "EMPTY": "",
        "HERE": str(Path(__file__).parent),
        "NOWHERE": "/hush-hush",
        "PATH": "/bin:/sbin",
    }
    (entry,) = one({"command": "x", "args": [text]}, **variables).entries
    assert entry.shown == f"x {shown}  (in /w)"
    assert "hush-hush" not in str(entry.details)


def test_what_decides_which_program_runs_is_shown() -> None:
    env = {"PATH": "${BIN}:/usr/bin", "LD_PRELOAD": "a b.so", "PYTHONPATH": "x", "TOKEN": "hush"}
    entry = {"command": "${PY}", "args": ["-m", "json.tool"], "env": env, "cwd": "${DIR}"}
    (found,) = one(entry, BIN="bin", PY="python3", DIR="/d").entries
    assert found.shown == (
        "PATH=bin:/usr/bin LD_PRELOAD='a b.so' PYTHONPATH=x TOKEN=… python3 -m json.tool  (in /d)"
    )


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "PYTHONHOME", "PYTHONSTARTUP", "NODE_OPTIONS", "DYLD_INSERT_LIBRARIES"),
        *("GIT_SSH_COMMAND", "GIT_EXEC_PATH", "UV_INDEX", "UV_DEFAULT_INDEX", "UV_INDEX_URL"),
        *("UV_EXTRA_INDEX_URL", "UV_CONFIG_FILE", "UV_PYTHON", "PIP_INDEX_URL"),
        *("PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "NPM_CONFIG_REGISTRY", "npm_config_registry"),
        *("npm_config_@acme:registry", "NPM_CONFIG_USERCONFIG", "YARN_NPM_REGISTRY_SERVER"),
        *("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "BUN_CONFIG_REGISTRY", "DENO_DIR"),
        *("RUBYOPT", "PERL5LIB", "JAVA_TOOL_OPTIONS", "CLASSPATH", "BASH_ENV", "ENV"),
    ],
)
def test_each_variable_that_decides_which_code_runs_is_shown(name: str) -> None:
    (found,) = one({"command": "x", "env": {name: "${FROM}"}}, FROM="over-there").entries
    assert found.shown == f"{name}=over-there x  (in /w)"


GHP = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("https://ann:hush@npm.example/", "https://…@npm.example/"),
        (
            "a=https://ann:hush@a.example/?k=hush https://b:hush@c.example/",
            "'a=https://…@a.example/?k=… https://…@c.example/'",
        ),
        (f"https://npm.example/{GHP}/", "https://npm.example/…a1B2/"),
        ("-c http.extraHeader='Authorization: Bearer hush'", "Authorization: Bearer …"),
        ("-Dproxy.password=hush -Xmx1g", "'-Dproxy.password=… -Xmx1g'"),
        ("--token hush --require ./x.js", "'--token … --require ./x.js'"),
        ("https://npm.example/${TOKEN}/", "https://npm.example/${TOKEN}/"),
        ("--require ./author ./x.js", "'--require ./author ./x.js'"),
        ("/opt/asia-southeast1-mirror", "/opt/asia-southeast1-mirror"),
    ],
)
def test_what_is_shown_of_a_variable_has_no_password_in_it(value: str, shown: str) -> None:
    entry = {"command": "x", "env": {"NPM_CONFIG_REGISTRY": value}}
    (found,) = one(entry, TOKEN="hush").entries
    assert shown in found.shown
    assert "hush" not in found.shown
    assert GHP not in found.shown


def test_what_is_put_into_a_command_or_an_address_has_no_password_in_it() -> None:
    variables = {
        "GIT_PAT": GHP,
        "GIT_AUTHORIZATION": "Bearer hush",
        "NPM_CONFIG_REGISTRY": "https://ann:hush@npm.example/",
    }
    args = ["${GIT_PAT}", "${GIT_AUTHORIZATION}", "${NPM_CONFIG_REGISTRY}"]
    (found,) = one({"command": "x", "args": args}, **variables).entries
    assert found.shown == "x ${GIT_PAT} ${GIT_AUTHORIZATION} https://…@npm.example/  (in /w)"
    (found,) = one({"url": "https://x.example/${GIT_PAT}/mcp"}, **variables).entries
    assert found.shown == "https://x.example/${GIT_PAT}/mcp"


@pytest.mark.parametrize(
    "name",
    [
        *("GIT_TOKEN", "GIT_PAT", "GIT_AUTHORIZATION", "GIT_CONFIG_VALUE_0", "PYTHON_KEYRING"),
        *("NPM_CONFIG__AUTHTOKEN", "NPM_CONFIG_//npm.example/:_password", "LD_SDK_KEY"),
        *("YARN_NPM_AUTH_TOKEN", "UV_INDEX_ACME_PASSWORD", "DENO_AUTH_TOKENS"),
    ],
)
def test_a_token_is_none_of_these_whatever_its_name_begins_with(name: str) -> None:
    (found,) = one({"command": "x", "env": {name: "hush"}}).entries
    assert found.shown == f"{name}=… x  (in /w)"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h.example/${TOKEN}/mcp", "https://h.example/${TOKEN}/mcp"),
        ("https://h.example${SLASH}", "https://h.example${SLASH}  (at https://h.example)"),
        ("https://${HOST}/mcp", "https://${HOST}/mcp  (at https://other.example)"),
        (
            "https://h.example.${HOST}",
            "https://h.example.${HOST}  (at https://h.example.other.example)",
        ),
        ("${WHOLE}", "${WHOLE}  (at http://127.0.0.1:8000)"),
    ],
)
def test_an_address_is_shown_with_its_host_and_without_secrets(url: str, shown: str) -> None:
    variables = {
        "TOKEN": "hush-hush",
        "SLASH": "/hush-hush",
        "HOST": "other.example",
        "WHOLE": "http://127.0.0.1:8000/hush-hush?k=hush-hush",
    }
    (entry,) = one({"url": url}, **variables).entries
    assert entry.shown == shown
    assert "hush-hush" not in str(entry.details)


def test_the_masked_values_are_told_and_that_another_one_asks_again() -> None:
    entry = {"command": "x", "args": ["${A}", "${B}", "${A}"], "env": {"C": "${C}"}}
    (found,) = one(entry, A="a" * 30 + "tail", B="b", C="c").entries
    assert found.details == (
        "A is …tail, B is … now; with another value it is asked about again",
        "takes A, B, C from your environment",
    )


def test_a_complaint_about_a_path_has_no_value_in_it(tmp_path: Path) -> None:
    (tmp_path / "hush").symlink_to("hush")
    for value in ("hush", "/hush", "../hush", "hus"):
        why = problem({"command": "x", "envFile": "${TOKEN}"}, tmp_path, TOKEN=value)
        assert f"{tmp_path}/${{TOKEN}}" in why
        assert "hus" not in why.replace(str(tmp_path), "")


# --- variables ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "1"),
        ("${env:A}", "1"),
        ("${A:-d}", "1"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${GONE:-}", ""),
        ("${GONE:-a b:-c}", "a b:-c"),
        ("${REFERS}", "${A}"),
        ("$A {A} $${A}", "$A {A} $1"),
        ("${workspaceFolder}/x", "/w/x"),
        ("${workspaceFolderBasename}", "w"),
        ("${userHome}", "/home/ann"),
        ("a${pathSeparator}b${/}c", "a/b/c"),
    ],
)
def test_what_is_put_in(text: str, value: str) -> None:
    entry = {"command": "x", "args": [text], "env": {"V": text}, "cwd": f"/d{text}"}
    found = server(entry, A="1", EMPTY="", REFERS="${A}").transport
    assert isinstance(found, Stdio)
    assert found.args == (value,)
    assert found.env == {"V": value}
    assert found.cwd == Path(f"/d{value}")


def test_addresses_and_headers_have_variables_too() -> None:
    entry = {"url": "https://${HOST}/${env:P}?k=${K}", "headers": {"X": "${K}"}}
    (found,) = one(entry, HOST="h.example", P="mcp", K="s3cret").entries
    assert found.server.transport == Http("https://h.example/mcp?k=s3cret", {"X": "s3cret"})
    assert found.shown == "https://${HOST}/${env:P}?k=…${K} X: …  (at https://h.example)"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("${GONE}", "the variable GONE is not set"),
        ("${env:GONE}", "the variable GONE is not set"),
        ("${SAYSO_DATABASE_URL}", "SAYSO_DATABASE_URL is no business of a server's"),
        ("${sayso_home:-x}", "sayso_home is no business"),
        ("${command:pick}", "cannot read '${command:pick}'"),
        ("${A", "cannot read '${A'"),
        ("${}", "cannot read '${}'"),
        ("${A-b}", "cannot read '${A-b}'"),
        ("${workspaceFolder:other}", "${workspaceFolder:other} means nothing in this file"),
        ("${BIG}" * 2, "longer than 32000 characters"),
        ("a\0b", "NUL"),
        ("${input:gone}", "no input 'gone' among the inputs"),
    ],
)
def test_what_cannot_be_put_in_costs_the_server(text: str, words: str) -> None:
    variables = {"SAYSO_DATABASE_URL": "postgresql://", "BIG": "b" * 20_000}
    assert words in problem({"command": text}, **variables)
    assert words in problem({"command": "x", "env": {"V": text}}, **variables)


def test_a_bomb_of_variables_is_stopped() -> None:
    assert "longer than" in problem({"command": "${BIG}" * 40_000}, BIG="b" * 100_000)


def inputs(**more: Any) -> dict[str, Any]:
    return {"inputs": [{"id": "api-key", "type": "promptString", **more}]}


USES = {"command": "x", "env": {"K": "${input:api-key}"}}


def test_an_input_comes_from_its_variable_and_else_nobody_is_asked() -> None:
    assert server(USES, beside=inputs(), API_KEY="k").transport.env == {"K": "k"}  # type: ignore[union-attr]
    why = problem(USES, beside=inputs(default="d"))
    assert "needs the input 'api-key'; set the variable API_KEY" in why
    assert "needs the input" in problem(USES, beside=inputs(), API_KEY="")


def test_an_input_is_asked_for_where_somebody_is_there() -> None:
    asked: list[Input] = []

    def answer(wanted: Input) -> str | None:
        asked.append(wanted)
        return None if wanted.secret else "blue"

    pick = {"id": "c", "type": "pickString", "options": ["red", {"label": "B", "value": "blue"}]}
    secret = {"id": "k", "type": "promptString", "password": True, "description": "The key"}
    text = json.dumps(
        {
            "inputs": [pick, secret],
            "servers": {
                "a": {"command": "x", "args": ["${input:c}"]},
                "b": {"command": "x", "env": {"K": "${input:k}"}},
            },
        }
    )
    configuration = parse_config(text, Path("/f"), {}, folder=Path("/"), ask=answer)
    assert [s.transport.args for s in configuration.servers] == [("blue",)]  # type: ignore[union-attr]
    assert asked == [
        Input("c", options=("red", "blue")),
        Input("k", description="The key", secret=True),
    ]
    assert "input 'k' got no answer" in configuration.problems[0].why


def test_an_input_with_options_takes_no_other_value_and_does_not_repeat_it() -> None:
    """The variable is named by the file: its value may be a secret of another program."""
    pick = {"inputs": [{"id": "api-key", "type": "pickString", "options": ["red"]}]}
    assert server(USES, beside=pick, API_KEY="red")
    why = problem(USES, beside=pick, API_KEY="sk-secret")
    assert "is none of 'red'" in why
    assert "sk-secret" not in why


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"id": "api-key", "type": "command", "command": "x"}, "is a 'command'"),
        ({"id": "api-key"}, "an input needs an id"),
        ({"id": "api-key", "type": "pickString", "options": []}, "is a 'pickString'"),
        ({"id": "api-key", "type": "promptString", "default": 3}, "must be texts"),
    ],
)
def test_an_input_that_cannot_be_asked_for(entry: dict[str, Any], words: str) -> None:
    assert words in problem(USES, beside={"inputs": [entry]})
    assert len(one({"command": "x"}, beside={"inputs": [entry]}).servers) == 1


def test_an_input_of_ours_is_refused() -> None:
    beside = {"inputs": [{"id": "sayso-home", "type": "promptString"}]}
    why = problem({"command": "${input:sayso-home}"}, beside=beside, SAYSO_HOME="/h")
    assert "SAYSO_HOME is no business" in why


def test_whoever_only_looks_leaves_inputs_as_they_are() -> None:
    text = json.dumps({"servers": {"s": {"command": "${input:api-key}"}}, **inputs()})
    configuration = parse_config(text, Path("/f"), {}, folder=Path("/"), ask=as_written)
    assert configuration.entries[0].shown == "${input:api-key}  (in /)"


# --- a person's own file --------------------------------------------------------------------


def test_a_persons_own_file_belongs_to_no_folder(tmp_path: Path) -> None:
    assert server({"command": "x"}, None).transport == Stdio("x", cwd=Path("/home/ann"))
    assert "whole path" in problem({"command": "x", "cwd": "sub"}, None)
    assert "whole path" in problem({"command": "x", "envFile": ".env"}, None)
    why = problem({"command": "x", "args": ["${workspaceFolder}"]}, None)
    assert "${workspaceFolder} means nothing in this file" in why
    (tmp_path / "real").write_text("A=1\n")
    (tmp_path / "link").symlink_to("real")
    found = server({"command": "x", "envFile": str(tmp_path / "link")}, None)
    assert found.transport.env == {"A": "1"}  # type: ignore[union-attr]


# --- files that values come from ------------------------------------------------------------


def test_a_folder_reads_no_file_outside_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "clone"
    folder.mkdir()
    (tmp_path / "secret").write_text("A=1\n")
    (folder / "link").symlink_to(tmp_path)
    for path in ("../secret", str(tmp_path / "secret"), "link/secret", "${userHome}/x"):
        assert "is outside of the folder" in problem({"command": "x", "envFile": path}, folder)


def test_a_file_of_values_is_small_text_or_costs_the_server(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "big").write_bytes(b"#" * 300_000)
    (tmp_path / "bad").write_text("A='open\n")
    (tmp_path / "nul").write_bytes(b"A=a\0b\n")
    (tmp_path / "loop").symlink_to("loop")
    for name, words in {
        "pipe": "not a regular file",
        "big": "larger than",
        "bad": "Line 1 is not NAME=value",
        "nul": "'A' cannot be given",
        "gone": "there is no file",
        "loop": "loop",
    }.items():
        assert words in problem({"command": "x", "envFile": name}, tmp_path)


# --- what is confirmed ----------------------------------------------------------------------


def test_a_token_may_be_renewed_and_the_command_may_not_change() -> None:
    entry = {"command": "${C}", "env": {"TOKEN": "${TOKEN}"}}
    before = server(entry, C="a", TOKEN="1").fingerprint
    assert server(entry, C="a", TOKEN="2").fingerprint == before
    assert server(entry, C="b", TOKEN="1").fingerprint != before
    assert server(entry, None, C="a", TOKEN="1").fingerprint != before, "another folder"
    written = {"command": "${C}", "env": {"TOKEN": "1"}}
    assert server(written, C="a").fingerprint != before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"command": "x"}, {"command": "x", "args": [""]}),
        ({"command": "x", "args": ["a b"]}, {"command": "x", "args": ["a", "b"]}),
        ({"command": "x", "args": ["a"]}, {"command": "x", "env": {"a": ""}}),
        ({"command": "x", "env": {"A": "1"}}, {"command": "x", "env": {"A": "2"}}),
        ({"command": "x", "env": {"A": "1"}}, {"command": "x", "env": {"B": "1"}}),
        ({"url": "https://a/"}, {"url": "https://a/", "type": "sse"}),
        ({"url": "https://a/"}, {"url": "https://a/?k=1"}),
        (
            {"url": "https://a/", "headers": {"X": "1"}},
            {"url": "https://a/", "headers": {"X": "2"}},
        ),
    ],
)
def test_what_reaches_it_is_in_the_fingerprint(before: Any, after: Any) -> None:
    assert server(before).fingerprint != server(after).fingerprint


def test_what_is_believed_of_it_is_not() -> None:
    plain = server({"command": "x"})
    said = server({"command": "x", "sayso": {"trusted": True}, "description": "d"})
    assert said.fingerprint == plain.fingerprint


def test_the_contents_of_a_file_of_values_count(tmp_path: Path) -> None:
    entry = {"command": "x", "envFile": "e"}
    (tmp_path / "e").write_text("A=1\n")
    before = server(entry, tmp_path).fingerprint
    (tmp_path / "e").write_text("A=2\n")
    assert server(entry, tmp_path).fingerprint != before


# --- what is refused ------------------------------------------------------------------------


def entry_text(**members: object) -> str:
    """A file whose second server has these members; its own line is 4."""
    entry = json.dumps(members, indent=1)
    return (
        '{"mcpServers": {\n"env": {"command": "x", "env": {"A": "1"}},\n\n'
        f'"s":\n{entry}\n}}}}'
    )


def sayso(**members: object) -> str:
    return entry_text(command="x", sayso=members)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (entry_text(), 4, "a command or a url"),
        (entry_text(command="x", url="https://a/"), 4, "and not both"),
        (entry_text(type="stdio"), 4, "needs a command"),
        (entry_text(command=""), 6, "needs a command"),
        (entry_text(command="${E:- }"), 6, "empty once the variables are put in"),
        (entry_text(command=3), 6, "command to be a text, got a number"),
        (entry_text(command="x", args="y"), 7, "args to be a list of texts, got a text"),
        (entry_text(command="x", args=["a", 1]), 7, "args[1] to be a text, got a number"),
        (entry_text(command="x", env={"A": 1}), 8, "env.A to be a text, got a number"),
        (entry_text(command="x", env={"SAYSO_HOME": "/"}), 8, "SAYSO_HOME"),
        (entry_text(command="x", env={"sayso_home": "/"}), 8, "sayso_home"),
        (entry_text(command="x", env={"A=B": "/"}), 8, "A=B"),
        (entry_text(command="x", disabled="yes"), 7, "disabled to be true or false"),
        (entry_text(command="x", sandbox={}), 7, "sandbox is not obeyed here"),
        (entry_text(command="x", odd={}), 7, "unknown key 'odd'; known are type, command"),
        (entry_text(command="x", enabled=1), 7, "enabled to be true or false, got a number"),
        (entry_text(command="x", env=["A=1"]), 7, "env to be an object of texts, got a list"),
        (entry_text(command="x", env={"A": None}), 8, "env.A to be a text, got null"),
        (entry_text(command="x", env={"A B": "1"}), 8, "'A B' cannot be the name of a variable"),
        (entry_text(command="x", cwd=1), 7, "cwd to be a path, got a number"),
        (entry_text(command="x", envFile=[]), 7, "envFile to be a path, got a list"),
        (
            entry_text(url="https://a/", headers=[]),
            7,
            "headers to be an object of texts, got a list",
        ),
        (entry_text(url="https://a/", headers={"A": 1}), 8, "headers.A to be a text, got a number"),
        (entry_text(serverUrl=3), 4, "url to be an address, got a number"),
        (entry_text(command="x", sayso=[]), 7, "sayso to be an object, got a list"),
        (entry_text(command="x", headers={}), 7, "started by a command, so headers"),
        (entry_text(url="https://a/", args=[]), 7, "reached by its url, so args"),
        (entry_text(type="http", command="x"), 7, "reached by its url, so command"),
        (entry_text(type="ws", url="https://a/"), 6, "type to be stdio, http, streamable-http, "),
        (entry_text(command="${MISSING}"), 6, "MISSING is not set"),
        (entry_text(command="x", args=["${MISSING}"]), 7, "MISSING is not set"),
        (entry_text(command="x", env={"A": "${MISSING}"}), 8, "MISSING is not set"),
        (entry_text(command="x", cwd="${MISSING}"), 7, "MISSING is not set"),
        (entry_text(url="https://a/", headers={"A": "${MISSING}"}), 8, "MISSING is not set"),
        (entry_text(command="x", args=["a" * MAX_SHOWN]), 4, f"longer than {MAX_SHOWN}"),
        (sayso(trusted="yes"), 8, "sayso.trusted to be true or false, got a text"),
        (sayso(insecure=[]), 8, "sayso.insecure to be true or false, got a list"),
        (sayso(trust=True), 8, "unknown key 'sayso.trust'"),
        (sayso(timeout=0), 8, "sayso.timeout to be seconds, above 0 and up to 3600, got 0"),
        (sayso(timeout=True), 8, "seconds, above 0 and up to 3600, got true"),
        (sayso(timeout=1e999), 8, "seconds"),
        (sayso(tools=[]), 8, "sayso.tools to be an object, got a list"),
        (sayso(tools={"t": {}}), 9, "sayso.tools.t to be an object with some of effects"),
        (sayso(tools={"t": {"effects": "read:x"}}), 10, "list of effects, such as"),
        (sayso(tools={"t": {"effects": []}}), 10, "list of effects"),
        (sayso(tools={"t": {"effects": ["*"]}}), 10, "effects has '*', which is not an effect"),
        (
            sayso(tools={"t": {"open_world": 0}}),
            10,
            "t.open_world to be true or false, got a number",
        ),
        (sayso(tools={"t": {"idempotency": "yes"}}), 10, "one of none, natural, key, got 'yes'"),
        (sayso(tools={"t": {"idempotency": None}}), 10, "one of none, natural, key, got null"),
        (sayso(tools={"t": {"timeout": -1}}), 10, "sayso.tools.t.timeout to be seconds"),
        (sayso(tools={"t": {"effect": []}}), 10, "unknown key 'sayso.tools.t.effect'"),
    ],
)
def test_a_fault_costs_its_server_and_names_the_line(
    tmp_path: Path, text: str, line: int, words: str
) -> None:
    path = tmp_path / ".mcp.json"
    text = text.replace("Infinity", "1e999")
    configuration = parse_config(text, path, {}, folder=tmp_path)
    assert [found.name for found in configuration.servers] == ["env"]
    (fault,) = configuration.problems
    assert str(fault).startswith(f"{path}, line {line}: MCP server 's' is left out: ")
    assert words in str(fault)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "http:// or https:// with a host"),
        ("ftp://a/", "http:// or https:// with a host"),
        ("https://", "http:// or https:// with a host"),
        ("https://a:99999/", "http:// or https:// with a host"),
        ("https://[::1/", "http:// or https:// with a host"),
        ("https://[bank.example]/", "http:// or https:// with a host"),
        ("https://a:443:x/", "http:// or https:// with a host"),
        ("https://a%2eb/", "http:// or https:// with a host"),
        ("https://a\\b/", "backslashes"),
        ("https://a/ b", "printable ASCII"),
        ("https://a/\nb", "printable ASCII"),
        ("https://аpple.com/", "printable ASCII"),
        ("https://me:pw@a/", "a user or a password"),
        ("https://me@a/", "a user or a password"),
        ("http://a/", "what is sent to a, tokens included"),
        (
            "http://127.0.0.1.evil.example/",
            "what is sent to 127.0.0.1.evil.example, tokens included",
        ),
        ("http://10.0.0.1/", "what is sent to 10.0.0.1, tokens included"),
        ("http://0.0.0.0/", "what is sent to 0.0.0.0, tokens included"),
    ],
)
def test_an_address_that_is_not_used(url: str, words: str) -> None:
    assert words in problem({"url": url})


def test_unencrypted_only_on_this_machine_unless_a_person_says_so() -> None:
    for host in ("127.0.0.1:8000", "localhost", "[::1]", "127.9.9.9"):
        assert server({"url": f"http://{host}/mcp"})
    why = problem({"url": "http://lan.example/"})
    for words in ("read and changed on the way", "--insecure", '"sayso": {"insecure": true}'):
        assert words in why
    configuration = one({"url": "http://lan.example/", "sayso": {"insecure": True}})
    (detail,) = configuration.entries[0].details
    assert detail.startswith("what is sent to lan.example, tokens included")


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "a\r\nY: b"},
        {"X": "a\nb"},
        {"X": "ключ"},
        {"X": " a"},
        {"X Y": "a"},
        {"X:": "a"},
        {"": "a"},
        {"Host": "evil"},
        {"content-length": "1"},
        {"Mcp-Session-Id": "1"},
        {"X": "1", "x": "2"},
    ],
)
def test_a_header_that_is_not_sent(headers: dict[str, str]) -> None:
    why = problem({"url": "https://a/", "headers": headers})
    assert "header" in why or "ASCII" in why
    assert "evil" not in why


def test_the_value_of_a_header_is_never_in_a_complaint() -> None:
    why = problem({"url": "https://a/", "headers": {"X": "${K}"}}, K="s3cret\n")
    assert "the value of X must be printable" in why
    assert "s3cret" not in why


def test_of_servers_whose_tools_would_have_one_name_the_first_is_used() -> None:
    text = '{"mcpServers":{"a b":{"command":"x"},\n"a.b":{"command":"x"},"c":{"command":"x"}}}'
    configuration = read(text, Path("/w"))
    assert [found.name for found in configuration.servers] == ["a b", "c"]
    assert "line 2: MCP server 'a.b' is left out: it and 'a b' both become 'a_b'" in str(
        configuration.problems[0]
    )


def test_across_files_the_first_one_is_used_and_both_are_named() -> None:
    own = one({"command": "mine"}, None)
    foreign = one({"command": "evil"})
    both = together([own, foreign])
    assert both.servers == own.servers
    (clash,) = both.problems
    assert str(clash).startswith("/w/mcp.json, line 1: MCP server 's' is left out")
    assert "'s' of /state/mcp.json" in str(clash)


@pytest.mark.parametrize("name", ["", "  ", " n", "n\t", "n\u00a0", "n" * 101])
def test_a_name_that_is_none(name: str) -> None:
    configuration = read(json.dumps({"mcpServers": {name: {"command": "x"}}}), Path("/w"))
    assert "name" in configuration.problems[0].why


def test_a_server_that_is_no_object() -> None:
    why = problem(3)  # type: ignore[arg-type]
    assert why == "expected an object with the key command or url, got a number"


# --- documents that are refused whole -------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("{\n\n oops", ", line 3", "not valid JSON"),
        ("", ", line 1", "not valid JSON"),
        ("[]", ", line 1", "an object"),
        ("{\n}", ", line 1", "mcpServers"),
        ('{\n"a": 1,\n"mcpServers": []}', ", line 3", "by name, got a list"),
        ('{"mcpServers": {},\n"servers": 1}', ", line 2", "expected servers to be an object"),
        ('{"mcpServers": {},\n"inputs": 3}', ", line 2", "inputs to be a list"),
        ('{"mcpServers": {"s": {"a": 1, "a": 2}}}', "", "'a' is there twice"),
        ("[" * 100_000, "", "recursion"),
        ('{"mcpServers": NaN}', "", "NaN is no JSON"),
        ('{"mcpServers": ' + "9" * 5000 + "}", "", "digits"),
        ('{"mcpServers": {"\\ud800": {}}}', "", "half a character"),
    ],
)
def test_a_document_that_cannot_be_read(tmp_path: Path, text: str, where: str, words: str) -> None:
    path = tmp_path / ".mcp.json"
    with pytest.raises(UsageError) as raised:
        parse_config(text, path, {}, folder=tmp_path)
    assert str(raised.value).startswith(f"{path}{where}: ")
    assert words in str(raised.value)
    assert raised.value.exit_code == 2


def test_thousands_of_servers_are_refused_at_once() -> None:
    entries = {f"s{number}": {"command": "x"} for number in range(10_000)}
    with pytest.raises(UsageError, match=f"10000 servers, and at most {MAX_SERVERS}"):
        read(json.dumps({"mcpServers": entries}), Path("/w"))


@pytest.mark.parametrize("piece", ['\\"', "/*", '"', "//", ",", '"\\', "/*/"])
def test_a_text_that_never_closes_is_read_in_one_go(piece: str) -> None:
    """Each would take minutes if the search for comments began anew at every character."""
    with pytest.raises(UsageError):
        read('{"a": "' + piece * 200_000, Path("/w"))


words = st.text(st.sampled_from('a"\\/*,{}[]: \n'), max_size=30)


@given(words)
def test_texts_that_look_like_comments_are_kept(text: str) -> None:
    assert server({"command": "x", "args": [text]}).transport == Stdio("x", (text,), cwd=Path("/w"))


@given(st.text())
def test_nothing_that_is_read_raises_anything_else(text: str) -> None:
    for document in (text, f'{{"mcpServers": {{"s": {text}}}}}'):
        try:
            read(document, Path("/w"))
        except UsageError:
            continue


json_values = st.recursive(
    st.none() | st.booleans() | st.floats(-9, 9) | st.text(max_size=5) | st.just("${A}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
KEYS = (
    *("type", "command", "args", "env", "envFile", "cwd", "url", "headers", "sayso", "disabled"),
    *("enabled", "serverUrl", "httpUrl", "transport", "tools", "disabledTools", "sandbox", "trust"),
)


@given(st.dictionaries(st.sampled_from(KEYS), json_values))
def test_whatever_a_server_says_it_is_used_or_complained_about(entry: dict[str, Any]) -> None:
    configuration = one(entry)
    found = (configuration.servers, configuration.problems, configuration.disabled)
    assert sum(map(len, found)) == 1


def test_complaints_are_short_and_fit_to_be_printed() -> None:
    evil = "\x1b[2J\u202e\n" + "x" * 5000
    name = evil[:50]
    text = json.dumps({"mcpServers": {name: {"command": "x", evil: 1}}})
    (said,) = read(text, Path("/w")).remarks
    assert not set(said) & set("\x1b\u202e\n")
    assert len(said) < 1000


def test_reading_a_configuration_imports_no_sdk() -> None:
    code = (
        "import sys, agent.mcp.pins;"
        "from agent.mcp.configuration import importing, parse, user_file;"
        "sys.exit(bool({'mcp', 'langchain_core', 'httpx'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
