"""Greetings, thanks and "what can you do?"."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agent.models.offline import answer
from agent.models.offline.catalog import ToolCard

_HELP = re.compile(
    r"\b(?:what (?:can|could|do) you (?:do|help|offer)|how can you help|who are you|"
    r"what are you|help me\W*$|your (?:tools|abilities|capabilities)|(?:which|what) tools|"
    r"how does this work|^\W*how (?:do|can|could|would|should) (?:i|we|one)|"
    r"are you (?:an? )?(?:ai|bot|human|real|llm|model))\b|^\W*help\W*$",
    re.I,
)
_GREETING = re.compile(
    r"^\W*(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|howdy|"
    r"greetings)(?: there| all| sayso)?\W*(?:how are you|how's it going|"
    r"how do you do)?\W*$|^\W*how are you(?: today| doing)?\W*$",
    re.I,
)
_THANKS = re.compile(
    r"^\W*(?:(?:many |great,? |ok(?:ay)?,? )?thanks?(?: you)?(?: (?:so|very) much|"
    r" a lot)?|cheers|great|perfect|nice|good job|well done|bye|goodbye|good night|"
    r"see you)\W*$",
    re.I,
)


def reply(text: str, cards: Sequence[ToolCard]) -> str | None:
    """An answer to small talk, or ``None`` when the text is something else."""
    if not text.strip(" .!?"):
        return "What should I do? " + answer.abilities(cards)
    if _HELP.search(text):
        return answer.abilities(cards)
    if _GREETING.match(text):
        return "Hello. " + answer.abilities(cards)
    if _THANKS.match(text):
        return "You are welcome. Say what else you need."
    return None
