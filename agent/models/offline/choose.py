"""Which tool a clause means, judged by words: its action, the things it is about, its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from agent.models.offline import words
from agent.models.offline.catalog import ToolCard
from agent.models.offline.entities import find_entities
from agent.models.offline.fill import accepts, fill
from agent.models.offline.request import Clause

_ENOUGH = 2.5
_ARTICLES = frozenset({"the", "a", "an", "my", "all", "any", "every", "each", "some"})
_FORBIDS = re.compile(r"\b(?:do not|don['’]?t|never|must not|should not|shouldn['’]t)\b", re.I)
_SINGLE = {"id": 1.0, "path": 1.0, "url": 2.0, "expression": 3.0}


@dataclass(frozen=True)
class Choice:
    """The tool a clause means. ``score`` is only good for comparing."""

    card: ToolCard
    score: float


def asked_actions(clause: Clause) -> frozenset[str]:
    """The actions the clause asks for: those of its first verb, or of a verb with a particle."""
    text = clause.bare.lower()
    if _FORBIDS.search(clause.text):
        return frozenset()
    if re.search(r"\bmoney back\b|\b(?:pay|paid|give|send|transfer|get)\b.{0,30}\bback\b", text):
        return frozenset({"refund"})
    if re.search(r"^order (?:me|us|a|an|some|two|three|\d+)\b", text):
        return frozenset({"buy"})
    if re.search(r"\bcall(?:ed)? .{0,20}\boff\b", text):
        return frozenset({"cancel"})
    if re.search(r"\bget rid of\b|\bthrow away\b", text):
        return frozenset({"delete"})
    lead = clause.lead
    if words.actions_of(lead) and (words.is_imperative(lead) or lead in ("what", "which", "who")):
        return words.actions_of(lead)
    if clause.is_question or not lead:
        return frozenset({"get", "list"})
    for word in words.tokens(clause.bare):
        if words.is_imperative(word):
            return words.actions_of(word)
    return frozenset()


@lru_cache(maxsize=512)
def choose(clause: Clause, cards: tuple[ToolCard, ...]) -> Choice | None:
    """The best fitting tool, or ``None`` when nothing fits well enough.

    A tool that changes something is never chosen unless the clause asks for its action.
    """
    wanted = asked_actions(clause) or _implied(clause, cards)
    rarity = _rarity(cards)
    scored = [(s, -i, c) for i, c in enumerate(cards) if (s := _score(clause, wanted, c, rarity))]
    if not scored:
        return None
    score, _, card = max(scored, key=lambda x: (x[0], x[1]))
    return Choice(card, score) if score >= _ENOUGH else None


def _implied(clause: Clause, cards: Sequence[ToolCard]) -> frozenset[str]:
    """Without any verb ("pending orders, please") the thing named is to be shown."""
    first = clause.words[0] if clause.lead in _ARTICLES and clause.words else clause.lead
    if forbids(clause) or first in words.STOP:
        return frozenset()
    known = frozenset[str]().union(*(c.things | c.other_words for c in cards))
    if re.match(r"[A-ZÀ-Þ]\w+(?: [A-ZÀ-Þ]\w+){0,2}['’]s\b", clause.text):
        return frozenset({"get", "list"})
    named = not words.actions_of(first) and words.concepts_of(first) & known
    return frozenset({"get", "list"}) if named else frozenset()


@lru_cache(maxsize=16)
def _rarity(cards: tuple[ToolCard, ...]) -> dict[str, float]:
    counts: dict[str, int] = {}
    for card in cards:
        for c in card.things | card.summary_words:
            counts[c] = counts.get(c, 0) + 1
    return {c: n**-0.5 for c, n in counts.items()}


def _score(
    clause: Clause, wanted: frozenset[str], card: ToolCard, rarity: dict[str, float]
) -> float | None:
    acts = bool(wanted & card.actions) or _names_verb(clause, card)
    if card.writes and not acts:
        return None
    if not card.writes and not acts and _commands_a_change(clause, wanted):
        return None
    said = [c for w in clause.words for c in words.concepts_of(w)]
    about = 0.0
    for c in dict.fromkeys(said):
        if c in card.things:
            about += 2.0 * rarity.get(c, 1.0)
        elif c in card.summary_words:
            about += 1.0 * rarity.get(c, 1.0)
        elif c in card.other_words:
            about += 0.4
    filling = fill(card, clause)
    given = filling.variants[0] if filling.variants else {}
    fit = sum(_SINGLE[p.role] for p in card.params if p.name in given and p.role in _SINGLE)
    fit += sum(0.5 for p in card.params if p.name in given and p.role not in (*_SINGLE, "query"))
    lost = {e.kind for t in clause.texts for e in find_entities(t) if not accepts(card, e)}
    fit -= 1.5 * len(lost - {"currency", "date", "period"} if card.param("query") else lost)
    missing = [p for p in filling.missing if p.required]
    fit -= (0.3 if card.writes else 1.5) * len(missing)
    if card.writes and _same_target(clause, card):
        about += 1.0
    if not about and not any(p.name in given and p.role in _SINGLE for p in card.params):
        return None
    return about + fit + (2.0 if acts else 0.0)


def _names_verb(clause: Clause, card: ToolCard) -> bool:
    """Whether the clause begins with the tool's own verb, known to the thesaurus or not."""
    if words.actions_of(clause.lead) and not words.actions_of(clause.lead) & asked_actions(clause):
        return False  # "get rid of" does not ask to get anything
    return bool(clause.lead) and words.stem(clause.lead) in {words.stem(t) for t in card.actions}


def _same_target(clause: Clause, card: ToolCard) -> bool:
    """A verb alone is enough when the thing is a pronoun or nothing else is said."""
    return clause.has_pronoun or len(clause.words) <= 2


def _commands_a_change(clause: Clause, wanted: frozenset[str]) -> bool:
    """An order to do something that is not reading, such as "delete", or an unknown verb."""
    if wanted:
        return not wanted & words.READ_ACTIONS
    return False


def forbids(clause: Clause) -> bool:
    """Whether the clause says what should not be done ("don't cancel A1")."""
    kept = clause.lead in ("leave", "keep", "spare", "skip")
    asks = clause.text.rstrip().endswith("?")
    return (kept or bool(_FORBIDS.search(clause.text))) and not asks


def searcher(cards: Sequence[ToolCard]) -> ToolCard | None:
    """The tool that answers free questions: a read that takes a query and needs nothing else."""
    for card in cards:
        query = card.param("query")
        if not card.writes and query and {p.name for p in card.required} <= {query.name}:
            return card
    return None
