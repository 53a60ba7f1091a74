"""Where argument values came from, and the labels a session has taken on.

The tracing is by occurrence: it says in which text a value *occurs*, which is what a reviewer
needs to ask the right question. It is no proof that the model took the value from there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, cast

import prompts
from agent.safe_text import spelled
from tools.contract import contract_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, ToolMessage
    from langchain_core.tools import BaseTool


class Source(TypedDict):
    """One argument value: ``path`` such as ``items[0].id``, and where its text occurs.

    ``origin`` is ``user`` (the user wrote it), ``tool`` (in a result; ``tool`` names it),
    ``record`` (of the write that the call undoes), ``reviewer`` (an edit) or ``model`` (nowhere:
    the model wrote it, or it is the schema's default).
    """

    path: str
    origin: str
    tool: str | None


def marked(text: str, tool: str) -> str:
    """Text of strangers between two marks; it cannot close its own frame."""
    end = prompts.message("untrusted_close")
    inner = text.replace(end, end.replace("[", "(").replace("]", ")"))
    return f"{_opening(tool)}\n{inner}\n{end}"


def unmarked(text: str, tool: str) -> str:
    """The text between the marks; a text without them as it is."""
    opening, end = f"{_opening(tool)}\n", f"\n{prompts.message('untrusted_close')}"
    if text.startswith(opening) and text.endswith(end):
        return text.removeprefix(opening).removesuffix(end)
    return text


def _opening(tool: str) -> str:
    return prompts.message("untrusted_open", tool=tool)


def labels_of(tool: BaseTool) -> set[str]:
    """The labels that a result of this tool gives its session."""
    contract = contract_of(tool)
    labels = {"untrusted": contract.open_world, "private": contract.private}
    return {label for label, applies in labels.items() if applies}


def labels_in(message: ToolMessage, tool: BaseTool) -> set[str]:
    """The labels that a message under this tool's name gives its session.

    An error may be the harness's own words, which label nothing. What an open-world tool said
    stands between marks, and counts as a result.
    """
    if message.status == "success" or _opening(tool.name) in str(message.content):
        return labels_of(tool)
    return set()


def labels_of_results(messages: Iterable[BaseMessage], tools: Mapping[str, BaseTool]) -> set[str]:
    """The labels that all results among these messages give; of unknown tools, none."""
    found: set[str] = set()
    for message in messages:
        if attached_to(message):
            found |= {"untrusted", "private"}
        tool = tools.get(getattr(message, "name", None) or "") if message.type == "tool" else None
        if tool is not None:
            found |= labels_in(cast("ToolMessage", message), tool)
    return found


def trace(args: Mapping[str, Any], messages: Sequence[BaseMessage]) -> list[Source]:
    """Where each value among ``args`` occurs: the user's words first, then tool results.

    Booleans, nulls and empty values are left out: they occur everywhere.
    """
    users = [
        _text(m) for m in messages if m.type == "human" and not m.additional_kwargs.get(ORDERED)
    ]
    results = [given for m in messages for given in _given(m)]
    return [_source(path, value, users, results) for path, value in _leaves(args)]


def from_the_record(args: Mapping[str, Any]) -> list[Source]:
    """The same of a call that was made from what is recorded of the write it undoes."""
    return [{"path": path, "origin": "record", "tool": None} for path, _ in _leaves(args)]


def after_an_edit(
    sources: Iterable[Mapping[str, Any]], before: Mapping[str, Any], after: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """The sources of edited arguments: what the reviewer left as it was keeps its own."""
    known, old = {source["path"]: source for source in sources}, dict(_leaves(before))
    return [
        known[path]
        if path in known and path in old and old[path] == value
        else Source(path=path, origin="reviewer", tool=None)
        for path, value in _leaves(after)
    ]


ORDERED = "sayso_ordered"
"""Key, in a user's message, of the call that the user ordered with it: ``tool``, ``args``, and
``undoes``, the effect that it compensates. Nobody asks the model about it, and the words of the
message are the harness's."""

ATTACHED = "sayso_attached"
"""Key, in a user's message, of what was sent along: a list of ``{"source", "text"}``."""


def attached_to(message: BaseMessage) -> list[Mapping[str, str]]:
    """Texts of others that a user sent along with a message."""
    return message.additional_kwargs.get(ATTACHED) or []


def _given(message: BaseMessage) -> list[tuple[str, str]]:
    """Texts in a message that nobody here has written, with where each is from."""
    if message.type == "tool":
        return [(getattr(message, "name", None) or "a tool", _text(message))]
    return [(one["source"], one["text"]) for one in attached_to(message)]


def _source(
    path: str, value: Any, users: Sequence[str], results: Sequence[tuple[str, str]]
) -> Source:
    said = [text for text in users if _may_hold(text, value)]
    if said and any(map(_finder(value), said)):
        return {"path": path, "origin": "user", "tool": None}
    given = [(tool, text) for tool, text in reversed(results) if _may_hold(text, value)]
    # A value under a field of that name says more than its digits.
    for field in (rf'"\w*{_word(path)}"\s*:\s*"?', "") if given else ():
        occurs = _finder(value, after=field)
        for tool, text in given:
            if occurs(text):
                return {"path": path, "origin": "tool", "tool": tool}
    return {"path": path, "origin": "model", "tool": None}


def _finder(value: Any, after: str = "") -> Callable[[str], Any]:
    """A search for the value as a whole, behind the given pattern."""
    if isinstance(value, str) and len(value) > 60 and not after:
        return lambda text: value in text
    whole = re.escape(_stem(value)) + _zeros(value)
    return re.compile(rf"{after}(?<![\w.]){whole}(?!\w|\.\d)", re.IGNORECASE).search


def _may_hold(text: str, value: Any) -> bool:
    """Whether a search is worth its time: a history is long, and most of it holds no such text."""
    wanted = _stem(value)
    if not (text.isascii() and wanted.isascii()):  # case is not that simple there
        return True
    return wanted.lower() in text.lower()


def _is_decimal(value: Any) -> bool:
    return _DECIMAL.fullmatch(str(value)) is not None


def _stem(value: Any) -> str:
    """The text of a value; of a decimal without its last zeros: who says 10 means 10.00."""
    text = str(value)
    return text.rstrip("0").removesuffix(".") if _is_decimal(value) else text


def _zeros(value: Any) -> str:
    """What may follow the stem of a decimal and change nothing."""
    if not _is_decimal(value):
        return ""
    return "0*" if "." in _stem(value) else r"(?:\.0+)?"


_DECIMAL = re.compile(r"-?\d+\.\d+")


def _word(path: str) -> str:
    """The last word of a path: ``revision`` of ``expected_revision``."""
    words = re.findall(r"[a-zA-Z]+", path)
    return words[-1] if words else ""


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{spelled(str(key))}" if path else spelled(str(key)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    elif value is not None and value != "" and not isinstance(value, bool):
        yield path, value


def _text(message: BaseMessage) -> str:
    return message.text if isinstance(message.content, list) else str(message.content)
