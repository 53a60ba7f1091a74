"""The file of a person's own servers, and what comes into it from other programs' files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from agent.errors import NotFound, UsageError
from agent.mcp.configuration.importing import as_own, comes_without, folder_of, known_places
from agent.mcp.configuration.parse import parse_config
from agent.mcp.configuration.user_file import (
    add_servers,
    own_document,
    path_of,
    read_own,
    remove_server,
)
from agent.trust import SIZE_LIMIT

X: dict[str, Any] = {"command": "x"}


def content(home: Path) -> Any:
    return json.loads(path_of(home).read_text())


def test_servers_are_added_and_removed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert read_own(home) is None
    assert own_document(home).names == ()
    add_servers(home, {"a": X, "b": {"url": "https://é.example/"}})
    assert path_of(home).stat().st_mode & 0o777 == 0o600
    assert home.stat().st_mode & 0o777 == 0o700
    assert content(home) == {"mcpServers": {"a": X, "b": {"url": "https://é.example/"}}}
    remove_server(home, "a")
    assert list(content(home)["mcpServers"]) == ["b"]
    with pytest.raises(NotFound, match="There is: b"):
        remove_server(home, "a")


def test_what_else_the_file_has_stays(tmp_path: Path) -> None:
    path_of(tmp_path).write_text('{"servers": {"a": {"command": "x"}}, "other": [1]}')
    add_servers(tmp_path, {"b": X}, [{"id": "k", "type": "promptString"}])
    assert content(tmp_path) == {
        "servers": {"a": X, "b": X},
        "other": [1],
        "inputs": [{"id": "k", "type": "promptString"}],
    }


def test_a_file_with_two_outlines_is_changed_where_the_server_stands(tmp_path: Path) -> None:
    both = {"servers": {"a": X, "b": X}, "mcpServers": {"a": X, "c": X}}
    path_of(tmp_path).write_text(json.dumps(both))
    assert own_document(tmp_path).names == ("a", "c", "b")
    with pytest.raises(UsageError, match="a server 'b' in"):
        add_servers(tmp_path, {"b": X})
    add_servers(tmp_path, {"d": X})
    remove_server(tmp_path, "b")
    remove_server(tmp_path, "a")
    assert content(tmp_path) == {"servers": {}, "mcpServers": {"c": X, "d": X}}


def test_inputs_go_with_the_last_server_that_names_them(tmp_path: Path) -> None:
    """Those that the removed one did not name stay: a person may have written them beforehand."""
    uses = {"command": "x", "env": {"K": "${input:k}", "L": "${input:l}"}}
    also = {"url": "https://a/", "headers": {"X": "${input:l}"}}
    inputs = [{"id": "k"}, {"id": "l"}, {"id": "spare"}, 3, {"id": []}]
    path_of(tmp_path).write_text(
        json.dumps({"mcpServers": {"a": uses}, "inputs": inputs, "servers": {"b": also}})
    )
    remove_server(tmp_path, "a")
    assert content(tmp_path)["inputs"] == [{"id": "l"}, {"id": "spare"}, 3, {"id": []}]
    remove_server(tmp_path, "b")
    assert content(tmp_path)["inputs"] == [{"id": "spare"}, 3, {"id": []}]


def test_no_inputs_are_left_where_none_are_needed(tmp_path: Path) -> None:
    add_servers(tmp_path, {"a": {"command": "${input:k}"}}, [{"id": "k", "type": "promptString"}])
    remove_server(tmp_path, "a")
    assert content(tmp_path) == {"mcpServers": {}}


def test_an_input_that_is_there_already_stays_one(tmp_path: Path) -> None:
    key = {"id": "k", "type": "promptString"}
    path_of(tmp_path).write_text(json.dumps({"mcpServers": {}, "inputs": [3, {"id": 1}, key]}))
    add_servers(tmp_path, {"a": X}, [key])
    assert content(tmp_path)["inputs"] == [3, {"id": 1}, key]


@pytest.mark.parametrize(
    ("text", "entries", "inputs", "words"),
    [
        ('{"mcpServers": {"a": 1}}', {"b": X, "a": X}, [], "a server 'a' in"),
        (
            '{"mcpServers": {}, "inputs": [{"id": "k"}]}',
            {"b": X},
            [{"id": "k", "a": 1}],
            "input 'k'",
        ),
        ("{oops", {"b": X}, [], "not valid JSON"),
        ('{"mcpServers": {} /* mine */}', {"b": X}, [], "has comments, which would be lost"),
        ('{"mcpServers": {}}', {"b": {"command": "x" * SIZE_LIMIT}}, [], "too large"),
        ('{"mcpServers": {}}', {f"s{n}": X for n in range(101)}, [], "at most 100"),
    ],
)
def test_what_cannot_be_added_changes_nothing(
    tmp_path: Path, text: str, entries: dict[str, Any], inputs: list[Any], words: str
) -> None:
    path_of(tmp_path).write_text(text)
    with pytest.raises(UsageError, match=words):
        add_servers(tmp_path, entries, inputs)
    assert path_of(tmp_path).read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["mcp.json"]


def test_a_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    """Settings of a person are often kept elsewhere, and linked."""
    (tmp_path / "home").mkdir()
    (tmp_path / "real.json").write_text('{"mcpServers": {}}')
    path_of(tmp_path / "home").symlink_to(tmp_path / "real.json")
    add_servers(tmp_path / "home", {"a": X})
    assert path_of(tmp_path / "home").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text()) == {"mcpServers": {"a": X}}


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    path_of(tmp_path).symlink_to("mcp.json")
    with pytest.raises(UsageError, match="cannot be used"):
        read_own(tmp_path)
    with pytest.raises(UsageError, match="cannot be written"):
        add_servers(tmp_path / "mcp.json" / "x", {"a": X})


# --- importing ------------------------------------------------------------------------------


def test_known_places_are_those_that_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platformdirs, "user_config_path", lambda app: tmp_path / "config" / app)
    home, folder = tmp_path / "home", tmp_path / "here"
    assert known_places(home, folder) == []
    files = [
        tmp_path / "config" / "Claude" / "claude_desktop_config.json",
        home / ".cursor" / "mcp.json",
        folder / ".vscode" / "mcp.json",
    ]
    for path in files:
        path.parent.mkdir(parents=True)
        path.touch()
    assert known_places(home, folder) == files
    assert known_places(home, home) == files[:2]


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("/w/.vscode/mcp.json", "/w"),
        ("/w/.cursor/mcp.json", "/w"),
        ("/w/.mcp.json", "/w"),
        ("/home/ann/.cursor/mcp.json", None),
        ("/home/ann/.config/Claude/claude_desktop_config.json", None),
    ],
)
def test_the_folder_that_a_file_belongs_to(path: str, folder: str | None) -> None:
    assert folder_of(Path(path), Path("/home/ann")) == (Path(folder) if folder else None)


def test_a_server_means_the_same_in_a_persons_own_file(tmp_path: Path) -> None:
    """Read where it stood or imported, it is started alike; no secret was put in on the way."""
    (tmp_path / ".env").write_text("A=1\n")
    entry = {
        "type": "stdio",
        "command": "${workspaceFolder}/bin/serve",
        "args": ["${workspaceFolderBasename}", "${TOKEN}", "${userHome}"],
        "env": {"T": "${TOKEN}", "W": "${workspaceFolder}"},
        "envFile": ".env",
        "autoApprove": ["x"],
        "sayso": {"trusted": True},
    }
    variables = {"TOKEN": "s3cret", "HOME": "/home/ann"}
    text = json.dumps({"servers": {"s": entry}})
    there = parse_config(text, tmp_path / "f", variables, folder=tmp_path).servers[0]
    own = as_own(entry, tmp_path)
    text = json.dumps({"mcpServers": {"s": own}})
    here = parse_config(text, Path("/state/mcp.json"), variables, folder=None).servers[0]
    assert here.transport == there.transport
    assert here.trusted
    assert "s3cret" not in text
    assert "${TOKEN}" in own["args"]
    assert "autoApprove" not in own


def test_paths_that_begin_with_a_variable_are_whole_already(tmp_path: Path) -> None:
    own = as_own({"command": "x", "cwd": "${userHome}/x", "envFile": "${env:F}"}, tmp_path)
    assert (own["cwd"], own["envFile"]) == ("${userHome}/x", "${env:F}")


def test_a_file_of_no_folder_is_taken_as_it_is() -> None:
    entry = {"command": "x", "cwd": "/d", "icon": "i", "sayso": {"odd": 1}}
    assert as_own(entry, None) == {"command": "x", "cwd": "/d", "sayso": {"odd": 1}}


def test_what_is_not_known_here_is_left_out_and_named() -> None:
    entry = {"serverUrl": "https://a/", "trust": True, "tools": ["get"], "odd": 1, "icon": "i"}
    assert as_own(entry, None) == {"url": "https://a/"}
    assert comes_without(entry) == [
        "without trust, icon: no effect here, writes wait",
        "without tools: tools of it would be offered that it leaves out",
        "without odd: not known here; look at what its writer meant by it",
    ]
    assert comes_without({"command": "x", "sayso": {}}) == []


@pytest.mark.parametrize("entry", [3, [], None, {"command": 3, "cwd": [], "envFile": {}}])
def test_what_is_no_server_stays_to_be_complained_about(entry: Any, tmp_path: Path) -> None:
    text = json.dumps({"mcpServers": {"s": as_own(entry, tmp_path)}})
    configuration = parse_config(text, tmp_path / "f", {}, folder=None)
    assert len(configuration.problems) == 1
