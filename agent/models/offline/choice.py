"""Which tools a task may need, by the words of the task and of what each tool does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.models.offline import words
from agent.models.offline.catalog import ToolCard, read_tools
from agent.models.offline.choose import asked_actions, choose
from agent.models.offline.request import Clause, parse


def tools_for(said: str, catalogue: Mapping[str, str]) -> list[str]:
    """Tools that read about what is said, and those that change it where that is asked for. What
    names nothing that is here may need any that reads.

    Args:
        catalogue: What each tool does, by its name.
    """
    cards = read_tools([_spec(name, does) for name, does in catalogue.items()])
    return sorted({name for clause in parse(said) for name in _for(clause, cards)})


def _for(clause: Clause, cards: tuple[ToolCard, ...]) -> set[str]:
    best = choose(clause, cards)
    about = _subjects(clause) | (best.card.things if best else frozenset())
    wanted = asked_actions(clause)
    fitting = {
        card.name
        for card in cards
        if card.things & about and (not card.writes or card.actions & wanted)
    }
    fitting |= {best.card.name} if best else set()
    return fitting or {card.name for card in cards if not card.writes}


def _subjects(clause: Clause) -> frozenset[str]:
    return frozenset(c for word in words.tokens(clause.text) for c in words.concepts_of(word))


def _spec(name: str, does: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}}
    function = {"name": name, "description": does, "parameters": parameters}
    return {"type": "function", "function": function}
