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
    if message.status == "success" or opening(tool.name) in str(message.content):
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


def carries_out(effects: Iterable[str]) -> bool:
    """Whether a call with these effects may take what is in its arguments to somebody else: a
    disclosure, the network, another's server, and what is unknown."""
    return any(
        effect.startswith(("disclose:", "network:")) or effect.partition(":")[2].startswith("mcp.")
        for effect in effects
    ) or not UNKNOWN_EFFECTS.isdisjoint(effects)
