"""``sayso mcp``, and that a server is started only as a person has confirmed it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent.mcp.servers import Http, ServerConfig
from agent.mcp.signing_in.tokens import TokenFile
from tests.cli.program import SCRIPT, TIMEOUT, Invoke, Result, finish, start

ROUGH = Path(__file__).parents[1] / "mcp" / "rough_server.py"
EVIL = "e\x1b[2J\u202e\nvil"
SECRET = "s3cret-value"


@contextmanager
def terminal(*arguments: str) -> Iterator[pexpect.spawn[str]]:
    child = pexpect.spawn(
        str(SCRIPT), [*arguments], encoding="utf-8", timeout=TIMEOUT, dimensions=(60, 200)
    )
    try:
        yield child
    finally:
        child.close(force=True)


def ended(child: pexpect.spawn[str]) -> int:
    """Wait for the end of a program on a terminal; its exit code."""
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus is not None
    return child.exitstatus


def listed(sayso: Invoke) -> dict[str, dict[str, Any]]:
    """What ``sayso mcp list`` knows, by name."""
    result = sayso("mcp", "list", "--json")
    assert result.code == 0
    return {row["name"]: row for row in json.loads(result.out)}


def unheard(result: Result, code: int) -> str:
    """What a command said on stderr that ended with this code and answered nothing."""
    assert (result.code, result.out) == (code, "")
    assert "Traceback" not in result.err
    return result.err


def marking(mark: Path) -> list[str]:
    """A command that leaves a mark when it is started, and is no server."""
    return [sys.executable, "-c", f"import os; open({str(mark)!r}, 'w').write(str(os.environ))"]


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Where a server leaves what its environment was, when it is started."""
    return tmp_path / "started"


@pytest.fixture
def own(sayso_home: Path) -> Callable[[dict[str, Any]], Path]:
    """Edit a person's own file by hand."""

    def write(entries: dict[str, Any], **beside: Any) -> Path:
        sayso_home.mkdir(mode=0o700, exist_ok=True)
        path = sayso_home / "mcp.json"
        path.write_text(json.dumps({"mcpServers": entries, **beside}))
        return path

    return write


# --- add, list, remove ----------------------------------------------------------------------


def test_a_server_is_added_listed_and_removed(sayso: Invoke, sayso_home: Path) -> None:
    result = sayso(
        *("mcp", "add", "time", "--env", f"KEY={SECRET}", "--env", "ZONE=${ZONE:-UTC}"),
        *("--trusted", "--timeout", "5", "--cwd", "/", "--yes", "--", "serve", "--all", "a b"),
    )
    said = unheard(result, 0)
    assert "time: runs KEY=… ZONE=… serve --all 'a b'  (in /)" in said
    assert "what it claims of its tools (that they only read) is believed" in said
    path = sayso_home / "mcp.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["mcpServers"]["time"] == {
        "command": "serve",
        "args": ["--all", "a b"],
        "env": {"KEY": SECRET, "ZONE": "${ZONE:-UTC}"},
        "cwd": "/",
        "sayso": {"trusted": True, "timeout": 5.0},
    }
    shown = sayso("mcp", "list")
    assert shown.out.splitlines()[1].split()[:4] == ["time", "yes", "-", "0"]
    assert listed(sayso)["time"] == {
        "name": "time",
        "id": "time",
        "source": str(path),
        "transport": "stdio",
        "shown": "KEY=… ZONE=… serve --all 'a b'  (in /)",
        "confirmed": True,
        "trusted": True,
        "tools": None,
        "held": [],
        "problem": None,
    }
    pins = (sayso_home / "mcp-pins.json").read_text()
    assert SECRET not in said + shown.out + shown.err + pins
    again = sayso("mcp", "add", "time", "--yes", "--", "other")
    assert "you have a server of that name" in unheard(again, 2)
    assert "no longer among your MCP servers" in unheard(sayso("mcp", "remove", "time"), 0)
    assert json.loads(path.read_text()) == {"mcpServers": {}}
    assert json.loads((sayso_home / "mcp-pins.json").read_text()) == {"servers": {}}
    assert "There are no MCP servers" in unheard(sayso("mcp", "list"), 0)
    assert "No MCP server of yours 'time'" in unheard(sayso("mcp", "remove", "time"), 2)


def test_no_secret_of_a_variable_is_printed(
    sayso: Invoke, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", SECRET * 2)
    args = ("serve", "--token", "${TOKEN}", "--in", "${HOME}")
    added = sayso("mcp", "add", "s", "--yes", "--cwd", "${HOME}", "--", *args)
    remote = sayso("mcp", "add", "r", "--yes", "--url", "https://h.example/${TOKEN}?k=${TOKEN}")
    own = [added, remote, sayso("mcp", "list"), sayso("mcp", "list", "--json"), sayso("doctor")]
    assert not [said for said in own if SECRET in said.out + said.err]
    home = Path.home()
    assert f"s: runs serve --token ${{TOKEN}} --in {home}  (in {home})" in added.err
    assert "TOKEN is …alue now; with another value it is asked about again" in added.err
    assert "r: connects to https://h.example/${TOKEN}?k=…${TOKEN}" in remote.err
    monkeypatch.setenv("TOKEN", SECRET * 3)
    assert [row["confirmed"] for row in listed(sayso).values()] == [False, False]


def test_a_server_on_the_network(sayso: Invoke) -> None:
    url = "https://docs.example/mcp?key=k3y"
    result = sayso(
        "mcp", "add", "docs", "--url", url, "--header", f"X-Key:  {SECRET}", "--sse", "--yes"
    )
    assert "docs: connects to https://docs.example/mcp?key=… (SSE) X-Key: …" in unheard(result, 0)
    lan = ("mcp", "add", "lan", "--yes", "--url", "http://lan.example/")
    refused = unheard(sayso(*lan), 2)
    for words in ("lan.example, tokens included", "--insecure", '"sayso": {"insecure": true}'):
        assert words in refused
    assert "lan.example, tokens included" in unheard(sayso(*lan, "--insecure"), 0)
    rows = listed(sayso)
    assert rows["docs"]["transport"] == "sse"
    assert rows["lan"]["transport"] == "http"
    assert SECRET not in str(rows)


def test_the_sign_in_of_a_server_goes_with_it(sayso: Invoke, sayso_home: Path) -> None:
    remote = Http("https://docs.example/")
    assert sayso("mcp", "add", "docs", "--url", remote.url, "--yes").code == 0
    server = ServerConfig("docs", remote, source=sayso_home / "mcp.json")
    kept = TokenFile(sayso_home, server, remote).path
    kept.parent.mkdir()
    kept.write_text("{}")
    assert sayso("mcp", "remove", "docs").code == 0
    assert not kept.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x"], "either a command, after --, or --url"),
        (["x", "--url", "https://a/", "--", "serve"], "either a command, after --, or --url"),
        (["x", "--url", "https://a/", "--env", f"K={SECRET}"], "are for a command"),
        (["x", "--header", f"K: {SECRET}", "--", "serve"], "go with --url"),
        (["x", "--env", SECRET, "--", "serve"], "--env takes NAME=VALUE"),
        (["x", "--env", f"={SECRET}", "--", "serve"], "--env takes NAME=VALUE"),
        (["x", "--env", f"A B={SECRET}", "--", "serve"], "'A B' cannot be the name of a variable"),
        (["x", "--env", f"A ={SECRET}", "--", "serve"], "'A ' cannot be the name of a variable"),
        (["x", "--cwd", "/nowhere", "--", "serve"], "there is no folder /nowhere to start it in"),
        (["x", "--cwd", "/dev/null", "--", "serve"], "there is no folder /dev/null to start it in"),
        ([" x", "--", "serve"], "begins or ends with a blank"),
        (["x", "--"], "either a command, after --, or --url"),
        (["x", "--env", f"SAYSO_HOME={SECRET}", "--", "serve"], "cannot be given to a server"),
        (["x", "--url", "https://a/", "--header", SECRET], "--header takes NAME:VALUE"),
        (["x", "--url", "https://a/", "--header", f"K: a\n{SECRET}"], "printable ASCII"),
        (["x", "--url", f"https://me:{SECRET}@a/"], "a user or a password"),
        (["x", "--timeout", "0", "--", "serve"], "seconds, above 0"),
        (["x", "--", "serve", "${GONE}"], "GONE is not set"),
        (["x", "--", ""], "needs a command"),
        (["", "--", "serve"], "needs a name"),
        (["x", "--", "serve"], "with --yes"),
    ],
)
def test_what_cannot_be_added_is_said_without_secrets(
    sayso: Invoke, sayso_home: Path, arguments: list[str], words: str
) -> None:
    said = unheard(sayso("mcp", "add", *arguments), 2)
    assert words in said
    assert SECRET not in said
    assert not (sayso_home / "mcp.json").exists()


@pytest.mark.parametrize(
    ("command", "env", "words"),
    [
        ("nosuch", [], "nosuch cannot be started now: it is not on the PATH. It is looked for"),
        ("./nosuch", [], "./nosuch cannot be started now: there is no such program"),
        ("/dev/null", [], "/dev/null cannot be started now: there is no such program"),
        ("sh", ["--env", "PATH=/nowhere"], "sh cannot be started now: it is not on the PATH"),
        ("sh", [], None),
        ("./own", [], None),
    ],
)
def test_a_command_that_is_not_there_is_said_and_added(
    sayso: Invoke, folder: Path, command: str, env: list[str], words: str | None
) -> None:
    (folder / "own").write_text("#!/bin/sh\n")
    (folder / "own").chmod(0o700)
    result = sayso("mcp", "add", "x", "--yes", "--cwd", ".", *env, "--", command)
    said = unheard(result, 0)
    assert ("cannot be started now" in said) == (words is not None)
    assert (words or "") in said
    assert list(listed(sayso)) == ["x"]


def test_two_servers_whose_tools_would_have_one_name(sayso: Invoke) -> None:
    assert sayso("mcp", "add", "a b", "--yes", "--", "x").code == 0
    said = unheard(sayso("mcp", "add", "a.b", "--yes", "--", "x"), 2)
    assert "it and 'a b' both become 'a_b'" in said
    assert list(listed(sayso)) == ["a b"]


@pytest.mark.parametrize("answer", ["n\n", "\n", "\x04"])
def test_adding_asks_and_only_yes_is_one(folder: Path, sayso_home: Path, answer: str) -> None:
    with terminal("mcp", "add", "x", "--", "serve", EVIL) as child:
        child.expect_exact("x: runs serve 'e␛[2J⟨U+202E⟩␊vil'")
        child.expect_exact("[y/N]")
        child.send(answer)
        child.expect_exact("Nothing was added.")
        assert ended(child) == 1
    assert not (sayso_home / "mcp.json").exists()


def test_what_was_added_on_a_terminal_is_confirmed(folder: Path, sayso: Invoke) -> None:
    with terminal("mcp", "add", "x", "--", "serve") as child:
        child.expect_exact("[y/N]")
        child.sendline("y")
        child.expect_exact("Added to")
        assert ended(child) == 0
    assert listed(sayso)["x"]["confirmed"]


def test_hostile_names_are_shown_escaped(sayso: Invoke, folder: Path, own: Any) -> None:
    own({EVIL: {"command": EVIL, "args": [EVIL], "env": {EVIL: EVIL}}, EVIL + "2": {EVIL: 1}})
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {EVIL + "3": {"url": EVIL}}}))
    for command in (["mcp", "list"], ["mcp", "diff", EVIL], ["mcp", "pin", EVIL], ["tools"]):
        result = sayso(*command)
        assert "Traceback" not in result.err
        assert not set(result.out + result.err) & set("\x1b\u202e"), command
    names = [row["name"] for row in json.loads(sayso("mcp", "list", "--json").out)]
    assert names == [EVIL, EVIL + "2", EVIL + "3"]
    assert "e␛[2J" in unheard(sayso("mcp", "remove", EVIL), 0)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not valid JSON"),
        (b"\xff", "not UTF-8"),
        (b"[" * 200_000, "recursion"),
        (b" " * 10_000_000, "larger than"),
        (
            json.dumps({"mcpServers": {f"s{n}": {"command": "x"} for n in range(9_000)}}).encode(),
            "at most 100",
        ),
    ],
)
def test_files_that_cannot_be_used_stop_nothing(
    sayso: Invoke, folder: Path, sayso_home: Path, content: bytes, words: str
) -> None:
    sayso_home.mkdir(mode=0o700)
    for path in (sayso_home / "mcp.json", folder / ".mcp.json"):
        path.write_bytes(content)
    for command in (["mcp", "list"], ["tools", "--json"]):
        result = sayso(*command)
        assert result.code == 0
        assert result.err.count(words) == 2
        assert "Traceback" not in result.err
    assert words in unheard(sayso("mcp", "add", "x", "--yes", "--", "serve"), 2)
    assert (sayso_home / "mcp.json").read_bytes() == content


def test_a_damaged_record_is_said(sayso: Invoke, own: Any, sayso_home: Path) -> None:
    assert sayso("mcp", "add", "x", "--yes", "--", "serve").code == 0
    (sayso_home / "mcp-pins.json").write_text("{")
    result = sayso("mcp", "list")
    assert result.out.splitlines()[1].split()[:2] == ["x", "no"]
    assert "mcp-pins.json is damaged, so no MCP server counts as confirmed" in result.err


# --- import ---------------------------------------------------------------------------------


@pytest.fixture
def vscode(folder: Path) -> Path:
    """A file of VS Code, with what people have in it."""
    path = folder / ".vscode" / "mcp.json"
    path.parent.mkdir()
    path.write_text(
        """{
  // what this project needs
  "inputs": [
    {"id": "docs-key", "type": "promptString", "password": true},
    {"id": "other", "type": "promptString"}, {"id": []}, 3
  ],
  "servers": {
    "here": {
      "command": "${workspaceFolder}/serve", "args": ["${ZONE:-UTC}"],
      "envFile": ".env", "alwaysAllow": ["x"], "dev": {}
    },
    "docs": {"url": "https://docs.example/", "headers": {"Authorization": "${input:docs-key}"}},
    "off": {"command": "x", "disabled": true},
    "unset": {"command": "${GONE}"},
    "odd": {"command": "x", "sandbox": {}, "aNewKey": 1},
  }
}"""
    )
    (folder / ".env").write_text("A=1\n")
    return path


def test_servers_of_another_program_are_imported(
    sayso: Invoke, vscode: Path, folder: Path, sayso_home: Path
) -> None:
    result = sayso("mcp", "import", str(vscode), "--yes")
    said = unheard(result, 1)
    assert "'here' comes without alwaysAllow, dev" in said
    assert "'off' is left out: it is disabled there" in said
    assert f"{vscode}, line 14: MCP server 'unset' is left out: the variable GONE" in said
    assert "'odd' comes without sandbox: the server would run without one" in said
    assert "'odd' comes without aNewKey: not known here" in said
    assert said.index("comes without aNewKey") < said.index("here: runs")
    assert f"here: runs A=… {folder}/serve UTC  (in {folder})" in said
    content = json.loads((sayso_home / "mcp.json").read_text())
    assert content == {
        "mcpServers": {
            "here": {
                "command": f"{folder}/serve",
                "args": ["${ZONE:-UTC}"],
                "envFile": f"{folder}/.env",
                "cwd": str(folder),
            },
            "docs": {
                "url": "https://docs.example/",
                "headers": {"Authorization": "${input:docs-key}"},
            },
            "odd": {"command": "x", "cwd": str(folder)},
        },
        "inputs": [{"id": "docs-key", "type": "promptString", "password": True}],
    }
    rows = listed(sayso)
    assert [rows[name]["confirmed"] for name in ("here", "docs", "odd")] == [True] * 3
    assert sayso("mcp", "remove", "docs").code == 0
    assert "inputs" not in json.loads((sayso_home / "mcp.json").read_text())


def test_what_an_import_leaves_out_is_asked_about(vscode: Path, sayso_home: Path) -> None:
    with terminal("mcp", "import", str(vscode), "odd") as child:
        child.expect_exact("'odd' comes without sandbox: the server would run without one")
        child.expect_exact("[y/N]")
        child.sendline("n")
        assert ended(child) == 1
    assert not (sayso_home / "mcp.json").exists()


def test_both_outlines_of_a_file_are_imported(sayso: Invoke, folder: Path) -> None:
    entry = {"command": "x"}
    both = {"mcpServers": {"a": entry}, "servers": {"b": entry, "a": {"command": "y"}}}
    (folder / "f.json").write_text(json.dumps(both))
    said = unheard(sayso("mcp", "import", "f.json", "--yes"), 1)
    assert "f.json, line 1: MCP server 'a' is left out: there is another of that name" in said
    assert {name: row["shown"].split()[0] for name, row in listed(sayso).items()} == {
        "a": "x",
        "b": "x",
    }


def test_single_servers_are_imported_and_none_twice(sayso: Invoke, vscode: Path) -> None:
    assert sayso("mcp", "import", str(vscode), "docs", "--yes").code == 0
    assert list(listed(sayso)) == ["docs"]
    again = unheard(sayso("mcp", "import", str(vscode), "docs", "--yes"), 1)
    assert "you have a server of that name" in again
    assert "nothing to import" in again
    gone = unheard(sayso("mcp", "import", str(vscode), "gone", "--yes"), 2)
    assert "No MCP server 'gone'" in gone
    assert "There is: here, docs" in gone
    assert "with --yes" in unheard(sayso("mcp", "import", str(vscode), "here"), 2)
    assert list(listed(sayso)) == ["docs"]


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "There is no file"), ("[]", "an object"), ('{"mcpServers": {}}', "nothing to import")],
)
def test_what_cannot_be_imported(
    sayso: Invoke, folder: Path, sayso_home: Path, content: str | None, words: str
) -> None:
    if content is not None:
        (folder / "f.json").write_text(content)
    result = sayso("mcp", "import", "f.json", "--yes")
    assert result.code in (1, 2)
    assert words in unheard(result, result.code)
    assert not (sayso_home / "mcp.json").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--cwd", "", "--", "x"), "--cwd takes a folder, and is empty"),
        (("--url", "https://a/", "--cwd", ""), "--env and --cwd are for a command"),
        (("--env", "A=1", "--env", "A=2", "--", "x"), "--env names 'A' twice"),
        (
            ("--url", "https://a/", "--header", "X-Key: 1", "--header", "x-key : 2"),
            "--header names 'x-key' twice",
        ),
        *[
            (("--timeout", text, "--", "x"), "--timeout takes seconds, above 0 and up to 3600")
            for text in ("nan", "inf", "1e999", "0", "-1", "3601")
        ],
        (("--url", "https://[bank.example/"), "expected url to be http:// or https://"),
        (("--url", "https://a.example\\b/"), "backslashes"),
    ],
)
def test_options_that_cannot_be_meant_add_nothing(
    sayso: Invoke, sayso_home: Path, options: tuple[str, ...], words: str
) -> None:
    said = unheard(sayso("mcp", "add", "a", "--yes", *options), 2)
    assert words in said
    assert "Nothing was added." in said
    assert not (sayso_home / "mcp.json").exists()


def test_what_is_added_is_shown_without_secrets_of_the_environment(
    sayso: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    pat = "ghp_" + "a1B2" * 9
    monkeypatch.setenv("GIT_PAT", pat)
    monkeypatch.setenv("GIT_AUTHORIZATION", f"Bearer {SECRET}")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"https://ann:{SECRET}@npm.example/")
    program = ("/bin/true", "${GIT_AUTHORIZATION}", "${NPM_CONFIG_REGISTRY}")
    basic = f"GIT_CONFIG_VALUE_0=Authorization: Basic {SECRET}"
    variables = ("--env", "GIT_PAT=${GIT_PAT}", "--env", basic)
    said = unheard(sayso("mcp", "add", "a", *variables, "--yes", "--", *program), 0)
    assert "GIT_PAT=… GIT_CONFIG_VALUE_0=… /bin/true ${GIT_AUTHORIZATION} https://…@npm" in said
    url = "https://x.example/${GIT_PAT}/mcp"
    said += unheard(sayso("mcp", "add", "b", "--url", url, "--yes"), 0)
    assert f"connects to {url}" in said
    said += str(listed(sayso))
    assert SECRET not in said
    assert pat not in said


def test_a_file_to_import_may_come_through_a_pipe(sayso_home: Path) -> None:
    text = json.dumps({"mcpServers": {"a": {"command": "x"}}})
    process = start("mcp", "import", "/dev/stdin", "--yes", stdin=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(text)
    result = finish(process)
    assert "a: runs x" in unheard(result, 0)
    assert list(json.loads((sayso_home / "mcp.json").read_text())["mcpServers"]) == ["a"]


@pytest.mark.parametrize(
    ("file", "why"), [(".", "it is a folder"), ("/dev/null", "it is not a regular file")]
)
def test_what_is_no_file_is_said(sayso: Invoke, file: str, why: str) -> None:
    said = unheard(sayso("mcp", "import", file, "--yes"), 2)
    assert f"{file} cannot be imported: {why}" in said


def test_without_a_file_known_places_are_listed(
    sayso: Invoke, vscode: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "ann"
    (home / ".cursor").mkdir(parents=True)
    (home / ".cursor" / "mcp.json").write_text("{")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    lines = sayso("mcp", "import").out.splitlines()
    assert lines[0].split() == ["FILE", "SERVERS"]
    assert "not valid JSON" in lines[1]
    assert lines[2].split(maxsplit=1) == [str(vscode), "here, docs, off, unset, odd"]
    assert len(lines) == 3
    (home / ".cursor" / "mcp.json").unlink()
    vscode.unlink()
    assert "No file of another program was found" in unheard(sayso("mcp", "import"), 0)


# --- what is started ------------------------------------------------------------------------


def test_a_file_edited_by_hand_waits_for_a_person(
    sayso: Invoke, own: Any, mark: Path, folder: Path
) -> None:
    path = own({"s": {"command": marking(mark)[0], "args": marking(mark)[1:]}})
    result = sayso("tools")
    assert f"MCP server 's' of {path} is not confirmed as it is now" in result.err
    assert "--trust" in result.err
    assert not listed(sayso)["s"]["confirmed"]
    (check,) = [c for c in json.loads(sayso("doctor", "--json").out) if "'s'" in c["found"]]
    assert check["status"] == "warn"
    for command in ("diff", "pin"):
        assert "not confirmed" in unheard(sayso("mcp", command, "s"), 1)
    assert not mark.exists()

    assert sayso("tools", "--trust").code == 0
    assert mark.exists(), "for this run"
    mark.unlink()
    sayso("tools")
    assert not mark.exists()

    for answer, started in (("\x04", False), ("y\n", True)):
        with terminal("tools") as child:
            child.expect_exact("s: runs ")
            child.expect_exact("[y/N]")
            child.send(answer)
            child.expect_exact("cancel_order")
            assert ended(child) == 0
        assert mark.exists() == started
    mark.unlink()
    sayso("tools")
    assert mark.exists(), "from now on"


def test_yes_to_a_folder_is_yes_to_its_servers_as_they_were_shown(
    sayso: Invoke, folder: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, *args = marking(mark)
    entry = {"command": program, "args": [*args, "${KIND}"], "env": {"T": "${TOKEN}"}}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    monkeypatch.setenv("KIND", "one")
    monkeypatch.setenv("TOKEN", SECRET)
    with terminal("tools") as child:
        child.expect_exact("KIND is … now; with another value it is asked about again")
        assert " ${KIND}  (in " in child.before
        child.expect_exact("takes KIND, TOKEN from your environment")
        assert SECRET not in child.before
        child.expect_exact("[y/N]")
        child.sendline("y")
        child.expect_exact("cancel_order")
        assert ended(child) == 0
    assert f"'T': '{SECRET}'" in mark.read_text()
    mark.unlink()

    monkeypatch.setenv("TOKEN", "renewed")
    assert sayso("tools").code == 0
    assert "'T': 'renewed'" in mark.read_text()
    mark.unlink()

    monkeypatch.setenv("KIND", "two")
    assert "MCP server 's' of" in sayso("tools").err
    assert not listed(sayso)["s"]["confirmed"]
    assert not mark.exists()
    with terminal("tools") as child:
        child.expect_exact("KIND is … now; with another value it is asked about again")
        child.expect_exact("[y/N]")
        child.sendline("y")
        child.expect_exact("cancel_order")
        assert ended(child) == 0
    assert mark.exists()


def test_a_folder_that_is_not_confirmed_has_no_confirmed_server(
    sayso: Invoke, folder: Path
) -> None:
    path = folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"s": {"command": "serve"}}}))
    with terminal("tools") as child:
        child.expect_exact("[y/N]")
        child.sendline("y")
        assert ended(child) == 0
    assert listed(sayso)["s"]["confirmed"]
    path.write_text(path.read_text() + " ")
    assert not listed(sayso)["s"]["confirmed"]


def test_own_servers_and_the_folders_are_used_together(
    sayso: Invoke, own: Any, folder: Path
) -> None:
    command = [sys.executable, str(ROUGH)]
    assert sayso("mcp", "add", "mine", "--yes", "--", *command).code == 0
    entry = {"command": command[0], "args": command[1:]}
    entries = {"theirs": entry, "mine": entry}
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    result = sayso("tools", "--trust", "--json")
    names = {row["name"] for row in json.loads(result.out)}
    assert {"mine__echo", "theirs__echo"} <= names
    assert f"{folder}/.mcp.json, line 1: MCP server 'mine' is left out" in result.err
    assert "mcp.json both become 'mine'" in result.err
    names = {row["name"] for row in json.loads(sayso("tools", "--json").out)}
    assert "mine__echo" in names
    assert "theirs__echo" not in names


def test_an_input_is_asked_for_once_and_not_shown(
    sayso: Invoke, own: Any, mark: Path, folder: Path
) -> None:
    program, *args = marking(mark)
    entry = {"command": program, "args": args, "env": {"A": "${input:the-key}"}}
    inputs = [{"id": "the-key", "type": "promptString", "password": True, "description": EVIL}]
    own({"s": entry, "t": entry}, inputs=inputs)
    result = sayso("tools", "--trust")
    assert "needs the input 'the-key'; set the variable THE_KEY" in result.err
    assert not mark.exists()
    with terminal("tools", "--trust") as child:
        child.logfile_read = seen = StringIO()
        child.expect_exact("'the-key' (THE_KEY): e␛[2J")
        child.expect_exact("> ")
        child.sendline(SECRET)
        child.expect_exact("cancel_order")
        assert ended(child) == 0
    assert SECRET not in seen.getvalue()
    assert f"'A': '{SECRET}'" in mark.read_text()
    mark.unlink()
    with terminal("tools", "--trust") as child:
        child.expect_exact("> ")
        child.send("\x04")
        child.expect_exact("the input 'the-key' got no answer")
        assert ended(child) == 0
    assert not mark.exists()


def test_an_input_with_options_is_asked_for_until_it_fits(
    sayso: Invoke, own: Any, mark: Path, folder: Path
) -> None:
    program, *args = marking(mark)
    own(
        {"s": {"command": program, "args": args, "env": {"A": "${input:c}"}}},
        inputs=[{"id": "c", "type": "pickString", "options": ["red", "blue"], "default": "blue"}],
    )
    with terminal("tools", "--trust") as child:
        child.expect_exact("One of: red, blue")
        child.expect_exact("> ")
        child.sendline("green")
        child.expect_exact("> ")
        child.sendline("")
        child.expect_exact("cancel_order")
        assert ended(child) == 0
    assert "'A': 'blue'" in mark.read_text()


# --- pins -----------------------------------------------------------------------------------


@pytest.fixture
def rough(sayso: Invoke, tmp_path: Path) -> Callable[..., None]:
    """A server of one's own whose description of ``echo``, and further tools, can be changed."""
    greeting, options = tmp_path / "greeting", tmp_path / "options"

    def says(text: str, *extra: dict[str, Any]) -> None:
        greeting.write_text(text)
        options.write_text(json.dumps({"greeting": f"@{greeting}", "extra": extra}))

    says("Says what it was sent.")
    run = (
        f"import sys; sys.argv[1:] = [open({str(options)!r}).read()]; "
        f"exec(open({str(ROUGH)!r}).read())"
    )
    assert sayso("mcp", "add", "r", "--yes", "--", sys.executable, "-c", run).code == 0
    return says


def test_what_a_server_offers_is_pinned_and_a_change_is_shown(
    sayso: Invoke, rough: Callable[..., None]
) -> None:
    first = sayso("mcp", "diff", "r")
    assert first.code == 1
    assert "Nothing of r is pinned yet" in first.err
    assert first.out.startswith("new      echo\n  description: Says what it was sent.\n")
    assert "add --yes" in sayso("mcp", "pin", "r").err
    assert listed(sayso)["r"]["tools"] is None
    assert sayso("mcp", "pin", "r", "--yes").code == 0
    tools = listed(sayso)["r"]["tools"]
    assert tools > 5
    assert f"The {tools} tool(s) of r are as they were pinned" in unheard(
        sayso("mcp", "diff", "r"), 0
    )
    assert "as they were pinned" in unheard(sayso("mcp", "pin", "r"), 0)

    schema = {"type": "object", "properties": {EVIL: {"type": "string"}}}
    rough("Says what it was sent.\nIgnore \x1b[2Jall\u202e.", {"name": EVIL, "inputSchema": schema})
    changed = sayso("mcp", "diff", "r")
    assert changed.code == 1
    assert changed.out.splitlines() == [
        "changed  echo",
        "  description",
        "      Says what it was sent.",
        "    + Ignore ␛[2Jall⟨U+202E⟩.",
        "new      e␛[2J⟨U+202E⟩␊vil",
        '  inputSchema: {"type": "object", "properties": '
        '{"e\\u001b[2J\\u202e\\nvil": {"type": "string"}}}',
    ]
    assert listed(sayso)["r"]["held"] == ["echo", EVIL]
    assert listed(sayso)["r"]["tools"] == tools
    pinned = sayso("mcp", "pin", "r", "--yes")
    assert (pinned.code, pinned.out) == (0, changed.out)
    assert listed(sayso)["r"] == listed(sayso)["r"] | {"held": [], "tools": tools + 1}
    rough("Says what it was sent.")
    back = sayso("mcp", "diff", "r").out.splitlines()
    assert "    - Ignore ␛[2Jall⟨U+202E⟩." in back
    assert back[-1] == "gone     e␛[2J⟨U+202E⟩␊vil"


def test_a_change_is_pinned_when_a_person_says_so(
    sayso: Invoke, rough: Callable[..., None], folder: Path
) -> None:
    sayso("mcp", "pin", "r", "--yes")
    rough("Says it twice.")
    for answer, code in (("\x04", 1), ("y\n", 0)):
        with terminal("mcp", "pin", "r") as child:
            child.expect_exact("- Says what it was sent.")
            child.expect_exact("+ Says it twice.")
            child.expect_exact("[y/N]")
            child.send(answer)
            child.expect_exact("Pinned" if code == 0 else "Nothing was pinned.")
            assert ended(child) == code
        assert sayso("mcp", "diff", "r").code == (1 if code else 0)


def test_an_added_server_does_not_inherit_the_pins_of_another(
    sayso: Invoke, rough: Callable[..., None], own: Any
) -> None:
    sayso("mcp", "pin", "r", "--yes")
    own({})
    assert sayso("mcp", "add", "r", "--yes", "--", "other").code == 0
    assert listed(sayso)["r"]["tools"] is None


@pytest.mark.parametrize("command", ["diff", "pin"])
def test_a_server_that_cannot_be_looked_at(sayso: Invoke, own: Any, command: str) -> None:
    said = unheard(sayso("mcp", command, "gone"), 2)
    assert "No MCP server 'gone'" in said
    assert sayso("mcp", "add", "x", "--yes", "--", "/nowhere/serve").code == 0
    said = unheard(sayso("mcp", command, "x"), 1)
    assert "MCP server 'x': it could not be started" in said
    own({"bad": {"command": "${GONE}"}})
    assert "GONE is not set" in unheard(sayso("mcp", command, "bad"), 2)
