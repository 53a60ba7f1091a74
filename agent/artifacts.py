"""What tools return beside text, in files of the state folder: no part of a history."""

from __future__ import annotations

import base64
import hashlib
import mimetypes
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = "artifacts"
MAX_FILES = 50
"""How many files one result may leave."""

_OURS = ("file", "bytes", "sha256", "lost")


def folder_of(home: Path, session: str) -> Path:
    """Where the artifacts of a session are."""
    return home / FOLDER / session


def put_away(artifact: Any, folder: Path | None) -> Any:
    """An artifact whose ``content`` blocks (MCP) have their data in files.

    Each such block gets ``file`` (a path), ``bytes`` and ``sha256`` instead; ``lost`` says why a
    file could not be written, which never costs a result.

    Args:
        artifact: A tool's; anything but ``{"content": [...]}`` comes back unchanged.
        folder: ``None``: the data is dropped.
    """
    if not isinstance(artifact, Mapping) or not isinstance(artifact.get("content"), list):
        return artifact
    blocks = artifact["content"]
    away = [_away(block, folder if n < MAX_FILES else None) for n, block in enumerate(blocks)]
    kept = {**artifact, "content": away}
    if "structured_content" in artifact:
        data = {text for block in blocks for text in _data_of(block)}
        kept["structured_content"] = _without_data(artifact["structured_content"], data)
    return kept


def _data_of(block: Any) -> list[str]:
    """The base64 of a block."""
    if not isinstance(block, Mapping):
        return []
    inner = block.get("resource")
    found = (block.get("data"), inner.get("blob") if isinstance(inner, Mapping) else None)
    return [text for text in found if isinstance(text, str)]


def _without_data(value: Any, data: set[str]) -> Any:
    """A structured content in which what is in a file is only named: servers send it twice."""
    if isinstance(value, Mapping):
        return {name: _without_data(inner, data) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_data(inner, data) for inner in value]
    return "(kept in a file)" if isinstance(value, str) and value in data else value


def files_in(artifact: Any) -> list[str]:
    """The paths of the files that :func:`put_away` has written for an artifact."""
    blocks = artifact.get("content") if isinstance(artifact, Mapping) else None
    if not isinstance(blocks, list):
        return []
    inner = [b.get("resource") if b.get("type") == "resource" else b for b in blocks]
    return [str(b["file"]) for b in inner if isinstance(b, Mapping) and "file" in b]


def _away(block: Any, folder: Path | None) -> Any:
    if not isinstance(block, Mapping):
        return block
    if isinstance(resource := block.get("resource"), Mapping):
        return {**block, "resource": _without(resource, "blob", folder)}
    return _without(block, "data", folder)


def _without(block: Mapping[str, Any], key: str, folder: Path | None) -> dict[str, Any]:
    kept = {name: value for name, value in block.items() if name not in (key, *_OURS)}
    if not isinstance(data := block.get(key), str):
        return kept
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        return {**kept, "lost": "it is not base64"}
    digest = hashlib.sha256(content).hexdigest()
    kept |= {"bytes": len(content), "sha256": digest}
    if folder is None:
        return kept
    try:
        return {**kept, "file": str(_write(folder, digest, str(block.get("mimeType")), content))}
    except OSError as error:
        return {**kept, "lost": f"it could not be written: {error.strerror}"}


def _write(folder: Path, digest: str, mime: str, content: bytes) -> Path:
    """One file a content, readable by its owner only; its name says nothing of the server's."""
    suffix = mimetypes.guess_extension(mime) or ".bin"
    path = folder / f"{digest[:16]}{suffix if re.fullmatch(r'[.][a-z0-9]+', suffix) else '.bin'}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    temporary.replace(path)
    return path
