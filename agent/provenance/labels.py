"""The labels that a session takes on by what it reads: ``untrusted`` and ``private``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from agent.provenance.marks import attached_to, opening
from tools.contract import UNKNOWN_EFFECTS, contract_of

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage, ToolMessage
    from langchain_core.tools import BaseTool


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
    return labels_of(tool) if _counts(message, tool.name) else set()


def _counts(message: ToolMessage, tool: str) -> bool:
    return message.status == "success" or opening(tool) in str(message.content)


def labels_of_results(messages: Iterable[BaseMessage], tools: Mapping[str, BaseTool]) -> set[str]:
    """The labels that all results among these messages give.

    A result of a tool that is not loaded any more gives both: nobody can say what it was.
    """
    found: set[str] = set()
    adding: dict[str | None, bool] = {}
    """By the name of a tool, whether its results give a label that is not there yet."""
    for message in messages:  # of a whole session, before every call
        if message.type == "human" and attached_to(message):
            return {"untrusted", "private"}
        if message.type != "tool" or not adding.get(message.name, True):
            continue
        tool = tools.get(message.name or "")
        labels = labels_of(tool) if tool is not None else {"untrusted", "private"}
        if not labels <= found and _counts(cast("ToolMessage", message), message.name or ""):
            found |= labels
        adding[message.name] = not labels <= found
    return found


def carries_out(effects: Iterable[str]) -> bool:
    """Whether a call with these effects may take what is in its arguments to somebody else: a
    disclosure, the network, another's server, and what is unknown."""
    return any(
        effect.startswith(("disclose:", "network:")) or effect.partition(":")[2].startswith("mcp.")
        for effect in effects
    ) or not UNKNOWN_EFFECTS.isdisjoint(effects)
