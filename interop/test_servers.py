"""Each server of others, from a file's entry to a session: list, read, write, kill, recover."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent.events import CallProgress
from agent.models.scripted import ScriptedCall, call, step
from agent.types import Decision
from interop.others import (
    configured,
    everything,
    everything_over_http,
    npm_server,
    python_program,
)
from interop.sessions import children, kill_children, talk
from tests.cli.program import SCRIPT, finish, start
from tests.support.openai_server import Call, ModelServer, Reply, by_history

TRUSTED = {"trusted": True}


@dataclass(frozen=True)
class Tried:
    """What is tried with a server.

    Args:
        entry: How it is configured.
        tools: Some of the tools that it must list.
        read: A call that runs by itself.
        found: What its result must hold.
        write: A call that waits for a person.
        done: Whether that has happened; it looks at what was changed, not at what was said.
        said: What its result must hold.
    """

    entry: dict[str, Any]
    tools: set[str]
    read: ScriptedCall
    found: str
    write: ScriptedCall
    done: Callable[[], bool]
    said: str = ""


def filesystem(folder: Path) -> Tried:
    files = folder / "files"
    files.mkdir()
    (files / "here.txt").write_text("something to read")
    written = files / "written.txt"
    return Tried(
        npm_server("filesystem", str(files)) | {"sayso": TRUSTED},
        {"read_text_file", "write_file", "edit_file", "move_file"},
        call("filesystem__read_text_file", path=str(files / "here.txt")),
        "something to read",
        call("filesystem__write_file", path=str(written), content="by sayso"),
        lambda: written.exists() and written.read_text() == "by sayso",
    )


def memory(folder: Path) -> Tried:
    file = folder / "memory.json"
    ada = {"type": "entity", "name": "Ada", "entityType": "p", "observations": []}
    file.write_text(json.dumps(ada) + "\n")
    entity = {"name": "Grace", "entityType": "p", "observations": ["wrote a compiler"]}
    server = npm_server("memory") | {"env": {"MEMORY_FILE_PATH": str(file)}, "sayso": TRUSTED}
    return Tried(
        server,
        {"create_entities", "read_graph", "delete_entities"},
        call("memory__read_graph"),
        "Ada",
        call("memory__create_entities", entities=[entity]),
        lambda: "wrote a compiler" in file.read_text(),
    )


def git(folder: Path) -> Tried:
    repository = folder / "repository"
    identity = ["-c", "user.name=ana", "-c", "user.email=ana@example.org"]
    run_git(folder, "init", "-q", "-b", "main", str(repository))
    run_git(repository, *identity, "commit", "-q", "--allow-empty", "-m", "the first one")
    return Tried(
        {
            "command": python_program("sdk2", "mcp-server-git"),
            "args": ["--repository", str(repository)],
            "sayso": TRUSTED,
        },
        {"git_status", "git_log", "git_commit", "git_create_branch"},
        call("git__git_log", repo_path=str(repository)),
        "the first one",
        call("git__git_create_branch", repo_path=str(repository), branch_name="new"),
        lambda: "new" in run_git(repository, "branch", "--format=%(refname:short)").split(),
    )


def run_git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def time(folder: Path) -> Tried:
    """It only reads; since it is not trusted, what nobody speaks of waits for a person."""
    return Tried(
        {
            "command": python_program("sdk2", "mcp-server-time"),
            "args": ["--local-timezone", "UTC"],
            "sayso": {"tools": {"get_current_time": {"effects": ["read:time"]}}},
        },
        {"get_current_time", "convert_time"},
        call("time__get_current_time", timezone="Europe/Lisbon"),
        "Europe/Lisbon",
        call(
            "time__convert_time",
            source_timezone="UTC",
            time="12:00",
            target_timezone="Asia/Kolkata",
        ),
        lambda: True,
        "17:30",
    )


def sqlite(folder: Path) -> Tried:
    """It has no annotations: a person says which of its tools read."""
    database = folder / "rows.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("create table notes (text)")
        connection.execute("insert into notes values ('the first row')")

    def done() -> bool:
        with closing(sqlite3.connect(database)) as connection:
            return ("by sayso",) in connection.execute("select text from notes").fetchall()

    return Tried(
        {
            "command": python_program("sdk1", "mcp-server-sqlite"),
            "args": ["--db-path", str(database)],
            "sayso": {"tools": {"read_query": {"effects": ["read:sqlite"]}}},
        },
        {"read_query", "write_query", "create_table"},
        call("sqlite__read_query", query="select text from notes"),
        "the first row",
        call("sqlite__write_query", query="insert into notes values ('by sayso')"),
        done,
    )


@pytest.mark.parametrize("make", [filesystem, memory, git, time, sqlite])
async def test_list_read_write_kill_recover(
    make: Callable[[Path], Tried], tmp_path: Path, sayso_home: Path
) -> None:
    tried, name = make(tmp_path), make.__name__
    server = configured(name, tried.entry, tmp_path)
    steps = [step(tried.read), step(tried.write), "Done.", step(tried.read), "Read."]
    async with talk(sayso_home, steps, server) as talking:
        offered = {tool.name.removeprefix(f"{name}__") for tool in talking.session.tools}
        assert tried.tools <= offered
        greeting = talking.app.servers.server(name).connection.link
        assert greeting is not None
        assert greeting.greeting.protocolVersion == "2025-11-25"

        (read,) = await talking.say("go")
        assert tried.found in read
        assert [approval.tool for approval in talking.session.pending()] == [tried.write.name]
        if make is not time:  # which changes nothing, whoever asks
            assert not tried.done(), "it waits"
        (written,) = await talking.approve()
        assert tried.said in written
        assert tried.done()
        assert [effect.state for effect in talking.effects] == ["committed"]

        before = children()
        await talking.kill(name)
        (again,) = await talking.say("and again")
        assert tried.found in again
        assert children().isdisjoint(before)
        assert len(talking.effects) == 1, "what was done was not done again"
    assert children() == set(), "nothing is left behind"


async def test_resources_of_a_server_without_templates(tmp_path: Path, sayso_home: Path) -> None:
    server = configured("sqlite", sqlite(tmp_path).entry, tmp_path)
    async with talk(sayso_home, [], server) as talking:
        found = await talking.app.servers.resources("sqlite")
        assert [one.uri for one in found] == ["memo://insights"]


# --- fetch, which has its read as a prompt ---------------------------------------------------


@pytest.fixture
def page() -> Iterator[tuple[str, list[str]]]:
    """A page of this machine, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path == "/page" else 404)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<h1>Tides</h1><p>High water is at noon.</p>")

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/page", asked
    server.shutdown()
    thread.join()
    server.server_close()


async def test_fetch(page: tuple[str, list[str]], tmp_path: Path, sayso_home: Path) -> None:
    """Not trusted, so that a page is asked for when a person has said yes."""
    url, asked = page
    command = {"command": python_program("sdk2", "mcp-server-fetch")}
    server = configured("fetch", command | {"args": ["--allow-private-ips"]}, tmp_path)
    steps = [step(call("fetch__fetch", url=url)), "Fetched."]
    async with talk(sayso_home, steps, server) as talking:
        host = talking.app.servers
        assert [prompt.name for prompt in await host.prompts("fetch")] == ["fetch"]
        await talking.say("go")
        assert asked == [], "it waits"
        (text,) = await talking.approve()
        assert "High water is at noon." in text
        assert "/page" in asked

        await talking.kill("fetch")
        assert "High water is at noon." in await host.prompt("fetch", "fetch", [f"url={url}"])


# --- everything, over both transports --------------------------------------------------------

LONG = call("everything__trigger-long-running-operation", duration=3, steps=6)
ECHO = call("everything__echo", message="Is anybody there?")
ZIP = call(
    "everything__gzip-file-as-resource",
    name="a.gz",
    data="data:text/plain,hello",
    outputType="resource",
)
SAID = "Echo: Is anybody there?"
READS = {"tools": {"echo": {"effects": ["read:everything"]}}}


async def test_everything_over_stdio(tmp_path: Path, sayso_home: Path) -> None:
    steps = [step(ECHO), step(ZIP), "Done.", step(ECHO), "Read."]
    async with talk(sayso_home, steps, everything(tmp_path, **READS)) as talking:
        (echoed,) = await talking.say("go")
        assert SAID in echoed
        (zipped,) = await talking.approve()
        assert "application/gzip, 25 bytes" in zipped
        await talking.kill("everything")
        (echoed,) = await talking.say("again")
        assert SAID in echoed


async def test_a_write_whose_server_was_killed_is_in_doubt(
    tmp_path: Path, sayso_home: Path
) -> None:
    steps = [step(LONG), "Nobody knows.", step(ECHO), "It is."]
    async with talk(sayso_home, steps, everything(tmp_path, **READS)) as talking:
        await talking.say("go")
        (unknown,) = await talking.approve(when=CallProgress, then=kill_children)
        assert "The outcome of this call is unknown" in unknown
        (effect,) = talking.effects
        assert effect.state == "in_doubt"
        (question,) = talking.session.pending()
        assert question.kind == "in_doubt"

        await talking.decide(question, Decision("respond", message="not happened"))
        (effect,) = talking.effects
        assert (effect.state, effect.attempts) == ("failed", 1), "nothing was sent again"
        (echoed,) = await talking.say("is it back?")
        assert SAID in echoed


async def test_everything_over_http(tmp_path: Path, sayso_home: Path) -> None:
    steps = [step(ECHO), step(ZIP), "Done.", step(ECHO), step(ZIP), "It is away.", step(ZIP), "OK."]
    with everything_over_http() as server:
        config = server.config(tmp_path, **READS)
        async with talk(sayso_home, steps, config) as talking:
            (echoed,) = await talking.say("go")
            assert SAID in echoed
            (zipped,) = await talking.approve()
            assert "application/gzip, 25 bytes" in zipped

            server.kill()
            (read,) = await talking.say("again")
            assert "cannot be reached" in read
            (write,) = await talking.approve()
            assert "Nothing was sent, so nothing changed" in write

            server.start()
            await talking.reached("everything")
            await talking.say("once more")
            (zipped,) = await talking.approve()
            assert "application/gzip, 25 bytes" in zipped, "in a new session"
            states = [effect.state for effect in talking.effects]
            assert sorted(states) == ["committed", "committed", "failed"]


async def test_a_write_after_a_restart_that_nobody_noticed(
    tmp_path: Path, sayso_home: Path
) -> None:
    with everything_over_http() as server:
        config = server.config(tmp_path, **READS)
        async with talk(sayso_home, [step(ZIP), "Done."], config) as talking:
            await talking.say("go")
            server.kill()
            server.start()
            (zipped,) = await talking.approve()
            assert "application/gzip, 25 bytes" in zipped
            assert [effect.state for effect in talking.effects] == ["committed"]


async def test_a_write_over_http_whose_server_was_killed_is_in_doubt(
    tmp_path: Path, sayso_home: Path
) -> None:
    with everything_over_http() as server:
        config = server.config(tmp_path, **READS)
        async with talk(sayso_home, [step(LONG), "Done."], config) as talking:
            await talking.say("go")
            await talking.approve(when=CallProgress, then=server.kill)
            (question,) = talking.session.pending()
            assert question.kind == "in_doubt"
            await talking.decide(question, Decision("respond", message="happened"))
            assert [effect.state for effect in talking.effects] == ["committed"]


# --- the whole program -----------------------------------------------------------------------


def test_the_command_line_from_add_to_an_approved_write(
    model_server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "here.txt").write_text("something to read")
    entry = npm_server("filesystem", str(files))
    read = Call("files__read_text_file", {"path": str(files / "here.txt")})
    write = Call("files__write_file", {"path": str(files / "new.txt"), "content": "by sayso"})
    model_server.script(
        by_history([Reply(tool_calls=(read,)), Reply(tool_calls=(write,)), Reply("Done.")])
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", model_server.url)
    monkeypatch.setenv("SAYSO_MODEL", "openai:test")

    def sayso(*arguments: str, code: int = 0) -> str:
        result = finish(start(*arguments))
        assert result.code == code, result.err
        return result.out

    assert SCRIPT.exists()
    sayso("mcp", "add", "files", "--trusted", "--yes", "--", entry["command"], *entry["args"])
    session = sayso("run", "Write a note", code=3).strip()
    (listed,) = json.loads(sayso("mcp", "list", "--json"))
    assert (listed["name"], listed["confirmed"], listed["tools"]) == ("files", True, 14)
    assert not (files / "new.txt").exists()
    (approval,) = json.loads(sayso("approvals", "--json"))
    assert (approval["session"], approval["tool"]) == (session, "files__write_file")
    sayso("approve", approval["id"])
    assert (files / "new.txt").read_text() == "by sayso"
    (effect,) = json.loads(sayso("effects", "--json"))
    assert effect["state"] == "committed"
    sayso("mcp", "diff", "files")
    sayso("trail", "verify")
