"""What in a stranger's text reads like an attempt to steer: a hint for people, never a verdict.

It knows a few ways of speaking, and whoever knows it too can avoid them all. So it decides
nothing: what it finds is shown to the reviewer and kept in the trail.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from agent.provenance.labels import labels_in
from agent.provenance.marks import RAW, attached_to
from agent.provenance.texts import decoded_parts
from agent.provenance.tokens import fold

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool

MOST = 3
"""Passages that are named of one text."""

LONGEST = 160
"""Characters of a passage."""

MOST_CHARACTERS = 200_000
"""Of a text that is looked through."""

_WORDS = r"(?:\W+\w+){0,%d}\W+"
_STEERING = tuple(
    re.compile(pattern)
    for pattern in (
        # orders to forget orders
        r"\b(?:ignore|disregard|forget|override)" + _WORDS % 4
        + r"(?:instructions?|rules|prompts?|guidelines|directions|tasks?)\b",
        r"\bnew (?:instructions?|task|objective)\s*:",
        # words to a machine
        r"\b(?:note|message|instructions?|attention|information)" + _WORDS % 2
        + r"(?:ai|llm|assistants?|agents?|(?:language )?models?|chatbots?)\b",
        r"\b(?:you are|as) an? (?:ai|assistant|language model|helpful)\b",
        r"\b(?:dear|hey|hi|hello),? (?:ai|assistant|model|chatgpt|claude)\b",
        r"^\s*(?:system|assistant|developer)\s*(?:message|prompt)?\s*:",
        r"<\|?/?(?:im_start|im_end|system|endoftext|information)\|?>|\[/?inst\]",
        # words in the user's name, and behind their back
        r"\b(?:user|owner|reviewer|admin\w*) (?:has |have )?"
        r"(?:already )?(?:approved|authori[sz]ed|confirmed|agreed|consented)\b",
        r"\b(?:without|do not|don't|never) (?:ask|tell|inform|notify|mention|alert)\w*"
        r"(?:\W+\w+){0,4}\W*\b(?:user|owner|them|anyone|this)\b",
        # orders to take something somewhere
        r"\b(?:send|forward|transfer|wire|upload|(?:e-?mail|post|share)(?=\W+(?:it|this|that|them|the"
        r"|these|those|all|any|my|your|our|me|us)\b))\b(?![\"']?\s*:)[^\n]{0,160}?"
        r"(?:@[\w-]+\.\w|https?://|\b[a-z]{2}\d{2}[a-z0-9 ]{10,})",
        r"\b(?:important|urgent)\s*!{2,}",
        r"\bbefore you (?:can )?(?:solve|do|answer|continue|proceed)\b",
    )
)  # fmt: skip
_HIDDEN = re.compile(
    "[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\U000e0000-\U000e007f]{3,}"
)


@lru_cache(maxsize=512)
def suspicions(text: str) -> tuple[str, ...]:
    """Passages of a text that read like an attempt to steer, each at most ``LONGEST`` long."""
    text = text[:MOST_CHARACTERS]
    found = ["characters that are not seen"] if _HIDDEN.search(text) else []
    for said in (text, *decoded_parts(text)):
        for line in said.splitlines():
            if len(found) >= MOST:
                return tuple(found)
            if (passage := _steering(line)) and passage not in found:
                found.append(passage)
    return tuple(found)


def suspicious_in(
    messages: Sequence[BaseMessage], tools: Mapping[str, BaseTool]
) -> list[tuple[str, str]]:
    """What strangers' texts of a session have of it, the newest first: where, and the passage."""
    found = []
    for message in reversed(messages):
        for where, text in _strange(message, tools):
            found += [(where, passage) for passage in suspicions(text)]
    return list(dict.fromkeys(found))


def _strange(message: BaseMessage, tools: Mapping[str, BaseTool]) -> list[tuple[str, str]]:
    texts = [(one["source"], one["text"]) for one in attached_to(message)]
    if message.type != "tool":
        return texts
    name = getattr(message, "name", None) or ""
    tool = tools.get(name)
    if tool is None or "untrusted" in labels_in(message, tool):  # type: ignore[arg-type]
        texts.append((name, str(message.additional_kwargs.get(RAW) or message.content)))
    return texts


def _steering(line: str) -> str | None:
    """The part of a line that steers, with what stands around it."""
    folded = fold(line)
    shown = line if len(line) == len(folded) else folded
    for pattern in _STEERING:
        if match := pattern.search(folded):
            start = shown.rfind(" ", 0, max(match.start() - 15, 0)) + 1
            return shown[start : start + LONGEST].strip()
    return None
