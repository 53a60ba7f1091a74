"""What a person has confirmed of MCP servers, and how a change is noticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import McpError, UsageError
from agent.mcp.pins import MAX_CHARACTERS, Change, Pins, compare
from agent.mcp.servers import Http, ServerConfig, Stdio

SERVER = ServerConfig("s", Stdio("serve", ("--now",)), source=Path("/w/.mcp.json"), written="w")


def tool(name: str = "get", **members: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **members}


def named(*tools: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in tools}


# --- comparing ------------------------------------------------------------------------------


def test_what_differs_is_named() -> None:
    before = named(tool("a"), tool("b", description="old", title="t"), tool("c"), tool("d"))
    after = named(tool("d"), tool("b", description="new", icons=[]), tool("e"), tool("a"))
    assert compare(before, after) == [
        Change("b", "changed", ("description", "title", "icons")),
        Change("e", "new"),
        Change("c", "gone"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"d": 1}, {"d": True}),
        ({"d": 1}, {"d": 1.0}),
        ({"d": 0}, {"d": False}),
        ({"d": None}, {}),
        ({"d": ["a", "b"]}, {"d": ["b", "a"]}),
        ({"d": "é"}, {"d": "e\u0301"}),
    ],
)
def test_every_difference_of_the_json_counts(before: Any, after: Any) -> None:
    changes = compare(named(tool(x=before)), named(tool(x=after)))
    assert changes == [Change("get", "changed", ("x",))]


def test_the_order_of_members_does_not_count() -> None:
    before = tool(annotations={"readOnlyHint": True, "title": "t"}, description="d")
    after = {key: before[key] for key in reversed(before)}
    after["annotations"] = {"title": "t", "readOnlyHint": True}
    assert compare(named(before), named(after)) == []


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
definitions = st.dictionaries(st.text(), json_values, max_size=4)


@given(st.dictionaries(st.text(), definitions, max_size=3))
def test_what_is_kept_is_what_was_listed(
    tmp_path_factory: pytest.TempPathFactory, tools: dict[str, dict[str, Any]]
) -> None:
    """Tools are made of pinned definitions, and a call is sent while they are still the same."""
    home = tmp_path_factory.mktemp("home")
    listed = {name: {**members, "name": name} for name, members in tools.items()}
    Pins(home).pin(SERVER, listed.values(), "ann")
    pinned = Pins(home).definitions(SERVER)
    assert pinned is not None
    assert compare(pinned, listed) == []
    assert list(pinned) == list(listed)
    assert Pins(home).problem == ""


# --- confirming and pinning -----------------------------------------------------------------


def test_a_confirmation_is_of_one_command_in_one_file(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    assert not pins.is_confirmed(SERVER)
    pins.confirm(SERVER, "ann")
    assert pins.is_confirmed(SERVER)
    assert Pins(tmp_path).is_confirmed(SERVER)
    for other in (
        replace(SERVER, name="t"),
        replace(SERVER, source=Path("/v/.mcp.json")),
        replace(SERVER, written="v"),
        replace(SERVER, transport=Stdio("serve", ("--now", "x"))),
        replace(SERVER, transport=Http("https://a/")),
    ):
        assert not pins.is_confirmed(other)
    (row,) = json.loads(pins.path.read_text())["servers"]["/w/.mcp.json"].values()
    assert row["confirmed_by"] == "ann"
    assert row["confirmed_at"]


def test_one_folder_has_one_name(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    pins = Pins(tmp_path)
    pins.confirm(replace(SERVER, source=tmp_path / "real" / ".mcp.json"), "ann")
    assert pins.is_confirmed(replace(SERVER, source=tmp_path / "link" / ".mcp.json"))


def test_what_was_pinned_outlives_another_command(tmp_path: Path) -> None:
    """A new version of a server is confirmed; that its tools changed is seen all the same."""
    pins = Pins(tmp_path)
    assert pins.definitions(SERVER) is None
    assert pins.pin(SERVER, [tool("a"), tool("b")], "ann") == [
        Change("a", "new"),
        Change("b", "new"),
    ]
    newer = replace(SERVER, transport=Stdio("serve", ("--now", "2.0")))
    pins.confirm(newer, "ann")
    assert pins.definitions(newer) == named(tool("a"), tool("b"))
    assert pins.pin(newer, [tool("a", title="A")], "bob") == [
        Change("a", "changed", ("title",)),
        Change("b", "gone"),
    ]
    assert pins.definitions(SERVER) == named(tool("a", title="A"))
    assert pins.is_confirmed(newer)


def test_a_server_without_tools_can_be_pinned(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    assert pins.pin(SERVER, [], "ann") == []
    assert pins.definitions(SERVER) == {}


def test_what_is_held_is_kept_until_it_is_pinned(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    pins.pin(SERVER, [tool("a")], "ann")
    pins.note(SERVER, [Change("a", "changed", ("title",)), Change("b", "new")])
    assert Pins(tmp_path).held(SERVER) == ["a", "b"]
    before = pins.path.stat().st_ino
    pins.note(SERVER, [Change("a", "changed", ("title",)), Change("b", "new")])
    assert pins.path.stat().st_ino == before, "nothing new was written"
    pins.pin(SERVER, [tool("a", title="t"), tool("b")], "ann")
    assert pins.held(SERVER) == []


def test_a_server_is_forgotten_alone(tmp_path: Path) -> None:
    other = replace(SERVER, name="t")
    pins = Pins(tmp_path)
    for server in (SERVER, other):
        pins.confirm(server, "ann")
        pins.pin(server, [tool()], "ann")
    pins.forget(SERVER)
    pins.forget(SERVER)
    assert (pins.is_confirmed(SERVER), pins.definitions(SERVER)) == (False, None)
    assert pins.is_confirmed(other)


@pytest.mark.parametrize(
    "definition",
    [
        tool(description="x" * (MAX_CHARACTERS + 1)),
        tool(description={1, 2}),
        tool(x={(1, 2): 3}),
    ],
)
def test_what_is_too_large_or_no_json_is_not_pinned(
    tmp_path: Path, definition: dict[str, Any]
) -> None:
    pins = Pins(tmp_path)
    pins.pin(SERVER, [tool("a")], "ann")
    with pytest.raises(McpError, match="cannot be pinned"):
        pins.pin(SERVER, [definition], "ann")
    assert pins.definitions(SERVER) == named(tool("a"))


def test_an_endless_definition_is_not_pinned(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(McpError, match="cannot be pinned"):
        Pins(tmp_path).pin(SERVER, [tool(x=deep)], "ann")


# --- the file -------------------------------------------------------------------------------


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    pins = Pins(home)
    assert (pins.problem, pins.is_confirmed(SERVER), home.exists()) == ("", False, False)
    pins.confirm(SERVER, "ann")
    assert [path.name for path in home.iterdir()] == ["mcp-pins.json"]
    assert pins.path.stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700


def test_values_of_variables_are_not_in_it(tmp_path: Path) -> None:
    secret = replace(SERVER, transport=Stdio("serve", env={"TOKEN": "s3cret"}))
    pins = Pins(tmp_path)
    pins.confirm(secret, "ann")
    pins.pin(secret, [tool()], "ann")
    assert "s3cret" not in pins.path.read_text()


def row(**members: Any) -> bytes:
    return json.dumps({"servers": {"/w/.mcp.json": {"s": members}}}).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff",
        b"[]",
        b"{}",
        b'{"servers": 3}',
        b'{"servers": {"/w": 1}}',
        b'{"servers": {"/w": {"s": 1}}}',
        row(fingerprint=1),
        row(tools=[]),
        row(tools={"get": 1}),
        row(held=3),
        row(held=[3]),
        row(surprise=1),
        b"[" * 200_000,
    ],
)
def test_a_damaged_file_means_that_nothing_is_confirmed(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "mcp-pins.json").write_bytes(content)
    pins = Pins(tmp_path)
    assert "mcp-pins.json is damaged, so no MCP server counts as confirmed" in pins.problem
    assert not pins.is_confirmed(SERVER)
    assert pins.definitions(SERVER) is None
    pins.confirm(SERVER, "ann")
    assert pins.is_confirmed(SERVER)
    assert pins.problem == ""


def test_a_damage_during_the_run_is_seen(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    pins.confirm(SERVER, "ann")
    pins.path.write_text("{")
    assert not pins.is_confirmed(SERVER)
    assert "damaged" in pins.problem


def test_what_another_process_records_is_seen(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    assert not pins.is_confirmed(SERVER)
    Pins(tmp_path).confirm(SERVER, "ann")
    assert pins.is_confirmed(SERVER)
    Pins(tmp_path).forget(SERVER)
    assert not pins.is_confirmed(SERVER)


def test_what_cannot_be_written_is_said_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = Pins(tmp_path)
    pins.confirm(SERVER, "ann")
    before = pins.path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        pins.confirm(replace(SERVER, written="v"), "ann")
    assert pins.path.read_bytes() == before
    assert pins.is_confirmed(SERVER)
    with pytest.raises(UsageError, match="cannot be written"):
        Pins(pins.path).confirm(SERVER, "ann")


CONFIRM = """
import sys
from pathlib import Path
from agent.mcp.pins import Pins
from agent.mcp.servers import ServerConfig, Stdio
pins = Pins(Path(sys.argv[1]))
for number in range(25):
    server = ServerConfig(f"{sys.argv[2]}-{number}", Stdio("x"), source=Path("/w/.mcp.json"))
    pins.confirm(server, "ann")
    pins.pin(server, [{"name": "get"}], "ann")
"""


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    started = [
        subprocess.Popen([sys.executable, "-c", CONFIRM, str(tmp_path), name]) for name in "abc"
    ]
    assert [process.wait(timeout=100) for process in started] == [0, 0, 0]
    pins = Pins(tmp_path)
    for name in (f"{letter}-{number}" for letter in "abc" for number in range(25)):
        server = ServerConfig(name, Stdio("x"), source=Path("/w/.mcp.json"))
        assert pins.is_confirmed(server)
        assert pins.definitions(server) == {"get": {"name": "get"}}


def test_what_another_process_has_just_pinned_stays(tmp_path: Path) -> None:
    ours, theirs = Pins(tmp_path), Pins(tmp_path)
    assert ours.definitions(SERVER) is None
    theirs.pin(SERVER, [tool(description="safe")], "bob", first=True)
    (change,) = ours.pin(SERVER, [tool(description="evil")], "ann", first=True)
    assert (change.kind, change.parts) == ("changed", ("description",))
    assert ours.definitions(SERVER) == named(tool(description="safe"))
