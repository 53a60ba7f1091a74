"""Simulated users: each is a function from the agent's last answer to the next message."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

_WORD = re.compile(r"[^\W_]+")
_QUESTION = re.compile(r"[^.!?\n]*\?")


class User(Protocol):
    """Says what a user says next."""

    def __call__(self, answer: str | None) -> str | None:
        """The next message, or ``None`` when there is nothing more to say.

        Args:
            answer: The agent's last answer; ``None`` before the first message.
        """
        ...


@dataclass
class Scripted:
    """Says prepared messages one after the other, whatever is answered."""

    messages: Sequence[str]
    _said: int = 0

    def __call__(self, answer: str | None) -> str | None:
        """The next one."""
        if self._said == len(self.messages):
            return None
        self._said += 1
        return self.messages[self._said - 1]


@dataclass
class WithGoal:
    """Wants something, and tells what he knows only when asked.

    A fact is told when a question of the answer has one of the words that it stands under, as a
    whole word and in any case; each once. Where a question is about none of them, he does not know.
    Without a question there is nothing more to say.

    Args:
        goal: His first message.
        facts: What he knows, by the words that ask for it: ``{"order number": "It is A1."}``.
        unknown: What he says when he is asked for something else.
    """

    goal: str
    facts: Mapping[str, str] = field(default_factory=dict)
    unknown: str = "I do not know."
    told: list[str] = field(default_factory=list)
    """The facts that were told, in order."""

    def __call__(self, answer: str | None) -> str | None:
        """The goal, then an answer to each question."""
        if answer is None:
            return self.goal
        questions = " ".join(_QUESTION.findall(answer))
        if not questions:
            return None
        asked = _words(questions)
        found = [fact for about, fact in self.facts.items() if _words(about) & asked]
        new = [fact for fact in found if fact not in self.told]
        self.told += new
        return " ".join(new) if new else self.unknown


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}
