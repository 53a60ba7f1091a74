"""The person's own servers: ``mcp.json`` in the state folder, used in whatever folder they work.

It has the format of other hosts' files (``parse``) and may be edited by hand; what is started is
confirmed in any case. It belongs to no folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent.errors import NotFound, UsageError
from agent.mcp.configuration.document import OUTLINES, Document, read_document
from agent.mcp.configuration.variables import id_of, inputs_named
from agent.trust import SIZE_LIMIT, locked, read_small, write_private

SERVERS_FILE = "mcp.json"

_EMPTY = '{"mcpServers": {}}'


def path_of(home: Path) -> Path:
    """Where a person's own servers stand, whether or not there are any."""
    return home / SERVERS_FILE


def read_own(home: Path) -> str | None:
    """The text of the file; ``None`` where there is none.

    Raises:
        UsageError: It cannot be read.
    """
    path = path_of(home)
    try:
        # A link is followed: this folder is the person's, who may keep the file elsewhere.
        text = read_small(path.resolve())
    except (UsageError, OSError, RuntimeError) as error:
        raise UsageError(f"{path} cannot be used: {error}") from error
    return None if text is None else text.removeprefix("\ufeff")


def own_document(home: Path) -> Document:
    """The outline of the file; an empty one where there is none.

    Raises:
        UsageError: It cannot be read.
    """
    return read_document(read_own(home) or _EMPTY, path_of(home))


def add_servers(home: Path, entries: Mapping[str, Any], inputs: Sequence[Any] = ()) -> None:
    """Write servers into the file, all or none; it is readable by its owner only.

    Args:
        home: The state folder.
        entries: What the file is to say of each, by name.
        inputs: VS Code's inputs that they need.

    Raises:
        UsageError: A name or an input's id is taken, or the file cannot be changed.
    """
    with _changing(home) as (outlines, known):
        for name, entry in entries.items():
            if any(name in servers for servers in outlines):
                raise UsageError(
                    f"There is a server {name!r} in {path_of(home)} already; nothing was changed."
                )
            outlines[0][name] = entry
        for wanted in inputs:
            named = wanted["id"]
            same = [one for one in known if id_of(one) == named]
            if not same:
                known.append(wanted)
            elif same != [wanted]:
                raise UsageError(
                    f"There is another input {named!r} in {path_of(home)} already; nothing "
                    "was changed. Rename one of them."
                )


def remove_server(home: Path, name: str) -> None:
    """Take a server out of the file, and the inputs that no other server there names.

    Raises:
        NotFound: It is not there.
        UsageError: The file cannot be changed.
    """
    with _changing(home) as (outlines, inputs):
        names = tuple(dict.fromkeys(known for servers in outlines for known in servers))
        if name not in names:
            hint = f"They stand in {path_of(home)}; sayso mcp list shows those of this folder too."
            raise NotFound("MCP server of yours", name, names, hint)
        unused = inputs_named([servers.pop(name, None) for servers in outlines])
        unused -= inputs_named(outlines)
        inputs[:] = [one for one in inputs if id_of(one) not in unused]


@contextmanager
def _changing(home: Path) -> Iterator[tuple[list[dict[str, Any]], list[Any]]]:
    """Servers under each outline and inputs of the file, to be changed; written back unless that
    fails."""
    path = path_of(home)
    try:
        with locked(home):
            document = own_document(home)
            if document.commented:
                raise UsageError(
                    f"{path} has comments, which would be lost; nothing was changed. "
                    "Edit it by hand, or take them out."
                )
            content = json.loads(document.text)
            inputs = content.get("inputs", [])
            yield [content[outline] for outline in OUTLINES if outline in content], inputs
            content["inputs"] = inputs
            if not inputs:
                del content["inputs"]
            text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
            if len(text.encode()) > SIZE_LIMIT:
                raise UsageError(f"{path} would be too large; nothing was changed.")
            read_document(text, path)
            write_private(path.resolve(), text)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}. Nothing was changed."
        ) from error
