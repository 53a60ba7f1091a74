"""An answer that was sent back, once more without what had no support."""

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from agent.models.offline.conversation import own_words

_NOTE = re.compile(r"\[Your last answer was not shown\b.*?\bno support was found for ([^\n]*)")
_URL = re.compile(r"https?://[^\s|]+")
_NAMED = re.compile(r"“([^”]+)”")


def without_gaps(answer: str, messages: Sequence[BaseMessage]) -> str:
    """The answer without what was found to have no support in this turn, which is said.

    Lines that state it are left out, and cells of tables.
    """
    gaps = _gaps(messages)
    if not gaps:
        return answer
    kept = [_line_without(line, gaps) for line in answer.split("\n")]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line for line in kept if line is not None)).strip()
    said = f"What I leave out is not supported by any source that counts here: {', '.join(gaps)}."
    return f"{text}\n\n{said}".strip()


def _gaps(messages: Sequence[BaseMessage]) -> list[str]:
    """What the notes since the user's last words name."""
    found: list[str] = []
    for message in reversed(messages):
        if own_words(message):
            break
        if isinstance(message, HumanMessage) and (note := _NOTE.match(message.text)):
            found += _NAMED.findall(note[1])
    return list(dict.fromkeys(found))


def _line_without(line: str, gaps: Sequence[str]) -> str | None:
    if not _states(line, gaps):
        return line
    if not line.startswith("|"):
        return None
    cells = line.split("|")
    return "|".join(" – " if _states(cell, gaps) else cell for cell in cells)


def _states(text: str, gaps: Sequence[str]) -> bool:
    """Whether a text says one of these: ``5`` does not stand in ``2025``, nor in a url."""
    plain = " ".join(_URL.sub(" ", text).split())
    return any(re.search(rf"(?<![\w.,]){re.escape(gap)}(?!\w)", plain) for gap in gaps)
