"""Servers that a person has in the files of other hosts, made into servers of their own file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import platformdirs

from agent.mcp.configuration.foreign import left_out, with_our_names
from agent.mcp.configuration.parse import KNOWN_KEYS, REACHING

_OF_A_FOLDER = (".cursor", ".vscode")
"""Folders that hold the file of the folder around them."""

_WORKSPACE = "${workspaceFolder}"


def known_places(home: Path, folder: Path) -> list[Path]:
    """Files of other hosts that name servers, as far as they exist.

    Args:
        home: The person's home.
        folder: The current folder.
    """
    places = [
        platformdirs.user_config_path("Claude") / "claude_desktop_config.json",
        home / ".cursor" / "mcp.json",
        platformdirs.user_config_path("Code") / "User" / "mcp.json",
        folder / ".cursor" / "mcp.json",
        folder / ".vscode" / "mcp.json",
    ]
    return [place for place in dict.fromkeys(places) if place.is_file()]


def folder_of(path: Path, home: Path) -> Path | None:
    """The folder that a file of servers belongs to; ``None`` when it belongs to a person."""
    folder = path.absolute().parent
    if folder.name in _OF_A_FOLDER:
        return folder.parent if folder.parent != home else None
    return folder if path.name == ".mcp.json" else None


def as_own(entry: Any, folder: Path | None) -> Any:
    """What a person's own file is to say of a server that another file names.

    Variables stay as they are written, but for the folder, which the own file does not have: it
    is put in, and paths are made whole. Keys that are not known here are left out
    (``comes_without``); what cannot be read stays, to be complained about.

    Args:
        entry: What the other file says.
        folder: The folder that the other file belongs to.
    """
    if not isinstance(entry, dict):
        return entry
    own = {key: value for key, value in with_our_names(entry).items() if key in KNOWN_KEYS}
    if folder is None:
        return own
    own = {key: _placed(value, folder) if key in REACHING else value for key, value in own.items()}
    if "command" in own:
        own["cwd"] = _whole(own.get("cwd", "."), folder)
    if "envFile" in own:
        own["envFile"] = _whole(own["envFile"], folder)
    return own


def comes_without(entry: Any) -> list[str]:
    """What :func:`as_own` leaves out, in clauses."""
    return list(left_out(entry, KNOWN_KEYS)) if isinstance(entry, dict) else []


def _whole(path: Any, folder: Path) -> Any:
    if not isinstance(path, str) or path.startswith("${"):
        return path
    return str(folder / path)


def _placed(value: Any, folder: Path) -> Any:
    """The texts of a member with the folder put in."""
    match value:
        case str():
            named = value.replace("${workspaceFolderBasename}", folder.name)
            return named.replace(_WORKSPACE, str(folder))
        case list():
            return [_placed(item, folder) for item in value]
        case dict():
            return {name: _placed(item, folder) for name, item in value.items()}
    return value
