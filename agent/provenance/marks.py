"""The marks around text of strangers, and the keys of what is no user's own word."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import prompts

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

RAW = "sayso_raw"
"""Key, in a tool message, of the whole content whose strangers' text the model was not shown."""

USAGE = "sayso_usage"
"""Key, in a tool message, of the usage of the models that read it: a list."""

ORDERED = "sayso_ordered"
"""Key, in a user's message, of the call that the user ordered with it: ``tool``, ``args``, and
``undoes``, the effect that it compensates. Nobody asks the model about it, and the words of the
message are the harness's."""

NOTE = "sayso_note"
"""Key, in a human message, that the harness wrote it: it does not begin a turn."""

REFUSED = "sayso_refused"
"""Key, in a reply that went back to the model and is no answer, of what in it had no support: a
list of texts."""

ATTACHED = "sayso_attached"
"""Key, in a user's message, of what was sent along: a list of ``{"source", "text"}``."""


def users_words(messages: Iterable[BaseMessage]) -> list[str]:
    """What the user said, of all turns, without what the harness says in their place."""
    return [str(m.text) for m in messages if m.type == "human" and not _is_ours(m)]


def _is_ours(message: BaseMessage) -> bool:
    return any(message.additional_kwargs.get(key) for key in (NOTE, ORDERED))


def marked(text: str, tool: str) -> str:
    """Text of strangers between two marks; it cannot close its own frame."""
    end = prompts.message("untrusted_close")
    inner = text.replace(end, end.replace("[", "(").replace("]", ")"))
    return f"{opening(tool)}\n{inner}\n{end}"


def unmarked(text: str, tool: str) -> str:
    """The text between the marks; a text without them as it is."""
    start, end = f"{opening(tool)}\n", f"\n{prompts.message('untrusted_close')}"
    if text.startswith(start) and text.endswith(end):
        return text.removeprefix(start).removesuffix(end)
    return text


def between_marks(text: str, tool: str) -> list[str]:
    """Every text of strangers that stands between marks in a text."""
    start, end = f"{opening(tool)}\n", f"\n{prompts.message('untrusted_close')}"
    return re.findall(f"{re.escape(start)}(.*?){re.escape(end)}", text, re.DOTALL)


@lru_cache(maxsize=1024)
def opening(tool: str) -> str:
    """The line above what a tool brought from strangers."""
    return prompts.message("untrusted_open", tool=tool)


def attached_to(message: BaseMessage) -> list[Mapping[str, str]]:
    """Texts of others that a user sent along with a message."""
    return message.additional_kwargs.get(ATTACHED) or []
