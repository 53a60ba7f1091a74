"""The chat's input history, as prompt_toolkit's ``FileHistory`` keeps it; forgetting some of it.

An entry is a comment with the time and a line beginning with ``+`` for each line of the text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path

_ENTRY = re.compile(rb"(?:^#[^\n]*\n)?(?:^\+[^\n]*\n)+", re.MULTILINE)


def history_file(home: Path) -> Path:
    """Where the chat keeps what was typed, for the up-arrow of all sessions."""
    return home / "history"


def forget(path: Path, texts: Collection[str], masked: Callable[[str], str] = str) -> int:
    """Erase every entry with one of these texts, whichever session it was typed in.

    The texts may come from the trail, which has marks in place of secrets; ``masked`` puts them
    into what was typed.


    Entries are overwritten where they stand, with empty lines, which mean nothing. So a chat
    that appends meanwhile loses nothing, as it would with a file that takes this one's place,
    and the text is gone from the disk's blocks as well, as far as the file system allows.

    Returns:
        How many entries were erased.
    """
    gone = {_as_kept(text) for text in texts}
    try:
        with path.open("r+b") as file:
            entries = [(m.span(), _text(m[0])) for m in _ENTRY.finditer(file.read())]
            found = [span for span, typed in entries if {typed, masked(typed)} & gone]
            for start, end in found:
                file.seek(start)
                file.write(b"\n" * (end - start))
            file.flush()
            os.fsync(file.fileno())
    except FileNotFoundError:
        return 0
    return len(found)


def _as_kept(text: str) -> str:
    return text.encode("utf-8", "replace").decode().strip()


def _text(entry: bytes) -> str:
    """What was typed, without the space around it, which is not sent either."""
    lines = entry.decode("utf-8", "replace").split("\n")
    return "\n".join(line[1:] for line in lines if line.startswith("+")).strip()
